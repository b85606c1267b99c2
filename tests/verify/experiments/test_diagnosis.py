"""Each mistake, planted by another route than the suspect's own curve, is named."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from iclflow.numerics.dynamics.descent import gradient_descent
from iclflow.numerics.dynamics.flow import gradient_flow
from iclflow.numerics.dynamics.momentum import heavy_ball
from iclflow.numerics.tasks.losses import QuadraticLoss
from iclflow.verify.experiments.diagnosis import AGREES, diagnose, sample_loss
from iclflow.verify.experiments.staircase import Setting

SETTING = Setting(eigenvalues=(0.6, 0.3), heads=2, scale=0.5, seed=3, duration=100.0, learning_rate=0.05, batch_size=100)
POPULATION = QuadraticLoss.population(SETTING.task)
TIMES = np.linspace(0, SETTING.duration, 101)


def flow(loss=POPULATION, weights=SETTING.weights, times=TIMES):
    return gradient_flow(loss, weights, t_end=float(times[-1])).loss_at(times)


def scaled(factor):
    """The loss of a model whose prediction and target are both multiplied by the square root of ``factor``."""
    M, Q = POPULATION.C.M, POPULATION.C.Q
    return QuadraticLoss.from_moments(factor * np.kron(M, Q), factor * POPULATION.A, factor * POPULATION.c)


def summed():
    """Sums over the context: N^2 E(phi phi'), N E(phi y)."""
    N, M, Q = SETTING.context_length, POPULATION.C.M, POPULATION.C.Q
    return QuadraticLoss.from_moments(N**2 * np.kron(M, Q), N * POPULATION.A, POPULATION.c)


def value_weights_times(factor):
    w = SETTING.weights
    return type(w)(factor * w.v, w.k, w.q)


def float32_descent():
    """Descent by PyTorch in single precision on the population loss."""
    A, M, Q = (torch.tensor(a, dtype=torch.float32) for a in (POPULATION.A, POPULATION.C.M, POPULATION.C.Q))
    w = SETTING.weights
    parameters = [torch.tensor(a, dtype=torch.float32, requires_grad=True) for a in (w.v, w.k, w.q)]
    losses, eta = [], SETTING.learning_rate
    for _ in range(1001):
        B = torch.einsum("h,hri,hrj->ij", *parameters)
        loss = POPULATION.c - 2 * (A * B).sum() + (B * (M @ B @ Q)).sum()
        losses.append(loss.item())
        gradients = torch.autograd.grad(loss, parameters)
        parameters = [(p - eta * g).detach().requires_grad_() for p, g in zip(parameters, gradients, strict=True)]
    return 2 * eta * np.arange(1001), np.array(losses)


def planted(mistake):
    """The measured curve, and the setting that its author believes in."""
    if mistake == AGREES:
        return TIMES, flow(), SETTING
    if mistake == "factor 1/2 in the loss":
        descent = gradient_descent(scaled(0.5), SETTING.weights, steps=1000, learning_rate=0.05)
        return descent.times, descent.loss, SETTING
    if mistake == "factor 1/2 in what is recorded":
        return TIMES, flow() / 2, SETTING
    if mistake == "sum over the context":
        return TIMES, flow(summed()), SETTING
    if mistake == "time scale":
        return TIMES / 2, flow(), SETTING
    if mistake == "steps too large":
        coarse = replace(SETTING, learning_rate=0.9)
        descent = gradient_descent(POPULATION, SETTING.weights, steps=55, learning_rate=0.9)
        return descent.times, descent.loss, coarse
    if mistake == "finite P":
        return TIMES, flow(sample_loss(SETTING, SETTING.batch_size, 77)), SETTING
    if mistake == "initial scale":
        return TIMES, flow(weights=SETTING.weights.unflatten(0.4 * SETTING.weights.flatten())), SETTING
    if mistake == "initial law of the value weights":
        return TIMES, flow(weights=value_weights_times(1 / 11)), SETTING
    raise ValueError(mistake)


MISTAKES = (
    AGREES,
    "factor 1/2 in the loss",
    "factor 1/2 in what is recorded",
    "sum over the context",
    "time scale",
    "steps too large",
    "finite P",
    "initial scale",
    "initial law of the value weights",
)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_named(mistake):
    found = diagnose(*planted(mistake))
    assert found.cause == mistake, str(found)
    assert str(found).startswith(f"cause: {mistake}\n")


@pytest.mark.parametrize("mistake", [AGREES, "factor 1/2 in the loss", "time scale", "steps too large"])
def test_a_mistake_is_named_with_momentum(mistake):
    """Heavy ball on the right loss, on half of it, with time counted as without momentum; gradient flow does not agree then."""
    eta = 0.8 if mistake == "steps too large" else 0.02
    setting = replace(SETTING, learning_rate=eta, momentum=0.6)
    loss = scaled(0.5) if mistake == "factor 1/2 in the loss" else POPULATION
    run = heavy_ball(loss, setting.weights, steps=setting.steps, learning_rate=eta, momentum=0.6)
    found = diagnose(run.times * (0.4 if mistake == "time scale" else 1), run.loss, setting)
    assert found.cause == mistake, str(found)
    if mistake == AGREES:
        (rounded,) = (suspect for suspect in found.suspects if suspect.cause == "float32")
        assert rounded.residual < 1e-5
        assert diagnose(TIMES, flow(), replace(setting, momentum=0.99)).cause != AGREES


def test_fitted_factors_are_told():
    found = diagnose(*planted("time scale"))
    assert "t multiplied by 2" in found.suspects[0].detail
    found = diagnose(*planted("initial law of the value weights"))
    assert "multiplied by 0.09" in found.suspects[0].detail


def test_float32_is_named_where_every_digit_counts():
    times, losses = float32_descent()
    found = diagnose(times, losses, SETTING, noise=1e-10)
    assert found.cause == "float32", str(found)


def test_a_run_that_diverges_took_too_large_steps():
    losses = np.append(flow()[:-1], np.nan)
    assert diagnose(TIMES, losses, SETTING).cause is not None
    losses = np.concatenate([flow()[:50], np.geomspace(1, 1e6, 51)])
    assert diagnose(TIMES, losses, SETTING).cause == "steps too large"


def test_nothing_fits_what_is_no_such_curve():
    found = diagnose(TIMES, 0.9 + 0.3 * np.sin(TIMES), SETTING)
    assert found.cause is None
    assert str(found).startswith("no suspect fits\n")
    assert len(found.suspects) == 11


@pytest.mark.parametrize("times", [TIMES[::-1], TIMES[:5], TIMES[:1]])
def test_what_is_no_curve_is_refused(times):
    with pytest.raises(ValueError, match="times and loss must be two lists of one length"):
        diagnose(times, flow()[: 1 if len(times) == 1 else None], SETTING)


def test_a_varied_task_is_its_own_standard():
    """Its flow agrees; the paper's task with these tokens would not; no sum over a random length is proposed."""
    setting = Setting(
        eigenvalues=(0.6, 0.3),
        heads=2,
        scale=0.5,
        duration=12.0,
        batch_size=64,
        learning_rate=0.05,
        noise_variance=0.3,
        task_covariance=((1.0, 0.4), (0.4, 2.0)),
        context_lengths=((4, 0.5), (12, 0.5)),
    )
    run = gradient_flow(QuadraticLoss.population(setting.task), setting.weights, t_end=12.0)
    times = np.linspace(0, 12, 30)
    found = diagnose(times, np.asarray(run.loss_at(times)), setting)
    assert found.cause == AGREES
    assert "sum over the context" not in {suspect.cause for suspect in found.suspects}
    plain = Setting(eigenvalues=(0.6, 0.3), heads=2, scale=0.5, duration=12.0, context_length=12)
    other = gradient_flow(QuadraticLoss.population(plain.task), setting.weights, t_end=12.0)
    assert diagnose(times, np.asarray(other.loss_at(times)), setting).cause != AGREES
