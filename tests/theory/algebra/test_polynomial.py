"""The canonical form: equal expressions are equal polynomials, in any order and any process; what is not a trace polynomial is refused."""

import pickle
import subprocess
import sys
from fractions import Fraction

import pytest
import sympy
from entries import Entries
from expressions import evaluate, expressions
from hypothesis import HealthCheck, given, settings, strategies as st
from iclflow.theory import SampleCovariance, TracePolynomial, equation, expect, explicit, gradient, substitute
from iclflow.theory.notation import D, Lambda, Lambda_hat, N, R, matrix, sigma, symmetric_matrix, vector, y_q
from sympy import (
    Determinant,
    Function,
    HadamardProduct,
    Identity,
    IndexedBase,
    Matrix,
    MatrixSymbol,
    Rational,
    Symbol,
    Trace,
    ZeroMatrix,
)  # fmt: skip

P = TracePolynomial
A, B, C = (matrix(name, D) for name in "ABC")
S, K = symmetric_matrix("S", D), symmetric_matrix("K", D)
F = MatrixSymbol("F", D, R)
x, y = vector("x", D), vector("y", D)
LETTERS = {"A": A, "B": B, "S": S, "K": K, "x": x, "y": y}

QUICK = settings(derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck), max_examples=150)
MATRICES = dict.fromkeys(["A", "A'", "B", "B'", "S", "S^-1", "A^-1"], 0)
TREES = expressions(MATRICES, {"x": 0, "y": 0}, degree=9)


def built(tree, letters=LETTERS):
    """A tree through SymPy's own expressions."""
    return P(evaluate(tree, letters, trace=Trace, number=lambda q: Rational(q.numerator, q.denominator)))


def composed(tree, letters=LETTERS):
    """A tree through the algebra's operators alone."""
    letters = {name: P(value) for name, value in letters.items()}
    return evaluate(tree, letters, trace=P.trace, inverse=P.reciprocal)


# Laws of the algebra


@QUICK
@given(TREES)
def test_reading_and_composing_agree(case):
    _, tree = case
    assert built(tree) == composed(tree)


@QUICK
@given(TREES)
def test_to_sympy_is_lossless(case):
    polynomial = built(case[1])
    again = P(polynomial.to_sympy())
    assert again == polynomial
    assert again.shape == polynomial.shape
    assert hash(again) == hash(polynomial)
    assert str(again) == str(polynomial)
    assert pickle.loads(pickle.dumps(polynomial)) == polynomial


@QUICK
@given(expressions(MATRICES, {"x": 0, "y": 0}, degree=9, kinds=("matrix",)))
def test_transposition_and_trace(case):
    p = built(case[1])
    assert p == p.T.T
    assert p.T.trace() == p.trace()
    assert (p * A).trace() == (P(A) * p).trace() == (A.T * p.T).trace()
    assert (p * A).T == A.T * p.T
    assert (x.T * p * y) == (y.T * p.T * x)
    assert p * A.I * A == p == S * (S.I * p)


@QUICK
@given(*[expressions(MATRICES, {"x": 0, "y": 0}, degree=9, kinds=("matrix",), size=2, factors=1)] * 3)
def test_ring_laws(one, two, three):
    p, q, r = (built(case[1]) for case in (one, two, three))
    assert (p * q) * r == p * (q * r)
    assert p * (q + r) == p * q + p * r
    assert (q + r) * p == q * p + r * p
    assert p + q == q + p
    assert (p + q) + r == p + (q + r)
    assert p - p == 0
    assert hash(p * q + r) == hash(r + p * q)
    assert (p + q) ** 2 == p**2 + p * q + q * p + q**2
    assert p**3 == p * p * p
    assert p.trace() * q == q * p.trace()


@QUICK
@given(TREES)
def test_relabelling_commutes_with_reading(case):
    """Other symbols in the same places, interned in another order, give the renamed polynomial."""
    _, tree = case
    renamed = {name: matrix(f"{name}_r", D) for name in "BA"} | {"S": symmetric_matrix("S_r", D), "K": K}
    renamed |= {name: vector(f"{name}_r", D) for name in "yx"}
    swap = {LETTERS[name]: symbol for name, symbol in renamed.items()}
    there = built(tree, renamed)
    assert substitute(built(tree), swap) == there
    assert str(there).replace("_r", "") == str(built(tree))


NUMBERS = {
    "A": [[1, -2, 3], [0, 2, 1], [-1, 1, -1]],
    "B": [[2, 1, 0], [3, -1, 1], [1, 1, 2]],
    "S": [[1, 2, -1], [2, 0, 1], [-1, 1, -2]],
    "x": [[1], [-2], [2]],
    "y": [[3], [1], [-1]],
}


