"""How many of the planted mistakes the claims catch: every claim, with each of its wrong theories in place of the right one.

Run as ``python benchmarks/planted_mistakes.py [--full]``; exit code 1 unless every claim holds and every mistake is caught. A
mistake counts as caught where the measured residual exceeds the tolerance, not where an exception ended the measurement.
"""

import argparse
import sys
import time
from collections.abc import Iterator

from iclflow.verify.claims.book import Check, load
from iclflow.verify.training.descent import one_thread


def misses(check: Check) -> Iterator[str]:
    """What is wrong with a claim: it does not hold, or a mistake passes, or ends in an exception."""
    claim = check.run()
    if claim.status != "holds":
        yield f"does not hold: residual {claim.residual}, tolerance {claim.tolerance}, {claim.error or ''}"
    for mistake in check.wrong:
        planted = check.run(mistake)
        if planted.status == "holds":
            yield f"passes with {mistake!r}: residual {planted.residual}"
        elif planted.error and planted.error != "residual is inf":
            yield f"ends in an exception with {mistake!r}: {planted.error}"


def main() -> int:
    """Print each miss, and the count."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="the slow claims too")
    checks = load().select(full=parser.parse_args().full)
    planted, missed, start = sum(len(check.wrong) for check in checks), 0, time.perf_counter()
    with one_thread():
        for check in checks:
            for miss in misses(check):
                missed += 1
                print(f"({check.equation}) {check.name} {miss}")
    print(f"{len(checks)} claims, {planted - missed} of {planted} planted mistakes caught, in {time.perf_counter() - start:.0f} s")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
