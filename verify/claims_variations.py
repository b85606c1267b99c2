"""Claims about variations of the task (V0 to V5): moments against sampled sequences, fixed points, test losses."""

from collections.abc import Callable
from fractions import Fraction
from functools import cache, partial
from itertools import combinations, product

import numpy as np
import torch

from ..numerics.compile import compile_expression
from ..numerics.landscape import search_fixed_points, separate_fixed_point
from ..numerics.losses import QuadraticLoss
from ..numerics.modes import Modes
from ..numerics.tasks import RegressionTask
from ..numerics.token_laws import RademacherTokens, SphereTokens, StudentTokens
from ..theory import notation, reduction, shift, token_laws, whitened
from ..theory.equations import equation
from .claims import claim
from .data import draw_sequences
from .tolerances import LEADING_ORDER, ROUNDOFF, SAMPLING, TURNING_LEVEL
from .variations import NOISY, OBLIQUE, PLAIN, TURNING, levels, plateaus

TILTED = [[0.9, 0.3, -0.1], [0.3, 0.6, 0.2], [-0.1, 0.2, 0.4]]
TASKS = [[0.5, -0.2, 0.0], [-0.2, 1.0, 0.3], [0.0, 0.3, 1.5]]
QUERIES = [[0.3, 0.1, 0.0], [0.1, 0.7, -0.2], [0.0, -0.2, 0.8]]

tilted = partial(RegressionTask, covariance=TILTED)


# Moments: of beta and the query, over 100,000 sequences


