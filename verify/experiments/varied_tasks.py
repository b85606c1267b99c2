"""The variations of the task that claims and figures share, with their runs: flow, and training on fresh sequences.

Small problems, so that each is trained in seconds: two or three directions, a short context.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from ...numerics import QuadraticLoss, RegressionTask, SeparateWeights, Trajectory, gradient_flow, order_of_learning
from ...numerics.dynamics.plateaus import Plateaus, find_plateaus
from ...numerics.tasks.token_laws import RademacherTokens, SphereTokens, StudentTokens
from ..training.descent import TrainingRun, fresh_batches, train
from ..training.modules import ReducedSeparate
from . import draws
from .draws import remembered

STARTS = 5  # trained together, on the same batches
SELECTED = "Starts: the first drawn with seed 0 from which the flow shows all plateaus, each for a fifth of its even share or longer."


@dataclass(frozen=True, eq=False)
class Variation:
    """A task with the scale of its initial weights and the length of its runs, in t/tau, in which training can show all its plateaus."""

    task: RegressionTask
    duration: float
    plateaus: int = 4
    heads: int = 4
    scale: float = 0.1
    learning_rate: float = 0.2
    batch_size: int = 512
    like: str = ""  # what it has in common with other runs, which share its starts

    def draw(self, rng: np.random.Generator) -> SeparateWeights:
        return SeparateWeights.initialize(self.task, heads=self.heads, rank=1, scale=self.scale, rng=rng)

    @property
    def starts(self) -> tuple[SeparateWeights, ...]:
        """The first starts that the seed of the check draws from which the flows of all runs ``like`` it show all plateaus, each for a
        fifth of its even share of the run or longer."""
        return self._first(STARTS)

    @property
    def weights(self) -> SeparateWeights:
        """The first of the selected starts."""
        return self._first(1)[0]

    def _first(self, count: int) -> tuple[SeparateWeights, ...]:
        return _selected(tuple(one for one in RUNS.values() if one.like == self.like != "") or (self,), count)

    @property
    def loss(self) -> QuadraticLoss:
        return QuadraticLoss.population(self.task)


@remembered
def _selected(runs: tuple[Variation, ...], count: int) -> tuple[SeparateWeights, ...]:
    rng, found = draws.generator(11), []
    while len(found) < count:
        weights = runs[0].draw(rng)
        if all(_rests(run, weights) for run in runs):
            found.append(weights)
    return tuple(found)


def _rests(run: Variation, weights: SeparateWeights) -> bool:
    found = find_plateaus(gradient_flow(run.loss, weights, t_end=run.duration))
    return len(found.levels) == run.plateaus and found.durations.min() > run.duration / (5 * run.plateaus)


SPECTRUM, LENGTH = [0.6, 0.4, 0.25], 10
PLAIN = RegressionTask(eigenvalues=SPECTRUM, context_length=LENGTH)
NOISY = RegressionTask(eigenvalues=SPECTRUM, context_length=LENGTH, noise_variance=1.0)
# The first direction grows faster (lambda^2 omega), the second drops more (lambda omega).
TURNING = RegressionTask(eigenvalues=[1.0, 0.5], context_length=20, task_covariance=np.diag([0.3, 0.8]))
# The first direction grows fastest and drops least: the first head turns from it to the second, the second head to the third.
RETURNING = RegressionTask(eigenvalues=[1.2, 0.6, 0.3], context_length=20, task_covariance=np.diag([0.4, 1.1, 2.1]))


def inclined(angle: float) -> RegressionTask:
    """``TURNING`` with the task covariance turned by an angle, so that it does not commute with that of the tokens."""
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    covariance = turn @ TURNING.task_covariance @ turn.T
    return RegressionTask(eigenvalues=[1.0, 0.5], context_length=20, task_covariance=(covariance + covariance.T) / 2)


OBLIQUE = RegressionTask(
    covariance=[[0.8, 0.2, 0.0], [0.2, 0.5, 0.1], [0.0, 0.1, 0.3]],
    task_covariance=[[0.4, -0.3, 0.1], [-0.3, 1.2, 0.2], [0.1, 0.2, 2.0]],
    query_covariance=[[0.5, 0.0, 0.2], [0.0, 0.6, -0.1], [0.2, -0.1, 0.9]],
    context_length=8,
    noise_variance=0.1,
)
ASKED = RegressionTask(eigenvalues=SPECTRUM, context_length=LENGTH, query_covariance=np.diag([0.15, 0.5, 1.2]))
# Contexts of 1 to N tokens: averaged, divided by the longest, or as the official code does with vary_len.
SHORT, LONGEST, OFFICIAL = (
    RegressionTask(eigenvalues=SPECTRUM, context_lengths=range(1, LENGTH + 1), context_gain=gain)
    for gain in ("present", "longest", "official")
)
# The first seed whose two tasks are learned at unlike rates in time: eigenvalues of Lambda^(1/2) Sigma_w Lambda^(1/2) above 0.4, one twice
# the other.
SHARED = RegressionTask(eigenvalues=SPECTRUM, context_length=LENGTH, number_of_tasks=2, task_seed=6)
DEGREES = 12  # with eight degrees of freedom, or fewer, the gradient on one sequence has no variance
SPHERE, STUDENT, SIGNS = (
    RegressionTask(eigenvalues=SPECTRUM, context_length=LENGTH, token_law=law)
    for law in (SphereTokens(), StudentTokens(DEGREES), RademacherTokens())
)

RUNS = {
    "plain": Variation(PLAIN, 900.0, like="tokens"),
    "noise": Variation(NOISY, 900.0, like="tokens"),
    "turning": Variation(TURNING, 900.0, heads=3, scale=0.03),
    "returning": Variation(RETURNING, 800.0, 6, scale=0.03, batch_size=1024),
    "nearly": Variation(inclined(0.02), 900.0, heads=3, scale=0.03),
    "inclined": Variation(inclined(0.5), 2500.0, 3, heads=3, scale=0.03),
    "oblique": Variation(OBLIQUE, 700.0, learning_rate=0.1, batch_size=1024),
    "query": Variation(ASKED, 900.0),
    "random length": Variation(SHORT, 900.0, batch_size=1024, like="lengths"),
    "longest": Variation(LONGEST, 1700.0, learning_rate=0.3, batch_size=1024, like="lengths"),
    "official": Variation(OFFICIAL, 1250.0, learning_rate=0.4, batch_size=256, like="lengths"),
    "shared": Variation(SHARED, 900.0, 3),
    "sphere": Variation(SPHERE, 900.0, like="tokens"),
    "Student": Variation(STUDENT, 900.0, batch_size=2048, like="tokens"),
    "signs": Variation(SIGNS, 900.0, like="tokens"),
}


def levels(task: RegressionTask) -> Float[np.ndarray, " D+1"]:
    """The plateau losses of separate attention if no head turns (otherwise ``turning_levels``): c minus the drops of the directions, in
    the order of growth, or of the drops if covariances do not commute."""
    modes = task.modes
    order = np.argsort(-(modes.drops if modes.growth is None else modes.growth))
    return task.loss_moments.c - np.concatenate([[0.0], np.cumsum(modes.drops[order])])


def turning_levels(task: RegressionTask) -> np.ndarray:
    """The losses of the sets of directions that heads of rank one visit, including those from which a head turns (V2-sequence)."""
    return np.array([visit.loss for visit in order_of_learning(task)])


def against(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest relative error of plateau losses; infinite if their numbers differ."""
    return float(np.abs(found / expected - 1).max()) if len(found) == len(expected) else np.inf


