"""Plant one fault at a time in a line of a derivation, and see whether the judge notices.

    python benchmarks/line_mutations.py [--equation N ...] [--jobs 2] [--survivors]

Faults: a side three times as large, transposed, with N + 1 for N, with the sign of one term changed, a sum that starts later; the relation
turned round; the order of a limit raised by one; a definition three times as large, which the lines after it must contradict. A fault
that the algebra proves equal to the line is no fault. What survives is named; the exit code is 1 if anything does.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple

from iclflow.theory.algebra.polynomial import TracePolynomial
from iclflow.theory.derivations.derivation import Derivation
from iclflow.theory.derivations.heads import as_sympy
from iclflow.theory.derivations.judging.exact import exactly_equal, rules_of
from iclflow.theory.derivations.lines import Line
from iclflow.theory.equations import equation, equations
from iclflow.theory.notation import N
from sympy import Add, Basic, MatAdd, MatrixBase, Sum
from sympy.matrices.expressions import MatrixExpr

TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "!=", "!=": "=", "<=>": None, "=>": None, "->": None, "~": None, ":=": None}


class Outcome(NamedTuple):
    number: str
    line: int
    fault: str
    result: str  # caught, equal or survived


def changed_sides(side: Any) -> Iterator[tuple[str, Any]]:
    """Wrong versions of a side, each with its name."""
    if side is None or isinstance(side, Line | tuple) or not isinstance(side, Basic | TracePolynomial | MatrixBase):
        return
    formula = as_sympy(side)
    if formula == 0:
        return
    yield "three times", 3 * formula
    shape = getattr(formula, "shape", None)
    if shape not in (None, (1, 1)) and shape[0] == shape[1]:
        yield "transposed", formula.T
    if N in getattr(formula, "free_symbols", set()):
        yield "N + 1 for N", formula.subs(N, N + 1)
    if isinstance(formula, Add | MatAdd):
        first, *rest = formula.args
        yield "one sign", formula.func(-first, *rest)
    for total in sorted(formula.atoms(Sum), key=str)[:1] if not isinstance(formula, MatrixExpr) else ():
        index, low, high = total.limits[0]
        yield ("a sum that starts later", formula.xreplace({total: Sum(total.function, (index, low + 1, high), *total.limits[1:])}))


def faults(line: Line) -> Iterator[tuple[str, Line]]:
    if line.relation != "!=":  # what differs differs from most other things too
        for name, side in changed_sides(line.right):
            if not (line.relation in ("->", "~") and name == "N + 1 for N"):  # which keeps a limit, and the order of most errors
                yield f"right: {name}", replace(line, right=side)
    if line.relation in ("=", "<", "<=", ">", ">=", "->", "~"):
        for name, side in changed_sides(line.left):
            if not (line.relation in ("->", "~") and name == "N + 1 for N"):
                yield f"left: {name}", replace(line, left=side)
    if TURNED[line.relation]:
        yield "relation", replace(line, relation=TURNED[line.relation])
    if line.relation in ("->", "~") and isinstance(line.order, int):
        yield "order", replace(line, order=line.order + 1)


def outcome(number: str, place: int, name: str, wrong: Line, lines: tuple[Line, ...]) -> Outcome:
    right = lines[place]
    if right.relation == ":=":  # the lines after it must contradict the changed definition
        later = Derivation.by(*(wrong if i == place else line for i, line in enumerate(lines))).lines[place + 1 :]
        if exactly_equal(wrong.right, right.right, rules_of(right)):
            return Outcome(number, place, name, "equal")
        caught = any(line.verify().status == "fails" for line in later)
        return Outcome(number, place, name, "caught" if caught else "survived")
    if wrong.verify().status == "fails":
        return Outcome(number, place, name, "caught")
    if wrong.relation == right.relation and name != "order":
        side = "right" if name.startswith("right") else "left"
        one, other = getattr(wrong, side), getattr(right, side)
        if exactly_equal(one, other, rules_of(right)):
            return Outcome(number, place, name, "equal")
    return Outcome(number, place, name, "survived")


def try_entry(number: str) -> list[Outcome]:
    lines = equation(number).lines
    found = []
    for place, line in enumerate(lines):
        if line.left is None:
            continue
        for name, wrong in faults(line):
            try:
                found.append(outcome(number, place, name, wrong, lines))
            except Exception as problem:  # a fault that no judge can read is noticed
                found.append(Outcome(number, place, f"{name} ({type(problem).__name__})", "caught"))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--equation", nargs="+", metavar="N", help="these entries only")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    numbers = options.equation or [entry.number for entry in equations()]
    start, outcomes = time.perf_counter(), []
    with ProcessPoolExecutor(options.jobs) as pool:
        for found in pool.map(try_entry, numbers):
            outcomes += found
            for one in found:
                if one.result == "survived":
                    print(f"survived: ({one.number}) line {one.line}: {one.fault}", flush=True)
    counts = Counter(one.result for one in outcomes)
    faulty = counts["caught"] + counts["survived"]
    print(
        f"{len(outcomes)} faults in {len(numbers)} entries: {counts['caught']} of {faulty} caught, {counts['equal']} proven equal, "
        f"{counts['survived']} survived, in {time.perf_counter() - start:.0f} s"
    )
    return 1 if counts["survived"] else 0


if __name__ == "__main__":
    sys.exit(main())
