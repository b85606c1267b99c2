r"""Rewriting by rules, the inverse of substitution: products in a formula that was multiplied out are replaced by their names.

A rule replaces a product of neighbouring letters wherever it occurs, and its transpose:

>>> from iclflow.theory.notation import D, Lambda, lambda_, vector, matrix
>>> e, A = vector("e", D), matrix("A", D)
>>> rewrite(e.T * Lambda**2 * A * e, {Lambda * e: lambda_ * e})
lambda^2 e' A e
>>> rewrite(e.T * Lambda * e * A, {Lambda * e: lambda_ * e, e.T * e: 1})
lambda A

An eigenvector is the rule Lambda e = lambda e, a unit vector is e' e = 1, a projector is P P = P. For a sum over an index, the rule
sum_k e_k e_k' = I, see :func:`sum_over`.
"""

from collections.abc import Mapping

import sympy
from sympy import BlockMatrix

from ..algebra import sympy_conversion, words
from ..algebra.closing import close_ends, open_ends
from ..algebra.polynomial import TracePolynomial, polynomial_of_word, total, zero

_PASSES = 100


def rewrite(expression, rules: Mapping) -> TracePolynomial:
    """Apply the rules {product: value} until none applies.

    A product is letters multiplied, of coefficient 1, or a bilinear form such as e' e, whose value is a scalar.
    Raises ValueError for any other product, for a value of another shape, and for rules that still apply after 100 passes.
    """
    polynomial = TracePolynomial(expression)
    patterns = [rule for product, value in rules.items() for rule in _read_rule(product, value)]
    for _ in range(_PASSES):
        before, polynomial = polynomial, _one_pass(polynomial, patterns)
        if polynomial == before:
            return polynomial
    raise ValueError(f"rewrite: the rules {dict(rules)} do not come to an end on {expression}")


def _read_rule(product, value) -> list[tuple[words.Word, TracePolynomial, bool]]:
    """(letters, value, is the product a bilinear form?), for the product and for its transpose."""
    product, value = TracePolynomial(product), TracePolynomial(value)
    ((scalars, traces, word), number), *others = [*product.terms.items()] or [(((), (), None), 0)]
    if others or scalars or number != 1 or (bool(traces) == bool(word)) or len(traces) > 1:
        raise ValueError(f"rewrite: a rule replaces one product of letters with coefficient 1, got {product}")
    if value.terms and value.shape != product.shape:
        raise ValueError(f"rewrite: {product} has shape {product.shape}, its value {value} has shape {value.shape}")
    if traces:
        return [(traces[0], value, True)]
    flipped = words.transpose(word)
    if flipped == word and value != value.T:
        raise ValueError(f"rewrite: {product} equals its transpose, its value {value} does not")
    return [(word, value, False)] + ([] if flipped == word else [(flipped, value.T, False)])


def _one_pass(polynomial: TracePolynomial, patterns) -> TracePolynomial:
    pieces = []
    for (scalars, traces, _), number in close_ends(polynomial).items():
        piece = TracePolynomial.from_terms({(scalars, (), None): number}, None)
        for closed in traces:
            piece = piece * _rewrite_closed(closed, patterns)
        pieces.append(piece)
    return open_ends(total(pieces).terms, polynomial.shape, polynomial.conditions)


def _rewrite_closed(closed: words.Word, patterns) -> TracePolynomial:
    cut = words.cut_position(closed)
    turned = closed if cut is None else closed[cut:] + closed[:cut]
    for pattern, value, whole in patterns:
        if whole:
            if pattern == closed:
                return value
            continue
        length, size = len(pattern), len(turned)
        ring = turned * 2 if cut is None else turned
        for start in range(size if cut is None else size - length + 1):
            if length <= size and ring[start : start + length] == pattern:
                rest = ring[start + length : start + size] if cut is None else turned[start + length :] + turned[:start]
                if not value.terms:
                    return zero(None)
                if not rest:
                    return value.trace()
                return (value * polynomial_of_word(rest, (words.rows(rest[0]), words.columns(rest[-1])))).trace()
    return TracePolynomial.from_terms({((), (closed,), None): 1}, None)


Blocks = tuple[tuple[TracePolynomial, ...], ...]


def block_product(*factors) -> Blocks:
    """The product of block matrices, each a tuple of rows of blocks; the shapes of the blocks must fit."""
    first, *rest = (tuple(tuple(map(TracePolynomial, row)) for row in factor) for factor in factors)
    for factor in rest:
        if any(len(row) != len(factor) for row in first):
            raise ValueError(f"block_product: {len(first[0])} columns of blocks meet {len(factor)} rows of blocks")
        columns = tuple(zip(*factor, strict=True))
        first = tuple(tuple(total(a * b for a, b in zip(row, column, strict=True)) for column in columns) for row in first)
    return first


def block_transpose(blocks) -> Blocks:
    """The transpose of a block matrix."""
    return tuple(tuple(TracePolynomial(block).T for block in column) for column in zip(*blocks, strict=True))


def as_block_matrix(blocks) -> BlockMatrix:
    """Rows of blocks as SymPy's block matrix, where a scalar is a 1 x 1 matrix."""
    formulas = [[TracePolynomial(block).to_sympy() for block in row] for row in blocks]
    return BlockMatrix([[one if getattr(one, "shape", None) else one * sympy.Identity(1) for one in row] for row in formulas])


def multiplied_out(expression) -> TracePolynomial | BlockMatrix:
    """A formula with block matrices, its products, sums and transposes carried out: a trace polynomial if one block is left.

    >>> from iclflow.theory.notation import Lambda, beta
    >>> print(multiplied_out(BlockMatrix([[Lambda, beta]]) * BlockMatrix([[Lambda], [beta.T]])))
    Lambda^2 + beta beta'

    Raises ValueError for blocks whose shapes do not fit.
    """
    blocks = [[TracePolynomial.from_terms(*form) for form in row] for row in sympy_conversion.grid(expression)]
    return blocks[0][0] if len(blocks) == len(blocks[0]) == 1 else as_block_matrix(blocks)
