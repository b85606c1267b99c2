r"""vec and the Kronecker product by their entries: (38) and the definitions that (11)-(16) and (41)-(43) rest on.

vec stacks columns. An index of a vec is a pair (column, row), here a pair of unit vectors, and an entry is a bilinear form in them:

    vec(A)_(j,i) = i' A j,    (A (x) C)_(j,i),(l,k) = (j' A l) (i' C k),

so that every identity is one between trace polynomials, with symbolic sizes. A product is a sum over an index, ``sum_over``.
"""

from collections.abc import Callable
from typing import Any

from sympy import MatMul, MatrixExpr, Symbol, Trace, Transpose
from sympy.matrices.expressions.kronecker import KroneckerProduct

from ...algebra.polynomial import TracePolynomial
from ...derivations import Line, Lines, note, register, states
from ...derivations.matrix_forms import Vec
from ...expectation import sum_over
from ...notation import matrix, vector

Index = tuple[MatrixExpr, MatrixExpr]  # (column, row)
Entries = Callable[[Index], TracePolynomial]
Kron = Callable[[Index, Index], TracePolynomial]


def index(name: str, columns, rows) -> Index:
    """A pair of unit vectors, the index of an entry of vec(A) for A of shape (rows, columns)."""
    column, row = (rf"\boldsymbol{{{letter}}}_{{{name}}}" for letter in "ce")
    return vector(f"c_{name}", columns, latex=column), vector(f"e_{name}", rows, latex=row)


def vec_entry(A) -> Entries:
    """vec(A), by its entries."""
    return lambda at: TracePolynomial(at[1]).T * A * at[0]


def kron_entry(A, C) -> Kron:
    """A (x) C, by its entries."""
    first, second = vec_entry(A), vec_entry(C)
    return lambda at, other: first((other[0], at[0])) * second((other[1], at[1]))


def kron_product(first: Kron, second: Kron, over: Index) -> Kron:
    """The matrix product of two Kronecker products: the sum over the index between them."""
    return lambda at, other: sum_over(first(at, over) * second(over, other), *over)


def kron_times_vec(first: Kron, second: Entries, over: Index) -> Entries:
    """A Kronecker product times a vec."""
    return lambda at: sum_over(first(at, over) * second(over), *over)


def vec_times_vec(first: Entries, second: Entries, over: Index) -> TracePolynomial:
    """The scalar product of two vecs."""
    return sum_over(first(over) * second(over), *over)


# A is p x q, C is q x r, B is m x n, F is n x s, X and Z are n x q
_p, _q, _r, _m, _n, _s = (Symbol(name, integer=True, positive=True) for name in "pqrmns")
_c = Symbol("c", real=True)
_A, _B, _C, _F = matrix("A", _p, _q), matrix("B", _m, _n), matrix("C", _q, _r), matrix("F", _n, _s)
_X = matrix("X", _n, _q)
_G, _K = matrix("A", _p), matrix("B", _m)  # the invertible ones
_ROWS, _COLUMNS = index("1", _p, _m), index("2", _q, _n)
_FAR, _SQUARE, _IMAGE = index("2", _r, _s), index("2", _p, _m), index("1", _p, _m)


def unit(at: Index) -> MatrixExpr:
    """The unit vector of an entry of a vec."""
    return KroneckerProduct(*at)


def _between(at: Index, other: Index, *factors: MatrixExpr) -> Any:
    """The entry of a product between two indices, not carried out."""
    return MatMul(unit(at).T, *factors, unit(other))


