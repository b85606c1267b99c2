"""The flow of separate attention and its conservation laws: against entry-by-entry differentiation, and with planted faults."""

from dataclasses import replace

import pytest
from iclflow.theory import explicit, substitute
from iclflow.theory.equations import equation
from iclflow.theory.notation import B, B_rest, D, G, K_i, Lambda, M, Q_i, k_i, q_i, symmetric_matrix, v_i
from iclflow.theory.results.separate.conservation import K_rest, Q_rest, conserved, k_r, q_r
from iclflow.theory.results.separate.flow import effective_map, flow_in_force, rank_one_head, rank_R_head
from iclflow.theory.results.task.regression import closed_loss
from sympy import Function, Matrix, Symbol, Trace, diff, expand, symbols, zeros

NUMBERS = ("18", "19", "52", "54", "79", "80", "85", "86", "T6")


@pytest.mark.parametrize("number", NUMBERS)
def test_it_holds(number):
    assert equation(number).holds()


def entries(symbol, rows, columns):
    return Matrix(rows, columns, lambda i, j: Symbol(f"{symbol.name}_{i}{j}"))


VALUES = {
    K_i: entries(K_i, 2, 2),
    Q_i: entries(Q_i, 2, 2),
    B_rest: Matrix([[2, -1], [3, 5]]),
    Lambda: Matrix([[3, 1], [1, 2]]),
    M: Matrix([[7, 2], [2, 5]]),
}


def test_equation_80_is_the_gradient_entry_by_entry():
    loss = explicit(substitute(closed_loss().result, {B: effective_map(rank_R_head())}), VALUES, D=2, R=2)
    rates = equation("80").derive().result
    assert expand(explicit(rates["a"], VALUES, D=2, R=2) + diff(loss, v_i) / 2) == 0
    for part, weights in (("b", VALUES[K_i]), ("c", VALUES[Q_i])):
        rate = explicit(rates[part], VALUES, D=2, R=2)
        assert (rate + weights.applyfunc(lambda entry: diff(loss, entry) / 2)).expand() == zeros(2, 2)


def test_the_chain_rule_and_the_whole_loss_give_the_same_flow():
    force = Lambda**2 - M * effective_map(rank_one_head()) * Lambda
    rates = [substitute(rate, {G: force}) for rate in flow_in_force(rank_one_head(), (v_i, k_i, q_i)).values()]
    assert rates == [equation("19").derive().result[part] for part in "abc"]
    assert equation("54").derive().result == equation("19").derive().result


def untransposed(head_map):
    return v_i * (Lambda**2 - Lambda * head_map * M) * (k_i if head_map.has(k_i) else K_i)


@pytest.mark.parametrize(("number", "head"), [("19", rank_one_head()), ("80", rank_R_head())])
def test_the_untransposed_query_flow_is_refused(number, head):
    entry = equation(number)
    wrong = replace(entry, typed=lambda: entry.statement | {"c": untransposed(effective_map(head))})
    assert not wrong.holds()


def test_the_untransposed_query_flow_is_right_where_the_map_is_symmetric():
    symmetric = {B_rest: symmetric_matrix("S", D), q_i: k_i}
    printed = substitute(untransposed(effective_map(rank_one_head())), symmetric)
    assert printed == substitute(equation("19").derive().result["c"], symmetric)


@pytest.mark.parametrize(
    ("number", "part", "wrong"),
    [
        ("19", "a", k_i.T * (Lambda**2 - Lambda * effective_map(rank_one_head()) * M) * q_i),
        ("19", "b", v_i**2 * (Lambda**2 - M * effective_map(rank_one_head()) * Lambda) * q_i),
        ("52", "c", v_i * k_i),
        ("79", "a", Trace(k_i.T * k_i) + Trace(q_i.T * q_i)),
        ("79", "b", Trace(k_i.T * k_i) - v_i),
        ("85", "b", Trace(k_r.T * k_r) - v_i**2),
        ("85", "a", Trace(k_r.T * k_r) - Trace(Q_rest.T * Q_rest)),
        ("T6", "matrix", K_i.T * K_i + Q_i.T * Q_i),
        ("T6", "keys", v_i * (K_i.T * G.T * Q_i + Q_i.T * G * K_i)),
    ],
)
def test_planted_faults_are_refused(number, part, wrong):
    entry = equation(number)
    assert not replace(entry, typed=lambda: entry.statement | {part: wrong}).holds()


def test_a_head_conserves_exactly_these_quantities_whatever_the_loss():
    """L = f(B) with an undefined function f of all entries: no more is assumed of the loss."""
    value, keys, queries = Symbol("v"), entries(K_i, 2, 2), entries(Q_i, 2, 2)
    slots = symbols("b_1:5")
    made = value * keys * queries.T + VALUES[B_rest]
    loss = Function("f")(*slots)
    slopes = [diff(loss, slot) for slot in slots]

    def rate(weight):
        return -sum(slope * diff(entry, weight) for slope, entry in zip(slopes, made, strict=True)) / 2

    flow = {weight: rate(weight) for weight in (value, *keys, *queries)}

    def drift(quantity):
        return expand(sum(diff(quantity, weight) * velocity for weight, velocity in flow.items()))

    balance = keys.T * keys - queries.T * queries
    assert all(drift(entry) == 0 for entry in balance)
    assert drift((keys.T * keys).trace() - value**2) == 0
    assert drift((keys.T * keys)[0, 0] - value**2) != 0
    assert drift((keys.T * keys)[0, 1] + (queries.T * queries)[0, 1]) != 0


def test_no_further_combination_of_the_norms_is_conserved():
    rates = flow_in_force(rank_one_head(), (v_i, k_i, q_i))
    assert len(conserved((k_i.T * k_i, v_i**2, q_i.T * q_i), rates)) == 2
    assert conserved((k_i.T * k_i, v_i**4), rates) == ()
    head = v_i * (k_r * q_r.T + K_rest * Q_rest.T)
    columns = flow_in_force(head, (v_i, k_r, q_r, K_rest, Q_rest))
    assert len(conserved((Trace(k_r * k_r.T), v_i**2), columns)) == 0


def test_a_loss_of_the_weights_themselves_is_not_covered():
    """Weight decay acts on the weights, not through the map, and breaks the laws: the condition is needed."""
    rates = flow_in_force(rank_one_head(), (v_i, k_i, q_i))
    decayed = {weight: rate - weight * Symbol("c") for weight, rate in rates.items()}
    assert conserved((k_i.T * k_i, v_i**2, q_i.T * q_i), decayed) == ()
