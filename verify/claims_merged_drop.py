"""Claims about the drop of merged attention for any covariance (V7): its time, its share of the learning, the rates after it."""

from collections.abc import Callable
from functools import cache

import numpy as np
import torch
from scipy.optimize import brentq

from ..numerics.balanced import balanced_curve, effective_start
from ..numerics.compile import compile_expression
from ..numerics.flow import gradient_flow
from ..numerics.landscape import merged_fixed_points
from ..numerics.losses import QuadraticLoss
from ..numerics.merged_drop import MergedDrop
from ..numerics.tasks import RegressionTask
from ..numerics.weights import MergedWeights
from ..theory.equations import equation
from ..theory.merged_drop import kappa_max, kappa_min
from .claims import claim
from .models import ReducedMerged
from .tolerances import ROUNDOFF, SHARE, SOLVER, TRAINED_BEGIN, TRAINED_SHARE
from .training import fresh_batches, one_thread, train

START = 1e-3  # of the size at which the drop has begun


@cache
def spectra(count: int = 12) -> tuple[RegressionTask, ...]:
    """Tasks of two to five directions, their eigenvalues spread over up to a factor of thirty."""
    rng = np.random.default_rng(70)
    sizes = rng.integers(2, 6, count)
    return tuple(RegressionTask(eigenvalues=30 ** -rng.uniform(0, 1, size), context_length=10) for size in sizes)


def ray(task: RegressionTask) -> np.ndarray:
    """c/gamma as a matrix."""
    square = task.covariance @ task.covariance
    return square / np.linalg.norm(square)


@cache
def _beginnings() -> tuple[float, ...]:
    """When s passes s_1 in the flow of all weights, one balanced head on the ray."""
    times = []
    for task in spectra():
        drop, direction = MergedDrop.of(task), ray(task)
        u = np.sqrt(START * drop.begun)
        weights, until = MergedWeights(np.array([u]), u * direction[None]), 8 / drop.gamma
        flow = gradient_flow(QuadraticLoss.population(task), weights, t_end=until, rtol=1e-10)
        begun = float(np.sqrt(drop.begun))
        after = int(np.argmax(flow.states[:, 0] > begun))
        left, right = flow.times[after - 1 : after + 1]
        times.append(brentq(lambda t, flow=flow, begun=begun: flow.states_at(t)[0] - begun, left, right))
    return tuple(times)  # type: ignore[arg-type]


Bounds = Callable[[MergedDrop], tuple[float, float]]


def _average(drop: MergedDrop) -> MergedDrop:
    """The white task with the mean of kappa along the ray."""
    return MergedDrop(drop.gamma, np.full(len(drop.kappa), drop.weights @ drop.kappa), drop.weights)


@claim(
    "V7-time",
    "the time at which the drop of merged attention begins, for 12 spectra, is between its bounds: violation in units of 1/gamma",
    method="flow",
    tolerance=SOLVER,
    theory=lambda drop: drop.time_bounds(START * drop.begun),
    wrong={
        "no bounds, but the mean kappa": lambda drop: tuple(
            t + (0.5 / drop.gamma) * np.log(drop.begun / _average(drop).begun)
            for t in _average(drop).time_bounds(START * drop.begun)
        ),
        "start doubled": lambda drop: drop.time_bounds(2 * START * drop.begun),
    },
)
def time_of_the_drop(bounds: Bounds) -> float:
    violations = [0.0]
    for task, time in zip(spectra(), _beginnings(), strict=True):
        drop = MergedDrop.of(task)
        earliest, latest = bounds(drop)
        violations += [(earliest - time) * drop.gamma, (time - latest) * drop.gamma]
    return max(violations)


def _share(drop: MergedDrop) -> float:
    return drop.share


@claim(
    "V7-share",
    "the least loss along the ray of Lambda^2 against the formula, and Kantorovich's bound over 12 spectra and their tightest pair",
    method="linear algebra",
    tolerance=ROUNDOFF,
    theory=(_share, equation("V7-share").statement["bound"]),
    wrong={
        "kappa without weights": (
            lambda drop: 1 / (drop.kappa.mean() * (1 / drop.kappa).mean()),
            equation("V7-share").statement["bound"],
        ),
        "bound without its square": (_share, 4 * kappa_min * kappa_max / (kappa_min + kappa_max)),
    },
)
def share_of_the_drop(statements) -> float:
    share, formula = statements
    bound = compile_expression(formula, (kappa_min, kappa_max))
    errors = []
    for task in spectra():
        drop, loss, direction = MergedDrop.of(task), QuadraticLoss.population(task), ray(task)
        size = np.vdot(loss.A, direction) / np.vdot(direction, loss.apply(direction))
        least = loss.value(np.linalg.solve(task.second_moment, task.covariance))
        measured = (loss.c - loss.value(size * direction)) / (loss.c - least)
        low, high = float(drop.kappa.min()), float(drop.kappa.max())
        tight = MergedDrop(1.0, np.array([low, high]), np.array([0.5, 0.5]))
        errors += [
            abs(measured - share(drop)),
            max(0.0, bound(low, high) - measured),
            abs(tight.share - bound(low, high)),
        ]
    return float(max(errors))


