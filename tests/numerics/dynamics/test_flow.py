"""Gradient flow: against the paper's plateaus and closed forms, and against itself where nothing should change."""

import numpy as np
import pytest
from iclflow.numerics import (
    ConvolutionalNetwork,
    FlowError,
    FullMergedWeights,
    FullSeparateWeights,
    MergedWeights,
    QuadraticLoss,
    RegressionTask,
    SampleMoments,
    SeparateWeights,
    TwoLayerNetwork,
    gradient_flow,
)
from iclflow.numerics.tasks import sample_moments
from scipy.optimize import brentq

TASK = RegressionTask(eigenvalues=[0.4, 0.3, 0.2, 0.1], context_length=31)
LOSS = QuadraticLoss.population(TASK)
PLATEAUS = [1, 0.640580, 0.377372, 0.209805, 0.135995]  # equation (24), m = 0..4


def separate(seed=0, scale=1e-2, heads=5, rank=1, task=TASK):
    return SeparateWeights.initialize(task, heads=heads, rank=rank, scale=scale, rng=np.random.default_rng(seed))


def merged(seed=0, scale=1e-2, heads=5, task=TASK):
    return MergedWeights.initialize(task, heads=heads, scale=scale, rng=np.random.default_rng(seed))


def drop_times(trajectory):
    """When each B_dd reaches half of its final value, in the order of the eigenvectors."""
    maps, final = trajectory.effective_maps, trajectory.effective_maps[-1]
    times = []
    for d in range(len(final)):
        after = int(np.argmax(maps[:, d, d] > final[d, d] / 2))
        left, right = trajectory.times[after - 1], trajectory.times[after]

        def excess(t, d=d):
            return trajectory.effective_map_at(t)[d, d] - final[d, d] / 2

        times.append(brentq(excess, left, right, xtol=1e-12 * right))
    return np.array(times)


@pytest.fixture(scope="module")
def default():
    return gradient_flow(LOSS, separate(), t_end=1e5)


@pytest.mark.parametrize("seed", range(3))
def test_staircase_is_equation_24(seed):
    trajectory = gradient_flow(LOSS, separate(seed), t_end=2e5)
    centres = np.concatenate([[0.0], drop_times(trajectory), [2e5]])
    levels = trajectory.loss_at((centres[:-1] + centres[1:]) / 2)
    np.testing.assert_allclose(levels, PLATEAUS, rtol=1e-2)
    assert trajectory.loss[-1] == pytest.approx(0.1359950716, abs=1e-9)


def test_loss_never_rises(default):
    assert np.diff(default.loss).max() < 1e-12


def test_drop_times_do_not_move_with_the_tolerances(default):
    tight = gradient_flow(LOSS, separate(), t_end=1e5, rtol=1e-10)
    np.testing.assert_allclose(drop_times(default), drop_times(tight), rtol=1e-6)


@pytest.mark.parametrize("tau", [1e-9, 0.3, 1e9])
def test_tau_is_only_a_unit(default, tau):
    scaled = gradient_flow(LOSS, separate(), t_end=1e5 * tau, tau=tau)
    np.testing.assert_allclose(scaled.times, tau * default.times, rtol=1e-9)
    np.testing.assert_allclose(drop_times(scaled), tau * drop_times(default), rtol=1e-9)


def test_default_setting_takes_few_steps(default):
    assert default.statistics.evaluations < 6000
    assert default.statistics.jacobians < 120


@pytest.mark.parametrize("method", ["DOP853", "RK45", "Radau", "BDF"])
def test_solvers_agree(method):
    weights = separate(scale=0.3)
    reference = gradient_flow(LOSS, weights, t_end=300.0, rtol=1e-11)
    other = gradient_flow(LOSS, weights, t_end=300.0, rtol=1e-8, method=method)
    times = np.linspace(0, 300, 50)
    np.testing.assert_allclose(other.effective_map_at(times), reference.effective_map_at(times), atol=3e-5)


