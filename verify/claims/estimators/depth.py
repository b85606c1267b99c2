"""Claims about depth (V13): layers of linear attention on prompts, trained, and in high dimension."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from ....numerics import RegressionTask, compiled, integrate
from ....theory import SampleCovariance
from ....theory.model import Model
from ....theory.notation import D, Lambda, Lambda_hat, N
from ....theory.results.estimators.optimality import c
from ....theory.results.own_model.depth import DEPTHS, LAYERS, MOMENTS, SYMMETRIC, Z, layers, moment, scalar_layers, size
from ....theory.results.own_model.two_steps import through, z
from ...experiments import draws
from ...own_model.prompts import ModelNetwork
from ...training.descent import fresh_batches, one_thread, train
from .. import formulas
from ..attention.moments import largest_score
from ..book import claim, wrong
from ..tolerances import LEADING_ORDER, ONE_SPECTRUM, SAMPLING, TRAINED_DEPTH
from .own_model import score_on_prompts

THREE = layers(3)


@claim("V13-loss", method="autograd", tolerance=SAMPLING, theory=THREE, slow=True)
@wrong("N + 1 for N", Model(THREE.prediction, THREE.weights, laws=(SampleCovariance(Lambda_hat, Lambda, N + 1),)))
@wrong("each layer alone", Model(sum(through((one,)) for one in THREE.weights), THREE.weights))
def three_layers_on_prompts(model: Model) -> float:
    """The loss and the flow of three layers with matrices, exact, against autograd on 64,000 prompts."""
    return score_on_prompts(model, THREE, (0.3, 0.1, -0.2), seed=130)


@claim("V13-loss", method="autograd", tolerance=SAMPLING, theory=formulas.formula("V13-loss", size, N, Lambda, part="apart"))
@wrong("N + 1 for N", {N: N + 1})
@wrong("half", {size: size / 2})
@wrong("the other first", {size: -size})
def layers_part(expected) -> float:
    """How two equal layers part, by autograd on the errors in 160,000 contexts."""
    covariance, scale, rows, generator = torch.tensor(formulas.OBLIQUE_TASK.covariance), 1e-3, [], draws.torch_generator(131)
    roots = torch.linalg.cholesky(covariance)
    for _ in range(64):
        X = torch.randn(2500, 3, 2, generator=generator, dtype=torch.float64) @ roots.T
        first, second = (torch.tensor(scale * (covariance @ covariance).numpy(), requires_grad=True) for _ in range(2))
        left = (torch.eye(2) - X.mT @ X / 3 @ first) @ (torch.eye(2) - X.mT @ X / 3 @ second)
        loss = torch.einsum("pij,jk,pik->p", left, covariance, left).mean()
        one, two = torch.autograd.grad(loss, (first, second))
        rows.append(((two - one) / 2 / scale).flatten().tolist())
    return largest_score(np.array(rows), np.ravel(expected(scale, 3, covariance.numpy())) / scale)


def white(change: Mapping | None = None) -> list[float]:
    """The loss of four layers, of the coefficients of their polynomial and the moments, and the least losses of one and two (V13-white)."""
    moments = (float(moment(k).subs(change or {}).subs({D: 3, N: 8})) for k in range(1, 9))
    coefficients = np.poly(NUMBERS)[1:] * (-1.0) ** np.arange(1, 5)
    loss = compiled("V13-white", (*SYMMETRIC, *MOMENTS), part="loss")(*coefficients, *moments)
    return [loss, *compiled("V13-white", (D, N), part=("one at best", "two at best"), change=change)(3, 8)]


NUMBERS = (0.3, 0.2, 0.4, -0.1)


@claim("V13-white", method="Monte Carlo", tolerance=SAMPLING, theory=white)
@wrong("N + 1 for N", {N: N + 1})
@wrong("D + 1 for D", {D: D + 1})
def white_losses(expected) -> float:
    """The loss of four layers, and the least loss of one and two by least squares, over 40,000 contexts of 8 tokens."""
    X = draws.generator(132).standard_normal((40_000, 8, 3))
    spectra = np.linalg.eigvalsh(np.swapaxes(X, 1, 2) @ X / 8)
    squares = [(np.prod([1 - one * spectra for one in NUMBERS], axis=0) ** 2).mean(1)]
    for depth in (1, 2):
        features = np.stack([spectra.ravel() ** k for k in range(1, depth + 1)], axis=1)
        fitted = np.linalg.lstsq(features, np.ones(len(features)), rcond=None)[0]
        squares.append((1 - (features @ fitted).reshape(spectra.shape)) ** 2)
    rows = [np.reshape(one, (len(X), -1)).mean(1) for one in squares]
    return max(abs(one.mean() - float(value)) / (one.std() / len(one) ** 0.5) for one, value in zip(rows, expected(), strict=True))


WHITE = RegressionTask(eigenvalues=np.ones(3), context_length=9)
RUNS = {1: 1, 2: 1, 3: 3}  # of three layers one run in thirty strays along a flat direction: the middle of three
STARTS = {1: (0.0,), 2: (0.1, -0.1), 3: (0.3, 0.0, -0.3)}
END = 24.0


@draws.remembered
def _trained(depth: int, seed: int) -> Any:
    """Layers trained on fresh prompts of white tokens, from multiples of the identity: times and a path for each layer."""
    start = {one: number * np.eye(3) for one, number in zip(LAYERS, STARTS[depth], strict=False)}
    network, batches = ModelNetwork(layers(depth), WHITE, start), fresh_batches(WHITE, 2048, draws.torch_generator(133, depth, seed))
    with one_thread():
        run = train(network, batches, steps=2400, learning_rate=END / 4800, record_every=40, progress=False)
    return run.times, [np.trace(run.states[str(one)], axis1=1, axis2=2) / 3 for one in start]


@claim("V13-flow", method="training", tolerance=TRAINED_DEPTH, theory=(1.0, STARTS), slow=True)
@wrong("twice as fast", (0.5, STARTS))
@wrong("layers begin equal", (1.0, {1: (0.0,), 2: (0.0, 0.0), 3: (0.0, 0.0, 0.0)}))
@wrong("the others first", (1.0, {depth: one[::-1] for depth, one in STARTS.items()}))
def layers_trained(theory) -> float:
    """The layers of networks of one, two and three, matrices trained by SGD on white tokens, against the flow of numbers."""
    unit, starts = theory
    errors = []
    for depth, start in starts.items():
        flow = integrate(scalar_layers(depth), WHITE, initial=dict(zip(Z, start, strict=False)), t_end=END, tau=3 * unit)
        runs = (_trained(depth, seed) for seed in range(RUNS[depth]))
        errors.append(np.median([max(np.abs(path - flow.at(t)[z]).max() for z, path in zip(Z, paths, strict=False)) for t, paths in runs]))
    return float(max(errors))


@claim("V13-flow", method="flow", tolerance=LEADING_ORDER, theory=formulas.formula("V13-flow", *Z[:2], *MOMENTS[1:4], part="apart"))
@wrong("half", formulas.times(1 / 2))
@wrong("without the third moment", {MOMENTS[2]: 0})
@wrong("no fourth moment", {MOMENTS[3]: 0})
def plateau_of_loops(apart) -> float:
    """The plateau of two nearly equal layers: the rate at which they part at the best loops, and its length, in flows."""
    loops = integrate(scalar_layers(2, shared=True), WHITE, initial={z: 0.0}, t_end=60.0, tau=3.0).at(60.0)[z]
    moments = compiled("V13-white", (D, N), part=("m_2", "m_3", "m_4"))(3, 9)
    rate = float(apart(loops + 1e-6, loops - 1e-6, *moments)) / 2e-6
    halves = []
    for scale in (1e-4, 1e-6):
        flow = integrate(scalar_layers(2), WHITE, initial={Z[0]: scale, Z[1]: -scale}, t_end=60.0, tau=3.0)
        times = np.linspace(0, 60, 6001)
        distance = np.abs(np.subtract(*(flow.at(times)[one] for one in Z[:2])))
        halves.append(times[np.argmax(distance > distance[-1] / 2)])
    return float(abs((halves[1] - halves[0]) * rate / np.log(100) - 1))


LIMITS = formulas.parts_of(
    "V13-limit", (c,), *(f"{depth} {what}" for what in ("best", "loops", "part") for depth in DEPTHS[what == "part" :])
)


@draws.remembered
def _spectrum(ratio: float) -> np.ndarray:
    X = draws.generator(134, int(2 * ratio)).standard_normal((int(1000 * ratio), 1000))
    if len(X) < X.shape[1]:  # the others are zero
        return np.pad(np.linalg.eigvalsh(X @ X.T / len(X)), (X.shape[1] - len(X), 0))
    return np.linalg.eigvalsh(X.T @ X / len(X))


@claim("V13-limit", method="linear algebra", tolerance=ONE_SPECTRUM, theory=LIMITS)
@wrong("1/c for c", {c: 1 / c})
@wrong("one layer less", {f"{k} best": LIMITS[f"{k - 1} best"] for k in DEPTHS[1:]})
@wrong("one loop less", {f"{k} loops": LIMITS[f"{k - 1} loops"] for k in DEPTHS[1:]})
def best_in_high_dimension(limits) -> float:
    """The best layers and loops of one to four, on the spectrum of one context in 1,000 dimensions, for c = 0.5 and 2.5."""
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
