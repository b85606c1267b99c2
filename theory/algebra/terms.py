"""Sums of terms as dictionaries, {(scalars, traces, word): number}: the arithmetic of trace polynomials without shapes.

A term is a tuple ``(scalars, traces, word)``:

* ``scalars``: powers of scalar symbols, positive or negative, as sorted pairs (generator, exponent);
* ``traces``: sorted canonical closed words (see ``words``), each a trace or a bilinear form x' A y;
* ``word``: the open word of a matrix-valued term (empty for the identity), None for a scalar.

The numbers are rational and not zero. The form is unique, so equality of polynomials is a comparison of dictionaries. Denominators
that are sums, as in N / (N - D - 1), are kept as powers of their irreducible factors and reduced to lowest terms.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from . import words
from .coefficients import Coefficient, Number, Scalars, has_sum, lowest_terms, multiply_scalars, rational

Term = tuple[Scalars, tuple[words.Word, ...], Any]  # the last is a word, or None for a scalar
Terms = dict[Term, Number]


def accumulate(terms: Terms, term: Term, number: Number) -> None:
    """Add ``number`` times ``term`` to ``terms``, dropping what cancels."""
    total = terms.get(term, 0) + number
    if total:
        terms[term] = total
    else:
        terms.pop(term, None)


def multiply_traces(left: tuple[words.Word, ...], right: Iterable[words.Word]) -> tuple[words.Word, ...]:
    return tuple(sorted([*left, *right]))


def multiply_terms(left: Terms, right: Terms) -> Terms:
    """The product of two sums: scalars commute, the words of two matrices are joined."""
    terms: Terms = {}
    for (scalars_l, traces_l, word_l), number_l in left.items():
        for (scalars_r, traces_r, word_r), number_r in right.items():
            scalars = multiply_scalars(scalars_l, scalars_r)
            if word_l is None or word_r is None:
                word, cut = (word_r if word_l is None else word_l), ()
            else:
                word, cut = words.open_(word_l + word_r)
            accumulate(terms, (scalars, multiply_traces(traces_l, (*traces_r, *cut)), word), number_l * number_r)
    return terms


def trace_terms(terms: Terms, size: Any) -> Terms:
    """The trace of a sum of square matrices of this size; the words need not be canonical."""
    result: Terms = {}
    for (scalars, traces, word), number in terms.items():
        for (inner, closed, _), factor in (trace_of_word(word) if word else _trace_of_identity(size)).items():
            accumulate(result, (multiply_scalars(scalars, inner), multiply_traces(traces, closed), None), number * factor)
    return result


@lru_cache(maxsize=1 << 16)
def trace_of_word(word: words.Word) -> Terms:
    """A product of closed words, or the dimension if the word cancels to an identity."""
    traces, sizes = words.close(word)
    terms: Terms = {((), tuple(sorted(traces)), None): 1}
    for size in sizes:
        terms = multiply_terms(terms, _trace_of_identity(size))
    return terms


@lru_cache(maxsize=1 << 12)
def _trace_of_identity(size: Any) -> Terms:
    return {(scalars, (), None): number for scalars, number in rational(size).items()}


def matrix_symbols(terms: Terms) -> set:
    """The matrix symbols of the words."""
    codes = set().union(*(one for _, traces, word in terms for one in (*traces, word or ())))
    return {words.symbol_of(code) for code in codes}


def groups(terms: Terms) -> list[tuple[Coefficient, tuple[words.Word, ...], words.Word | None]]:
    """The terms gathered by their traces and word, each with its coefficient {scalars: number}, in printing order."""
    gathered = _gathered(terms)
    return [(gathered[key], *key) for key in sorted(gathered, key=lambda key: _print_order(*key))]


def in_lowest_terms(terms: Terms) -> Terms:
    """Reduce each coefficient to lowest terms, so that equal rational functions are equal dictionaries."""
    if not any(has_sum(scalars) for scalars, _, _ in terms):
        return terms
    reduced: Terms = {}
    for (traces, word), coefficient in _gathered(terms).items():
        if len(coefficient) > 1 and any(map(has_sum, coefficient)):  # one product has nothing to cancel: its factors are irreducible
            coefficient = lowest_terms(frozenset(coefficient.items()))
        reduced.update({(scalars, traces, word): number for scalars, number in coefficient.items()})
    return reduced


def _gathered(terms: Terms) -> dict[tuple, Coefficient]:
    gathered: dict[tuple, Coefficient] = {}
    for (scalars, traces, word), number in terms.items():
        gathered.setdefault((traces, word), {})[scalars] = number
    return gathered


def _print_order(traces, word):
    """Low degree first, then long words, then few traces, then by name: the order of every printed and exported formula."""
    inner = word or ()
    names = sorted(words.name_key(words.readable_rotation(one)) for one in traces)
    degree = len(inner) + sum(map(len, traces))
    return degree, -len(inner), len(traces), words.name_key(inner), names
