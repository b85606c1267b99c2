"""Sequences drawn by the laws of a model and its task, and trace polynomials with tensors for their symbols."""

from collections.abc import Mapping
from math import prod
from typing import Any

import torch
from torch import Tensor

from ...numerics import RegressionTask, compile_expression
from ...numerics.own_model.loss import ModelLoss
from ...theory import Fixed, Gaussian, Mixture, TracePolynomial
from ...theory.algebra import words
from ...theory.algebra.coefficients import scalar_of
from ...theory.notation import D, Lambda_hat, N, x_q
from ...theory.results.task.population import g_n
from ..training.sequences import Tokens

Values = dict[Any, Tensor]


def evaluate(polynomial: TracePolynomial, values: Mapping[Any, Tensor]) -> Tensor:
    """The polynomial with tensors for its symbols, matrices as (..., rows, columns): leading axes broadcast, gradients pass through."""

    def factor(code: int) -> Tensor:
        value = values[words.symbol_of(code)]
        value = value.mT if words.is_transposed(code) else value
        return torch.linalg.inv(value) if words.is_inverse(code) else value

    def multiply(word: tuple[int, ...]) -> Tensor:
        result = factor(word[0])
        for code in word[1:]:
            result = result @ factor(code)
        return result

    def trace(closed: tuple[int, ...]) -> Tensor:
        cut = words.cut_position(closed) or 0  # start at a row vector, if there is one: the products stay small
        return multiply(closed[cut:] + closed[:cut]).diagonal(dim1=-2, dim2=-1).sum(-1)

    def scalar(generator: int) -> Any:
        expression = scalar_of(generator)
        symbols = sorted(expression.free_symbols, key=str)
        return compile_expression(expression, symbols, "torch")(*(values[symbol] for symbol in symbols))

    total: Any = torch.zeros((), dtype=torch.float64)
    traces: dict[tuple[int, ...], Tensor] = {}
    for coefficient, closed_words, word in polynomial.groups():
        term = sum(float(number) * prod(scalar(g) ** e for g, e in powers) for powers, number in coefficient.items())
        for closed in closed_words:
            if closed not in traces:
                traces[closed] = trace(closed)
            term = term * traces[closed]
        if word is not None:
            size = polynomial.shape[0]
            open_word = multiply(word) if word else torch.eye(int(values.get(size, size)), dtype=torch.float64)
            term = term[..., None, None] * open_word if isinstance(term, Tensor) else term * open_word
        total = total + term
    return total


def as_tensors(values: Mapping[Any, Any], task: RegressionTask) -> Values:
    sizes = {N: task.context_length, D: task.dimension}
    return {symbol: torch.tensor(value, dtype=torch.float64) for symbol, value in (*sizes.items(), *values.items())}


def draw(loss: ModelLoss, weights: Values, count: int, generator: torch.Generator) -> Values:
    """``count`` sequences: a value for each random symbol that the error of the model depends on, drawn from the laws.

    Tokens that are not Gaussian are drawn by the task's law; so is the query, unless the model has another law for it.
    """
    model, task = loss.stated, loss.task
    values: Values = as_tensors(loss.fixed, task) | weights
    tokens = Tokens.of(task) if "token_law" in task.variations else None
    own = {law.symbol for law in loss.model.laws}
    if task.variations & {"context_lengths", "context_gain"}:
        law = [(n, p, task.context_gains[n]) for n, p in task.context_lengths.items()]
        lengths, shares, gains = (torch.tensor(part, dtype=torch.float64) for part in zip(*law, strict=True))
        chosen = torch.multinomial(shares, count, replacement=True, generator=generator)
        values |= {N: lengths[chosen], g_n: gains[chosen]}

    def normal(shape: tuple[int, ...]) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    def matrix_of(polynomial: TracePolynomial) -> Tensor:
        value = evaluate(polynomial, values)
        return value if polynomial.shape else value[..., None, None]

    def coloured(noise: Tensor, covariance: Tensor) -> Tensor:
        eigenvalues, E = torch.linalg.eigh(covariance)  # it may be singular, so no Cholesky factor
        return (E * eigenvalues.clamp(min=0).sqrt()[..., None, :]) @ noise

    def of_task(tokens: Tokens, number: int, root: Tensor) -> Tensor:
        """Tokens of the task's law, as columns."""
        return (tokens.law.white(normal, (count, number, len(root))).to(root) @ root).mT

    def sample(law: Any) -> Tensor:
        for parent in sorted(law.parents & model.random.keys(), key=str):
            draw_once(parent)
        if isinstance(law, Fixed):
            return matrix_of(law.value)
        if isinstance(law, Mixture):
            shares = torch.stack([evaluate(share, values) for share, _ in law.parts])
            chosen = torch.multinomial(shares, count, replacement=True, generator=generator)
            drawn = torch.stack(torch.broadcast_tensors(*(sample(part) for _, part in law.parts), normal((count, 1, 1)))[:-1])
            return drawn[chosen, torch.arange(count)]
        if isinstance(law, Gaussian):
            if law.symbol == x_q and tokens is not None and x_q not in own:
                return of_task(tokens, 1, tokens.root if tokens.query_root is None else tokens.query_root)
            covariance = matrix_of(law.covariance)
            if law.symbol.shape[1] == 1:
                return matrix_of(law.mean) + coloured(normal((count, covariance.shape[-1], 1)), covariance)
            columns = matrix_of(law.columns)
            drawn = coloured(normal((count, covariance.shape[-1], columns.shape[-1])), covariance)
            return matrix_of(law.mean) + coloured(drawn.mT, columns).mT
        samples = evaluate(law.samples, values)[..., None, None]  # one number for all sequences, or one each
        longest = int(samples.max())
        if law.fourth_moment is None:
            covariance = matrix_of(law.covariance)
            columns = matrix_of(law.mean) + coloured(normal((count, covariance.shape[-1], longest)), covariance)
        elif tokens is not None and law.symbol == Lambda_hat:
            columns = of_task(tokens, longest, tokens.root)
        else:
            raise ValueError(f"laws must be Gaussian to be sampled, got another fourth moment for {law.symbol}")
        columns = torch.where(torch.arange(longest) < samples, columns, 0)
        return columns @ columns.mT / samples

    def draw_once(symbol: Any) -> None:
        if symbol not in values:
            values[symbol] = sample(model.random[symbol])

    used = model.prediction.free_symbols | model.target.free_symbols
    for symbol in sorted(used & model.random.keys(), key=str):
        draw_once(symbol)
    return values
