"""Trajectories of gradient flow and descent: weights over time, also between the recorded times."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from types import MappingProxyType
from typing import Any, overload

import numpy as np
from jaxtyping import Float
from scipy.optimize import brentq

from .._checks import finite_array, instance
from ..parametrizations.base import Parametrization
from ..tasks.losses import QuadraticLoss
from .plateaus import find_plateaus
from .results import Result, Variable, time_variable

# Axes of the weights after time, by the letters of the parametrizations; D + 1 counts the label as a component.
AXES = {"H": "head", "R": "rank", "D": "component", "D+1": "token_component", "D*D": "feature"}


@dataclass(frozen=True)
class Statistics:
    """The cost of an integration; ``stopped`` says why it ended, ``restarts`` counts restarts of the solver's clock."""

    method: str
    steps: int
    evaluations: int
    jacobians: int
    restarts: int
    seconds: float
    stopped: str


class Path(Result):
    """Flat states over time: ``states`` at ``times``, in between ``interpolant``, a function of t/tau."""

    times: Float[np.ndarray, " T"]
    states: Float[np.ndarray, "T P"]
    tau: float
    interpolant: Callable[[Float[np.ndarray, " n"]], Float[np.ndarray, "n P"]]
    statistics: Statistics
    shown = ("times", "loss", "arrays", "statistics")

    @property
    def arrays(self) -> Mapping[Any, np.ndarray]:
        """The weights by name, with time as their first axis."""
        raise NotImplementedError

    @property
    def loss(self) -> Float[np.ndarray, " T"]:
        raise NotImplementedError

    def axes_of(self, name: Any) -> Iterable[str]:
        """Names of the axes of a weight after time."""
        return (f"{name}_{i}" for i in range(1, self.arrays[name].ndim))

    def variables(self) -> dict[str, Variable]:
        weights = {
            str(name): Variable(("time", *self.axes_of(name)), array, f"weights {name}", "weights") for name, array in self.arrays.items()
        }
        return {"time": time_variable(self.times, self.tau), "loss": Variable(("time",), self.loss, "loss L", "loss"), **weights}

    def attributes(self) -> dict[str, object]:
        return {"tau": float(self.tau), **asdict(self.statistics)}

    def levels_shown(self) -> Iterable[float]:
        return find_plateaus(self).levels

    def inside(self, t: object) -> Float[np.ndarray, "*n"]:
        """``t`` as an array; ``ValueError`` for a time outside the run."""
        times, end = finite_array("t", t), float(self.times[-1])
        inside = (times >= 0) & (times <= end)
        if not inside.all():
            outside = float(times[~inside][0])
            raise ValueError(f"t must lie between 0 and the end of the run, {end!r}, got {outside!r}")
        return times

    def states_at(self, t: object) -> Float[np.ndarray, "*n P"]:
        """Flat weights at the time or times ``t``; ``ValueError`` for a time outside the run."""
        times = self.inside(t)
        flat = times.ravel()
        states = self.interpolant(flat / self.tau)
        nearest = np.searchsorted(self.times, flat)
        recorded = self.times[nearest] == flat  # an interpolant meets its own ends only to within the tolerance
        states[recorded] = self.states[nearest[recorded]]
        return states.reshape(*times.shape, self.states.shape[1])


