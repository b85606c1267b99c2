"""Claims about variations of the task (V1, V2, V3, V5): statements of the registry against PyTorch attention trained on each of them."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float

from ....numerics.compilation.equations import compiled
from ....numerics.dynamics.flow import gradient_flow
from ....numerics.parametrizations.attention import SeparateWeights
from ....numerics.tasks.regression import RegressionTask
from ....theory.calculus.spectral import directions
from ....theory.notation import D, Lambda, N, T, a, lambda_, sigma
from ....theory.results.landscape import any_quadratic_loss
from ....theory.results.variations.shift import lambda_q
from ....theory.results.variations.token_laws import kappa, kurtosis, nu
from ...experiments import draws
from ...experiments.plateau_maps import plateau_losses, settled_network
from ...experiments.varied_tasks import (
    ASKED,
    LENGTH,
    NOISY,
    OBLIQUE,
    PLAIN,
    RUNS,
    SPECTRUM,
    TURNING,
    against,
    levels,
    trained_plateaus,
    turning_levels,
)
from ...training.sequences import draw_sequences
from ..book import claim
from ..tolerances import LEADING_ORDER, TRAINED_ALGORITHM, TRAINED_EARLY_DROPS, TRAINED_LEVEL, TRAINED_VALUES, TRAINED_VARIATION
from .task_covariance import whitened_letters

Levels = Float[np.ndarray, " D+1"]
TOTAL = sum(SPECTRUM)
NOISE = NOISY.noise_variance**0.5


def _plateaus(number: str, name: str, title: str, theory: Callable, wrong: dict[str, Callable]) -> None:
    def measure(expected) -> float:
        return against(plateau_losses(name), expected())

    measure.__name__ = f"trained_plateaus_{name.replace(' ', '_')}"
    claim(
        number, f"the losses of the maps on the plateaus of training {title}", method="training", tolerance=TRAINED_LEVEL,
        theory=theory, wrong=wrong, slow=True,
    )(measure)  # fmt: skip


def noisy_levels(change: Mapping | None = None) -> Callable[[], Levels]:
    """(V1-levels) with the first m directions learned, m = 0, 1, 2, 3."""

    def value() -> Levels:
        loss = compiled("V1-levels", (*directions(3), T, sigma, N), part="loss", change=change, size=3)
        return np.array([loss(*SPECTRUM, *(np.arange(3) < m).astype(float), TOTAL, NOISE, LENGTH) for m in range(4)])

    return value


def fixed_levels(change: Mapping | None = None) -> Callable[[], Levels]:
    """(V2-fixed): the share of one direction after the other, for the singular values of the whitened A."""

    def value() -> Levels:
        target, _, c = whitened_letters(OBLIQUE, np.zeros((3, 3)))
        values = np.linalg.svd(target, compute_uv=False)
        share = compiled(
            "V2-fixed", (any_quadratic_loss.c_any, any_quadratic_loss.s_i, any_quadratic_loss.B_ii), part="loss", change=change
        )
        losses = [c]
        for one in values:
            losses.append(float(share(losses[-1], one, one)))
        return np.array(losses)

    return value


def query_levels(change: Mapping | None = None, first: str = "rate") -> Callable[[], Levels]:
    """(V3-query): the drops of the directions, the largest rate first."""

    def value() -> Levels:
        asked, moments = np.diag(ASKED.query_covariance), PLAIN.second_moment_eigenvalues
        parts = {
            part: compiled("V3-query", (lambda_, lambda_q, a), part=part, change=change)(ASKED.eigenvalues, asked, moments)
            for part in ("rate", "drop")
        }
        parts["lambda"] = ASKED.eigenvalues
        return asked.sum() - np.append(0, np.cumsum(parts["drop"][np.argsort(-parts[first])]))

    return value


def token_levels(second: Callable[[], np.ndarray]) -> Callable[[], Levels]:
    """T minus the sum of lambda^3/a over the learned directions."""
    return lambda: TOTAL - np.append(0, np.cumsum(PLAIN.eigenvalues**3 / second()))


def elliptical(law: str, change: Mapping | None = None) -> Callable[[], Levels]:
    """The levels with a of (V5-elliptical) and kappa of the sphere or of Student's law."""

    def second() -> np.ndarray:
        of_law = {"sphere": ((D,), len(SPECTRUM)), "student": ((nu,), 8)}
        letters, number = of_law[law]
        value = float(compiled("V5-elliptical", letters, part=law)(number))
        return compiled("V5-elliptical", (lambda_, T, kappa, N), part="a", change=change)(PLAIN.eigenvalues, TOTAL, value, LENGTH)

    return token_levels(second)


