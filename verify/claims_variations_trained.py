"""Claims about variations of the task, by training PyTorch attention on fresh sequences of each."""

from collections.abc import Callable

import numpy as np
import torch

from ..numerics.tasks import RegressionTask
from .claims import claim
from .data import draw_sequences
from .models import ReducedSeparate
from .tolerances import TRAINED_ALGORITHM, TRAINED_VARIATION
from .variations import (
    ASKED,
    NOISY,
    OBLIQUE,
    PLAIN,
    RUNS,
    SIGNS,
    SPECTRUM,
    SPHERE,
    STUDENT,
    TURNING,
    levels,
    trained_plateaus,
    training,
    turning_levels,
)


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
for _name, _task in {"sphere": SPHERE, "Student": STUDENT, "signs": SIGNS}.items():
    _plateaus(
        "V5-independent" if _name == "signs" else "V5-elliptical", _name, f"on tokens of another law: {_name}",
        lambda task=_task: levels(task), {"Gaussian tokens": lambda: levels(PLAIN)},
    )  # fmt: skip


def ridge(penalty: float, X: torch.Tensor) -> torch.Tensor:
    """beta' (Lambda + (Lambda + penalty I)/N)^-1 x_q on prompts."""
    L, n = PLAIN.covariance, X.shape[-1] - 1
    B = torch.tensor(np.linalg.inv(L + (L + penalty * np.eye(len(L))) / n))
    beta = torch.einsum("pdn,pn->pd", X[:, :-1, :-1], X[:, -1, :-1]) / n
    return torch.einsum("pi,ij,pj->p", beta, B, X[:, :-1, -1])


@claim(
    "V1-ridge",
    "predictions on fresh prompts of a network trained with label noise, against ridge regression of penalty (tr Lambda + sigma^2)/N",
    method="training",
    tolerance=TRAINED_ALGORITHM,
    theory=lambda X: ridge(sum(SPECTRUM) + NOISY.noise_variance, X),
    wrong={
        "sigma^2/N, as of Bayes": lambda X: ridge(NOISY.noise_variance, X),
        "tr Lambda/N, as without noise": lambda X: ridge(sum(SPECTRUM), X),
    },
    slow=True,
)
def noise_makes_a_ridge(algorithm) -> float:
    X, _ = draw_sequences(NOISY, 5000, torch.Generator().manual_seed(27))
    state = {
        name: torch.tensor(values[-len(values) // 20 :].mean(axis=0))
        for name, values in training("noise").states.items()
    }
    network = ReducedSeparate(RUNS["noise"].weights)
    network.load_state_dict(state)
    with torch.no_grad():
        prediction = network(X)
    return float((prediction - algorithm(X)).square().mean() / prediction.square().mean())


def _along_eigenvectors(task: RegressionTask) -> np.ndarray:
    """The levels if directions were eigenvectors of Lambda."""
    A, M, Q, c = task.loss_moments
    E = task.eigenvectors
    a, m, q = (np.diag(E.T @ one @ E) for one in (A, M, Q))
    return c - np.append(0, np.cumsum(np.sort(a**2 / (m * q))[::-1]))
