"""Whether the claims hold for every seed of ``iclflow check --seed``.

    python benchmarks/seeds.py [--first 0] [--last 19] [--full] [--mistakes] [--claim WORD ...]

Each claim is measured with each seed, in one process. The table tells how many seeds it holds for, and its residuals over its tolerance.
With ``--mistakes`` a seed at which one of its planted mistakes is not caught counts as failing, too.
"""

import argparse
import sys

import numpy as np
from iclflow.verify.claims.book import Check, load
from iclflow.verify.experiments.draws import seeded
from iclflow.verify.training.descent import one_thread


def over_seeds(check: Check, seeds: range, mistakes: bool = False) -> tuple[list[int], list[float]]:
    """The seeds for which the claim fails, or misses one of its mistakes, and its residuals."""
    failing, residuals = [], []
    for seed in seeds:
        with seeded(seed), one_thread():
            found = check.run()
            missed = mistakes and any(check.run(one).status == "holds" for one in check.wrong)
        residuals.append(np.inf if found.residual is None else found.residual)
        if found.status == "fails" or missed:
            failing.append(seed)
    return failing, residuals


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--last", type=int, default=19)
    parser.add_argument("--full", action="store_true", help="the slow claims too")
    parser.add_argument("--mistakes", action="store_true", help="plant the mistakes of each claim, too")
    parser.add_argument("--claim", nargs="+", metavar="WORD", default=[""], help="only claims with one of these in their name or module")
    options = parser.parse_args()
    seeds, failed = range(options.first, options.last + 1), 0
    print(f"{'equation':12} {'claim':46} {'holds':>7} {'median':>9} {'largest':>9}  residuals, failing seeds")
    for check in load().select(full=options.full):
        if not any(word in f"{check.measure.__module__}.{check.name}" for word in options.claim):
            continue
        failing, residuals = over_seeds(check, seeds, options.mistakes)
        failed += bool(failing)
        row = f"{len(seeds) - len(failing):3}/{len(seeds):<3} {np.median(residuals):9.2g} {max(residuals):9.2g}"
        print(f"{check.equation:12} {check.name:46} {row}  of {check.tolerance.value:.2g} {failing or ''}", flush=True)
    print(f"{failed} claims fail for some seed" if failed else f"all claims hold for seeds {seeds[0]} to {seeds[-1]}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
