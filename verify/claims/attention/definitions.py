"""Claims that the data, the networks and the initial weights obey the definitions (1)-(6), (8), (9), (12), (34) and (36).

Theory's side is the registered formula, read when the claim is measured, at the values that its letters have in the code.
"""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import mpmath
import numpy as np
import torch

from ....numerics import MergedWeights, SeparateWeights, compile_expression
from ....theory.derivations.points import Point, value_at
from ....theory.equations import equation
from ....theory.notation import D, H, Lambda, N, R, beta, w, w_init, x_q
from ....theory.results.attention.blocks import ATTN, W_K, W_Q, W_V, rho
from ....theory.results.task.regression import X, X_c, y
from ...experiments import draws
from ...training.modules import SeparateAttention, cubic_features
from ...training.sequences import Tokens, assemble
from .. import formulas
from ..book import claim, wrong
from .features import population_loss, sequences
from .models import TASK, largest, prompts, random
from .moments import TILTED, largest_product_score, largest_score

Definition = Callable[[Mapping], Any]
SIZES = {D: 3, N: 5, H: 4, R: 2}


def defined(number: str, part: str | None = None) -> Definition:
    """A definition as a function of {letter: array}; a list gives the values in the heads."""

    def value(letters: Mapping) -> np.ndarray:
        point = Point(SIZES, Random(0))
        for letter, given in letters.items():
            for head, one in enumerate(given if isinstance(given, list) else [given]):
                point[(letter, head) if head else letter] = mpmath.matrix(np.asarray(one).tolist()) if np.ndim(one) else mpmath.mpf(one)
        found = value_at(equation(number).part(part), point)
        return np.array(found.tolist() if isinstance(found, mpmath.matrix) else [[found]], dtype=float)

    return value


def distance(value: np.ndarray, code: torch.Tensor) -> float:
    """The largest difference from what the code computes, relative to the largest value."""
    return largest(torch.as_tensor(value).flatten() - code.detach().flatten(), code)


def _tokens() -> tuple[np.ndarray, np.ndarray, torch.Tensor, torch.Tensor]:
    """Tokens, a task vector, and the prompt and target that the code makes of them."""
    x, task = random(1, SIZES[D], SIZES[N] + 1, seed=11), random(1, SIZES[D], seed=12)
    prompt, target = assemble(x, task)
    return x[0].numpy(), task[0].numpy(), prompt[0], target


def _unmasked(letters: Mapping) -> np.ndarray:
    value = defined("1")(letters)
    value[-1, -1] = 1
    return value


@claim("1", method="forward pass", theory=defined("1"))
@wrong("the target of the query unmasked", _unmasked)
def prompt_has_its_blocks(formula: Definition) -> float:
    """The prompt matrix of random tokens against its blocks."""
    x, task, prompt, _ = _tokens()
    return distance(formula({X_c: x[:, :-1], x_q: x[:, -1:], y: (task @ x[:, :-1])[:, None]}), prompt)


@claim("4", method="forward pass", theory=(defined("4", "context"), defined("4", "query")))
@wrong("twice the target of the query", (defined("4", "context"), formulas.times(2)))
def targets_are_linear(targets: tuple[Definition, Definition]) -> float:
    """The targets in the prompt, and that of the query, from its tokens and the task vector."""
    x, task, prompt, target = _tokens()
    letters = {X_c: x[:, :-1], x_q: x[:, -1:], w: task[:, None]}
    return max(distance(one(letters), code) for one, code in zip(targets, (prompt[-1, :-1], target), strict=True))


def _first_two_moments(samples: np.ndarray, mean: np.ndarray, covariance: np.ndarray | float) -> float:
    return max(largest_score(samples, mean[:, 0]), largest_product_score(samples, samples, covariance))


@claim("2", method="Monte Carlo", theory=(defined("2", "mean"), defined("2", "covariance")))
@wrong("Lambda^2 for Lambda", (defined("2", "mean"), lambda letters: np.linalg.matrix_power(letters[Lambda], 2)))
def tokens_have_their_law(law: tuple[Definition, Definition]) -> float:
    """Mean and covariance of 100,000 context tokens and queries."""
    x = Tokens.of(TASK).draw(100_000, draws.torch_generator(13)).numpy()
    mean, covariance = (one({Lambda: TASK.covariance}) for one in law)
    return max(_first_two_moments(x[:, :, token], mean, covariance) for token in (0, -1))


@claim("3", method="Monte Carlo", theory=(defined("3", "mean"), defined("3", "covariance")))
@wrong("twice the covariance", (defined("3", "mean"), formulas.times(2)))
def tasks_have_their_law(law: tuple[Definition, Definition]) -> float:
    """Mean and covariance of 200,000 task vectors, recovered from the prompts."""
    prompt, _ = sequences()
    # N > D: the targets of the context determine the task vector
    tokens, labels = prompt[:, :-1, :-1], prompt[:, -1, :-1, None]
    tasks = torch.linalg.solve(tokens @ tokens.mT, tokens @ labels)[..., 0]
    mean, covariance = (one({}) for one in law)
    return _first_two_moments(tasks.numpy(), mean, covariance)


def _attention(**options: Any) -> tuple[SeparateAttention, torch.Tensor, dict]:
    """A module with random weights, two prompts, and the weights by letter."""
    heads, rank, size = SIZES[H], SIZES[R], SIZES[D] + 1
    weights = [random(heads, rows, size, seed=14 + i) / 2 for i, rows in enumerate((size, rank, rank))]
    return SeparateAttention(*weights, **options), prompts()[0][:2], {one: list(v) for one, v in zip((W_V, W_K, W_Q), weights, strict=True)}