@QUICK
@given(expressions(dict.fromkeys(["A", "A'", "B", "S"], 0), {"x": 0, "y": 0}, degree=9, size=2), st.integers(1, 3))
def test_canonical_form_keeps_the_value(case, size):
    """Entry by entry, against plain arithmetic."""
    numbers = {name: [row[:size] for row in rows[:size]] for name, rows in NUMBERS.items()}
    letters = {name: Entries.constant(rows) for name, rows in numbers.items()}
    expected = evaluate(case[1], letters, trace=Entries.trace).expectation(lambda monomial: Fraction(1))
    values = {LETTERS[name]: Matrix(rows) for name, rows in numbers.items()}
    value = explicit(built(case[1]), values=values, D=size)
    assert (value if isinstance(value, sympy.MatrixBase) else Matrix([[value]])) == Matrix(expected)


# Canonical form, case by case


def all_equal(*expressions):
    return len({P(expression) for expression in expressions}) == 1


def test_traces_are_cyclic_and_transposable():
    assert all_equal(Trace(A * B * C), Trace(B * C * A), Trace(C.T * B.T * A.T), Trace(A.T * C.T * B.T))
    assert P(Trace(A * B * C)) != Trace(B * A * C)
    assert all_equal(Trace(A * A.T * A), Trace(A.T * A * A.T))
    assert all_equal(Trace(A * S * B), Trace(S * A.T * B.T))
    assert P(S) == S.T
    assert P(A) != A.T
    assert P(F * F.T) == P(F * F.T).T
    assert P(Trace(F * F.T)) == Trace(F.T * F)


def test_vectors_make_scalars():
    def form(left, middle, right):
        return P(left.T * middle * right)

    assert all_equal(x.T * A * y, y.T * A.T * x, Trace(A * y * x.T), Trace(x.T * A * y))
    assert P(x.T * A * y) != x.T * A.T * y
    assert form(x, A, y).shape is None
    assert P(x * y.T * A * x * y.T) == form(y, A, x) * x * y.T
    assert P(x.T * A * x * y.T) == form(x, A, x) * P(y.T)
    assert P(A * x * y.T * y) == (y.T * y) * P(A * x)
    assert P(A * x * y.T * B * x * y.T * C) == form(y, B, x) * P(A * x * y.T * C)
    assert P(Trace(A * x * y.T * B * x * y.T)) == form(y, A, x) * form(y, B, x)
    assert P(x * y.T) * P(A * x * y.T) == form(y, A, x) * (x * y.T)
    assert P(A * x * y.T) * P(x * y.T) * P(x * y.T * C) == form(y, Identity(D), x) ** 2 * P(A * x * y.T * C)
    assert P((x.T * x) ** 2) == P(x.T * x) * (x.T * x)
    assert P(y_q[0, 0]) == P(y_q)


def test_identities_and_dimensions():
    assert P(Trace(Identity(D))) == D
    assert P(Trace(Identity(3))) == 3
    assert P(Trace(A * A.I)) == D
    assert P(Trace(B * A * A.I * B.I)) == D
    assert P(Trace(A.I * B * A)) == Trace(B)
    assert P(Identity(D) * A) == A
    assert P(A**0) == Identity(D) == P(A) ** 0
    assert P(Trace(A)) ** 0 == 1
    assert P(A * B * B.I * A.I) == Identity(D)
    assert P((A * B).I) == B.I * A.I
    assert (P(A) * B).reciprocal() == (P(A) * B) ** -1 == P(B.I * A.I)
    assert P((2 * A).I) == A.I / 2
    assert P(A.T.I) == A.I.T
    assert P(S.I.T) == S.I
    assert P(A**-2) == A.I * A.I
    assert P((N * Identity(D)).I) == Identity(D) / N
    assert P(Trace(Identity(R + 1))) == R + 1
    assert P(Trace(Identity(R + 1)) / (R + 1)) == 1
    assert P(Identity(R + 1) / (R + 1)).trace() == 1 == P(Trace(Identity(R + 1) / (R + 1)))


def test_one_by_one_matrices_are_scalars():
    one = symmetric_matrix("one", 1)
    assert P(y_q).shape is None
    assert P(y_q * y_q) == P(y_q) ** 2 == P(y_q.T) * Trace(y_q)
    assert P(y_q) * A == A * P(y_q)
    assert P(Identity(1)) == 1
    assert P(one**3) == P(one) * P(one) ** 2
    assert P(ZeroMatrix(1, 1)) == 0


