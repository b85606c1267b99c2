"""Claims about variations of the task (V1, V2, V3, V5): statements of the registry against PyTorch attention trained on each of them."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import accumulate

import numpy as np
import torch
from jaxtyping import Float

from ....numerics import RegressionTask, SeparateWeights, compiled, gradient_flow
from ....theory.calculus.spectral import directions
from ....theory.notation import D, Lambda, N, T, a, lambda_, sigma
from ....theory.results.landscape.any_quadratic_loss import B_ii, c_any, s_i
from ....theory.results.variations.shift import lambda_q
from ....theory.results.variations.token_laws import kappa, kurtosis, nu
from ...experiments import draws, varied_tasks as varied
from ...experiments.plateau_maps import plateau_losses, settled_network, trained_network
from ...experiments.prefixes import prefix_plateaus
from ...experiments.varied_tasks import LENGTH, NOISY, PLAIN, RUNS, SPECTRUM, against, levels, turning_levels
from ...training.modules import cubic_features
from ...training.sequences import draw_sequences
from ..book import claim, wrong
from ..tolerances import LEADING_ORDER, TRAINED_ALGORITHM, TRAINED_EARLY_DROPS, TRAINED_LEVEL, TRAINED_VALUES, TRAINED_VARIATION, Tolerance
from .task_covariance import whitened_letters

Levels = Float[np.ndarray, " D+1"]
TOTAL = sum(SPECTRUM)
NOISE = NOISY.noise_variance**0.5
OBLIQUE, ASKED, TURNING = (RUNS[name].task for name in ("oblique", "query", "turning"))
MEAN_LENGTH = RegressionTask(eigenvalues=SPECTRUM, context_length=6)


def noisy_levels(change: Mapping | None = None) -> Levels:
    """(V1-levels) with the first m directions learned, m = 0, 1, 2, 3."""
    loss = compiled("V1-levels", (*directions(3), T, sigma, N), part="loss", change=change, size=3)
    return np.array([loss(*SPECTRUM, *(np.arange(3) < m).astype(float), TOTAL, NOISE, LENGTH) for m in range(4)])


def fixed_levels(change: Mapping | None = None) -> Levels:
    """(V2-fixed): the share of one direction after the other, for the singular values of the whitened A."""
    target, _, c = whitened_letters(OBLIQUE, np.zeros((3, 3)))
    share = compiled("V2-fixed", (c_any, s_i, B_ii), part="loss", change=change)
    return np.array(list(accumulate(np.linalg.svd(target, compute_uv=False), lambda loss, one: float(share(loss, one, one)), initial=c)))


def query_levels(change: Mapping | None = None, first: str = "rate") -> Levels:
    """(V3-query): the drops of the directions, the largest rate first."""
    asked, letters = np.diag(ASKED.query_covariance), (lambda_, lambda_q, a)
    both = compiled("V3-query", letters, part=("rate", "drop"), change=change)
    rate, drop = both(ASKED.eigenvalues, asked, PLAIN.second_moment_eigenvalues)
    return asked.sum() - np.append(0, np.cumsum(drop[np.argsort(-{"rate": rate, "lambda": ASKED.eigenvalues}[first])]))


def token_levels(second: np.ndarray) -> Levels:
    """T minus the sum of lambda^3/a over the learned directions."""
    return TOTAL - np.append(0, np.cumsum(PLAIN.eigenvalues**3 / second))


def elliptical(law: str, change: Mapping | None = None) -> Levels:
    """The levels with a of (V5-elliptical) and kappa of the sphere or of Student's law."""
    value = float(compiled("V5-elliptical", (D, nu), part=law)(len(SPECTRUM), varied.DEGREES))
    moment = compiled("V5-elliptical", (lambda_, T, kappa, N), part="a", change=change)
    return token_levels(moment(PLAIN.eigenvalues, TOTAL, value, LENGTH))


def independent(part: str, kurtosis_: float = 1.0, change: Mapping | None = None) -> Levels:
    """The levels with a of (V5-independent) for signs."""
    moment = compiled("V5-independent", (lambda_, T, N, kurtosis), part=part, change=change)
    return token_levels(moment(PLAIN.eigenvalues, TOTAL, LENGTH, kurtosis_))


