"""Plant one fault at a time in a line of a derivation, and see whether the judge notices.

    python benchmarks/line_mutations.py [--equation N ...] [--each 2] [--jobs 2] [--seconds 20]

Faults of a side: three times as large, transposed, with N + 1 for N, with the sign of one term changed, a sum that starts later; of an
implication: the same in its conclusion. Faults of a line: the relation turned round, the order of a limit raised by one, a use left out. Of
an entry: a condition left out, or not met while the others are. Of a definition: the faults of a side, which the statement, later lines, an
entry that uses it or a claim about it must contradict. What the judge proves equal to the line, under its own conditions, is no fault, nor
is a use left out of a line that it proves without; of a line that it then cannot decide the use is missed. What survives is named; the exit
code is 1 if anything does.
"""

import argparse
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from random import Random
from typing import Any, NamedTuple

from iclflow.theory.algebra.polynomial import TracePolynomial
from iclflow.theory.derivations.book import entries
from iclflow.theory.derivations.derivation import Derivation
from iclflow.theory.derivations.heads import Head, as_sympy
from iclflow.theory.derivations.lines import Line
from iclflow.theory.derivations.registry import Equation
from iclflow.theory.equations import equation, equations
from iclflow.theory.notation import N
from iclflow.verify.claims.book import load
from sympy import Add, Basic, MatAdd, MatrixBase, Sum
from sympy.matrices.expressions import MatrixExpr

TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "!=", "!=": "="}
KINDS = ("left side", "right side", "conclusion", "relation", "order", "use", "condition", "definition")
RESULTS = ("caught", "equal", "too slow", "survived")


class TooSlow(BaseException):
    """Which no judge takes for a line that it cannot decide."""


class Fault(NamedTuple):
    """A kind of fault, in words; what carries it, and the line that says that it is none."""

    kind: str
    text: str
    wrong: Any
    harmless: Line | None = None


class Outcome(NamedTuple):
    number: str
    place: int
    kind: str
    text: str
    result: str


def changed_sides(side: Any) -> Iterator[tuple[str, Any]]:
    """Wrong versions of a side, each with its name."""
    if not isinstance(side, Basic | TracePolynomial | MatrixBase):
        return
    formula = as_sympy(side)
    if formula == 0:
        return
    inside = isinstance(formula, Head) and hasattr(formula, "given")  # an expectation may have to be sampled
    yield "three times", formula.func(3 * formula.args[0], *formula.args[1:]) if inside else 3 * formula
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
        yield "a sum that starts later", formula.xreplace({total: Sum(total.function, (index, low + 1, high), *total.limits[1:])})


def faults(line: Line) -> Iterator[Fault]:
    """Faults of one line that is no definition; a multiple of what goes to zero goes there too, and bounds may be loose."""
    limit = line.relation in ("->", "~")
    for name in ("left", "right") if line.relation == "=" or (limit and 0 not in (line.left, line.right)) else ():
        for text, side in changed_sides(getattr(line, name)):
            if not (limit and text == "N + 1 for N"):  # which keeps a limit, and the order of most errors
                symmetric = limit and text == "transposed"  # what a transpose goes to, too
                one, other = (as_sympy(line.right).T, line.right) if symmetric else (side, getattr(line, name))
                same = replace(line, left=one, relation="=", right=other, parameter=None, order=None)
                yield Fault(f"{name} side", text, replace(line, **{name: side}), same)
    if line.relation in ("=>", "<=>"):
        conclusions = line.right if isinstance(line.right, tuple) else (line.right,)
        for place, one in enumerate(conclusions):
            for fault in faults(one) if isinstance(one, Line) else ():
                if not (0 in (one.left, one.right) and fault.text in ("three times", "transposed")):
                    wrong = (*conclusions[:place], fault.wrong, *conclusions[place + 1 :])
                    same = fault.harmless and replace(line, left=fault.harmless.left, relation="=", right=fault.harmless.right)
                    if len(conclusions) > 1:  # it may say the same beside the others
                        same = replace(line, left=conclusions, relation="<=>", right=wrong, meets=line.meets[1:] * 2)
                    yield Fault("conclusion", f"{fault.kind} {fault.text}", replace(line, right=wrong), same)
    if line.relation in TURNED:
        yield Fault("relation", "turned", replace(line, relation=TURNED[line.relation]))
    if limit and line.order is not None:
        small = line.parameter[0] if isinstance(line.parameter, tuple) else 1 / line.parameter
        yield Fault("order", "raised", replace(line, order=line.order + 1 if isinstance(line.order, int) else line.order * small))
    for use in line.uses:
        without = replace(line, uses=tuple(one for one in line.uses if one != use))
        yield Fault("use", f"of {use}", without, without)


def definition_faults(line: Line) -> Iterator[Fault]:
    for text, side in changed_sides(line.right):
        yield Fault("definition", text, replace(line, right=side), replace(line, left=side, relation="="))