def test_many_weights_take_the_explicit_method():
    task = RegressionTask(eigenvalues=np.linspace(1, 0.1, 23), context_length=9)
    trajectory = gradient_flow(QuadraticLoss.population(task), separate(heads=23, task=task), t_end=1.0)
    assert trajectory.statistics.method == "DOP853"


FAMILIES = {
    "merged": MergedWeights,
    "separate": SeparateWeights,
    "two-layer": TwoLayerNetwork,
    "convolutional": ConvolutionalNetwork,
    "full merged": FullMergedWeights,
    "full separate": FullSeparateWeights,
}


def family_case(name):
    rng = np.random.default_rng(1)
    weights = FAMILIES[name].initialize(TASK, heads=5, scale=0.3, rng=rng)
    if weights.effective_map().ndim == 2:
        return LOSS, weights
    data = sample_moments.sequences(TASK, 400, rng)
    return SampleMoments.from_batches(data, context="mean").loss(), weights


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_flows_and_conserves(name):
    loss, weights = family_case(name)
    trajectory = gradient_flow(loss, weights, t_end=200.0)
    assert trajectory.loss[-1] < 0.7 * trajectory.loss[0]
    assert trajectory.conservation_drift
    for drift in trajectory.conservation_drift.values():  # equations (17), (79), (85)
        assert drift < 2e-7  # weights of order 1, rtol 1e-8, hundreds of steps
    for name_, conserved in trajectory.conserved.items():
        assert conserved.shape == (len(trajectory.times), *weights.conserved()[name_].shape)


@pytest.mark.parametrize(("plain", "network"), [(merged(scale=0.3), TwoLayerNetwork), (separate(scale=0.3), ConvolutionalNetwork)])
def test_equivalent_networks_have_the_same_flow(plain, network):
    times = np.linspace(0, 300, 40)
    first = gradient_flow(LOSS, plain, t_end=300.0).effective_map_at(times)
    second = gradient_flow(LOSS, network.from_attention(plain), t_end=300.0).effective_map_at(times)
    np.testing.assert_allclose(first, second, atol=1e-6)


def test_permuting_heads_permutes_the_flow():
    weights, order = separate(scale=0.1), np.array([3, 0, 4, 1, 2])
    permuted = SeparateWeights(weights.v[order], weights.k[order], weights.q[order])
    one, other = (gradient_flow(LOSS, start, t_end=3000.0).at(2500.0) for start in (weights, permuted))
    np.testing.assert_allclose(other.v, one.v[order], atol=1e-6)
    np.testing.assert_allclose(other.k, one.k[order], atol=1e-6)


def test_restart_midway_changes_nothing(default):
    middle, later = 7000.0, 9000.0  # on a plateau, after a drop
    again = gradient_flow(LOSS, default.at(middle), t_end=later - middle, atol=1e-8 * 1e-2)
    np.testing.assert_allclose(again.at(later - middle).flatten(), default.at(later).flatten(), atol=3e-6)


# Closed forms


@pytest.mark.parametrize(("D", "N"), [(1, 1), (1, 31), (4, 1), (4, 31)])
def test_white_merged_flow_is_the_sigmoid_15(D, N):
    task = RegressionTask(eigenvalues=np.ones(D), context_length=N)
    w_2 = np.array([3e-4, -4e-4])
    start = MergedWeights(w_2, w_2[:, None, None] * np.eye(D) / np.sqrt(D))
    trajectory = gradient_flow(QuadraticLoss.population(task), start, t_end=20.0, tau=0.5)
    t = np.linspace(0, 20, 200)
    growth, alpha = np.exp(2 * np.sqrt(D) * t / 0.5), 1 + (1 + D) / N
    sigma = growth / (alpha * (growth - 1) + np.sqrt(D) / (w_2 @ w_2))
    np.testing.assert_allclose(trajectory.effective_map_at(t), sigma[:, None, None] * np.eye(D), atol=1e-7)