def test_explicit_dimensions():
    three, four = matrix("A", 3), matrix("A", 4)
    assert P(three) != P(four)
    with pytest.raises(ValueError, match="shape mismatch"):
        P(three) + P(four)
    with pytest.raises(ValueError, match="shape mismatch"):
        P(three) * four
    row = MatrixSymbol("r", 1, 3)
    assert P(row * three * row.T).shape is None
    assert P(Trace(three * row.T * row)) == row * three * row.T
    for expression in (row.T, row, row * three, Trace(three * row.T * row), three * row.T * row * three, row.T * y_q):
        assert P(P(expression).to_sympy()) == expression  # SymPy refuses even the first power of a 3 x 1 matrix


def test_sympy_on_the_left():
    assert A - P(B) == P(A) - B == -(P(B) - A)
    assert 1 - P(N) == P(1 - N)
    assert A + P(B) == P(A + B)
    assert A * P(B) == P(A * B) != B * P(A)
    assert 1 / P(N) == P(1 / N)
    assert P(-A) == -P(A) != A


def test_zero():
    zero = P(A) - A
    assert not zero
    assert zero == 0
    assert P(ZeroMatrix(D, D)) == zero
    assert zero + A == A == A + zero
    assert sum([P(A), P(B)]) == A + B
    assert P(zero.to_sympy()).shape == (D, D)
    assert P(x) - x + x == x
    assert P(0) * A == 0
    assert A * P(ZeroMatrix(D, 1)) == 0


def test_coefficients_are_exact_rational_functions():
    c = P(N / (N - D - 1))
    assert c * (N - D - 1) == N
    assert (N - D - 1) * c - N == 0
    assert c == P(-N / (D + 1 - N)) == P(2 * N / (2 * N - 2 * D - 2))
    assert 1 / (1 / c) == c
    assert P(1 / (N - 1) - 1 / (N + 1)) == P(2 / (N**2 - 1))
    assert P((N**2 - 1) / (N - 1)) == N + 1
    assert P(N * (N + 1) / N**2) == 1 + P(1) / N
    assert P(A / (N - 1)) - P(A / (N - 1)) == 0
    assert (c * A + A / (N - D - 1)) * (N - D - 1) == (N + 1) * A
    assert P(Fraction(1, 3)) * A * 3 == A
    v, index = IndexedBase("v"), Symbol("i", integer=True)
    f, s = Function("f"), Symbol("s")
    for scalar, name in ((v[index], "v_i"), (f(s), "f(s)"), (sigma, "sigma")):
        assert P(A / (1 + scalar)) * (1 + scalar) == A
        assert str(P(scalar * A)) == f"{name} A"


def test_equality_and_hash():
    assert P(A) == A
    assert P(A) != 1
    assert P(A) != "A"
    assert P(A) != None  # noqa: E711
    assert P(x.T * x) != P(x * x.T)
    assert P(Identity(D)) != P(Identity(R))
    assert P(Identity(D)) != 1
    assert P(A) == A  # from either side
    assert Trace(A.T) == P(Trace(A))
    assert not P(A) == B  # noqa: SIM201
    assert len({P(Trace(A * B)), P(Trace(B * A)), P(Trace(A.T * B.T)), P(Trace(A * B.T))}) == 2
    assert {P(A * B): 1}[P(A) * B] == 1


def test_equal_names_of_different_shapes_are_different_letters():
    square, wide, plain = matrix("A", D), matrix("A", D, R), MatrixSymbol("A", D, D)
    assert P(square) != P(plain)
    assert P(Trace(square) * Trace(wide * wide.T)) != P(Trace(square) ** 2)
    with pytest.raises(ValueError, match="two symbols are called A"):
        explicit(Trace(square) * Trace(wide.T * wide), D=2, R=2)


def test_a_user_may_name_a_symbol_like_an_internal_one():
    for name in ("<left>", "<right>"):
        taken = MatrixSymbol(name, D, 1)
        moment = expect(Lambda_hat * x * x.T * Lambda_hat, given=x)
        assert expect(Lambda_hat * taken * taken.T * Lambda_hat) == substitute(moment, {x: taken})
        assert substitute(taken * taken.T * A, {A: B}) == taken * taken.T * B


def test_immutable():
    p = P(A)
    with pytest.raises(AttributeError, match="immutable: shape"):
        p.shape = None


