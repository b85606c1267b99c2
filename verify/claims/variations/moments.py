"""Claims about variations of the task (V0 to V5 except V4): moments against sampled sequences, and by enumeration."""

from collections.abc import Callable
from functools import partial
from itertools import product

import numpy as np
import torch

from ....numerics import RademacherTokens, RegressionTask, SphereTokens, StudentTokens, compiled
from ....theory import notation
from ....theory.notation import T
from ....theory.results.variations import token_laws
from ...experiments import draws
from ...training.sequences import draw_sequences
from ..attention.moments import largest_product_score
from ..book import claim, wrong
from ..formulas import parts_of

TILTED = [[0.9, 0.3, -0.1], [0.3, 0.6, 0.2], [-0.1, 0.2, 0.4]]
TASKS = [[0.5, -0.2, 0.0], [-0.2, 1.0, 0.3], [0.0, 0.3, 1.5]]
QUERIES = [[0.3, 0.1, 0.0], [0.1, 0.7, -0.2], [0.0, -0.2, 0.8]]

tilted = partial(RegressionTask, covariance=TILTED)


# Moments: of beta and the query, over 100,000 sequences


@draws.remembered
def features(task: RegressionTask, count: int = 100_000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """beta, x_q and y_q of sampled sequences."""
    X, y = draw_sequences(task, count, draws.torch_generator(71))
    beta = torch.einsum("pdn,pn->pd", X[:, :-1, :-1], X[:, -1, :-1]) / (X.shape[-1] - 1)
    return beta.numpy(), X[:, :-1, -1].numpy(), y.numpy()


def deviation(drawn: RegressionTask, theory: RegressionTask) -> float:
    """The largest difference of A, M, Q or c from the averages over sequences of ``drawn``, in standard errors."""
    return max(largest_product_score(*pair, exact) for pair, exact in zip(pairs(*features(drawn)), theory.loss_moments, strict=True))


def pairs(beta: np.ndarray, x: np.ndarray, y: np.ndarray) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """What A, M, Q and c are the averages of, as the products of the columns of two arrays."""
    y = y[:, None]
    return (y * beta, x), (beta, beta), (x, x), (y, y)


NOISE = tilted(context_length=5, noise_variance=1.5)


@claim("V1-beta", method="Monte Carlo", theory=NOISE)
@wrong("no noise", tilted(context_length=5))
@wrong("the standard deviation for the variance", tilted(context_length=5, noise_variance=1.5**0.5))
@wrong("N + 1 for N", tilted(context_length=6, noise_variance=1.5))
def noisy_moments(task) -> float:
    """Moments of sequences with label noise, against sampled sequences."""
    return deviation(NOISE, task)


general = partial(tilted, context_length=5, task_covariance=TASKS, query_covariance=QUERIES, noise_variance=0.5)


@claim("V0", method="Monte Carlo", theory=general())
@wrong("w ~ N(0, I)", general(task_covariance=None))
@wrong("the query like the context", general(query_covariance=None))
@wrong("N + 1 for N", general(context_length=6))
def general_moments(task) -> float:
    """Moments of sequences with noise, a task covariance and a query covariance that do not commute, against sampled sequences."""
    return deviation(general(), task)


NOISY_ORDER = {"growth": (notation.Lambda, notation.sigma, notation.N), "slope": (notation.lambda_, T, notation.sigma, notation.N)}


@claim("V1-order", method="Monte Carlo", theory=parts_of("V1-order", NOISY_ORDER))
@wrong("the noise of beta in the growth", {"growth": lambda L, s, n: L @ L + s**2 / n * L})
@wrong("no noise in the slope", {"slope": {notation.sigma: 0}})
@wrong("N + 1 for N", {notation.N: notation.N + 1})
def noise_and_order(formulas) -> float:
    """The force at zero weights on sequences with noisy labels; the slope of a drop, integrated between two tasks of equal trace, against
    their sampled drops.

    The larger of two errors in standard errors: the force's and the slope's.
    """
    expected = formulas["growth"](NOISE.covariance, np.sqrt(NOISE.noise_variance), NOISE.context_length)
    score = largest_product_score(*pairs(*features(NOISE))[0], expected)
    low, high, total, noise, length = 0.3, 0.8, 1.0, 0.7, 2
    nodes, weights = np.polynomial.legendre.leggauss(30)
    at, width = low + (nodes + 1) / 2 * (high - low), (high - low) / 2
    risen = width * (weights * formulas["slope"](at, total, noise**0.5, length)).sum()
    tasks = [RegressionTask(eigenvalues=[one, total - one], context_length=length, noise_variance=noise) for one in (low, high)]
    (before, error), (after, other) = (sampled_drop(task) for task in tasks)
    return float(max(score, abs(after - before - risen) / np.hypot(error, other)))


def sampled_drop(task: RegressionTask) -> tuple[float, float]:
    """By how much the best multiple of the first feature lowers the squared error on sequences, and its standard error."""
    beta, x, y = features(task, 200_000)
    feature = beta[:, 0] * x[:, 0]
    cross, square = ((feature * other).reshape(100, -1).mean(axis=1) for other in (y, feature))
    drop = cross.mean() ** 2 / square.mean()
    moved = drop * (2 * cross / cross.mean() - square / square.mean())
    return float(drop), float(moved.std(ddof=1) / 10)


def with_law(law, **options) -> RegressionTask:
    return tilted(**{"context_length": 3, "task_covariance": TASKS, "token_law": law, **options})


@claim("V5-moment", method="Monte Carlo", theory=with_law)
@wrong("the Gaussian fourth moment", lambda law: with_law(None))
@wrong("N + 1 for N", lambda law: with_law(law, context_length=4))
def token_law_moments(task: Callable) -> float:
    """Moments of tokens on an ellipsoid, of Student's law and of signs, against sampled sequences."""
    return max(deviation(with_law(law), task(law)) for law in (SphereTokens(), StudentTokens(12), RademacherTokens()))


@claim("V5-independent", method="linear algebra", theory=lambda: with_law(RademacherTokens()).second_moment)
@wrong("kurtosis 3", lambda: with_law(None).second_moment)
@wrong("on a sphere", lambda: with_law(SphereTokens()).second_moment)
def all_contexts_of_signs(second_moment) -> float:
    """E(Lambda_hat S Lambda_hat) of signs, over all contexts of three tokens."""
    task = with_law(RademacherTokens())
    tokens = np.array(list(product((-1, 1), repeat=3))) @ (task.eigenvectors * np.sqrt(task.eigenvalues)).T
    squares = np.einsum("pi,pj->pij", tokens, tokens)
    total = np.zeros((3, 3))
    for context in product(range(8), repeat=3):
        sample = squares[list(context)].mean(axis=0)
        total += sample @ task.task_covariance @ sample
    return float(np.abs(total / 8**3 - second_moment()).max())


def commutator(R: np.ndarray, kurtosis: float) -> np.ndarray:
    """[F, Lambda] between R and R', for x = R z."""
    letters = (token_laws.mixing, token_laws.D_R, token_laws.kurtosis)
    middle = compiled("V5-independent", letters, part="commutator")(R, np.diag(np.diag(R.T @ R)), kurtosis)
    return R @ middle @ R.T


@claim("V5-independent", method="linear algebra", theory=lambda R: commutator(R, 1.0))
@wrong("it commutes", lambda R: commutator(R, 3.0))
@wrong("R' for R", lambda R: commutator(R.T, 1.0))
def mixed_signs(expected) -> float:
    """The commutator of M and Lambda for signs mixed by R, over all signs of three components."""
    R = np.array([[1.0, 2.0, 0.0], [0.0, 1.0, -1.0], [2.0, 0.0, 1.0]])
    tokens = np.array(list(product((-1, 1), repeat=3))) @ R.T
    F = np.einsum("p,pi,pj->ij", (tokens**2).sum(axis=1), tokens, tokens) / len(tokens)
    Lambda = tokens.T @ tokens / len(tokens)
    return float(np.abs(F @ Lambda - Lambda @ F - expected(R)).max())
