"""Claims about your own model (V10): two steps of gradient descent in context, on real prompts and trained."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from ....numerics.compilation.equations import compiled
from ....numerics.own_model.flow import integrate
from ....numerics.own_model.loss import model_loss
from ....numerics.tasks.regression import RegressionTask
from ....theory import SampleCovariance
from ....theory.model import Model
from ....theory.notation import D, Lambda, Lambda_hat, N
from ....theory.results.own_model.two_steps import U, descend, two_steps, z
from ...experiments import draws
from ...experiments.draws import remembered
from ...own_model.prompts import ModelNetwork
from ...training.descent import fresh_batches, mean_squared_error, one_thread, train
from ...training.sequences import draw_sequences
from .. import formulas
from ..book import claim
from ..tolerances import OWN_MODEL, SAMPLING

TASK = RegressionTask(covariance=formulas.OBLIQUE_TASK.covariance, context_length=2)
LONGER = Model(descend(2), (U,), laws=(SampleCovariance(Lambda_hat, Lambda, N + 1),))
SMALL_MAP = 0.4 * formulas.OBLIQUE_MAP  # so small that the heavy tails of high powers of the tokens do not spoil averages
ONE_STEP = Model(descend(1), (U,))


@remembered
def _prompt_averages() -> np.ndarray:
    """The loss and its velocity on each of 64 sets of 1,000 prompts, a row for each: computed on X by autograd, without the derivation."""
    network, generator = ModelNetwork(two_steps(), TASK, {U: SMALL_MAP}), draws.torch_generator(10)
    rows = []
    for _ in range(64):
        value = mean_squared_error(network, dict(network.named_parameters()), draw_sequences(TASK, 1000, generator))
        (gradient,) = torch.autograd.grad(value, list(network.parameters()))
        rows.append([value.item(), *(-gradient / 2).flatten().tolist()])
    return np.array(rows)


@claim(
    "V10-steps",
    "the loss and the flow derived from the expression, degree four in U, against autograd on 64,000 prompts",
    method="autograd",
    tolerance=SAMPLING,
    theory=two_steps(),
    wrong={"N + 1 for N": LONGER, "one step": ONE_STEP},
)
def own_model_on_prompts(model: Model) -> float:
    loss, point = model_loss(model, TASK, weights={U: SMALL_MAP})
    derived = np.array([loss.value(point), *loss.velocity(point)])
    rows = _prompt_averages()
    return float((np.abs(rows.mean(0) - derived) / (rows.std(0, ddof=1) / len(rows) ** 0.5)).max())


TRAINED = RegressionTask(eigenvalues=[0.4, 0.3, 0.2, 0.1], context_length=31)
END = 120.0


@remembered
def trained_two_steps() -> Any:
    """Two steps of descent in context, trained from U = 0 on fresh prompts."""
    network = ModelNetwork(two_steps(), TRAINED, {U: np.zeros((4, 4))})
    batches = fresh_batches(TRAINED, 512, draws.torch_generator(11))
    with one_thread():
        return train(network, batches, steps=1200, learning_rate=END / 2400, record_every=60, progress=False)


@claim(
    "V10-start",
    "the loss of two steps of descent, trained from U = 0 on fresh prompts, against the flow of the expression",
    method="training",
    tolerance=OWN_MODEL,
    theory=(two_steps(), 1.0),
    wrong={"one step": (ONE_STEP, 1.0), "time twice as fast": (two_steps(), 0.5)},
    slow=True,
)
def own_model_trained(theory) -> float:
    model, unit = theory
    flow = integrate(model, TRAINED, initial={U: np.zeros((4, 4))}, t_end=END, tau=unit)
    loss, _ = model_loss(two_steps(), TRAINED, weights={U: np.zeros((4, 4))})
    run = trained_two_steps()
    trained = np.array([loss.value(state.ravel()) for state in run.states["U"]])
    return float(np.abs(trained - flow.loss_at(run.times)).max() / trained[0])


def two_step_error(change: Mapping | None = None) -> Callable:
    """The error of two steps in a context (V10-error), of Lambda, Lambda_hat and U."""
    return compiled("V10-error", (Lambda, Lambda_hat, U), change=change)


@claim(
    "V10-error",
    "the error of two steps of descent, taken one after the other for each unit task vector in a drawn context",
    method="linear algebra",
    theory=two_step_error(),
    wrong={"Lambda for Lambda_hat": two_step_error({Lambda_hat: Lambda}), "weight doubled": two_step_error({U: 2 * U})},
)
def error_of_two_steps(expected) -> float:
    X = draws.generator(95).standard_normal((5, 2))
    error = 0.0
    for task in np.eye(2):
        reached = np.zeros(2)
        for _ in range(2):
            reached = reached + formulas.OBLIQUE_MAP.T @ (X.T @ (X @ (task - reached)) / 5)
        error += (task - reached) @ formulas.OBLIQUE_TASK.covariance @ (task - reached)
    derived = expected(formulas.OBLIQUE_TASK.covariance, X.T @ X / 5, formulas.OBLIQUE_MAP)
    return abs(float(derived) / float(error) - 1)


def white_loss(change: Mapping | None = None) -> Callable:
    """The loss of two steps for white tokens (V10-white), of z, D and N."""
    return compiled("V10-white", (z, D, N), change=change)


@claim(
    "V10-white",
    "the loss of two steps for white tokens, averaged over 50,000 contexts of five tokens in three dimensions",
    method="Monte Carlo",
    theory=white_loss(),
    wrong={"N + 1 for N": white_loss({N: N + 1}), "D + 1 for D": white_loss({D: D + 1})},
)
def white_loss_on_contexts(expected) -> float:
    X, scale = draws.generator(96).standard_normal((50_000, 5, 3)), 0.4
    left = np.eye(3) - scale * np.einsum("pnd,pne->pde", X, X) / 5
    twice = left @ left
    each = np.einsum("pde,pde->p", twice, twice) / 3
    return float(abs(each.mean() - expected(scale, 3, 5)) / (each.std() / len(each) ** 0.5))
