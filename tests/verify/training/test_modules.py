"""Attention modules against loops over heads and tokens, and what training needs of them."""

import numpy as np
import pytest
import torch
from iclflow.numerics.parametrizations.attention import MergedWeights, SeparateWeights
from iclflow.numerics.tasks.regression import RegressionTask
from iclflow.verify.training.modules import (
    Attention,
    MergedAttention,
    ReducedMerged,
    ReducedSeparate,
    SeparateAttention,
    TwoLayerNetwork,
    cubic_features,
)
from iclflow.verify.training.sequences import draw_sequences

D, N, H, R = 3, 4, 2, 2
TASK = RegressionTask(eigenvalues=[0.5, 0.3, 0.2], context_length=N)


@pytest.fixture
def prompts():
    return draw_sequences(TASK, 5, torch.Generator().manual_seed(0))[0]


def literal(X, value, key_query, rho, softmax):
    """Equation (5) for one sequence, token by token."""
    output = X.copy()
    for W_V, W_KQ in zip(value, key_query, strict=True):
        for column in range(X.shape[1]):
            scores = np.array([X[:, m] @ W_KQ @ X[:, column] / rho for m in range(X.shape[1])])
            weights = np.exp(scores) / np.exp(scores).sum() if softmax else scores
            output[:, column] += sum(weights[m] * W_V @ X[:, m] for m in range(X.shape[1]))
    return output


@pytest.mark.parametrize("softmax", [False, True])
@pytest.mark.parametrize("rho", [None, 2.5])
def test_attention_is_equation_5(prompts, softmax, rho):
    rng = np.random.default_rng(1)
    value, key, query = rng.standard_normal((H, D + 1, D + 1)), *rng.standard_normal((2, H, R, D + 1))
    network = SeparateAttention(value, key, query, softmax=softmax, rho=rho)
    scale = rho or (1.0 if softmax else N)
    key_query = key.transpose(0, 2, 1) @ query
    expected = np.stack([literal(X, value, key_query, scale, softmax) for X in prompts.numpy()])
    assert np.allclose(network.attend(prompts).detach(), expected, rtol=1e-12)
    assert np.allclose(network(prompts).detach(), expected[:, -1, -1], rtol=1e-12)
    merged = MergedAttention(value, key_query, softmax=softmax, rho=rho)
    assert np.allclose(merged(prompts).detach(), expected[:, -1, -1], rtol=1e-12)


def test_effective_map_predicts(prompts):
    """yhat = beta' B x_q for (M) and (S)."""
    rng = np.random.default_rng(2)
    beta = torch.einsum("pdn,pn->pd", prompts[:, :-1, :-1], prompts[:, -1, :-1]) / N
    for network in (
        ReducedMerged(MergedWeights.initialize(TASK, heads=H, scale=1.0, rng=rng)),
        ReducedSeparate(SeparateWeights.initialize(TASK, heads=H, rank=R, scale=1.0, rng=rng)),
    ):
        expected = torch.einsum("pi,ij,pj->p", beta, network.effective_map(), prompts[:, :-1, -1])
        assert torch.allclose(network(prompts), expected, rtol=1e-12)


def test_weights_survive_the_way_to_torch_and_back():
    rng = np.random.default_rng(3)
    separate = SeparateWeights.initialize(TASK, heads=H, rank=R, scale=1.0, rng=rng)
    merged = MergedWeights.initialize(TASK, heads=H, scale=1.0, rng=rng)
    assert np.array_equal(ReducedSeparate(separate).weights().flatten(), separate.flatten())
    assert np.array_equal(ReducedMerged(merged).weights().flatten(), merged.flatten())


def test_initial_arrays_are_copied():
    weights = MergedWeights.initialize(TASK, heads=H, scale=1.0, rng=np.random.default_rng(4))
    network = ReducedMerged(weights)
    before = weights.flatten().copy()
    with torch.no_grad():
        network.v += 1
    assert np.array_equal(weights.flatten(), before)


def test_cubic_features_stack_columns(prompts):
    """z = vec(beta x_q'), entry j D + i is beta_i x_{q,j}, equation (12)."""
    X = prompts[0].numpy()
    beta = X[:-1, :-1] @ X[-1, :-1] / N
    assert np.allclose(cubic_features(prompts)[0], np.outer(beta, X[:-1, -1]).flatten(order="F"), rtol=1e-13)


def test_single_precision_stays_single(prompts):
    network = TwoLayerNetwork(torch.ones(H), torch.ones(H, D * D))
    assert network(prompts.float()).dtype == torch.float32
    assert TwoLayerNetwork(np.ones(H), np.ones((H, D * D))).w2.dtype == torch.float64


def test_base_class_says_what_is_missing(prompts):
    with pytest.raises(NotImplementedError, match="Attention must build its key-query matrices"):
        Attention()(prompts)


def networks(rho):
    rng = np.random.default_rng(8)
    full = (rng.standard_normal((H, D + 1, D + 1)), rng.standard_normal((H, R, D + 1)), rng.standard_normal((H, R, D + 1)))
    merged = MergedWeights(rng.standard_normal(H), rng.standard_normal((H, D, D)))
    separate = SeparateWeights(rng.standard_normal(H), *rng.standard_normal((2, H, R, D)))
    yield MergedAttention(full[0], full[0][::-1].copy(), rho=rho)
    yield SeparateAttention(*full, rho=rho)
    yield ReducedMerged(merged, rho=rho)
    yield ReducedSeparate(separate, rho=rho)


@pytest.mark.parametrize("rho", [None, 2.5])
def test_linear_attention_is_linear_in_its_features(prompts, rho):
    for network in networks(rho):
        assert network.linear
        expected = network.features(prompts) @ network.coefficients()
        assert torch.allclose(network(prompts), expected, rtol=1e-12, atol=1e-14)
    assert not ReducedSeparate(SeparateWeights(np.ones(1), *np.ones((2, 1, 1, D))), softmax=True).linear


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ReducedSeparate(None), "weights must be SeparateWeights, got None"),
        (lambda: ReducedMerged(3), "weights must be MergedWeights, got 3"),
        (lambda: MergedAttention("x", np.ones((2, 3, 2))), "value must be an array of real numbers, got 'x'"),
        (lambda: TwoLayerNetwork([1, 1j], np.ones((2, 4))), "w2 must be an array of real numbers"),
        (lambda: MergedAttention(np.ones((2, 3)), np.ones((2, 3, 2)), rho=0), "rho must be a positive finite number, got 0"),
    ],
)
def test_bad_input_is_named(make, message):
    """A rho of 0 once meant N."""
    with pytest.raises((TypeError, ValueError), match=message):
        make()
