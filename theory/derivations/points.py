r"""Random points: sizes for D, N, H, R, values for letters; and the value of a formula there, to 30 digits.

>>> from iclflow.theory.notation import D, Lambda, N
>>> from sympy import Trace
>>> point = Point.random(3, {Lambda, N}, sizes={D: 2})
>>> point[Lambda].rows, point[N] >= 1
(2, True)
>>> difference = value_at(Trace(Lambda * Lambda), point) - value_at(Trace(Lambda**2), point)
>>> bool(abs(difference) < 1e-25)
True
"""

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from functools import lru_cache, partial, reduce
from itertools import product
from operator import mul
from random import Random
from typing import Any

import mpmath
import sympy
from flint import arb, arb_mat, ctx, fmpq
from mpmath import mp
from sympy import Basic, Expr, IndexedBase, MatrixBase, Symbol
from sympy.core.function import AppliedUndef
from sympy.matrices.expressions import MatrixExpr, MatrixSymbol
from sympy.tensor.indexed import Indexed

from ..algebra import words
from ..algebra.coefficients import scalar_of
from ..algebra.polynomial import TracePolynomial
from ..notation import Lambda, Lambda_hat, Lambda_q, M
from .heads import carried_out, evaluated, heads_in
from .matrix_forms import assembled, has_forms

DIGITS = 30
EVALUATED = (sympy.Sum, sympy.Product, sympy.Integral, sympy.Derivative, sympy.Limit, sympy.Determinant, sympy.ImmutableMatrix)
POSITIVE_DEFINITE = {Lambda, Lambda_hat, Lambda_q, M}  # drawn so unless a condition says otherwise


class Point:
    """Sizes and values, by symbol: ``point[Lambda]`` is an mpmath matrix, ``point[N]`` an integer.

    A letter is drawn when its value is first asked for, and does not depend on what was drawn before. ``rng`` is for the draws of
    conditions. Values of formulas are kept until a letter gets another value.
    """

    def __init__(self, sizes: Mapping[Symbol, int], rng: Random, parent: "Point | None" = None):
        self.sizes, self.rng, self.parent = dict(sizes), rng, parent
        self.seed: float = rng.random() if parent is None else parent.seed
        self.values: dict[Any, Any] = dict(sizes)
        self.known: dict[Any, Any] = {}
        self.heads: dict[Any, Point] = {}

    @classmethod
    def random(cls, seed: int, letters: Iterable, sizes: Mapping | None = None) -> "Point":
        """A point with values for these letters: positive where their assumptions say so, covariances positive definite."""
        point = cls(sizes or {}, Random(seed))
        for letter in sorted(letters, key=str):
            if letter not in point.values:
                point.values[letter] = point.drawn(letter)
        return point

    def copy(self) -> "Point":
        """A point with the same values, which may be changed."""
        point = Point(self.sizes, self.rng, self)
        point.values, point.known = dict(self.values), dict(self.known)
        return point

    def __getitem__(self, letter):
        """The value of a letter, drawn now if nothing has asked for it before."""
        if letter not in self.values:
            self.values[letter] = self.drawn(letter) if self.parent is None else self.parent[letter]
        return self.values[letter]

    def __setitem__(self, letter, value):
        if isinstance(letter, MatrixSymbol) and not isinstance(value, mpmath.matrix):
            value = mpmath.matrix([[value]])
        if letter in self.values:  # no known value rests on a letter that has none
            self.known.clear()
            self.heads.clear()
        self.values[letter] = value

    def of_head(self, head: int, letters: tuple) -> "Point":
        """The same point with the values that the letters have in a head: in head 0 their own, in each other head further ones."""
        if (head, letters) not in self.heads:
            point = self.heads[head, letters] = Point(self.sizes, self.rng, self)
            for letter in letters:
                key = (letter, head) if head else letter
                if key not in self.values:
                    self.values[key] = self.drawn(letter, head)
                point.values[letter] = self.values[key]
        return self.heads[head, letters]

    def __contains__(self, letter):
        return letter in self.values

    def family(self, base: IndexedBase, values: Iterable) -> None:
        """Give an indexed letter its values, from index 1."""
        self[base] = _Family(self, base, dict(enumerate(values, 1)))

    def size(self, dimension) -> int:
        """The value of a dimension such as D or R - 1."""
        if isinstance(dimension, Symbol) and isinstance(value := self[dimension], int):
            return value
        dimension = sympy.sympify(dimension)
        value = dimension.xreplace({symbol: sympy.sympify(self[symbol]) for symbol in dimension.free_symbols})
        if not value.is_Integer or value < 0:
            raise ValueError(f"the size {dimension} is {value} at this point")
        return int(value)

    def drawn(self, letter, *place: int) -> Any:
        """A random value for a letter, or for its value in a head."""
        rng = Random(f"{self.seed} {_name(letter)} {place}")
        if isinstance(letter, MatrixSymbol):
            return self._matrix(letter, rng)
        if isinstance(letter, IndexedBase):
            return _Family(self, letter)
        if getattr(letter, "is_integer", False):
            return rng.choice([1, 2, 3, 5, 8])
        return _number(letter, rng)

    def _matrix(self, letter, rng: Random) -> Any:
        rows, columns = map(self.size, letter.shape)
        drawn = [[rng.gauss(0, 1) for _ in range(columns)] for _ in range(rows)]
        if letter in POSITIVE_DEFINITE:
            drawn = [[sum(map(mul, one, other)) / rows + (one is other) / 10 for other in drawn] for one in drawn]
        elif getattr(letter, "is_symmetric_letter", False):
            drawn = [[(drawn[i][j] + drawn[j][i]) / 2 for j in range(columns)] for i in range(rows)]
        return mpmath.matrix(drawn) if rows else mpmath.matrix(0, columns)

    def __repr__(self):
        return "{" + ", ".join(f"{letter}: {_shown(value)}" for letter, value in self.values.items()) + "}"


