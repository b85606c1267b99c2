"""Prompts of any task for a model of the user: their laws, their lengths, and what is refused."""

import numpy as np
import pytest
import torch
from iclflow.numerics import RegressionTask, SphereTokens
from iclflow.numerics.own_model.loss import model_loss
from iclflow.theory import Gaussian
from iclflow.theory.model import Model
from iclflow.theory.notation import Lambda, beta, x_q
from iclflow.theory.results.own_model.two_steps import U
from iclflow.verify.own_model.prompts import check_model
from iclflow.verify.own_model.sampling import draw

TASK = RegressionTask(eigenvalues=[0.5, 0.3], context_length=4)
START = np.array([[1.0, 0.4], [-0.3, 0.8]])


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(5)


LINEAR = Model(beta.T * U * x_q, (U,))


def test_the_query_is_drawn_by_the_law_of_the_tokens():
    """On the sphere x_q' Lambda^-1 x_q is D, for every query; a law of the model's own takes its place."""
    task = RegressionTask(eigenvalues=[0.5, 0.3], context_length=3, token_law=SphereTokens())

    def lengths(model):
        loss, _ = model_loss(model, task, weights={U: START})
        query = draw(loss, {}, 100, generator())[x_q][..., 0]
        return (query**2 / torch.tensor(task.eigenvalues)).sum(-1)

    torch.testing.assert_close(lengths(LINEAR), torch.full((100,), 2.0, dtype=torch.float64))
    assert lengths(Model(LINEAR.prediction, (U,), laws=(Gaussian(x_q, covariance=Lambda),))).std() > 1


@pytest.mark.parametrize("given", [None, 0, np.random.default_rng(0)])
def test_a_generator_of_its_own_is_needed(given):
    with pytest.raises(TypeError, match=r"generator must be a torch\.Generator, such as"):
        check_model(LINEAR, TASK, weights={U: START}, count=128, generator=given)


@pytest.mark.parametrize("count", [1e4, "128", True, None, 0])
def test_a_count_is_an_integer(count):
    with pytest.raises(ValueError, match="count must be an integer of at least 128, got"):
        check_model(LINEAR, TASK, weights={U: START}, count=count, generator=generator())
