"""Claims about your own model (V10): two steps of gradient descent in context, on real prompts and trained."""

from typing import Any

import numpy as np
import torch

from ....numerics import RegressionTask, integrate
from ....numerics.own_model.loss import model_loss
from ....theory import SampleCovariance
from ....theory.model import Model
from ....theory.notation import D, Lambda, Lambda_hat, N
from ....theory.results.own_model.two_steps import U, descend, two_steps, z
from ...experiments import draws
from ...own_model.prompts import ModelNetwork
from ...training.descent import fresh_batches, mean_squared_error, one_thread, train
from ...training.sequences import draw_sequences
from .. import formulas
from ..attention.moments import largest_score
from ..book import claim, wrong
from ..tolerances import OWN_MODEL, SAMPLING

TASK = RegressionTask(covariance=formulas.OBLIQUE_TASK.covariance, context_length=2)
LONGER = Model(descend(2), (U,), laws=(SampleCovariance(Lambda_hat, Lambda, N + 1),))
ONE_STEP = Model(descend(1), (U,))


def _start(model: Model, scales: tuple[float, ...]) -> dict:
    """Maps so small that the heavy tails of high powers of the tokens do not spoil averages."""
    return {weight: scale * formulas.OBLIQUE_MAP for weight, scale in zip(model.weights, scales, strict=True)}


@draws.remembered
def _prompt_averages(model: Model, scales: tuple[float, ...], seed: int) -> np.ndarray:
    """The loss and its velocity on each of 64 sets of 1,000 prompts, a row for each: computed on X by autograd, without the derivation."""
    network, generator = ModelNetwork(model, TASK, _start(model, scales)), draws.torch_generator(seed)
    rows = []
    for _ in range(64):
        value = mean_squared_error(network, dict(network.named_parameters()), draw_sequences(TASK, 1000, generator))
        gradients = torch.autograd.grad(value, list(network.parameters()))
        rows.append(torch.cat([value.detach()[None], *(-one.flatten() / 2 for one in gradients)]).numpy())
    return np.array(rows)


def score_on_prompts(derived: Model, model: Model, scales: tuple[float, ...], seed: int) -> float:
    """The largest difference of the derived loss and velocity from their averages over prompts of ``model``, in standard errors."""
    loss, point = model_loss(derived, TASK, weights=_start(derived, scales))
    return largest_score(_prompt_averages(model, scales, seed), np.array([loss.value(point), *loss.velocity(point)]))


@claim("V10-steps", method="autograd", tolerance=SAMPLING, theory=two_steps())
@wrong("N + 1 for N", LONGER)
@wrong("one step", ONE_STEP)
def own_model_on_prompts(model: Model) -> float:
    """The loss and the flow derived from the expression, degree four in U, against autograd on 64,000 prompts."""
    return score_on_prompts(model, two_steps(), (0.4,), seed=10)


TRAINED = RegressionTask(eigenvalues=[0.4, 0.3, 0.2, 0.1], context_length=31)
END = 120.0


@draws.remembered
def trained_two_steps() -> Any:
    """Two steps of descent in context, trained from U = 0 on fresh prompts."""
    network = ModelNetwork(two_steps(), TRAINED, {U: np.zeros((4, 4))})
    batches = fresh_batches(TRAINED, 512, draws.torch_generator(11))
    with one_thread():
        return train(network, batches, steps=1200, learning_rate=END / 2400, record_every=60, progress=False)


@claim("V10-start", method="training", tolerance=OWN_MODEL, theory=(two_steps(), 1.0), slow=True)
@wrong("one step", (ONE_STEP, 1.0))
@wrong("time twice as fast", (two_steps(), 0.5))
def own_model_trained(theory) -> float:
    """The loss of two steps of descent, trained from U = 0 on fresh prompts, against the flow of the expression."""
    model, unit = theory
    flow = integrate(model, TRAINED, initial={U: np.zeros((4, 4))}, t_end=END, tau=unit)
    loss, _ = model_loss(two_steps(), TRAINED, weights={U: np.zeros((4, 4))})
    run = trained_two_steps()
    trained = np.array([loss.value(state.ravel()) for state in run.states["U"]])
    return float(np.abs(trained - flow.loss_at(run.times)).max() / trained[0])


@claim("V10-error", method="linear algebra", theory=formulas.formula("V10-error", Lambda, Lambda_hat, U))
@wrong("Lambda for Lambda_hat", {Lambda_hat: Lambda})
@wrong("weight doubled", {U: 2 * U})
def error_of_two_steps(expected) -> float:
    """The error of two steps of descent, taken one after the other for each unit task vector in a drawn context."""
    X = draws.generator(95).standard_normal((5, 2))
    error = 0.0
    for task in np.eye(2):
        reached = np.zeros(2)
        for _ in range(2):
            reached = reached + formulas.OBLIQUE_MAP.T @ (X.T @ (X @ (task - reached)) / 5)
        error += (task - reached) @ formulas.OBLIQUE_TASK.covariance @ (task - reached)
    derived = expected(formulas.OBLIQUE_TASK.covariance, X.T @ X / 5, formulas.OBLIQUE_MAP)
    return abs(float(derived) / float(error) - 1)


@claim("V10-white", method="Monte Carlo", theory=formulas.formula("V10-white", z, D, N))
@wrong("N + 1 for N", {N: N + 1})
@wrong("D + 1 for D", {D: D + 1})
def white_loss_on_contexts(expected) -> float:
    """The loss of two steps for white tokens, averaged over 50,000 contexts of five tokens in three dimensions."""
    X, scale = draws.generator(96).standard_normal((50_000, 5, 3)), 0.4
    left = np.eye(3) - scale * np.einsum("pnd,pne->pde", X, X) / 5
    twice = left @ left
    return largest_score(np.einsum("pde,pde->p", twice, twice) / 3, expected(scale, 3, 5))
