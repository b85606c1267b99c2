"""Claims about mini-batches (V8-noise): how they move and spread the time of a drop, in one dimension and in the whole model."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from scipy.optimize import brentq

from ..numerics.compile import compile_expression
from ..numerics.flow import gradient_flow
from ..numerics.losses import QuadraticLoss
from ..numerics.tasks import RegressionTask
from ..numerics.weights import SeparateWeights
from ..theory.discrete import P, V, h, t, v, v_0
from ..theory.equations import equation
from ..theory.notation import Lambda, N, lambda_
from ..theory.spectral import T
from .claims import claim
from .tolerances import NOISE_OF_A_DROP, NOISE_OF_TIMES, SAMPLING

# One dimension, where v = k = q stay equal: every step draws fresh sequences for every run

ONE = RegressionTask(eigenvalues=[1.0], context_length=8)
STEP, START, LEVEL, RUNS = 0.05, 0.1, 0.3, 4000
BATCHES = (16, 32, 64)


@cache
def times_to_level(batch: int) -> np.ndarray:
    """When v reaches LEVEL in each of RUNS independent runs of SGD, linear between steps."""
    rng = np.random.default_rng((80, batch))
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


_NOISE = equation("V8-noise").statement
_ARGUMENTS = (h, P, lambda_, v_0, v, V, t)


def derived_times(change: Callable[[dict], dict] = lambda parts: parts) -> Callable[[int, float], tuple[Any, Any]]:
    """The mean delay and the standard deviation of the time to LEVEL, for a batch size and the time without noise."""
    parts = change(dict(_NOISE))
    variance = compile_expression(parts["variance"], (lambda_, T, Lambda, N))(1.0, 1.0, np.eye(1), 8)
    delay, spread = (compile_expression(parts[name], _ARGUMENTS) for name in ("delay", "spread"))

    def value(batch: int, time: float) -> tuple[Any, Any]:
        at = (STEP, batch, 1.0, START, LEVEL, variance, time)
        return delay(*at), np.sqrt(spread(*at))

    return value


def exact_time() -> float:
    """Gradient flow from START to LEVEL."""
    a = ONE.second_moment_eigenvalues[0]
    v = np.linspace(1 / LEVEL, 1 / START, 20_001)  # dt = d(1/v) / (lambda^2 - lambda a v^3), up to the sign
    values = 1 / (1 - a / v**3)
    return float(np.trapezoid(values, v))


@claim(
    "V8-noise",
    "the standard deviation over 4,000 runs of the time in which a head grows threefold, in batches of 16 to 64",
    method="descent",
    tolerance=NOISE_OF_TIMES,
    theory=derived_times(),
    wrong={
        "noise of an infinite context": derived_times(
            lambda parts: parts | {"variance": parts["variance"].subs(N, 10**9)}
        ),
        "twice the batch": derived_times(lambda parts: parts | {"spread": parts["spread"].subs(P, 2 * P)}),
    },
    slow=True,
)
def spread_of_times(noise) -> float:
    time = exact_time()
    return max(abs(times_to_level(batch).std() / noise(batch, time)[1] - 1) for batch in BATCHES)


@claim(
    "V8-noise",
    "the mean delay of these times, which small batches enlarge: in standard errors beside a tenth of the delay",
    method="descent",
    tolerance=SAMPLING,
    theory=derived_times(),
    wrong={
        "noise left out": derived_times(lambda parts: parts | {"delay": parts["delay"].subs(P, 10**9)}),
        "noise four times": derived_times(lambda parts: parts | {"delay": parts["delay"].subs(P, P / 4)}),
    },
    slow=True,
)
def delay_by_noise(noise) -> float:
    time, scores = exact_time(), []
    for batch in BATCHES:
        times, delay = times_to_level(batch), float(noise(batch, time)[0])
        error = np.hypot(times.std() / RUNS**0.5, 0.1 * delay / 4.5)
        scores.append(abs(times.mean() - time - delay) / error)
    return float(max(scores))


# The same law in the whole model: two heads from random weights, two directions, no alignment assumed

TWO = RegressionTask(eigenvalues=[1.0, 0.5], context_length=8)
TWO_RUNS, TWO_BATCHES = 128, (16, 32)


def two_heads() -> SeparateWeights:
    return SeparateWeights.initialize(TWO, heads=2, rank=1, scale=0.15, rng=np.random.default_rng(2))


@cache
def first_drop() -> float:
    """When gradient flow learns half of the first direction."""
    flow = gradient_flow(QuadraticLoss.population(TWO), two_heads(), t_end=60.0)
    goal = TWO.eigenvalues[0] / TWO.second_moment_eigenvalues[0] / 2
    return float(brentq(lambda t: flow.effective_map_at(t)[0, 0] - goal, 1.0, 40.0))  # type: ignore[arg-type]


@cache
def first_drops(batch: int) -> np.ndarray:
    """The same in each of TWO_RUNS independent runs of SGD, each step of every run on fresh sequences."""
    rng, goal = np.random.default_rng((81, batch)), TWO.eigenvalues[0] / TWO.second_moment_eigenvalues[0] / 2
    start, root = two_heads(), np.sqrt(TWO.eigenvalues)
    v, k, q = (np.repeat(part[None], TWO_RUNS, axis=0) for part in (start.v, start.k[:, 0], start.q[:, 0]))
    times = np.full(TWO_RUNS, np.nan)
    for step in range(1, round(2 * first_drop() / STEP)):
        X = rng.standard_normal((TWO_RUNS, batch, TWO.context_length, 2)) * root
        w, x_q = rng.standard_normal((TWO_RUNS, batch, 2)), rng.standard_normal((TWO_RUNS, batch, 2)) * root
        beta = np.einsum("rpnd,rpne,rpe->rpd", X, X, w, optimize=True) / TWO.context_length
        B = np.einsum("rh,rhi,rhj->rij", v, k, q)
        error = (w * x_q).sum(-1) - np.einsum("rpi,rij,rpj->rp", beta, B, x_q, optimize=True)
        G = np.einsum("rp,rpi,rpj->rij", error, beta, x_q, optimize=True) / batch
        forward, back = np.einsum("rij,rhj->rhi", G, q), np.einsum("rij,rhi->rhj", G, k)
        change = (k * forward).sum(-1), v[..., None] * forward, v[..., None] * back
        v, k, q = (weight + STEP * moved for weight, moved in zip((v, k, q), change, strict=True))
        times[np.isnan(times) & (np.einsum("rh,rh,rh->r", v, k[..., 0], q[..., 0]) > goal)] = STEP * step
    return times


def _spread(eigenvalue: float, change: dict) -> Callable[[int], float]:
    """The standard deviation of the first drop's time (V8-noise), by the variance along an eigenvector of one eigenvalue."""
    trace, moments = float(TWO.eigenvalues.sum()), TWO.covariance
    variance = compile_expression(_NOISE["variance"], (lambda_, T, Lambda, N))(
        eigenvalue, trace, moments, TWO.context_length
    )
    spread = compile_expression(_NOISE["spread"].subs(change), (h, P, lambda_, V, t))
    return lambda batch: float(np.sqrt(spread(STEP, batch, eigenvalue, variance, first_drop())))


@claim(
    "V8-noise",
    "the standard deviation of the first drop's time of two heads from random weights, trained in batches of 16 and 32",
    method="descent",
    tolerance=NOISE_OF_A_DROP,
    theory=_spread(1.0, {}),
    wrong={"twice the batch": _spread(1.0, {P: 2 * P}), "the other direction's": _spread(0.5, {})},
    slow=True,
)
def spread_of_the_first_drop(spread) -> float:
    return max(abs(first_drops(batch).std() / spread(batch) - 1) for batch in TWO_BATCHES)
