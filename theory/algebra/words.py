"""Words of matrix letters, in a canonical form that makes equality of traces a comparison of tuples.

A letter is a matrix symbol, possibly transposed, possibly inverted, held as one integer: 4 * index + 2 * inverted + transposed.
A word is a tuple of letters: their matrix product. Three rules bring words to a canonical form:

* a letter beside its inverse cancels; a symmetric letter is its own transpose;
* a closed word (a trace) is the least of its rotations and of the rotations of its transpose;
* if two neighbours meet in a dimension of 1, as in x y', the word is cut there: the part between two cuts is a scalar and becomes a
  closed word. So x' A y is a closed word with one cut, and an open word has at most one cut inside, as in P x y' Q.

The integers depend on the order in which symbols were first seen; printed formulas do not.
"""

from functools import cache, lru_cache

from sympy import S

Word = tuple[int, ...]

_indices: dict = {}
_symbols: list = []
_transposed: list[int] = []  # letter -> the letter of its transpose
_starts_cut: list[bool] = []  # letter -> does it have one row?
_ends_cut: list[bool] = []  # letter -> does it have one column?


def letter(symbol) -> int:
    """The integer that stands for a matrix symbol."""
    index = _indices.get(symbol)
    if index is None:
        index = _indices[symbol] = len(_symbols)
        _symbols.append(symbol)
        symmetric = getattr(symbol, "is_symmetric_letter", False) or symbol.shape == (S.One, S.One)
        row, column = (dimension == 1 for dimension in symbol.shape)
        for code in range(4 * index, 4 * index + 4):
            flipped = bool(code & 1)
            _transposed.append(code & ~1 if symmetric else code ^ 1)
            _starts_cut.append(column if flipped else row)
            _ends_cut.append(row if flipped else column)
    return 4 * index


def symbol_of(code: int):
    return _symbols[code >> 2]


def is_transposed(code: int) -> bool:
    return bool(code & 1)


def is_inverse(code: int) -> bool:
    return bool(code & 2)


def rows(code: int):
    return _symbols[code >> 2].shape[code & 1]


def columns(code: int):
    return _symbols[code >> 2].shape[1 - (code & 1)]


def transpose(word: Word) -> Word:
    return tuple([_transposed[code] for code in reversed(word)])


def inverse(word: Word) -> Word:
    return tuple([code ^ 2 for code in reversed(word)])


def cancel(word: Word) -> Word:
    """Remove neighbours that are a letter and its inverse."""
    for code in word:
        if code & 2:
            break
    else:
        return word
    kept: list[int] = []
    for code in word:
        if kept and kept[-1] == code ^ 2:
            kept.pop()
        else:
            kept.append(code)
    return tuple(kept)


@lru_cache(maxsize=1 << 17)
def least_rotation(word: Word) -> Word:
    """The least of the rotations of a closed word and of its transpose."""
    n, turned = len(word), transpose(word)
    least = min(min(word), min(turned))
    return min([ring[start : start + n] for ring in (word * 2, turned * 2) for start in range(n) if ring[start] == least])


def close(word: Word) -> tuple[list[Word], list]:
    """The trace of a word: its canonical closed words, and the dimension tr(I) if it cancels to an identity."""
    size = rows(word[0])
    word = cancel(word)
    while len(word) > 1 and word[0] == word[-1] ^ 2:  # the ends meet in a trace
        word = word[1:-1]
    if not word:
        return [], [size]
    cuts = [i for i, code in enumerate(word) if _starts_cut[code]]
    if len(cuts) < 2:
        return [least_rotation(word)], []
    word = word[cuts[0] :] + word[: cuts[0]]
    ends = [cut - cuts[0] for cut in cuts[1:]] + [len(word)]
    return _segments(word, ends), []


def open_(word: Word) -> tuple[Word | None, list[Word]]:
    """A product in canonical form: its open word (None if it is a scalar), and the closed words cut out of it."""
    word = cancel(word)
    if not word:
        return word, []
    cuts = [i for i in range(1, len(word)) if _starts_cut[word[i]]]
    row, column = _starts_cut[word[0]], _ends_cut[word[-1]]
    if not cuts and not (row and column):
        return word, []
    if row and column:
        return None, _segments(word, [*cuts, len(word)])
    if row:
        return word[cuts[-1] :], _segments(word[: cuts[-1]], cuts)
    if column:
        head, rest = word[: cuts[0]], word[cuts[0] :]
        return head, _segments(rest, [cut - cuts[0] for cut in cuts[1:]] + [len(rest)])
    head, middle, tail = word[: cuts[0]], word[cuts[0] : cuts[-1]], word[cuts[-1] :]
    return head + tail, _segments(middle, [cut - cuts[0] for cut in cuts[1:]])


def _segments(word: Word, ends: list[int]) -> list[Word]:
    starts = [0, *ends][:-1]
    return [least_rotation(word[start:end]) for start, end in zip(starts, ends, strict=True)]


def cut_position(word: Word) -> int | None:
    """The first cut of a closed word, which is then a bilinear form; None for a trace."""
    return next((i for i, code in enumerate(word) if _starts_cut[code]), None)


def name_key(word: Word) -> tuple:
    """A key that orders words by the names of their letters, the same in every process; shapes tell equal names apart."""
    return tuple([_name_key(code) for code in word])


@cache
def _name_key(code: int) -> tuple:
    symbol = symbol_of(code)
    return symbol.name, code & 3, str(symbol.args)


def readable_rotation(word: Word) -> Word:
    """The rotation of a closed word to print, with the fewest transposes and the least names; a bilinear form starts at its cut."""
    cut = cut_position(word)
    if cut is not None:
        turned = word[cut:] + word[:cut]
        choices = [turned, transpose(turned)]
    else:
        choices = [ring[start : start + len(word)] for ring in (word * 2, transpose(word) * 2) for start in range(len(word))]
    return min(choices, key=lambda choice: (sum(code & 1 for code in choice), name_key(choice)))
