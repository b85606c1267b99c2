"""Claims about the drop of merged attention for any covariance (V7): its time, what it learns, the rates after it."""

from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq

from ....numerics import MergedDrop, MergedWeights, QuadraticLoss, RegressionTask, compiled, gradient_flow, merged_fixed_points
from ....numerics.parametrizations.base import vector_field
from ....numerics.reductions.merged_curve import balanced_curve, effective_start
from ....theory.notation import gamma, s
from ....theory.results.merged.drop import K, c_vec, kappa_max, kappa_min, n
from ....theory.results.merged.drop_bounds import C, kappa_d, kappa_e, m as mean, q, r_d, r_e, v as size_root, z as along
from ...experiments import draws
from ...training.descent import fresh_batches, one_thread, train
from ...training.modules import ReducedMerged
from ..book import claim, wrong
from ..formulas import parts_of, times
from ..tolerances import ORDER, SHARE, TRAINED_HALF, TRAINED_SHARE, TURNING

START = 1e-3  # of the size in the middle of the drop


@draws.remembered
def spectra(count: int = 12) -> tuple[RegressionTask, ...]:
    """Tasks of two to five directions, their eigenvalues spread over up to a factor of thirty."""
    rng = draws.generator(70)
    sizes = rng.integers(2, 6, count)
    return tuple(RegressionTask(eigenvalues=30 ** -rng.uniform(0, 1, size), context_length=10) for size in sizes)


def ray(task: RegressionTask) -> np.ndarray:
    """c/gamma as a matrix."""
    square = task.covariance @ task.covariance
    return square / np.linalg.norm(square)


@draws.remembered
def _times() -> tuple[tuple[float, float], ...]:
    """The times at which s is in its middle and half of the drop is over, in the flow of all weights of one balanced head on the ray."""
    times = []
    for task in spectra():
        drop, direction, loss = MergedDrop.of(task), ray(task), QuadraticLoss.population(task)
        u = np.sqrt(START * drop.middle)
        weights, until = MergedWeights(np.array([u]), u * direction[None]), 8 / drop.gamma
        flow = gradient_flow(loss, weights, t_end=until, rtol=1e-10)
        half = loss.c - drop.gamma**2 / (2 * drop.mean)
        crossings = (
            lambda t, flow=flow, drop=drop: flow.states_at(t)[0] ** 2 - drop.middle,
            lambda t, flow=flow, half=half: half - float(flow.loss_at(t)),
        )
        times.append(tuple(brentq(crossing, 0, until, xtol=1e-11) for crossing in crossings))
    return tuple(times)


Bounds = Callable[[MergedDrop], tuple[float, float]]


def _white(drop: MergedDrop, kappa: float) -> MergedDrop:
    """The same gamma, and one kappa for all directions."""
    return MergedDrop(drop.gamma, np.full(len(drop.kappa), kappa), drop.weights)


def _violation(bounds: Bounds, which: int) -> float:
    """By how much a time of the flow lies outside its bounds, in units of 1/gamma."""
    violations = [0.0]
    for drop, reached in zip(map(MergedDrop.of, spectra()), _times(), strict=True):
        earliest, latest = bounds(drop)
        violations.append(max(earliest - reached[which], reached[which] - latest) * drop.gamma)
    return max(violations)


@claim("V7-time", method="flow", theory=lambda drop: drop.time_bounds(START * drop.middle))
@wrong("the mean kappa in both", lambda drop: _white(drop, drop.mean).time_bounds(START * drop.middle))
@wrong("the smallest kappa in both", lambda drop: _white(drop, drop.kappa.min()).time_bounds(START * drop.middle, drop.middle))
@wrong("start doubled", lambda drop: drop.time_bounds(2 * START * drop.middle))
def time_of_the_drop(bounds: Bounds) -> float:
    """The time at which s is in the middle of merged attention's drop, for 12 spectra, is between its bounds: violation in units of
    1/gamma."""
    return _violation(bounds, 0)


