"""Whether the lines and the claims hold for every seed of ``iclflow check --seed``.

    python benchmarks/seeds.py [--first 0] [--last 19] [--lines | --claims] [--equation N ...] [--full] [--mistakes] [--claim WORD ...]

All in one process, and lines first, but for ``--claim``. Each line is judged with each seed; what fails is named, and what is not as it is
at seed 0: the status of a line, whether a condition is needed. Each claim is measured with each seed; the table tells how many seeds it
holds for, and its residuals over its tolerance. With ``--mistakes`` a seed at which one of its planted mistakes is not caught counts as
failing, too.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator

import numpy as np
from iclflow.verify.claims.book import Check, load
from iclflow.verify.evidence.check import Subject, plan, prove
from iclflow.verify.experiments.draws import seeded
from iclflow.verify.training.descent import one_thread


def judged(subjects: Iterable[Subject], seed: int) -> Iterator[tuple[str, str]]:
    """(what, verdict) for each line, each condition and each entry as a whole."""
    for one in subjects:
        proof = prove(one.source, seed)
        for place, line in enumerate(proof.lines, 1):
            yield f"({one.number}) line {place}", line.status
        for condition in proof.conditions:
            yield f"({one.number}) needed: {condition.text}", str(condition.needed)
        yield f"({one.number})", f"{proof.status}: {proof.error}" if proof.error else proof.status


def lines_over_seeds(subjects: Iterable[Subject], seeds: range) -> int:
    """Print what fails or is not as at seed 0. At how many seeds there is such a thing."""
    usual, unlike = dict(judged(subjects, 0)), 0
    for seed in seeds:
        found = usual if seed == 0 else dict(judged(subjects, seed))
        named = [one for one in usual | found if found.get(one) != usual.get(one) or found[one].startswith("fails")]
        print(f"seed {seed}: {len(found)} verdicts, {len(named)} that fail or are others than at seed 0", flush=True)
        for one in named:
            other = "" if found.get(one) == usual.get(one) else f"; at seed 0 {usual.get(one)}"
            print(f"    {one}: {found.get(one)}{other}", flush=True)
        unlike += bool(named)
    return unlike


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


def claims_over_seeds(checks: Iterable[Check], seeds: range, mistakes: bool = False) -> int:
    """Print the table of claims. How many fail for some seed."""
    failed = 0
    print(f"{'equation':12} {'claim':46} {'holds':>7} {'median':>9} {'largest':>9}  residuals, failing seeds")
    for check in checks:
        failing, residuals = over_seeds(check, seeds, mistakes)
        failed += bool(failing)
        row = f"{len(seeds) - len(failing):3}/{len(seeds):<3} {np.median(residuals):9.2g} {max(residuals):9.2g}"
        print(f"{check.equation:12} {check.name:46} {row}  of {check.tolerance.value:.2g} {failing or ''}", flush=True)
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--last", type=int, default=19)
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--lines", action="store_true", help="the lines only")
    kind.add_argument("--claims", action="store_true", help="the claims only")
    parser.add_argument("--equation", nargs="+", metavar="N", help="only lines and claims of these entries")
    parser.add_argument("--full", action="store_true", help="the slow claims too")
    parser.add_argument("--mistakes", action="store_true", help="plant the mistakes of each claim, too")
    parser.add_argument("--claim", nargs="+", metavar="WORD", help="only claims with one of these in their name or module")
    options = parser.parse_args()
    seeds = range(options.first, options.last + 1)
    subjects, failed = plan(options.equation), []
    if options.lines or not (options.claims or options.claim):
        unlike = lines_over_seeds([one for one in subjects if one.source], seeds)
        failed += [f"lines fail, or are judged otherwise than at seed 0, at {unlike} seeds"] if unlike else []
    if not options.lines:
        checks = load().select([one.number for one in subjects], full=options.full)
        named = [one for one in checks if any(word in f"{one.measure.__module__}.{one.name}" for word in options.claim or [""])]
        failing = claims_over_seeds(named, seeds, options.mistakes)
        failed += [f"{failing} claims fail for some seed"] if failing else []
    print("\n".join(failed) or f"all hold for seeds {seeds[0]} to {seeds[-1]}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
