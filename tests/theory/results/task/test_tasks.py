"""Entries at the moments of another task: against the losses of tasks in numbers, entries that break, wrong moments."""

from dataclasses import replace
from random import Random

import mpmath
import numpy as np
import pytest
from iclflow.numerics import RegressionTask, SphereTokens
from iclflow.numerics.tasks.token_laws import RademacherTokens
from iclflow.theory import equation
from iclflow.theory.calculus.spectral import eigenvalue, indicator
from iclflow.theory.derivations.points import Point, value_at
from iclflow.theory.notation import D, Lambda, Lambda_q, M, N, T, a, e, lambda_, learned, matrix, sigma, tau, v, v_0
from iclflow.theory.results.landscape.completeness import lambda_i, lambda_j
from iclflow.theory.results.landscape.fixed_points import m
from iclflow.theory.results.separate.durations import u
from iclflow.theory.results.task.population import COMPONENTS, P_w, Sigma_w, Task, g_1, g_2, g_3, lambda_q, omega
from iclflow.theory.results.variations.token_laws import gaussian_of, kappa

TASKS, QUERIES = np.diag([0.7, 1.3, 2.0]), np.diag([0.4, 0.6, 0.3])
TILTED = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.3], [0.0, 0.3, 0.8]])
EVERYTHING = {"noise_variance": 0.3, "task_covariance": TASKS, "query_covariance": QUERIES}
VARIED = [
    {"noise_variance": 0.3},
    {"task_covariance": TASKS},
    {"query_covariance": QUERIES},
    {"token_law": SphereTokens()},
    {**EVERYTHING, "token_law": SphereTokens()},
]
RANDOM = {**EVERYTHING, "context_lengths": {3: 0.25, 8: 0.75}, "context_gain": "longest"}
NOISY = Task(noise=sigma**2)
names = [" and ".join(varied) for varied in VARIED]


def in_numbers(varied) -> RegressionTask:
    return RegressionTask(eigenvalues=[0.9, 0.5, 0.2], **({} if "context_lengths" in varied else {"context_length": 8}), **varied)


def point_of(task, chosen) -> Point:
    """The letters at the numbers of a task, with the directions in ``chosen`` learned; lambda and the like are those of the last."""
    point, last, gains = Point({D: 3, N: 8, m: len(chosen)}, Random(0)), chosen[-1], task.gain_moments
    covariances = {eigenvalue: task.covariance, COMPONENTS[omega]: task.task_covariance, COMPONENTS[lambda_q]: task.query_covariance}
    for (base, values), letter, along in zip(covariances.items(), (Lambda, Sigma_w, Lambda_q), (lambda_, omega, lambda_q), strict=True):
        point.family(base, np.diag(values).tolist())
        point[letter], point[along] = mpmath.matrix(values.tolist()), values[last, last]
    point.family(indicator, [float(d in chosen) for d in range(3)])
    spread = float(np.trace(task.task_covariance @ task.covariance))
    scalars = {learned: 1.0, T: 1.6, P_w: spread, sigma: task.noise_variance**0.5, kappa: 3 / 5}
    for letter, value in {**scalars, g_1: gains.g_1, g_2: gains.g_2, g_3: gains.g_3}.items():
        point[letter] = mpmath.mpf(value)
    return point


def at_fixed_point(task, chosen) -> tuple[float, np.ndarray]:
    """The closed loss at the fixed point that has learned ``chosen``, and its map."""
    A, second, Q, c = task.loss_moments
    B = np.linalg.solve(second, A) @ np.linalg.inv(Q) @ np.diag([float(d in chosen) for d in range(3)])
    return c - 2 * np.sum(A * B) + np.trace(B.T @ second @ B @ Q), B


@pytest.mark.parametrize("varied", VARIED, ids=names)
def test_the_levels_are_those_of_the_closed_loss(varied):
    task = in_numbers(varied)
    levels = equation("24").derive(task=task).parts
    for chosen in ([0], [0, 1], [0, 1, 2]):
        assert float(value_at(levels["loss"], point_of(task, chosen))) == pytest.approx(at_fixed_point(task, chosen)[0], rel=1e-12)
    fall = at_fixed_point(task, [0])[0] - at_fixed_point(task, [0, 1])[0]
    assert float(value_at(levels["drop"], point_of(task, [0, 1]))) == pytest.approx(fall, rel=1e-12)


@pytest.mark.parametrize("varied", [*VARIED, RANDOM], ids=[*names, "random lengths"])
def test_the_map_and_the_loss_of_any_subset(varied):
    task, chosen = in_numbers(varied), [0, 2]
    loss, B = at_fixed_point(task, chosen)
    point = point_of(task, chosen)
    assert float(value_at(equation("59").derive(task=task).parts["loss"], point)) == pytest.approx(loss, rel=1e-12)
    assert float(value_at(equation("23").derive(task=task).result, point)) == pytest.approx(B[2, 2], rel=1e-12)