def test_conditions_travel():
    inverse = expect(Lambda_hat.I)
    condition = {N > D + 1}
    for p in (inverse, -inverse, inverse.T, inverse.trace(), inverse * A, A * inverse, inverse + A, A - inverse, inverse**2, inverse / N):
        assert p.conditions == condition
    for p in (P(A) + inverse, P(A) - inverse, P(A) * inverse, inverse + inverse, sum([inverse, inverse])):
        assert p.conditions == condition
    assert pickle.loads(pickle.dumps(inverse)).conditions == condition
    assert P(A).conditions == frozenset()
    assert (1 / expect(Lambda_hat.I / D, law=SampleCovariance(Lambda_hat, Identity(D), N)).trace()).conditions == condition


# A stable order

SCRIPT = """
import sys
from sympy import Trace, latex
from iclflow.theory import TracePolynomial, collect, expect, gradient
from iclflow.theory.notation import D, Lambda_hat, N, matrix, vector, symmetric_matrix, sigma
names = sys.argv[1].split()
made = {name: vector(name, D) if name.islower() else matrix(name, D) for name in names}
for symbol in made.values():
    TracePolynomial(symbol)  # interned in this order
A, B, C, K, x, y = (made[name] for name in "ABCKxy")
S = Lambda_hat
p = expect(Trace(A * S * B) * S * C * S)
q = TracePolynomial((Trace(A) * Trace(B * C) + Trace(A * C) * Trace(B) + Trace(A * B) * Trace(C)) * K)
r = TracePolynomial(Trace(x.T * A * y) * Trace(B.T * C) + Trace(y.T * B * x) * Trace(K * A.T) / (N - D) - sigma * Trace(y.T * K * x))
g = gradient(Trace(A * S * B.T * K * A.T) * Trace(C), A)
for item in (p, q, r, g, matrix("A", D, 2) * matrix("A", 2, D)):
    item = TracePolynomial(item)
    print(item, latex(item), item.to_sympy(), list(map(str, collect(item, "traces").items())))
"""


