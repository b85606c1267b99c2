"""Variations of the task: moments of sampled sequences, fixed points and indices, whole-curve predictions, and what is refused."""

import numpy as np
import pytest
from iclflow.numerics import QuadraticLoss, RegressionTask, SeparateWeights, gradient_flow, predict_curve, sequences
from iclflow.numerics.landscape.fixed_points import (
    has_equal_eigenvalues,
    index_at_minimal_norm,
    merged_fixed_points,
    search_fixed_points,
    separate_fixed_points,
)
from iclflow.numerics.parametrizations.attention import MergedWeights
from iclflow.numerics.reductions.merged_curve import effective_start
from iclflow.numerics.reductions.scalar import ScalarReduction
from iclflow.numerics.tasks.mixed_task import MixedTask
from iclflow.numerics.tasks.token_laws import GaussianTokens, RademacherTokens, SphereTokens, StudentTokens

COVARIANCE = [[0.8, 0.3], [0.3, 0.5]]
OTHERS = {"task_covariance": [[0.4, -0.3], [-0.3, 1.2]], "query_covariance": [[0.5, 0.1], [0.1, 0.9]]}
LAWS = [SphereTokens(), StudentTokens(12), RademacherTokens()]
VARIED = [
    RegressionTask(covariance=COVARIANCE, context_length=4, noise_variance=0.7),
    RegressionTask(covariance=COVARIANCE, context_length=4, **OTHERS),
    RegressionTask(covariance=COVARIANCE, context_lengths={1: 0.5, 3: 0.25, 6: 0.25}, noise_variance=0.2),
    RegressionTask(covariance=COVARIANCE, context_lengths={1: 0.5, 3: 0.25, 6: 0.25}, context_gain="official"),
    RegressionTask(covariance=COVARIANCE, context_lengths={1: 0.5, 6: 0.5}, context_gain={1: 2.0, 6: 0.7}, **OTHERS),
    RegressionTask(covariance=COVARIANCE, context_length=4, context_gain="official"),
    *(RegressionTask(covariance=COVARIANCE, context_length=2, token_law=law, **OTHERS) for law in LAWS),
]


@pytest.mark.parametrize("task", VARIED, ids=lambda task: str(sorted(task.variations)))
def test_moments_of_sampled_sequences(task):
    (tokens, target), *_ = sequences(task, 60_000, np.random.default_rng(3), batch_size=60_000)
    beta = np.einsum("pni,pn->pi", tokens[:, :-1, :2], tokens[:, :-1, 2]) / task.context_length
    query = tokens[:, -1, :2]
    A, M, Q, c = task.loss_moments
    for sampled, exact in (
        (target[:, None, None] * beta[:, :, None] * query[:, None], A),
        (beta[:, :, None] * beta[:, None], M),
        (query[:, :, None] * query[:, None], Q),
        (target**2, c),
    ):
        error = sampled.std(axis=0) / np.sqrt(len(sampled))
        assert (np.abs(sampled.mean(axis=0) - exact) < 5 * error).all()
        assert (error < 0.05 * np.abs(exact).max()).all()  # a band that can fail


def test_a_random_length_is_its_harmonic_mean():
    random = RegressionTask(eigenvalues=[0.7, 0.3], context_lengths=[2, 3, 6])
    fixed = RegressionTask(eigenvalues=[0.7, 0.3], context_length=3)  # 1/2 + 1/3 + 1/6 = 3/3
    assert random.effective_context_length == pytest.approx(3)
    assert random.context_length == 6
    np.testing.assert_allclose(random.second_moment, fixed.second_moment, rtol=1e-14)


@pytest.mark.parametrize("gain", ["present", "longest", "official", lambda n: 0.3 + 1 / n])
def test_the_loss_is_the_mean_over_lengths_with_the_gain_in_the_map(gain):
    task = RegressionTask(covariance=COVARIANCE, context_lengths=[2, 3, 6], context_gain=gain, noise_variance=0.3, **OTHERS)
    B = np.array([[1.0, -0.4], [0.2, 0.7]])
    divisor = {"present": lambda n: n, "longest": lambda n: 6, "official": lambda n: n + 1}.get(str(gain))
    assert list(task.context_gains.values()) == [n / divisor(n) if divisor else 0.3 + 1 / n for n in (2, 3, 6)]
    fixed = [RegressionTask(covariance=COVARIANCE, context_length=n, noise_variance=0.3, **OTHERS) for n in (2, 3, 6)]
    losses = [QuadraticLoss.population(one).value(task.context_gains[one.context_length] * B) for one in fixed]
    assert QuadraticLoss.population(task).value(B) == pytest.approx(np.mean(losses), rel=1e-13)