@pytest.mark.parametrize("scale", [1e-14, 1e-8, 1e-3])
def test_separate_scalar_flow_inverts_equation_67(scale):
    """D = 1, one balanced head: tau dv/dt = lambda^2 v^2 - lambda a v^5, whose time integral is (67)."""
    task = RegressionTask(eigenvalues=[0.7], context_length=3)
    lam, a = 0.7, task.second_moment_eigenvalues[0]
    start = SeparateWeights([scale], [[[scale]]], [[[scale]]])
    trajectory = gradient_flow(QuadraticLoss.population(task), start, t_end=3 / (lam**2 * scale), rtol=1e-10)

    def antiderivative(v):
        root = np.cbrt(a / lam)
        u = root * v
        logs = np.log((u * u + u + 1) / (u - 1) ** 2) - 2 * np.sqrt(3) * np.arctan((2 * u + 1) / np.sqrt(3))
        return root * logs / (6 * lam**2) - 1 / (lam**2 * v)

    final = np.cbrt(lam / a)
    assert trajectory.weights[-1].arrays[0][0] == pytest.approx(final, rel=1e-9)
    states = trajectory.arrays["v"][:, 0]
    grown = (states > 1.5 * scale) & (states < 0.999 * final)
    assert grown.sum() > 20
    expected = antiderivative(states[grown]) - antiderivative(scale)
    np.testing.assert_allclose(trajectory.times[grown], expected, rtol=1e-7)


def test_equal_eigenvalues_end_at_the_white_map():
    task = RegressionTask(eigenvalues=[0.3, 0.3, 0.3], context_length=10)
    loss = QuadraticLoss.population(task)
    trajectory = gradient_flow(loss, separate(heads=4, task=task), t_end=1e5)
    lam, a = 0.3, task.second_moment_eigenvalues[0]
    np.testing.assert_allclose(trajectory.effective_maps[-1], lam / a * np.eye(3), atol=1e-6)
    levels = 0.9 - np.arange(4) * lam**3 / a
    on_plateau = np.abs(trajectory.loss[:, None] - levels).min(axis=0)
    assert (on_plateau < 1e-3).all()


def test_one_token_of_context():
    task = RegressionTask(eigenvalues=[0.4, 0.3, 0.2], context_length=1)
    trajectory = gradient_flow(QuadraticLoss.population(task), separate(heads=4, task=task), t_end=1e6)
    lam, a = task.eigenvalues, task.second_moment_eigenvalues
    np.testing.assert_allclose(np.diag(trajectory.effective_maps[-1]), lam / a, rtol=1e-6)


def test_nearly_singular_covariance():
    """The direction of variance 1e-9 is never learned, and disturbs nothing: the others do as without it."""
    full = RegressionTask(eigenvalues=[0.4, 0.3, 1e-9], context_length=31)
    part = RegressionTask(eigenvalues=[0.4, 0.3], context_length=31)
    start = separate(heads=3, task=full)
    cut = SeparateWeights(start.v, start.k[:, :, :2], start.q[:, :, :2])
    whole = gradient_flow(QuadraticLoss.population(full), start, t_end=1e5)
    less = gradient_flow(QuadraticLoss.population(part), cut, t_end=1e5)
    times = np.geomspace(10, 1e5, 30)
    np.testing.assert_allclose(whole.effective_map_at(times)[:, :2, :2], less.effective_map_at(times), atol=1e-5)
    assert np.abs(whole.effective_maps[-1][2, 2]) < 0.1


@pytest.mark.parametrize("make", [separate, merged])
def test_large_initial_weights(make):
    start = make(scale=10.0, heads=8)
    trajectory = gradient_flow(LOSS, start, t_end=2e5)
    lam, a = TASK.eigenvalues, TASK.second_moment_eigenvalues
    np.testing.assert_allclose(trajectory.effective_maps[-1], np.diag(lam / a), atol=1e-5)
    assert np.diff(trajectory.loss).max() < 1e-6 * trajectory.loss[0]


