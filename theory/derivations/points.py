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
from functools import lru_cache, partial
from itertools import product
from math import prod
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
from ..algebra.coefficients import coefficient_of
from ..algebra.polynomial import TracePolynomial
from ..notation import Lambda, Lambda_hat, Lambda_q, M
from .heads import carried_out, evaluated, heads_in
from .matrix_forms import assembled, has_forms

DIGITS = 30
EVALUATED = (sympy.Sum, sympy.Product, sympy.Integral, sympy.Derivative, sympy.Limit, sympy.Determinant, sympy.ImmutableMatrix)
NO_NUMBER = (TypeError, NameError, AttributeError)  # what a function of numbers raises that it does not know
POSITIVE_DEFINITE = {Lambda, Lambda_hat, Lambda_q, M}  # drawn so unless a condition says otherwise


class Point:
    """Sizes and values, by symbol: ``point[Lambda]`` is an mpmath matrix, ``point[N]`` an integer.

    A letter is drawn when its value is first asked for, and does not depend on what was drawn before. ``rng`` is for the draws of
    conditions. Values of formulas are kept until a letter gets another value, as Arb's, which is ten to a hundred times as fast as mpmath.
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
            point.stored(letter)
        return point

    def copy(self) -> "Point":
        """A point with the same values, which may be changed."""
        point = Point(self.sizes, self.rng, self)
        point.values, point.known = dict(self.values), dict(self.known)
        return point

    def __getstate__(self):
        return {**vars(self), "values": {letter: as_mpmath(value) for letter, value in self.values.items()}, "known": {}}

    def __getitem__(self, letter):
        """The value of a letter, drawn now if nothing has asked for it before."""
        if isinstance(value := self.stored(letter), BALLS):
            value = self.values[letter] = as_mpmath(value)
        return value

    def stored(self, letter):
        """The value of a letter, as Arb's until it is looked at."""
        if (value := self.values.get(letter)) is None:
            value = self.values[letter] = self._drawn(letter) if self.parent is None else self.parent.stored(letter)
        return value

    def __setitem__(self, letter, value):
        if isinstance(letter, MatrixSymbol) and not isinstance(value, mpmath.matrix | arb_mat):
            value = arb_mat([[value]]) if isinstance(value, arb) else mpmath.matrix([[value]])
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
                    self.values[key] = self._drawn(letter, head)
                point.values[letter] = self.values[key]
        return self.heads[head, letters]

    def __contains__(self, letter):
        return letter in self.values

    def family(self, base: IndexedBase, values: Iterable) -> None:
        """Give an indexed letter its values, from index 1."""
        self[base] = _Family(self, base, dict(enumerate(values, 1)))

    def size(self, dimension) -> int:
        """The value of a dimension such as D or R - 1."""
        if isinstance(value := self.stored(dimension) if isinstance(dimension, Symbol) else dimension, int | sympy.Integer):
            return int(value)
        dimension = sympy.sympify(dimension)
        value = dimension.xreplace({symbol: sympy.sympify(self[symbol]) for symbol in dimension.free_symbols})
        if not value.is_Integer or value < 0:
            raise ValueError(f"the size {dimension} is {value} at this point")
        return int(value)

    def drawn(self, letter, *place: int) -> Any:
        """A random value for a letter, or for its value in a head."""
        return as_mpmath(self._drawn(letter, *place))

    def _drawn(self, letter, *place: int) -> Any:
        if isinstance(letter, IndexedBase):
            return _Family(self, letter)
        shape = tuple(map(self.size, letter.shape)) if isinstance(letter, MatrixSymbol) else ()
        return _random(letter, shape, f"{self.seed} {_name(letter)} {place}")

    def __repr__(self):
        return "{" + ", ".join(f"{letter}: {_shown(value)}" for letter, value in self.values.items()) + "}"


BALLS = (arb, arb_mat)
_name = lru_cache(maxsize=1 << 12)(sympy.srepr)  # tells letters of one name and different assumptions apart


@lru_cache(maxsize=1 << 12)
def _random(letter, shape: tuple, seed: str) -> Any:
    """A matrix of normal entries; an integer; or a number between 1/3 and 3 and, unless the letter is positive, between -3 and -1/3."""
    rng = Random(seed)
    if shape:
        rows, columns = shape
        drawn = [[rng.gauss(0, 1) for _ in range(columns)] for _ in range(rows)]
        if letter in POSITIVE_DEFINITE:
            drawn = [[sum(map(mul, one, other)) / rows + (one is other) / 10 for other in drawn] for one in drawn]
        elif getattr(letter, "is_symmetric_letter", False):
            drawn = [[(drawn[i][j] + drawn[j][i]) / 2 for j in range(columns)] for i in range(rows)]
        return arb_mat(drawn) if rows else arb_mat(0, columns)
    if getattr(letter, "is_integer", False) and not isinstance(letter, IndexedBase):
        return rng.choice([1, 2, 3, 5, 8])
    magnitude = arb(3 ** rng.uniform(-1, 1))
    return magnitude if letter.is_positive or letter.is_nonnegative else magnitude * rng.choice([-1, 1])


