"""(V8-ball), (V8-mass), (V8-energy): planted faults, and exponentials in place of central differences."""

from dataclasses import replace

import pytest
from iclflow.theory.equations import equation
from iclflow.theory.notation import lambda_, v_0
from iclflow.theory.results.discretisation.finite_steps import eta, h, kappa, mu
from iclflow.theory.results.discretisation.momentum import escape_rate, flow_of_heavy_ball, g, k_dot, m, q_dot
from sympy import Derivative, Function, Integral, Symbol, Trace, diff, exp, expand, limit, oo, series, simplify, sqrt

W, t = Function("W"), Symbol("t", real=True)


@pytest.mark.parametrize("number", ["V8-ball", "V8-mass", "V8-energy"])
def test_entry_holds(number):
    assert equation(number).holds()


@pytest.mark.parametrize(
    ("number", "part", "change"),
    [
        ("V8-ball", "flow", lambda x: x.subs(m, -m)),
        ("V8-ball", "mass", lambda x: x.subs(mu, -mu)),
        ("V8-ball", "mass", lambda x: 2 * eta / (1 - mu) ** 2),
        ("V8-ball", "start", lambda x: x * (1 + mu) / 2),
        ("V8-ball", "next", lambda x: x.subs(m, 2 * m)),
        ("V8-ball", "slow", lambda x: x.subs(m, 2 * m)),
        ("V8-mass", "escape", lambda x: x.subs(g, 2 * g)),
        ("V8-mass", "flow rings", lambda x: 2 * x),
        ("V8-mass", "ball rings", lambda x: (1 - mu) ** 2 / 8),
        ("V8-mass", "drop", lambda x: x.subs(v_0, v_0**2)),
        ("V8-mass", "drop", lambda x: x.subs(lambda_, lambda_**2)),
        ("V8-energy", "energy", lambda x: -x),
        ("V8-energy", "query", lambda x: x + Trace(q_dot.T * q_dot)),
        ("V8-energy", "value", lambda x: x + m * Trace(k_dot.T * k_dot)),
    ],
)
def test_entry_catches_a_fault(number, part, change):
    entry = equation(number)
    assert not replace(entry, typed=lambda: {**entry.typed(), part: change(entry.typed()[part])}).holds()


def test_exponentials_meet_heavy_ball_to_second_order_at_fixed_mass():
    """W_n = exp(n h z) for the force -kappa W, with 1 - mu as large as the mass requires at each h."""
    z = Symbol("z")
    momentum = (2 * m - h) / (2 * m + h)
    assert simplify(flow_of_heavy_ball()[0].subs(mu, momentum) - m) == 0
    ball = exp(h * z) - 1 - momentum * (1 - exp(-h * z)) + (1 - momentum) * h * kappa
    order = expand(series(simplify(ball / ((1 - momentum) * h)), h, 0, 3).removeO())
    left_out = equation("V8-ball").parts["next"]
    known = {Derivative(W(t), (t, j)): z**j for j in (3, 4)}
    assert simplify(order - (m * z**2 + z + kappa) + left_out.subs(known)) == 0


def test_escape_is_slower_by_at_most_the_sum_of_both_times():
    """1/z lies between the larger of 1/g and sqrt(m/g), and their sum: its limits, and the square of the difference."""
    root = Symbol("r", positive=True)  # sqrt(m g)
    slower = simplify(g / escape_rate().subs(m, root**2 / g))
    assert simplify(slower - (1 + sqrt(1 + 4 * root**2)) / 2) == 0
    assert simplify((1 + 2 * root) ** 2 - (1 + 4 * root**2)) == 4 * root
    assert (limit(slower, root, 0), limit(slower / root, root, oo)) == (1, 1)


def test_time_by_inertia_is_its_integral():
    x = Symbol("x", positive=True)
    integral = Integral(1 / sqrt(x**3 - 1), (x, 1, oo)).evalf(12)
    time = equation("V8-mass").parts["drop"] / sqrt(3 * m / (2 * v_0)) * lambda_
    assert abs(float(time) - float(integral)) < 1e-9


def test_energy_is_lost_for_an_explicit_loss():
    """Two weights with the loss x^2 y^2, in functions of time."""
    x, y = Function("x")(t), Function("y")(t)
    loss = x**2 * y**2
    energy = (loss + m * (diff(x, t) ** 2 + diff(y, t) ** 2)) / 2
    forces = {diff(w, t, 2): (-diff(loss, w) / 2 - diff(w, t)) / m for w in (x, y)}
    assert expand(diff(energy, t).subs(forces) + diff(x, t) ** 2 + diff(y, t) ** 2) == 0
