"""Replay of recorded full-batch training, step for step, from its data and initial weights.

A recorded run is an ``.npz`` file of the paper's official code: ``data.x`` (P, L, D+1) and ``data.y`` (P, L, D+1) in
float32, the weights before the first step, the mean squared error before each step, the settings as text and the
seconds that the training loop took. Linear attention needs the data only through its moments
(:class:`~iclflow.numerics.tasks.sample_moments.SampleMoments`), so a step costs the same for a thousand sequences as for
a billion.

A replay agrees with its recording up to the edge of stability. While the step times the largest Hessian eigenvalue stays
below 2, gradient descent contracts rounding errors in every stiff direction, and float32 and float64 agree. Past it such
errors grow from step to step, and two correct runs separate. The replay finds the first such step by two proofs that do
not use the recorded curve: a Rayleigh quotient of the Hessian above 2/eta (tested every 64 steps, then step by step
before the first hit), and a loss that rises, since L(W - eta g) = L(W) - eta |g|^2 + eta^2/2 g'Hg with H between the two
points. It then runs a twin whose weights are rounded to float32 after each step, as the recorded ones were, and reports
the step at which the twin parts from the replay.
"""

import time
from dataclasses import dataclass, fields
from os import PathLike
from pathlib import Path

import numpy as np
from jaxtyping import Float

from ..dynamics.results import Result, Variable
from .ensemble import BLOCK, Ensemble, Weights
from .recording import Recording, Run

AGREEMENT = 5e-5  # relative difference; float32 rounding in the official runs comes to 1.4e-5 at most
_RISE = 1e-9  # relative rise of the loss taken as real: far above float64 rounding, far below any spike


@dataclass(frozen=True, eq=False, repr=False)
class Replayed(Result):
    """The losses before each step (loss, loss_iwl, loss_icl) of a run trained from its moments.

    ``unstable_step`` is the first step past the edge of stability, None for a run that is stable throughout. ``seconds`` counts
    moments, descent, losses and stability checks.
    """

    losses: dict[str, Float[np.ndarray, " steps"]]
    step_times_sharpness: float
    unstable_step: int | None
    seconds: float
    shown = ("losses", "unstable_step", "seconds")

    def variables(self) -> dict[str, Variable]:
        losses = {name: Variable(("time",), loss, "mean squared error", "loss") for name, loss in self.losses.items()}
        return {"time": Variable(("time",), np.arange(len(self.losses["loss"])), "step"), **losses}


def play(run: Run) -> Replayed:
    """Full-batch descent of a run of linear attention or of the mlp, in float64.

    Raises ``ValueError`` for softmax attention, which is not linear in moments of the data, and ``FloatingPointError`` if the
    run overflows.
    """
    if not run.arguments.replayable:
        raise run.fault("args", "softmax attention is not linear in moments of the data: it cannot be replayed from them")
    began = time.perf_counter()
    sets = {"loss": run.training, **{f"loss_{test}": run.moments(f"_{test}") for test in run.tests}}
    ensemble = Ensemble([sets["loss"]])
    curves: dict[str, list[np.ndarray]] = {name: [] for name in sets}
    snapshots: list[Weights] = []
    try:
        for maps, before in ensemble.descend(run.weights, run.learning_rate, run.steps):
            snapshots.append(before)
            for name, moments in sets.items():
                curves[name].append(ensemble.losses(maps, [moments])[:, 0, 0])
    except FloatingPointError as error:
        raise FloatingPointError(f"{run.name}: {error}") from error
    losses = {name: np.concatenate(curve) for name, curve in curves.items()}
    unstable, sharpness = first_unstable_step(ensemble, snapshots, losses["loss"], run.learning_rate)
    return Replayed(losses, sharpness, unstable, time.perf_counter() - began)


