"""Claims about mini-batches: how they move and spread drop times, aligned (V8-noise) and from any weights (V8-force, V8-spread)."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ....numerics import DropSpread, RegressionTask, SeparateWeights, compile_expression, compiled, spread_of_drops
from ....theory.notation import B, Lambda, N, T, lambda_, v_0
from ....theory.results.discretisation.finite_steps import V, batch as sequences, h, t, v
from ....theory.results.discretisation.minibatch_noise import Z, force_variance
from ...experiments import draws
from ..book import claim, wrong
from ..tolerances import NOISE_OF_A_DROP, NOISE_OF_TIMES, SAMPLING

# One dimension, where v = k = q stay equal: every step draws fresh sequences for every run

ONE = RegressionTask(eigenvalues=[1.0], context_length=8)
STEP, START, LEVEL, RUNS = 0.05, 0.1, 0.3, 4000
BATCHES = (16, 32, 64)


@draws.remembered
def times_to_level(batch: int) -> np.ndarray:
    """The times at which v reaches LEVEL in RUNS independent runs of SGD, interpolated between steps."""
    rng = draws.generator(80, batch)
    v, times = np.full(RUNS, START), np.full(RUNS, np.nan)
    for step in range(1000):
        shape = (RUNS, batch)
        w, x_q, S = rng.standard_normal(shape), rng.standard_normal(shape), rng.chisquare(8, shape) / 8
        beta, y_q = S * w, w * x_q
        after = v + STEP * ((y_q * beta * x_q).mean(1) * v**2 - (beta**2 * x_q**2).mean(1) * v**5)
        passed = np.isnan(times) & (after >= LEVEL)
        times[passed] = STEP * (step + (LEVEL - v[passed]) / (after - v)[passed])
        v = after
        if not np.isnan(times).any():
            return times
    raise ArithmeticError(f"{int(np.isnan(times).sum())} of {RUNS} runs did not reach v = {LEVEL}")


def derived_times(batch: int, time: float, change: Mapping | None = None) -> tuple[Any, Any]:
    """The mean delay and the standard deviation of the time to LEVEL, for a batch size and the time without noise."""
    variance = compiled("V8-noise", (lambda_, T, Lambda, N), part="variance", change=change)
    laws = compiled("V8-noise", (h, sequences, lambda_, v_0, v, V, t), part=("delay", "spread"), change=change)
    delay, spread = laws(STEP, batch, 1.0, START, LEVEL, variance(1.0, 1.0, np.eye(1), 8), time)
    return delay, np.sqrt(spread)


def exact_time() -> float:
    """The time of gradient flow from START to LEVEL."""
    a = ONE.second_moment_eigenvalues[0]
    v = np.linspace(1 / LEVEL, 1 / START, 20_001)  # dt = d(1/v) / (lambda^2 - lambda a v^3), up to the sign
    values = 1 / (1 - a / v**3)
    return float(np.trapezoid(values, v))


@claim("V8-noise", method="descent", tolerance=NOISE_OF_TIMES, theory=derived_times, slow=True)
@wrong("noise of an infinite context", {N: 10**9})
@wrong("twice the batch", {sequences: 2 * sequences})
def spread_of_times(noise) -> float:
    """The standard deviation over 4,000 runs of the time in which a head grows threefold, in batches of 16 to 64."""
    time = exact_time()
    return max(abs(times_to_level(batch).std() / noise(batch, time)[1] - 1) for batch in BATCHES)


@claim("V8-noise", method="descent", tolerance=SAMPLING, theory=derived_times, slow=True)
@wrong("noise left out", {sequences: 10**9})
@wrong("noise four times", {sequences: sequences / 4})
def delay_by_noise(noise) -> float:
    """The mean delay of the time in which a head grows threefold: in standard errors, with a tenth of the delay allowed."""
    time, scores = exact_time(), []
    for batch in BATCHES:
        times, delay = times_to_level(batch), float(noise(batch, time)[0])
        error = np.hypot(times.std() / RUNS**0.5, 0.1 * delay / 4.5)
        scores.append(abs(times.mean() - time - delay) / error)
    return float(max(scores))


# The whole model: two heads from random weights, two directions, no alignment assumed

TWO = RegressionTask(eigenvalues=[1.0, 0.5], context_length=8)
TWO_RUNS, TWO_END, SMALL = 800, 95.0, 0.08  # the derived spread of a drop over its time is at most SMALL
MIDDLE = (0.1586553, 0.8413447)  # one standard deviation to either side of a Gaussian; one run in a thousand lets its heads swap


@draws.remembered
def two_heads() -> SeparateWeights:
    """The first start drawn with the check's seed whose noise is small: both drops spread little, and five spreads before the end."""
    rng = draws.generator(84)
    while True:
        start = SeparateWeights.initialize(TWO, heads=2, rank=1, scale=0.15, rng=rng)
        drops = drops_of(start, 16)
        if len(drops) == 2 and all(one.spread < SMALL * one.time and one.time + 5 * one.spread < TWO_END for one in drops):
            return start


def drops_of(start: SeparateWeights, batch: int) -> tuple[DropSpread, ...]:
    return spread_of_drops(TWO, start, batch_size=batch, learning_rate=STEP / 2, t_end=TWO_END)