_name = lru_cache(maxsize=1 << 12)(sympy.srepr)  # tells letters of one name and different assumptions apart


def _number(letter, rng: Random) -> Any:
    """A number between 1/3 and 3 or, unless the letter is positive, between -3 and -1/3."""
    magnitude = mpmath.mpf(3 ** rng.uniform(-1, 1))
    return magnitude if letter.is_positive or letter.is_nonnegative else magnitude * rng.choice([-1, 1])


class _Family:
    """The values of an indexed letter, drawn as they are asked for."""

    def __init__(self, point: Point, base: IndexedBase, members: dict | None = None):
        self.point, self.base, self.members = point, base, members or {}

    def __getitem__(self, index):
        if index not in self.members:
            self.members[index] = _number(self.base, Random(f"{self.point.seed} {_name(self.base)} {index}"))
        return self.members[index]

    def __repr__(self):
        return _shown(self.members)


def _shown(value) -> str:
    if isinstance(value, mpmath.matrix):
        return str([[float(mpmath.nstr(value[i, j], 4)) for j in range(value.cols)] for i in range(value.rows)])
    if isinstance(value, dict):
        return str({key: _shown(one) for key, one in value.items()})
    return str(mpmath.nstr(value, 6)) if isinstance(value, mpmath.mpf) else str(value)


def value_at(formula: Any, point: Point) -> Any:
    """The value of a formula at a point: an mpf, an mpmath matrix, or a tuple of them for several formulas.

    Raises ValueError for what has no number there (a letter without a value).
    """
    if (mp.dps, ctx.dps) == (DIGITS, DIGITS + 3):
        return _value(formula, point)
    with mp.workdps(DIGITS), ctx.workdps(DIGITS + 3):
        return _value(formula, point)


def _value(formula: Any, point: Point) -> Any:
    if isinstance(formula, TracePolynomial):
        return _polynomial_value(formula, point)
    if isinstance(formula, MatrixBase):
        formula = formula.as_immutable()
    elif not isinstance(formula, Basic) and isinstance(formula, tuple | list | Mapping):
        return tuple(_value(part, point) for part in (formula.values() if isinstance(formula, Mapping) else formula))
    if formula not in point.known:
        evaluate, ready = _ready(sympy.sympify(formula))
        point.known[formula] = evaluate(ready, point)
    return point.known[formula]


@lru_cache(maxsize=1 << 14)
def _ready(formula: Basic) -> tuple[Callable[[Any, Point], Any], Any]:
    """How the formula gets its value, with its operations carried out; a trace polynomial if it is one."""
    formula = carried_out(formula) if heads_in(formula) else formula
    if has_forms(formula):
        return partial(assembled, evaluate=_value), formula
    if isinstance(formula, MatrixBase):  # an immutable one is a MatrixExpr as well
        return lambda rows, point: mpmath.matrix([[_value(entry, point) for entry in row] for row in rows]), formula.tolist()
    if isinstance(formula, MatrixExpr) or (isinstance(formula, Basic) and formula.has(MatrixSymbol)):
        formula = _polynomial(formula)
    if isinstance(formula, TracePolynomial):
        return _polynomial_value, formula
    return partial(assembled, evaluate=_value) if isinstance(formula, MatrixExpr) else _scalar_value, formula  # the inverse of a sum


def _polynomial(formula) -> Any:
    """A trace polynomial; the formula as it is where it is none: a function of traces, the inverse of a sum."""
    try:
        return TracePolynomial(formula)
    except ValueError:
        return formula


def _polynomial_value(polynomial: TracePolynomial, point: Point) -> Any:
    shape = polynomial.shape and tuple(point.size(dimension) for dimension in polynomial.shape)
    total = arb_mat(*shape) if shape else arb(0)
    for coefficient, closed, word in _groups(polynomial):
        ball = sum((reduce(mul, (_power(one, point) for one in powers), number) for number, powers in coefficient), arb(0))
        ball = reduce(mul, (_product(one, point).trace() for one in closed), ball)
        total += ball if word is None else _product(word, point) * ball if word else _identity(shape[0]) * ball
    if not shape:
        return _middle(total)
    value = mpmath.matrix(*shape)
    for place, entry in zip(product(*map(range, shape)), total.entries(), strict=True):
        value[place] = _middle(entry)
    return value


