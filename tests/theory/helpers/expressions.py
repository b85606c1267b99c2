"""Generated matrix expressions as trees, to be evaluated in any algebra: SymPy's, explicit entries, NumPy, PyTorch.

A tree is ("letter", name), ("transpose", tree), ("inverse", tree), ("product", trees), ("sum", ((coefficient, tree), ...)),
("trace", tree) or ("scale", scalar trees, tree). Random matrices and vectors are spent from a budget, so that the oracle stays fast.
"""

from fractions import Fraction
from functools import reduce
from operator import add, mul

from hypothesis import strategies as st


def evaluate(tree, letters, *, trace, product=mul, transpose=lambda value: value.T, inverse=lambda value: value.I, number=lambda x: x):
    """The value of a tree. ``letters`` maps names to values; the other arguments are the operations of the algebra."""

    def value(node):
        kind, *rest = node
        if kind == "letter":
            return letters[rest[0]]
        if kind == "transpose":
            return transpose(value(rest[0]))
        if kind == "inverse":
            return inverse(value(rest[0]))
        if kind == "product":
            return reduce(product, map(value, rest[0]))
        if kind == "trace":
            return trace(value(rest[0]))
        if kind == "scale":
            return reduce(mul, [*map(value, rest[0]), value(rest[1])])
        assert kind == "sum"
        return reduce(add, [number(coefficient) * value(term) for coefficient, term in rest[0]])

    return value(tree)


def letter(name):
    if name.endswith("'"):
        return ("transpose", ("letter", name[:-1]))
    if name.endswith("^-1"):
        return ("inverse", ("letter", name[:-3]))
    return ("letter", name)


coefficients = st.builds(Fraction, st.integers(-3, 3).filter(bool), st.integers(1, 3))


@st.composite
def words(draw, matrices: dict, vectors: dict, budget: list, size: int):
    """A nonempty product of square atoms: matrices, and outer products of two vectors. Costs come from the budget."""
    atoms = []
    for _ in range(draw(st.integers(1, size))):
        name = draw(st.sampled_from(sorted(name for name, cost in matrices.items() if cost <= budget[0])))
        budget[0] -= matrices[name]
        atoms.append(letter(name))
    cheap = sorted(name for name, cost in vectors.items() if 2 * cost <= budget[0])
    if cheap and draw(st.integers(0, 4)) == 0:
        pair = [draw(st.sampled_from(cheap)) for _ in range(2)]
        budget[0] -= sum(vectors[name] for name in pair)
        atoms.insert(draw(st.integers(0, len(atoms))), ("product", (letter(pair[0]), letter(pair[1] + "'"))))
    return ("product", tuple(atoms))


@st.composite
def scalars(draw, matrices, vectors, budget, size):
    """A trace of a word or a bilinear form."""
    cheap = sorted(name for name, cost in vectors.items() if 2 * cost <= budget[0])
    if cheap and draw(st.booleans()):
        left, right = (draw(st.sampled_from(cheap)) for _ in range(2))
        budget[0] -= vectors[left] + vectors[right]
        middle = [draw(words(matrices, vectors, budget, size))] if draw(st.booleans()) else []
        return ("trace", ("product", (letter(left + "'"), *middle, letter(right))))
    return ("trace", draw(words(matrices, vectors, budget, size)))


@st.composite
def expressions(draw, matrices, vectors, degree, kinds=("scalar", "matrix", "vector"), size=3, factors=2):
    """A sum of one or two terms, each a product of traces and bilinear forms with at most one open word. Returns (kind, tree)."""
    kind = draw(st.sampled_from(kinds))
    terms = []
    for _ in range(draw(st.integers(1, 2))):
        budget = [degree]
        core = None
        if kind != "scalar":
            core = draw(words(matrices, vectors, budget, size))
            if kind == "vector":
                cheap = sorted(name for name, cost in vectors.items() if cost <= budget[0])
                name = draw(st.sampled_from(cheap))
                budget[0] -= vectors[name]
                core = ("product", (core, letter(name)))
        count = draw(st.integers(1 if core is None else 0, factors))
        closed = [draw(scalars(matrices, vectors, budget, size)) for _ in range(count)]
        term = ("scale", tuple(closed[:-1]), closed[-1]) if core is None else ("scale", tuple(closed), core)
        terms.append((draw(coefficients), term))
    return kind, ("sum", tuple(terms))