@dataclass(frozen=True, eq=False, repr=False)
class Trajectory(Path):
    """Weights W(t) of one run, from ``times[0]`` = 0 to ``times[-1]``, in the time units of ``tau``.

    ``states`` holds the flat weights at ``times``, the solver's own steps. ``at(t)`` gives the weights at any time, between
    steps by the solver's interpolant for gradient flow, by a straight line for gradient descent.
    """

    times: Float[np.ndarray, " T"]
    states: Float[np.ndarray, "T P"]
    objective: QuadraticLoss
    initial: Parametrization
    tau: float
    statistics: Statistics
    interpolant: Callable[[Float[np.ndarray, " n"]], Float[np.ndarray, "n P"]]

    def __getstate__(self) -> dict[str, object]:
        return {entry.name: getattr(self, entry.name) for entry in fields(self)}  # without cached properties

    @cached_property
    def weights(self) -> tuple[Parametrization, ...]:
        """The weights at each of ``times``."""
        return tuple(self.initial.unflatten(state) for state in self.states)

    @cached_property
    def arrays(self) -> Mapping[str, np.ndarray]:
        """The weights by name, with time as their first axis: ``trajectory.arrays["v"]`` has shape (T, H)."""
        return MappingProxyType(dict(zip(self.initial.shape_letters, self.initial.split(self.states), strict=True)))

    @cached_property
    def effective_maps(self) -> Float[np.ndarray, "T *shape"]:
        return self._maps(self.states)

    @cached_property
    def loss(self) -> Float[np.ndarray, " T"]:
        return self.objective.values(self.effective_maps)

    @cached_property
    def conserved(self) -> Mapping[str, np.ndarray]:
        """The quantities that the flow of any loss conserves, equations (17), (79), (85), at each of ``times``."""
        rows = [weights.conserved() for weights in self.weights]
        return MappingProxyType({name: np.stack([row[name] for row in rows]) for name in rows[0]})

    @cached_property
    def conservation_drift(self) -> Mapping[str, float]:
        """The largest change of each conserved quantity from its initial value, in any entry at any recorded time."""
        return MappingProxyType({name: float(np.abs(q - q[0]).max()) for name, q in self.conserved.items()})

    def axes_of(self, name: str) -> list[str]:
        """Names of the axes of a weight after time; a second axis of the same kind, as of U (D x D), is component_2."""
        names: list[str] = []
        for axis in (AXES.get(letter, letter) for letter in self.initial.shape_letters[name]):
            names.append(f"{axis}_2" if axis in names else axis)
        return names

    def variables(self) -> dict[str, Variable]:
        axes = ("time", *(f"map_{i}" for i in range(1, self.effective_maps.ndim)))
        return {**super().variables(), "effective_map": Variable(axes, self.effective_maps, "effective map B", "map")}

    def attributes(self) -> dict[str, object]:
        return {"parametrization": type(self.initial).__name__, **super().attributes()}

    def at(self, t: object) -> Parametrization | tuple[Parametrization, ...]:
        """The weights at time ``t``: one parametrization for a number, a tuple of them for a sequence of times."""
        states = self.states_at(t)
        if states.ndim == 1:
            return self.initial.unflatten(states)
        return tuple(self.initial.unflatten(state) for state in states.reshape(-1, self.initial.size))

    def effective_map_at(self, t: object) -> Float[np.ndarray, "*n_shape"]:
        return self._maps(self.states_at(t))

    def loss_at(self, t: object) -> float | Float[np.ndarray, " *n"]:
        """The loss at time ``t``: a float for a number, an array for an array of times."""
        states = self.states_at(t)
        losses = self.objective.values(self._maps(states))
        return float(losses) if states.ndim == 1 else losses

    def first_time(self, value: Callable[[np.ndarray], float], level: float) -> float | None:
        """The first time at which ``value`` of the effective map passes ``level``, up or down; None if it never does."""
        value, level = instance("value", value, Callable, "a function of the map"), float(finite_array("level", level, ()))
        along = self.loss if value == self.objective.value else np.array([value(B) for B in self.effective_maps])
        above = along > level
        passed = np.flatnonzero(above != above[0])
        if not passed.size:
            return None
        before, after = self.times[passed[0] - 1 : passed[0] + 1]
        time: Any = brentq(lambda t: float(value(self.effective_map_at(t))) - level, before, after)
        return float(time)

    def _maps(self, states: Float[np.ndarray, "*n P"]) -> Float[np.ndarray, "*n_shape"]:
        rows = states.reshape(-1, self.initial.size)
        maps = type(self.initial).combine_many(*self.initial.split(rows)) if len(rows) else np.empty((0, *self.objective.A.shape))
        return maps.reshape(*states.shape[:-1], *maps.shape[1:])


@dataclass(frozen=True, eq=False)
class Trajectories(Sequence[Trajectory]):
    """Runs of one length and parametrization: a sequence of trajectories, with states, maps and losses at common times in one array."""

    runs: tuple[Trajectory, ...]

    @overload
    def __getitem__(self, index: int) -> Trajectory: ...
    @overload
    def __getitem__(self, index: slice) -> "Trajectories": ...
    def __getitem__(self, index: int | slice) -> "Trajectory | Trajectories":
        return Trajectories(self.runs[index]) if isinstance(index, slice) else self.runs[index]

    def __len__(self) -> int:
        return len(self.runs)

    def states_at(self, t: object) -> Float[np.ndarray, "N *n P"]:
        """Flat weights of all runs at the time or times ``t``; ``ValueError`` for a time outside a run."""
        return np.stack([run.states_at(t) for run in self.runs])

    def effective_map_at(self, t: object) -> Float[np.ndarray, "N *n_shape"]:
        return self.runs[0]._maps(self.states_at(t))

    def loss_at(self, t: object) -> Float[np.ndarray, "N *n"]:
        return np.stack([run.objective.values(maps) for run, maps in zip(self.runs, self.effective_map_at(t), strict=True)])

    def losses_of(self, runs: Float[np.ndarray, " n"], t: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """The loss of each of ``runs``, numbers from 0 in increasing order, at its own time."""
        if not len(runs):
            return np.empty(0)
        parts, counts = np.unique(runs, return_counts=True)
        ends = np.cumsum(counts)[:-1]
        own = zip((self.runs[i] for i in parts), np.split(t, ends), strict=True)
        maps = self.runs[0]._maps(np.concatenate([run.interpolant(at / run.tau) for run, at in own]))
        if all(run.objective is self.runs[0].objective for run in self.runs):
            return self.runs[0].objective.values(maps)
        return np.concatenate([self.runs[i].objective.values(own) for i, own in zip(parts, np.split(maps, ends), strict=True)])