@claim("V7-half", method="flow", theory=lambda drop: drop.half_bounds(START * drop.middle))
@wrong("the mean kappa in both", lambda drop: _white(drop, drop.mean).half_bounds(START * drop.middle))
@wrong("the middle of s for half of the loss", lambda drop: drop.time_bounds(START * drop.middle))
@wrong("start doubled", lambda drop: drop.half_bounds(2 * START * drop.middle))
def half_of_the_drop(bounds: Bounds) -> float:
    """The time to half of the loss's drop, for 12 spectra, is between its bounds: violation in units of 1/gamma."""
    return _violation(bounds, 1)


def _share(drop: MergedDrop) -> float:
    return drop.share


_BOUND = compiled("V7-share", (kappa_min, kappa_max), part="bound")


@claim("V7-share", method="linear algebra", theory=(_share, _BOUND))
@wrong("kappa without weights", (lambda drop: 1 / (drop.kappa.mean() * (1 / drop.kappa).mean()), _BOUND))
@wrong("bound without its square", (_share, lambda low, high: _BOUND(low, high) * (low + high)))
def share_of_the_drop(statements) -> float:
    """The least loss along the ray of Lambda^2 against the formula, and Kantorovich's bound over 12 spectra and their tightest pair."""
    (share, bound), errors = statements, []
    for task in spectra():
        drop, loss, direction = MergedDrop.of(task), QuadraticLoss.population(task), ray(task)
        size = np.vdot(loss.A, direction) / np.vdot(direction, loss.apply(direction))
        least = loss.value(np.linalg.solve(task.second_moment, task.covariance))
        measured = (loss.c - loss.value(size * direction)) / (loss.c - least)
        low, high = float(drop.kappa.min()), float(drop.kappa.max())
        tight = MergedDrop(1.0, np.array([low, high]), np.array([0.5, 0.5]))
        errors += [abs(measured - share(drop)), max(0.0, bound(low, high) - measured), abs(tight.share - bound(low, high))]
    return float(max(errors))


@claim("V7-share", method="linear algebra", theory=lambda drop: drop.further * drop.gamma**3 / drop.mean)
@wrong("at rest", lambda _drop: 0.0)
@wrong("half of it, as for s alone", lambda drop: drop.further / 2 * drop.gamma**3 / drop.mean)
def fall_at_the_end_of_the_ray(rate) -> float:
    """How fast the loss still falls at the end of the ray, for 12 spectra, against the squared velocity of all weights there."""
    errors = []
    for task in spectra():
        drop, u = MergedDrop.of(task), np.sqrt(2 * MergedDrop.of(task).middle)
        weights = MergedWeights(np.array([u]), u * ray(task)[None])
        velocity = vector_field(QuadraticLoss.population(task), weights)(0.0, weights.flatten())
        errors.append(abs(2 * velocity @ velocity - rate(drop)))  # dL/dt = -2 |dW/dt|^2
    return float(max(errors))


def _fall(task: RegressionTask, after: np.ndarray) -> np.ndarray:
    """The share of the whole fall of the loss in the flow from the ray, at times in 1/gamma after the middle of the sigmoid."""
    drop, loss = MergedDrop.of(task), QuadraticLoss.population(task)
    start = START * drop.middle
    times = drop.time_bounds(start)[1] + after / drop.gamma
    curve = balanced_curve(task, start * ray(task), t_end=times.max())
    least = loss.value(np.linalg.solve(task.second_moment, task.covariance))
    return (loss.c - curve.loss(times)) / (loss.c - least)


@claim("V7-share", method="flow", tolerance=SHARE, theory=_share)
@wrong("all in one drop", lambda _drop: 1.0)
@wrong("half of the rest as well", lambda drop: (1 + drop.share) / 2)
def share_in_the_flow(share) -> float:
    """The fall of the loss 4/gamma after the middle of the drop, for 12 random spectra whose largest eigenvalue is ten to thirty times each
    other one, so that the drop ends on the ray, against the share."""
    rng, errors = draws.generator(71), []
    for _ in range(12):
        others = rng.uniform(1 / 30, 1 / 10, rng.integers(1, 4))
        task = RegressionTask(eigenvalues=[1.0, *others], context_length=int(rng.integers(5, 50)))
        errors.append(abs(float(_fall(task, np.array([4.0]))[0]) - share(MergedDrop.of(task))))
    return max(errors)


AFTER = np.array([-1.0, 0.0, 1.0, 2.0, 3.0])


