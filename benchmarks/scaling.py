"""Cost of one right-hand side of the flow against its bound by matrix products, for D = 4 ... 256 with H = D heads.

    OMP_NUM_THREADS=1 python benchmarks/scaling.py

The products of a right-hand side of separate attention (rank one) take (6 H R + 4 D) D^2 operations: three of (H R, D) with
(D, D), and M B Lambda. The bound is that count at the rate at which this machine multiplies two D x D matrices, measured
in the same run. Below D = 32 the calls themselves, about half a microsecond each, are the cost.
"""

import argparse
import os
import timeit

import numpy as np
from iclflow.numerics import QuadraticLoss, RegressionTask, SeparateWeights
from iclflow.numerics.parametrizations.base import vector_field


def seconds(call, *, budget: float = 0.3) -> float:
    """The best time of one call, over repeats that fill ``budget``."""
    number = max(1, int(budget / 5 / max(min(timeit.repeat(call, number=1, repeat=3)), 1e-7)))
    return min(timeit.repeat(call, number=number, repeat=5)) / number


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


if __name__ == "__main__":
    main()