def test_separate_drops_at_vanishing_scale_take_times_in_proportion_to_its_inverse():
    """w_init t_m has a limit as w_init falls; at 1e-14 the drops lie at times that a double resolves to about 10 tau."""
    runs = [gradient_flow(LOSS, separate(scale=scale), t_end=500 / scale) for scale in (1e-8, 1e-14)]
    times = []
    for run, scale in zip(runs, (1e-8, 1e-14), strict=True):
        halves = np.diagonal(run.effective_maps, axis1=1, axis2=2) > np.diag(run.effective_maps[-1]) / 2
        times.append(run.times[np.argmax(halves, axis=0)] * scale)
        assert run.loss[-1] == pytest.approx(PLATEAUS[-1], abs=1e-6)
    np.testing.assert_allclose(times[1], times[0], rtol=1e-6)
    assert runs[1].statistics.restarts > 0


@pytest.mark.skipif(np.finfo(np.longdouble).eps == np.finfo(float).eps, reason="this platform's long double is a double")
@pytest.mark.parametrize("eigenvalues", [(0.5, 0.5, 0.2), (0.5, 0.5, 0.5)])
def test_equal_eigenvalues_at_vanishing_scale(eigenvalues):
    """The learned direction of an eigenspace is free, and may not drift by rounding: B on the first plateau has a limit as w_init falls."""
    task = RegressionTask(eigenvalues=eigenvalues, context_length=31)
    loss, maps = QuadraticLoss.population(task), []
    shares = task.eigenvalues**3 / task.second_moment_eigenvalues
    for scale in (1e-8, 1e-13):
        start = SeparateWeights.initialize(task, heads=4, rank=1, scale=scale, rng=np.random.default_rng(1))
        run = gradient_flow(loss, start, t_end=3000 / scale, dense=False, max_steps=20_000)
        assert run.loss[-1] == pytest.approx(np.trace(task.covariance) - shares.sum(), abs=1e-12)
        end = np.argmax(run.loss < np.trace(task.covariance) - shares[0] - 1e-9) - 1  # of the first plateau
        maps.append(run.effective_maps[end])
    np.testing.assert_allclose(maps[1], maps[0], atol=1e-6)


def test_merged_drop_at_vanishing_scale_is_later_by_the_logarithm_51():
    times = []
    for scale in (1e-10, 1e-14):
        run = gradient_flow(LOSS, merged(scale=scale), t_end=2000.0)
        times.append(run.times[np.argmax(run.loss < 0.5)])
        fine = gradient_flow(LOSS, merged(scale=scale), t_end=2000.0, stop_loss=0.5)
        times[-1] = fine.times[-1]
    delay = np.log(1e4) / np.linalg.norm(TASK.covariance @ TASK.covariance)
    assert times[1] - times[0] == pytest.approx(delay, rel=1e-5)


def test_zero_weights_stay():
    trajectory = gradient_flow(LOSS, SeparateWeights(np.zeros(4), np.zeros((4, 1, 4)), np.zeros((4, 1, 4))), t_end=1e3)
    assert not trajectory.states.any()


# Stopping and failing


def test_stop_at_a_loss():
    trajectory = gradient_flow(LOSS, separate(), t_end=1e5, stop_loss=0.5)
    assert trajectory.statistics.stopped == "stop_loss"
    assert trajectory.loss[-1] == pytest.approx(0.5, abs=1e-9)
    assert trajectory.loss_at(trajectory.times[-1]) == trajectory.loss[-1]


@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_stop_at_a_plateau(m):
    trajectory = gradient_flow(LOSS, separate(), t_end=1e5, stop_plateau=m)
    assert trajectory.statistics.stopped == "stop_plateau"
    assert trajectory.loss[-1] == pytest.approx(PLATEAUS[m], rel=1e-2)


