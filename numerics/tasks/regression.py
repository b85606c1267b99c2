r"""The regression task of in-context learning: equations (2)-(4), its variations, and the moments that the loss needs.

Tokens :math:`x \sim N(0, \Lambda)`, a task vector :math:`w \sim N(0, I)` per sequence, labels :math:`y = w^\top x` and
:math:`N` labelled tokens in the context.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import fsum
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from ...theory.notation import Lambda, Lambda_q, N, sigma
from ...theory.results.task.population import WHITE, Sigma_w, Task, fourth
from ...theory.results.variations.token_laws import elliptical_of
from .._checks import (
    finite_array,
    instance,
    nonnegative_number,
    positive_integer,
    positive_number,
    require_room,
    symmetric_positive_definite,
    symmetric_root,
)
from ..compilation.equations import compiled
from .modes import Modes
from .token_laws import EllipticalTokens, GaussianTokens, TokenLaw

# Variations that change only M = E(beta beta') in the flow: its eigenvalues a_d and, under some token laws, its eigenvectors.
SPECTRAL = frozenset({"noise_variance", "context_lengths", "token_law"})
SMALLEST = 1e-100  # the smallest eigenvalue allowed; the largest is its inverse
# g_n: attention multiplies the sum over a context of n tokens, at most N, by g_n/n (V4).
GAINS: Mapping[str, Callable[[int, int], float]] = {
    "present": lambda n, N: 1.0,
    "longest": lambda n, N: n / N,
    "official": lambda n, N: n / (n + 1),
}


class GainMoments(NamedTuple):
    """The averages over context lengths in the loss (V4-moments)."""

    g_1: float  # E(g_n)
    g_2: float  # E(g_n^2)
    g_3: float  # E(g_n^2/n)


class LossMoments(NamedTuple):
    """The moments in the loss of a task, L(B) = c - 2<A, B> + <B, M B Q>."""

    A: Float[np.ndarray, "D D"]  # E(y_q beta x_q')
    M: Float[np.ndarray, "D D"]  # E(beta beta')
    Q: Float[np.ndarray, "D D"]  # E(x_q x_q')
    c: float  # E(y_q^2)


@dataclass(frozen=True, eq=False)
class RegressionTask:
    r"""In-context linear regression with token covariance :math:`\Lambda` and context length :math:`N`.

    Give exactly one of ``eigenvalues`` (the covariance is then their diagonal matrix, in the order given) and
    ``covariance`` (symmetric positive definite; its eigenvalues are listed in descending order), and exactly one of
    ``context_length`` and ``context_lengths``. The rest varies the task (V1 to V5):

    - ``noise_variance``: labels y = w'x + noise, on the query as well, so that the loss includes this variance;
    - ``task_covariance``: that of w, the identity by default; it may be singular;
    - ``number_of_tasks``: K task vectors, drawn once from N(0, ``task_covariance``) by ``task_seed`` and shared by all sequences, whose
      covariance replaces that one; or the vectors themselves, ``task_vectors``, as rows (V11);
    - ``query_covariance``: that of the query token, :math:`\Lambda` by default;
    - ``context_lengths``: a list of lengths (a length listed twice is twice as likely) or {length: probability};
      ``context_length`` is then the longest of positive probability;
    - ``context_gain``: attention divides the sum over a context of n tokens by n (``"present"``, the default), by the longest length N
      (``"longest"``), or by n + 1, counting the query, as the official code does with ``vary_len`` (``"official"``). Or
      factors of the average over n, as {length: gain} or a function of the length (V4);
    - ``token_law``: one of :mod:`~iclflow.numerics.tasks.token_laws`, Gaussian by default.

    Raises ``ValueError`` for a covariance that isn't symmetric positive definite, for eigenvalues that aren't positive
    and finite, for a context length that isn't an integer of at least 1, for probabilities that don't add up to 1, for an unknown
    ``context_gain`` or one that isn't positive, and for a negative noise variance.

    >>> task = RegressionTask(eigenvalues=[0.4, 0.3, 0.2, 0.1], context_length=31)
    >>> task.second_moment_eigenvalues.round(6).tolist()  # a_d, equation (32)
    [0.178065, 0.102581, 0.047742, 0.013548]
    >>> noisy = RegressionTask(eigenvalues=[0.4, 0.3, 0.2, 0.1], context_length=31, noise_variance=0.5)
    >>> (noisy.second_moment_eigenvalues - task.second_moment_eigenvalues).round(6).tolist()  # 0.5 lambda_d / 31
    [0.006452, 0.004839, 0.003226, 0.001613]
    """

    covariance: Float[np.ndarray, "D D"]
    context_length: int
    eigenvalues: Float[np.ndarray, " D"]
    eigenvectors: Float[np.ndarray, "D D"]
    noise_variance: float
    task_covariance: Float[np.ndarray, "D D"]
    task_vectors: Float[np.ndarray, "K D"] | None  # if sequences share finitely many
    query_covariance: Float[np.ndarray, "D D"]
    context_lengths: Mapping[int, float]
    context_gains: Mapping[int, float]  # g_n of each length
    token_law: TokenLaw
    variations: frozenset[str]  # names of the arguments that depart from the paper's task

    def __init__(
        self,
        *,
        context_length: object = None,
        eigenvalues: object = None,
        covariance: object = None,
        noise_variance: object = 0.0,
        task_covariance: object = None,
        task_vectors: object = None,
        number_of_tasks: object = None,
        task_seed: object = 0,
        query_covariance: object = None,
        context_lengths: object = None,
        context_gain: object = "present",
        token_law: object = None,
    ) -> None:
        if (eigenvalues is None) == (covariance is None):
            both = "neither" if eigenvalues is None else "both"
            raise ValueError(f"exactly one of eigenvalues and covariance must be given, got {both}")
        if covariance is not None:
            matrix = symmetric_positive_definite("covariance", covariance)
            ascending, columns = np.linalg.eigh(matrix)
            values, vectors = ascending[::-1].copy(), columns[:, ::-1].copy()
        else:
            values = finite_array("eigenvalues", eigenvalues, ("D",))
            if not (values > 0).all():
                raise ValueError(f"eigenvalues must be positive, got {eigenvalues!r}")
            matrix, vectors = np.diag(values), np.eye(len(values))
        if not (values.min() >= SMALLEST and values.max() <= 1 / SMALLEST):
            what = "eigenvalues must lie" if covariance is None else "covariance must have eigenvalues"
            raise ValueError(f"{what} between {SMALLEST:g} and {1 / SMALLEST:g}, whose cubes float64 can hold, got {values!r}")
        lengths = _lengths(context_length, context_lengths)
        gains = _gains(context_gain, lengths)
        D, given = len(values), {"task_covariance": task_covariance, "query_covariance": query_covariance}
        others = {
            name: None if value is None else symmetric_positive_definite(name, value, D, singular=name == "task_covariance")
            for name, value in given.items()
        }
        tasks = _task_vectors(task_vectors, number_of_tasks, task_seed, others["task_covariance"], D)
        if tasks is not None:
            others["task_covariance"] = tasks.T @ tasks / len(tasks)
        noise = nonnegative_number("noise_variance", noise_variance)
        law = GaussianTokens() if token_law is None else token_law
        if isinstance(law, type) or not isinstance(law, TokenLaw):
            raise TypeError(f"token_law must be a TokenLaw, such as SphereTokens(), got {token_law!r}")
        departs = {
            "noise_variance": noise > 0,
            "task_covariance": others["task_covariance"] is not None,
            "task_vectors": tasks is not None,
            "query_covariance": others["query_covariance"] is not None,
            "context_lengths": len(lengths) > 1,
            "context_gain": any(gain != 1 for gain in gains.values()),
            "token_law": not isinstance(law, GaussianTokens),
        }
        stored: dict[str, Any] = {
            "covariance": matrix,
            "eigenvalues": values,
            "eigenvectors": vectors,
            "task_covariance": np.eye(D) if others["task_covariance"] is None else others["task_covariance"],
            "query_covariance": matrix if others["query_covariance"] is None else others["query_covariance"],
        }
        for array in stored.values():
            array.flags.writeable = False
        stored |= {"context_length": max(lengths), "context_lengths": lengths, "context_gains": gains, "noise_variance": noise}
        stored |= {"token_law": law, "task_vectors": tasks, "variations": frozenset(name for name, true in departs.items() if true)}
        for name, value in stored.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        """The covariance, the length, and every argument that departs from the paper's task."""
        shown = ["covariance", "context_lengths" if "context_lengths" in self.variations else "context_length"]
        names = {"context_gain": "context_gains"}
        left_out = {*shown, "task_covariance"} if self.task_vectors is not None else shown
        shown += sorted(names.get(name, name) for name in self.variations if name not in left_out)
        values = {name: getattr(self, name) for name in shown}
        return f"RegressionTask({', '.join(f'{name}={_shown(value)}' for name, value in values.items())})"

    @property
    def dimension(self) -> int:
        return len(self.eigenvalues)

    @property
    def gain_moments(self) -> GainMoments:
        """E(g), E(g^2) and E(g^2/n): 1, 1 and 1/N for a fixed length without a gain."""
        law = [(p, self.context_gains[n], n) for n, p in self.context_lengths.items()]
        return GainMoments(fsum(p * g for p, g, _ in law), fsum(p * g**2 for p, g, _ in law), fsum(p * g**2 / n for p, g, n in law))

    @property
    def effective_context_length(self) -> float:
        """The fixed length with the same loss, E(g^2)/E(g^2/n) (V4-effective): N if the length is fixed, 1/E(1/n) without gains.

        Gains also scale the learned map by E(g)/E(g^2) and every drop by E(g)^2/E(g^2).
        """
        return self.gain_moments.g_2 / self.gain_moments.g_3

    @cached_property
    def loss_moments(self) -> LossMoments:
        r"""A, M, Q, c of the population loss (9): :math:`\Lambda^2, E(\hat\Lambda^2), \Lambda, \mathrm{tr}\Lambda` for the paper's
        task, (V0) and (V5-moment) in general."""
        root = self.eigenvectors * np.sqrt(self.eigenvalues)
        F = self.token_law.fourth_moment(root, self.task_covariance)
        noise, (g_1, g_2, _) = np.sqrt(self.noise_variance), self.gain_moments
        first = compiled("V0", (Lambda, Sigma_w, Lambda_q, sigma), part=("A", "Q", "c"))
        A, Q, c = first(self.covariance, self.task_covariance, self.query_covariance, noise)
        second = compiled("V5-moment", (Lambda, Sigma_w, fourth, sigma, N), part="general")
        M = second(self.covariance, self.task_covariance, F, noise, self.effective_context_length)
        return LossMoments(g_1 * A, g_2 * M, Q, float(c))  # over lengths: (V4-moments)

    def symbolic(self) -> Task:
        """The task in symbols, for ``equation(number).derive(task=...)``: sigma, Sigma_w, Lambda_q, kappa, g_1, g_2 and g_3.

        Raises ``ValueError`` for tokens that are neither Gaussian nor elliptical.
        """
        if not isinstance(self.token_law, EllipticalTokens):
            raise ValueError(f"token_law must be elliptical for a task in symbols, got {self.token_law!r}")
        L, varied = self.covariance, self.variations
        others = (self.task_covariance, self.query_covariance)
        return Task(
            noise=sigma**2 if "noise_variance" in varied else 0,
            task_covariance=Sigma_w if "task_covariance" in varied else WHITE,
            query_covariance=Lambda_q if "query_covariance" in varied else Lambda,
            token_law=elliptical_of if "token_law" in varied else None,
            random_length=bool(varied & {"context_lengths", "context_gain"}),
            commuting=bool(varied & {"task_covariance", "query_covariance"})
            and all(np.abs(one @ L - L @ one).max() <= 1e-12 * np.abs(one).max() * np.abs(L).max() for one in others),
        )

    @cached_property
    def modes(self) -> Modes:
        """The directions that separate attention can learn, with their levels, drops and rates: those of tasks, if they span fewer."""
        A, M, Q, _ = self.loss_moments
        return Modes.of(A, M, Q, self.eigenvectors, rank=self.rank)

    @cached_property
    def rank(self) -> int:
        """The number of directions that tasks span, min(K, D) for K of them in general position."""
        return int(np.linalg.matrix_rank(self.task_covariance, hermitian=True)) if "task_covariance" in self.variations else self.dimension

    @property
    def second_moment(self) -> Float[np.ndarray, "D D"]:
        r""":math:`M = E(\beta\beta^\top)`; for the paper's task :math:`E(\hat\Lambda^2)`, equation (31)."""
        return self.loss_moments.M

    @cached_property
    def second_moment_eigenvalues(self) -> Float[np.ndarray, " D"]:
        r""":math:`a_d`, equation (32), in the order of ``eigenvalues``.

        Raises ``ValueError`` if M and :math:`\Lambda` do not share eigenvectors, as under some task covariances and token laws.
        """
        E = self.eigenvectors if self.modes.growth is None else self.modes.keys
        if not (_diagonal(self.second_moment, E) and _diagonal(self.covariance, E)):
            given, one = self.task_covariance, self.covariance
            law = np.abs(given @ one - one @ given).max() <= 1e-12 * np.abs(given).max() * np.abs(one).max()
            needed = "token_law must have a fourth moment that commutes" if law else "task_covariance must commute"
            raise ValueError(f"{needed} with covariance for a_d to be defined; use second_moment")
        return np.einsum("id,ij,jd->d", E, self.second_moment, E)


