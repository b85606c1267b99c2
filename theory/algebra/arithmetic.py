"""Arithmetic of forms. A form is a pair (terms, shape); the shape is None for a scalar, and for a 1 x 1 matrix, which is its scalar.

Forms that are equal as formulas have equal terms. ``sympy_conversion`` reads them from SymPy; :class:`.polynomial.TracePolynomial` is
a class around them.
"""

from collections.abc import Iterable
from typing import Any

from . import words
from .coefficients import reciprocal as reciprocal_of_coefficient
from .printing import text
from .terms import Terms, accumulate, in_lowest_terms, multiply_terms, trace_terms

Shape = tuple | None  # (rows, columns)
Form = tuple[Terms, Shape]

SUPPORTED = (
    "sums, products, integer powers, transposes, inverses of products and traces of matrix symbols, with coefficients that are "
    "rational in scalar symbols"
)


def one(shape: Shape) -> Form:
    """The number 1, or the identity matrix of a square shape."""
    shape = _scalar_if_1_by_1(shape)
    return {((), (), None if shape is None else ()): 1}, shape


def zero(shape: Shape) -> Form:
    """The number 0, or the zero matrix of a shape."""
    return {}, _scalar_if_1_by_1(shape)


def product_of_letters(word: words.Word, shape: Shape) -> Form:
    """A product of letters, which need not be canonical; its shape tells the size of an empty product."""
    if not word:
        return one(shape)
    kept, cut = words.open_(word)
    return {((), tuple(sorted(cut)), kept): 1}, None if kept is None else shape


def add(forms: Iterable[Form], shape: Shape = None) -> Form:
    """The sum of forms of one shape, in one pass; ``shape`` is that of an empty sum."""
    terms: Terms = {}
    first = zero(shape)
    for form in forms:
        if not first[0] and first[1] is None:  # 0 + matrix, as sum() starts
            first = form
        elif form[1] != first[1] and (form[0] or form[1] is not None):
            raise ValueError(
                f"shape mismatch in a sum: {text(first[0])} has shape {first[1] or 'scalar'}, {text(form[0])} {form[1] or 'scalar'}"
            )
        for term, number in form[0].items():
            accumulate(terms, term, number)
    return in_lowest_terms(terms), first[1]


def negate(form: Form) -> Form:
    terms, shape = form
    return {term: -n for term, n in terms.items()}, shape


def multiply(left: Form, right: Form) -> Form:
    """The product; a scalar may stand on either side of a matrix."""
    (terms_l, shape_l), (terms_r, shape_r) = left, right
    if shape_l is None or shape_r is None:
        shape = shape_r if shape_l is None else shape_l
    elif shape_l[1] != shape_r[0]:
        raise ValueError(f"shape mismatch in a product: ({text(terms_l)}) has shape {shape_l}, ({text(terms_r)}) has shape {shape_r}")
    else:
        shape = _scalar_if_1_by_1((shape_l[0], shape_r[1]))
    return in_lowest_terms(multiply_terms(terms_l, terms_r)), shape


def power(form: Form, exponent: Any) -> Form:
    """An integer power of a scalar or of a square matrix, by repeated squaring."""
    terms, shape = form
    if isinstance(exponent, bool) or not (isinstance(exponent, int) or getattr(exponent, "is_Integer", False)):
        raise ValueError(f"power: ({text(terms)})^({exponent}) has an exponent that is not an integer; supported: {SUPPORTED}")
    if shape is not None and shape[0] != shape[1]:
        raise ValueError(f"power: ({text(terms)}) has shape {shape}; a power needs a square matrix")
    base, exponent = form, int(exponent)
    if exponent < 0:
        base, exponent = reciprocal(base), -exponent
    result = one(shape)
    while exponent:
        if exponent & 1:
            result = multiply(result, base)
        exponent >>= 1
        base = multiply(base, base) if exponent else base
    return result


def reciprocal(form: Form) -> Form:
    """1 / form for a scalar without traces, or the inverse of a single product of square letters."""
    terms, shape = form
    if shape is None:
        if not terms:
            raise ZeroDivisionError("division by a trace polynomial that is zero")
        if any(traces for _, traces, _ in terms):
            raise ValueError(
                f"cannot divide by {text(terms)}: a denominator may hold scalar symbols only, no traces; supported: {SUPPORTED}"
            )
        inverse = None
        coefficient = {scalars: number for (scalars, _, _), number in terms.items()}
    else:
        codes = [code for _, _, word in terms for code in word]
        sizes = {*shape, *map(words.rows, codes), *map(words.columns, codes)}
        if len(terms) != 1 or len(sizes) != 1 or any(traces for _, traces, _ in terms):
            raise ValueError(
                f"cannot invert ({text(terms)}): only a product of square matrix symbols has an inverse here, a sum such as a ridge has no "
                f"expectation in closed form; expand it in powers of one term; supported: {SUPPORTED}"
            )
        (((scalars, _, word), number),) = terms.items()
        inverse, coefficient = words.inverse(word), {scalars: number}
    return {(scalars, (), inverse): n for scalars, n in reciprocal_of_coefficient(coefficient).items()}, shape


def transpose(form: Form) -> Form:
    terms, shape = form
    if shape is None:
        return form
    return {(scalars, traces, words.transpose(word)): n for (scalars, traces, word), n in terms.items()}, shape[::-1]


def trace(form: Form) -> Form:
    """The trace of a square matrix; a scalar is its own trace."""
    terms, shape = form
    if shape is None:
        return form
    if shape[0] != shape[1]:
        raise ValueError(f"trace: needs a square matrix, got shape {shape} in {text(terms)}")
    return in_lowest_terms(trace_terms(terms, shape[0])), None


def _scalar_if_1_by_1(shape: Shape) -> Shape:
    return None if shape == (1, 1) else shape