def _power(power: tuple, point: Point) -> arb:
    if power not in point.known:
        point.known[power] = arb(_value(power[0], point) ** power[1])
    return point.known[power]


def _middle(ball: arb) -> Any:
    mantissa, exponent = ball.mid().man_exp()
    return mpmath.mpf((int(mantissa), int(exponent)))


_identity = lru_cache(lambda size: arb_mat(size, size, [int(i == j) for i in range(size) for j in range(size)]))


@lru_cache(maxsize=1 << 12)
def _groups(polynomial: TracePolynomial) -> list[tuple]:
    """The terms by their traces, cut to be multiplied out, and word; numbers as balls."""

    def cut(word: words.Word) -> words.Word:
        place = words.cut_position(word) or 0
        return word[place:] + word[:place]

    def coefficient_of(given: Mapping) -> list[tuple]:
        numbers = (arb(fmpq(*Fraction(one).as_integer_ratio())) for one in given.values())
        return [(one, [(scalar_of(index), power) for index, power in scalars]) for scalars, one in zip(given, numbers, strict=True)]

    return [(coefficient_of(given), [*map(cut, closed)], word) for given, closed, word in polynomial.groups()]


def _product(word: words.Word, point: Point) -> arb_mat:
    """The product of the letters of a word at a point, as balls: Arb multiplies matrices a hundred times as fast as mpmath."""
    if word not in point.known:
        if len(word) == 1:
            matrix = point[words.symbol_of(word[0])]
            matrix = arb_mat(matrix.rows, matrix.cols, list(map(arb, matrix)))
            matrix = matrix.transpose() if words.is_transposed(word[0]) else matrix
            point.known[word] = matrix.inv() if words.is_inverse(word[0]) else matrix
        else:
            left, right = _product(word[:-1], point), _product(word[-1:], point)
            point.known[word] = left * right
    return point.known[word]


def _scalar_value(expression: Any, point: Point) -> Any:
    if isinstance(expression, Symbol):
        return mpmath.mpf(1) * point[expression]
    expression, counting = _without_functions(expression)
    sizes = tuple((one, point[one]) for one in counting if isinstance(point[one], int))
    function, traces, indexed, arguments = _compiled(expression, sizes)
    numbers = [_polynomial_value(one, point) if isinstance(one, TracePolynomial) else assembled(one, point, _value) for one in traces]
    numbers += [point[one.base][int(one.indices[0])] for one in indexed]
    numbers += [mpmath.mpf(point[one]) if isinstance(point[one], int) else point[one] for one in arguments]
    try:
        result = function(*numbers)
        return result if isinstance(result, mpmath.mpc) else mpmath.mpf(result)
    except (TypeError, NameError, AttributeError) as problem:
        raise ValueError(f"{expression} has no number at this point: {problem}") from None


@lru_cache(maxsize=1 << 12)
def _without_functions(expression: Any) -> tuple[Any, list[Symbol]]:
    """The expression with a polynomial for each undefined function, and its letters if they count something: a bound, an index."""
    expression = expression.xreplace({one: _any_function(one) for one in expression.atoms(AppliedUndef)})
    if not expression.has(sympy.Function, Indexed, *EVALUATED):
        return expression, []
    labels = {one.base.label for one in expression.atoms(Indexed)}
    return expression, sorted((one for one in expression.free_symbols - labels if isinstance(one, Symbol)), key=str)


def _any_function(applied: AppliedUndef) -> Expr:
    """A polynomial with random coefficients, of degree five in each argument, which stands for an undefined function."""
    terms = product(range(6), repeat=len(applied.args))
    name = applied.func.__name__
    return sympy.Add(
        *(Symbol(name + "".join(map(str, powers)), real=True) * sympy.Mul(*map(pow, applied.args, powers)) for powers in terms)
    )


@lru_cache(maxsize=1 << 12)
def _compiled(expression: Expr, sizes: tuple) -> tuple:
    """A function of the traces, the indexed letters and the other letters of an expression, with these integers put in."""
    traces = sorted((one for one in expression.atoms(sympy.Trace) if one.has(MatrixSymbol)), key=str)
    named = {one: sympy.Dummy() for one in traces}
    explicit = expression.xreplace(named).subs(dict(sizes))  # the traces keep their letters, whose sizes the point has
    if explicit.has(*EVALUATED):
        explicit = evaluated(explicit)
    indexed = sorted(explicit.atoms(Indexed), key=str)
    for one in indexed:
        if len(one.indices) != 1 or not one.indices[0].is_Integer:
            raise ValueError(f"{one} has no value at this point")
    named |= {one: sympy.Dummy() for one in indexed}
    explicit = explicit.xreplace(named)
    arguments = sorted(explicit.free_symbols - set(named.values()), key=str)
    function = sympy.lambdify([*named.values(), *arguments], explicit, "mpmath")
    return function, [_polynomial(trace) for trace in traces], indexed, arguments