@register("38", "Properties of the Kronecker product", section="Appendix B.3")
@states("a left", lambda: _c * (_ROWS[0].T * _A * _COLUMNS[0]) * (_ROWS[1].T * _B * _COLUMNS[1]))
@states("a right", lambda: _c * (_ROWS[0].T * _A * _COLUMNS[0]) * (_ROWS[1].T * _B * _COLUMNS[1]))
@states("b", lambda: (_COLUMNS[0].T * _A.T * _ROWS[0]) * (_COLUMNS[1].T * _B.T * _ROWS[1]))
@states("c", lambda: (_ROWS[0].T * _SQUARE[0]) * (_ROWS[1].T * _SQUARE[1]))
@states("d", lambda: (_ROWS[0].T * _A * _C * _FAR[0]) * (_ROWS[1].T * _B * _F * _FAR[1]))
@states("e", lambda: _ROWS[1].T * _B * _X * _A.T * _ROWS[0])
@note(
    r"$\boldsymbol{A}$ is $p \times q$, $\boldsymbol{B}$ $m \times n$, $\boldsymbol{C}$ $q \times r$, $\boldsymbol{F}$ $n \times s$, "
    r"$\boldsymbol{X}$ $n \times q$; for inverses $\boldsymbol{A}$ and $\boldsymbol{B}$ are square",
    r"The last is (38e) with $\boldsymbol{A}$ for the paper's $\boldsymbol{B}$ transposed, $\boldsymbol{B}$ for its $\boldsymbol{A}$",
)
def kronecker_properties() -> Lines:
    """Entry by entry, with a sum over the index where there is a product."""
    product, entry = KroneckerProduct(_A, _B), kron_entry(_A, _B)
    over, middle, square = index("3", _q, _n), index("3", _p, _m), KroneckerProduct(_G, _K)
    inverse = kron_product(kron_entry(_G, _K), kron_entry(_G.I, _K.I), middle)(_ROWS, _SQUARE)
    longer = kron_product(entry, kron_entry(_C, _F), over)(_ROWS, _FAR)
    image = kron_times_vec(entry, vec_entry(_X), over)(_IMAGE)
    left, right = (_between(_ROWS, _COLUMNS, KroneckerProduct(*factors)) for factors in ((_c * _A, _B), (_A, _c * _B)))
    other, inverses = KroneckerProduct(_C, _F), KroneckerProduct(_G**-1, _K**-1)
    yield Line(_between(_ROWS, _COLUMNS, product), "=", entry(_ROWS, _COLUMNS), r"An entry of $\boldsymbol{A} \otimes \boldsymbol{B}$")
    yield Line(unit(_COLUMNS).T * Vec(_X), "=", vec_entry(_X)(_COLUMNS), "An entry of vec, which stacks columns")
    yield Line(left, "=", kron_entry(_c * _A, _B)(_ROWS, _COLUMNS), "A scalar factor on the left", part="a left")
    yield Line(right, "=", kron_entry(_A, _c * _B)(_ROWS, _COLUMNS), "A scalar factor on the right", part="a right")
    yield Line(_between(_COLUMNS, _ROWS, Transpose(product)), "=", entry(_ROWS, _COLUMNS), "The transpose exchanges the indices", part="b")
    yield Line(Transpose(product), "=", KroneckerProduct(_A.T, _B.T), "So it is the product of the transposes")
    yield Line(_between(_ROWS, _SQUARE, square, inverses), "=", inverse, "The product with the inverses, summed, is the identity", part="c")
    yield Line(_between(_ROWS, _FAR, product, other), "=", longer, "The product of two Kronecker products", part="d")
    yield Line(MatMul(product, other), "=", KroneckerProduct(_A * _C, _B * _F), "So each factor has its own product")
    yield Line(unit(_IMAGE).T * product * Vec(_X), "=", image, "On a vec", part="e")
    yield Line(product * Vec(_X), "=", Vec(_B * _X * _A.T), "So it is a product with a matrix on each side")


_a, _b = vector("a", _p), vector("b", _m)
_Z = matrix("Z", _n, _q)


@register("38-vec", "The Kronecker product of vectors, and scalar products, as vec", section="Appendix B.3")
@states("vectors", lambda: (_ROWS[0].T * _a) * (_ROWS[1].T * _b))
@states("trace", lambda: Trace(_X.T * _Z))
def vec_of_outer_product() -> Lines:
    """The entries of vec."""
    outer, scalar = Vec(_b * _a.T), vec_times_vec(vec_entry(_X), vec_entry(_Z), _COLUMNS)
    yield Line(outer, "=", KroneckerProduct(_a, _b), "The columns are multiples of $\\boldsymbol{b}$")
    yield Line(outer, "!=", KroneckerProduct(_b, _a), "With rows stacked, as flatten does, the factors are exchanged")
    yield Line(unit(_ROWS).T * outer, "=", vec_entry(_b * _a.T)(_ROWS), "The entry of the vec", part="vectors")
    yield Line(Vec(_X).T * Vec(_Z), "=", scalar, "The scalar product of two vecs, summed over the index", part="trace")
