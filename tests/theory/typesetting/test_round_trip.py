"""What a line prints as text means the line: the grammar of ``iclflow expect`` reads the same object back."""

from collections import Counter

from iclflow.theory.algebra.letters import letters, printed_name
from iclflow.theory.algebra.parsing import MAX_LENGTH, symbol
from iclflow.theory.algebra.polynomial import TracePolynomial
from iclflow.theory.derivations.derivation import formulas
from iclflow.theory.equations import equations
from iclflow.theory.notation import D, Lambda, N, matrix
from iclflow.theory.typesetting.latex import formula_text
from reading import parse
from sympy import Identity, MatMul, Symbol, log


def is_known(letter) -> bool:
    try:
        return symbol(printed_name(letter)) == letter
    except ValueError:
        return False


def outcome(formula) -> str:
    """Read back the text of a formula: "the same", "another", or the reason why it is not read."""
    try:
        polynomial = TracePolynomial(formula)
    except (ValueError, TypeError):
        return "not a polynomial"
    if not all(map(is_known, letters(formula).symbols)):
        return "a letter that only the entry knows"
    if any(one.shape[0] not in (1, D) for one in getattr(formula, "atoms", lambda _: ())(Identity)):
        return "an identity of another size"
    text = formula_text(formula)
    if len(text) > MAX_LENGTH:
        return "too long"
    return "the same" if parse(text) == polynomial else "another"


def test_every_line_that_the_grammar_can_read_is_read_back():
    counts = Counter()
    for entry in equations():
        for line in entry.lines:
            for formula in (one for side in (line.left, line.right) for one in formulas(side) if not isinstance(one, str)):
                found = outcome(formula)
                counts[found] += 1
                assert found != "another", (entry.number, formula_text(formula))
    assert counts["the same"] > 900
    assert counts["too long"] < 3
    assert counts["an identity of another size"] < 8  # of R heads, of K tasks
    assert set(counts) <= {"the same", "not a polynomial", "a letter that only the entry knows", "an identity of another size", "too long"}


def test_the_reasons_are_told_apart():
    assert outcome(Lambda**2 + Lambda / N) == outcome(1 / (N + 1)) == "the same"
    assert outcome(log(N)) == "not a polynomial"
    assert outcome(Symbol("lambda", real=True) * Lambda) == "a letter that only the entry knows"
    assert outcome(N * Identity(D**2)) == "an identity of another size"
    assert outcome(MatMul(*[matrix("A", D), Lambda] * 250)) == "too long"
