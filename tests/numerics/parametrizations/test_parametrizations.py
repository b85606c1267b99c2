"""Every parametrization: its velocity against autograd of a PyTorch forward pass, and the identities of its derivatives."""

import numpy as np
import pytest
import torch
from iclflow.numerics import (
    ConvolutionalNetwork,
    FullMergedWeights,
    FullSeparateWeights,
    MergedWeights,
    QuadraticLoss,
    RegressionTask,
    SampleMoments,
    SeparateWeights,
    TwoLayerNetwork,
)
from iclflow.numerics.parametrizations.base import field_jacobian, vector_field
from iclflow.numerics.tasks import sample_moments

D, N = 3, 5
TASK = RegressionTask(covariance=[[0.5, 0.1, 0.0], [0.1, 0.4, -0.1], [0.0, -0.1, 0.2]], context_length=N)
TOKENS, TARGET = next(iter(sample_moments.sequences(TASK, 40, np.random.default_rng(7), batch_size=40)))
POPULATION = QuadraticLoss.population(TASK)
REDUCED = SampleMoments.from_batches([(TOKENS, TARGET)], context="mean").reduced().loss()
UNREDUCED = SampleMoments.from_batches([(TOKENS, TARGET)], context="mean").loss()

MAKERS = {
    "merged": lambda rng: MergedWeights.initialize(TASK, heads=2, scale=1.5, rng=rng),
    "separate, rank 1": lambda rng: SeparateWeights.initialize(TASK, heads=4, rank=1, scale=1.5, rng=rng),
    "separate, rank 2": lambda rng: SeparateWeights.initialize(TASK, heads=3, rank=2, scale=1.5, rng=rng),
    "two-layer": lambda rng: TwoLayerNetwork.initialize(TASK, heads=2, scale=1.5, rng=rng),
    "convolutional": lambda rng: ConvolutionalNetwork.initialize(TASK, heads=4, scale=1.5, rng=rng),
    "full merged": lambda rng: FullMergedWeights.initialize(TASK, heads=2, scale=1.5, block_scale=1.0, rng=rng),
    "full separate": lambda rng: FullSeparateWeights.initialize(TASK, heads=3, rank=2, scale=1.5, block_scale=1.0, rng=rng),
}
each = pytest.mark.parametrize("name", MAKERS)


def make(name, seed=0):
    return MAKERS[name](np.random.default_rng(seed))


def loss_for(weights):
    return UNREDUCED if weights.effective_map().ndim == 3 else REDUCED


def attention(value, key_query):
    """The output at the query position of linear attention on the prompt matrix X itself, equations (1), (5) and (7).

    ``value[i]`` is the last row of W_V of head i, ``key_query[i]`` the first D columns of its W_KQ.
    """
    X = torch.as_tensor(TOKENS).transpose(1, 2)
    scores = torch.einsum("pam,hac,pc->phm", X, key_query, X[:, :-1, -1]) / N
    return torch.einsum("ha,pam,phm->p", value, X, scores)


def features():
    """z = vec(beta x_q') with columns stacked, one row a sequence, equation (12)."""
    x, y, x_q = (torch.as_tensor(part) for part in (TOKENS[:, :-1, :-1], TOKENS[:, :-1, -1], TOKENS[:, -1, :-1]))
    beta = torch.einsum("pn,pnd->pd", y, x) / N
    return torch.einsum("pc,pb->pcb", x_q, beta).flatten(1)


def pad(array, *widths):
    return torch.nn.functional.pad(array, widths)


def forward(weights, arrays):
    match weights:
        case MergedWeights():
            v, U = arrays
            return attention(pad(v[:, None], D, 0), pad(U, 0, 0, 0, 1))
        case SeparateWeights():
            v, k, q = arrays
            return attention(pad(v[:, None], D, 0), pad(k, 0, 1).transpose(1, 2) @ q)
        case FullMergedWeights():
            return attention(*arrays)
        case FullSeparateWeights():
            value, key, query = arrays
            return attention(value, key.transpose(1, 2) @ query)
        case TwoLayerNetwork():
            w_2, W_1 = arrays
            return (features() @ W_1.T) @ w_2
        case ConvolutionalNetwork():
            v, k, q = arrays
            patches = torch.nn.functional.conv1d(features()[:, None], k[:, None], stride=D)
            return torch.einsum("h,hd,phd->p", v, q, patches)
    raise AssertionError(weights)


