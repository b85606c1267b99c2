"""Why a training curve departs from theory: the common mistakes, each with the curve that it gives.

Every suspect predicts the loss curve from the same setting: a loss with a factor 1/2, a sum over the context instead of
the mean, a time axis in other units, steps too large to follow the flow, weights kept in float32, a training set of P
sequences instead of fresh ones, initial weights of another law. The measured curve is compared with each.
"""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float
from scipy.optimize import fminbound

from ...numerics._checks import finite_array, instance, positive_number
from ...numerics.dynamics.flow import gradient_flow
from ...numerics.dynamics.large_weights import LargeWeightsWarning
from ...numerics.dynamics.solver import FlowError
from ...numerics.parametrizations.attention import SeparateWeights
from ...numerics.parametrizations.base import vector_field
from ...numerics.tasks.losses import QuadraticLoss, TwoSided
from ..training.sequences import draw_sequences
from .setting import DEFAULT, Setting
from .staircase import descended, followed, sgd_noise, trained_loss, training

Curve = Float[np.ndarray, " T"]
WINDOW = 40.0  # time scales and initial scales are searched within this factor
ROUNDED = 1e-2  # the most that rounding may explain, in units of the initial loss
FAR = 1e6  # stands for the loss of a run that diverged
SETS = 4  # training sets drawn to measure their spread
AGREES, FINITE = "agrees with theory", "finite P"
CLEARER = 0.5  # a cause explains a curve only if its own lies at most this share of theory's distance away
FACTOR = 1.5  # mini-batches and steps may scale times by less, as initial weights scaled by its inverse do, or value weights by its square


@dataclass(frozen=True)
class Suspect:
    """A cause, the root mean square distance of its curve from the measured one, and the largest distance that fits.

    Both are in units of the initial loss. ``detail`` is the finding, such as the fitted factor.
    """

    cause: str
    residual: float
    allowed: float
    detail: str = ""

    @property
    def fits(self) -> bool:
        return self.residual <= self.allowed

    @property
    def badness(self) -> float:
        """The distance over the largest that fits."""
        return self.residual / max(self.allowed, 1e-300)


@dataclass(frozen=True)
class Diagnosis:
    """All suspects, the best first; possibly none fits."""

    suspects: tuple[Suspect, ...]

    @property
    def causes(self) -> tuple[str, ...]:
        """The suspects that fit about as well as the best that does."""
        best = self.suspects[0]
        near = (s for s in self.suspects if s.fits and s.badness <= 10 * best.badness)
        return (AGREES,) if best.fits and best.cause == AGREES else tuple(dict.fromkeys(s.cause for s in near))

    @property
    def cause(self) -> str | None:
        """The best suspect that fits, unless others fit about as well."""
        return self.causes[0] if len(self.causes) == 1 else None

    def __str__(self) -> str:
        verdict = f"cause: {' or '.join(self.causes)}" if self.causes else "no suspect fits"
        lines = [
            f"{s.cause}: {s.residual:.1e} of the initial loss away, up to {s.allowed:.1e} would fit"
            + (f" ({s.detail})" if s.detail else "")
            for s in self.suspects
        ]
        return "\n".join([verdict, *lines])


def diagnose(times: Curve, loss: Curve, setting: Setting, *, noise: float = 5e-3) -> Diagnosis:
    """Rank what may have gone wrong in a run that was meant to be ``setting``.

    ``times`` are t/tau as the run's author counts them and ``loss`` the losses there; ``noise`` is how far a correct curve may
    lie from theory, in units of the initial loss. Takes some seconds: each suspect is integrated, three are fitted.

    Raises ``ValueError`` for curves that are not two increasing lists of one length.
    """
    noise, setting = positive_number("noise", noise), instance("setting", setting, Setting)
    t, y = finite_array("times", times), np.asarray(loss, dtype=float)
    if t.ndim != 1 or t.shape != y.shape or len(t) < 2 or not (np.diff(t) > 0).all() or t[0] < 0:
        raise ValueError(f"times and loss must be two lists of one length, times increasing, got {t.shape} and {y.shape}")
    good = np.isfinite(y)
    measured = _Measured(t[good], y[good], setting, noise)
    found = list(measured.suspects())
    if not good.all() or y[good].max() > 10 * measured.unit:
        found.append(Suspect("steps too large", 0.0, noise, "the loss grows beyond its initial value"))
    far = CLEARER * found[0].residual
    found = [one if one.cause in (AGREES, FINITE) else replace(one, allowed=min(one.allowed, far)) for one in found]
    if any(one.fits for one in found if one.cause != FINITE):
        found = [replace(one, allowed=0.0) if one.cause == FINITE else one for one in found]
    return Diagnosis(tuple(sorted(found, key=lambda s: (not s.fits, s.cause != AGREES, s.badness))))


