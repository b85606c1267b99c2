"""How many terms an expectation has, estimated from its degree before it is computed."""

from collections import Counter
from functools import cache, lru_cache
from math import ceil, comb, factorial, prod

from ..algebra import words
from ..algebra.terms import Terms

MAX_TERMS = 30_000  # of an expectation: seconds, and more than anyone reads


def require_feasible(terms: Terms, symbol) -> None:
    """Raise ``ValueError`` with the estimate, and what is feasible, if the expectation over a symbol has too many terms."""
    products = {traces for _, traces, _ in terms}
    counts = [(_between(traces, words.letter(symbol)), len(traces)) for traces in products]
    expected = sum(_number(found, closed) for found, closed in counts)
    if expected <= MAX_TERMS:
        return
    found, closed = max(counts, key=lambda one: _number(*one))
    degree = sum(count for count, _ in found)
    smaller = [(min(count, 50), symmetric) for count, symmetric in found]
    while smaller and _number(tuple(smaller), closed) > MAX_TERMS:  # one of what occurs most often less
        count, symmetric = smaller.pop(max(range(len(smaller)), key=lambda i: smaller[i][0]))
        smaller += [(count - 1, symmetric)] if count > 1 else []
    feasible = sum(count for count, _ in smaller)
    kind = f"pairs of {symbol}" if 1 in symbol.shape else f"factors {symbol}"
    raise ValueError(
        f"expect: the result would have about {float(expected):.0e} terms, from a product of {degree} {kind}; at most {MAX_TERMS:,} are "
        f"computed: such a product may hold about {feasible}"
    )


def _between(traces: tuple[words.Word, ...], code: int) -> tuple:
    """How often each word stands between two factors of a symbol, and whether it is symmetric: (count, symmetric), the largest last.

    A vector pairs with another; what stands between the two is one of the closed words, and can be read from either end.
    """
    if 1 in words.symbol_of(code).shape:
        halves = Counter({word: sum(one & ~3 == code for one in word) * many for word, many in Counter(traces).items()})
        return tuple(sorted((ceil(count / 2), True) for count in halves.values() if count))
    found: Counter = Counter()
    for word in traces:
        places = [i for i, one in enumerate(word) if one & ~3 == code]
        for here, there in zip(places, [*places[1:], *places[:1]], strict=True):
            inner = word[here + 1 : there] if here < there else word[here + 1 :] + word[:there]
            found[min(inner, words.transpose(inner))] += 1
    symmetric = sorted((count, True) for word, count in found.items() if word == words.transpose(word))
    return tuple(sorted((count, False) for word, count in found.items() if word != words.transpose(word)) + symmetric)


def _partitions(number: int) -> int:
    size = 64 * (number // 64 + 1)  # few tables
    return _partition_table(size)[number]


@cache
def _partition_table(size: int) -> list[int]:
    counts = [1] + [0] * size
    for part in range(1, size + 1):
        for total in range(part, size + 1):
            counts[total] += counts[total - part]
    return counts


@lru_cache(maxsize=1 << 12)
def _number(found: tuple, closed: int) -> int:
    """About as many terms as there are sets of closed words made of what stands between the factors, with their powers of 1/N."""
    *others, (equal, symmetric) = found or ((0, True),)
    if not symmetric:
        others, equal = found, 0
    rest = sum(count for count, _ in others)
    pairings = prod(range(1, 2 * rest, 2))
    alike = prod(_partitions(count) for count, _ in others)
    distinct = pairings * alike // prod(factorial(count) for count, _ in others)
    spread = sum(_partitions(equal - m) * comb(m + rest - 1, m) for m in range(equal + 1)) if rest else _partitions(equal)
    return max(1, min(pairings, distinct)) * spread * max(1, ceil((equal + min(rest, 1) - closed) / 2))
