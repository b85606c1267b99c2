"""How often the flow's drop times lie inside the bounds of ``predict_curve``, over random settings.

    python benchmarks/predictions.py [--runs 350] [--seed 0]

D is 1 to 6, N is 1 to 200, H is D to 2 D, the scale 1e-6 to 1; spectra are random, nearly equal, or powers. A drop time is the last
time at which the flow, integrated to 1e-8, passes the mean of the two levels of (24) beside the drop.
"""

import argparse
import os

os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # before NumPy: one thread in each of the two processes

from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

import numpy as np
from iclflow.numerics import QuadraticLoss, RegressionTask, SeparateWeights, gradient_flow, predict_curve
from iclflow.numerics.dynamics.solver import FlowError
from iclflow.numerics.dynamics.trajectory import Trajectory
from scipy.optimize import brentq

SCALES = 10.0 ** np.arange(-6, 1)
LONGEST = 1e4  # times the last predicted drop, until which the flow runs
OFF = 0.05


class Measured(NamedTuple):
    """One setting: predicted drop times, their bounds, and those of the flow, nan where it has none; or why there are none."""

    scale: float
    drops: np.ndarray
    bounds: np.ndarray
    flow: np.ndarray
    failed: str = ""


def setting(seed: int, number: int) -> tuple[RegressionTask, SeparateWeights, float]:
    rng = np.random.default_rng([seed, number])
    D, scale = int(rng.integers(1, 7)), float(SCALES[number % len(SCALES)])
    spectra = (rng.uniform(0.05, 1, D), rng.uniform(0.1, 1) * (1 - rng.uniform(0, 0.2, D)), rng.uniform(0.4, 0.9) ** np.arange(D))
    task = RegressionTask(eigenvalues=np.sort(spectra[rng.integers(3)])[::-1], context_length=int(rng.integers(1, 201)))
    return task, SeparateWeights.initialize(task, heads=int(rng.integers(D, 2 * D + 1)), scale=scale, rng=rng), scale


def drop_times(task: RegressionTask, run: Trajectory) -> np.ndarray:
    """The last times at which the flow's loss passes the mean of two levels of (24), nan for those that it never passes."""
    levels = task.eigenvalues.sum() - np.cumsum([0.0, *task.modes.drops])
    times = []
    for mean in (levels[1:] + levels[:-1]) / 2:
        before = np.flatnonzero(run.loss > mean)
        crosses = before.size and before[-1] + 1 < len(run.times)
        bracket = run.times[before[-1] : before[-1] + 2] if crosses else ()
        times.append(brentq(lambda t, mean=mean: run.loss_at(t) - mean, *bracket) if crosses else np.nan)
    return np.array(times)


def measured(seed: int, number: int) -> Measured:
    task, weights, scale = setting(seed, number)
    none = np.empty(0)
    try:
        prediction = predict_curve(task, weights)
    except ValueError as refusal:
        return Measured(scale, none, np.empty((0, 2)), none, f"refused: {refusal}")
    levels = task.eigenvalues.sum() - np.cumsum([0.0, *task.modes.drops])
    stop, end = 0.7 * levels[-1] + 0.3 * levels[-2], LONGEST * prediction.drops.max()
    try:
        run = gradient_flow(QuadraticLoss.population(task), weights, t_end=end, stop_loss=stop)
    except FlowError as problem:
        return Measured(scale, none, np.empty((0, 2)), none, f"flow: {problem}")
    return Measured(scale, prediction.drops, prediction.drop_bounds, drop_times(task, run)[: len(prediction.drops)])


def row(name: str, found: list[Measured]) -> str:
    kept = [one for one in found if not one.failed]
    if not kept:
        return f"{name:>8} {len(found):5} {len(found):8}"
    drops, bounds, flow = (np.concatenate([getattr(one, field) for one in kept]) for field in ("drops", "bounds", "flow"))
    exist, finite = np.isfinite(flow), np.isfinite(bounds).all(axis=1)
    inside = ((bounds[:, 0] <= flow) & (flow <= bounds[:, 1]))[exist]
    widths = bounds[finite, 1] / np.where(bounds[finite, 0] > 0, bounds[finite, 0], np.nan) - 1
    off = np.abs(drops / flow - 1)[exist] > OFF
    refused = len(found) - len(kept)
    return (
        f"{name:>8} {len(found):5} {refused:8} {exist.sum():6} {inside.mean():8.2%} {1 - finite.mean():10.2%} "
        f"{np.nanmedian(widths):13.3%} {off.mean():8.2%}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=350)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with ProcessPoolExecutor(2) as pool:
        found = list(pool.map(measured, [options.seed] * options.runs, range(options.runs), chunksize=4))
    print(f"{'scale':>8} {'runs':>5} {'refused':>8} {'drops':>6} {'inside':>8} {'no bound':>10} {'median width':>13} {'5% off':>8}")
    for scale in SCALES:
        print(row(f"{scale:.0e}", [one for one in found if one.scale == scale]))
    print(row("all", found))
    for number, one in enumerate(found):
        outside = (one.flow < one.bounds[:, 0]) | (one.flow > one.bounds[:, 1])
        if one.failed or outside.any():
            print(f"setting {number}: {one.failed or f'drops {one.drops}, bounds {one.bounds.tolist()}, flow {one.flow}'}")


if __name__ == "__main__":
    main()