def independent(part: str, kurtosis_: float = 1.0, change: Mapping | None = None) -> Callable[[], Levels]:
    """The levels with a of (V5-independent) for signs."""

    def second() -> np.ndarray:
        letters = (lambda_, T, N, kurtosis)
        return compiled("V5-independent", letters, part=part, change=change)(PLAIN.eigenvalues, TOTAL, LENGTH, kurtosis_)

    return token_levels(second)


_plateaus(
    "V1-levels", "noise", "with label noise of variance 1", noisy_levels(),
    {
        "no noise": noisy_levels({sigma: 0}),
        "noise on the target only": lambda: noisy_levels({sigma: 0})() + NOISE**2,
        "N + 1 for N": noisy_levels({N: N + 1}),
    },
)  # fmt: skip
_plateaus(
    "V2-fixed", "oblique", "with token, task and query covariance that do not commute", fixed_levels(),
    {
        "eigenvectors of Lambda": lambda: _along_eigenvectors(OBLIQUE),
        "singular values a tenth too large": fixed_levels({any_quadratic_loss.s_i: 1.1 * any_quadratic_loss.s_i}),
    },
)  # fmt: skip
_plateaus(
    "V3-query", "query", "with a query law that reverses the order", query_levels(),
    {
        "the order of the tokens": query_levels(first="lambda"),
        "lambda^2 for a": query_levels({a: lambda_**2}),
    },
)  # fmt: skip
for _name, _law in {"sphere": "sphere", "Student": "student"}.items():
    _plateaus(
        "V5-elliptical", _name, f"on tokens of another law: {_name}", elliptical(_law),
        {
            "Gaussian tokens": elliptical(_law, {kappa: 1}),
            "N + 1 for N": elliptical(_law, {N: N + 1}),
        },
    )  # fmt: skip
_plateaus(
    "V5-independent", "signs", "on tokens of signs", independent("Rademacher"),
    {
        "Gaussian tokens": independent("a", 3.0),
        "N + 1 for N": independent("Rademacher", change={N: N + 1}),
        "the paper's moment": independent("Rademacher", change={T: T + 2 * lambda_}),
    },
)  # fmt: skip


@claim(
    "V2-rotation",
    "the losses on the plateaus of training with two directions that growth and drops order differently",
    method="training",
    tolerance=TRAINED_VARIATION,
    theory=lambda: turning_levels(TURNING),
    wrong={"the head stays": lambda: levels(TURNING), "the larger drop first": lambda: turning_levels(TURNING)[[0, 2, 1, 3]]},
    slow=True,
)
def trained_plateaus_turning(expected) -> float:
    """A plateau from which a head turns away is not flat, so that averaging over it would not come closer."""
    found, levels_ = trained_plateaus("turning").levels, expected()
    return float(np.abs(found / levels_ - 1).max()) if len(found) == len(levels_) else np.inf


def ridge(change: Mapping | None = None) -> Callable[[torch.Tensor], torch.Tensor]:
    """beta' B x_q on prompts, with Lambda B^-1 of (V1-ridge)."""

    def algorithm(X: torch.Tensor) -> torch.Tensor:
        quotient = compiled("V1-ridge", (Lambda, sigma, N), part="map", change=change)(PLAIN.covariance, NOISE, LENGTH)
        B = torch.tensor(np.linalg.solve(quotient, PLAIN.covariance))
        beta = torch.einsum("pdn,pn->pd", X[:, :-1, :-1], X[:, -1, :-1]) / (X.shape[-1] - 1)
        return torch.einsum("pi,ij,pj->p", beta, B, X[:, :-1, -1])

    return algorithm


@claim(
    "V1-ridge",
    "predictions on fresh prompts of a network trained with label noise, against ridge regression of penalty (tr Lambda + sigma^2)/N",
    method="training",
    tolerance=TRAINED_ALGORITHM,
    theory=ridge(),
    wrong={
        "tr Lambda/N, as without noise": ridge({sigma: 0}),
        "twice the noise": ridge({sigma: 2 * sigma}),
        "half the length": ridge({N: N / 2}),
    },
    slow=True,
)
def noise_makes_a_ridge(algorithm) -> float:
    X, _ = draw_sequences(NOISY, 5000, draws.torch_generator(27))
    with torch.no_grad():
        prediction = settled_network("noise")(X)
    return float((prediction - algorithm(X)).square().mean() / prediction.square().mean())