class _Family:
    """The values of an indexed letter, drawn as they are asked for."""

    def __init__(self, point: Point, base: IndexedBase, members: dict | None = None):
        self.point, self.base, self.members = point, base, members or {}

    def __getitem__(self, index):
        if index not in self.members:
            self.members[index] = as_mpmath(_random(self.base, (), f"{self.point.seed} {_name(self.base)} {index}"))
        return self.members[index]

    def __repr__(self):
        return _shown(self.members)


def _shown(value) -> str:
    value = as_mpmath(value)
    if isinstance(value, mpmath.matrix):
        return str([[float(mpmath.nstr(value[i, j], 4)) for j in range(value.cols)] for i in range(value.rows)])
    if isinstance(value, dict):
        return str({key: _shown(one) for key, one in value.items()})
    return str(mpmath.nstr(value, 6)) if isinstance(value, mpmath.mpf) else str(value)


def value_at(formula: Any, point: Point) -> Any:
    """The value of a formula at a point: an mpf, an mpmath matrix, or a tuple of them for several formulas.

    Raises ValueError for what has no number there (a letter without a value).
    """
    return as_mpmath(ball_at(formula, point))


def ball_at(formula: Any, point: Point) -> Any:
    """The value as a number or a matrix of Arb; of mpmath if it is complex, or no matrix of trace polynomials."""
    if (mp.dps, ctx.dps) == (DIGITS, DIGITS + 3):
        return _ball(formula, point)
    with mp.workdps(DIGITS), ctx.workdps(DIGITS + 3):
        return _ball(formula, point)


def as_mpmath(value: Any) -> Any:
    """A value with the numbers and matrices of mpmath for those of Arb."""
    if isinstance(value, tuple):
        return tuple(map(as_mpmath, value))
    if isinstance(value, arb):
        return mpmath.mpf(tuple(map(int, value.mid().man_exp())))
    if not isinstance(value, arb_mat):
        return value
    return mpmath.matrix([list(map(as_mpmath, row)) for row in value.tolist()]) if value.nrows() else mpmath.matrix(0, value.ncols())


def as_arb(value: Any) -> Any:
    """A value with the numbers and matrices of Arb for real ones of mpmath."""
    if isinstance(value, BALLS):
        return value
    if isinstance(value, mpmath.matrix):
        return arb_mat(value)
    return arb(value) if isinstance(value, int | float | mpmath.mpf) else value


def _ball(formula: Any, point: Point) -> Any:
    if isinstance(formula, TracePolynomial):
        return _polynomial_ball(formula.shape, _groups(formula), point)
    if not isinstance(formula, Basic):
        if isinstance(formula, tuple | list | Mapping):
            return tuple(_ball(part, point) for part in (formula.values() if isinstance(formula, Mapping) else formula))
        formula = formula.as_immutable() if isinstance(formula, MatrixBase) else sympy.sympify(formula)
    if (value := point.known.get(formula)) is None:
        value = point.known[formula] = _ready(formula)(point)
    return value


@lru_cache(maxsize=1 << 14)
def _ready(formula: Any) -> Callable[[Point], Any]:
    """How the formula gets its value, with its operations carried out; as a trace polynomial if it is one."""
    if isinstance(formula, Symbol | Indexed):
        return partial(_letter, formula)
    formula = carried_out(formula) if heads_in(formula) else formula
    if has_forms(formula):
        return partial(assembled, formula, evaluate=ball_at)
    if isinstance(formula, MatrixBase):  # an immutable one is a MatrixExpr as well
        return lambda point: mpmath.matrix([[value_at(entry, point) for entry in row] for row in formula.tolist()])
    if isinstance(formula, MatrixExpr) or (isinstance(formula, Basic) and formula.has(MatrixSymbol, sympy.Trace)):
        try:
            formula = TracePolynomial(formula)
        except ValueError:  # a function of traces, or the inverse of a sum
            if isinstance(formula, MatrixExpr | sympy.Trace):
                return partial(assembled, formula, evaluate=ball_at)
    if isinstance(formula, TracePolynomial):
        return partial(_polynomial_ball, formula.shape, _groups(formula))
    return partial(_scalar_ball, *_without_functions(formula))


def _letter(letter: Any, point: Point) -> Any:
    if (value := point.known.get(letter)) is None:
        value = point.known[letter] = as_arb(_member(letter, point) if isinstance(letter, Indexed) else point.stored(letter))
    return value


