"""Products of traces of one symmetric matrix and constants, summed over the pairings of its indices, as Wick's theorem does.

A product of k matrices S has 2k ends. A pairing joins them by the covariance: the constants between them close to loops, and the S to
cycles. E(W..W) weighs a pairing by N to the number of its cycles, E(W^-1..W^-1) by a function of their lengths.
"""

from collections import Counter
from functools import lru_cache

from ..algebra import words

Loops = tuple[tuple[words.Word, ...], int]  # canonical closed words, and how many identities


def strands(traces, code: int) -> list[tuple[words.Word, int, int]]:
    """The constants between the S, with the numbers of their ends; 2a and 2a + 1 are the ends of one S."""
    found, first = [], 0
    for word in traces:
        places = [i for i, one in enumerate(word) if one == code]
        turned = word[places[0] + 1 :] + word[: places[0] + 1]
        for a in range(len(places)):
            end = turned.index(code)
            found.append((turned[:end], 2 * (first + a) + 1, 2 * (first + (a + 1) % len(places))))
            turned = turned[end + 1 :]
        first += len(places)
    return found


@lru_cache(maxsize=1 << 16)
def _loop(word: words.Word) -> Loops:
    if not word:
        return (), 1
    closed, sizes = words.close(word)
    return tuple(closed), len(sizes)


def pairings(pieces: list[tuple[words.Word, int, int]], joint: words.Word) -> Counter:
    """{(lengths of the cycles, closed words, number of identities): how many pairings}."""
    count = len(pieces)
    partner = [end ^ 1 for end in range(2 * count)]  # the other end of a path of S
    length = [1] * (2 * count)
    found: Counter = Counter()

    def grow(word, left, right, rest, cycles, traces, identities):
        """Join the right end of a strand to its own left end, or to either end of another strand."""
        for i in range(-1, len(rest)):
            other, *ends = rest[i] if i >= 0 else ((), left)
            for end in ends:
                one, two = partner[right], partner[end]
                before, behind = length[right], length[end]
                if one == end:  # a cycle
                    after = (*cycles, before)
                else:
                    after = cycles
                    partner[one], partner[two] = two, one
                    length[one] = length[two] = before + behind
                if i >= 0:
                    middle, far = (other, ends[1]) if end == ends[0] else (words.transpose(other), ends[0])
                    grow(word + joint + middle, left, far, rest[:i] + rest[i + 1 :], after, traces, identities)
                else:
                    closed, found_identities = _loop(word + joint)
                    if rest:
                        grow(*rest[0], rest[1:], after, traces + closed, identities + found_identities)
                    else:
                        found[tuple(sorted(after)), tuple(sorted(traces + closed)), identities + found_identities] += 1
                if one != end:
                    partner[one], partner[two] = right, end
                    length[one], length[two] = before, behind

    grow(*pieces[0], pieces[1:], (), (), 0)
    return found