def test_a_run_that_reaches_its_end_says_so(default):
    assert default.statistics.stopped == "t_end"
    assert default.times[-1] == 1e5
    unreached = gradient_flow(LOSS, separate(), t_end=100.0, stop_loss=0.5)
    assert unreached.statistics.stopped == "t_end"


def test_weights_whose_loss_overflows_are_refused():
    start = SeparateWeights([1e150], [[[1e150]]], [[[1e150]]])
    loss = QuadraticLoss.population(RegressionTask(eigenvalues=[1.0], context_length=1))
    with pytest.raises(ValueError, match=r"weights must be small enough for a finite loss, got the loss (nan|inf)"):
        gradient_flow(loss, start, t_end=1.0)


@pytest.mark.parametrize("method", ["LSODA", "DOP853", "Radau"])
def test_a_failure_gives_its_cause_and_the_last_good_time_in_the_units_of_tau(method):
    """A loss that is unbounded below, C = -1: the flow of v U blows up in finite time."""
    loss = QuadraticLoss.from_moments(second=[[-1.0]], cross=[[0.0]], square=0.0)
    start = MergedWeights([1.0], [[[1.0]]])
    with pytest.raises(FlowError) as failure:  # dv/dt = v^3: v = (1 - 2 t)^(-1/2)
        gradient_flow(loss, start, t_end=1e3, tau=1e3, method=method, rtol=1e-4)
    assert failure.value.cause
    assert failure.value.time == pytest.approx(500.0, rel=5e-3)


def test_too_many_steps_are_a_failure_and_not_a_truncated_run():
    with pytest.raises(FlowError, match="more than max_steps = 50 steps") as failure:
        gradient_flow(LOSS, separate(), t_end=1e5, tau=2.0, max_steps=50)
    full = gradient_flow(LOSS, separate(), t_end=1e5, tau=2.0)
    assert failure.value.time == pytest.approx(full.times[51], rel=1e-12)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"max_steps": 0}, ValueError, "max_steps must be an integer of at least 1, got 0"),
        ({"t_end": 0.0}, ValueError, "t_end must be a positive finite number, got 0.0"),
        ({"t_end": np.inf}, ValueError, "t_end must be a positive finite number, got inf"),
        ({"t_end": np.float64(-2)}, ValueError, r"t_end must be a positive finite number, got -2\.0$"),
        ({"tau": -1.0}, ValueError, "tau must be a positive finite number, got -1.0"),
        ({"rtol": 0.0}, ValueError, "rtol must be"),
        ({"rtol": 1.0}, ValueError, r"rtol must be at least .* and below 1, got 1\.0"),
        ({"rtol": 1e-16}, ValueError, r"rtol must be at least 2\.2e-14, .*, got 1e-16"),
        ({"atol": -1.0}, ValueError, "atol must be a positive finite number, got -1.0"),
        ({"method": "Euler"}, ValueError, "method must be one of LSODA, DOP853, RK45, Radau, BDF, compiled, got 'Euler'"),
        ({"stop_loss": np.nan}, ValueError, "stop_loss must be a finite number of at least 0, got nan"),
        ({"stop_plateau": 0}, ValueError, "stop_plateau must be an integer of at least 1, got 0"),
        ({"loss": 3}, TypeError, "loss must be a QuadraticLoss, got 3"),
        ({"weights": np.ones(3)}, TypeError, "weights must be a parametrization"),
        (
            {"weights": MergedWeights([1.0], np.ones((1, 2, 2)))},
            ValueError,
            r"weights must make an effective map of the loss's shape \(4, 4\), got \(2, 2\)",
        ),
    ],
)
def test_bad_arguments_are_named(change, error, message):
    arguments = {"loss": LOSS, "weights": separate(), "t_end": 1.0, **change}
    loss, weights = arguments.pop("loss"), arguments.pop("weights")
    with pytest.raises(error, match=message):
        gradient_flow(loss, weights, **arguments)