def _diagonal(matrix: np.ndarray, E: np.ndarray) -> bool:
    """Whether the columns of E are eigenvectors of ``matrix``, up to rounding."""
    turned = E.T @ matrix @ E
    return bool(np.abs(turned - np.diag(np.diag(turned))).max() <= 1e-11 * np.abs(turned).max())


def _shown(value: object) -> str:
    return " ".join(np.array2string(value, separator=", ").split()) if isinstance(value, np.ndarray) else repr(value)


def _task_vectors(given: object, number: object, seed: object, covariance: np.ndarray | None, D: int) -> Float[np.ndarray, "K D"] | None:
    """The shared task vectors, if there are any."""
    if isinstance(seed, bool) or not isinstance(seed, Integral) or seed < 0:
        raise ValueError(f"task_seed must be an integer of at least 0, got {seed!r}")
    if seed and number is None:
        raise ValueError(f"task_seed must be left out unless tasks are drawn, got {seed!r}")
    if given is None and number is None:
        return None
    if given is not None and number is not None:
        raise ValueError("at most one of task_vectors and number_of_tasks must be given, got both")
    if given is None:
        K = positive_integer("number_of_tasks", number)
        require_room("number_of_tasks", K, K * D)
        white = np.random.default_rng(int(seed)).standard_normal((K, D))
        return finite_array("number_of_tasks", white if covariance is None else white @ symmetric_root(covariance), ("K", D))
    if covariance is not None:
        raise ValueError("task_covariance must be left out with task_vectors, which determine it, got both")
    vectors = finite_array("task_vectors", given, ("K", D))
    if not vectors.any():
        raise ValueError(f"task_vectors must not all be zero, got {given!r}")
    if not SMALLEST**0.5 <= np.abs(vectors).max() <= SMALLEST**-0.5:
        raise ValueError(f"task_vectors must have a largest entry between {SMALLEST**0.5:g} and {SMALLEST**-0.5:g} in size, got {given!r}")
    return vectors