@remembered
def flow(name: str) -> Trajectory:
    """Gradient flow of one of ``RUNS``."""
    run = RUNS[name]
    return gradient_flow(run.loss, run.weights, t_end=run.duration)


def small_levels(name: str) -> Float[np.ndarray, " M"]:
    """The losses on the plateaus of one of ``RUNS`` from three weights of 1e-4, in their median."""
    run = replace(RUNS[name], scale=1e-4)

    def found(start: int) -> np.ndarray:
        weights = run.draw(draws.generator(12, start))
        return find_plateaus(gradient_flow(run.loss, weights, t_end=6e5, rtol=1e-6)).levels

    return over_starts(found, 3)


@remembered
def _trainings(name: str, share: int) -> tuple[TrainingRun, ...]:
    run = RUNS[name]
    source = fresh_batches(run.task, run.batch_size // share, draws.torch_generator(11))
    options = {"steps": round(run.duration / (2 * run.learning_rate)), "learning_rate": run.learning_rate}
    all_ = train([ReducedSeparate(weights) for weights in run.starts], source, record_every=5, progress=False, **options)
    return tuple(
        replace(all_, batch_loss=all_.batch_loss[:, i], states={key: values[:, i] for key, values in all_.states.items()})
        for i in range(STARTS)
    )


def training(name: str, share: int = 1, start: int = 0) -> TrainingRun:
    """Gradient descent on fresh sequences of one of ``RUNS``, from the same weights; on one in ``share`` of them, if time is short."""
    return _trainings(name, share)[start]


def trained_loss(name: str, share: int = 1, start: int = 0) -> Float[np.ndarray, " T"]:
    """The population loss of the trained network at its recorded times."""
    return training(name, share, start).population_loss(RUNS[name].loss)


def trained_plateaus(name: str, share: int = 1, start: int = 0) -> Plateaus:
    return find_plateaus(training(name, share, start).times, trained_loss(name, share, start))


def over_starts(losses: Callable[[int], np.ndarray], starts: int = STARTS) -> np.ndarray:
    """The plateau losses in the median of the starts that show as many plateaus as most do: in some, noise or haste hides one."""
    found = [losses(start) for start in range(starts)]
    most = np.median([len(one) for one in found])
    return np.median([one for one in found if len(one) == most], axis=0)


def trained_levels(name: str) -> Float[np.ndarray, " M"]:
    """The losses on the plateaus of training, over the starts."""
    return over_starts(lambda start: trained_plateaus(name, start=start).levels)


@remembered
def plateaus(name: str) -> Plateaus:
    """The plateaus of the flow."""
    return find_plateaus(flow(name))
