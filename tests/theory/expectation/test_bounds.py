"""Too much work is refused before it starts, with the estimate and what is feasible; the estimate is near the number of terms."""

import pytest
from iclflow.theory import expect, gradient
from iclflow.theory.algebra.terms import Terms
from iclflow.theory.expectation import bounds
from iclflow.theory.notation import D, Lambda, Lambda_hat, matrix, w, x_q
from iclflow.theory.results.own_model.two_steps import descend
from reading import parse
from sympy import Symbol, Trace
from sympy.matrices.expressions import MatrixSymbol


@pytest.mark.parametrize(
    ("text", "feasible"),
    [
        ("S^40", 20),
        ("tr(S)^40", 20),
        ("((((S)^4)^4)^4)^4", 20),
        ("S " * 900, 20),
        ("S A S B S C S F S G S K S P", 6),
        ("tr(S)^30 tr(A S)^8", None),
        ("(tr((B + 1/2 S)) tr(A') S)^12", 20),
        ("(tr(A') Lambda S)^20", None),
        ("(tr(S S) B Lambda)^14", 20),
        ("S^2 B S^12", None),
        ("(w' A w w' B w w' C w)^9", None),
    ],
)
def test_high_degrees_are_refused_with_what_is_feasible(text, feasible, monkeypatch):
    monkeypatch.setattr("iclflow.theory.expectation.stein.Moments.average", lambda *_: pytest.fail("the work has begun"))
    with pytest.raises(ValueError, match="would take about") as found:
        expect(parse(text))
    assert feasible is None or str(found.value).endswith(f"such a product may hold about {feasible}")


def test_four_steps_of_descent_are_feasible():
    assert len(expect((w.T * x_q - descend(4)) ** 2).terms) > 6000


@pytest.mark.parametrize(
    ("text", "symbol"),
    [
        ("(S A)^6", Lambda_hat),
        ("S A S B S C S F", Lambda_hat),
        ("(S + A)^5", Lambda_hat),
        ("(w' A w)^8", w),
        ("(w' A w)^2 w' B w w' C w", w),
    ],
)
def test_the_estimate_is_near_a_power_of_the_number_of_terms(text, symbol, monkeypatch):
    monkeypatch.setattr(bounds, "MAX_STEPS", 0)  # refuses everything, with its estimate
    with pytest.raises(ValueError, match="would take about") as refused:
        expect(parse(text))
    estimate = float(str(refused.value).partition("about ")[2].split()[0]) ** (1 / 1.45)
    monkeypatch.undo()
    terms: Terms = expect(parse(text)).terms
    assert len(terms) / 8 < estimate < 8 * len(terms)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("(((S)^40)^41)^40", "an exponent of at most 40"),
        ("(A + B + C + F + G)^12", "more than 20000 terms"),
        ("(1/(N+D+H)+1)^20", "more than 20000 terms"),
        ("(1/(N+1)+1/D)^40", "more than 20000 terms"),
        ("1/(N+D+H+R)^10", None),
        ("1/((N+D+H)^30+1)", "more than 20000 terms"),
        ("(tr(S)+1)^40", "more than 20000 terms"),
    ],
)
def test_expressions_that_grow_are_refused_while_they_are_read(text, reason):
    if reason is None:
        assert len(parse(text).terms) == 1
        return
    with pytest.raises(ValueError, match=reason):
        parse(text)


def test_sums_of_many_denominators_are_read():
    assert len(parse("+".join(f"1/(N+{i})" for i in range(2, 40))).terms) == 38


def test_powers_of_a_denominator_need_no_reduction():
    assert str(parse("(1/(N+D+H))^40")) == "1/(D + H + N)^40"
    assert parse("(1/(N+D))^5 (N+D)") == parse("(1/(N+D))^4")


def test_two_symbols_of_one_name_are_refused():
    other = MatrixSymbol("A", D, D + 1)
    with pytest.raises(ValueError, match=r"expect: .* holds two symbols A, whose shape"):
        expect(Trace(matrix("A", D)) + Trace(other * other.T))
    with pytest.raises(ValueError, match=r"gradient: .* holds two symbols A"):
        gradient(Trace(matrix("A", D)) + Trace(other * other.T), other)
    with pytest.raises(ValueError, match=r"expect: .* holds two symbols N"):
        expect(Symbol("N") * Lambda_hat * Lambda_hat)


def test_a_term_may_lack_the_symbol():
    assert expect(Trace(w * x_q.T) ** 2 + 2) == Trace(Lambda) + 2
