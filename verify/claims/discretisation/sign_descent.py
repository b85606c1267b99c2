"""Claims about sign descent and Adam (V8-sign, V8-sign-origin, V8-adam), in PyTorch and in NumPy."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch

from ....numerics import QuadraticLoss, RegressionTask, SampleMoments, SeparateWeights, adam, compiled, find_plateaus, sign_descent
from ....theory.notation import H, a, e, k_i, lambda_, q_i, v_i, w_init
from ....theory.results.discretisation.sign_descent import epsilon, sign_k, sign_q, sign_v, u, x
from ...experiments import draws
from ...training.descent import TrainingRun, adam_of, fixed_set, train
from ...training.modules import ReducedSeparate
from ...training.sequences import draw_sequences
from ..book import claim, wrong
from ..formulas import parts_of, power_law, times
from ..tolerances import ADAM_CONSERVES, FEW_PLATEAUS, GROWING_SPEED, ROUNDOFF, SCALES, STEP_OF_TIME
from .finite_steps import LOSS, TASK

ALIKE = RegressionTask(eigenvalues=[0.4, 0.35, 0.3, 0.25], context_length=31)
HEADS, STARTS = 5, 5


def aligned(task: RegressionTask, rng: np.random.Generator, scale: float, *, least: float = 1.0, heads: int = HEADS) -> SeparateWeights:
    """Heads with v k_d q_d > 0 and random signs, sizes from ``least`` to 1 times ``scale``, in coordinates with a diagonal covariance."""
    shapes = (heads, 1, 1), (heads, 1, task.dimension), (heads, 1, task.dimension)
    v, k, q = (scale * rng.uniform(least, 1.0, shape) for shape in shapes)
    of_v, of_k = (rng.choice([-1, 1], one.shape) for one in (v, k))
    return SeparateWeights((of_v * v)[:, 0, 0], of_k * k, of_v * of_k * q)


@draws.remembered
def trained_aligned(optimizer: str, least: float) -> TrainingRun:
    """Five aligned starts, trained on 4,000 sequences while their signs stay under sign descent: for as long as weights grow to 0.37."""
    starts = [ReducedSeparate(aligned(ALIKE, draws.generator(41, number), 0.02, least=least)) for number in range(STARTS)]
    data = fixed_set(draw_sequences(ALIKE, 4000, draws.torch_generator(42)))
    return train(starts, data, steps=350 if optimizer == "sign" else 200, learning_rate=1e-3, optimizer=optimizer, progress=False)


_HEAD = (sign_v, sign_k, sign_q, v_i, k_i, q_i, e)
_CONSERVED = parts_of("V8-sign", _HEAD, "value", "query")
_RATES = parts_of("V8-sign", _HEAD, "old value", "old query")
_OLD = {
    "value": lambda _s, _k, _q, v, k, q, axis: v**2 - (k**2).sum(axis=(-2, -1)),
    "query": lambda _s, _k, _q, v, k, q, axis: (k**2 - q**2).sum(axis=(-2, -1)),
}


def _values(laws: Mapping[str, Callable], v: np.ndarray, k: np.ndarray, q: np.ndarray) -> np.ndarray:
    """The laws of heads whose force has the signs of their weights, for each axis: (laws, heads, D)."""
    weights, axes = (v[:, None], k[:, None], q[:, None]), np.eye(k.shape[1])[:, :, None]
    return np.array([np.broadcast_to(law(*map(np.sign, weights), *weights, axes), k.shape[:2]) for law in laws.values()])


def _heads(run: TrainingRun, step: int) -> tuple[np.ndarray, ...]:
    """v, k and q of the heads of all starts, keys and queries as columns."""
    v, k, q = (run.states[name][step] for name in "vkq")
    return v.ravel(), *(one.reshape(len(v.ravel()), -1, 1) for one in (k, q))


def _drift(laws: Mapping[str, Callable], run: TrainingRun) -> float:
    """The largest change of a law, over that of the value weight."""
    start, end = _heads(run, 0), _heads(run, -1)
    grown = np.abs(end[0]) - np.abs(start[0])
    return float(np.abs((_values(laws, *end) - _values(laws, *start)) / grown[:, None]).max())


@claim("V8-sign", method="training", tolerance=ROUNDOFF, theory=_CONSERVED)
@wrong("the laws (79) of gradient flow", _OLD)
@wrong("value for query", {"value": lambda *head: head[3] - np.abs(head[5]).sum(axis=(-2, -1))})
def sign_descent_conserves(laws) -> float:
    """What sign descent conserves, along PyTorch runs from five starts near the origin until weights have grown to 0.37."""
    return _drift(laws, trained_aligned("sign", 0.5))


@claim("V8-sign", method="training", tolerance=ROUNDOFF, theory=_RATES)
@wrong("conserved", dict.fromkeys(_RATES, lambda *head: 0.0))
@wrong("half the rate", dict.fromkeys(_RATES, times(1 / 2)))
@wrong("one entry for all", {"old value": lambda s, _k, _q, v, k, *rest: 2 * (s * v - np.abs(k).mean(axis=(-2, -1)))})
def gradient_laws_break(rates) -> float:
    """The rates of what gradient flow conserves, along the same runs of sign descent: the largest error at every fiftieth step."""
    run, errors = trained_aligned("sign", 0.5), []
    for step in range(0, len(run.times) - 1, 50):
        start, end = _heads(run, step), _heads(run, step + 1)
        middle = tuple((one + other) / 2 for one, other in zip(start, end, strict=True))  # a step is straight: exact for squares
        change = _values(_OLD, *end) - _values(_OLD, *start)
        errors.append(np.abs(change / 1e-3 - _values(rates, *middle)).max())
    return float(max(errors))


@claim("V8-sign", method="training", tolerance=ADAM_CONSERVES, theory=_CONSERVED)
@wrong("the laws (79) of gradient flow", _OLD)
def adam_nearly_conserves(laws) -> float:
    """What sign descent conserves changes little under Adam too, along PyTorch runs from five starts: its change over that of the
    weights."""
    return _drift(laws, trained_aligned("adam", 0.5))


_BOUND = compiled("V8-sign-origin", (H, u), part="bound")


@claim("V8-sign-origin", method="training", tolerance=ROUNDOFF, theory=_BOUND)
@wrong("one head", lambda heads, size: size**3)
@wrong("as fast as the square", lambda heads, size: heads * size**2)
def all_directions_together(entry) -> float:
    """Each diagonal entry of the map of aligned heads of one size grows alike under sign descent, in PyTorch: relative error."""
    run = trained_aligned("sign", 1.0)
    maps = run.effective_maps().diagonal(axis1=-2, axis2=-1)
    return float(np.abs(maps / entry(HEADS, 0.02 + run.times)[:, None, None] - 1).max())


_TIME = compiled("V8-sign-origin", (lambda_, a, H, w_init), part="time")
_FLOW = compiled("V8-sign-origin", (lambda_, w_init), part="flow")


@claim("V8-sign-origin", method="descent", tolerance=STEP_OF_TIME, theory=_TIME)
@wrong("one head", lambda level, moment, heads, scale: _TIME(level, moment, 1, scale))
@wrong("scale forgotten", lambda level, moment, heads, scale: _TIME(level, moment, heads, scale) + scale)
@wrong("as gradient flow", lambda level, moment, heads, scale: _FLOW(level, scale))
def time_of_one_direction(time) -> float:
    """The time in which sign descent learns one direction with one to four aligned heads: relative error."""
    task, errors = RegressionTask(eigenvalues=[0.8], context_length=20), []
    moment = task.second_moment_eigenvalues[0]
    for heads, scale in ((1, 0.1), (2, 0.03), (4, 0.001)):
        start = aligned(task, draws.generator(43, heads), scale, heads=heads)
        run = sign_descent(QuadraticLoss.population(task), start, steps=5_000, learning_rate=3e-4)
        v, k, q = run.arrays.values()
        learned = int(np.argmax((v * k[:, :, 0, 0] * q[:, :, 0, 0]).sum(axis=1) >= 0.8 / moment))
        errors.append(abs(run.times[learned] / time(0.8, moment, heads, scale) - 1))
    return float(max(errors))


@claim("V8-sign-origin", method="descent", tolerance=FEW_PLATEAUS, theory=1)
@wrong("one for each direction", 4)
def drops_under_signs(drops) -> float:
    """About one drop of the loss under sign descent, from each of five random starts of size 0.02."""
    starts = (SeparateWeights.initialize(TASK, heads=HEADS, rank=1, scale=0.02, rng=draws.generator(49, one)) for one in range(STARTS))
    runs = [sign_descent(LOSS, start, steps=2000, learning_rate=1e-3) for start in starts]
    return max(abs(len(find_plateaus(run).drops) - drops) for run in runs)


def _steep(scales: np.ndarray) -> float:
    return power_law(scales, lambda scale: _FLOW(0.4, scale))


def _flat(scales: np.ndarray) -> float:
    return power_law(scales, lambda scale: _TIME(0.4, ALIKE.second_moment_eigenvalues[0], HEADS, scale))


@claim("V8-sign-origin", method="training", tolerance=SCALES, theory={"sgd": _steep, "adam": _flat, "sign": _flat}, slow=True)
@wrong("as gradient flow", dict.fromkeys(("sgd", "adam", "sign"), _steep))
@wrong("as sign descent", dict.fromkeys(("sgd", "adam", "sign"), _flat))
@wrong("Adam as heavy ball of a large mass", {"sgd": _steep, "adam": lambda scales: -1 / 2, "sign": _flat})
def powers_of_the_scale(power) -> float:
    """The power of the scale in the time until the loss has fallen to 0.6, in PyTorch from five starts by SGD, Adam and sign descent."""
    return max(abs(measured - power[name](scales)) for name, (scales, measured) in scaled_times().items())


@draws.remembered
def scaled_times() -> dict[str, Any]:
    """For each optimizer its scales, and the slope of the mean logarithm of the time."""
    data, found = fixed_set(draw_sequences(ALIKE, 200, draws.torch_generator(44))), {}
    for name in ("sgd", "adam", "sign"):
        times, (step, scales) = [], (0.4, (0.1, 0.05, 0.02)) if name == "sgd" else (1e-3, (0.03, 0.01, 0.003))
        for scale in scales:
            rngs = (draws.generator(45, number) for number in range(STARTS))
            weights = (SeparateWeights.initialize(ALIKE, heads=HEADS, rank=1, scale=scale, rng=rng) for rng in rngs)
            starts, steps = [ReducedSeparate(one) for one in weights], round(60 / scale) if name == "sgd" else 1000
            run = train(starts, data, steps=steps, learning_rate=step, optimizer=name, progress=False)
            fallen = run.batch_loss < 0.6 * run.batch_loss[0]
            times.append(np.log(run.times[fallen.argmax(axis=0)]).mean())
        found[name] = np.array(scales), float(np.polyfit(np.log(scales), times, 1)[0])
    return found


@claim("V8-adam", method="training", tolerance=ROUNDOFF, theory=adam)
@wrong("means for each other", partial(adam, betas=(0.999, 0.9)))
@wrong("a larger epsilon", partial(adam, epsilon=1e-6))
@wrong("signs", sign_descent)
def adam_of_torch(rule) -> float:
    """The loss of 300 steps of PyTorch's Adam on 200 sequences, against the NumPy rule on their exact moments."""
    X, y = draw_sequences(ALIKE, 200, draws.torch_generator(46))
    loss = SampleMoments.from_batches([(X.mT.numpy(), y.numpy())], context="mean").reduced().loss()
    start = aligned(ALIKE, draws.generator(46), 0.1, least=0.5)
    run = train([ReducedSeparate(start)], fixed_set((X, y)), steps=300, learning_rate=0.01, optimizer="adam", progress=False)
    return float(np.abs(run.batch_loss[:, 0] - rule(loss, start, steps=300, learning_rate=0.01).loss).max())


