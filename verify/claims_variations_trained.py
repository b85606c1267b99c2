"""Claims about variations of the task, by training PyTorch attention on fresh sequences of each."""

from collections.abc import Callable

import numpy as np

from ..numerics.losses import QuadraticLoss
from ..numerics.tasks import RegressionTask
from .claims import claim
from .claims_variations import turning_levels
from .tolerances import TRAINED_VARIATION
from .variations import (
    ASKED,
    NOISY,
    OBLIQUE,
    PLAIN,
    SHORT,
    SIGNS,
    SPECTRUM,
    SPHERE,
    STUDENT,
    TURNING,
    levels,
    trained_plateaus,
    training,
)

MEAN_LENGTH = RegressionTask(eigenvalues=SPECTRUM, context_length=6)


def _against(name: str, expected: np.ndarray) -> float:
    """The largest relative error of the trained plateaus' losses; infinite if they are not as many."""
    found = trained_plateaus(name).levels
    return float(np.abs(found / expected - 1).max()) if len(found) == len(expected) else np.inf


def _plateaus(number: str, name: str, title: str, theory, wrong: dict[str, Callable]) -> None:
    def measure(expected) -> float:
        return _against(name, expected())

    measure.__name__ = f"trained_plateaus_{name.replace(' ', '_')}"
    claim(
        number, f"the losses on the plateaus of training {title}", method="training", tolerance=TRAINED_VARIATION,
        theory=theory, wrong=wrong, slow=True,
    )(measure)  # fmt: skip


_plateaus(
    "V1-levels", "noise", "with label noise of variance 1", lambda: levels(NOISY),
    {"no noise": lambda: levels(PLAIN), "noise on the target only": lambda: levels(PLAIN) + 1},
)  # fmt: skip
_plateaus(
    "V2-rotation", "turning", "where growth and drops order two directions otherwise", lambda: turning_levels(TURNING),
    {"the head stays": lambda: levels(TURNING), "the larger drop first": lambda: turning_levels(TURNING)[[0, 2, 1, 3]]},
)  # fmt: skip
_plateaus(
    "V2-fixed", "oblique", "where token, task and query covariance do not commute", lambda: levels(OBLIQUE),
    {"eigenvectors of Lambda": lambda: _along_eigenvectors(OBLIQUE)},
)  # fmt: skip
_plateaus(
    "V3-query", "query", "with a query law that turns the order around", lambda: levels(ASKED),
    {"the order of the tokens": lambda: levels(ASKED)[0] - np.append(0, np.cumsum(ASKED.modes.drops))},
)  # fmt: skip
_plateaus(
    "V4-levels", "random length", "on contexts of 1 to 10 tokens", lambda: levels(SHORT),
    {"the longest context": lambda: levels(PLAIN), "the mean length": lambda: levels(MEAN_LENGTH)},
)  # fmt: skip
for _name, _task in {"sphere": SPHERE, "Student": STUDENT, "signs": SIGNS}.items():
    _plateaus(
        "V5-independent" if _name == "signs" else "V5-elliptical", _name, f"on tokens of another law: {_name}",
        lambda task=_task: levels(task), {"Gaussian tokens": lambda: levels(PLAIN)},
    )  # fmt: skip


def _along_eigenvectors(task: RegressionTask) -> np.ndarray:
    """The levels if directions were eigenvectors of Lambda."""
    A, M, Q, c = task.loss_moments
    E = task.eigenvectors
    a, m, q = (np.diag(E.T @ one @ E) for one in (A, M, Q))
    return c - np.append(0, np.cumsum(np.sort(a**2 / (m * q))[::-1]))


@claim(
    "V3-test",
    "the loss of a trained network on contexts of three times the scale and 40 tokens, against the closed form",
    method="training",
    tolerance=TRAINED_VARIATION,
    theory=lambda test: QuadraticLoss.population(test).value(PLAIN.modes.effective_map()),
    wrong={
        "the loss of training": lambda test: levels(PLAIN)[-1],
        "the best map for the test": lambda test: QuadraticLoss.population(test).value(test.modes.effective_map()),
    },
    slow=True,
)
def trained_network_under_shift(loss) -> float:
    test = RegressionTask(eigenvalues=3 * PLAIN.eigenvalues, query_covariance=PLAIN.covariance, context_length=40)
    maps = training("plain").effective_maps()
    B = maps[-len(maps) // 20 :].mean(axis=0)
    return abs(QuadraticLoss.population(test).value(B) / loss(test) - 1)
