"""One run of the explorer: the flow, its plateaus, theory's prediction, and the algorithm in context at one moment."""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from jaxtyping import Float

from ...numerics.dynamics.flow import gradient_flow
from ...numerics.dynamics.plateaus import Plateaus, find_plateaus
from ...numerics.dynamics.trajectory import Trajectory
from ...numerics.landscape.fixed_points import has_equal_eigenvalues, merged_fixed_points, separate_fixed_point
from ...numerics.parametrizations.attention import MergedWeights, SeparateWeights
from ...numerics.reductions.curve import CurvePrediction, predict_curve
from ...numerics.tasks.losses import QuadraticLoss
from ...numerics.tasks.regression import RegressionTask
from ..experiments.parameters import PARAMETERS, TABLE

SLIDERS = {parameter.name: parameter.slider for parameter in PARAMETERS if parameter.slider}

DONE = 1.001  # a run ends when its loss is within a thousandth of the last level
BEYOND = 1.08  # and is drawn a little further
LONGEST = 1e10  # in t/tau


@dataclass(frozen=True)
class Exploration:
    """The setting of one run. Raises ``ValueError`` for values that no run can have, or only a long one."""

    eigenvalues: tuple[float, ...] = TABLE["eigenvalues"].default
    context_length: int = TABLE["context_length"].default
    heads: int = TABLE["heads"].default
    rank: int = TABLE["rank"].default
    scale: float = SLIDERS["scale"].start
    seed: int = TABLE["seed"].default
    noise_variance: float = TABLE["noise_variance"].default
    merged: bool = False

    def __post_init__(self) -> None:
        for name, slider in SLIDERS.items():
            parameter = TABLE[name]._replace(kind=slider.kind)
            object.__setattr__(self, name, parameter.check(getattr(self, name)))
        if not self.merged and self.rank > len(self.eigenvalues):
            raise ValueError(f"rank must be at most the dimension {len(self.eigenvalues)}, got {self.rank}")

    @property
    def task(self) -> RegressionTask:
        return RegressionTask(
            eigenvalues=sorted(self.eigenvalues, reverse=True), context_length=self.context_length, noise_variance=self.noise_variance
        )

    @property
    def weights(self) -> MergedWeights | SeparateWeights:
        """The initial weights, drawn by (34) or (36)."""
        rng = np.random.default_rng(self.seed)
        if self.merged:
            return MergedWeights.initialize(self.task, heads=self.heads, scale=self.scale, rng=rng)
        return SeparateWeights.initialize(self.task, heads=self.heads, rank=self.rank, scale=self.scale, rng=rng, allow_deficient=True)

    @property
    def learned(self) -> int:
        """How many directions the model can learn: R H for separate attention, at most D."""
        D = len(self.eigenvalues)
        return D if self.merged else min(D, self.heads * self.rank)


@dataclass(frozen=True)
class Run:
    """One run beside theory."""

    setting: Exploration
    task: RegressionTask
    levels: tuple[float, ...]  # of the loss at the saddles
    trajectory: Trajectory
    prediction: CurvePrediction | None  # of separate attention from small weights

    @property
    def end(self) -> float:
        return float(self.trajectory.times[-1])

    @cached_property
    def plateaus(self) -> Plateaus:
        return find_plateaus(self.trajectory)

    @cached_property
    def times(self) -> Float[np.ndarray, " T"]:
        """Times that are evenly spaced, and closer where the loss drops."""
        inside = [
            np.linspace(drop - 2 * width, drop + 2 * width, 60)
            for drop, width in zip(self.plateaus.drops, self.plateaus.widths, strict=True)
        ]
        return np.unique(np.clip(np.concatenate([np.linspace(0, self.end, 400), *inside]), 0, self.end))

    @cached_property
    def values(self) -> Float[np.ndarray, "T H"]:
        """The sizes of the value weights at ``times``."""
        return np.abs(self.trajectory.initial.split(self.trajectory.states_at(self.times))[0])

    def shares(self, times: object) -> Float[np.ndarray, "*n D D"]:
        """B in the eigenbasis, each row over the final value lambda_d/a_d: 1 on the diagonal for a direction learned, equation (23)."""
        final = self.task.eigenvalues / self.task.second_moment_eigenvalues
        return self.trajectory.effective_map_at(times) / final[:, None]

    def summary(self, t: float) -> str:
        """The algorithm in context at time t, in one sentence."""
        share = self.shares(t)
        known = [f"e{d + 1} ({share[d, d]:.0%})" for d in range(len(share)) if share[d, d] > 0.05]
        if not known:
            return "Nothing is learned yet: the prediction is about zero."
        complete = np.abs(share - np.eye(len(share))).max() < 0.05
        what = "Regression on all principal components" if complete else "Regression on principal components"
        return f"{what}: {', '.join(known)}."


@lru_cache(maxsize=64)
def explored(setting: Exploration) -> Run:
    """Integrate the flow to its last level. Raises ``ValueError`` or ``FlowError``, with the cause."""
    task, weights = setting.task, setting.weights
    if setting.merged:
        levels = tuple(point.loss for point in merged_fixed_points(task, heads=setting.heads))
    else:
        sizes = range(setting.learned + 1)
        points = [separate_fixed_point(task, range(m), heads=setting.heads, rank=setting.rank) for m in sizes]
        levels = tuple(point.loss for point in points)
    loss = QuadraticLoss.population(task)
    whole = gradient_flow(loss, weights, t_end=LONGEST, rtol=1e-6, stop_loss=DONE * levels[-1], dense=False)
    run = gradient_flow(loss, weights, t_end=BEYOND * float(whole.times[-1]), rtol=1e-6)
    return Run(setting, task, levels, run, _prediction(task, weights))


def _prediction(task: RegressionTask, weights: MergedWeights | SeparateWeights) -> CurvePrediction | None:
    if isinstance(weights, MergedWeights) or task.noise_variance or has_equal_eigenvalues(task):
        return None
    try:
        return predict_curve(task, weights)
    except ValueError:  # the weights are too large for it
        return None
