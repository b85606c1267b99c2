"""Claims about contexts of random length (V4): moments and losses of sums written out, averages over n, and plateaus by training."""

from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import product

import numpy as np
import torch

from ....numerics import QuadraticLoss, RegressionTask, SeparateWeights, compiled
from ....theory import notation
from ....theory.results.task.population import Sigma_w, g_1, g_2, g_3
from ...experiments import draws
from ...experiments.prefixes import PrefixAttention, labelled_batches
from ...training.sequences import draw_sequences
from ..attention.moments import largest_product_score, largest_score
from ..book import claim, wrong
from ..tolerances import ROUNDOFF, SAMPLING
from .moments import TASKS, TILTED, deviation, pairs, tilted

LENGTHS = {1: 0.5, 2: 0.25, 8: 0.25}
# What the sum over n of at most 8 tokens is divided by.
DIVISORS: Mapping[str, Callable[[int], int]] = {"present": lambda n: n, "longest": lambda n: 8, "official": lambda n: n + 1}


@claim("V4-moments", method="Monte Carlo", theory=tilted(context_lengths=LENGTHS, noise_variance=0.3))
@wrong("the mean of n for its harmonic mean", tilted(context_length=3, noise_variance=0.3))
@wrong("equal probabilities", tilted(context_lengths=list(LENGTHS), noise_variance=0.3))
@wrong("the longest context", tilted(context_length=8, noise_variance=0.3))
def random_length_moments(task) -> float:
    """Moments of contexts of random length, against sampled sequences."""
    return deviation(tilted(context_lengths=LENGTHS, noise_variance=0.3), task)


@draws.remembered
def _summed_contexts(normalisation: str, count: int = 50_000) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """:func:`pairs` for A and M, of contexts that are cut off after n tokens, summed and divided."""
    generator = draws.torch_generator(72)
    X, y = draw_sequences(tilted(context_length=8, task_covariance=TASKS, noise_variance=0.3), count, generator)
    n = draws.generator(73).choice(list(LENGTHS), size=count, p=list(LENGTHS.values()))
    present = np.arange(8) < n[:, None]
    divisor = np.array([DIVISORS[normalisation](one) for one in n])
    beta = np.einsum("pin,pn,pn->pi", X[:, :-1, :-1].numpy(), X[:, -1, :-1].numpy(), present) / divisor[:, None]
    query = X[:, :-1, -1].numpy()
    return pairs(beta, query, y.numpy())[:2]


def _with_gain(gain: object) -> RegressionTask:
    return tilted(context_lengths=LENGTHS, task_covariance=TASKS, noise_variance=0.3, context_gain=gain)


@claim("V4-moments", method="Monte Carlo", theory=_with_gain)
@wrong("the average, whatever they are divided by", lambda name: _with_gain("present"))
@wrong("the longest for the official code's", lambda name: _with_gain(name.replace("official", "longest")))
@wrong("n/(n + 2) for n/(n + 1)", lambda name: _with_gain((lambda n: n / (n + 2)) if name == "official" else name))
@wrong("E(g)^2 for E(g^2)", lambda name: _with_gain(lambda n: _with_gain(name).gain_moments.g_1))
def gained_moments(task: Callable) -> float:
    """Moments of sums over contexts of random length, divided by the tokens present, by the longest, and by all with the query."""
    return max(
        largest_product_score(*pair, exact)
        for name in DIVISORS
        for pair, exact in zip(_summed_contexts(name), task(name).loss_moments[:2], strict=True)
    )


def uniform_gain(name: str, i: int, longest: int) -> float:
    return float(compiled("V4-uniform", (notation.N,), part=f"{name}, g_{i}", backend="mpmath")(longest))