@claim(
    "V7-share",
    "the fall of the loss 3/gamma after the drop began, where one eigenvalue is ten times the other, against the share",
    method="flow",
    tolerance=SHARE,
    theory=_share,
    wrong={"all in one drop": lambda _drop: 1.0, "half of the rest as well": lambda drop: (1 + drop.share) / 2},
)
def share_in_the_flow(share) -> float:
    task = RegressionTask(eigenvalues=[1.0, 0.1], context_length=31)
    drop, loss = MergedDrop.of(task), QuadraticLoss.population(task)
    start = START * drop.begun
    at = drop.time_bounds(start)[1] + 3 / drop.gamma
    curve = balanced_curve(task, start * ray(task), t_end=at)
    least = loss.value(np.linalg.solve(task.second_moment, task.covariance))
    fall = (loss.c - float(curve.loss(np.array(at)))) / (loss.c - least)
    return abs(fall - share(drop))


def _without_growth(drop: MergedDrop) -> np.ndarray:
    """Rates in which s does not move: s K."""
    omega = drop.gamma * np.sqrt(drop.weights) / drop.kappa
    return np.sort(np.linalg.norm(omega) * drop.kappa)


@claim(
    "V7-tail",
    "the rates after the drop are eigenvalues of the Hessian at the global minimum, between their bounds, for 12 spectra",
    method="linear algebra",
    tolerance=ROUNDOFF,
    theory=lambda drop: drop.rates,
    wrong={"s K alone": _without_growth, "rates of the loss": lambda drop: 2 * drop.rates},
)
def rates_after_the_drop(rates) -> float:
    errors = []
    for task in spectra():
        drop, spectrum = MergedDrop.of(task), merged_fixed_points(task, heads=1)[1].spectrum
        derived = rates(drop)
        nearest = np.abs(derived[:, None] - spectrum).min(axis=1)
        size = drop.gamma * np.linalg.norm(np.sqrt(drop.weights) / drop.kappa)
        outside = max(size * drop.kappa.min() - derived[0], derived[-1] - 2 * size * drop.kappa.max(), 0.0)
        errors += [float(nearest.max() / spectrum[-1]), outside]
    return max(errors)


WIDE = RegressionTask(eigenvalues=[1.0, 0.1], context_length=31)


@cache
def _trained() -> tuple[float, float]:
    """The fall of the exact loss, of the whole, after the drop of a trained network, and the time at which its drop has begun."""
    weights = MergedWeights.initialize(WIDE, heads=3, scale=0.01, rng=np.random.default_rng(73))
    drop, loss = MergedDrop.of(WIDE), QuadraticLoss.population(WIDE)
    rate, until = 0.01, drop.time_bounds(float(np.linalg.norm(effective_start(WIDE, weights))))[1] + 5 / drop.gamma
    batches = fresh_batches(WIDE, 512, torch.Generator().manual_seed(74))
    with one_thread():
        run = train(
            ReducedMerged(weights),
            batches,
            steps=round(until / (2 * rate)),
            learning_rate=rate,
            record_every=4,
            progress=False,
        )
    values = run.population_loss(loss)
    least = loss.value(np.linalg.solve(WIDE.second_moment, WIDE.covariance))
    sizes = np.linalg.norm(run.effective_maps(), axis=(1, 2))
    begun = float(np.interp(drop.begun, sizes[: int(np.argmax(sizes))], run.times[: int(np.argmax(sizes))]))
    resting = values[run.times > until - 2 / drop.gamma].mean()
    return float((loss.c - resting) / (loss.c - least)), begun


@claim(
    "V7-share",
    "the fall of the loss after the drop of attention (M), trained on fresh sequences from random weights, against the share",
    method="training",
    tolerance=TRAINED_SHARE,
    theory=_share,
    wrong={"all in one drop": lambda _drop: 1.0, "half of the rest as well": lambda drop: (1 + drop.share) / 2},
    slow=True,
)
def share_trained(share) -> float:
    return abs(_trained()[0] - share(MergedDrop.of(WIDE)))


@claim(
    "V7-time",
    "when the drop begins in this run, from the middle of its bounds at the start that the random weights lead to",
    method="training",
    tolerance=TRAINED_BEGIN,
    theory=lambda drop, start: drop.time_bounds(start),
    wrong={"start ten times as large": lambda drop, start: drop.time_bounds(10 * start)},
    slow=True,
)
def begin_trained(bounds) -> float:
    weights = MergedWeights.initialize(WIDE, heads=3, scale=0.01, rng=np.random.default_rng(73))
    earliest, latest = bounds(MergedDrop.of(WIDE), float(np.linalg.norm(effective_start(WIDE, weights))))
    return abs(2 * _trained()[1] / (earliest + latest) - 1)
