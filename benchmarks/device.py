"""Training and many flows in float64 on a device, against the same on the processor: times, and the largest difference.

    python benchmarks/device.py [--device cuda] [--runs 10000] [--networks 1000] [--steps 300]

Training: networks of the default setting from different seeds, on one training set, by full-batch descent. Flows from different seeds: on
the processor compiled, with their own steps; on the device side by side in PyTorch, in steps of DOP853 of one length, as long as they are
stable. Without the device the script says so and runs on the processor alone. On a GPU it ends within three minutes.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from iclflow.numerics import QuadraticLoss, SeparateWeights, gradient_flow
from iclflow.verify.experiments.staircase import DEFAULT
from iclflow.verify.training.descent import fixed_set, train
from iclflow.verify.training.modules import ReducedSeparate
from iclflow.verify.training.sequences import draw_sequences
from scipy.integrate import DOP853
from torch import Tensor

LOSS = QuadraticLoss.population(DEFAULT.task)
STEP = 1.0  # stable up to 6.4 over the largest rate of the default flow's Jacobian, 1 up to its last plateau, and here exact to some 1e-8
ROWS = np.vstack([DOP853.A[1:12, :12], DOP853.B])


def timed(device: str, call: Callable[[], np.ndarray]) -> tuple[np.ndarray, float]:
    """The result of a call, and its wall time until the device is idle; an earlier call has warmed up."""
    begun = time.perf_counter()
    found = call()
    if device != "cpu":
        torch.cuda.synchronize()
    return found, time.perf_counter() - begun


def trained(device: str, networks: int, steps: int) -> np.ndarray:
    """The losses of all networks at every tenth step."""
    batch = draw_sequences(DEFAULT.task, DEFAULT.batch_size, torch.Generator().manual_seed(0))
    source = fixed_set((batch[0].to(device), batch[1].to(device)))
    modules = [ReducedSeparate(replace(DEFAULT, seed=seed).weights).to(device) for seed in range(networks)]
    return train(modules, source, steps=steps, learning_rate=DEFAULT.learning_rate, record_every=10, progress=False).batch_loss


def compiled(starts: list[SeparateWeights], steps: int) -> np.ndarray:
    """The weights after the time of so many steps."""
    end = steps * STEP
    return gradient_flow(LOSS, starts, t_end=end, times=[end], rtol=1e-9, method="compiled").states_at(end)


def stepped(device: str, starts: list[SeparateWeights], steps: int) -> np.ndarray:
    """The same by steps of one length."""
    H, D, moments = DEFAULT.heads, DEFAULT.task.dimension, DEFAULT.task.loss_moments
    A, M, Q = (torch.tensor(part, device=device) for part in (moments.A, moments.M, moments.Q))
    y, rows = (torch.tensor(part, device=device) for part in (np.stack([start.flatten() for start in starts]), STEP * ROWS))

    def velocity(y: Tensor) -> Tensor:
        v, (k, q) = y[:, :H, None], y[:, H:].unflatten(1, (2, H, D)).unbind(1)
        G = A - M @ (v * k).mT @ q @ Q
        by_query, by_key = q @ G.mT, k @ G
        return torch.cat([(k * by_query).sum(-1), (v * by_query).flatten(1), (v * by_key).flatten(1)], 1)

    for _ in range(steps):
        stages = [velocity(y)]
        for row in rows[:11]:
            stages.append(velocity(y + sum(weight * stage for weight, stage in zip(row, stages, strict=False))))
        y = y + sum(weight * stage for weight, stage in zip(rows[11], stages, strict=True))
    return y.cpu().numpy()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", help="cuda (default) or cpu")
    parser.add_argument("--runs", type=int, default=10_000, help="flows side by side")
    parser.add_argument("--networks", type=int, default=1_000, help="networks trained together")
    parser.add_argument("--steps", type=int, default=300, help="of training, and a fifth as many of the flows")
    options = parser.parse_args()
    device = options.device
    if device == "cuda" and not torch.cuda.is_available():
        print("PyTorch finds no GPU: the same on the processor")
        device = "cpu"
    print(f"device: {torch.cuda.get_device_name() if device == 'cuda' else device}, PyTorch {torch.__version__}, float64")
    starts, steps = [replace(DEFAULT, seed=seed).weights for seed in range(options.runs)], max(options.steps // 5, 1)
    trained(device, 2, 2)  # warm up
    stepped(device, starts[:2], 1)
    compiled(starts[:2], 1)
    alone, seconds = timed("cpu", lambda: trained("cpu", options.networks, options.steps))
    found, there = timed(device, lambda: trained(device, options.networks, options.steps))
    what = f"training {options.networks} networks, {options.steps} steps of {DEFAULT.batch_size} sequences"
    print(f"{what}: {seconds:.2f} s on the processor, {there:.2f} s on {device}: ", end="")
    print(f"{seconds / there:.1f} times as fast; losses differ by at most {np.abs(found - alone).max():.1e}")
    alone, seconds = timed("cpu", lambda: compiled(starts, steps))
    found, there = timed(device, lambda: stepped(device, starts, steps))
    print(f"{options.runs} flows to t = {steps * STEP:g}: {seconds:.2f} s compiled, {there:.2f} s side by side on {device}: ", end="")
    print(f"{seconds / there:.1f} times as fast; weights differ by at most {np.abs(found - alone).max():.1e}")


if __name__ == "__main__":
    main()
