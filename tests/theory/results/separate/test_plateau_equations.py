"""The statements (15), (25), (44)-(51), (61)-(73), (T5), (T6-white) against flows and matrices in NumPy; planted faults."""

from dataclasses import replace

import numpy as np
import pytest
from iclflow.theory.equations import equation
from iclflow.theory.notation import (
    D,
    G,
    Lambda,
    N,
    P,
    T,
    a,
    alpha,
    clock,
    e,
    gamma,
    k_i,
    lambda_,
    q_i,
    rho,
    s,
    s_0,
    sigma_level,
    t,
    tau,
    v,
    v_0,
    v_i,
    w_2,
    w_init,
)
from iclflow.theory.results.attention.equivalent_networks import CROSS
from iclflow.theory.results.merged.sigmoid import theta, theta_0
from iclflow.theory.results.separate.conservation import c
from iclflow.theory.results.separate.durations import C_rho, u
from iclflow.theory.results.separate.waiting import A_d, B_d, k_0, q_0
from scipy.integrate import quad, solve_ivp
from sympy import Rational, Symbol, lambdify

SIZE, CONTEXT, HEADS = 3, 7, 4
TOLERANCE = {"rtol": 1e-10, "atol": 1e-12}


def number(formula, values) -> float:
    return float(formula.subs(values).evalf())


def second_moment(covariance):
    return covariance @ covariance + (covariance @ covariance + np.trace(covariance) * covariance) / CONTEXT


def merged_flow(covariance, v_start, U_start, times):
    """The gradient flow of merged attention on the population loss, in matrices."""

    def field(_, state):
        values, maps = state[:HEADS], state[HEADS:].reshape(HEADS, SIZE, SIZE)
        B = np.einsum("h,hij->ij", values, maps)
        force = covariance @ covariance - second_moment(covariance) @ B @ covariance
        return np.concatenate([np.einsum("hij,ij->h", maps, force), np.einsum("h,ij->hij", values, force).ravel()])

    start = np.concatenate([v_start, U_start.ravel()])
    states = solve_ivp(field, (0, times[-1]), start, t_eval=times, method="DOP853", **TOLERANCE).y.T
    return states[:, :HEADS], states[:, HEADS:].reshape(-1, HEADS, SIZE, SIZE)


def test_sigmoid_and_its_loss():
    """(15), (45), (46), (48): balanced and aligned weights on white tokens."""
    rng, times = np.random.default_rng(1), np.linspace(0, 5, 9)
    values = 0.1 * rng.standard_normal(HEADS)
    maps = np.einsum("h,ij->hij", values, np.eye(SIZE) / np.sqrt(SIZE))
    v_t, U_t = merged_flow(np.eye(SIZE), values, maps, times)
    B_t = np.einsum("th,thij->tij", v_t, U_t)
    sizes = {D: SIZE, N: CONTEXT, tau: 1, w_init: np.linalg.norm(values)}
    expected = [number(equation("15").part("sigmoid"), sizes | {t: time}) for time in times]
    np.testing.assert_allclose(B_t, np.multiply.outer(expected, np.eye(SIZE)), atol=1e-8)
    moments = {alpha: number(equation("47").statement["alpha"], sizes), gamma: np.sqrt(SIZE)}
    norm = [number(equation("45").statement["solution"], {**moments, tau: 1, t: time, s_0: values @ values}) for time in times]
    np.testing.assert_allclose(np.sum(v_t**2, axis=1), norm, rtol=1e-8)
    back = [number(equation("45").statement["integral"], {**moments, tau: 1, s_0: norm[0], s: one}) for one in norm]
    np.testing.assert_allclose(back, times, atol=1e-8)
    B = B_t[4]
    loss = SIZE - 2 * np.trace(B) + np.trace(B.T @ second_moment(np.eye(SIZE)) @ B)
    assert number(equation("48").statement["loss"], sizes | {sigma_level: expected[4]}) == pytest.approx(loss, rel=1e-8)


