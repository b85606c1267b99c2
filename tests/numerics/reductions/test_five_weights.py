"""Five weights for the unreduced model (V6-five): against one head, and against many from small initial weights."""

import numpy as np
import pytest
from iclflow.numerics import FullMergedWeights, MixedTask, RegressionTask, WhiteReduction, gradient_flow
from iclflow.numerics.reductions.five_weights import FiveWeights, leading_head

TASK = RegressionTask(eigenvalues=[0.3] * 3, context_length=7)
VECTOR = np.array([1.0, -2.0, 0.5])
TIMES = np.linspace(0, 60, 61)


def problem(p=0.5):
    return MixedTask(TASK, p, VECTOR[None])


def weights(scale, seed=1, heads=6):
    rng = np.random.default_rng(seed)
    return FullMergedWeights.initialize(TASK, heads=heads, scale=scale, block_scale=scale, rng=rng)


def curves(problem, run, times):
    maps = run.effective_map_at(times)
    return {kind: np.array([loss.value(B) for B in maps]) for kind, loss in problem.losses.items()}


def test_losses_are_those_of_the_symmetric_head():
    a, v, along, across, m = state = np.random.default_rng(2).normal(size=5)
    e = VECTOR / np.linalg.norm(VECTOR)
    U = along * np.outer(e, e) + across * (np.eye(3) - np.outer(e, e))
    head = FullMergedWeights(np.append(a * e, v)[None], np.vstack([U, m * e])[None])
    reduced = FiveWeights(problem()).losses(state[None])
    for kind, loss in problem().losses.items():
        assert reduced[kind][0] == pytest.approx(loss.value(head.effective_map()), rel=1e-12)
    np.testing.assert_allclose(FiveWeights(problem()).effective_maps(state[None])[0], head.effective_map(), atol=1e-14)


@pytest.mark.parametrize("p", [0.1, 0.5, 1.0])
def test_five_weights_are_the_flow_of_the_leading_head(p):
    five, head = FiveWeights(problem(p)), leading_head(problem(p).training_loss, weights(1e-2))
    states = five.states(TIMES, five.start(weights(1e-2)))
    run = gradient_flow(problem(p).training_loss, head, t_end=TIMES[-1], rtol=1e-10)
    for kind, curve in curves(problem(p), run, TIMES).items():
        np.testing.assert_allclose(five.losses(states)[kind], curve, rtol=1e-6)


def test_errors_for_many_heads_fall_as_powers_of_the_initial_scale():
    """(V6-error): 1 - sigma_2/sigma_1 = 0.99 in the losses; in the map heads that turn fall more slowly."""
    A = problem().training_loss.A
    first, second, *_ = np.linalg.svd(A.reshape(len(A), -1), compute_uv=False)
    five, errors = FiveWeights(problem()), []
    for scale in (1e-5, 1e-7):
        times = np.linspace(0, (np.log(1 / scale) + 4) / first, 121)  # as long after the drop for both
        run = gradient_flow(problem().training_loss, weights(scale), t_end=times[-1], rtol=1e-11)
        states = five.states(times, five.start(weights(scale)), rtol=1e-11)
        reduced, exact = five.losses(states), curves(problem(), run, times)
        in_map = np.abs(five.effective_maps(states) - run.effective_map_at(times)).max()
        errors.append((in_map, max(np.abs(reduced[kind] / curve - 1).max() for kind, curve in exact.items())))
    assert errors[0][1] < 1e-4
    power = np.log(np.divide(*errors)) / np.log(100)
    assert power == pytest.approx([1 - second / first, 0.99], abs=0.06)
    assert 1 - second / first < 0.9


def test_with_random_tasks_only_it_is_the_sigmoid():
    """At p = 1 the head is v, U = u I: equation (15)."""
    five = FiveWeights(problem(1.0))
    start = five.start(weights(1e-3))
    v, u = start[1], start[2]
    np.testing.assert_allclose(start[[0, 3, 4]], [0, u, 0], atol=1e-15)
    states = five.states(TIMES, start)
    sigma = WhiteReduction(3, 7, 0.3).sigma(TIMES, v**2)
    np.testing.assert_allclose(states[:, 1] * states[:, 2], sigma, rtol=1e-6)


def test_two_directions_at_once_are_refused():
    opposite = MixedTask(RegressionTask(eigenvalues=[0.5], context_length=4), 1.0, np.ones((1, 1)))
    start = FullMergedWeights(np.ones((1, 2)), np.ones((1, 2, 1)))
    with pytest.raises(ValueError, match="one leading direction"):
        leading_head(opposite.training_loss, start)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (MixedTask(RegressionTask(eigenvalues=[0.5, 0.4], context_length=4), 0.5, np.ones((1, 2))), "white tokens"),
        (MixedTask(RegressionTask(eigenvalues=[0.5], context_length=4), 0.5, np.ones((1, 1))), "two dimensions"),
        (MixedTask(TASK, 0.5, np.ones((2, 3))), "one fixed task vector"),
        (MixedTask(TASK, 0.5, np.zeros((1, 3))), "one fixed task vector"),
    ],
)
def test_bad_problem(bad, message):
    with pytest.raises(ValueError, match=message):
        FiveWeights(bad)


def test_bad_times_and_start():
    five = FiveWeights(problem())
    with pytest.raises(ValueError, match="start must have shape"):
        five.states(TIMES, np.ones(4))
    with pytest.raises(ValueError, match="states must have shape"):
        five.effective_maps(np.ones((2, 4)))
    with pytest.raises(ValueError, match="times must be finite"):
        five.states(np.array([0, np.inf]), np.ones(5))