def test_a_function_of_the_token_covariance_needs_no_letter_of_its_own():
    square = in_numbers({"task_covariance": np.diag([0.81, 0.25, 0.04])})
    loss = equation("59").derive(task=Task(task_covariance=Lambda**2)).parts["loss"]
    assert float(value_at(loss, point_of(square, [1]))) == pytest.approx(at_fixed_point(square, [1])[0], rel=1e-12)


@pytest.mark.parametrize("varied", [*VARIED, RANDOM], ids=[*names, "random lengths"])
def test_the_flow_of_an_aligned_head(varied):
    task, point = in_numbers(varied), point_of(in_numbers(varied), [1])
    A, second, Q, _ = task.loss_moments
    point[v] = mpmath.mpf(0.7)
    rate = A[1, 1] * 0.7**2 - second[1, 1] * Q[1, 1] * 0.7**5
    assert float(value_at(equation("26").derive(task=task).parts["main"], point)) == pytest.approx(rate, rel=1e-12)
    growth = equation("62").derive(task=task).parts["plus"].blocks[0, 0]
    assert np.array(value_at(growth, point_with(point, e, 3)).tolist(), dtype=float).ravel() == pytest.approx([0, A[1, 1], 0], rel=1e-12)


def point_with(point, letter, size):
    point[letter] = mpmath.matrix([float(i == 1) for i in range(size)])
    return point


@pytest.mark.parametrize("number", ["13", "17", "79", "T6", "V2-oblique"])
def test_entries_that_name_no_law_of_the_data_hold_for_every_task(number):
    assert equation(number).derive(task=NOISY).lines == equation(number).derive().lines


@pytest.mark.parametrize("number", ["25", "26", "64", "72"])
def test_a_head_aligned_with_no_direction_of_the_task_breaks_a_named_line(number):
    with pytest.raises(ValueError, match=rf"equation \({number}\) breaks .* line 2, M e = a e, no longer holds"):
        equation(number).derive(task=in_numbers({"task_covariance": TILTED}))


@pytest.mark.parametrize("number", ["21", "23", "24", "58", "59", "60", "69", "C1"])
@pytest.mark.parametrize("varied", [{"task_covariance": TILTED}, {"query_covariance": TILTED}], ids=["task", "query"])
def test_directions_that_are_not_shared_break_a_named_line(number, varied):
    line = "M Lambda = Lambda M" if "task_covariance" in varied else "Lambda_q Lambda = Lambda Lambda_q"
    with pytest.raises(ValueError, match=rf"equation \({number}\) breaks .* line \d+, {line}, no longer holds"):
        equation(number).derive(task=in_numbers(varied))


def test_what_needs_no_shared_directions_holds_for_them_too():
    task = in_numbers({"noise_variance": 0.3, "task_covariance": TILTED})
    A, second, Q, _ = task.loss_moments
    force, B = equation("53").derive(task=task).result, matrix("B", D)
    point = point_of(task, [0])
    point[M], point[B] = mpmath.matrix(second.tolist()), mpmath.matrix(TILTED.tolist())
    assert np.array(value_at(force, point).tolist(), dtype=float) == pytest.approx(A - second @ TILTED @ Q, rel=1e-12)
    assert {line.verify().status for line in equation("9-closed").derive(task=task).lines} == {"assumed", "exact"}


def test_tokens_with_a_fourth_moment_of_their_own_break_it():
    V = matrix("V", D)
    skew = Task(token_law=lambda A: gaussian_of(A) + ((V + V.T) * (A + A.T)).trace() * (V + V.T))
    assert equation("31").derive(task=skew).parts["second"] != equation("31").derive().parts["second"]
    with pytest.raises(ValueError, match=r"line 2, M Lambda = Lambda M, no longer holds \(M commutes with Lambda\)"):
        equation("24").derive(task=skew)


@pytest.mark.parametrize(("number", "part"), [("24", "loss"), ("59", "loss"), ("53", ""), ("32", "sum")])
def test_a_wrong_moment_makes_a_line_fail(number, part):
    lines = equation(number).derive(task=NOISY).lines
    (right,) = (line for line in lines if line.part == part and (part or line is lines[-1]))
    papers = {line.part: line.right for line in equation(number).derive().lines}[part]
    assert right.verify()
    if number != "53":
        assert not replace(right, right=papers).verify()
    assert not replace(right, right=3 * right.right).verify()


@pytest.mark.parametrize("varied", [VARIED[0], {"context_lengths": {3: 0.25, 8: 0.75}}], ids=["noise", "length"])
def test_completeness_holds_where_drops_rise(varied):
    """(T1c): the determinant of a pair is the difference of their drops, and the slope is that of the drop."""
    task, point = in_numbers(varied), point_of(in_numbers(varied), [0])
    of_pair = {lambda_i: 0.9, lambda_j: 0.2}
    for letter, value in of_pair.items():
        point[letter] = mpmath.mpf(value)
    A, second, Q, _ = task.loss_moments
    drops = np.diag(A) ** 2 / (np.diag(second) * np.diag(Q))
    parts = equation("T1c").derive(task=task).parts
    assert float(value_at(parts["gap"], point)) == pytest.approx(drops[0] - drops[2], rel=1e-12)
    assert float(value_at(parts["slope"], point)) > 0


