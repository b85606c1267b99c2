"""Derivations: steps carry the left side of their equation."""

from iclflow.theory.derivations.derivation import Derivation, Step
from iclflow.theory.notation import Lambda, M


def test_results_carry_the_left_side_of_the_equation():
    steps = Derivation.by(Step("first", M, "own"), Step("second", Lambda), Step("third", Lambda)).labelled({"": "L"})
    assert [step.left for step in steps.steps] == ["own", "", "L"]
    parts = Derivation.by(Step("a", M, part="a"), Step("between", M), Step("b", Lambda, "own", "b")).labelled({"a": "A", "b": "B"})
    assert [step.left for step in parts.steps] == ["A", "", "own"]
    assert parts.result == {"a": M, "b": Lambda}
