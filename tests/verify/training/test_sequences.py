"""The sequences of equations (1) to (4)."""

import numpy as np
import pytest
import torch
from iclflow.numerics.tasks.regression import RegressionTask
from iclflow.verify.training.sequences import assemble, draw_sequences

TILTED = RegressionTask(covariance=[[0.9, 0.3], [0.3, 0.5]], context_length=6)
DIAGONAL = RegressionTask(eigenvalues=[0.9, 0.2], context_length=6)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_labels_are_linear_and_the_query_is_masked():
    X, y = draw_sequences(TILTED, 50, generator())
    assert X.shape == (50, 3, 7)
    assert not X[:, -1, -1].any()
    w = torch.linalg.lstsq(X[:, :2, :-1].mT, X[:, 2, :-1, None]).solution[..., 0]
    assert torch.allclose(torch.einsum("pd,pd->p", w, X[:, :2, -1]), y, rtol=1e-8)


@pytest.mark.parametrize("task", [TILTED, DIAGONAL], ids=["tilted", "diagonal"])
def test_tokens_have_the_covariance_of_the_task(task):
    """Within 4.5 standard errors; white noise in another basis, or the root transposed, is caught."""
    X, _ = draw_sequences(task, 20_000, generator(1))
    x = X[:, :2].permute(0, 2, 1).reshape(-1, 2).numpy()
    products = x[:, :, None] * x[:, None, :]
    error = products.std(axis=0) / np.sqrt(len(x))
    assert (np.abs(products.mean(axis=0) - task.covariance) < 4.5 * error).all()


def test_task_vectors_are_standard_normal():
    X, _ = draw_sequences(TILTED, 20_000, generator(2))
    w = torch.linalg.lstsq(X[:, :2, :-1].mT, X[:, 2, :-1, None]).solution[..., 0].numpy()
    products = w[:, :, None] * w[:, None, :]
    assert (np.abs(products.mean(axis=0) - np.eye(2)) < 4.5 * products.std(axis=0) / np.sqrt(len(w))).all()


def test_a_generator_makes_it_reproducible():
    first, again, other = (draw_sequences(TILTED, 4, generator(seed))[0] for seed in (3, 3, 4))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_a_fraction_of_fixed_task_vectors():
    fixed = torch.tensor([[10.0, -7.0]])
    X, y = draw_sequences(TILTED, 10, generator(5), fixed_tasks=fixed, fixed_fraction=0.4)
    from_list = torch.isclose(X[:, :2, -1] @ fixed[0].double(), y)
    assert from_list.tolist() == [True] * 4 + [False] * 6


def test_assemble_leaves_its_arguments_alone():
    x, w = torch.ones(1, 2, 3), torch.tensor([[2.0, 1.0]])
    X, y = assemble(x, w)
    assert X.tolist() == [[[1, 1, 1], [1, 1, 1], [3, 3, 0]]]
    assert y.tolist() == [3]
    assert x.eq(1).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"count": 0}, "count must be an integer of at least 1, got 0"),
        ({"fixed_fraction": 1.5}, r"fixed_fraction must lie in \[0, 1\], got 1.5"),
        ({"fixed_fraction": 0.5}, "fixed_tasks must be given"),
    ],
)
def test_bad_input_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        draw_sequences(TILTED, options.pop("count", 5), generator(), **options)


def test_what_is_of_another_kind_is_named():
    with pytest.raises(TypeError, match="task must be a RegressionTask, got 3"):
        draw_sequences(3, 5, generator())
    with pytest.raises(TypeError, match=r"generator must be a torch.Generator, such as .*, got None"):
        draw_sequences(TILTED, 5, None)
