r"""Figures 4 and 9 of the paper in full, as full-batch training on a finite training set: data, training, plateaus, times.

Separate attention of rank R = 1..8 with H = 9 heads on D = 8 tokens of covariance eigenvalues proportional to 1/d and
trace 1, context N = 31, P = 80,000 training sequences, 20,001 steps, six seeds (each draws its own training set and, for each
rank, its own weights by equation (36)). All blocks of the weights are trained, those that the paper starts at zero too.

Units are the paper's: the Gram matrix is the mean over the context, a step of size eta on the mean squared error advances
t/tau by 2 eta. The paper's official code sums over the context; the same run there has step eta N^(-2/3) and initial
weights smaller by N^(-1/3). The initial scale and the steps are chosen so that 20,001 steps reach the last drop in most
runs while the step stays below the edge of stability (step times largest Hessian eigenvalue below 2): the unreduced
blocks make higher ranks stiffer, so each rank has its own step, as each panel of the figures has its own axis.

Run it as ``python benchmarks/figures_4_9.py [--processes 2] [--save FILE.npz]``.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before NumPy: one process a core, one thread a process

import argparse
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np
from iclflow.numerics.dynamics.plateaus import find_plateaus
from iclflow.numerics.parametrizations.attention import SeparateWeights
from iclflow.numerics.replay.ensemble import Ensemble
from iclflow.numerics.tasks.regression import RegressionTask
from iclflow.numerics.tasks.sample_moments import SampleMoments

DIMENSION, CONTEXT, HEADS, SEQUENCES, STEPS = 8, 31, 9, 80_000, 20_001
RANKS = range(1, DIMENSION + 1)
INITIAL_SCALE = 0.4
STEPS_ETA = (0.38, 0.3, 0.25, 0.22, 0.2, 0.18, 0.17, 0.17)  # for R = 1..8


@dataclass(frozen=True)
class Run:
    losses: np.ndarray  # (steps, ranks)
    step_times_sharpness: np.ndarray  # (ranks,), the largest along the run
    data_seconds: float
    descent_seconds: float


def paper_task() -> RegressionTask:
    eigenvalues = 1 / np.arange(1.0, DIMENSION + 1)
    return RegressionTask(eigenvalues=eigenvalues / eigenvalues.sum(), context_length=CONTEXT)


def run_seed(seed: int, scale: float, sequences: int, steps: int) -> Run:
    """All ranks on one training set: one stack of weights, the missing ranks zero, and so for ever."""
    task, rng = paper_task(), np.random.default_rng(seed)
    began = time.perf_counter()
    ensemble = Ensemble([SampleMoments.sampled(task, sequences, rng)])
    sampled = time.perf_counter()
    lead = (1, len(RANKS), HEADS)
    value, key = np.zeros((*lead, DIMENSION + 1)), np.zeros((*lead, RANKS[-1], DIMENSION + 1))
    query = np.zeros((*lead, RANKS[-1], DIMENSION))
    for j, rank in enumerate(RANKS):
        drawn = SeparateWeights.initialize(task, heads=HEADS, rank=rank, scale=scale, rng=rng)
        value[0, j, :, -1], key[0, j, :, :rank, :-1], query[0, j, :, :rank] = drawn.v, drawn.k, drawn.q
    losses, sharpness, eta = [], np.zeros(len(RANKS)), np.array([STEPS_ETA])
    for block, (maps, weights) in enumerate(ensemble.descend((value, key, query), eta, steps)):
        losses.append(ensemble.losses(maps)[:, 0])
        if block % 10 == 0:
            sharpness = np.maximum(sharpness, eta[0] * ensemble.sharpness(weights)[0])
    return Run(np.concatenate(losses), sharpness, sampled - began, time.perf_counter() - sampled)


def main() -> None:
    parser = argparse.ArgumentParser(description="Figures 4 and 9 in full, timed")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--scale", type=float, default=INITIAL_SCALE, help="w_init of equation (36)")
    parser.add_argument("--sequences", type=int, default=SEQUENCES)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--save", metavar="FILE.npz", help="the loss curves (seed, step, rank) and the levels of (24)")
    args = parser.parse_args()

    task = paper_task()
    explained = task.eigenvalues**3 / task.second_moment_eigenvalues
    levels = task.eigenvalues.sum() - np.concatenate([[0.0], np.cumsum(explained)])  # equation (24)
    began = time.perf_counter()
    with ProcessPoolExecutor(args.processes) as pool:
        futures = [pool.submit(run_seed, seed, args.scale, args.sequences, args.steps) for seed in range(args.seeds)]
        runs = [future.result() for future in futures]
    total = time.perf_counter() - began
    losses = np.stack([run.losses for run in runs])

    print(
        f"D={DIMENSION} N={CONTEXT} H={HEADS} P={args.sequences} steps={args.steps} seeds={args.seeds} "
        f"w_init={args.scale}, mean over the context; the official code, which sums, would use w_init "
        f"{args.scale * CONTEXT ** (-1 / 3):.4f} and steps eta * {CONTEXT ** (-2 / 3):.4f}"
    )
    print(f"losses at the fixed points, equation (24): {np.array2string(levels, precision=4)}")
    print(
        "rank   eta  eta*sharpness  plateaus (by seed)  their distance to (24)  last drop reached  final loss  "
        "time t/tau of drops 1..8 (median of seeds)"
    )
    midway = (levels[:-1] + levels[1:]) / 2
    clock = 2 * np.arange(args.steps)
    for j, rank in enumerate(RANKS):
        times = STEPS_ETA[j] * clock
        found = [find_plateaus(times, losses[s, :, j]) for s in range(args.seeds)]
        counts = "".join(str(len(f)) for f in found)
        off = max(float(np.abs(f.levels[:, None] - levels).min(axis=1).max()) for f in found)
        crossed = np.array([[_first_below(times, losses[s, :, j], m) for m in midway] for s in range(args.seeds)])
        reached = int(np.isfinite(crossed[:, -1]).sum())
        shown = " ".join(f"{drop:.0f}" for drop in np.median(crossed, axis=0))
        sharp = max(run.step_times_sharpness[j] for run in runs)
        print(
            f"{rank:4d}  {STEPS_ETA[j]:4.2f}  {sharp:13.2f}  {counts:>18}  {off:22.4f}  {reached:12d} of {args.seeds}  "
            f"{losses[:, -1, j].mean():10.5f}  {shown}"
        )
    data, descent = sum(run.data_seconds for run in runs), sum(run.descent_seconds for run in runs)
    print(
        f"wall time {total:.1f} s with {args.processes} processes: {data:.1f} s for the data and {descent:.1f} s for the descents, "
        f"summed over processes; {descent / (args.seeds * len(RANKS) * args.steps) * 1e6:.0f} us for one step of one run"
    )
    if args.save:
        np.savez_compressed(args.save, losses=losses, levels=levels, eta=STEPS_ETA, ranks=np.array(RANKS))


def _first_below(times: np.ndarray, loss: np.ndarray, level: float) -> float:
    return float(times[np.argmax(loss < level)]) if (loss < level).any() else np.inf


if __name__ == "__main__":
    main()
