"""The unreduced model under mixed laws of the task (V6), against the prompt matrix written out entry by entry."""

from dataclasses import replace
from fractions import Fraction

import pytest
import sympy
from entries import Entries, isserlis
from iclflow.theory import Fixed, Gaussian, Mixture, TracePolynomial, expect, explicit, substitute
from iclflow.theory.equations import equation
from iclflow.theory.notation import B_rest, D, Lambda, N, gamma, lambda_, v_i, w, w_init, y_q
from iclflow.theory.results.attention.blocks import U_i, merged_expansion, u_i, value_row
from iclflow.theory.results.in_weight.features import cross_moments, feature_moments, target_square
from iclflow.theory.results.in_weight.idle_heads import COLUMN_SIZE, KEY_SIZE, MAP, SEQUENCES, _u
from iclflow.theory.results.in_weight.moving_blocks import b
from iclflow.theory.results.in_weight.population_loss import _J, mixed_tasks, noise_average, portion, w_0
from sympy import Rational

SIZE, LENGTH, P = 2, 2, Fraction(1, 3)
LAMBDA = [[2, 1], [1, 3]]
TASK = [[1], [-2]]
HEADS = (
    {"row": [[1], [2]], "v": 3, "U": [[1, -1], [2, 0]], "u": [[-1], [1]]},
    {"row": [[0], [-1]], "v": -2, "U": [[0, 2], [1, 1]], "u": [[2], [1]]},
)


def prediction(head, tokens, labels):
    """Equation (7) from the prompt (1), its corner masked: rational entries in the tokens, the labels and the query."""
    context = [tokens.rows[i][:LENGTH] for i in range(SIZE)]
    query = Entries([[tokens.rows[i][LENGTH]] for i in range(SIZE)])
    X = Entries([*(row + query.rows[i] for i, row in enumerate(context)), [*labels.rows[0], {}]])
    value = Entries.constant([[*(x for (x,) in head["row"]), head["v"]]])
    key_query = Entries.constant([*head["U"], [x for (x,) in head["u"]]])
    return value * X * X.T * key_query * query * Fraction(1, LENGTH)


def oracle(kind):
    """E y_q^2, E(y_q y_hat_1) and E(y_hat_1 y_hat_2) for one kind of task vector and labels."""
    tokens = Entries.variables([[("x", n, i) for n in range(LENGTH + 1)] for i in range(SIZE)])
    task = Entries.variables([[("w", 0, i)] for i in range(SIZE)]) if kind == "random" else Entries.constant(TASK)
    truth = task.T * tokens
    context = Entries([truth.rows[0][:LENGTH]])
    labels = Entries.variables([[("e", n, 0) for n in range(LENGTH)]]) if kind == "noise" else context
    target = Entries([[truth.rows[0][LENGTH]]])

    def covariance(first, second):
        (one, n, i), (other, m, j) = first, second
        return Fraction(LAMBDA[i][j] if one == "x" else int(i == j)) if (one, n) == (other, m) else 0

    moment = isserlis(covariance)
    one, two = (prediction(head, tokens, labels) for head in HEADS)
    return tuple(product.expectation(moment)[0][0] for product in (target * target, target * one, one * two))


def value(expression):
    first, second = HEADS
    numbers = {v_i: first["v"], _J[0]: second["v"], portion: Rational(1, 3)}
    matrices = {
        Lambda: LAMBDA,
        w_0: TASK,
        w: TASK,
        value_row: first["row"],
        U_i: first["U"],
        u_i: first["u"],
        **{letter: second[name] for letter, name in zip(_J[1:], ("row", "U", "u"), strict=True)},
    }
    scalar = substitute(TracePolynomial(expression), {k: Rational(x) for k, x in numbers.items()})
    result = explicit(scalar, values={k: sympy.Matrix(x) for k, x in matrices.items()}, D=SIZE, N=LENGTH)
    result = result[0, 0] if isinstance(result, sympy.MatrixBase) else sympy.sympify(result)
    return Fraction(int(result.p), int(result.q))


