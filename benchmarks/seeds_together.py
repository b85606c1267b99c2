"""64 initialisations trained together on shared mini-batches, against one by one on the same: time, and the curves.

Run as ``python benchmarks/seeds_together.py [seeds] [steps]``. One by one is timed on a few of the seeds.
"""

import sys
import time
from dataclasses import replace

import numpy as np
import torch
from iclflow.verify.experiments.staircase import DEFAULT
from iclflow.verify.training.descent import TrainingRun, fresh_batches, train
from iclflow.verify.training.modules import ReducedSeparate

TIMED_ALONE = 6


def run(networks, steps: int) -> tuple[TrainingRun, float]:
    """The same mini-batches for whoever is trained; and the CPU seconds, which other processes disturb least."""
    source = fresh_batches(DEFAULT.task, DEFAULT.batch_size, torch.Generator().manual_seed(0))
    start = time.process_time()
    trained = train(networks, source, steps=steps, learning_rate=DEFAULT.learning_rate, record_every=5, progress=False)
    return trained, time.process_time() - start


def main(seeds: int = 64, steps: int = 1000) -> None:
    """Print the two times, their ratio, and the largest relative difference of a loss."""
    networks = [ReducedSeparate(replace(DEFAULT, seed=seed).weights) for seed in range(seeds)]
    run(networks[:2], 20)  # warms up
    together, seconds = run(networks, steps)
    alone = [run(network, steps) for network in networks[:TIMED_ALONE]]
    shared = seeds * run(networks[:1], steps)[1]
    one_by_one = seeds * float(np.mean([spent for _, spent in alone]))
    worst = max(np.abs(one.batch_loss / together.batch_loss[:, i] - 1).max() for i, (one, _) in enumerate(alone))
    print(f"{seeds} initialisations, {steps} steps of {DEFAULT.batch_size} fresh sequences, CPU seconds on one thread:")
    print(f"together {seconds:.2f} s, one by one {one_by_one:.1f} s: {one_by_one / seconds:.1f} times faster")
    print(f"one by one on the features too {shared:.1f} s: {shared / seconds:.1f} times faster")
    print(f"largest relative difference of a loss {worst:.1e}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