def claim_plateaus(number: str, name: str, statement: str, found: Callable, tolerance: Tolerance, theory: Callable, mistakes: dict) -> None:
    """A claim that training has these losses on its plateaus; no average comes closer if a head turns away: the plateau is not flat."""

    def measure(expected) -> float:
        return against(found(), expected())

    measure.__name__ = f"trained_plateaus_{name.replace(' ', '_')}"
    for mistake, side in mistakes.items():
        wrong(mistake, side)(measure)
    claim(number, statement, method="training", tolerance=tolerance, theory=theory, slow=True)(measure)


for _number, _name, _what, _theory, _mistakes in (
    ("V1-levels", "noise", "with label noise of variance 1", noisy_levels, {
        "no noise": {sigma: 0},
        "noise on the target only": lambda: noisy_levels({sigma: 0}) + NOISE**2,
        "N + 1 for N": {N: N + 1},
    }),
    ("V2-fixed", "oblique", "with token, task and query covariance that do not commute", fixed_levels, {
        "eigenvectors of Lambda": lambda: _along_eigenvectors(OBLIQUE),
        "singular values a tenth too large": {s_i: 1.1 * s_i},
    }),
    ("V3-query", "query", "with a query law that reverses the order", query_levels, {
        "the order of the tokens": partial(query_levels, first="lambda"),
        "lambda^2 for a": {a: lambda_**2},
    }),
    *(("V5-elliptical", name, f"on tokens of another law: {name}", partial(elliptical, name.lower()), {
        "Gaussian tokens": {kappa: 1},
        "N + 1 for N": {N: N + 1},
    }) for name in ("sphere", "Student")),
    ("V5-independent", "signs", "on tokens of signs", partial(independent, "Rademacher"), {
        "Gaussian tokens": partial(independent, "a", 3.0),
        "N + 1 for N": {N: N + 1},
        "the paper's moment": {T: T + 2 * lambda_},
    }),
):  # fmt: skip
    _what = f"the losses of the maps on the plateaus of training {_what}"
    claim_plateaus(_number, _name, _what, partial(plateau_losses, _name), TRAINED_LEVEL, _theory, _mistakes)


LEVELS = {name: partial(levels, run.task) for name, run in RUNS.items()}  # if no head turns
for _number, _name, _what, _found, _theory, _mistakes in (
    ("V2-rotation", "turning", "with two directions that growth and drops order differently", partial(varied.trained_levels, "turning"),
     lambda: turning_levels(TURNING),
     {"the head stays": LEVELS["turning"], "the larger drop first": lambda: turning_levels(TURNING)[[0, 2, 1, 3]]}),
    ("V4-levels", "random length", f"on contexts of 1 to {LENGTH} tokens", partial(varied.trained_levels, "random length"),
     LEVELS["random length"], {"the longest context": LEVELS["plain"], "the mean length": lambda: levels(MEAN_LENGTH)}),
    ("V4-levels", "prefixes", f"on all prefixes of {LENGTH + 1} tokens, divided as the official code does with vary_len",
     lambda: prefix_plateaus().levels, LEVELS["official"], {
        "the average over the context, g = 1": LEVELS["random length"],
        "divided by the longest context, g = n/N": LEVELS["longest"],
        "the longest context only": LEVELS["plain"],
     }),
):  # fmt: skip
    claim_plateaus(_number, _name, f"the losses on the plateaus of training {_what}", _found, TRAINED_VARIATION, _theory, _mistakes)


def ridge(X: torch.Tensor, change: Mapping | None = None) -> torch.Tensor:
    """beta' B x_q on prompts, with Lambda B^-1 of (V1-ridge)."""
    quotient = compiled("V1-ridge", (Lambda, sigma, N), part="map", change=change)(PLAIN.covariance, NOISE, LENGTH)
    return cubic_features(X) @ torch.tensor(np.linalg.solve(quotient, PLAIN.covariance).flatten(order="F"))


@claim("V1-ridge", method="training", tolerance=TRAINED_ALGORITHM, theory=ridge, slow=True)
@wrong("tr Lambda/N, as without noise", {sigma: 0})
@wrong("twice the noise", {sigma: 2 * sigma})
@wrong("half the length", {N: N / 2})
def noise_makes_a_ridge(algorithm) -> float:
    """Predictions on fresh prompts of a network trained with label noise, by the inverse of Lambda + (Lambda + tr Lambda + sigma^2)/N."""
    (X, _), network = draw_sequences(NOISY, 5000, draws.torch_generator(27)), settled_network("noise")
    with torch.no_grad():
        prediction = network(X)
    return float((prediction - algorithm(X)).square().mean() / prediction.square().mean())