def test_any_balanced_start_on_white_tokens():
    """(44) and (T6-white): W_1 = w_2 m' with a direction m that is not that of E(y_q z)."""
    rng, scale = np.random.default_rng(2), 1.3
    values, direction = 0.4 * rng.standard_normal(HEADS), rng.standard_normal((SIZE, SIZE)) + np.eye(SIZE)
    direction /= np.linalg.norm(direction)
    times = np.linspace(0, 1.2, 6)
    v_t, U_t = merged_flow(scale * np.eye(SIZE), values, np.einsum("h,ij->hij", values, direction), times)
    sizes = {D: SIZE, N: CONTEXT, lambda_: scale}
    constants = {alpha: number(equation("47").statement["scaled alpha"], sizes)}
    constants[gamma] = number(equation("47").statement["scaled gamma"], sizes)
    cosine = np.trace(direction) / np.sqrt(SIZE)
    statement = equation("T6-white").statement
    start = np.arctanh(cosine)
    f, f_0 = Symbol("f", real=True), Symbol("f_0", real=True)
    for time, value, maps in zip(times, v_t, U_t, strict=True):
        angle = start + constants[gamma] * time
        known = constants | {s_0: values @ values, theta: angle, theta_0: start}
        known |= {f: number(statement["f"], {theta: angle}), f_0: number(statement["f"], {theta: start})}
        assert number(statement["s"], known) == pytest.approx(value @ value, rel=1e-8)
        B = np.einsum("h,hij->ij", value, maps)
        assert number(statement["p"], known) == pytest.approx(np.trace(B) / np.sqrt(SIZE) / np.linalg.norm(B), rel=1e-8)


def test_the_effective_start_is_an_average_over_gaussian_weights():
    """(15-start)"""
    rng, scale = np.random.default_rng(3), 0.02
    w_2 = rng.standard_normal((200_000, HEADS)) * scale / np.sqrt(HEADS)
    along = rng.standard_normal((200_000, HEADS)) * scale / np.sqrt(HEADS * SIZE**2)  # W_1 c_hat, for a unit vector c_hat
    sampled = np.sum((w_2 + along) ** 2, axis=1) / 4
    expected = number(equation("15-start").statement["mean"], {D: SIZE, w_init: scale})
    assert abs(sampled.mean() - expected) < 4 * sampled.std() / np.sqrt(len(sampled))
    delay = number(equation("15-start").statement["delay"], {D: SIZE, tau: 1})
    assert delay == pytest.approx(np.log(scale**2 / expected) / (2 * np.sqrt(SIZE)))


def test_rate_and_duration_of_the_merged_plateau():
    """(49)-(51): the exact time is the leading one and a constant, whatever the start."""
    covariance = np.diag([0.4, 0.3, 0.1])
    size = np.linalg.norm(covariance @ covariance)
    assert np.trace(np.linalg.matrix_power(covariance, 4)) == pytest.approx(size**2), "(50)"
    constants = {gamma: size, alpha: 0.05, tau: 1, rho: Rational(1, 3)}
    exact, leading = equation("49-exact").statement["fraction"], equation("49").statement
    gaps = [number(exact - leading, constants | {s_0: Rational(1, 10**power)}) for power in (4, 6, 8)]
    assert gaps == pytest.approx([gaps[0]] * 3, abs=1e-3)
    initial = {w_init: 1e-3, Symbol("|Lambda^2|", positive=True): size, tau: 1}
    assert number(equation("51").statement["scale"], initial) == pytest.approx(number(leading, constants | {s_0: 1e-6}))


EIGENVALUES = np.array([0.5, 0.3, 0.2])


def test_the_force_on_the_ansatz():
    """(65), (71) and the values (25): the learned heads rest."""
    covariance = np.diag(EIGENVALUES)
    moments = np.diag(second_moment(covariance))
    known = {T: EIGENVALUES.sum(), N: CONTEXT, lambda_: EIGENVALUES[0]}
    learned = number(equation("25").statement["written out"], known)
    assert learned == pytest.approx((EIGENVALUES[0] / moments[0]) ** (1 / 3))
    growing = 0.7
    B = np.diag([learned**3, growing**3, 0])
    force = covariance @ covariance - second_moment(covariance) @ B @ covariance
    basis, projector = np.eye(3)[:, 1:2], np.diag([1.0, 0, 0])
    values = {lambda_: EIGENVALUES[1], a: moments[1], v: growing}
    typed = lambdify([Lambda, P, e, lambda_, a, v], equation("71").statement.subs({D: 3}))
    np.testing.assert_allclose(typed(covariance, projector, basis, *values.values()), force, atol=1e-14)
    rate = number(equation("72").statement, {**values, T: EIGENVALUES.sum(), N: CONTEXT})
    assert rate == pytest.approx(growing**2 * force[1, 1])


