r"""What a statement assumes: a sentence, a test of a point, and where it is needed a way to draw points that meet it.

>>> from iclflow.theory.notation import N
>>> short = Condition("$N > 3$", test=lambda point: point[N] > 3)
>>> short.text, short.holds({N: 5}), short.holds({N: 2})
('$N > 3$', True, False)
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Condition:
    """One condition of a statement.

    ``text``: a sentence with its mathematics between dollars. ``test``: does a point meet it? ``draw``: changes the values of a random
    point so that it does (commuting covariances, an eigenvector, balanced weights); ``outside``: so that it does not, where random points
    meet it. A condition without a test says what no point can show, such as a law of the data that the expectations themselves carry.
    """

    text: str
    test: Callable[[Any], bool] | None = None
    draw: Callable[[Any], Any] | None = None
    outside: Callable[[Any], Any] | None = None

    def __post_init__(self):
        if not isinstance(self.text, str) or not self.text:
            raise TypeError(f"Condition: text must be a sentence, got {self.text!r}")
        for name in ("test", "draw", "outside"):
            if (function := getattr(self, name)) is not None and not callable(function):
                raise TypeError(f"Condition: {name} must be a function of a point, got {function!r}")

    def holds(self, point: Any) -> bool:
        """Does the point meet the condition? True where it has no test."""
        return self.test is None or bool(self.test(point))

    def meet(self, point: Any) -> None:
        """Change the point so that it meets the condition, if there is a way to draw such points."""
        if self.draw is not None:
            self.draw(point)

    def __str__(self) -> str:
        return self.text


def conditions_of(given: Any, *task: Any) -> tuple[Condition, ...]:
    """Sentences and conditions as conditions; functions of the task give them for it, or for the paper's."""
    given = tuple(one(*task) if callable(one) else one for one in given)
    return tuple(one if isinstance(one, Condition) else Condition(one) for one in given)
