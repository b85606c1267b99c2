"""Cost of one right-hand side of the flow against its bound by matrix products, for D = 4 ... 256 with H = D heads.

    OMP_NUM_THREADS=1 python benchmarks/scaling.py

The products of a right-hand side of separate attention (rank one) take (6 H R + 4 D) D^2 operations: three of (H R, D) with
(D, D), and M B Lambda. The bound is that count at the rate at which this machine multiplies two D x D matrices, measured
in the same run. Below D = 32 the calls themselves, about half a microsecond each, are the cost.

Then the exponents x of time ~ size^x, fitted by least squares of logarithms: of a right-hand side with the dimension (from 64) and with the
number of heads, of a flow with the number of runs side by side, and of the first fixed points in order of loss with their number k.

    python benchmarks/scaling.py --flow 512

integrates the rank-one flow with D = H = 512 (eigenvalues i^(-1/2), N = 4 D, initial scale 0.1) past ten drops, keeping nine states,
and evaluates the population loss of the unreduced model (V6) of eight heads at D = 64; both with the peak memory of the process.
"""

import argparse
import os
import resource
import time
import timeit
from itertools import islice

import numpy as np
from iclflow.numerics import QuadraticLoss, RegressionTask, SeparateWeights, fixed_point_sets, gradient_flow
from iclflow.numerics.compilation.equations import compiled
from iclflow.numerics.parametrizations.base import vector_field
from iclflow.theory.equations import equation


def seconds(call, *, budget: float = 0.3) -> float:
    """The best time of one call, over repeats that fill ``budget``."""
    number = max(1, int(budget / 5 / max(min(timeit.repeat(call, number=1, repeat=3)), 1e-7)))
    return min(timeit.repeat(call, number=number, repeat=5)) / number


def exponent(sizes: list[int], call) -> float:
    """x of time ~ size^x, where ``call(size)`` makes what is timed."""
    taken = [seconds(call(size)) for size in sizes]
    return float(np.polyfit(np.log(sizes), np.log(taken), 1)[0])


def right_hand_side(D: int, H: int):
    task = RegressionTask(eigenvalues=1.0 / np.arange(1, D + 1), context_length=31)
    weights = SeparateWeights.initialize(task, heads=H, scale=0.1, rng=np.random.default_rng(0))
    field, state = vector_field(QuadraticLoss.population(task), weights), weights.flatten()
    return lambda: field(0.0, state)