def test_waiting_heads():
    """(61)-(63), (69), (70), (T5): one small head in the force of a plateau with the first direction learned."""
    rates = np.array([0, EIGENVALUES[1] ** 2, EIGENVALUES[2] ** 2])
    rng = np.random.default_rng(4)
    start = np.concatenate([[0.2], rng.standard_normal(6), [0]])

    def field(_, state):
        value, key, query = state[0], state[1:4], state[4:7]
        return np.concatenate([[key @ (rates * query)], value * rates * query, value * rates * key, [value]])

    end = solve_ivp(field, (0, 3), start, method="DOP853", **TOLERANCE).y[:, -1]
    energy = start[0] ** 2
    for d, eigenvalue in enumerate(EIGENVALUES):
        known = {lambda_: eigenvalue, clock: end[-1], k_0: start[1 + d], q_0: start[4 + d]}
        known |= {A_d: (known[k_0] + known[q_0]) / 2, B_d: (known[k_0] - known[q_0]) / 2}
        prefix = "learned " if d == 0 else ""
        for letter, index in (("k", 1 + d), ("q", 4 + d)):
            assert number(equation("70").statement[prefix + letter], known) == pytest.approx(end[index], rel=1e-8)
        if d:
            energy += number(equation("T5").statement["mode"], known)
            assert equation("63").statement["k"] == equation("70").statement["k"]
    assert energy == pytest.approx(end[0] ** 2, rel=1e-8)


@pytest.mark.parametrize(("start", "end"), [(-0.4, -0.1), (0.1, 0.6), (2.0, 1.4)])
def test_the_time_integral_on_each_branch(start, end):
    """(67), by quadrature of 1 / (66) on v < 0, 0 < v < v_* and v > v_*."""
    eigenvalue, moment = 0.4, 0.5

    def value(x):
        return number(equation("67").statement, {u: (moment / eigenvalue) ** (1 / 3) * x, v: x, lambda_: eigenvalue, a: moment, tau: 1})

    elapsed, _ = quad(lambda x: 1 / (eigenvalue**2 * x**2 - eigenvalue * moment * x**5), start, end, epsabs=0, epsrel=1e-11)
    assert value(end) - value(start) == pytest.approx(elapsed, rel=1e-9)
    assert elapsed > 0


def test_plateau_duration_and_its_next_orders():
    """(68), (68-next): the error of the first is of order 1, that of the second of order v_0^5."""
    eigenvalue, moment, fraction = 0.4, 0.5, 0.5
    fixed = (eigenvalue / moment) ** (1 / 3)
    known = {lambda_: eigenvalue, a: moment, tau: 1, rho: fraction}
    known[C_rho] = number(equation("68-next").statement["constant"], {rho: fraction})
    errors = []
    for begin in (0.2, 0.1):
        exact, _ = quad(lambda x: 1 / (eigenvalue**2 * x**2 - eigenvalue * moment * x**5), begin, fraction * fixed, epsrel=1e-12)
        errors.append(number(equation("68-next").statement["t"], known | {v_0: begin}) - exact)
        leading = number(equation("68").statement, known | {v_0: begin})
        assert leading - exact == pytest.approx(known[C_rho] * (moment / eigenvalue) ** (1 / 3) / eigenvalue**2, rel=0.05)
    assert np.log2(errors[0] / errors[1]) == pytest.approx(5, abs=0.2)


@pytest.mark.parametrize(
    ("number_of", "part", "wrong"),
    [
        ("70", "learned k", k_0 + q_0),  # as scanned
        ("70", "learned k", (k_0 + q_0) / 2),
        ("25", "cube", (lambda_ / a) ** Rational(1, 2)),
        ("26", "short", lambda_**2 * v**2 - lambda_ * a * v**4),
        ("47", "alpha", 1 + D / N),
        ("48", "end", D * (1 + D) / (N + D)),
        ("69", "b", v_i * Lambda**2 * q_i),
        ("61", "c", v_i * Lambda * k_i),
        ("T5", "mode", A_d**2 - B_d**2),
        ("45", "rate", 2 * s * (gamma - alpha * s**2)),
        ("25-signs", "q", c * v_i * G.T * k_i),
        ("25-signs", "map", -v_i * k_i * q_i.T),
        ("49-start", "W", w_2 * CROSS.T / 2),
        ("49-start", "s", gamma * s),
    ],
)
def test_planted_faults_are_refused(number_of, part, wrong):
    entry = equation(number_of)
    assert entry.holds()
    assert not replace(entry, typed=lambda: {**entry.statement, part: wrong}).holds()


def test_the_time_of_a_drop_without_its_factor_or_its_square_is_refused():
    """(67): without tau, as the paper prints it; with u - 1 for (u - 1)^2; with the sign of the pole turned."""
    entry = equation("67")
    for wrong in (entry.statement / tau, entry.statement.subs((u - 1) ** 2, u - 1), entry.statement.subs(v, -v)):
        assert wrong != entry.statement
        assert not replace(entry, typed=lambda wrong=wrong: wrong).holds()