@dataclass(frozen=True)
class _Measured:
    """A measured curve, and the suspects' curves at its times."""

    t: Curve
    y: Curve
    setting: Setting
    noise: float

    @property
    def unit(self) -> float:
        """The initial loss, by theory."""
        return QuadraticLoss.population(self.setting.task).c

    @property
    def steps(self) -> int:
        """The number of training steps until the last time."""
        return max(1, replace(self.setting, duration=float(self.t[-1])).steps)

    def distance(self, curve: Curve) -> float:
        return float(np.sqrt(np.mean((curve - self.y) ** 2)) / self.unit)

    def suspects(self) -> Iterator[Suspect]:
        """All suspects; of two that fit equally well, the first is named."""
        w, population = self.setting.weights, QuadraticLoss.population(self.setting.task)
        theory = followed(population, w, self.setting, t_end=WINDOW * self.t[-1])  # for the fits of a time scale
        slower = followed(population, w, self.setting, t_end=self.t[-1] / 2, pace=0.5)

        def simple(cause: str, curve: Curve, detail: str = "") -> Suspect:
            return Suspect(cause, self.distance(curve), self.noise, detail)

        yield simple(AGREES, np.asarray(theory.loss_at(self.t)))
        yield simple("factor 1/2 in the loss", 0.5 * np.asarray(slower.loss_at(self.t / 2)), "half the loss, half the speed")
        yield simple("factor 1/2 in what is recorded", 0.5 * np.asarray(theory.loss_at(self.t)), "half the loss")
        if self.setting.context_lengths is None:  # with random lengths the sum is not a multiple of the mean
            summed = followed(_summed(population, self.setting.context_length), w, self.setting, t_end=self.t[-1])
            yield simple("sum over the context", np.asarray(summed.loss_at(self.t)), "instead of the mean: N times B")
        yield from self._steps(population, w)
        yield from self._finite_sets(w)
        yield self._fit("time scale", "t multiplied by", lambda c: np.asarray(theory.loss_at(c * self.t)))
        for cause, law in INITIAL_LAWS.items():
            least = FACTOR if cause == "initial scale" else FACTOR**2
            yield self._fit(cause, "multiplied by", self._curves_from(population, lambda c, law=law: law(w, c)), least)

    def _steps(self, population: QuadraticLoss, w: SeparateWeights) -> Iterator[Suspect]:
        """Steps of the setting's size, with weights in float64 and float32."""
        eta = self.setting.learning_rate
        try:
            descent = descended(population, w, self.setting, steps=self.steps)
        except FlowError as problem:
            yield Suspect("steps too large", np.inf, self.noise, f"descent diverges at t/tau = {problem.time:.3g}")
            return
        exact = np.interp(self.t, descent.times, descent.loss)
        yield Suspect("steps too large", self.distance(exact), self.noise, f"descent by steps of {eta:g}")
        rounded = np.interp(self.t, *_single_precision(population, w, self.setting, self.steps))
        spread = float(np.sqrt(np.mean((rounded - exact) ** 2)) / self.unit)
        detail = f"rounding moves descent by {spread:.1e}"
        rounding = 3 * max(spread, float(np.finfo(np.float32).eps))  # sums in another order round differently
        yield Suspect("float32", self.distance(rounded), min(rounding, max(self.noise, ROUNDED)), detail)

    def _finite_sets(self, w: SeparateWeights) -> Iterator[Suspect]:
        """Training on P fixed sequences: the loss on them, and over all sequences.

        Curves of two sets differ so much that many others would fit: sets are named if nothing else fits. Only a loss on the set can
        start elsewhere or end below the least over all sequences; only a loss over all can stay above it after the flow's end.
        """
        P, population = self.setting.batch_size, QuadraticLoss.population(self.setting.task)
        on_set, over_all = [], []
        for seed in range(SETS):
            loss = sample_loss(self.setting, P, seed)
            run = followed(loss, w, self.setting, t_end=self.t[-1])
            maps = run.effective_map_at(self.t)
            on_set.append([loss.value(B) for B in maps])
            over_all.append([population.value(B) for B in maps])
        least = population.value(self.setting.task.modes.effective_map(range(self.setting.task.dimension)))
        flow_end = float(followed(population, w, self.setting, t_end=self.t[-1]).loss[-1])
        off, allowed = (np.array([self.y[0] - self.unit, least - self.y[-1]]), self.noise * self.unit)
        marks = (np.abs(off[0]) > allowed or off[1] > allowed, -off[1] > allowed and flow_end - least < allowed / 2)
        for what, curves, mark in zip(("their own loss", "the loss over all sequences"), (on_set, over_all), marks, strict=True):
            mean = np.mean(curves, axis=0)
            spread = max(self.noise, 2 * max(float(np.sqrt(np.mean((c - mean) ** 2)) / self.unit) for c in curves))
            yield Suspect(FINITE, self.distance(mean), spread if mark else 0.0, f"{P} fixed sequences, {what}")

    def _by_steps(self, population: QuadraticLoss, w: SeparateWeights) -> Curve:
        try:
            run = descended(population, w, self.setting, steps=self.steps)
        except FlowError:
            return np.full_like(self.t, FAR)
        return np.interp(self.t, run.times, run.loss)

    def _curves_from(self, population: QuadraticLoss, start: Callable[[float], SeparateWeights]) -> Callable[[float], Curve]:
        def curve(c: float) -> Curve:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", LargeWeightsWarning)  # a guess that is too large shows in its distance
                if self.setting.momentum:  # from large weights, the flow with mass oscillates too fast to integrate
                    return self._by_steps(population, start(c))
                return np.asarray(gradient_flow(population, start(c), t_end=self.t[-1], rtol=1e-6).loss_at(self.t))

        return curve

    def _fit(self, cause: str, words: str, curve: Callable[[float], Curve], least: float = FACTOR) -> Suspect:
        """The factor whose curve lies nearest: the best on a grid, refined between its neighbours."""

        def distance(log_factor: float) -> float:
            return self.distance(curve(float(np.exp(log_factor))))

        grid = np.linspace(-np.log(WINDOW), np.log(WINDOW), 25)
        best = int(np.argmin([distance(x) for x in grid]))
        low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
        nearest = float(np.asarray(fminbound(distance, low, high, xtol=1e-3)))
        allowed = self.noise if abs(nearest) > np.log(least) else 0.0
        return Suspect(cause, distance(nearest), allowed, f"{words} {np.exp(nearest):.3g}")


