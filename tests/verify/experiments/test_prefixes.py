"""Training on all prefixes, the convention of the official code with vary_len, against sums written out and against prompts of the task."""

import numpy as np
import pytest
import torch
from iclflow.numerics import QuadraticLoss, RegressionTask, SeparateWeights
from iclflow.numerics.tasks.sample_moments import context_weights
from iclflow.verify.experiments.prefixes import PrefixAttention, labelled_batches, prefix
from iclflow.verify.training.descent import mean_squared_error
from iclflow.verify.training.modules import ReducedSeparate

TASK = RegressionTask(eigenvalues=[0.6, 0.3], context_length=4, noise_variance=0.1)
VARIED = RegressionTask(eigenvalues=[0.6, 0.3], context_lengths=range(1, 5), context_gain="official", noise_variance=0.1)
DRAWN = 0.2 * np.random.default_rng(0).standard_normal((2, 2, 2, 2))
# Heads of rank two, somewhere near a solution.
WEIGHTS = SeparateWeights(np.array([0.5, 0.4]), np.eye(2) + DRAWN[0], np.eye(2) + DRAWN[1])


def sequences(count):
    return labelled_batches(TASK, count, torch.Generator().manual_seed(1))()


def test_predictions_are_sums_over_the_prefix_divided_by_all_its_tokens():
    """Token by token: the query is among them with label 0, and adds nothing to the last row of the sum."""
    X, y = (part.numpy() for part in sequences(3))
    predicted = PrefixAttention(WEIGHTS)(torch.tensor(X)).detach().numpy().reshape(4, 3)
    np.testing.assert_array_equal(y.reshape(4, 3), X[:, -1, 1:].T)
    for n in range(1, 5):
        for sequence in range(3):
            tokens = X[sequence, :, : n + 1].T.copy()
            tokens[-1, -1] = 0.0
            expected = 0.0
            for v, k, q in zip(WEIGHTS.v, WEIGHTS.k, WEIGHTS.q, strict=True):
                for token in tokens:
                    expected += v * token[-1] * float((k @ token[:-1]) @ (q @ tokens[-1, :-1])) / len(tokens)
            assert predicted[n - 1, sequence] == pytest.approx(expected, rel=1e-12)


def test_the_task_s_own_prompts_say_the_same():
    """Contexts filled up with zeros and weighed by (g_n N/n)^(1/2), as draw_sequences makes them."""
    X, _ = sequences(5)
    predicted = PrefixAttention(WEIGHTS)(X).reshape(4, 5)
    for n in range(1, 5):
        shown = prefix(X, n)
        full = torch.zeros(5, 3, 5, dtype=X.dtype)
        full[:, :, :n], full[:, :, -1] = shown[:, :, :-1], shown[:, :, -1]
        full[:, :, :-1] *= torch.tensor(context_weights(np.array([n]), 4, VARIED.context_gains))
        torch.testing.assert_close(ReducedSeparate(WEIGHTS)(full), predicted[n - 1], rtol=1e-12, atol=1e-14)


def test_loss_and_gradient_are_those_of_the_law():
    """The mean over prefixes is QuadraticLoss.population under the uniform law with n/(n + 1), and so is what it does to the weights."""
    network, count = PrefixAttention(WEIGHTS), 50
    batches = [labelled_batches(TASK, 4000, torch.Generator().manual_seed(seed))() for seed in range(count)]
    loss = QuadraticLoss.population(VARIED)
    found = []
    for batch in batches:
        network.zero_grad()
        value = mean_squared_error(network, dict(network.named_parameters()), batch)
        value.backward()
        found.append([value.item(), *(-network.v.grad / 2).tolist()])
    exact = [loss.value(WEIGHTS.effective_map()), *WEIGHTS.pull_back(loss.force(WEIGHTS.effective_map())).v]
    error = np.std(found, axis=0, ddof=1) / count**0.5
    assert (np.abs(np.mean(found, axis=0) - exact) < 4.5 * error).all()
    for gain in ("present", "longest"):
        other = RegressionTask(eigenvalues=[0.6, 0.3], context_lengths=range(1, 5), context_gain=gain, noise_variance=0.1)
        value = QuadraticLoss.population(other).value(WEIGHTS.effective_map())
        assert abs(np.mean(found, axis=0)[0] - value) > 5 * error[0]


@pytest.mark.parametrize("name", ["context_gain", "context_lengths", "query_covariance"])
def test_tasks_with_lengths_or_queries_of_their_own_are_refused(name):
    options = {"query_covariance": np.eye(2), "context_length": 3} if name == "query_covariance" else {}
    options |= {"context_lengths": [2, 3]} if name == "context_lengths" else {}
    options |= {"context_length": 3, "context_gain": "official"} if name == "context_gain" else {}
    with pytest.raises(ValueError, match=f"must not vary in {name} if prefixes are contexts"):
        labelled_batches(RegressionTask(eigenvalues=[0.6, 0.3], **options), 2, torch.Generator())