def test_a_function_a_mapping_and_a_name_give_the_same_gains():
    official = [
        RegressionTask(eigenvalues=[0.6, 0.4], context_lengths=range(1, 5), context_gain=gain)
        for gain in ("official", lambda n: n / (n + 1), {n: n / (n + 1) for n in range(1, 9)})
    ]
    assert official[0].context_gains == official[1].context_gains == official[2].context_gains
    assert official[0].variations == {"context_lengths", "context_gain"}
    assert RegressionTask(eigenvalues=[0.6], context_length=5, context_gain="longest").variations == frozenset()


def test_gains_take_from_every_drop_alike():
    """(V4-effective): N_e and the share of a drop, a quarter lost where long contexts are divided by the longest."""
    task = RegressionTask(eigenvalues=[0.6, 0.4], context_lengths=range(1, 3001), context_gain="longest")
    assert task.effective_context_length == pytest.approx((2 * 3000 + 1) / 3)
    plain = RegressionTask(eigenvalues=[0.6, 0.4], context_length=2000)
    np.testing.assert_allclose(task.modes.drops / plain.modes.drops, 0.75, rtol=1e-3)
    np.testing.assert_allclose(task.modes.growth, plain.modes.growth * 3001 / 6000, rtol=1e-13)


def test_lengths_are_counted_and_those_that_never_occur_are_not():
    counted = RegressionTask(eigenvalues=[0.6], context_lengths=np.array([8, 2, 8, 8]))
    assert counted.context_lengths == {8: 0.75, 2: 0.25}
    never = RegressionTask(eigenvalues=[0.6], context_lengths={3: 1.0, 100: 0.0}, context_gain="longest")
    assert never.context_lengths == {3: 1.0}
    assert never.context_length == 3
    assert never.variations == frozenset()


def test_all_defaults_written_out_are_the_plain_task():
    plain = RegressionTask(covariance=COVARIANCE, context_length=4)
    written = RegressionTask(
        covariance=COVARIANCE, context_lengths=[4], noise_variance=0.0, task_covariance=np.eye(2),
        query_covariance=COVARIANCE, token_law=GaussianTokens(),
    )  # fmt: skip
    for one, other in zip(plain.loss_moments, written.loss_moments, strict=True):
        np.testing.assert_array_equal(one, other)
    assert plain.variations == frozenset()


@pytest.mark.parametrize(("rank", "heads"), [(1, 4), (2, 2)])
def test_fixed_points_of_covariances_that_do_not_commute(rank, heads):
    rng = np.random.default_rng(1)
    random = [(lambda X: X @ X.T / 3 + 0.1 * np.eye(3))(rng.normal(size=(3, 3))) for _ in range(3)]
    task = RegressionTask(covariance=random[0], task_covariance=random[1], query_covariance=random[2], context_length=5, noise_variance=0.3)
    points = list(separate_fixed_points(task, heads=heads, rank=rank))
    assert len(points) == 8
    for point in points:
        S = list(point.directions)
        assert point.residual < 1e-13
        assert point.loss == pytest.approx(task.loss_moments.c - task.modes.drops[S].sum(), rel=1e-12)
        if S:
            assert point.index == index_at_minimal_norm(task, S, rank=rank), "T2 with drops for eigenvalues"
    assert merged_fixed_points(task, heads=2)[1].residual < 1e-13
    assert not has_equal_eigenvalues(task)


def test_a_search_finds_the_four_maps_and_no_other():
    search = search_fixed_points(VARIED[1], heads=2, starts=30, rng=np.random.default_rng(2))
    assert len(search.found) == 4
    assert search.distance < 1e-11
    assert search.converged >= 25


