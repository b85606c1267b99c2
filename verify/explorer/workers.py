"""Answers computed in processes of their own, so that none can hold up or bring down the server.

A computation that takes too long or too much memory, or whose client has gone, ends with its process; a new one takes its place.
"""

import signal
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from queue import Empty, SimpleQueue
from typing import Any

from ..experiments.processes import single_threaded

MEMORY = 3 * 2**30  # bytes of address space beyond what a worker has when it starts
STARTING = 120.0  # seconds at most for a process to load what it needs
POLL = 0.1  # seconds between two looks at whether the client is still there
GRACE = 2.0  # seconds that a computation is left alone even so: a new process takes longer to start


class BusyError(Exception):
    """No worker became free in time."""


class TooLongError(Exception):
    """The computation was given up."""


class Workers:
    """``count`` processes that compute ``function``, one argument each at a time.

    Each begins with ``first``, if that is given, so that what is derived once is there when the first answer is waited for.
    """

    def __init__(self, function: Callable[[str], bytes], count: int = 2, first: str | None = None) -> None:
        self._free: SimpleQueue[_Worker] = SimpleQueue()
        self._all = [_Worker(function, first) for _ in range(count)]
        for worker in self._all:
            self._free.put(worker)

    def compute(self, argument: str, *, patience: float, deadline: float, wanted: Callable[[], bool] = lambda: True) -> bytes:
        """The function's value.

        Raises ``BusyError`` if no worker is free within ``patience`` seconds, ``TooLongError`` if it takes more than ``deadline``, or
        is no longer ``wanted``, and ``MemoryError``.
        """
        try:
            worker = self._free.get(timeout=patience)
        except Empty:
            raise BusyError from None
        try:
            return worker.compute(argument, deadline, wanted)
        finally:
            self._free.put(worker)

    def close(self) -> None:
        for worker in self._all:
            worker.stop()


class _Worker:
    def __init__(self, *work: Any) -> None:
        self._work = work
        self._start()

    def _start(self) -> None:
        context = get_context("spawn")
        self._end, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(theirs, *self._work), daemon=True)
        with single_threaded():
            self._process.start()
        self._ready = False
        theirs.close()

    def compute(self, argument: str, deadline: float, wanted: Callable[[], bool]) -> bytes:
        try:
            self._ready = self._ready or (self._end.poll(STARTING) and self._end.recv())
            self._end.send(argument)
            for look in range(round(deadline / POLL)):
                if self._end.poll(POLL):
                    value: Any = self._end.recv()
                    if isinstance(value, MemoryError):
                        raise value
                    return value
                if look * POLL > GRACE and not wanted():
                    break
            raise TooLongError
        except (TooLongError, MemoryError, EOFError, OSError) as problem:
            self.stop()
            self._start()
            raise problem if isinstance(problem, TooLongError | MemoryError) else MemoryError("the process was ended") from problem

    def stop(self) -> None:
        self._process.kill()
        self._process.join()
        self._end.close()


def _work(end: Connection, function: Callable[[str], bytes], first: str | None) -> None:
    """The loop of a worker: it ends when the server does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(ImportError, ValueError, OSError):  # a system without such limits
        _limit_memory()
    with suppress(EOFError, ConnectionError):  # the server has gone
        if first is not None:
            function(first)
        end.send(True)
        while True:
            argument = end.recv()
            try:
                end.send(function(argument))
            except MemoryError as problem:
                end.send(MemoryError(str(problem)))


def _limit_memory() -> None:
    import resource

    with open("/proc/self/statm", encoding="ascii") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