@claim("V7-turn", method="flow", tolerance=TURNING, theory=lambda drop: drop.learned(AFTER))
@wrong("the ray alone", lambda drop: drop.share * _white(drop, drop.mean).learned(AFTER))
@wrong("all of it in the drop", lambda drop: _white(drop, drop.mean).learned(AFTER))
def learned_in_the_drop(learned) -> float:
    """The fall of the loss from 1/gamma before the middle of the drop to 3/gamma after it, to leading order, in nine in ten of 18 random
    spectra."""
    return float(np.quantile([np.abs(_fall(task, AFTER) - learned(MergedDrop.of(task))).max() for task in spectra(18)], 0.9))


OVER = np.array([4.0])


@claim("V7-turn", method="flow", tolerance=ORDER, theory=lambda drop: drop.learned(OVER))
@wrong("the ray alone, second order", lambda drop: drop.share * _white(drop, drop.mean).learned(OVER))
def order_of_the_turning(learned) -> float:
    """After the drop, the leading order errs by the cube of the spectrum's spread or less: how far the fitted exponent is below 3."""
    tasks = [RegressionTask(eigenvalues=[1.0, np.exp(-spread)], context_length=31) for spread in (0.1, 0.05)]
    errors = [abs(float((_fall(task, OVER) - learned(MergedDrop.of(task)))[0])) for task in tasks]
    return max(0.0, 3 - float(np.log2(errors[0] / errors[1])))


def _least_size(drop: MergedDrop) -> float:
    """s at the global minimum."""
    return drop.gamma * float(np.linalg.norm(np.sqrt(drop.weights) / drop.kappa))


@claim("V7-tail", method="linear algebra", theory=lambda drop: drop.rates)
@wrong("s K alone", lambda drop: _least_size(drop) * np.sort(drop.kappa))
@wrong("rates of the loss", lambda drop: 2 * drop.rates)
def rates_after_the_drop(rates) -> float:
    """The rates after the drop are eigenvalues of the Hessian at the global minimum, between their bounds, for 12 spectra."""
    errors = []
    for task in spectra():
        drop, spectrum = MergedDrop.of(task), merged_fixed_points(task, heads=1)[1].spectrum
        derived = rates(drop)
        nearest = np.abs(derived[:, None] - spectrum).min(axis=1)
        least, most = _least_size(drop) * drop.kappa.min(), 2 * _least_size(drop) * drop.kappa.max()
        outside = max(least - derived[0], derived[-1] - most, 0.0)
        errors += [float(nearest.max() / spectrum[-1]), outside]
    return max(errors)


WIDE = RegressionTask(eigenvalues=[1.0, 0.1], context_length=31)


@draws.remembered
def _trained() -> tuple[float, float]:
    """The share of its whole fall that a trained network's exact loss has fallen after the drop, and the time of half the drop."""
    weights = MergedWeights.initialize(WIDE, heads=3, scale=0.01, rng=draws.generator(73))
    drop, loss = MergedDrop.of(WIDE), QuadraticLoss.population(WIDE)
    rate, until = 0.01, drop.half_bounds(float(np.linalg.norm(effective_start(WIDE, weights))))[1] + 5 / drop.gamma
    batches = fresh_batches(WIDE, 512, draws.torch_generator(74))
    with one_thread():
        run = train(ReducedMerged(weights), batches, steps=round(until / (2 * rate)), learning_rate=rate, record_every=4, progress=False)
    falls = loss.c - run.population_loss(loss)
    whole = loss.c - loss.value(np.linalg.solve(WIDE.second_moment, WIDE.covariance))
    half = drop.gamma**2 / (2 * drop.mean)
    after = int(np.argmax(falls > half))
    over = float(np.interp(half, falls[after - 1 : after + 1], run.times[after - 1 : after + 1]))
    return float(falls[run.times > until - 2 / drop.gamma].mean() / whole), over


@claim("V7-share", method="training", tolerance=TRAINED_SHARE, theory=_share, slow=True)
@wrong("all in one drop", lambda _drop: 1.0)
@wrong("half of the rest as well", lambda drop: (1 + drop.share) / 2)
def share_trained(share) -> float:
    """The fall of the loss after the drop of attention (M), trained on fresh sequences from random weights, against the share."""
    return abs(_trained()[0] - share(MergedDrop.of(WIDE)))


