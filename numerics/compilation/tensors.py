r"""The tensor of a trace polynomial that is linear in several vectors: its values on unit vectors.

Each term is a product of numbers and bilinear forms :math:`a^\top M b`, so the tensor is a sum of outer products:

>>> from iclflow.theory import expect
>>> from iclflow.theory.notation import D, Lambda, N, vector, x_q
>>> a, b, c, d = (vector(name, D) for name in "abcd")
>>> fourth = expect(a.T * x_q * b.T * x_q * c.T * x_q * d.T * x_q)
>>> multilinear_tensor(fourth, (a, b, c, d), {Lambda: np.eye(2)})[0, 0, 1, 1].item()  # E x_1^2 x_2^2
1.0
"""

from collections.abc import Mapping, Sequence
from string import ascii_letters
from typing import Any

import numpy as np

from ...theory import TracePolynomial
from ...theory.algebra import words
from ...theory.algebra.coefficients import coefficient_of
from .expressions import compile_expression


def multilinear_tensor(polynomial: TracePolynomial, slots: Sequence[Any], values: Mapping[Any, Any]) -> np.ndarray:
    """The tensor T with ``polynomial`` = sum T_abc... slot_a slot_b slot_c ..., one axis for each vector of ``slots``.

    ``values`` holds a number or an array for every other symbol; the arrays give the dimension of the slots.

    Raises ``ValueError`` if the polynomial is not a scalar or not linear in each slot, and for a symbol without a value.
    """
    if polynomial.shape is not None:
        raise ValueError(f"polynomial must be a scalar, got shape {polynomial.shape}")
    arrays = {symbol: np.asarray(value, dtype=float) for symbol, value in values.items()}
    numbers = tuple(symbol for symbol, array in arrays.items() if array.ndim == 0)
    axes = {words.letter(slot): letter for slot, letter in zip(slots, ascii_letters, strict=False)}
    size = next(len(array) for array in arrays.values() if array.ndim)
    total = np.zeros((size,) * len(slots))
    for coefficient, traces, _ in polynomial.groups():
        factors = [_factor(closed, axes, arrays, size) for closed in traces]
        subscripts = [letters for letters, _ in factors]
        if sorted("".join(subscripts)) != sorted(axes.values()):
            raise ValueError(f"polynomial must be linear in each of {list(slots)}, got {polynomial}")
        number = compile_expression(coefficient_of(coefficient), numbers)(*(float(arrays[name]) for name in numbers))
        total += number * np.einsum(f"{','.join(subscripts)}->{''.join(axes.values())}", *(array for _, array in factors))
    return total


def _factor(closed: tuple[int, ...], axes: dict[int, str], arrays: Mapping[Any, np.ndarray], size: int) -> tuple:
    """The axes and the array of one closed word: a' M b, a' M w, w' M w or tr M."""
    start = next((i for i, code in enumerate(closed) if words.rows(code) == 1), None)
    if start is None:
        return "", np.trace(_product(closed, arrays, size))
    row, *middle, column = closed[start:] + closed[:start]
    matrix = _product(middle, arrays, size)
    letters = ""
    for end, is_row in ((row & ~3, True), (column & ~3, False)):
        if end in axes:
            letters += axes[end]
        else:
            known = _value(words.symbol_of(end), arrays).ravel()
            matrix = known @ matrix if is_row else matrix @ known
    return letters, matrix


def _product(word: Sequence[int], arrays: Mapping[Any, np.ndarray], size: int) -> np.ndarray:
    product = np.eye(size)
    for code in word:
        matrix = _value(words.symbol_of(code), arrays)
        matrix = np.linalg.inv(matrix) if words.is_inverse(code) else matrix
        product = product @ (matrix.T if words.is_transposed(code) else matrix)
    return product


def _value(symbol: Any, arrays: Mapping[Any, np.ndarray]) -> np.ndarray:
    if symbol not in arrays:
        raise ValueError(f"values must contain {symbol}, got {list(arrays)}")
    return arrays[symbol]