INITIAL_LAWS: dict[str, Callable[[SeparateWeights, float], SeparateWeights]] = {
    "initial scale": lambda w, c: SeparateWeights(c * w.v, c * w.k, c * w.q),
    "initial law of the value weights": lambda w, c: SeparateWeights(c * w.v, w.k, w.q),
}


def _summed(loss: QuadraticLoss, N: int) -> QuadraticLoss:
    """The loss of predictions N times as large."""
    C = loss.C
    if not isinstance(C, TwoSided):
        raise TypeError(f"loss must be the population's, got {loss!r}")
    return replace(loss, A=N * loss.A, C=replace(C, M=N**2 * C.M))


def sample_loss(setting: Setting, count: int, seed: int) -> QuadraticLoss:
    """The loss on a fixed set of ``count`` sequences."""
    X, y = draw_sequences(setting.task, count, torch.Generator().manual_seed(seed))
    X, y = X.numpy(), y.numpy()
    beta = np.einsum("pin,pn->pi", X[:, :-1, :-1], X[:, -1, :-1]) / (X.shape[-1] - 1)
    phi = np.einsum("pi,pj->pij", beta, X[:, :-1, -1])
    flat = phi.reshape(count, -1)
    second = flat.T @ flat / count
    return QuadraticLoss.from_moments((second + second.T) / 2, np.einsum("p,pij->ij", y, phi) / count, float(np.mean(y**2)))


def _single_precision(loss: QuadraticLoss, w: SeparateWeights, setting: Setting, steps: int) -> tuple[Curve, Curve]:
    """Descent whose weights and updates are rounded to float32 at every step."""
    eta, mu = setting.learning_rate, np.float32(setting.momentum)
    velocity, state = vector_field(loss, w), w.flatten().astype(np.float32)
    moved = np.zeros_like(state)
    kept = np.unique(np.linspace(0, steps, min(steps, 2000) + 1).astype(int))
    values, done = [], 0
    for step in kept:
        for _ in range(step - done):
            moved = mu * moved + (2 * eta * velocity(0.0, state.astype(float))).astype(np.float32)
            state = state + moved
        done = step
        values.append(np.float32(loss.value(w.unflatten(state.astype(float)).effective_map())))
    return 2 * eta / (1 - setting.momentum) * kept, np.array(values, dtype=float)


def suspicion(setting: Setting = DEFAULT) -> Diagnosis:
    """The diagnosis of the setting's training run, which explains a loss that is not the flow's."""
    return diagnose(training(setting).times, trained_loss(setting), setting, noise=sgd_noise(setting))
