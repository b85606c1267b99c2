"""A changed definition is refused by a line or a claim, and so are the faults that the check once missed."""

from dataclasses import replace

import pytest
from iclflow.numerics import compiled
from iclflow.theory.derivations.heads import E, as_sympy
from iclflow.theory.equations import equation
from iclflow.theory.notation import D, H, Lambda, Lambda_hat, Lambda_q, N, P, vector, w_init, x_q
from iclflow.theory.results.landscape.fixed_points import m
from iclflow.theory.results.task.regression import X, X_c, y
from iclflow.verify.claims.book import load
from line_mutations import definition_is_held, planted
from sympy import BlockMatrix, Identity, ZeroMatrix

OTHERS = Identity(D) - P  # the projector onto the directions that are not learned


def twice(formula):
    return 2 * formula


def not_zero(_):
    return vector("c", D)


def longer(formula):
    """The average over N + 1 tokens."""
    return N * formula / (N + 1)


def other_directions(formula):
    return formula.subs(P, OTHERS)


def fourth_powers(formula):
    return formula.replace(lambda one: one.is_Pow and one.exp == 2, lambda one: one.base**4)


RIGHT_SIDES = [
    ("1", "", lambda _: BlockMatrix([[X_c, x_q], [2 * y.T, ZeroMatrix(1, 1)]])),
    ("2", "mean", not_zero),
    ("2", "covariance", lambda covariance: covariance**2),
    ("3", "mean", not_zero),
    ("3", "covariance", twice),
    ("4", "context", twice),
    ("4", "query", twice),
    ("5", "", lambda output: 2 * output - X),
    ("5-linear", "", lambda output: X + longer(output - X)),
    ("6", "", twice),
    ("8", "", longer),
    ("9", "", twice),
    ("9", "", fourth_powers),
    ("10", "", twice),
    *(("12", part, twice) for part in ("w", "W", "row", "z")),
    *((number, part, twice) for number in ("21", "81") for part in ("active query", "active key")),
    *((number, part, other_directions) for number in ("21", "81") for part in ("map", "waiting head")),
    *((number, "", other_directions) for number in ("22", "82")),
    ("28", "", longer),
    *(("34", part, twice) for part in ("v", "U")),
    *(("36", part, twice) for part in ("v", "k", "q")),
    *(("58", part, other_directions) for part in ("a", "b")),
]
DATA_AND_WEIGHTS = ("1", "2", "3", "4", "5", "5-linear", "6", "8", "9", "12", "34", "36")


def changed(number, part, change):
    entry = equation(number)
    parts = {**entry.parts, part: change(entry.part(part or None))}
    return replace(entry, typed=lambda: parts if part else parts[""])


@pytest.mark.parametrize(("number", "part", "change"), RIGHT_SIDES)
def test_a_changed_definition_is_refused(number, part, change):
    assert definition_is_held(number, changed(number, part, change))


@pytest.mark.parametrize("number", ["8", "21", "58"])
def test_nothing_contradicts_the_definition(number):
    assert not definition_is_held(number, equation(number))


@pytest.mark.parametrize("number", ["21", "81"])
@pytest.mark.parametrize("part", ["active query", "active key"])
def test_active_heads_in_the_other_directions_are_refused(number, part):
    entry = equation(number)
    lefts = entry.left()
    left = {**lefts, part: other_directions(lefts[part])}
    assert definition_is_held(number, replace(entry, left=left))


@pytest.mark.parametrize(("number", "part", "change"), [one for one in RIGHT_SIDES if one[0] in DATA_AND_WEIGHTS])
def test_data_networks_and_weights_contradict_it(number, part, change):
    claims = [check for check in load().select([number]) if check.measure.__module__.endswith("definitions")]
    if part in ("w", "W", "row"):
        return  # of the network, which lines hold to attention
    with planted(changed(number, part, change)):
        assert any(claim.status == "fails" and claim.error is None for claim in (check.run() for check in claims))


MISSED = {
    "a third power on the left of (31)": ("31", "first", lambda line: replace(line, left=E(Lambda_hat**3))),
    "the level of m + 1 on the right of (24)": ("24", "loss", lambda line: replace(line, right=line.right.subs(m, m + 1))),
    "the drop of m + 1 on the left of (24)": ("24", "drop", lambda line: replace(line, left=line.left.subs(m, m + 1))),
    "a doubled first step of (79)": ("79", 0, lambda line: replace(line, right=2 * as_sympy(line.right))),
    "a sign in (61)": ("61", "a", lambda line: replace(line, right=-as_sympy(line.right))),
    "a condition of (15): tokens that are not white": (
        "15",
        "sigmoid",
        lambda line: replace(line, earlier=tuple(replace(one, right=Lambda_q) if one.left == Lambda else one for one in line.earlier)),
    ),
    "the first condition of (78) left out": ("78", 5, lambda line: replace(line, conditions=line.conditions[1:])),
    "the erratum of (21) turned round": ("C3", "!=", lambda line: replace(line, relation="=")),
}


@pytest.mark.parametrize("fault", MISSED)
def test_faults_that_were_missed_once(fault):
    number, place, change = MISSED[fault]
    lines = equation(number).lines
    line = lines[place] if isinstance(place, int) else next(line for line in lines if place in (line.part, line.relation))
    assert line.verify()
    assert not change(line).verify()


def test_a_planted_entry_is_compiled_anew():
    value = compiled("34", (H, w_init), part="v")
    with planted(changed("34", "v", twice)):
        assert compiled("34", (H, w_init), part="v")(2, 0.1) == 2 * value(2, 0.1)
    assert compiled("34", (H, w_init), part="v")(2, 0.1) == value(2, 0.1)