def noisy_rates(change: Mapping | None = None) -> Callable[[], np.ndarray]:
    """The growth along the first two eigenvectors of (V1-order)."""

    def value() -> np.ndarray:
        growth = compiled("V1-order", (Lambda, sigma, N), part="growth", change=change)
        return np.diag(growth(PLAIN.covariance, NOISE, LENGTH))[:2]

    return value


@claim(
    "V1-order",
    "the times of the first two drops of training with label noise, from those without and the rates of growth",
    method="training",
    tolerance=TRAINED_EARLY_DROPS,
    theory=noisy_rates(),
    wrong={
        "with the noise of beta, a_d": lambda: noisy_rates()() * _moment_ratio(),
        "lambda sigma^2/N added": lambda: noisy_rates()() + NOISE**2 * PLAIN.eigenvalues[:2] / LENGTH,
    },
    slow=True,
)  # fmt: skip
def noise_delays_no_training(rates) -> float:
    plain, noisy = (trained_plateaus(name).drops[:2] for name in ("plain", "noise"))
    return float(np.abs(noisy / (plain * PLAIN.eigenvalues[:2] ** 2 / rates()) - 1).max())


def _moment_ratio() -> np.ndarray:
    return NOISY.second_moment_eigenvalues[:2] / PLAIN.second_moment_eigenvalues[:2]


def fixed_values(change: Mapping | None = None) -> Callable[[], np.ndarray]:
    """The cubes of the value weights of the learned heads, from (V1-order)."""

    def value() -> np.ndarray:
        inverse = compiled("V1-order", (lambda_, T, sigma, N), part="fixed", change=change)
        return 1 / inverse(PLAIN.eigenvalues, TOTAL, NOISE, LENGTH)

    return value


FIXED_FAULTS = {
    "no noise": fixed_values({sigma: 0}),
    "N + 1 for N": fixed_values({N: N + 1}),
    "lambda^2 for lambda": fixed_values({lambda_: lambda_**2}),
}


def heads_of(weights: SeparateWeights) -> list[int]:
    """The head of rank one that learned each direction."""
    strength = np.abs(weights.v)[:, None] * np.abs(weights.k[:, 0] * weights.q[:, 0])
    return [int(one) for one in strength.argmax(axis=0)]


@claim(
    "V1-order",
    "the value weights of three heads with label noise, one for each direction, at the end of the flow from random weights of 1e-3",
    method="flow",
    tolerance=LEADING_ORDER,
    theory=fixed_values(),
    wrong=FIXED_FAULTS,
)
def values_with_noise(cubes) -> float:
    run = replace(RUNS["noise"], scale=1e-3)
    weights = gradient_flow(run.loss, run.weights, t_end=1e6).at(1e6)
    assert isinstance(weights, SeparateWeights)
    heads = heads_of(weights)
    return float(np.abs(np.abs(weights.v[heads]) ** 3 / cubes() - 1).max()) if len(set(heads)) == 3 else np.inf


@claim(
    "V1-order",
    "value times key times query of the three heads that training with label noise has learned, one for each direction",
    method="training",
    tolerance=TRAINED_VALUES,
    theory=fixed_values(),
    wrong=FIXED_FAULTS,
    slow=True,
)
def trained_values_with_noise(cubes) -> float:
    """Steps and mini-batches break the balance of value, key and query that the flow conserves; the loss depends on their product."""
    weights = settled_network("noise").weights()
    heads = heads_of(weights)
    lengths = np.linalg.norm(weights.k[heads, 0], axis=1) * np.linalg.norm(weights.q[heads, 0], axis=1)
    found = np.abs(weights.v[heads]) * lengths
    return float(np.abs(found / cubes() - 1).max()) if len(set(heads)) == 3 else np.inf


def _along_eigenvectors(task: RegressionTask) -> np.ndarray:
    """A mistake: the levels as if directions were eigenvectors of Lambda."""
    A, M, Q, c = task.loss_moments
    E = task.eigenvectors
    along, m, q = (np.diag(E.T @ one @ E) for one in (A, M, Q))
    return c - np.append(0, np.cumsum(np.sort(along**2 / (m * q))[::-1]))