def squared_velocities(Lambda_, B_):
    """E|slope|^2 of one squared error by the row and by the column of a head v = 3, U = I, all others (the map B) with zero blocks.

    The prompt's prediction is linear in each block, so a slope is that of a unit block times what is left of the label.
    """
    tokens = Entries.variables([[("x", n, i) for n in range(LENGTH + 1)] for i in range(SIZE)])
    truth = Entries.variables([[("w", 0, i)] for i in range(SIZE)]).T * tokens
    labels, target = Entries([truth.rows[0][:LENGTH]]), Entries([[truth.rows[0][LENGTH]]])

    def covariance(first, second):
        (one, n, i), (other, m, j) = first, second
        return Fraction(Lambda_[i][j] if one == "x" else int(i == j)) if (one, n) == (other, m) else 0

    moment, nothing, square = isserlis(covariance), [[0]] * SIZE, [[0] * SIZE] * SIZE
    identity = [[int(i == j) for j in range(SIZE)] for i in range(SIZE)]
    units = [[[entry] for entry in row] for row in identity]
    left = target + prediction({"row": nothing, "v": 1, "U": B_, "u": nothing}, tokens, labels) * -1
    by_row = [{"row": unit, "v": 0, "U": identity, "u": nothing} for unit in units]
    by_column = [{"row": nothing, "v": 3, "U": square, "u": unit} for unit in units]
    slopes = ([left * prediction(head, tokens, labels) for head in heads] for heads in (by_row, by_column))
    return tuple(sum((slope * slope).expectation(moment)[0][0] for slope in both) for both in slopes)


@pytest.mark.parametrize(("Lambda_", "map_", "names"), [(LAMBDA, 0, ("v", "u")), ([[2, 0], [0, 2]], -3, ("v white", "u white"))])
def test_velocities_on_finite_sets_equal_the_prompt_written_out(Lambda_, map_, names):
    derived, found = equation("V6-leak").derive().parts, []
    for name in names:
        part = substitute(derived[name], {v_i: 3, b: map_, lambda_: 2})
        result = explicit(part, values={Lambda: sympy.Matrix(Lambda_)}, D=SIZE, N=LENGTH)
        found.append(Fraction(str(result[0, 0] if isinstance(result, sympy.MatrixBase) else result)))
    assert tuple(found) == squared_velocities(Lambda_, [[map_, 0], [0, map_]])


@pytest.mark.parametrize(
    "number", ["V6-task", "V6", "V6-memory", "V6-zero", "V6-leak", "V6-idle", "V6-ordinary", "V6-escape", "V6-five", "V6-error"]
)
def test_entries_hold(number):
    assert equation(number).holds()


def test_mixture_equals_the_prompt_written_out():
    random, fixed = oracle("random"), oracle("fixed")
    expected = tuple(P * one + (1 - P) * other for one, other in zip(random, fixed, strict=True))
    derived = equation("V6").derive().parts
    assert tuple(value(derived[part]) for part in ("square", "target", "overlap")) == expected
    given_task = equation("V6-task").derive().parts
    assert tuple(value(given_task[part]) for part in ("target", "overlap")) == fixed[1:]


def test_noise_in_the_context_equals_the_prompt_written_out():
    square, target, overlap = oracle("noise")
    derived = equation("V6-memory").derive().parts
    assert value(noise_average(y_q**2)) == square
    assert (value(derived["target"]), value(derived["overlap"])) == (target, overlap)