@draws.remembered
def drop_times(batch: int, runs: int = TWO_RUNS) -> np.ndarray:
    """The times at which independent runs of SGD have learned half of each direction, every step on fresh sequences."""
    rng, goal = draws.generator(81, batch), TWO.eigenvalues / TWO.second_moment_eigenvalues / 2
    start, root = two_heads(), np.sqrt(TWO.eigenvalues)
    v, k, q = (np.repeat(part[None], runs, axis=0) for part in (start.v, start.k[:, 0], start.q[:, 0]))
    times = np.full((runs, 2), np.nan)
    for step in range(1, round(TWO_END / STEP)):
        X = rng.standard_normal((runs, batch, TWO.context_length, 2), dtype=np.float32) * root.astype(np.float32)
        w, x_q = rng.standard_normal((runs, batch, 2)), rng.standard_normal((runs, batch, 2)) * root
        beta = np.einsum("rpnd,rpn->rpd", X, np.einsum("rpne,rpe->rpn", X, w)) / TWO.context_length
        B = np.einsum("rh,rhi,rhj->rij", v, k, q)
        error = (w * x_q).sum(-1) - np.einsum("rpi,rpi->rp", beta, np.einsum("rij,rpj->rpi", B, x_q))
        G = np.einsum("rpi,rpj->rij", error[..., None] * beta, x_q) / batch
        forward, back = np.einsum("rij,rhj->rhi", G, q), np.einsum("rij,rhi->rhj", G, k)
        change = (k * forward).sum(-1), v[..., None] * forward, v[..., None] * back
        v, k, q = (weight + STEP * moved for weight, moved in zip((v, k, q), change, strict=True))
        times[np.isnan(times) & (np.einsum("rh,rhd,rhd->rd", v, k, q) > goal)] = STEP * step
    return times


def measured_spreads(batch: int, runs: int = TWO_RUNS) -> np.ndarray:
    """Half the width of the middle of each drop's times; a run that never reaches the drop counts as late."""
    times = np.nan_to_num(drop_times(batch, runs), nan=np.inf)
    low, high = np.quantile(times, MIDDLE, axis=0)
    return (high - low) / 2


def derived_spreads(batch: int) -> np.ndarray:
    """The standard deviations of both drops' times (V8-spread)."""
    return np.array([drop.spread for drop in drops_of(two_heads(), batch)])


def aligned_spreads(batch: int) -> np.ndarray:
    """A mistake: the same by the law of aligned heads (V8-noise), which these heads are not."""
    drops = drops_of(two_heads(), batch)
    variance = compiled("V8-noise", (lambda_, T, Lambda, N), part="variance")
    spread = compiled("V8-noise", (h, sequences, lambda_, V, t), part="spread")
    values = TWO.eigenvalues[[drop.direction for drop in drops]]
    forces = [variance(value, TWO.eigenvalues.sum(), TWO.covariance, TWO.context_length) for value in values]
    return np.sqrt([spread(STEP, batch, value, force, drop.time) for value, force, drop in zip(values, forces, drops, strict=True)])


@claim("V8-spread", method="descent", tolerance=NOISE_OF_A_DROP, theory=derived_spreads, slow=True)
@wrong("twice the batch", lambda batch: derived_spreads(2 * batch))
@wrong("aligned heads", aligned_spreads)
def spread_of_both_drops(spreads) -> float:
    """The spread of the times of both drops of two heads from random weights, over 800 runs of SGD in batches of 16."""
    return float(np.abs(measured_spreads(16) / spreads(16) - 1).max())


def derived_variance(pulled: np.ndarray, map_: np.ndarray, length: int = TWO.context_length) -> float:
    """The variance of one sequence's force (V8-force) along a direction, at a map."""
    return float(compile_expression(force_variance(), (Z, B, Lambda, N))(pulled, map_, TWO.covariance, length))


@claim("V8-force", method="Monte Carlo", theory=derived_variance)
@wrong("a context twice as long", lambda pulled, map_: derived_variance(pulled, map_, 2 * TWO.context_length))
@wrong("the noise at B = 0", lambda pulled, map_: derived_variance(pulled, 0 * map_))
@wrong("Z transposed", lambda pulled, map_: derived_variance(pulled.T, map_))
def noise_of_the_force(variance) -> float:
    """The variance of one sequence's force along a direction, at a map that is not a fixed point, over 600,000 sequences."""
    rng, root = draws.generator(83), np.sqrt(TWO.eigenvalues)
    pulled, map_, count = np.array([[0.6, 0.9], [-0.4, 0.5]]), np.array([[0.7, 0.3], [-0.2, 0.9]]), 600_000
    w, x_q, below = rng.standard_normal((count, 2)), rng.standard_normal((count, 2)) * root, rng.standard_normal(count)
    first, second = np.sqrt(rng.chisquare([TWO.context_length, TWO.context_length - 1], (count, 2))).T
    along = first * root[0] * w[:, 0] + below * root[1] * w[:, 1]  # beta from Bartlett's factor of the context's Gram matrix
    beta = np.stack([first * along, below * along + second**2 * root[1] * w[:, 1]], axis=1) * root / TWO.context_length
    error = (w * x_q).sum(1) - ((beta @ map_) * x_q).sum(1)
    pulls = error * ((beta @ pulled) * x_q).sum(1)
    squares = (pulls - pulls.mean()) ** 2
    return float(abs(squares.mean() - variance(pulled, map_)) / (squares.std() / count**0.5))