@cache
def users() -> dict[str, list[Line]]:
    """{number: the lines of all entries that use it}."""
    found = defaultdict(list)
    for line in (line for entry in equations() for line in entry.lines):
        for use in line.uses:
            found[use].append(line)
    return found


@contextmanager
def planted(entry: Equation) -> Iterator[None]:
    """The registry with one entry in place of that of its number."""
    right = entries[entry.number]
    entries[entry.number] = entry
    try:
        yield
    finally:
        entries[entry.number] = right


def fails(lines: Iterable[Line]) -> bool:
    return any(line.verify().status == "fails" for line in lines)


@cache
def needed(number: str) -> dict[str, bool]:
    """For each condition of an entry, whether a line fails at a point outside it alone."""
    return {condition.text: bool(found) for condition, found, _ in equation(number).needed()}


def definition_is_held(number: str, wrong: Equation) -> bool:
    """Does its derivation, a line that uses the definition, or a claim about it contradict the wrong one?"""
    found = users()[number]
    with planted(wrong):
        return not wrong.holds() or fails(found) or any(check.run().status == "fails" for check in load().select([number]))


def caught(fault: Fault, number: str, place: int) -> bool:
    if fault.kind == "condition":
        return fails(fault.wrong) or needed(number)[fault.text]
    if fault.kind != "definition":
        noticed = ("fails", "assumed") if fault.kind == "use" else ("fails",)
        return fault.wrong.verify().status in noticed
    entry, lines = equation(number), equation(number).lines
    if entry.derivation is None:
        parts = {**entry.parts, lines[place].part: fault.wrong.right}
        return definition_is_held(number, replace(entry, typed=lambda: parts if len(parts) > 1 else fault.wrong.right))
    derivation = Derivation.by(*(fault.wrong if i == place else line for i, line in enumerate(lines)))
    return fails(derivation.lines[place + 1 :]) or definition_is_held(number, replace(entry, conditions=(), derivation=lambda: derivation))


def planned(number: str, each: int) -> Iterator[tuple[int, Fault]]:
    """The faults of an entry: of each line at most so many, chosen at random, of which no two are of one kind while there are others."""
    entry, rng = equation(number), Random(number)
    for place, line in enumerate(entry.lines):
        found = list((definition_faults if line.relation == ":=" else faults)(line)) if line.left is not None else []
        rng.shuffle(found)
        seen: Counter[str] = Counter()
        ranks = [seen.update([fault.kind]) or seen[fault.kind] for fault in found]
        yield from ((place, fault) for _, fault in sorted(zip(ranks, found, strict=True), key=lambda pair: pair[0])[:each])
    for condition in entry.conditions if entry.derivation and all(line.left is not None for line in entry.lines) else ():
        if condition.test or condition.draw:
            kept = [replace(line, conditions=[one for one in line.conditions if one is not condition]) for line in entry.lines]
            yield -1, Fault("condition", condition.text, kept)


def outcome(number: str, place: int, fault: Fault, seconds: int) -> str:
    def too_slow(*_: object) -> None:
        raise TooSlow

    signal.signal(signal.SIGALRM, too_slow)
    signal.alarm(seconds)
    try:
        if caught(fault, number, place):
            return "caught"
        return "equal" if fault.harmless is not None and fault.harmless.verify().status in ("exact", "numeric") else "survived"
    except TooSlow:
        return "too slow"
    except Exception:  # a fault that no judge can read is noticed
        return "caught"
    finally:
        signal.alarm(0)


def try_entry(number: str, each: int, seconds: int) -> list[Outcome]:
    return [
        Outcome(number, place, fault.kind, fault.text, outcome(number, place, fault, seconds)) for place, fault in planned(number, each)
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--equation", nargs="+", metavar="N", help="these entries only")
    parser.add_argument("--each", type=int, default=2, help="faults of a line at most")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=int, default=20, help="for one fault")
    options = parser.parse_args()
    numbers = options.equation or [entry.number for entry in equations()]
    start, outcomes = time.perf_counter(), []
    load(), users()  # once, for all processes
    with ProcessPoolExecutor(options.jobs) as pool:
        for found in pool.map(partial(try_entry, each=options.each, seconds=options.seconds), numbers):
            outcomes += found
            for one in found:
                if one.result in ("survived", "too slow"):
                    print(f"{one.result}: ({one.number}) line {one.place}: {one.kind} {one.text}", flush=True)
    print(f"\n{'fault':12}" + "".join(f"{title:>10}" for title in ("planted", *RESULTS)))
    for kind in (*KINDS, "all"):
        counts = Counter(one.result for one in outcomes if kind in (one.kind, "all"))
        print(f"{kind:12}" + "".join(f"{count:10}" for count in (counts.total(), *(counts[result] for result in RESULTS))))
    print(f"in {time.perf_counter() - start:.0f} s")
    return 1 if any(one.result == "survived" for one in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
