"""Random numbers of the claims: every generator has a key, and all share the seed of ``iclflow check --seed``."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, wraps
from inspect import signature
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import numpy as np

if TYPE_CHECKING:
    import torch

P = ParamSpec("P")
R = TypeVar("R")
_seed: ContextVar[int] = ContextVar("seed", default=0)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draw with this seed in the block; 0 outside it. Raises ``ValueError`` for a seed that is not an integer of at least 0."""
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise ValueError(f"seed must be an integer of at least 0, got {seed!r}")
    token = _seed.set(seed)
    try:
        yield
    finally:
        _seed.reset(token)


def generator(*key: int) -> np.random.Generator:
    """NumPy's generator for a key."""
    return np.random.default_rng([_seed.get(), *key])


def number(*key: int) -> int:
    """The seed of a key, for what takes a seed itself."""
    return int(generator(*key).integers(2**31))


def torch_generator(*key: int) -> "torch.Generator":
    """PyTorch's generator for a key."""
    import torch

    return torch.Generator().manual_seed(number(*key))


def remembered(function: Callable[P, R]) -> Callable[P, R]:
    """``functools.cache`` that keeps the results of each seed apart; an argument left out is its default."""
    parameters, results = signature(function), cache(lambda _seed, *args, **kwargs: function(*args, **kwargs))

    @wraps(function)
    def recall(*args: P.args, **kwargs: P.kwargs) -> R:
        bound = parameters.bind(*args, **kwargs)
        bound.apply_defaults()
        return results(_seed.get(), *bound.args, **bound.kwargs)

    return recall