def memory() -> float:
    """The peak memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def large_flow(D: int, t_end: float = 4000.0) -> None:
    task = RegressionTask(eigenvalues=np.arange(1, D + 1) ** -0.5, context_length=4 * D)
    weights = SeparateWeights.initialize(task, heads=D, scale=0.1, rng=np.random.default_rng(0))
    before, begun = memory(), time.process_time()
    run = gradient_flow(QuadraticLoss.population(task), weights, t_end=t_end, rtol=1e-4, times=np.linspace(0, t_end, 9)[1:])
    taken, cost = time.process_time() - begun, run.statistics
    print(
        f"flow of {weights.size} weights, D = H = {D}, to t = {t_end:g}: {taken:.1f} s, {cost.steps} steps, {cost.evaluations} velocities"
    )
    for t, B in zip(run.times, run.effective_maps, strict=True):
        learned = int((np.diag(task.modes.coordinates(B)) > 0.5).sum())
        print(f"  t = {t:6.0f}: loss {run.objective.value(B):.4f}, {learned} directions learned")
    print(f"  peak memory {memory():.0f} MB, {before:.0f} MB before; a state is {weights.size * 8 / 2**20:.1f} MB")


def unreduced_loss(D: int, heads: int = 8) -> None:
    before, begun = memory(), time.process_time()
    entry, rng = equation("V6"), np.random.default_rng(0)
    letters = entry.letters
    square, target, overlap = (compiled("V6", tuple(letters.values()), part=part) for part in ("square", "target", "overlap"))
    shared = {"Lambda": np.diag(1.0 / np.arange(1, D + 1)), "N": 31, "p": 0.5, "w_0": rng.normal(size=(D, 1))}
    own = [(rng.normal(), *rng.normal(size=(2, D, 1)) / D, rng.normal(size=(D, D)) / D) for _ in range(heads)]

    def head(i: int, suffix: str) -> dict:
        return dict(zip((f"v_{suffix}", f"vv_{suffix}", f"u_{suffix}", f"U_{suffix}"), own[i], strict=True))

    def loss() -> float:
        pairs = [{**shared, **head(i, "i"), **head(j, "j")} for i in range(heads) for j in range(heads)]
        values = [[values[name] for name in letters] for values in pairs]
        return float(square(*values[0]) - 2 * sum(target(*one) for one in values[:: heads + 1]) + sum(overlap(*one) for one in values))

    value = loss()
    first = time.process_time() - begun
    print(f"unreduced loss of {heads} heads, D = {D}: {value:.4g} in {first:.1f} s, again in {seconds(loss):.3f} s")
    print(f"  peak memory {memory():.0f} MB, {before:.0f} MB before")


def exponents(largest: int) -> None:
    task = RegressionTask(eigenvalues=[0.4, 0.3, 0.2, 0.1], context_length=31)
    loss, starts = (
        QuadraticLoss.population(task),
        [SeparateWeights.initialize(task, heads=5, scale=0.1, rng=np.random.default_rng(seed)) for seed in range(800)],
    )
    wide = RegressionTask(eigenvalues=1.0 / np.arange(1, 257), context_length=300)
    dimensions = [D for D in (64, 128, 256, 512) if largest >= D]
    if len(dimensions) > 1:
        print(f"right-hand side, D = H = {dimensions}: D^{exponent(dimensions, lambda D: right_hand_side(D, D)):.2f}")
    heads = [64, 128, 256, 512]
    print(f"right-hand side, D = 64, H = {heads}: H^{exponent(heads, lambda H: right_hand_side(64, H)):.2f}")
    runs = [100, 200, 400, 800]
    print(f"flow to t = 300, n runs = {runs}: n^{exponent(runs, lambda n: lambda: gradient_flow(loss, starts[:n], t_end=300.0)):.2f}")
    first = [100, 400, 1600]
    listed = exponent(first, lambda k: lambda: list(islice(fixed_point_sets(wide, heads=256), k)))
    print(f"first k fixed points of 2^256, k = {first}: k^{listed:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--largest", type=int, default=256, help="the largest dimension D")
    parser.add_argument("--flow", type=int, help="integrate a flow of this dimension, and nothing else")
    options = parser.parse_args()
    if options.flow is not None:
        unreduced_loss(64)
        large_flow(options.flow)
        return
    largest = options.largest
    rng = np.random.default_rng(0)
    print(f"threads: OMP_NUM_THREADS={os.environ.get('OMP_NUM_THREADS', 'unset')}")
    print(f"{'D = H':>6} {'right-hand side':>16} {'Gflop/s of D x D':>17} {'bound':>10} {'ratio':>6}")
    for D in [2**power for power in range(2, largest.bit_length()) if 2**power <= largest]:
        task = RegressionTask(eigenvalues=1.0 / np.arange(1, D + 1), context_length=31)
        weights = SeparateWeights.initialize(task, heads=D, scale=0.1, rng=rng)
        field, state = vector_field(QuadraticLoss.population(task), weights), weights.flatten()
        left, right = rng.normal(size=(2, D, D))
        product = seconds(lambda left=left, right=right: left @ right)
        taken = seconds(lambda field=field, state=state: field(0.0, state))
        bound = (6 * D + 4 * D) * D**2 / (2 * D**3 / product)
        print(f"{D:>6} {taken * 1e6:>13.1f} us {2 * D**3 / product / 1e9:>17.2f} {bound * 1e6:>7.1f} us {taken / bound:>6.2f}")
    exponents(largest)


if __name__ == "__main__":
    main()