_STEP, _BELOW = (compiled("V8-adam", (x, epsilon), part=part) for part in ("step", "below"))


@claim("V8-adam", method="training", tolerance=ROUNDOFF, theory=_STEP)
@wrong("signs", lambda slope, _: np.sign(slope))
@wrong("gradient flow", _BELOW)
@wrong("epsilon in the root", lambda g, eps: g / (g**2 + eps) ** 0.5)
def first_step_of_adam(move) -> float:
    """The move of each weight at the first step of PyTorch's Adam, and at the hundredth at a steady gradient, at epsilon from 1e-8 to 1."""
    slopes, errors = draws.generator(47).standard_normal(20), []
    for small in (1e-8, 1e-2, 1.0):
        weights = torch.zeros(20, dtype=torch.float64)
        step = adam_of([weights], 1.0, small)
        for _ in range(100):
            before = weights.clone()
            step([torch.tensor(slopes)])
            errors.append(np.abs((before - weights).numpy() - [move(slope, small) for slope in slopes]).max())
    return float(max(errors))


@claim("V8-adam", method="descent", tolerance=GROWING_SPEED, theory=compiled("V8-adam", (), part="growing"))
@wrong("that of sign descent", lambda: 1.0)
@wrong("of gradients that grow as the step", lambda: 3**0.5)
def speed_near_the_origin(speed) -> float:
    """The speed of Adam on the gradients near the origin, over that of sign descent, while no step is forgotten."""
    start = aligned(ALIKE, draws.generator(48), 1e-7, heads=1)
    run = adam(QuadraticLoss.population(ALIKE), start, steps=1000, learning_rate=1e-4, betas=(0.5, 0.999999), epsilon=0.0)
    return abs(float((np.abs(run.states[-1]) - np.abs(run.states[-101])).mean() / 0.01) / float(speed()) - 1)