def test_a_shared_singular_value_is_noticed():
    """lambda omega is the same for both directions, lambda is not."""
    equal = RegressionTask(eigenvalues=[1.0, 0.5], task_covariance=np.diag([0.5, 1.0]), context_length=9)
    assert has_equal_eigenvalues(equal)
    assert not has_equal_eigenvalues(RegressionTask(eigenvalues=[1.0, 0.5], context_length=9))


def flow_error(task, scale=1e-3):
    """The predicted drop times against those of the flow, as the loss crosses the middle of each drop."""
    weights = SeparateWeights.initialize(task, heads=4, rank=1, scale=scale, rng=np.random.default_rng(0))
    prediction = predict_curve(task, weights)
    run = gradient_flow(QuadraticLoss.population(task), weights, t_end=1.2 * float(prediction.drops.max()))
    times = np.linspace(0, run.times[-1], 20_000)
    losses, predicted = run.loss_at(times), prediction.loss(times)
    middles = task.loss_moments.c - np.cumsum(np.sort(task.modes.drops)[::-1]) + np.sort(task.modes.drops)[::-1] / 2
    crossings = [[times[np.argmax(curve < level)] for level in middles] for curve in (losses, predicted)]
    return float(np.abs(np.array(crossings[1]) / crossings[0] - 1).max())


@pytest.mark.parametrize(
    "options",
    [
        {"context_length": 8, "noise_variance": 1.0},
        {"context_lengths": range(1, 9)},
        {"context_lengths": range(1, 9), "context_gain": "official"},
        {"context_length": 8, "token_law": SphereTokens()},
        {"context_length": 8, "task_covariance": np.diag([1.5, 0.8])},
    ],
    ids=lambda options: list(options)[-1],
)
def test_curves_are_predicted(options):
    assert flow_error(RegressionTask(eigenvalues=[0.6, 0.4], **options)) < 3e-3  # of the order of the initial scale


def test_curves_are_not_predicted_where_heads_turn():
    turning = RegressionTask(eigenvalues=[1.0, 0.5], task_covariance=np.diag([0.3, 0.8]), context_length=20)
    weights = SeparateWeights.initialize(turning, heads=3, rank=1, scale=1e-2, rng=np.random.default_rng(1))
    with pytest.raises(ValueError, match="growth rates and drops in one order"):
        predict_curve(turning, weights)
    with pytest.raises(ValueError, match="covariances that commute"):
        predict_curve(VARIED[1], weights)
    with pytest.raises(ValueError, match="covariances that commute"):
        ScalarReduction.of(VARIED[1], 0)


def test_one_direction_flows_by_its_own_rate():
    """tau dv/dt = A_d v^2 - M_d Q_d v^5."""
    task = RegressionTask(eigenvalues=[1.0, 0.5], task_covariance=np.diag([0.3, 0.8]), context_length=20)
    A, M, Q, _ = task.loss_moments
    for d in range(2):
        reduction = ScalarReduction.of(task, d)
        expected = A[d, d] * 0.3**2 - M[d, d] * Q[d, d] * 0.3**5
        assert float(reduction.velocity(0.3)) == pytest.approx(expected, rel=1e-12)
        assert float(reduction.loss_drop(1.0)) == pytest.approx(-task.modes.drops[d], rel=1e-12)


