"""Training and stacked flows in float64 on a device, against the same on the processor: times, and the largest difference.

    python benchmarks/device.py [--device cuda] [--runs 10000] [--networks 1000] [--steps 300]

Training: networks of the default setting from different seeds, on one training set, by full-batch descent. Flows: steps of DOP853 of the
stacked flow from different seeds, at the largest step that is stable; on the processor these are the product's own, on the device the same
step in PyTorch. Without the device the script says so and runs on the processor alone. On a GPU it ends within three minutes.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from iclflow.numerics import QuadraticLoss
from iclflow.numerics.dynamics.two_sided import DOP853_ROWS, EXPLICIT, FIRST, Stack
from iclflow.verify.experiments.staircase import DEFAULT
from iclflow.verify.training.descent import fixed_set, train
from iclflow.verify.training.modules import ReducedSeparate
from iclflow.verify.training.sequences import draw_sequences
from torch import Tensor

LARGEST_RATE = 1.0  # of the default flow's Jacobian, up to its last plateau


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


def stack(runs: int) -> tuple[Stack, np.ndarray]:
    starts = [replace(DEFAULT, seed=seed).weights for seed in range(runs)]
    return Stack.of([QuadraticLoss.population(DEFAULT.task)] * runs, starts[0]), np.stack([start.flatten() for start in starts]).T.copy()


def stepped(flows: Stack, states: np.ndarray, steps: int) -> np.ndarray:
    h = EXPLICIT / LARGEST_RATE
    A, C = flows.A * h, flows.C * h
    moved = flows.velocity(states, A, C)
    for _ in range(steps):
        states, moved, _ = flows.dop853(states, moved, A, C)
    return states


def stepped_on(device: str, flows: Stack, states: np.ndarray, steps: int) -> np.ndarray:
    H, D = flows.heads, len(flows.A)
    A, C = (torch.tensor(part * (EXPLICIT / LARGEST_RATE), device=device) for part in (flows.A, flows.C))
    y, rows = torch.tensor(states, device=device), torch.tensor(DOP853_ROWS, device=device)

    def velocity(y: Tensor) -> Tensor:
        v, k, q = y[:H, None], *y[H:].reshape(2, H, D, -1)
        G = A - C * torch.einsum("hbn,hcn->bcn", v * k, q)
        by_query, by_key = torch.einsum("bcn,hcn->hbn", G, q), torch.einsum("bcn,hbn->hcn", G, k)
        return torch.cat([(k * by_query).sum(1), (v * by_query).flatten(0, 1), (v * by_key).flatten(0, 1)])

    moved = velocity(y)
    for _ in range(steps):
        stages = torch.empty((13, *y.shape), dtype=y.dtype, device=device)
        stages[1], stages[2] = 0, moved
        for i, (weights, first) in enumerate(zip(rows, FIRST, strict=True), start=1):
            last = max(i, 3)
            at = y + torch.tensordot(weights[first:last], stages[first:last], dims=1)
            stages[i if i > 2 else i - 1] = velocity(at)
        y, moved = at, stages[12]
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
    (flows, states), steps = stack(options.runs), max(options.steps // 5, 1)
    trained(device, 2, 2)  # warm up
    stepped_on(device, flows, states, 1)
    alone, seconds = timed("cpu", lambda: trained("cpu", options.networks, options.steps))
    found, there = timed(device, lambda: trained(device, options.networks, options.steps))
    what = f"training {options.networks} networks, {options.steps} steps of {DEFAULT.batch_size} sequences"
    print(f"{what}: {seconds:.2f} s on the processor, {there:.2f} s on {device}: ", end="")
    print(f"{seconds / there:.1f} times as fast; losses differ by at most {np.abs(found - alone).max():.1e}")
    alone, seconds = timed("cpu", lambda: stepped(flows, states, steps))
    found, there = timed(device, lambda: stepped_on(device, flows, states, steps))
    print(f"{steps} steps of {options.runs} flows: {seconds:.2f} s on the processor, {there:.2f} s on {device}: ", end="")
    print(f"{seconds / there:.1f} times as fast; weights differ by at most {np.abs(found - alone).max():.1e}")


if __name__ == "__main__":
    main()
