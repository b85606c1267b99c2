"""Progress on standard error while a command works; nothing where that is no terminal."""

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tqdm import tqdm


def bar(words: str, items: Iterable | None = None, *, total: float | None = None) -> "tqdm":
    """A bar with the time passed and left, around items or filled by hand up to ``total``; it vanishes at the end."""
    from tqdm import tqdm

    layout = "{desc}: {percentage:3.0f} % |{bar}| {elapsed} passed, {remaining} left"
    return tqdm(items, total=total, desc=words, bar_format=layout, smoothing=0, disable=not sys.stderr.isatty(), leave=False)


@contextmanager
def clock(words: str, patience: float = 2.0) -> Iterator[None]:
    """Say on a terminal, once a second, how long work of unknown length has taken, if it takes more than ``patience`` seconds."""
    done = Event()

    def tell() -> None:
        began = time.monotonic()
        if done.wait(patience):
            return
        while not done.wait(1.0):
            print(f"\r{words}: {time.monotonic() - began:.0f} s, Ctrl-C stops it", end="", file=sys.stderr, flush=True)
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    teller = Thread(target=tell, daemon=True)
    if sys.stderr.isatty():
        teller.start()
    try:
        yield
    finally:
        done.set()
        if teller.is_alive():
            teller.join()
