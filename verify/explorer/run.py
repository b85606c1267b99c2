"""One run of the explorer: the flow, its plateaus, theory's prediction, and the algorithm in context at one moment."""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from jaxtyping import Float

from ...numerics import MergedWeights, Plateaus, QuadraticLoss, RegressionTask, SeparateWeights, Trajectory, find_plateaus, gradient_flow
from ...numerics.landscape.fixed_points import has_equal_eigenvalues, merged_fixed_points, separate_fixed_point
from ...numerics.reductions.curve import CurvePrediction, predict_curve
from ..experiments.parameters import PARAMETERS, TABLE

SLIDERS = {parameter.name: parameter.slider for parameter in PARAMETERS if parameter.slider}

DONE = 1.001  # a run ends when its loss is within a thousandth of the last level
BEYOND = 1.08  # and is drawn a little further
LONGEST = 1e10  # in t/tau
TOLERANCE = 1e-6


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
        return RegressionTask(eigenvalues=self.eigenvalues, context_length=self.context_length, noise_variance=self.noise_variance)

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
    unpredicted: str  # why there is none

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

    def table(self) -> str:
        """What the picture shows over time, as CSV."""
        shares = np.diagonal(self.shares(self.times), axis1=1, axis2=2)
        columns = {"t/tau": self.times, "loss": self.trajectory.loss_at(self.times)}
        if self.prediction is not None:
            columns["predicted_loss"] = self.prediction.loss(self.times)
        columns |= {f"abs_v_{i}": v for i, v in enumerate(self.values.T, 1)} | {f"share_e{d}": one for d, one in enumerate(shares.T, 1)}
        rows = (",".join(f"{x:.7g}" for x in row) for row in zip(*columns.values(), strict=True))
        return "\n".join([",".join(columns), *rows]) + "\n"

    def code(self) -> str:
        """A Python program that makes this run, and draws its loss beside the predicted one."""
        one, imported = self.setting, "QuadraticLoss, RegressionTask, {}Weights, gradient_flow" + ", predict_curve" * (not self.unpredicted)
        kind, rank = ("Merged", "") if one.merged else ("Separate", f" rank={one.rank}, allow_deficient=True,")
        task = f"eigenvalues={list(one.eigenvalues)}, context_length={one.context_length}, noise_variance={one.noise_variance}"
        lines = [
            "import numpy as np",
            f"from iclflow.numerics import {imported.format(kind)}",
            "",
            f"task = RegressionTask({task})",
            f"rng = np.random.default_rng({one.seed})",
            f"weights = {kind}Weights.initialize(task, heads={one.heads},{rank} scale={one.scale}, rng=rng)",
            f"run = gradient_flow(QuadraticLoss.population(task), weights, t_end={self.end}, rtol={TOLERANCE})",
            "axes = run.plot()",
            *["predict_curve(task, weights).plot(axes=axes)"] * (not self.unpredicted),
        ]
        return "\n".join(lines) + "\n"

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
        order = np.argsort(-task.eigenvalues, kind="stable")
        points = [separate_fixed_point(task, order[:m].tolist(), heads=setting.heads, rank=setting.rank) for m in sizes]
        levels = tuple(point.loss for point in points)
    loss = QuadraticLoss.population(task)
    whole = gradient_flow(loss, weights, t_end=LONGEST, rtol=TOLERANCE, stop_loss=DONE * levels[-1], dense=False)
    run = gradient_flow(loss, weights, t_end=BEYOND * float(whole.times[-1]), rtol=TOLERANCE)
    return Run(setting, task, levels, run, *_predicted(task, weights))


def _predicted(task: RegressionTask, weights: MergedWeights | SeparateWeights) -> tuple[CurvePrediction | None, str]:
    """The curve from the initial weights, or why there is none."""
    if isinstance(weights, MergedWeights):
        return None, "the theory of whole curves is about separate keys and queries"
    if task.noise_variance:
        return None, "the line is for labels without noise"
    if has_equal_eigenvalues(task):
        return None, "equal eigenvalues are learned together"
    try:
        return predict_curve(task, weights), ""
    except ValueError as problem:  # the weights are too large for it
        return None, " ".join(str(problem).split())