@claim("V4-uniform", method="rational", tolerance=ROUNDOFF, theory=uniform_gain)
@wrong("N + 1 for N", lambda name, i, longest: uniform_gain(name, i, longest + 1))
@wrong("one over the mean", lambda name, i, longest: 2 / (longest + 1) if name == "present" else uniform_gain(name, i, longest))
@wrong("n/N for n/(n + 1)", lambda name, i, longest: uniform_gain("longest" if name == "official" else name, i, longest))
@wrong("E(g)^2 for E(g^2)", lambda name, i, longest: uniform_gain(name, 1, longest) ** 2 if i == 2 else uniform_gain(name, i, longest))
def uniform_gain_moments(expected) -> float:
    """E(1/n), and E(g), E(g^2) and E(g^2/n) for n/N and n/(n + 1), n uniform on 1 to 1, 2 and 50, in rational numbers."""
    errors = []
    for longest, i in product((1, 2, 50), (1, 2, 3)):
        lengths = range(1, longest + 1)
        gains = {"longest": [Fraction(n, longest) for n in lengths], "official": [Fraction(n, n + 1) for n in lengths]}
        for name, law in gains.items() if i < 3 else (*gains.items(), ("present", [Fraction(1)] * longest)):
            terms = (g if i == 1 else g**2 if i == 2 else g**2 / n for g, n in zip(law, lengths, strict=True))
            errors.append(abs(float(sum(terms) / longest) - expected(name, i, longest)))
    return max(errors)


def effective_loss(task: RegressionTask, B: np.ndarray, gains) -> float:
    """The loss of g_1/g_2 B."""
    letters = (notation.Lambda, Sigma_w, notation.Lambda_q, notation.sigma, notation.B, g_1, g_2, g_3)
    laws = (task.covariance, task.task_covariance, task.query_covariance, np.sqrt(task.noise_variance))
    return float(compiled("V4-effective", letters, part="loss")(*laws, B, *gains))


@claim("V4-effective", method="linear algebra", theory=effective_loss)
@wrong("no error from the gains", lambda task, B, gains: effective_loss(task, B, (gains[1] ** 0.5, *gains[1:])))
@wrong(
    "the harmonic mean of the lengths",
    lambda task, B, gains: effective_loss(task, B, (*gains[:2], gains[1] * sum(p / n for n, p in LENGTHS.items()))),
)
def effective_length(formula) -> float:
    """The loss at a map in units of g_1/g_2, against the average over lengths of the loss with the gain in the map."""
    B, worst = np.array([[1.0, -0.5, 0.2], [0.3, 0.8, 0.0], [-0.4, 0.1, 1.2]]), 0.0
    for gain in ("longest", "official", {1: 2.0, 2: 0.3, 8: 1.1}):
        task = _with_gain(gain)
        g, unit = task.context_gains, task.gain_moments.g_1 / task.gain_moments.g_2
        found = sum(
            p * QuadraticLoss.population(tilted(context_length=n, task_covariance=TASKS, noise_variance=0.3)).value(g[n] * unit * B)
            for n, p in LENGTHS.items()
        )  # fmt: skip
        worst = max(worst, abs(found - formula(task, B, task.gain_moments)))
    return worst


def _prefixes(gain: object) -> RegressionTask:
    return RegressionTask(covariance=TILTED, context_lengths=range(1, 9), context_gain=gain)


@claim("V4-uniform", method="forward pass", tolerance=SAMPLING, theory=lambda: QuadraticLoss.population(_prefixes("official")))
@wrong("the average over the context", lambda: QuadraticLoss.population(_prefixes("present")))
@wrong("divided by the longest context", lambda: QuadraticLoss.population(_prefixes("longest")))
@wrong("the longest context only", lambda: QuadraticLoss.population(tilted(context_length=8)))
def losses_of_prefixes(loss) -> float:
    """The mean of the losses of all prefixes, as the official code adds them up with vary_len, on 100,000 sequences."""
    task = tilted(context_length=8)
    weights = SeparateWeights.initialize(task, heads=3, rank=1, scale=2.5, rng=draws.generator(75))
    with torch.no_grad():
        X, y = labelled_batches(task, 100_000, draws.torch_generator(74))()
        errors = (PrefixAttention(weights)(X) - y).square().reshape(8, -1).mean(dim=0).numpy()
    return largest_score(errors, np.array(loss().value(weights.effective_map())))
