r"""vec and the Kronecker product by their entries: (38) and the definitions that (11)-(16) and (41)-(43) rest on.

vec stacks columns. An index of a vec is a pair (column, row), here a pair of unit vectors, and an entry is a bilinear form in them:

    vec(A)_(j,i) = i' A j,    (A (x) C)_(j,i),(l,k) = (j' A l) (i' C k),

so that every identity is one between trace polynomials, with symbolic sizes. A product is a sum over an index, ``sum_over``.
"""

from collections.abc import Callable

from sympy import MatrixExpr, Symbol, Trace

from ...algebra.polynomial import TracePolynomial
from ...derivations.derivation import Derivation, Step
from ...derivations.registry import register
from ...expectation.index_sums import sum_over
from ...notation import matrix, vector

__all__ = ["Index", "index", "kron_entry", "kron_product", "kron_times_vec", "vec_entry", "vec_times_vec"]

Index = tuple[MatrixExpr, MatrixExpr]  # (column, row)
Vec = Callable[[Index], TracePolynomial]
Kron = Callable[[Index, Index], TracePolynomial]


def index(name: str, columns, rows) -> Index:
    """A pair of unit vectors, the index of an entry of vec(A) for A of shape (rows, columns)."""
    column, row = (rf"\boldsymbol{{{letter}}}_{{{name}}}" for letter in "ce")
    return vector(f"c_{name}", columns, latex=column), vector(f"e_{name}", rows, latex=row)


def vec_entry(A) -> Vec:
    """vec(A), by its entries."""
    return lambda at: TracePolynomial(at[1]).T * A * at[0]


def kron_entry(A, C) -> Kron:
    """A (x) C, by its entries."""
    first, second = vec_entry(A), vec_entry(C)
    return lambda at, other: first((other[0], at[0])) * second((other[1], at[1]))


def kron_product(first: Kron, second: Kron, over: Index) -> Kron:
    """The matrix product of two Kronecker products: the sum over the index between them."""
    return lambda at, other: sum_over(first(at, over) * second(over, other), *over)


def kron_times_vec(first: Kron, second: Vec, over: Index) -> Vec:
    """A Kronecker product times a vec."""
    return lambda at: sum_over(first(at, over) * second(over), *over)


def vec_times_vec(first: Vec, second: Vec, over: Index) -> TracePolynomial:
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


def _entry(latex: str) -> str:
    return rf"\left({latex}\right)_{{12}}"


@register(
    "38",
    "Properties of the Kronecker product",
    kind="exact",
    section="Appendix B.3",
    left={
        "a left": _entry(r"(c\boldsymbol{A})\otimes\boldsymbol{B}"),
        "a right": _entry(r"\boldsymbol{A}\otimes(c\boldsymbol{B})"),
        "b": r"\left((\boldsymbol{A}\otimes\boldsymbol{B})^\top\right)_{21}",
        "c": _entry(r"(\boldsymbol{A}\otimes\boldsymbol{B})(\boldsymbol{A}^{-1}\otimes\boldsymbol{B}^{-1})"),
        "d": _entry(r"(\boldsymbol{A}\otimes\boldsymbol{B})(\boldsymbol{C}\otimes\boldsymbol{F})"),
        "e": r"\left((\boldsymbol{A}\otimes\boldsymbol{B})\operatorname{vec}(\boldsymbol{X})\right)_1",
    },
    typed=lambda: {
        "a left": _c * (_ROWS[0].T * _A * _COLUMNS[0]) * (_ROWS[1].T * _B * _COLUMNS[1]),
        "a right": _c * (_ROWS[0].T * _A * _COLUMNS[0]) * (_ROWS[1].T * _B * _COLUMNS[1]),
        "b": (_COLUMNS[0].T * _A.T * _ROWS[0]) * (_COLUMNS[1].T * _B.T * _ROWS[1]),
        "c": (_ROWS[0].T * _SQUARE[0]) * (_ROWS[1].T * _SQUARE[1]),
        "d": (_ROWS[0].T * _A * _C * _FAR[0]) * (_ROWS[1].T * _B * _F * _FAR[1]),
        "e": _ROWS[1].T * _B * _X * _A.T * _ROWS[0],
    },
    conditions=(
        r"Entries between the indices 1 $=(\boldsymbol{c}_1, \boldsymbol{e}_1)$ and 2 $=(\boldsymbol{c}_2, "
        r"\boldsymbol{e}_2)$; rectangular where the products allow it",
        r"The last is (38e) with $\boldsymbol{A}$ for the paper's $\boldsymbol{B}$ transposed, $\boldsymbol{B}$ for its $\boldsymbol{A}$",
    ),
)
def kronecker_properties() -> Derivation:
    """Entry by entry, with a sum over the index where there is a product."""
    product = kron_entry(_A, _B)
    transposed = product(_ROWS, _COLUMNS)  # the entry (2, 1) of the transpose is the entry (1, 2)
    between = index("3", _p, _m)
    inverse = kron_product(kron_entry(_G, _K), kron_entry(_G.I, _K.I), between)
    middle = index("3", _q, _n)
    return Derivation.by(
        Step("A scalar factor on the left", kron_entry(_c * _A, _B)(_ROWS, _COLUMNS), part="a left"),
        Step("A scalar factor on the right", kron_entry(_A, _c * _B)(_ROWS, _COLUMNS), part="a right"),
        Step("The transpose exchanges the indices", transposed, part="b"),
        Step(
            "The product with the inverses, summed over the index between: the identity",
            inverse(_ROWS, _SQUARE),
            part="c",
        ),
        Step(
            "The product of two Kronecker products",
            kron_product(product, kron_entry(_C, _F), middle)(_ROWS, _FAR),
            part="d",
        ),
        Step("On a vec", kron_times_vec(product, vec_entry(_X), middle)(_IMAGE), part="e"),
    )


_a, _b = vector("a", _p), vector("b", _m)
_Z = matrix("Z", _n, _q)


@register(
    "38-vec",
    "The Kronecker product of vectors, and scalar products, as vec",
    kind="exact",
    section="Appendix B.3",
    left={
        "vectors": r"\operatorname{vec}(\boldsymbol{b}\boldsymbol{a}^\top)_1",
        "trace": r"\operatorname{vec}(\boldsymbol{X})^\top\operatorname{vec}(\boldsymbol{Z})",
    },
    typed=lambda: {
        "vectors": (_ROWS[0].T * _a) * (_ROWS[1].T * _b),
        "trace": Trace(_X.T * _Z),
    },
    conditions=(
        (
            r"Entry 1 $=(\boldsymbol{c}_1, \boldsymbol{e}_1)$ of $\boldsymbol{a}\otimes\boldsymbol{b}$; the trace is "
            r"that of $\boldsymbol{X}^{\top}$ Z"
        ),
    ),
)
def vec_of_outer_product() -> Derivation:
    """The entries of vec."""
    return Derivation.by(
        Step("The entry of the vec of an outer product", vec_entry(_b * _a.T)(_ROWS), part="vectors"),
        Step(
            "The scalar product of two vecs, summed over the index",
            vec_times_vec(vec_entry(_X), vec_entry(_Z), _COLUMNS),
            part="trace",
        ),
    )