@claim("V7-half", method="training", tolerance=TRAINED_HALF, theory=lambda drop, start: drop.half_bounds(start), slow=True)
@wrong("start ten times as large", lambda drop, start: drop.half_bounds(10 * start))
@wrong("the middle of s for half of the loss", lambda drop, start: drop.time_bounds(start))
def half_trained(bounds) -> float:
    """The time to half of the drop of trained attention (M), against the middle of its bounds for the start that its weights lead to."""
    weights = MergedWeights.initialize(WIDE, heads=3, scale=0.01, rng=draws.generator(73))
    earliest, latest = bounds(MergedDrop.of(WIDE), float(np.linalg.norm(effective_start(WIDE, weights))))
    return abs(2 * _trained()[1] / (earliest + latest) - 1)


@claim("V7-flow", method="linear algebra", theory=parts_of("V7-flow", (s, n, c_vec, K), "size", "direction"))
@wrong("s half as fast", {"size": times(1 / 2)})
@wrong("curvature doubled", {"direction": {K: 2 * K}})
def reduced_merged_flow(velocities) -> float:
    """The velocities of s and n against those of all weights of three balanced heads in three directions."""
    task, speed, map_speed = _moving_heads()
    force, curvature = task.eigenvalues[:, None] ** 2, np.diag(task.eigenvalues * task.second_moment_eigenvalues)
    size, direction = (velocity(SIZE, UNIT[:, None], force, curvature) for velocity in velocities.values())
    turned = (map_speed - speed * UNIT)[:, None]
    return max(abs(float(np.squeeze(size)) - speed), float(np.abs(direction - turned).max()))


VALUES, UNIT = np.array([0.5, -0.3, 0.4]), np.array([2.0, 1.0, 2.0]) / 3
SIZE = float(VALUES @ VALUES)


def _moving_heads() -> tuple[RegressionTask, float, np.ndarray]:
    """Three balanced heads on B = SIZE diag(UNIT): the task, and the velocities of the size and of the eigenvalues of B by all weights."""
    task = RegressionTask(eigenvalues=[0.5, 0.3, 0.1], context_length=10)
    weights = MergedWeights(VALUES, VALUES[:, None, None] * np.diag(UNIT))
    moved = weights.pull_back(-QuadraticLoss.population(task).gradient(weights.effective_map()) / 2)
    moving = np.einsum("h,hdd->d", moved.v, weights.U) + np.einsum("h,hdd->d", VALUES, moved.U)
    return task, 2 * float(VALUES @ moved.v), moving


_BEHIND = {
    "flow": (r_d, kappa_d, s, gamma, C, q),
    "kept": (r_d, r_e, kappa_d, kappa_e, s, gamma),
    "v": (size_root, along, q, gamma),
    "z": (size_root, mean, gamma),
}


@claim("V7-behind", method="linear algebra", theory=parts_of("V7-behind", _BEHIND))
@wrong("curvature doubled", {q: 2 * q})
@wrong("kappa halved", {kappa_d: kappa_d / 2})
@wrong("m doubled", {mean: 2 * mean})
def directions_fall_behind(flows) -> float:
    """How each direction falls behind and how the size and its part along c grow, against the velocities of all weights of three heads."""
    task, speed, map_speed = _moving_heads()
    c, kappa = task.eigenvalues**2, task.eigenvalues * task.second_moment_eigenvalues
    norm, root = float(np.linalg.norm(c)), SIZE**0.5
    turned = (map_speed - speed * UNIT) / SIZE
    r, moved = norm * UNIT / c, norm * turned / c
    part, curvature, mixed = float(c @ UNIT) / norm, float(UNIT @ (kappa * UNIT)), float(c @ (kappa * UNIT)) / norm
    z, speed_of_root = root * part, speed / (2 * root)
    errors = [np.abs(flows["flow"](r, kappa, SIZE, norm, part, curvature) - moved).max()]
    errors.append(flows["kept"](r[0], r[1], kappa[0], kappa[1], SIZE, norm) - (moved[0] / r[0] - moved[1] / r[1]))
    errors.append(flows["v"](root, z, curvature, norm) - speed_of_root)
    errors.append(flows["z"](root, root * mixed, norm) - (speed_of_root * part + root * float(c @ turned) / norm))
    return float(np.abs(errors).max())