def noisy_rates() -> np.ndarray:
    """The growth along the first two eigenvectors of (V1-order)."""
    return np.diag(compiled("V1-order", (Lambda, sigma, N), part="growth")(PLAIN.covariance, NOISE, LENGTH))[:2]


@claim("V1-order", method="training", tolerance=TRAINED_EARLY_DROPS, theory=noisy_rates, slow=True)
@wrong("with the noise of beta, a_d", lambda: noisy_rates() * (NOISY.second_moment_eigenvalues / PLAIN.second_moment_eigenvalues)[:2])
@wrong("lambda sigma^2/N added", lambda: noisy_rates() + NOISE**2 * PLAIN.eigenvalues[:2] / LENGTH)
def noise_delays_no_training(rates) -> float:
    """The times of the first two drops of training with label noise, from those without and the rates of growth, over five starts."""
    plain, noisy = ([varied.trained_plateaus(name, start=i).drops[:2] for i in range(varied.STARTS)] for name in ("plain", "noise"))
    return float(np.median(np.abs(noisy / (plain * PLAIN.eigenvalues[:2] ** 2 / rates()) - 1).max(axis=1)))


def fixed_values(change: Mapping | None = None) -> np.ndarray:
    """The cubes of the value weights of the learned heads, from (V1-order)."""
    return 1 / compiled("V1-order", (lambda_, T, sigma, N), part="fixed", change=change)(PLAIN.eigenvalues, TOTAL, NOISE, LENGTH)


def learned_by_each(weights: SeparateWeights, cubes: Callable, balanced: bool = False) -> float:
    """The largest relative error of v^3 in ``balanced`` weights, else of v |k| |q|, of the head that learned each direction."""
    heads = (np.abs(weights.v)[:, None] * np.abs(weights.k[:, 0] * weights.q[:, 0])).argmax(axis=0)
    lengths = np.linalg.norm(weights.k[heads, 0], axis=1) * np.linalg.norm(weights.q[heads, 0], axis=1)
    found = np.abs(weights.v[heads]) * (weights.v[heads] ** 2 if balanced else lengths)
    return float(np.abs(found / cubes() - 1).max()) if len(set(heads)) == 3 else np.inf


@claim("V1-order", method="flow", tolerance=LEADING_ORDER, theory=fixed_values)
@wrong("no noise", {sigma: 0})
@wrong("N + 1 for N", {N: N + 1})
@wrong("lambda^2 for lambda", {lambda_: lambda_**2})
def values_with_noise(cubes) -> float:
    """The value weights of three heads with label noise, one for each direction, at the end of the flow from random weights of 1e-3."""
    run = replace(RUNS["noise"], scale=1e-3)
    weights = gradient_flow(run.loss, run.draw(draws.generator(14)), t_end=1e6).at(1e6)
    assert isinstance(weights, SeparateWeights)
    return learned_by_each(weights, cubes, balanced=True)


@claim("V1-order", method="training", tolerance=TRAINED_VALUES, theory=fixed_values, slow=True)
@wrong("no noise", {sigma: 0})
@wrong("N + 1 for N", {N: N + 1})
@wrong("lambda^2 for lambda", {lambda_: lambda_**2})
def trained_values_with_noise(cubes) -> float:
    """Value times key times query of the three heads that training with label noise has learned, one for each direction, over starts.

    Steps and mini-batches break the balance of value, key and query that the flow conserves; the loss depends on their product.
    """
    return float(np.median([learned_by_each(trained_network("noise", start=i).weights(), cubes) for i in range(varied.STARTS)]))


def _along_eigenvectors(task: RegressionTask) -> np.ndarray:
    """A mistake: the levels as if directions were eigenvectors of Lambda."""
    A, M, Q, c = task.loss_moments
    E = task.eigenvectors
    along, m, q = (np.diag(E.T @ one @ E) for one in (A, M, Q))
    return c - np.append(0, np.cumsum(np.sort(along**2 / (m * q))[::-1]))