def _member(letter: Indexed, point: Point) -> Any:
    if len(letter.indices) != 1 or not letter.indices[0].is_Integer:
        raise ValueError(f"{letter} has no value at this point")
    return point[letter.base][int(letter.indices[0])]


def _polynomial_ball(shape: Any, groups: list[tuple], point: Point) -> Any:
    shape = shape and tuple(map(point.size, shape))
    total = arb_mat(*shape) if shape else arb(0)
    for coefficient, closed, word in groups:
        ball = prod((_product(one, point).trace() for one in closed), start=arb(_ball(coefficient, point)))
        total += ball if word is None else _product(word, point) * ball if word else arb_mat(*shape, ball)
    return total.mid()


@lru_cache(maxsize=1 << 12)
def _groups(polynomial: TracePolynomial) -> list[tuple]:
    """The terms by their traces, cut to be multiplied out, and word."""

    def cut(word: words.Word) -> words.Word:
        place = words.cut_position(word) or 0
        return word[place:] + word[:place]

    return [(coefficient_of(given), [*map(cut, closed)], word) for given, closed, word in polynomial.groups()]


def _product(word: words.Word, point: Point) -> arb_mat:
    if word not in point.known:
        if len(word) == 1:
            matrix = _letter(words.symbol_of(word[0]), point)
            matrix = matrix.transpose() if words.is_transposed(word[0]) else matrix
            point.known[word] = matrix.inv() if words.is_inverse(word[0]) else matrix
        else:
            point.known[word] = _product(word[:-1], point) * _product(word[-1:], point)
    return point.known[word]


def _scalar_ball(expression: Any, counting: list[Symbol], point: Point) -> Any:
    sizes = tuple((one, size) for one in counting if isinstance(size := point.stored(one), int))
    explicit, letters = _explicit(expression, sizes)
    _ = [point.stored(one) for one in letters]  # by name: a search moves them in the order in which they have been drawn
    try:
        if (ball := _real(explicit)(point)).is_finite():
            return ball.mid()
    except NO_NUMBER:
        pass
    try:
        result = _by_mpmath(explicit)(point)
        return result if isinstance(result, mpmath.mpc) else mpmath.mpf(result)
    except NO_NUMBER as problem:
        raise ValueError(f"{expression} has no number at this point: {problem}") from None


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
def _explicit(expression: Expr, sizes: tuple) -> tuple[Expr, list]:
    """The expression with these integers put in, and evaluated, and its letters; its traces keep theirs, whose sizes the point has."""
    traces = {one: sympy.Dummy() for one in expression.atoms(sympy.Trace) if one.has(MatrixSymbol)}
    explicit = expression.xreplace({**traces, **{one: sympy.Integer(size) for one, size in sizes}})
    explicit = evaluated(explicit) if explicit.has(*EVALUATED) else explicit
    labels = {one.base.label for one in explicit.atoms(Indexed)}
    letters = sorted((one for one in explicit.free_symbols.difference(labels, traces.values()) if isinstance(one, Symbol)), key=str)
    return explicit.xreplace({name: one for one, name in traces.items()}), letters


OPERATIONS: dict[Any, Callable[[list], Any]] = {sympy.Add: sum, sympy.Mul: prod, sympy.Pow: lambda parts: parts[0] ** parts[1]}
for function in (sympy.exp, sympy.log, sympy.cosh, sympy.tanh, sympy.atan, sympy.atanh):
    OPERATIONS[function] = lambda parts, name=function.__name__: getattr(parts[0], name)()


@lru_cache(maxsize=1 << 14)
def _real(expression: Expr) -> Callable[[Point], arb]:
    """How a scalar gets its value at a point from the values of its parts; not finite where it is complex, or has none."""
    if isinstance(expression, Symbol | Indexed):
        return partial(_letter, expression)
    if isinstance(expression, sympy.Trace):
        return partial(_ball, expression)
    if isinstance(expression, sympy.Rational):
        number = arb(fmpq(int(expression.p), int(expression.q)))
        return lambda point: number
    if (operation := OPERATIONS.get(type(expression))) is None:
        number = _by_mpmath(expression)
        return lambda point: arb(number(point))
    parts = list(map(_real, expression.args))
    return lambda point: operation([part(point) for part in parts])


@lru_cache(maxsize=1 << 12)
def _by_mpmath(expression: Expr) -> Callable[[Point], Any]:
    """How mpmath gives a scalar a value where Arb does not: by its many functions, as a complex number, or with an error that says why."""
    named = {one: sympy.Dummy() for one in expression.atoms(Indexed, sympy.Trace)}
    explicit = expression.xreplace(named)
    named |= {one: one for one in explicit.free_symbols.difference(named.values())}
    function = sympy.lambdify(list(named.values()), explicit, "mpmath")
    return lambda point: function(*[value_at(one, point) for one in named])
