"""The default setting, and the runs in it that several claims and figures share: each is computed once."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ...numerics import FlowError, Plateaus, QuadraticLoss, SeparateWeights, Trajectory, find_plateaus, gradient_flow, spread_of_drops
from ...numerics.dynamics.descent import adam, gradient_descent, sign_descent
from ...numerics.dynamics.momentum import heavy_ball, heavy_ball_flow
from . import draws
from .setting import DEFAULT, Setting

if TYPE_CHECKING:  # PyTorch is loaded when a network is trained
    from ..training.descent import TrainingRun

# The root mean square distance over time that SGD's loss may have from the flow's, in units of the initial loss: mini-batches
# shift drops by a few per cent of their time.
SGD_NOISE = 2e-2


def sgd_noise(setting: Setting) -> float:
    """``SGD_NOISE``, or more for larger steps over smaller batches; with momentum a step counts 1/(1 - mu) times.

    On the paper's tasks, what it makes to shift the drops by four times their spread (V8-spread), if that is more.
    """
    step = setting.learning_rate / (1 - setting.momentum)
    least = SGD_NOISE * max(1.0, step / DEFAULT.learning_rate * DEFAULT.batch_size / setting.batch_size) ** 0.5
    whole = replace(setting, duration=2 * setting.duration)
    try:
        drops = spread_of_drops(setting.task, setting.weights, batch_size=setting.batch_size, learning_rate=step, t_end=whole.duration)
    except (ValueError, FlowError):  # a varied task, or no drop in that time
        return least
    run, times = flow(whole), np.linspace(0, setting.duration, 1001)
    shift = min(4 * max(drop.spread / drop.time for drop in drops), 0.9)
    apart = [np.mean((run.loss_at(factor * times) - run.loss_at(times)) ** 2) ** 0.5 for factor in (1 - shift, 1 + shift)]
    return max(least, float(max(apart)) / QuadraticLoss.population(setting.task).c)


# Initial weights small enough for flat plateaus; only the flow is fast enough for this duration.
SMALL = Setting(scale=1e-2, duration=40_000.0)
STARTS = 8


def random_start(setting: Setting, number: int = 0) -> Setting:
    """The setting from other initial weights, those of a number at the seed of a check."""
    return replace(setting, seed=draws.number(12, number))


def random_starts(setting: Setting) -> tuple[Setting, ...]:
    """The setting from each of ``STARTS`` initial weights, for as long as all 100 that were tried needed to learn everything."""
    return tuple(random_start(setting, number) for number in range(STARTS))


@draws.remembered
def flow(setting: Setting = DEFAULT, rtol: float = 1e-8) -> Trajectory:
    """Gradient flow from the setting's initial weights."""
    loss = QuadraticLoss.population(setting.task)
    return gradient_flow(loss, setting.weights, t_end=setting.duration, rtol=rtol, weight_decay=setting.weight_decay)


@draws.remembered
def theory(setting: Setting = DEFAULT) -> Trajectory:
    """The flow that the setting's training follows, from its initial weights; with Adam or signs, their steps on the exact loss."""
    if setting.optimizer != "sgd":
        return descended(QuadraticLoss.population(setting.task), setting.weights, setting, steps=setting.steps)
    if not setting.momentum:
        return flow(setting)
    return followed(QuadraticLoss.population(setting.task), setting.weights, setting, t_end=setting.duration)


def followed(
    loss: QuadraticLoss, weights: SeparateWeights, setting: Setting, *, t_end: float, pace: float = 1.0, rtol: float = 1e-8
) -> Trajectory:
    """The flow that training follows: gradient flow or, with momentum, that with mass (V8-ball) for ``pace`` times the setting's steps."""
    if not setting.momentum:
        return gradient_flow(loss, weights, t_end=t_end, rtol=rtol, weight_decay=setting.weight_decay)
    step = pace * setting.learning_rate
    return heavy_ball_flow(loss, weights, learning_rate=step, momentum=setting.momentum, t_end=t_end, rtol=rtol)


def descended(loss: QuadraticLoss, weights: SeparateWeights, setting: Setting, *, steps: int) -> Trajectory:
    """Descent on the exact loss with the setting's optimizer, step size and momentum."""
    if setting.optimizer != "sgd":
        return {"adam": adam, "sign": sign_descent}[setting.optimizer](loss, weights, steps=steps, learning_rate=setting.learning_rate)
    if not setting.momentum:
        return gradient_descent(loss, weights, steps=steps, learning_rate=setting.learning_rate, weight_decay=setting.weight_decay)
    return heavy_ball(loss, weights, steps=steps, learning_rate=setting.learning_rate, momentum=setting.momentum)


