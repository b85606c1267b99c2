"""(V8-sign), (V8-sign-origin), (V8-adam): planted faults, and attempts to refute the statements by running the rules."""

from dataclasses import replace

import numpy as np
import pytest
from iclflow.numerics import QuadraticLoss, RegressionTask, SeparateWeights, adam, sign_descent
from iclflow.numerics.compilation.equations import compiled
from iclflow.theory.equations import equation
from iclflow.theory.notation import D, H, a, lambda_, w_init
from iclflow.theory.results.discretisation.sign_descent import epsilon, sign_v


@pytest.mark.parametrize(
    ("number", "part", "change"),
    [
        ("V8-sign", "value", lambda form: form.subs(sign_v, -sign_v)),
        ("V8-sign", "query", lambda form: 2 * form),
        ("V8-sign", "old value", lambda form: form / 2),
        ("V8-sign", "old query", lambda form: -form),
        ("V8-sign", "drift", lambda form: form.subs(D, D + 1)),
        ("V8-sign-origin", "bound", lambda form: form.subs(H, 2 * H)),
        ("V8-sign-origin", "time", lambda form: form + w_init),
        ("V8-sign-origin", "flow", lambda form: form / w_init),
        ("V8-adam", "step", lambda form: form.subs(epsilon, 2 * epsilon)),
        ("V8-adam", "below", lambda form: form / 2),
        ("V8-adam", "above", lambda form: -form),
        ("V8-adam", "growing", lambda form: form - 1),
    ],
)
def test_a_wrong_form_fails(number, part, change):
    one = equation(number)
    assert one.holds()
    assert not replace(one, typed=lambda: {**one.parts, part: change(one.parts[part])}).holds()


@pytest.mark.parametrize("number", ["V8-sign", "V8-sign-origin", "V8-adam"])
def test_every_line_but_definitions_is_judged(number):
    for line in equation(number).lines:
        assert line.verify().status in (("assumed",) if line.relation == ":=" else ("exact", "numeric")), str(line)


def test_no_start_learns_before_the_bound():
    """Random tasks, sizes and signs: the first entry of the map that reaches lambda/a, in numbers of steps."""
    time, rng = compiled("V8-sign-origin", (lambda_, a, H, w_init), part="time"), np.random.default_rng(0)
    for _ in range(12):
        dimension, heads, scale = (*rng.integers(1, 5, 2), rng.uniform(0.01, 0.2))
        task = RegressionTask(eigenvalues=np.sort(rng.uniform(0.1, 1, dimension))[::-1].tolist(), context_length=int(rng.integers(1, 30)))
        shapes = ((heads,), (heads, 1, dimension), (heads, 1, dimension))
        start = SeparateWeights(*(rng.uniform(-scale, scale, shape) for shape in shapes))
        run = sign_descent(QuadraticLoss.population(task), start, steps=1500, learning_rate=1e-3)
        v, k, q = run.arrays.values()
        entries = np.einsum("thd,thd,th->td", k[:, :, 0], q[:, :, 0], v)
        levels = task.eigenvalues / task.second_moment_eigenvalues
        for entry, level, eigenvalue, moment in zip(entries.T, levels, task.eigenvalues, task.second_moment_eigenvalues, strict=True):
            learned = entry >= level
            if learned.any():
                assert run.times[learned.argmax()] >= time(eigenvalue, moment, heads, scale) - 1e-9


def test_a_direction_between_axes_is_learned_before_the_bound():
    """The bound is one for entries of the map: along (1, 1) one head makes twice as much of a covariance that is not diagonal."""
    task, scale = RegressionTask(covariance=[[1.0, 0.5], [0.5, 1.0]], context_length=31), 1e-3
    (value, moment), weights = (max(one) for one in (task.eigenvalues, task.second_moment_eigenvalues)), np.full((1, 1, 2), scale)
    run = sign_descent(QuadraticLoss.population(task), SeparateWeights(weights[:, 0, 0], weights, weights), steps=700, learning_rate=1e-3)
    learned = run.times[np.argmax(run.effective_maps.sum(axis=(1, 2)) / 2 >= value / moment)]
    bound = compiled("V8-sign-origin", (lambda_, a, H, w_init), part="time")
    assert learned < 0.8 * bound(value, moment, 1, scale)
    assert abs(learned - bound(value / 2, moment, 1, scale)) <= 1e-3


def test_adam_without_memory_is_sign_descent():
    task = RegressionTask(eigenvalues=[0.4, 0.2], context_length=5)
    start = SeparateWeights.initialize(task, heads=2, rank=1, scale=0.1, rng=np.random.default_rng(0))
    loss = QuadraticLoss.population(task)
    signs = sign_descent(loss, start, steps=50, learning_rate=1e-3)
    np.testing.assert_allclose(adam(loss, start, steps=50, learning_rate=1e-3, betas=(0, 0), epsilon=0).states, signs.states, atol=1e-14)
