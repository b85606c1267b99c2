"""The run of a check, shared between this process and a second one.

Both take from one queue: claims from its front, here, and proofs in the paper's order from its back, there, until they meet. The claims of
a module share their runs, and stay together.
"""

import gc
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from multiprocessing import get_context
from multiprocessing.context import SpawnContext
from queue import Empty
from typing import Any, NamedTuple, cast

from ...theory.equations import equations
from ..claims.book import Claim, load
from .check import Entry, Evidence, Proof, Subject, in_the_paper, prove

Outcome = tuple[str, Proof | Claim]  # by the number of an equation, or the name of a claim
ALONE = 12  # so many equations are not worth a second process
UNKNOWN = 10**6  # more than a queue holds, until its length is known


class Item(NamedTuple):
    """Claims by name, or the proof of an equation by number."""

    claims: tuple[str, ...] = ()
    proof: str = ""

    @property
    def names(self) -> set[str]:
        return {f"({self.proof})"} if self.proof else set(self.claims)


class Second(NamedTuple):
    """The second process, and what it shares with this one: the queue, how much each has taken of how much, outcomes."""

    process: Any
    orders: Any
    taken: Any
    results: Any


@contextmanager
def second_process(seed: int, numbers: Sequence[str] = ()) -> Iterator[Second]:
    """A second process, which proves these equations, by default all, while this one loads the claims, and then takes from the queue."""
    # Linux can copy a process with the equations in it, but not safely one with threads, which NumPy and PyTorch may start.
    alone = threading.active_count() == 1 and "numpy" not in sys.modules
    if copied := sys.platform == "linux" and alone:
        equations()
    context = cast(SpawnContext, get_context("fork" if copied else "spawn"))  # either starts processes in the same way
    (given, orders), taken, results = context.Pipe(duplex=False), context.Array("i", (0, 0, UNKNOWN)), context.Queue()
    process = context.Process(target=_help, args=(seed, numbers, given, taken, results), daemon=True)
    process.start()
    try:
        yield Second(process, orders, taken, results)
    finally:
        process.terminate()


def run(subjects: Sequence[Subject], *, seed: int = 0, second: Second | None = None) -> Iterator[Evidence]:
    """The evidence after each subject that is complete, so that the caller can stop at any time and keep it.

    Verdicts do not depend on which process gives them. More than ``ALONE`` subjects start the ``second`` if all are not yet with it.
    """
    start = time.perf_counter()
    found: dict[str, Any] = {}  # a claim by name, a proof by the number in brackets
    entries: dict[str, Entry] = {}
    needed = {one.number: {f"({one.number})", *(check.name for check in one.checks)} for one in subjects}
    for name, outcome in _outcomes(subjects, seed, second):
        found[name] = outcome
        for one in subjects:
            if one.number not in entries and needed[one.number] <= found.keys():
                claims = tuple(found[check.name] for check in one.checks)
                entries[one.number] = Entry(one.number, one.title, one.kind, found[f"({one.number})"], claims, one.source)
                complete = tuple(entries[other.number] for other in subjects if other.number in entries)
                yield Evidence(complete, len(subjects), time.perf_counter() - start, seed)


def _outcomes(subjects: Sequence[Subject], seed: int, second: Second | None) -> Iterator[Outcome]:
    """Each proof and each claim, once, as soon as it is there."""
    sources = {one.number: one.source for one in subjects}
    checks = {check.name: check for one in subjects for check in one.checks}
    registry = {entry.number: entry for entry in equations()}
    known = all(source is None or registry.get(number) is source for number, source in sources.items())
    if len(subjects) > ALONE and known and all(load().checks.get(name) is check for name, check in checks.items()):
        numbers = [number for number, source in sources.items() if source]
        with nullcontext(second) if second else second_process(seed, numbers) as other:
            yield from _together(_queue(subjects), sources.__getitem__, checks.__getitem__, seed, other)
        return
    for one in subjects:
        for item in (Item(claims=tuple(check.name for check in one.checks)), Item(proof=one.number)):
            yield from _done(item, sources.__getitem__, checks.__getitem__, seed)


def _queue(subjects: Sequence[Subject]) -> list[Item]:
    """The claims by module, those that probably take longest first, then the proofs, the last equation's first."""
    modules: dict[str, list] = {}
    for check in (check for one in subjects for check in one.checks):
        modules.setdefault(check.measure.__module__, []).append(check)
    costs = {"training": 4, "descent": 4, "flow": 2}
    dearest = sorted(modules.values(), key=lambda checks: -sum(100 if one.slow else costs.get(one.method, 1) for one in checks))
    equations_first = sorted(subjects, key=lambda one: one.source is None)
    return [Item(tuple(one.name for one in checks)) for checks in dearest] + [Item(proof=one.number) for one in reversed(equations_first)]


def _done(item: Item, source_of: Callable, check_of: Callable, seed: int) -> Iterator[Outcome]:
    if item.proof:
        yield f"({item.proof})", prove(source_of(item.proof), seed)
        return
    from ..experiments.draws import seeded
    from ..training.descent import one_thread

    for name in item.claims:
        with one_thread(), seeded(seed):
            claim = check_of(name).run()
        yield name, claim


def _together(queue: list[Item], source_of: Callable, check_of: Callable, seed: int, second: Second) -> Iterator[Outcome]:
    second.taken[2] = len(queue)
    second.orders.send(queue)
    missing = set().union(*(item.names for item in queue))
    for place in _places(second.taken, 0):
        for name, outcome in _done(queue[place], source_of, check_of, seed):
            missing.discard(name)
            yield name, outcome
            for theirs in _arrived(second.results):
                missing.discard(theirs[0])
                yield theirs
    while missing and (second.process.is_alive() or not second.results.empty()):
        try:
            name, outcome = second.results.get(timeout=0.2)
        except Empty:
            continue
        missing.discard(name)
        yield name, outcome
    for item in queue:  # what a second process that was killed has left
        for name, outcome in _done(item, source_of, check_of, seed) if missing & item.names else ():
            if name in missing:
                yield name, outcome
    second.process.join(5)  # it releases what it holds


def _places(taken: Any, end: int) -> Iterator[int]:
    """Places in the queue, taken from the front (end 0), or from the back as -1, -2, ... (end 1), until all are taken."""
    while True:
        with taken.get_lock():
            if taken[0] + taken[1] >= taken[2]:
                return
            taken[end] += 1
            place = -taken[1] if end else taken[0] - 1
        yield place


def _arrived(results: Any) -> Iterator[Outcome]:
    with suppress(Empty):
        while True:
            yield results.get_nowait()


def _help(seed: int, numbers: Sequence[str], orders: Any, taken: Any, results: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that prints the evidence
    known = {entry.number: entry for entry in equations()}
    gc.freeze()  # what has been imported stays: the collector need not look at it again, and hardly ever at the rest
    gc.set_threshold(200_000, 20, 20)
    queue = [Item(proof=number) for number in reversed(numbers or sorted(known, key=in_the_paper))]
    for place in _places(taken, 1):
        if -place > len(queue):  # the equations are proved: on to the claims before them in the queue
            queue = orders.recv()
        for outcome in _done(queue[place], known.get, lambda name: load().checks[name], seed):
            results.put(outcome)
