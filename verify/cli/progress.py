"""Progress on standard error while a command works; nothing where that is no terminal."""

import sys
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
def clock(words: str) -> Iterator[None]:
    """The time passed, second by second, during work of unknown length."""
    from tqdm import tqdm

    done = Event()
    with tqdm(desc=words, bar_format="{desc}: {elapsed}", disable=not sys.stderr.isatty(), leave=False) as shown:

        def tick() -> None:
            while not done.wait(1):
                shown.refresh()

        Thread(target=tick, daemon=True).start()
        try:
            yield
        finally:
            done.set()