@each
def test_velocity_is_minus_half_the_autograd_gradient(name):
    weights = make(name)
    arrays = [torch.tensor(array, requires_grad=True) for array in weights.arrays]
    loss = ((torch.as_tensor(TARGET) - forward(weights, arrays)) ** 2).mean()
    loss.backward()
    autograd = np.concatenate([-0.5 * array.grad.numpy().ravel() for array in arrays])
    ours = loss_for(weights)
    assert ours.value(weights.effective_map()) == pytest.approx(loss.item(), rel=1e-12)
    velocity = vector_field(ours, weights)(0.0, weights.flatten())
    np.testing.assert_allclose(velocity, autograd, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(weights.pull_back(ours.force(weights.effective_map())).flatten(), velocity, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", ["merged", "separate, rank 1", "separate, rank 2", "two-layer", "convolutional"])
def test_population_velocity_is_minus_half_the_autograd_gradient(name):
    weights = make(name)
    arrays = [torch.tensor(array, requires_grad=True) for array in weights.arrays]
    match weights:
        case MergedWeights():
            B = torch.einsum("h,hbc->bc", *arrays)
        case SeparateWeights():
            B = torch.einsum("h,hrb,hrc->bc", *arrays)
        case TwoLayerNetwork():
            B = torch.einsum("h,hz->z", *arrays).reshape(D, D).T
        case _:
            B = torch.einsum("h,hb,hc->bc", *arrays)
    Lambda, trace = torch.tensor(TASK.covariance), float(np.trace(TASK.covariance))
    M = Lambda @ Lambda + (Lambda @ Lambda + trace * Lambda) / N
    loss = trace - 2 * torch.trace(Lambda @ B @ Lambda) + torch.trace(B.T @ M @ B @ Lambda)
    loss.backward()
    autograd = np.concatenate([-0.5 * array.grad.numpy().ravel() for array in arrays])
    velocity = vector_field(POPULATION, weights)(0.0, weights.flatten())
    np.testing.assert_allclose(velocity, autograd, rtol=1e-12, atol=1e-14)


@each
def test_pull_back_is_the_transpose_of_the_jacobian(name):
    weights, direction = make(name), make(name, seed=1)
    G = np.random.default_rng(2).normal(size=weights.effective_map().shape)
    pushed = (direction.flatten() @ type(weights).jacobian(*weights.arrays)).reshape(G.shape)
    assert np.vdot(G, pushed) == pytest.approx(weights.pull_back(G).flatten() @ direction.flatten(), rel=1e-12)
    eps = 1e-6
    moved = [weights.unflatten(weights.flatten() + sign * eps * direction.flatten()) for sign in (1, -1)]
    difference = (moved[0].effective_map() - moved[1].effective_map()) / (2 * eps)
    np.testing.assert_allclose(pushed, difference, atol=1e-8)


@each
def test_hessian_by_autograd_and_by_matrix(name):
    weights, direction = make(name), make(name, seed=1)
    loss, w, d = loss_for(weights), weights.flatten(), direction.flatten()
    arrays, along = (tuple(torch.tensor(np.array(array)) for array in one.arrays) for one in (weights, direction))

    def half(*arrays):
        return ((torch.as_tensor(TARGET) - forward(weights, arrays)) ** 2).mean() / 2

    product = np.concatenate([part.numpy().ravel() for part in torch.autograd.functional.hvp(half, arrays, along)[1]])
    H = weights.hessian(loss)
    np.testing.assert_allclose(H @ d, product, rtol=1e-10, atol=1e-12 * np.abs(product).max())
    np.testing.assert_allclose(H, H.T, atol=1e-14 * np.abs(H).max())
    np.testing.assert_array_equal(H, -field_jacobian(loss, weights)(0.0, w))


@each
def test_conserved_quantities_have_no_rate_for_any_loss(name):
    """(17), (79), (85): along the velocity of an arbitrary G the first-order change is exactly zero."""
    weights = make(name)
    G = np.random.default_rng(3).normal(size=weights.effective_map().shape)
    w, velocity = weights.flatten(), weights.pull_back(G).flatten()
    ahead, behind = (weights.unflatten(w + sign * 1e-3 * velocity).conserved() for sign in (1, -1))
    other = weights.unflatten(w + 1e-3 * np.random.default_rng(4).normal(size=w.size)).conserved()
    assert weights.conserved()
    for quantity in ahead:  # quadratic in the weights: the central difference is exact
        np.testing.assert_allclose(ahead[quantity], behind[quantity], atol=1e-14)
        assert np.abs(other[quantity] - ahead[quantity]).max() > 1e-6


@each
def test_permuting_heads_changes_nothing(name):
    weights = make(name)
    order = np.random.default_rng(5).permutation(len(weights.arrays[0]))
    permuted = type(weights)(*(array[order] for array in weights.arrays))
    np.testing.assert_allclose(permuted.effective_map(), weights.effective_map(), rtol=1e-12, atol=1e-14)
    G = loss_for(weights).force(weights.effective_map())
    for moved, kept in zip(permuted.pull_back(G).arrays, weights.pull_back(G).arrays, strict=True):
        np.testing.assert_allclose(moved, kept[order], rtol=1e-12, atol=1e-14)


@each
def test_flatten_and_unflatten_are_inverse(name):
    weights = make(name)
    vector = np.random.default_rng(6).normal(size=weights.size)
    np.testing.assert_array_equal(weights.unflatten(vector).flatten(), vector)
    for back, array in zip(weights.unflatten(weights.flatten()).arrays, weights.arrays, strict=True):
        np.testing.assert_array_equal(back, array)
    with pytest.raises(ValueError, match=rf"vector must have shape \({weights.size},\), got shape \(2,\)"):
        weights.unflatten([1.0, 2.0])
    with pytest.raises(ValueError, match="read-only"):
        weights.arrays[0][0] = 1.0


def test_networks_are_the_attention_models_on_z():
    z = features().numpy()
    merged, separate = make("merged"), make("separate, rank 1")
    for network, attention_model in (
        (TwoLayerNetwork.from_attention(merged), merged),
        (ConvolutionalNetwork.from_attention(separate), separate),
    ):
        expected = forward(attention_model, [torch.tensor(array) for array in attention_model.arrays]).numpy()
        np.testing.assert_allclose(network.output(z), expected, rtol=1e-12, atol=1e-13)  # equation (11), section 4.1
        np.testing.assert_array_equal(network.effective_map(), attention_model.effective_map())


@pytest.mark.parametrize(("reduced", "family"), [("merged", FullMergedWeights), ("separate, rank 2", FullSeparateWeights)])
def test_embedding_keeps_the_function_and_the_reduced_velocity(reduced, family):
    weights = make(reduced)
    full = family.embed(weights)
    B = full.effective_map()
    np.testing.assert_allclose(B[D, :D], weights.effective_map(), rtol=1e-14)
    assert UNREDUCED.value(B) == pytest.approx(REDUCED.value(weights.effective_map()), rel=1e-12)
    pulled = full.pull_back(UNREDUCED.force(B)).arrays
    kept = weights.pull_back(REDUCED.force(weights.effective_map())).arrays
    np.testing.assert_allclose(pulled[0][:, D], kept[0], rtol=1e-10, atol=1e-13)
    assert np.abs(pulled[0][:, :D]).max() > 1e-4  # on finite data the zero blocks do move


# The laws (34) and (36): variances times w_init^2, for each array.
LAWS = {
    "merged": (MergedWeights, {}, lambda H, R: {"v": 1 / H, "U": 1 / (H * D**2)}),
    "two-layer": (TwoLayerNetwork, {}, lambda H, R: {"w_2": 1 / H, "W_1": 1 / (H * D**2)}),
    "convolutional": (ConvolutionalNetwork, {}, lambda H, R: {"v": 1 / H, "k": 1 / (H * D), "q": 1 / (H * D)}),
    "separate": (SeparateWeights, {"rank": 2}, lambda H, R: {"v": 1 / H, "k": 1 / (H * R * D), "q": 1 / (H * R * D)}),
}


@pytest.mark.parametrize("name", LAWS)
def test_initial_variances(name):
    family, options, law = LAWS[name]
    weights = family.initialize(TASK, heads=20_000, scale=0.3, rng=np.random.default_rng(0), **options)
    for array, variance in law(20_000, 2).items():
        drawn = getattr(weights, array)
        error = np.sqrt(2 / drawn.size)
        assert drawn.var() / 0.09 == pytest.approx(variance, rel=5 * error)


@pytest.mark.parametrize("family", [FullMergedWeights, FullSeparateWeights])
def test_unreduced_blocks_start_at_zero_unless_told_otherwise(family):
    rng = np.random.default_rng(0)
    value = family.initialize(TASK, heads=4, scale=0.1, rng=rng).value
    assert not value[:, :D].any()
    assert value[:, D].all()
    moved = family.initialize(TASK, heads=4, scale=0.1, block_scale=0.2, rng=rng)
    assert all(array.all() for array in moved.arrays)


def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: SeparateWeights.initialize(TASK, heads=2, rank=1, scale=0.1, rng=rng()),
            ValueError,
            r"heads \* rank must be at least the dimension 3, got heads=2, rank=1",
        ),
        (
            lambda: ConvolutionalNetwork.initialize(TASK, heads=2, scale=0.1, rng=rng()),
            ValueError,
            r"heads \* rank must be at least the dimension 3, got heads=2, rank=1",
        ),
        (
            lambda: SeparateWeights.initialize(TASK, heads=2, rank=4, scale=0.1, rng=rng()),
            ValueError,
            "rank must be at most the dimension 3, got 4",
        ),
        (
            lambda: SeparateWeights.initialize(TASK, heads=0, scale=0.1, rng=rng()),
            ValueError,
            "heads must be an integer of at least 1, got 0",
        ),
        (lambda: MergedWeights.initialize(TASK, heads=2, scale=0.0, rng=rng()), ValueError, "scale must be .*, got 0.0"),
        (
            lambda: MergedWeights.initialize(TASK, heads=2, scale=float("nan"), rng=rng()),
            ValueError,
            "scale must be a positive finite number, got nan",
        ),
        (lambda: MergedWeights.initialize(TASK, heads=2, scale=0.1, rng=0), TypeError, "rng must be a .*Generator, got 0"),
        (lambda: MergedWeights.initialize("task", heads=2, scale=0.1, rng=rng()), TypeError, "task must be a Regr"),
        (
            lambda: FullMergedWeights.initialize(TASK, heads=2, scale=0.1, block_scale=-1.0, rng=rng()),
            ValueError,
            "block_scale must be a finite number of at least 0, got -1.0",
        ),
        (lambda: MergedWeights(v=[1.0, 2.0], U=np.ones((3, 2, 2))), ValueError, r"U must have shape \(2, D, D\), got"),
        (lambda: MergedWeights(v=[1.0], U=np.ones((1, 2, 3))), ValueError, r"U must have shape \(1, D, D\), got"),
        (lambda: MergedWeights(v=[np.nan], U=np.ones((1, 2, 2))), ValueError, "v must be finite, got"),
        (
            lambda: SeparateWeights(v=[1.0], k=np.ones((1, 1, 3)), q=np.ones((1, 1, 2))),
            ValueError,
            r"q must have shape \(1, 1, 3\), got shape \(1, 1, 2\)",
        ),
        (
            lambda: SeparateWeights(v=[1.0], k=np.ones((1, 3, 2)), q=np.ones((1, 3, 2))),
            ValueError,
            r"k must have rank R at most the dimension D, got shape \(1, 3, 2\)",
        ),
        (
            lambda: FullMergedWeights(value=np.ones((2, 3)), key_query=np.ones((2, 3, 3))),
            ValueError,
            r"key_query must have .*got shape \(2, 3, 3\)",
        ),
        (
            lambda: FullSeparateWeights(np.ones((2, 3)), np.ones((2, 1, 3)), np.ones((2, 1, 3))),
            ValueError,
            r"key must have .*got shape \(2, 1, 3\)",
        ),
        (
            lambda: TwoLayerNetwork(w_2=np.ones(2), W_1=np.ones((2, 5))),
            ValueError,
            r"W_1 must have a square number D\*D of columns, got shape \(2, 5\)",
        ),
        (lambda: ConvolutionalNetwork.from_attention(make("separate, rank 2")), ValueError, "weights must be of rank 1, got rank 2"),
        (lambda: make("merged").pull_back(np.ones((2, 2))), ValueError, r"G must have shape \(3, 3\), got shape \(2, 2\)"),
        (lambda: make("two-layer").output(np.ones((4, 3))), ValueError, r"z must have shape \(P, 9\), got shape \(4, 3\)"),
    ],
)
def test_bad_weights_are_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_deficient_model_is_allowed_on_request():
    weights = SeparateWeights.initialize(TASK, heads=1, rank=2, scale=0.1, rng=rng(), allow_deficient=True)
    assert np.linalg.matrix_rank(weights.effective_map()) == 2