@cache
def _features(task: RegressionTask, count: int = 100_000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """beta, x_q and y_q of sampled sequences."""
    X, y = draw_sequences(task, count, torch.Generator().manual_seed(71))
    beta = torch.einsum("pdn,pn->pd", X[:, :-1, :-1], X[:, -1, :-1]) / (X.shape[-1] - 1)
    return beta.numpy(), X[:, :-1, -1].numpy(), y.numpy()


def deviation(drawn: RegressionTask, theory: RegressionTask) -> float:
    """The largest difference of A, M, Q or c from the averages over sequences of ``drawn``, in standard errors."""
    beta, x, y = _features(drawn)
    A, M, Q, c = theory.loss_moments
    pairs = ((y[:, None, None] * beta[:, :, None] * x[:, None], A), (beta[:, :, None] * beta[:, None], M))
    pairs += ((x[:, :, None] * x[:, None], Q), (y**2, np.array(c)))
    worst = 0.0
    for sampled, exact in pairs:
        error = sampled.std(axis=0, ddof=1) / np.sqrt(len(sampled))
        worst = max(worst, float((np.abs(sampled.mean(axis=0) - exact) / error).max()))
    return worst


NOISE = tilted(context_length=5, noise_variance=1.5)


@claim(
    "V1-beta",
    "moments of sequences with label noise, against sampled sequences",
    method="Monte Carlo",
    tolerance=SAMPLING,
    theory=NOISE,
    wrong={
        "no noise": tilted(context_length=5),
        "the standard deviation for the variance": tilted(context_length=5, noise_variance=1.5**0.5),
        "N + 1 for N": tilted(context_length=6, noise_variance=1.5),
    },
)
def noisy_moments(task) -> float:
    return deviation(NOISE, task)


GENERAL = tilted(context_length=5, task_covariance=TASKS, query_covariance=QUERIES, noise_variance=0.5)


@claim(
    "V0",
    "moments of sequences with noise, a task covariance and a query covariance that do not commute, against sampled sequences",
    method="Monte Carlo",
    tolerance=SAMPLING,
    theory=GENERAL,
    wrong={
        "w ~ N(0, I)": tilted(context_length=5, query_covariance=QUERIES, noise_variance=0.5),
        "the query like the context": tilted(context_length=5, task_covariance=TASKS, noise_variance=0.5),
        "N + 1 for N": tilted(context_length=6, task_covariance=TASKS, query_covariance=QUERIES, noise_variance=0.5),
    },
)
def general_moments(task) -> float:
    return deviation(GENERAL, task)


LENGTHS = {1: 0.5, 2: 0.25, 8: 0.25}
RANDOM = tilted(context_lengths=LENGTHS, noise_variance=0.3)


@claim(
    "V4-moments",
    "moments of contexts of random length, against sampled sequences",
    method="Monte Carlo",
    tolerance=SAMPLING,
    theory=RANDOM,
    wrong={
        "the mean of n for its harmonic mean": tilted(context_length=3, noise_variance=0.3),
        "equal probabilities": tilted(context_lengths=list(LENGTHS), noise_variance=0.3),
        "the longest context": tilted(context_length=8, noise_variance=0.3),
    },
)
def random_length_moments(task) -> float:
    return deviation(RANDOM, task)


def _with(law) -> RegressionTask:
    return tilted(context_length=3, task_covariance=TASKS, token_law=law)


LAWS = (SphereTokens(), StudentTokens(12), RademacherTokens())


@claim(
    "V5-moment",
    "moments of tokens on an ellipsoid, of Student's law and of signs, against sampled sequences",
    method="Monte Carlo",
    tolerance=SAMPLING,
    theory=lambda law: _with(law),
    wrong={
        "the Gaussian fourth moment": lambda law: _with(None),
        "N + 1 for N": lambda law: tilted(context_length=4, task_covariance=TASKS, token_law=law),
    },
)
def token_law_moments(task: Callable) -> float:
    return max(deviation(_with(law), task(law)) for law in LAWS)


@claim(
    "V5-independent",
    "E(Lambda_hat S Lambda_hat) of signs, over all contexts of three tokens",
    method="linear algebra",
    tolerance=ROUNDOFF,
    theory=lambda: _with(RademacherTokens()).second_moment,
    wrong={"kurtosis 3": lambda: _with(None).second_moment, "on a sphere": lambda: _with(SphereTokens()).second_moment},
)
def all_contexts_of_signs(second_moment) -> float:
    task = _with(RademacherTokens())
    tokens = np.array(list(product((-1, 1), repeat=3))) @ (task.eigenvectors * np.sqrt(task.eigenvalues)).T
    squares = np.einsum("pi,pj->pij", tokens, tokens)
    total = np.zeros((3, 3))
    for context in product(range(8), repeat=3):
        sample = squares[list(context)].mean(axis=0)
        total += sample @ task.task_covariance @ sample
    return float(np.abs(total / 8**3 - second_moment()).max())


@cache
def _commutator() -> Callable:
    part = equation("V5-independent").derive().result["commutator"]
    return compile_expression(part, (token_laws.mixing, token_laws.D_R, token_laws.kurtosis))


def commutator(R: np.ndarray, kurtosis: float) -> np.ndarray:
    """[F, Lambda] between R and R', for x = R z."""
    return R @ _commutator()(R, np.diag(np.diag(R.T @ R)), kurtosis) @ R.T


@claim(
    "V5-independent",
    "what keeps M from commuting with Lambda where signs are mixed by R, over all signs of three components",
    method="linear algebra",
    tolerance=ROUNDOFF,
    theory=lambda R: commutator(R, 1.0),
    wrong={"it commutes": lambda R: commutator(R, 3.0), "R' for R": lambda R: commutator(R.T, 1.0)},
)
def mixed_signs(expected) -> float:
    R = np.array([[1.0, 2.0, 0.0], [0.0, 1.0, -1.0], [2.0, 0.0, 1.0]])
    tokens = np.array(list(product((-1, 1), repeat=3))) @ R.T
    F = np.einsum("p,pi,pj->ij", (tokens**2).sum(axis=1), tokens, tokens) / len(tokens)
    Lambda = tokens.T @ tokens / len(tokens)
    return float(np.abs(F @ Lambda - Lambda @ F - expected(R)).max())


@cache
def _mean_inverse() -> Callable[[int], float]:
    return compile_expression(equation("V4-uniform").derive().result["mean"], (notation.N,), "mpmath")


@claim(
    "V4-uniform",
    "E(1/n) for n uniform on 1 to 50, in rational numbers",
    method="rational",
    tolerance=ROUNDOFF,
    theory=lambda longest: float(_mean_inverse()(longest)),
    wrong={
        "one over the mean": lambda longest: 2 / (longest + 1),
        "N + 1 for N": lambda longest: float(_mean_inverse()(longest + 1)),
    },
)
def mean_inverse_length(expected) -> float:
    return abs(float(sum(Fraction(1, n) for n in range(1, 51)) / 50) - expected(50))


# Fixed points


def _root_distance(task: RegressionTask, modes: Modes, starts: int) -> float:
    """How far, at most, a root of the flow of ``task`` lies from the maps B_S of ``modes``; infinite if not all sets are found.

    The search says how far the roots are from the task's own maps, in their coordinates; to this comes the distance of those from
    the maps of ``modes``.
    """
    D, rng = task.dimension, np.random.default_rng(5)
    search = search_fixed_points(task, heads=D, starts=starts, rng=rng)
    listed = [S for m in range(D + 1) for S in combinations(range(D), m)]
    true = {S: task.modes.effective_map(S) for S in search.found}
    nearest = [min(np.abs(B - modes.effective_map(S)).max() for S in listed) for B in true.values()]
    return max(*nearest, search.distance) if len(search.found) == 2**D else np.inf


def without_whitening(task: RegressionTask) -> Modes:
    """The paper's answer taken over: eigenvectors of Lambda, and what pays along each."""
    E = task.eigenvectors
    A, M, Q = (E * np.diag(E.T @ one @ E) @ E.T for one in task.loss_moments[:3])
    return Modes.of(A, M, Q, E)


def of_growth(task: RegressionTask) -> Modes:
    """Singular directions of A, in which small heads grow."""
    u, s, vt = np.linalg.svd(task.loss_moments.A)
    return Modes(u, vt.T, s, s**2, None)


PLANAR = RegressionTask(
    covariance=[[0.8, 0.3], [0.3, 0.5]],
    task_covariance=[[0.4, -0.3], [-0.3, 1.2]],
    context_length=6,
    noise_variance=0.1,
)


@claim(
    "V2-fixed",
    "all roots of the flow from 40 starts, where token and task covariance do not commute: four maps, D = 2",
    method="linear algebra",
    tolerance=ROUNDOFF,
    theory=lambda task: task.modes,
    wrong={"eigenvectors of Lambda": without_whitening, "singular directions of A": of_growth},
)
def planar_fixed_points(modes) -> float:
    return _root_distance(PLANAR, modes(PLANAR), 40)


@claim(
    "V2-fixed",
    "all roots of the flow from 300 starts, with token, task and query covariance that do not commute: eight maps, D = 3",
    method="linear algebra",
    tolerance=ROUNDOFF,
    theory=lambda task: task.modes,
    wrong={"eigenvectors of Lambda": without_whitening, "singular directions of A": of_growth},
    slow=True,
)
def spatial_fixed_points(modes) -> float:
    return _root_distance(OBLIQUE, modes(OBLIQUE), 300)


def congruent_drops(task: RegressionTask) -> np.ndarray:
    """p^2/((1 + 1/N) p + (P + sigma^2)/N) with the eigenvalues p of Lambda Sigma_w, largest first."""
    p, n = np.linalg.eigvals(task.covariance @ task.task_covariance).real, task.context_length
    return np.sort(p**2 / ((1 + 1 / n) * p + (p.sum() + task.noise_variance) / n))[::-1]


@claim(
    "V2-congruence",
    "the drops where Lambda and Sigma_w do not commute, by the singular values and by the eigenvalues of Lambda Sigma_w",
    method="linear algebra",
    tolerance=ROUNDOFF,
    theory=congruent_drops,
    wrong={
        "products of eigenvalues": lambda task: congruent_drops(
            RegressionTask(
                eigenvalues=task.eigenvalues, task_covariance=np.diag(np.linalg.eigvalsh(task.task_covariance)),
                context_length=6, noise_variance=0.1,
            )
        ),
        "no noise": lambda task: congruent_drops(
            RegressionTask(covariance=task.covariance, task_covariance=task.task_covariance, context_length=6)
        ),
    },
)  # fmt: skip
def drops_of_a_congruence(drops) -> float:
    return float(np.abs(PLANAR.modes.drops - drops(PLANAR)).max())


def turning_levels(task: RegressionTask) -> np.ndarray:
    """c, then one head along the first direction, then along the second, then two heads."""
    c, drops = task.loss_moments.c, task.modes.drops
    return np.array([c, c - drops[0], c - drops[1], c - drops.sum()])


@claim(
    "V2-rotation",
    "four plateaus of two directions, where the first to grow pays less: the head turns (flow)",
    method="flow",
    tolerance=TURNING_LEVEL,
    theory=turning_levels,
    wrong={
        "the head stays": levels,
        "the larger drop first": lambda task: turning_levels(task)[[0, 2, 1, 3]],
    },
)
def head_turns(expected) -> float:
    found, expected = plateaus("turning").levels, expected(TURNING)
    return float(np.abs(found / expected - 1).max()) if len(found) == len(expected) else np.inf


@cache
def _turning_rates() -> Callable[..., tuple]:
    parts = equation("V2-rotation").derive().result
    arguments = [getattr(whitened, name) for name in ("v", "A_d", "A_j", "M_d", "M_j", "Q_d", "Q_j")]
    return compile_expression((parts["determinant"], parts["trace"]), arguments)


def turning_rate(task: RegressionTask) -> float:
    """The growing mode of the head that rests along the first direction."""
    A, M, Q = (np.diag(one) for one in task.loss_moments[:3])
    determinant, trace = _turning_rates()(np.cbrt(task.modes.levels[0]), *A, *M, *Q)
    return float(trace / 2 + np.sqrt(trace**2 / 4 - determinant))


@claim(
    "V2-rotation",
    "the rate at which a head turns from one direction to the other, against the Hessian's negative eigenvalue",
    method="linear algebra",
    tolerance=ROUNDOFF,
    theory=turning_rate,
    wrong={
        "of the other direction": lambda task: turning_rate(
            RegressionTask(eigenvalues=[0.5, 1.0], context_length=20, task_covariance=np.diag([0.8, 0.3]))
        ),
        "with N + 1": lambda task: turning_rate(
            RegressionTask(eigenvalues=[1.0, 0.5], context_length=21, task_covariance=np.diag([0.3, 0.8]))
        ),
    },
)
def rate_of_turning(rate) -> float:
    return float(abs(separate_fixed_point(TURNING, [0], heads=1).spectrum[0] + rate(TURNING)))


@claim(
    "V1-order",
    "the escape times with label noise against those without: equal at leading order (flow, first two drops)",
    method="flow",
    tolerance=LEADING_ORDER,
    theory=lambda: plateaus("plain").drops[:2],
    wrong={"rates with a_d for lambda_d^2": lambda: plateaus("plain").drops[:2] * _a_ratio()},
)
def noise_delays_nothing(drops) -> float:
    return float(np.abs(plateaus("noise").drops[:2] / drops() - 1).max())


def _a_ratio() -> np.ndarray:
    return PLAIN.second_moment_eigenvalues[:2] / NOISY.second_moment_eigenvalues[:2]


# Test losses


def shifted() -> tuple[RegressionTask, RegressionTask, np.ndarray]:
    """Training, test, and the map learned in training."""
    train = RegressionTask(covariance=TILTED, context_length=20)
    test = tilted(context_length=7, task_covariance=TASKS, query_covariance=QUERIES, noise_variance=0.5)
    return train, test, train.modes.effective_map()


@claim(
    "V3-test",
    "the test loss of a trained map, where length, noise, task and query law differ from training, on 100,000 prompts",
    method="forward pass",
    tolerance=SAMPLING,
    theory=lambda train, test: QuadraticLoss.population(test),
    wrong={
        "the loss of training": lambda train, test: QuadraticLoss.population(train),
        "the length of training": lambda train, test: QuadraticLoss.population(
            tilted(context_length=20, task_covariance=TASKS, query_covariance=QUERIES, noise_variance=0.5)
        ),
        "a noiseless query": lambda train, test: _shifted_by(QuadraticLoss.population(test), -0.5),
    },
)
def test_loss_sampled(loss) -> float:
    train, test, B = shifted()
    beta, x, y = _features(test)
    errors = (y - np.einsum("pi,ij,pj->p", beta, B, x)) ** 2
    return float(abs(errors.mean() - loss(train, test).value(B)) / (errors.std() / np.sqrt(len(errors))))


def _shifted_by(loss: QuadraticLoss, constant: float) -> QuadraticLoss:
    return QuadraticLoss(loss.A, loss.C, loss.c + constant)


def scaled_losses(c: float, learned: float, g: np.ndarray) -> np.ndarray:
    return c - g * (2 - g) * learned


@claim(
    "V3-scale",
    "the test loss at every saddle when the context is scaled, and where it passes that of no answer",
    method="linear algebra",
    tolerance=ROUNDOFF,
    theory=scaled_losses,
    wrong={
        "g for g^2": lambda c, learned, g: c - g * learned,
        "break-even at the square root of 2": lambda c, learned, g: scaled_losses(c, learned, g**2),
    },
)
def scaled_contexts(formula) -> float:
    g, worst = np.array([0.3, 1.0, 2.0, 5.0]), 0.0
    for directions in ((), (0,), (0, 2), (0, 1, 2)):
        B, c = PLAIN.modes.effective_map(directions), PLAIN.loss_moments.c
        tests = [
            RegressionTask(eigenvalues=one * PLAIN.eigenvalues, query_covariance=PLAIN.covariance, context_length=10)
            for one in g
        ]
        found = np.array([QuadraticLoss.population(test).value(B) for test in tests])
        learned = c - QuadraticLoss.population(PLAIN).value(B)
        worst = max(worst, float(np.abs(found - formula(c, learned, g)).max()))
    return worst


@cache
def _length_share() -> Callable:
    share = equation("V3-length").derive().result["share"]
    return compile_expression(share, (notation.lambda_, reduction.a, shift.a_test))


def length_losses(trained: RegressionTask, test: RegressionTask) -> float:
    shares = _length_share()(trained.eigenvalues, trained.second_moment_eigenvalues, test.second_moment_eigenvalues)
    return float(np.sum(shares))


@claim(
    "V3-length",
    "the loss at test lengths 1, 40 and 10^6 of the map trained at 10",
    method="linear algebra",
    tolerance=ROUNDOFF,
    theory=length_losses,
    wrong={
        "the best map for the test": lambda trained, test: length_losses(test, test),
        "the loss of training": lambda trained, test: length_losses(trained, trained),
    },
)
def test_lengths(formula) -> float:
    B, worst = PLAIN.modes.effective_map(), 0.0
    for length in (1, 40, 10**6):
        test = RegressionTask(eigenvalues=PLAIN.eigenvalues, context_length=length)
        worst = max(worst, abs(QuadraticLoss.population(test).value(B) - formula(PLAIN, test)))
    return worst