@dataclass(frozen=True, eq=False, repr=False)
class ReplayResult(Replayed):
    """A replay beside its recording; ``losses`` and ``errors`` have the file's keys: loss, loss_iwl, loss_icl.

    ``parted_step`` is the first step at which a float32 twin differs by more than ``AGREEMENT``, None for a run that is stable
    throughout. ``speedup`` is None if the recording does not say how long it took.
    """

    path: str
    steps: int
    speedup: float | None
    max_relative_error: float
    max_relative_error_while_stable: float
    parted_step: int | None
    errors: dict[str, float]

    @property
    def agrees(self) -> bool:
        """Whether every loss before the edge of stability is within ``AGREEMENT`` of the recorded one."""
        return self.max_relative_error_while_stable <= AGREEMENT

    def report(self) -> dict[str, object]:
        """Everything but the curves, ready for JSON."""
        kept = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in ("losses", "path")}
        return {"file": self.path, "agrees": self.agrees} | kept

    def summary(self) -> str:
        faster = "" if self.speedup is None else f", {self.speedup:.0f} times faster than recorded"
        lines = [
            f"{self.path}: {self.steps} steps in {self.seconds:.3f} s{faster}; "
            f"largest relative difference of the loss {self.max_relative_error:.2e}"
        ]
        if self.unstable_step is not None:
            parted = "stays together with it" if self.parted_step is None else f"parts from it at step {self.parted_step}"
            lines.append(
                f"past the edge of stability from step {self.unstable_step} (step times largest Hessian eigenvalue "
                f"reaches {self.step_times_sharpness:.3g}, the limit is 2): rounding grows there, a float32 twin "
                f"{parted}; up to step {self.unstable_step} the difference is "
                f"{self.max_relative_error_while_stable:.2e}"
            )
        return "\n".join(lines)


def replay(path: str | PathLike[str] | Recording) -> ReplayResult:
    """Replay the recorded run in ``path``, or one that has been read, in float64.

    Raises ``FileNotFoundError`` for a missing file; ``ValueError``, naming file and key, for a file that is damaged,
    lacks a key, has shapes other than its settings say or numbers that are not finite, and for softmax attention;
    ``FloatingPointError`` if the replayed run overflows.
    """
    file = path if isinstance(path, Recording) else Recording(Path(path))
    played = play(file)
    unstable = played.unstable_step
    difference = {name: np.abs(loss / file.arrays[name] - 1) for name, loss in played.losses.items()}
    return ReplayResult(
        **vars(played),
        path=file.name,
        steps=file.steps,
        speedup=None if file.seconds is None else file.seconds / played.seconds,
        max_relative_error=max(float(d.max()) for d in difference.values()),
        max_relative_error_while_stable=max(float(d[: None if unstable is None else unstable + 1].max()) for d in difference.values()),
        parted_step=None if unstable is None else _parted_step(file, played.losses["loss"]),
        errors={name: float(d.max()) for name, d in difference.items()},
    )


def first_unstable_step(
    ensemble: Ensemble, snapshots: list[Weights], loss: Float[np.ndarray, " steps"], learning_rate: float
) -> tuple[int | None, float]:
    """The first step of one run past the edge of stability, and the largest step times Hessian eigenvalue seen.

    ``snapshots`` are the weights before every ``BLOCK``-th step, ``loss`` the loss before every step.
    """
    joined = tuple(np.concatenate(arrays, axis=1) for arrays in zip(*snapshots, strict=True))
    product = learning_rate * ensemble.sharpness(joined)[0]
    largest = float(product.max())
    found = []
    rises = np.flatnonzero(loss[1:] > loss[:-1] * (1 + _RISE))
    if rises.size:
        found.append(int(rises[0]))
    above = np.flatnonzero(product > 2)
    if above.size:
        block = max(int(above[0]) - 1, 0)
        each = [before for _, before in ensemble.descend(snapshots[block], learning_rate, BLOCK + 1, block=1)]
        fine = learning_rate * ensemble.sharpness(tuple(np.concatenate(a, axis=1) for a in zip(*each, strict=True)))[0]
        found.append(block * BLOCK + int(np.argmax(fine > 2)))
    return (min(found) if found else None), largest


def _parted_step(file: Recording, loss: Float[np.ndarray, " steps"]) -> int | None:
    ensemble, start = Ensemble([file.training]), 0
    try:
        for maps, _ in ensemble.descend(file.weights, file.learning_rate, file.steps, float32_runs=slice(None)):
            twin = ensemble.losses(maps)[:, 0, 0]
            apart = np.abs(twin / loss[start : start + len(twin)] - 1) > AGREEMENT
            if apart.any():
                return start + int(np.argmax(apart))
            start += len(twin)
    except FloatingPointError:
        return start
    return None
