"""Claims about depth (V13): layers of linear attention on prompts, trained, and in high dimension."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from ....numerics.compilation.equations import compiled
from ....numerics.compilation.expressions import compile_expression
from ....numerics.own_model.flow import integrate
from ....numerics.own_model.loss import model_loss
from ....numerics.tasks.regression import RegressionTask
from ....theory import SampleCovariance
from ....theory.model import Model
from ....theory.notation import D, Lambda, Lambda_hat, N
from ....theory.results.estimators.optimality import c
from ....theory.results.own_model.depth import DEPTHS, LAYERS, MOMENTS, SYMMETRIC, Z, layers, moment, scalar_layers, size
from ....theory.results.own_model.two_steps import through, z
from ...experiments import draws
from ...experiments.draws import remembered
from ...own_model.prompts import ModelNetwork
from ...training.descent import fresh_batches, mean_squared_error, one_thread, train
from ...training.sequences import draw_sequences
from .. import formulas
from ..book import claim
from ..tolerances import LEADING_ORDER, ONE_SPECTRUM, SAMPLING, TRAINED_DEPTH

THREE = layers(3)
SHORT = RegressionTask(covariance=formulas.OBLIQUE_TASK.covariance, context_length=2)
MAPS = {one: scale * formulas.OBLIQUE_MAP for one, scale in zip(LAYERS, (0.3, 0.1, -0.2), strict=False)}


@remembered
def _prompt_averages() -> np.ndarray:
    """The loss and its velocity on each of 64 sets of 1,000 prompts, by autograd."""
    network, generator = ModelNetwork(THREE, SHORT, MAPS), draws.torch_generator(130)
    rows = []
    for _ in range(64):
        value = mean_squared_error(network, dict(network.named_parameters()), draw_sequences(SHORT, 1000, generator))
        gradients = torch.autograd.grad(value, list(network.parameters()))
        rows.append([value.item(), *(-entry / 2 for one in gradients for entry in one.flatten().tolist())])
    return np.array(rows)


@claim(
    "V13-loss",
    "the loss and the flow of three layers with matrices, exact, against autograd on 64,000 prompts",
    method="autograd",
    tolerance=SAMPLING,
    theory=THREE,
    wrong={
        "N + 1 for N": Model(THREE.prediction, THREE.weights, laws=(SampleCovariance(Lambda_hat, Lambda, N + 1),)),
        "each layer alone": Model(sum(through((one,)) for one in THREE.weights), THREE.weights),
    },
    slow=True,
)
def three_layers_on_prompts(model: Model) -> float:
    loss, point = model_loss(model, SHORT, weights=MAPS)
    derived = np.array([loss.value(point), *loss.velocity(point)])
    rows = _prompt_averages()
    return float((np.abs(rows.mean(0) - derived) / (rows.std(0, ddof=1) / len(rows) ** 0.5)).max())


def apart(change: Mapping | None = None) -> Callable:
    """How layers that are equal begin to part (V13-loss), of x, N and Lambda."""
    return compiled("V13-loss", (size, N, Lambda), part="apart", change=change)


@claim(
    "V13-loss",
    "how two equal layers part, by autograd on the errors in 400,000 contexts",
    method="autograd",
    tolerance=SAMPLING,
    theory=apart(),
    wrong={"N + 1 for N": apart({N: N + 1}), "half": apart({size: size / 2}), "the other first": apart({size: -size})},
)
def layers_part(expected) -> float:
    covariance, scale = torch.tensor(formulas.OBLIQUE_TASK.covariance), 1e-3
    roots = torch.linalg.cholesky(covariance)
    rows, generator = [], draws.torch_generator(131)
    for _ in range(64):
        X = torch.randn(6250, 3, 2, generator=generator, dtype=torch.float64) @ roots.T
        first, second = (torch.tensor(scale * (covariance @ covariance).numpy(), requires_grad=True) for _ in range(2))
        spectra = X.mT @ X / 3
        left = (torch.eye(2) - spectra @ first) @ (torch.eye(2) - spectra @ second)
        loss = torch.einsum("pij,jk,pik->p", left, covariance, left).mean()
        one, two = torch.autograd.grad(loss, (first, second))
        rows.append(((two - one) / 2 / scale).flatten().tolist())
    rows = np.array(rows)
    derived = np.ravel(expected(scale, 3, covariance.numpy())) / scale
    return float((np.abs(rows.mean(0) - derived) / (rows.std(0, ddof=1) / len(rows) ** 0.5)).max())


def at_best(name: str, change: Mapping | None = None) -> Callable:
    """The least loss of one layer, or two (V13-white), of D and N."""
    return compiled("V13-white", (D, N), part=f"{name} at best", change=change)


def white(change: Mapping | None = None) -> tuple:
    """The loss of four layers, of the coefficients of their polynomial and the moments; the moments; the least losses."""
    loss = compiled("V13-white", (*SYMMETRIC, *MOMENTS), part="loss")
    moments = [compile_expression(moment(k).subs(change or {}), (D, N)) for k in range(1, 9)]
    return loss, moments, at_best("one", change), at_best("two", change)


@claim(
    "V13-white",
    "the loss of four layers, and the least loss of one and two by least squares, over 100,000 contexts of 8 tokens",
    method="Monte Carlo",
    tolerance=SAMPLING,
    theory=white(),
    wrong={"N + 1 for N": white({N: N + 1}), "D + 1 for D": white({D: D + 1})},
)
def white_losses(theory) -> float:
    loss, moments, *least = theory
    X, numbers = draws.generator(132).standard_normal((100_000, 8, 3)), (0.3, 0.2, 0.4, -0.1)
    spectra = np.linalg.eigvalsh(np.einsum("pnd,pne->pde", X, X) / 8)
    whole = loss(*(np.poly(numbers)[1:] * (-1.0) ** np.arange(1, 5)), *(one(3, 8) for one in moments))
    squares = [(np.prod([1 - one * spectra for one in numbers], axis=0) ** 2).mean(1)]
    for depth in (1, 2):
        features = np.stack([spectra.ravel() ** k for k in range(1, depth + 1)], axis=1)
        fitted = np.linalg.lstsq(features, np.ones(len(features)), rcond=None)[0]
        squares.append((1 - (features @ fitted).reshape(spectra.shape)) ** 2)
    expected = [whole, *(one(3, 8) for one in least)]
    rows = [np.reshape(one, (len(X), -1)).mean(1) for one in squares]
    return max(abs(one.mean() - float(value)) / (one.std() / len(one) ** 0.5) for one, value in zip(rows, expected, strict=True))


WHITE = RegressionTask(eigenvalues=np.ones(3), context_length=9)
STARTS = {1: (0.0,), 2: (0.1, -0.1), 3: (0.3, 0.0, -0.3)}
END = 24.0


@remembered
def _trained(depth: int, seed: int) -> Any:
    """Layers trained on fresh prompts of white tokens, from multiples of the identity: times and a path for each layer."""
    start = {one: number * np.eye(3) for one, number in zip(LAYERS, STARTS[depth], strict=False)}
    network, batches = ModelNetwork(layers(depth), WHITE, start), fresh_batches(WHITE, 1024, draws.torch_generator(133, depth, seed))
    with one_thread():
        run = train(network, batches, steps=2400, learning_rate=END / 4800, record_every=40, progress=False)
    return run.times, [np.trace(run.states[str(one)], axis1=1, axis2=2) / 3 for one in start]


@claim(
    "V13-flow",
    "the layers of networks of one, two and three, matrices trained by SGD on white tokens, two seeds, against the flow of numbers",
    method="training",
    tolerance=TRAINED_DEPTH,
    theory=(1.0, STARTS),
    wrong={
        "twice as fast": (0.5, STARTS),
        "layers begin equal": (1.0, {1: (0.0,), 2: (0.0, 0.0), 3: (0.0, 0.0, 0.0)}),
        "the others first": (1.0, {depth: one[::-1] for depth, one in STARTS.items()}),
    },
    slow=True,
)
def layers_trained(theory) -> float:
    unit, starts = theory
    errors = []
    for depth, start in starts.items():
        flow = integrate(scalar_layers(depth), WHITE, initial=dict(zip(Z, start, strict=False)), t_end=END, tau=3 * unit)
        for seed in range(2):
            times, paths = _trained(depth, seed)
            errors += [np.abs(path - flow.at(times)[number]).max() for number, path in zip(Z, paths, strict=False)]
    return float(max(errors))


def _moments(dimension: int, length: int) -> tuple:
    """m_2, m_3 and m_4, by (V13-white)."""
    return tuple(compiled("V13-white", (D, N), part=f"m_{k}")(dimension, length) for k in (2, 3, 4))


def parting(change: Mapping | None = None) -> Callable:
    """How fast z_1 - z_2 grows, of z_1, z_2 and three moments."""
    return compiled("V13-flow", (*Z[:2], *MOMENTS[1:4]), part="apart", change=change)


@claim(
    "V13-flow",
    "the plateau of two nearly equal layers: the rate at which they part at the best loops, and its length, in flows",
    method="flow",
    tolerance=LEADING_ORDER,
    theory=parting(),
    wrong={
        "half": lambda *of: parting()(*of) / 2,
        "without the third moment": lambda x, y, *m: parting()(x, y, m[0], 0.0, m[2]),
        "no fourth moment": lambda x, y, *m: parting()(x, y, *m[:2], 0.0),
    },
)
def plateau_of_loops(formula) -> float:
    loops = integrate(scalar_layers(2, shared=True), WHITE, initial={z: 0.0}, t_end=60.0, tau=3.0).at(60.0)[z]
    rate = float(formula(loops + 1e-6, loops - 1e-6, *_moments(3, 9))) / 2e-6
    halves = []
    for scale in (1e-4, 1e-6):
        flow = integrate(scalar_layers(2), WHITE, initial={Z[0]: scale, Z[1]: -scale}, t_end=60.0, tau=3.0, rtol=1e-11)
        times = np.linspace(0, 60, 6001)
        apart = np.abs(np.subtract(*(flow.at(times)[one] for one in Z[:2])))
        halves.append(times[np.argmax(apart > apart[-1] / 2)])
    return float(abs((halves[1] - halves[0]) * rate / np.log(100) - 1))


def large(change: Mapping | None = None) -> dict[str, Callable]:
    """The limits (V13-limit), of c."""
    parts = [f"{depth} {what}" for what in ("best", "loops", "part") for depth in DEPTHS[what == "part" :]]
    return {part: compiled("V13-limit", (c,), part=part, change=change) for part in parts}


@remembered
def _spectrum(ratio: float) -> np.ndarray:
    X = draws.generator(134, int(2 * ratio)).standard_normal((int(1000 * ratio), 1000))
    return np.linalg.eigvalsh(X.T @ X / len(X))


@claim(
    "V13-limit",
    "the best layers and loops of one to four, on the spectrum of one context in 1,000 dimensions, for c = 0.5 and 2.5",
    method="linear algebra",
    tolerance=ONE_SPECTRUM,
    theory=large(),
    wrong={
        "1/c for c": large({c: 1 / c}),
        "one layer less": large() | {f"{k} best": compiled("V13-limit", (c,), part=f"{k - 1} best") for k in DEPTHS[1:]},
        "one loop less": large() | {f"{k} loops": compiled("V13-limit", (c,), part=f"{k - 1} loops") for k in DEPTHS[1:]},
    },
)
def best_in_high_dimension(limits) -> float:
    errors = []
    for ratio in (0.5, 2.5):
        s, loop = _spectrum(ratio), ratio / (1 + ratio)
        for depth in DEPTHS:
            features = np.stack([s**k for k in range(1, depth + 1)], axis=1)
            fitted = np.linalg.lstsq(features, np.ones(len(s)), rcond=None)[0]
            found = {"best": ((1 - features @ fitted) ** 2).mean(), "loops": ((1 - loop * s) ** (2 * depth)).mean()}
            found |= {"part": (s**2 * (1 - loop * s) ** (2 * depth - 2)).mean()} if depth > 1 else {}
            errors += [one - float(limits[f"{depth} {what}"](ratio)) for what, one in found.items()]
            roots = np.sort(1 / np.roots([*-fitted[::-1], 1.0]).real)
            chebyshev = ratio / (1 + ratio + 2 * np.sqrt(ratio) * np.cos(np.pi * np.arange(1, depth + 1) / (depth + 1)))
            errors += [*(roots / chebyshev - 1)]
    return float(np.abs(errors).max())
