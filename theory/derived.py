"""What a derivation gives: the last expression, and the steps that led to it."""

from typing import Any, NamedTuple

__all__ = ["Derived"]


class Derived(NamedTuple):
    """A computed result with its steps, each a rule in words and the expression it gave; the last expression is the result."""

    result: Any
    steps: tuple[tuple[str, Any], ...]

    @classmethod
    def by(cls, *steps: tuple[str, Any]) -> "Derived":
        return cls(steps[-1][1], steps)