def plateaus(run: Trajectory) -> Plateaus:
    """The plateaus and drops of a flow's loss, found on its dense output."""
    return find_plateaus(run)


def reached(run: Trajectory, value: Callable[[np.ndarray], float], level: float) -> float:
    """The time at which a value of the effective map passes a level."""
    time = run.first_time(value, level)
    if time is None:
        raise ArithmeticError(f"the run until {run.times[-1]:.4g} never passes {level:.4g}")
    return time


def weights_at(run: Trajectory, t: float | np.ndarray) -> dict[str, np.ndarray]:
    """The weights by name at one or several times, time as the first axis."""
    return dict(zip(run.initial.shape_letters, run.initial.split(run.states_at(t)), strict=True))


def final_weights(run: Trajectory) -> dict[str, np.ndarray]:
    return {name: array[-1] for name, array in run.arrays.items()}


@draws.remembered
def training(setting: Setting = DEFAULT, device: str = "cpu") -> "TrainingRun":
    """Descent on fresh mini-batches from the setting's initial weights, with its optimizer and momentum."""
    return descend(setting, device)


@draws.remembered
def trained_together(setting: Setting, seeds: tuple[int, ...]) -> "TrainingRun":
    """Networks from several initial weights on the same mini-batches, in single precision: its rounding is far below the batches' noise."""
    return descend(setting, seeds=seeds)


def descend(setting: Setting, device: str = "cpu", *, seeds: tuple[int, ...] = (), progress: bool | None = None) -> "TrainingRun":
    """:func:`training`, computed anew, or with ``seeds`` :func:`trained_together`."""
    import torch

    from ..training.descent import fresh_batches, train
    from ..training.modules import ReducedSeparate

    precision = torch.float32 if seeds else torch.float64
    networks = [ReducedSeparate(replace(setting, seed=seed).weights).to(device, precision) for seed in seeds or (setting.seed,)]
    return train(
        networks if seeds else networks[0],
        fresh_batches(setting.task, setting.batch_size, torch.Generator(device).manual_seed(setting.seed), dtype=precision),
        steps=setting.steps,
        learning_rate=setting.learning_rate,
        momentum=setting.momentum,
        weight_decay=setting.weight_decay,
        optimizer=setting.optimizer,
        record_every=5,
        progress=progress,
    )


def trained_loss(setting: Setting = DEFAULT, device: str = "cpu") -> np.ndarray:
    """The population loss of the trained network at every recorded time: exact, without mini-batch noise."""
    return training(setting, device).population_loss(QuadraticLoss.population(setting.task))


def trained_plateaus(setting: Setting = DEFAULT, device: str = "cpu") -> Plateaus:
    return find_plateaus(training(setting, device).times, trained_loss(setting, device))


@draws.remembered
def softmax_training(kind: str, steps: int = 4000) -> tuple[np.ndarray, np.ndarray]:
    """Softmax attention of one kind trained on the tokens of the staircase: steps, and the loss on 4,000 fresh sequences."""
    import torch

    from ..training.descent import fresh_batches, train
    from ..training.modules import MergedAttention, SeparateAttention
    from ..training.sequences import draw_sequences

    rng, D = draws.generator(5), DEFAULT.task.dimension
    if kind == "merged":
        weights = 0.01 * rng.standard_normal((2, 8, D + 1, D + 1))
        network, rate = MergedAttention(*weights, softmax=True), 0.1
    else:
        value = 0.05 * rng.standard_normal((4, D + 1, D + 1))
        network = SeparateAttention(value, *0.05 * rng.standard_normal((2, 4, 1, D + 1)), softmax=True)
        rate = 0.2
    source = fresh_batches(DEFAULT.task, 512, draws.torch_generator(5))
    run = train(network, source, steps=steps, learning_rate=rate, record_every=20)
    X, y = draw_sequences(DEFAULT.task, 4000, draws.torch_generator(6))
    losses = []
    for index in range(len(run.times)):
        network.load_state_dict({name: torch.tensor(values[index]) for name, values in run.states.items()})
        with torch.no_grad():
            losses.append(float((network(X) - y).square().mean()))
    return run.times / (2 * rate), np.array(losses)