def any_task(task: object) -> RegressionTask:
    """``task`` itself. Raises ``TypeError`` unless it is a RegressionTask."""
    return instance("task", task, RegressionTask)


def paper_task(task: object, *, allow: Collection[str] = ()) -> RegressionTask:
    """The same. Raises ``ValueError`` for variations other than ``allow``."""
    if more := any_task(task).variations - set(allow):
        raise ValueError(f"task must not vary {', '.join(sorted(more))}, got {task!r}")
    return any_task(task)


def _lengths(fixed: object, law: object) -> Mapping[int, float]:
    """{length: probability}, without lengths of probability 0."""
    if law is None:
        return {positive_integer("context_length", fixed): 1.0}
    if fixed is not None:
        raise ValueError("exactly one of context_length and context_lengths must be given, got both")
    if not isinstance(law, Iterable) or isinstance(law, str | bytes):
        raise TypeError(f"context_lengths must be several lengths, or {{length: probability}}, got {law!r}")
    listed = list(law)
    if not listed:
        raise ValueError(f"context_lengths must name at least one length, got {law!r}")
    named = [positive_integer("context_lengths", n) for n in listed]
    if not isinstance(law, Mapping):
        return {n: times / len(named) for n, times in Counter(named).items()}
    chances = [nonnegative_number("context_lengths", p) for p in law.values()]
    if abs(sum(chances) - 1) > 1e-12:
        raise ValueError(f"context_lengths must have probabilities that add up to 1, got {law!r}")
    return {n: p for n, p in zip(named, chances, strict=True) if p > 0}


def _gains(given: object, lengths: Mapping[int, float]) -> Mapping[int, float]:
    """{length: gain}."""
    longest = max(lengths)
    if isinstance(given, str):
        if given not in GAINS:
            raise ValueError(f"context_gain must be one of {', '.join(GAINS)}, or gains, got {given!r}")
        return {n: GAINS[given](n, longest) for n in lengths}
    if isinstance(given, Mapping):
        missing = [n for n in lengths if n not in given]
        if missing:
            raise ValueError(f"context_gain must give every length a gain, got none for {missing[0]} in {given!r}")
        return {n: positive_number("context_gain", given[n]) for n in lengths}
    if not callable(given):
        raise TypeError(f"context_gain must be one of {', '.join(GAINS)}, or {{length: gain}}, or a function of the length, got {given!r}")
    return {n: positive_number("context_gain", given(n)) for n in lengths}