def test_what_speaks_of_the_plain_task_only_refuses_the_others():
    noisy, weights = VARIED[0], MergedWeights(np.ones(1), np.ones((1, 2, 2)))
    with pytest.raises(ValueError, match="must not vary noise_variance"):
        MixedTask(noisy, 0.5, np.ones((1, 2)))
    with pytest.raises(ValueError, match="must not vary query_covariance, task_covariance"):
        effective_start(VARIED[1], weights)
    assert effective_start(noisy, weights).shape == (2, 2)
    with pytest.raises(ValueError, match="must commute with covariance"):
        _ = VARIED[1].second_moment_eigenvalues


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"noise_variance": -1.0}, "noise_variance must be a finite number of at least 0, got -1"),
        ({"task_covariance": np.eye(3)}, r"task_covariance must have shape \(2, 2\), got shape \(3, 3\)"),
        ({"query_covariance": -np.eye(2)}, "query_covariance must be positive definite"),
        ({"query_covariance": np.diag([1.0, 0.0])}, "query_covariance must be positive definite"),
        ({"task_covariance": np.diag([1.0, -0.1])}, "task_covariance must be nonzero and positive semidefinite"),
        ({"task_covariance": np.zeros((2, 2))}, "task_covariance must be nonzero and positive semidefinite"),
        ({"task_vectors": [[1.0, 0.0, 0.0]]}, r"task_vectors must have shape \(K, 2\), got shape \(1, 3\)"),
        ({"task_vectors": np.zeros((3, 2))}, "task_vectors must not all be zero"),
        ({"task_vectors": np.eye(2), "number_of_tasks": 2}, "at most one of task_vectors and number_of_tasks must be given, got both"),
        ({"task_vectors": np.eye(2), "task_covariance": np.eye(2)}, "task_covariance must be left out with task_vectors"),
        ({"number_of_tasks": 0}, "number_of_tasks must be an integer of at least 1, got 0"),
        ({"number_of_tasks": 10**10}, "number_of_tasks must be smaller"),
        ({"context_lengths": [2, 3]}, "exactly one of context_length and context_lengths must be given, got both"),
        ({"context_length": None}, "context_length must be an integer of at least 1, got None"),
        ({"context_length": None, "context_lengths": []}, "must name at least one length"),
        ({"context_length": None, "context_lengths": [2, 0]}, "context_lengths must be an integer of at least 1, got 0"),
        ({"context_length": None, "context_lengths": {2: 0.5}}, "add up to 1"),
        ({"context_length": None, "context_lengths": {2: 1.5, 3: -0.5}}, "context_lengths must be .* at least 0"),
        ({"context_length": None, "context_lengths": {0: 1.0}}, "context_lengths must be an integer of at least 1, got 0"),
        ({"context_gain": "mean"}, "context_gain must be one of present, longest, official, or gains, got 'mean'"),
        ({"context_gain": {2: 1.0}}, "context_gain must give every length a gain, got none for 3"),
        ({"context_gain": {3: 0.0}}, "context_gain must be a positive finite number, got 0.0"),
        ({"context_gain": lambda n: n - 3}, "context_gain must be a positive finite number, got 0"),
        ({"context_gain": lambda n: "1"}, "context_gain must be a positive finite number, got '1'"),
    ],
)
def test_bad_variations_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        RegressionTask(**{"eigenvalues": [0.6, 0.4], "context_length": 3, **options})


def test_tasks_in_a_subspace_by_a_small_variance_elsewhere():
    """The remedy of the refusal: what is never asked for is neither paid for nor learned."""
    task = RegressionTask(eigenvalues=[0.6, 0.4], context_length=6, task_covariance=np.diag([1.0, 1e-6]))
    weights = SeparateWeights.initialize(task, heads=2, rank=1, scale=0.1, rng=np.random.default_rng(0))
    run = gradient_flow(QuadraticLoss.population(task), weights, t_end=500)
    learned = run.at(500).effective_map()
    assert run.loss[-1] == pytest.approx(task.loss_moments.c - task.modes.drops[0], rel=1e-5)
    assert np.abs(learned[:, 1]).max() < 0.02 * learned[0, 0]


def test_a_task_shows_its_variations_with_their_values():
    plain = RegressionTask(eigenvalues=[0.5, 0.25], context_length=4)
    assert repr(plain) == "RegressionTask(covariance=[[0.5 , 0. ], [0. , 0.25]], context_length=4)"
    varied = RegressionTask(
        eigenvalues=[0.5], context_lengths={2: 0.5, 4: 0.5}, context_gain="longest", noise_variance=0.3,
        task_covariance=[[2.0]], token_law=StudentTokens(8),
    )  # fmt: skip
    assert repr(varied) == (
        "RegressionTask(covariance=[[0.5]], context_lengths={2: 0.5, 4: 0.5}, context_gains={2: 0.5, 4: 1.0}, noise_variance=0.3, "
        "task_covariance=[[2.]], token_law=StudentTokens(degrees_of_freedom=8))"
    )
    with pytest.raises(ValueError, match=r"query_covariance=\[\[0.5, 0.1\]"):
        effective_start(VARIED[1], MergedWeights(np.ones(1), np.ones((1, 2, 2))))