@pytest.mark.parametrize(("varied", "line"), [(VARIED[1], 8), (VARIED[2], 9)], ids=["task", "query"])
def test_spectra_that_disagree_break_the_order_of_drops(varied, line):
    with pytest.raises(ValueError, match=rf"equation \(T1c\) breaks .* line {line}, .* > 0, no longer holds \(It is zero for equal"):
        equation("T1c").derive(task=in_numbers(varied))


@pytest.mark.parametrize("varied", [VARIED[0], VARIED[1]], ids=["noise", "task"])
def test_every_fixed_point_is_listed_for_these_tasks(varied):
    assert dict(equation("T1").derive(task=in_numbers(varied)).parts)


@pytest.mark.parametrize("varied", [VARIED[0], RANDOM], ids=["noise", "everything"])
def test_times_inside_the_ansatz(varied):
    """(68) and (T5): the escape time is tau over growth and start; (67): its difference is the quadrature of the reciprocal flow."""
    task, point = in_numbers(varied), point_of(in_numbers(varied), [1])
    A, second, Q, _ = task.loss_moments
    growth, rest = A[1, 1], np.cbrt(A[1, 1] / (second[1, 1] * Q[1, 1]))
    for letter, value in {tau: 1, v_0: 0.01, a: second[1, 1]}.items():
        point[letter] = mpmath.mpf(value)
    assert float(value_at(equation("68").derive(task=task).result, point)) == pytest.approx(1 / (growth * 0.01), rel=1e-12)
    assert float(value_at(equation("T5").derive(task=task).parts["aligned"], point)) == pytest.approx(1 / (growth * 0.01), rel=1e-12)
    whole, ends = equation("67").derive(task=task).result, []
    for value in (0.3 * rest, 0.8 * rest):
        point[v], point[u] = mpmath.mpf(value), mpmath.mpf(value / rest)
        ends.append(value_at(whole, point))
    expected = mpmath.quad(lambda x: 1 / (growth * x**2 - second[1, 1] * Q[1, 1] * x**5), [0.3 * rest, 0.8 * rest])
    assert float(ends[1] - ends[0]) == pytest.approx(float(expected), rel=1e-10)


def test_merged_attention_escapes_at_the_norm_of_the_correlation():
    task = in_numbers({"noise_variance": 0.3, "task_covariance": TILTED, "query_covariance": QUERIES})
    rate = value_at(equation("50").derive(task=task).parts["query"], point_of(task, [0]))
    assert float(rate) == pytest.approx(np.sum(task.loss_moments.A**2), rel=1e-12)
    assert equation("14a").derive(task=task).parts["head"] != equation("14a").derive().parts["head"]


@pytest.mark.parametrize(
    ("number", "line"),
    [
        ("15", "line 3, Lambda := lambda I, rests on the laws of its data"),
        ("48", r"breaks .* line 1, E\[\(y_q - beta' B x_q\)\^2\] = .* no longer holds"),
        ("16", r"line 1, Lambda_N = .* \(The second moment \(31\)"),
        ("43", r"line 1, Lambda_N := Lambda\^-1 E\[Lambda_hat\^2\], rests"),
        ("T2b", "line 1, .* no longer holds \\(Half the loss"),
        ("51", r"line 1, .* := sqrt\(tr\(Lambda\^4\)\), rests on the laws"),
    ],
)
def test_entries_of_the_papers_task_name_the_line_that_needs_it(number, line):
    with pytest.raises(ValueError, match=rf"equation \({number}\) .*{line}"):
        equation(number).derive(task=NOISY)


def test_what_is_no_task_is_refused():
    with pytest.raises(TypeError, match="task must be a Task, got 3"):
        equation("24").derive(task=3)


def test_a_task_in_symbols():
    assert in_numbers(RANDOM).symbolic() == Task(sigma**2, Sigma_w, Lambda_q, None, True, True)
    assert in_numbers({}).symbolic() == Task()
    assert str(NOISY) == "Task(noise=sigma**2)"
    with pytest.raises(ValueError, match="token_law must be elliptical"):
        in_numbers({"token_law": RademacherTokens()}).symbolic()


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"noise": -1}, "noise must be a variance"),
        ({"noise": Lambda}, "noise must be a variance"),
        ({"task_covariance": Lambda_q}, "task_covariance must be a symmetric D x D matrix"),
        ({"query_covariance": matrix("A", D)}, "query_covariance must be a symmetric"),
        ({"token_law": 3}, "token_law must be a function"),
        ({"random_length": 1}, "random_length must be True or False"),
    ],
)
def test_what_is_not_a_task_is_refused(wrong, problem):
    with pytest.raises((ValueError, TypeError), match=problem):
        Task(**wrong)
