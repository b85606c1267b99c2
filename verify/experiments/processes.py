"""Processes that compute beside this one."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

# On small arrays, threads of the linear algebra only wait for each other, and change the order of summation.
SINGLE_THREADED = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


@contextmanager
def single_threaded() -> Iterator[None]:
    """Processes started inside the ``with`` block use one thread each."""
    before = {name: os.environ.get(name) for name in SINGLE_THREADED}
    os.environ.update(SINGLE_THREADED)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