def test_order_is_the_same_in_every_process():
    """Whatever the hash seed, and whichever symbols were seen first."""
    outputs = set()
    for seed, order in (("0", "A B C K x y"), ("1", "y x K C B A"), ("2", "K B x A y C"), ("77", "C y A K x B")):
        run = subprocess.run(
            [sys.executable, "-c", SCRIPT, order], env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        outputs.add(run.stdout)
    assert len(outputs) == 1
    assert "A" in outputs.pop()


# What is refused, and how

e = (x.T * A * x)[0, 0]  # SymPy makes a Sum of it
REFUSED = [
    (HadamardProduct(A, B), "HadamardProduct"),
    (Determinant(A), r"\|A\||Determinant\(A\)"),
    (2 * Determinant(A) * A, "Determinant"),
    (e, r"Sum.* 1 x 1 product, x\.T\*A\*y"),
    (A[0, 1], r"A\[0, 1\] is one entry of a matrix; write a scalar as a trace"),
    (0.5 * A, "0.5.* is not a rational number; write it as one"),
    (sympy.pi * A, "pi is not a rational number"),
    (sympy.I * A, "I is not a rational number"),
    (sympy.zoo, "zoo"),
    (sympy.sqrt(N) * A, r"\(N\)\^\(1/2\) has an exponent that is not an integer"),
    (A ** Rational(1, 2), r"\(A\)\^\(1/2\) has an exponent that is not an integer"),
    (A**N, r"\(A\)\^\(N\) has an exponent that is not an integer"),
    (sympy.exp(N) * A, "exp"),
    (sympy.log(Trace(A)), "log"),
    ((A + B).I, r"cannot invert \(A \+ B\): only a product of square matrix symbols"),
    ((A + Identity(D)).I, r"cannot invert \(I \+ A\)"),
    ((F * F.T).I, r"cannot invert \(F F'\)"),
    (A / Trace(A), r"cannot divide by tr\(A\): a denominator may hold scalar symbols only"),
    ((x.T * x).I, "cannot divide by x' x:"),
    (Matrix([[1, 2], [3, 4]]), "not a trace polynomial"),
    (sympy.BlockMatrix([[A, A], [A, A]]), "BlockMatrix"),
    (sympy.conjugate(Symbol("z")) * A, "conjugate"),
    (Symbol("z", commutative=False), "not commutative; use a MatrixSymbol"),
    ("A + B", "is text"),
    ([A], r"\[A\] \(list\) is not a SymPy expression; supported: sums"),
    (None, r"None \(NoneType\) is not a SymPy expression"),
]  # fmt: skip


@pytest.mark.parametrize(("expression", "message"), REFUSED, ids=lambda value: str(value)[:40].replace("\n", " "))
def test_what_is_not_a_trace_polynomial_is_named(expression, message):
    with pytest.raises(ValueError, match=message):
        P(expression)


def test_refusals_say_what_is_supported():
    for expression in (HadamardProduct(A, B), sympy.sqrt(N), A / Trace(A), e):
        with pytest.raises(ValueError, match="supported: sums, products, integer powers, transposes, inverses of products and traces"):
            P(expression)


def test_shapes_must_fit():
    with pytest.raises(ValueError, match=r"shape mismatch in a product: \(F\) has shape \(D, R\), \(A\) has shape \(D, D\)"):
        P(F) * A
    with pytest.raises(ValueError, match=r"shape mismatch in a sum: A has shape \(D, D\), x \(D, 1\)"):
        P(A) + x
    with pytest.raises(ValueError, match=r"shape mismatch in a sum: A has shape \(D, D\), 1 scalar"):
        P(A) + 1
    with pytest.raises(ValueError, match=r"trace: needs a square matrix, got shape \(D, R\) in F"):
        P(F).trace()
    with pytest.raises(ValueError, match=r"power: \(F\) has shape \(D, R\); a power needs a square matrix"):
        P(F) ** 2
    with pytest.raises(ValueError, match="exponent that is not an integer"):
        P(A) ** True
    with pytest.raises(ValueError, match=r"cannot invert \(tr\(A\) A\)"):
        (P(Trace(A)) * A).reciprocal()
    with pytest.raises(ZeroDivisionError, match="zero"):
        P(A) / 0
    with pytest.raises(TypeError):
        P(A) * 0.5
    with pytest.raises(TypeError):
        P(A) + "B"


def test_floats_are_told_how_to_be_written():
    polynomial = TracePolynomial(A)
    for combine in (lambda: polynomial * 0.5, lambda: 0.5 + polynomial, lambda: polynomial / 0.5, lambda: 1.5 - polynomial):
        with pytest.raises(TypeError, match=r"must be rational, got the float .*; write it as one, e\.g\. Rational"):
            combine()
    assert polynomial != 0.5


# SymPy both ways

SCALAR, MATRIX = expect(Trace(Lambda_hat**2)), expect(Lambda_hat**2)


@pytest.mark.parametrize("p", [SCALAR, MATRIX], ids=["scalar", "matrix"])
@pytest.mark.parametrize(
    ("use", "verb"),
    [
        (sympy.sympify, r"take p\.to_sympy\(\)"),
        (sympy.factor, r"p\.to_sympy\(\).* for factor"),
        (sympy.simplify, r"p\.to_sympy\(\).* for factor, simplify"),
        (lambda p: sympy.limit(p, N, sympy.oo), "collect and limit"),
        (lambda p: p.subs(N, 3), r"substitute\(p, \{symbol: value\}\) for subs"),
        (lambda p: p.diff(N), r"gradient\(p, symbol\) for diff"),
        (lambda p: sympy.diff(p, N), r"gradient\(p, symbol\) for diff"),
        (lambda p: sympy.lambdify([N], p), r"compile_expression\(p\) of iclflow\.numerics for lambdify"),
    ],
)  # fmt: skip
def test_sympy_is_told_which_verb_does_the_same(use, verb, p):
    with pytest.raises(sympy.SympifyError, match=verb):
        use(p)


def test_the_verbs_that_sympy_is_told():
    """Traces of symbols stay SymPy's; what SymPy returns is read back."""
    formula = SCALAR.to_sympy()
    assert sympy.sympify(formula) == formula
    assert P(sympy.factor(formula)) == P(sympy.simplify(formula)) == P(sympy.expand(formula)) == SCALAR
    assert sympy.limit(formula, N, sympy.oo) == Trace(Lambda**2)
    assert P(formula.subs(N, 3)) == substitute(SCALAR, {N: 3})
    assert P(formula.diff(N)) == gradient(SCALAR, N)
    assert P(sympy.simplify(MATRIX.to_sympy())) == MATRIX
    assert isinstance(Lambda * MATRIX + Lambda, P)
    assert 2 * Lambda**2 == P(2) * Lambda**2


def test_plain_matrix_symbols_are_read():
    """SymPy's own symbols are letters that are not symmetric."""
    X, Y = MatrixSymbol("X", D, D), MatrixSymbol("Y", D, D)
    assert P(X * Y - Y * X).trace() == 0
    assert gradient(Trace(X.T * Y), X) == Y
    assert expect(X * Lambda_hat * Y, given=X) == X * Lambda * Y
    assert P((X * Y).T).to_sympy() == Y.T * X.T


def test_an_entry_says_that_it_holds_several_formulas():
    with pytest.raises(sympy.SympifyError, match=r"take equation\('31'\)\.statement"):
        sympy.factor(equation("31"))