def _output(formula: Definition, **options: Any) -> float:
    attention, inputs, letters = _attention(**options)
    return max(
        distance(formula({X: prompt, rho: options.get("rho", 1), **letters}), output)
        for prompt, output in zip(inputs, attention.attend(inputs), strict=True)
    )


@claim("5", method="forward pass", theory=defined("5"))
@wrong("the scores not divided", lambda letters: defined("5")({**letters, rho: 1}))
def softmax_module_computes_its_formula(formula: Definition) -> float:
    """The output of a softmax module of rank two, every token, against the formula."""
    return _output(formula, softmax=True, rho=1.5)


@claim("5-linear", method="forward pass", theory=defined("5-linear"))
@wrong("without the skip connection", lambda letters: defined("5-linear")(letters) - letters[X].numpy())
def linear_module_computes_its_formula(formula: Definition) -> float:
    """The output of a linear module of rank two, every token, against the formula."""
    return _output(formula)


@claim("6", method="forward pass", theory=defined("6"))
@wrong("the last context token", lambda letters: letters[ATTN][-1, -2])
def prediction_is_the_corner(corner: Definition) -> float:
    """The prediction of a softmax and of a linear module against the corner of the output."""
    residuals = []
    for softmax in (True, False):
        attention, inputs, _ = _attention(softmax=softmax)
        pairs = zip(attention.attend(inputs), attention(inputs), strict=True)
        residuals += [distance(corner({ATTN: one.detach()}), code) for one, code in pairs]
    return max(residuals)


@claim("8", method="forward pass", theory=defined("8"))
@wrong("N + 1 for N", formulas.times(SIZES[N] / (SIZES[N] + 1)))
def features_hold_the_correlation(correlation: Definition) -> float:
    """The features vec(beta x_q') that the networks read, against beta by its definition."""
    prompt = prompts()[0][:1]
    x, targets, query = (one[0].numpy() for one in (prompt[:, :-1, :-1], prompt[:, -1, :-1, None], prompt[:, :-1, -1:]))
    return distance((correlation({X_c: x, y: targets}) @ query.T).T, cubic_features(prompt))


@claim("12", method="forward pass", theory=defined("12", "z"))
@wrong("rows stacked", lambda letters: letters[beta] @ letters[x_q].T)
def features_are_cubic(z: Definition) -> float:
    """The cubic features of the networks against z."""
    prompt = prompts()[0][:1]
    query, correlation = prompt[0, :-1, -1:].numpy(), (prompt[0, :-1, :-1] @ prompt[0, -1, :-1, None] / SIZES[N]).numpy()
    return distance(z({beta: correlation, x_q: query}), cubic_features(prompt))


def error_of_each(targets: np.ndarray, predictions: np.ndarray) -> np.ndarray:
    """What the average (9) is for one sequence, for each of many."""
    average = equation("9").statement.replace(lambda one: one.func.__name__ == "Limit", lambda limit: limit.args[0])
    (count,) = (one for one in average.free_symbols if one.name == "P")
    error = average.subs(count, 1).doit()
    letters = {one: one.base.label for one in error.free_symbols if hasattr(one, "base")}
    target, prediction = sorted(letters.values(), key=lambda one: one.name != "y")
    return compile_expression(error.xreplace(letters), (target, prediction))(targets, predictions)


@claim("9", method="Monte Carlo", theory=error_of_each)
@wrong("fourth powers", lambda targets, predictions: (targets - predictions) ** 4)
def loss_is_an_average_of_squares(error: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> float:
    """The average of errors over 200,000 sequences against the closed form of the loss."""
    prompt, targets = sequences()
    B = draws.generator(16).standard_normal((3, 3))
    predictions = cubic_features(prompt) @ torch.tensor(B.flatten(order="F"))
    return largest_score(error(targets.numpy(), predictions.numpy()), population_loss(TILTED, B))


LETTERS = (w_init, H, D, R)


def _spread(variances: Mapping[str, Callable], kind: Any, **options: Any) -> float:
    """Mean and variance of the entries of 2,000 initial weights, in standard errors."""
    rng = draws.generator(17)
    drawn = [kind.initialize(TASK, heads=SIZES[H], scale=0.3, rng=rng, **options) for _ in range(2000)]
    samples = {part: np.concatenate([getattr(one, part).ravel() for one in drawn]) for part in variances}
    values = {part: float(formula(0.3, SIZES[H], SIZES[D], SIZES[R])) for part, formula in variances.items()}
    return max(_first_two_moments(samples[part][:, None], np.zeros((1, 1)), value) for part, value in values.items())


@claim("34", method="Monte Carlo", theory=formulas.parts_of("34", LETTERS, *"vU"))
@wrong("twice the variance", dict.fromkeys("vU", formulas.times(2)))
@wrong("H + 1 for H", {H: H + 1})
def merged_weights_have_their_law(variances: Mapping[str, Callable]) -> float:
    """Mean and variance of 2,000 initial weights of merged attention."""
    return _spread(variances, MergedWeights)


@claim("36", method="Monte Carlo", theory=formulas.parts_of("36", LETTERS, *"vkq"))
@wrong("twice the variance", dict.fromkeys("vkq", formulas.times(2)))
@wrong("H + 1 for H", {H: H + 1})
def separate_weights_have_their_law(variances: Mapping[str, Callable]) -> float:
    """Mean and variance of 2,000 initial weights of separate attention."""
    return _spread(variances, SeparateWeights, rank=SIZES[R])
