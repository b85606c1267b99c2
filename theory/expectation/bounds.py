"""How much work an expectation is, estimated from its degree before it is computed."""

from collections import Counter
from functools import cache, lru_cache
from math import ceil, comb, factorial, prod

from ..algebra import words
from ..algebra.terms import Terms

MAX_STEPS = 5_000_000  # some ten seconds, and more terms than anyone reads
GENERAL, SYMMETRIC, EMPTY, CLOSED = range(4)  # what stands between two factors; a closed word holds pairs of a vector


def require_feasible(terms: Terms, symbol) -> None:
    """Raise ``ValueError`` with the estimate, and what is feasible, if the expectation over a symbol is too much work."""
    code = words.letter(symbol)
    products = {tuple([one for one in traces if any(letter & ~3 == code for letter in one)]) for _, traces, _ in terms}
    counts = [(_between(traces, code), len(traces)) for traces in products if traces]
    expected = sum(_steps(found, closed) for found, closed in counts)
    if expected <= MAX_STEPS:
        return
    found, closed = max(counts, key=lambda one: _steps(*one))
    degree = sum(count for count, _ in found)
    smaller = [(min(count, 50), kind) for count, kind in found]
    while smaller and _steps(tuple(smaller), closed) > MAX_STEPS:  # one of what occurs most often less
        most = max(range(len(smaller)), key=lambda i: smaller[i][0])
        count, kind = smaller[most]
        smaller[most : most + 1] = [(count - 1, kind)] if count > 1 else []
    feasible = sum(count for count, _ in smaller)
    factors = f"pairs of {symbol}" if 1 in symbol.shape else f"factors {symbol}"
    raise ValueError(
        f"expect: it would take about {float(expected):.0e} steps, for a product of {degree} {factors}; at most {MAX_STEPS:,} are "
        f"made: such a product may hold about {feasible}"
    )


def _between(traces: tuple[words.Word, ...], code: int) -> tuple:
    """How often each word stands between two factors of a symbol, and its kind: (count, kind), the simplest kind and most often last.

    A vector pairs with another; what stands between the two is one of the closed words, and can be read from either end.
    """
    if 1 in words.symbol_of(code).shape:
        halves = Counter({word: sum(one & ~3 == code for one in word) * many for word, many in Counter(traces).items()})
        alike = sum(halves.values()) - max(halves.values()) <= 2 and _symmetric(max(halves, key=lambda word: halves[word]))
        return tuple(sorted((ceil(count / 2), SYMMETRIC if alike else CLOSED) for count in halves.values() if count))
    found: Counter = Counter()
    for word in traces:
        places = [i for i, one in enumerate(word) if one & ~3 == code]
        for here, there in zip(places, [*places[1:], *places[:1]], strict=True):
            inner = word[here + 1 : there] if here < there else word[here + 1 :] + word[:there]
            found[min(inner, words.transpose(inner))] += 1
    kinds = [(count, EMPTY if not word else SYMMETRIC if word == words.transpose(word) else GENERAL) for word, count in found.items()]
    return tuple(sorted(kinds, key=lambda one: (one[1] != GENERAL, one)))


def _symmetric(closed: words.Word) -> bool:
    """Whether a closed word is its own transpose, from some letter on."""
    return words.least_rotation(words.transpose(closed)) == words.least_rotation(closed)


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
def _steps(found: tuple, closed: int) -> float:
    """Terms that are multiplied and added, within a factor of ten; measured, by the way that ``Moments`` takes."""
    if sum(count for count, kind in found if kind != EMPTY) <= 1:  # by the recursion on partitions
        return 12 * _partitions(sum(count for count, _ in found)) ** 2
    if any(kind == CLOSED for _, kind in found):
        return 8 * _number(found, closed)
    # Symmetric words grow to different ones in between, which only the result has equal again
    symmetric = sum(count for count, kind in found if kind == GENERAL) <= 1  # the ends of a matrix are one
    runs = 2 * sum(count for count, kind in found if kind == EMPTY) > sum(count for count, _ in found)
    number = _number(found, closed)
    return 2 * number**2 if symmetric else number ** (1.6 if runs else 1.45)


def _number(found: tuple, closed: int) -> int:
    """About as many terms as there are sets of closed words made of what stands between the factors, with their powers of 1/N."""
    *others, (equal, kind) = found
    if kind in (GENERAL, CLOSED):
        others, equal = found, 0
    rest = sum(count for count, _ in others)
    pairings = prod(range(1, 2 * rest, 2))
    alike = prod(_partitions(count) for count, _ in others)
    distinct = pairings * alike // prod(factorial(count) for count, _ in others)
    spread = sum(_partitions(equal - m) * comb(m + rest - 1, m) for m in range(equal + 1)) if rest else _partitions(equal)
    return max(1, min(pairings, distinct)) * spread * max(1, ceil((equal + min(rest, 1) - closed) / 2))
