"""Cost of one right-hand side of the flow against its bound by matrix products, for D = 4 ... 256 with H = D heads.

    OMP_NUM_THREADS=1 python benchmarks/scaling.py

The products of a right-hand side of separate attention (rank one) take (6 H R + 4 D) D^2 operations: three of (H R, D) with
(D, D), and M B Lambda. The bound is that count at the rate at which this machine multiplies two D x D matrices, measured
in the same run. Below D = 32 the calls themselves, about half a microsecond each, are the cost.

Then the exponents x of time ~ size^x, fitted by least squares of logarithms: of a right-hand side with the dimension (from 64) and with the
number of heads, of a flow with the number of runs side by side, and of the first fixed points in order of loss with their number k.
"""

import argparse
import os
import timeit
from itertools import islice

import numpy as np
from iclflow.numerics import QuadraticLoss, RegressionTask, SeparateWeights, fixed_point_sets, gradient_flow
from iclflow.numerics.parametrizations.base import vector_field


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
    largest = parser.parse_args().largest
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