@pytest.mark.parametrize(
    ("number", "part", "change"),
    [
        ("V6", "overlap", {portion: portion**2}),
        ("V6-memory", "overlap", {v_i: -v_i}),
        ("V6-zero", "v", {N: N + 1}),
        ("V6-zero", "u at the origin", {v_i: 1}),
        ("V6-leak", "u", {N: 2 * N}),
        ("V6-leak", "v white", {b: -b}),
        ("V6-leak", "u white", {D: D + 1}),
        ("V6-idle", "one direction", {_u: -_u}),
        ("V6-idle", "at rest", {N: N + 1}),
        ("V6-idle", "map", {SEQUENCES: SEQUENCES**2}),
        ("V6-idle", "pace", {KEY_SIZE: -KEY_SIZE}),
        ("V6-idle", "row at rest", {MAP: 2 * MAP}),
        ("V6-idle", "small column", {SEQUENCES: SEQUENCES**2}),
        ("V6-idle", "matrix, many sequences", {COLUMN_SIZE: COLUMN_SIZE**2}),
        ("V6-ordinary", "row", {B_rest: 2 * B_rest}),
        ("V6-ordinary", "power", {gamma: gamma**2}),
        ("V6-ordinary", "crossing", {w_init: w_init**2}),
        ("V6-ordinary", "white", {N: N + 1}),
        ("V6-ordinary", "white power", {D: D**2}),
        ("V6-escape", "12", {D: D + 1}),
        ("V6-error", "row", {D: D + 1}),
        ("V6-error", "corner", {portion: 1 - portion}),
        ("V6-error", "across", {N: N + 1}),
        ("V6-error", "map", {w_init: w_init**2}),
        ("V6-error", "loss across", {w_init: sympy.sqrt(w_init)}),
    ],
)
def test_wrong_statements_are_refused(number, part, change):
    entry = equation(number)
    formula = entry.parts[part]
    wrong = formula.subs(change) if isinstance(formula, sympy.Expr) else substitute(formula, change)
    assert not replace(entry, typed=lambda: {**entry.parts, part: wrong}).holds()


def test_at_portion_one_the_loss_is_that_of_the_papers_task():
    head = merged_expansion()
    derived = equation("V6").derive().parts
    assert substitute(derived["target"], {portion: 1}) == expect(y_q * head)
    assert w_0 not in substitute(derived["overlap"], {portion: 1}).free_symbols


def test_one_repeated_vector_moves_the_blocks_and_an_opposite_pair_does_not():
    moved = equation("V6-zero").derive().parts
    pair = Mixture(((Rational(1, 2), Fixed(w, w_0)), (Rational(1, 2), Fixed(w, -TracePolynomial(w_0)))))
    for part in ("v", "u"):
        assert not expect(moved[part], Gaussian(w)).terms
        assert not expect(moved[part], pair).terms
        assert expect(moved[part], mixed_tasks).terms
    # E(w) = 0 is not enough: 2 w_0 and twice as often -w_0
    skewed = Mixture(((Rational(1, 3), Fixed(w, 2 * w_0)), (Rational(2, 3), Fixed(w, -TracePolynomial(w_0)))))
    assert not expect(moved["v"], skewed).terms
    assert expect(moved["u"], skewed).terms


def test_where_all_tasks_are_random_the_origin_is_left_at_the_rate_of_the_reduced_model():
    escape = equation("V6-escape").derive().parts
    at_one = {part: sympy.simplify(escape[part].subs(portion, 1)) for part in ("11", "22", "12")}
    assert at_one == {"11": lambda_**4, "22": D * lambda_**4, "12": 0}  # ||Lambda^2||_F = sqrt(D) lambda^2


def test_features_fill_the_moments_of_heads():
    """A head's target moment is that of its features, weighted by products of its weights."""
    cross = cross_moments("random")
    assert set(cross) == {"tokens", "cross", "label"}
    assert [len(slots) for _, slots in cross.values()] == [3, 2, 1]
    assert [len(slots) for _, slots in feature_moments("random").values()] == [6, 5, 4, 5, 4, 3, 4, 3, 2]
    assert target_square("random") == expect(y_q**2)
    assert not cross["tokens"][0].terms  # an odd moment of a symmetric law
    assert cross_moments("fixed")["tokens"][0].terms
