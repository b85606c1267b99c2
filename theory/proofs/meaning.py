r"""From the tree of a formula to the formula: letters with their shapes, operations that are not carried out.

>>> from iclflow.theory.algebra.syntax import tree
>>> meaning = Meaning(Letters())
>>> print(meaning.of(tree("E[S A S]")), meaning.of(tree("x' A x B")).shape)
E[Lambda_hat A Lambda_hat] (D, D)
"""

import re
from collections.abc import Iterable
from functools import reduce
from itertools import pairwise
from operator import mul
from typing import Any

import sympy
from sympy import Expr, Identity, IndexedBase, MatAdd, MatMul, S, Sum, Symbol, Trace
from sympy.matrices.expressions import MatrixExpr, MatrixSymbol
from sympy.tensor.indexed import Indexed

from ..algebra import words
from ..algebra.parsing import MAX_DIVISOR, MAX_EXPONENT, MAX_LENGTH, MAX_TERMS, number_of
from ..algebra.polynomial import TracePolynomial
from ..algebra.syntax import Node, Token, Unreadable, tokens_of
from ..calculus import eigenvalue, moment
from ..derivations import E, Gradient, Line, as_sympy
from ..expectation import Fixed, Gaussian, SampleCovariance, expect
from ..expectation.laws import ancestors, laws_by_symbol, looks_random
from ..notation import D, Lambda, Lambda_hat, N, symmetric_matrix, vector, w
from .counterexamples import letters_of
from .latex_tokens import latex_tokens
from .letters import LAWS_OF_PAPER, Letters, is_matrix, is_top, key_of, law_of, names_in

SCALAR_FUNCTIONS: dict[str, Any] = {"sqrt": sympy.sqrt, "ln": sympy.log, "log": sympy.log, "exp": sympy.exp, "tanh": sympy.tanh}
FAMILIES = {"lambda": eigenvalue, "a": moment}


def read_latex(text: str, symbols: Iterable = ()) -> Any:
    r"""The formula that LaTeX shows, in these symbols, which are known by their own LaTeX.

    >>> from iclflow.theory.notation import B
    >>> read_latex(r"\tfrac12 \boldsymbol{B}^\top \hat\Lambda", [B])
    (1/2)*(B.T*Lambda_hat)
    """
    letters = Letters()
    for symbol in symbols:
        letters.bind(symbol)
    node = letters.grammar(latex_tokens(text)).whole()
    letters.settle([node])
    return Meaning(letters).of(node)


def read_text(text: str, declarations: Iterable[str] = ()) -> tuple[Any, "Meaning"]:
    """The formula of a text, with what its letters mean. ValueError says at which character reading failed.

    >>> read_text("E[g' A g]", ["g: Gaussian(0, Sigma); A: symmetric"])[0].apply()
    tr(A Sigma)
    """
    declarations, letters = list(declarations), Letters()
    if not all(isinstance(one, str) for one in (text, *declarations)):
        raise TypeError(f"read_text: needs a text, and declarations as texts, got {text!r} and {declarations!r}")
    for one in declarations:
        letters.declare(one)
    for problem in letters.broken.values():
        raise ValueError(problem)
    if len(text) > MAX_LENGTH:
        raise ValueError(f"the expression has {len(text)} characters; at most {MAX_LENGTH} are read")
    try:
        node = letters.grammar(tokens_of(text)).whole()
        letters.settle([node])
        meaning = Meaning(letters)
        meaning.settle()
        formula = meaning.of(node)
        if count_terms(formula) > MAX_TERMS:
            raise Unreadable(f"it expands to more than {MAX_TERMS} terms")
    except Unreadable as problem:
        raise ValueError(f"cannot read {text!r} at character {(problem.position or 0) + 1}: {problem}") from None
    return formula, meaning


class _Unit(Expr):
    """The identity matrix, times a number, before its size is known."""

    is_commutative = True

    def __new__(cls, scale):
        return Expr.__new__(cls, scale)


class Meaning:
    """Gives formulas to trees. ``values`` are the definitions so far: {letter: value}."""

    def __init__(self, letters: Letters):
        self.letters, self.values = letters, {}
        self.indices: dict[str, Symbol] = {}
        self.laws: dict[Any, Any] = {}

    def settle(self) -> None:
        """Read the laws of the declared letters, whose sizes are known by now."""
        for declared in list(self.letters.declared.values()):
            if declared.law:
                try:
                    law = law_of(self.letters, declared, self.of)
                    self.laws[law.symbol] = law
                except (ValueError, TypeError) as problem:
                    self.letters.broken[declared.name] = f"the law of {declared.name} cannot be read: {problem}"

    def of(self, node: Node) -> Any:
        """The formula: a SymPy expression, in which ``E`` and derivatives stand as they are. Raises Unreadable."""
        value = self._value(node)
        return value.args[0] * Identity(D) if isinstance(value, _Unit) else value

    def both(self, first: Node, second: Node) -> tuple[Any, Any]:
        """The two sides of a relation; an identity without a size has that of the other side."""
        left, right = self._value(first), self._value(second)
        size = next((side.shape[0] for side in (left, right) if is_matrix(side) and side.shape[0] == side.shape[1]), D)
        left, right = (side.args[0] * Identity(size) if isinstance(side, _Unit) else side for side in (left, right))
        return left, right

    def _value(self, node: Node) -> Any:
        try:
            return getattr(self, f"_{node.kind}")(node)
        except Unreadable:
            raise
        except (ValueError, TypeError, ZeroDivisionError) as problem:
            raise Unreadable(str(problem), node.position) from None

    # Leaves

    _number = staticmethod(number_of)

    def _name(self, node: Node) -> Any:
        return self.letter(node.parts[0])

    def letter(self, token: Token) -> Any:
        """The symbol of a letter; a member of a family where its index runs."""
        stem, *subscripts = token.text.split("_")
        if token.text in self.indices:
            return self.indices[token.text]
        if (bound := self.letters.bound.get(key_of(token))) is not None:
            return bound
        if stem == "I" and len(subscripts) <= 1 and not self.letters.is_declared(token):
            return Identity(self.letters.of(subscripts[0])) if subscripts else _Unit(S.One)
        if self.indices.keys() & {name for one in subscripts for name in re.split("[{}+,-]", one)}:
            return self._member(token, stem, subscripts)
        if stem in FAMILIES and len(subscripts) == 1 and not self.letters.is_declared(token):
            index = self.letters.symbols.get(subscripts[0])
            if subscripts[0].isdigit() or getattr(index, "is_integer", False):
                return FAMILIES[stem][int(subscripts[0]) if subscripts[0].isdigit() else index]
            if stem == "lambda" and token.text not in ("lambda_m", "lambda_{m+1}", "lambda_{m+2}"):
                return Symbol(token.text, positive=True)
        return self.letters.of(token)

    def _member(self, token: Token, stem: str, subscripts: list[str]) -> Any:
        """lambda_d, c_i with a running index; a vector x_n keeps its name until the sum over n."""
        if len(subscripts) != 1 or subscripts[0] not in self.indices:
            raise Unreadable(f"the index of {token.text} is no single letter", token.position)
        index = self.indices[subscripts[0]]
        declared = self.letters.declaration(token)
        if declared is None and stem in FAMILIES:
            return FAMILIES[stem][index]
        if declared is None and stem == "y":
            return Trace(w.T * vector(f"x_{subscripts[0]}", D))
        if declared is not None and declared.shape is None and "function" not in declared.assumptions:
            return IndexedBase(stem, **({"real": True} | declared.assumptions))[index]
        if declared is None and stem == "x":
            return vector(token.text, D)
        if declared is None or not declared.law:
            raise Unreadable(f"{token.text} changes with {subscripts[0]}, and nothing says how: let {token.text}: scalar", token.position)
        return self.letters.of(token)

    # Arithmetic

    def _bracket(self, node: Node) -> Any:
        return self._value(node.parts[0])

    def _negative(self, node: Node) -> Any:
        return self._times([S.NegativeOne, self._value(node.parts[0])], node.position)

    def _sum(self, node: Node) -> Any:
        values = [self._value(part) for part in node.parts]
        matrices = [value for value in values if is_matrix(value)]
        if not matrices and not any(isinstance(value, _Unit) for value in values):
            return sympy.Add(*map(_number_of_1_by_1, values))
        if not matrices:
            if not all(isinstance(value, _Unit) for value in values):
                raise Unreadable("the size of the identity does not follow from here: write I_d, with its size d", node.position)
            return _Unit(sympy.Add(*(value.args[0] for value in values)))
        shape = matrices[0].shape
        terms = []
        for value, part in zip(values, node.parts, strict=True):
            if isinstance(value, _Unit) and shape[0] == shape[1]:
                value = value.args[0] * Identity(shape[0])
            if value == 0:
                continue
            if not is_matrix(value) or tuple(value.shape) != tuple(shape):
                raise Unreadable(
                    f"shape mismatch in a sum: {_described(matrices[0])}, {_described(value)}{self._hint(node)}", part.position
                )
            terms.append(value)
        return terms[0] if len(terms) == 1 else MatAdd(*terms)

    def _product(self, node: Node) -> Any:
        return self._times([self._value(part) for part in node.parts], node.position, node)

    def _times(self, values: list, position: int, node: Node | None = None) -> Any:
        """Factors multiply where their inner sizes agree; products that are 1 x 1 are numbers."""
        scale: Any = S.One
        units = False
        chains: list[list] = []
        for value in values:
            if isinstance(value, _Unit):
                scale, units = scale * value.args[0], True
            elif not is_matrix(value):
                scale = scale * _number_of_1_by_1(value)
            elif chains and chains[-1][0].shape[0] == 1 == chains[-1][-1].shape[1]:
                chains.append([value])
            elif chains and (chains[-1][-1].shape[1] == 1) == (value.shape[0] == 1):
                if chains[-1][-1].shape[1] != value.shape[0]:
                    raise Unreadable(
                        f"shape mismatch in a product: {_described(chains[-1][-1])}, {_described(value)}{self._hint(node)}", position
                    )
                chains[-1].append(value)
            else:
                chains.append([value])
        matrices = []
        for chain in chains:
            product = chain[0] if len(chain) == 1 else MatMul(*chain)
            if product.shape == (1, 1):
                scale = scale * Trace(product)
            else:
                matrices.append(product)
        if not matrices:
            return _Unit(scale) if units else scale
        for one, other in pairwise(matrices):
            if one.shape[1] != other.shape[0]:
                raise Unreadable(f"shape mismatch in a product: {_described(one)}, {_described(other)}{self._hint(node)}", position)
        factors = [*([] if scale == 1 else [scale]), *matrices]
        return factors[0] if len(factors) == 1 else MatMul(*factors)

    def _hint(self, node: Node | None) -> str:
        """Which letters have a shape by convention only."""
        assumed = {one.name for one in self.letters.declared.values() if one.assumed}
        found = sorted({token.text for token in names_in(node)} & assumed) if node else []
        return f"; not declared: {', '.join(found)}" if found else ""

    def _quotient(self, node: Node) -> Any:
        above, below = self._value(node.parts[0]), self._value(node.parts[1])
        if is_matrix(below) or isinstance(below, _Unit):
            raise Unreadable("division by a matrix: write inv(...)", node.position)
        if below == 0:
            raise Unreadable("division by zero", node.position)
        return self._times([1 / _number_of_1_by_1(below), above], node.position)

    def _transpose(self, node: Node) -> Any:
        inner = node.parts[0]
        value = self._value(inner)
        if is_matrix(value):
            return sympy.transpose(value)
        if inner.kind in ("name", "number") and not isinstance(value, MatrixExpr | Trace):
            what = getattr(inner.parts[0], "text", "")
            reason = f"the prime of a number is no transpose: leave it away, or declare {what} as what it is, such as {what}: D x D"
            raise Unreadable(reason, node.position)
        return value

    def _power(self, node: Node) -> Any:
        base, exponent = self._value(node.parts[0]), node.parts[1]
        if is_top(exponent) and (is_matrix(base) or exponent.parts[0].text == "top"):
            return self._transpose(Node("transpose", (node.parts[0],), node.position))
        if is_top(exponent) and not self.letters.is_declared(exponent.parts[0]):
            raise Unreadable("the exponent T of a number: a transpose, or a power? let T: ...", exponent.position)
        inverted = exponent.kind == "negative" and is_top(exponent.parts[0])
        power = S.NegativeOne if inverted else self._value(exponent)
        if inverted:
            base = sympy.transpose(base)
        if is_matrix(power):
            raise Unreadable("an exponent is a number", exponent.position)
        if power.is_Number and abs(power) > MAX_EXPONENT:
            raise Unreadable(f"an exponent of at most {MAX_EXPONENT} is read", exponent.position)
        if isinstance(base, _Unit):
            return _Unit(base.args[0] ** power)
        if not is_matrix(base):
            base = _number_of_1_by_1(base)
            if base == 0 and power.is_negative:
                raise Unreadable("division by zero", node.position)
            return base**power
        if not power.is_Integer:
            raise Unreadable("a power of a matrix has a whole number as exponent", exponent.position)
        if base.shape[0] != base.shape[1]:
            raise Unreadable(f"a power needs a square matrix: {_described(base)}{self._hint(node)}", node.position)
        return base**power

    # Operations

    def _call(self, node: Node) -> Any:
        name, inner, _, given, below = node.parts
        if name == "E":
            return self._expectation(inner, given, below, node.position)
        value = self._value(inner)
        if name == "inv":
            return self._power(Node("power", (inner, Node("negative", (Node("number", (Token("number", "1", 0),)),))), node.position))
        if name == "tr":
            if isinstance(value, _Unit):
                raise Unreadable("the size of the identity does not follow from here: write I_d, with its size d", node.position)
            if is_matrix(value) and value.shape[0] != value.shape[1]:
                raise Unreadable(f"a trace needs a square matrix: {_described(value)}{self._hint(node)}", node.position)
            if isinstance(value, Identity):
                return value.shape[0]
            return Trace(value) if is_matrix(value) else _number_of_1_by_1(value)
        if name == "norm" and is_matrix(value):
            if 1 not in value.shape and below not in ("F", "Fro", "mathrmF"):
                raise Unreadable("which norm of a matrix? That of Frobenius has the index F", node.position)
            return sympy.sqrt(Trace(sympy.transpose(value) * value))
        if is_matrix(value) or isinstance(value, _Unit) or name == "norm":
            raise Unreadable(f"{name} of {'a matrix' if name != 'norm' else 'a number'} is not read", node.position)
        return SCALAR_FUNCTIONS[name](_number_of_1_by_1(value))

    def _applied(self, node: Node) -> Any:
        token, arguments = node.parts
        function = self.letters.of(token) if self.letters.is_declared(token) else None
        if isinstance(function, sympy.core.function.UndefinedFunction):
            return function(*(self._value(one) for one in arguments))
        if token.text == "calN":
            raise Unreadable("a distribution belongs in a declaration: let x: Gaussian(0, Sigma)", node.position)
        raise Unreadable(f"{token.text}(...) could be a product or a function: let {token.text}: function, or write a *", node.position)

    def _order(self, node: Node) -> Any:
        raise Unreadable("O(...) stands alone behind the last sign of a side", node.position)

    def _expectation(self, inner: Node, given: tuple, below: Any, position: int) -> Any:
        body = self.expanded(self._value(inner))
        if isinstance(body, _Unit):
            return body
        laws = laws_by_symbol(tuple(self.laws.values()))
        known = {self.letter(token) for token in given}
        if known & self.values.keys():
            raise Unreadable("given is a letter that has a value", position)
        if below is not None:
            averaged = {self.letter(token) for token in below if self.letters._known(token) is not None}
            if averaged & laws.keys():
                known |= {one for one in body.free_symbols & laws.keys() if not averaged & {one, *ancestors(one, laws)}}
        declared = {one for one in self.letters.symbols.values() if isinstance(one, MatrixSymbol)}
        for symbol in sorted((body.free_symbols & LAWS_OF_PAPER.keys() & declared) - self.laws.keys(), key=str):
            raise Unreadable(f"is {symbol} random in this expectation? Its declaration gives no law", position)
        for symbol in sorted(body.free_symbols - laws.keys(), key=str):
            if looks_random(symbol) and symbol.shape != (1, 1) and ("_hat" in str(symbol) or symbol not in declared):
                law = "Gaussian(0, Sigma)" if symbol.shape[1] == 1 else "sample covariance of n with Sigma"
                raise Unreadable(f"{symbol} looks random and has no law: let {symbol}: {law}", position)
        if body.free_symbols and not any(one in laws or ancestors(one, laws) & laws.keys() for one in body.free_symbols):
            raise Unreadable("nothing in this expectation is random: let x: Gaussian(0, Sigma), or another law", position)
        if count_terms(body) > MAX_TERMS:
            raise Unreadable(f"it expands to more than {MAX_TERMS} terms", position)
        declared -= {one for one in declared if not looks_random(one) or one.shape == (1, 1)}
        constant = (Fixed(one, one) for one in sorted(body.free_symbols & declared - laws.keys(), key=str))
        return E(body, (*self.laws.values(), *constant), given=tuple(sorted(known, key=str)))

    def expanded(self, value: Any) -> Any:
        """A formula with its defined letters replaced: inside an expectation and a derivative they are no constants."""
        for _ in range(len(self.values) + 1):
            found = {letter: self.values[letter] for letter in getattr(value, "free_symbols", set()) & self.values.keys()}
            if not found or isinstance(value, _Unit):
                return value
            numbers = {Trace(letter): one for letter, one in found.items() if isinstance(letter, MatrixSymbol) and not is_matrix(one)}
            value = value.xreplace(numbers).xreplace(
                {letter: one for letter, one in found.items() if Trace(letter) not in numbers} if numbers else found
            )
        return value

    def used(self, line: Line) -> set:
        """The letters of a line, and those of their values and laws."""
        used, before = letters_of(line), set()
        while used != before:
            before = set(used)
            used |= set().union(*(letters_of(self.values[one]) for one in used & self.values.keys()))
            used |= set().union(*(letters_of_law(self.laws[one]) for one in used & self.laws.keys()))
        return used

    def _derivative(self, node: Node) -> Any:
        name, token, inner = node.parts
        token = token or Token("name", name[3:], node.position)
        variable = self.letter(token)
        if variable in self.values:
            raise Unreadable(f"the derivative in {token.text}, which has been given a value", node.position)
        if isinstance(variable, Expr) and variable.is_integer and not isinstance(variable, MatrixSymbol):
            raise Unreadable(f"the derivative in {token.text}, a whole number", node.position)
        body = self.expanded(self._value(inner))
        if isinstance(body, _Unit) or is_matrix(body):
            raise Unreadable("the derivative of a matrix is not read", node.position)
        if variable not in body.free_symbols:
            raise Unreadable(f"what is to be differentiated does not hold {token.text}: write brackets round it", node.position)
        if isinstance(variable, Symbol) and not body.has(MatrixSymbol):
            return sympy.Derivative(body, variable)
        return Gradient(body, variable)

    def _big(self, node: Node) -> Any:
        name, range_, inner = node.parts
        if name != "sum_":
            token, target = range_
            letter, body = self.letter(token), self._value(inner)
            if is_matrix(body) or body.has(MatrixSymbol):
                raise Unreadable("a limit of matrices stands alone on its side", node.position)
            return sympy.Limit(body, letter, self._value(target), "-" if self._value(target) == sympy.oo else "+")
        token, low, high = range_
        bounds = [self._bound(one) for one in (low, high)]
        if token.text in self.indices:
            raise Unreadable(f"the index {token.text} runs already", token.position)
        index = Symbol(token.text, integer=True, positive=True)
        self.indices[token.text] = index
        try:
            body = self._value(inner)
        finally:
            del self.indices[token.text]
        letters = [one for one in getattr(body, "free_symbols", ()) if isinstance(one, MatrixSymbol)]
        if any(index in size.free_symbols for one in letters for size in one.shape):
            raise Unreadable(f"the index {token.text} is the size of a matrix too", token.position)
        tokens = [one for one in letters if one.shape[1] == 1 and one.name.endswith(f"_{token.text}")]
        if tokens:
            return self._over_tokens(body, tokens, bounds, node.position)
        if index in getattr(body, "free_symbols", set()):
            if is_matrix(body) or isinstance(body, _Unit):
                raise Unreadable("a sum of matrices over an index is read over tokens x_n x_n' only", node.position)
            return Sum(_number_of_1_by_1(body), (index, *bounds))
        return self._times([bounds[1] - bounds[0] + 1, body], node.position)

    def _bound(self, node: Node) -> Any:
        """The end of a range: a whole number."""
        value = self._value(node)
        if not getattr(value, "is_integer", False):
            raise Unreadable("the ends of a sum are whole numbers", node.position)
        return value

    def _over_tokens(self, body: Any, tokens: list, bounds: list, position: int) -> Any:
        """The sum over the tokens of what is quadratic in x_n: x_n x_n' becomes N Lambda_hat."""
        (token,), (low, high) = tokens[:1], bounds
        polynomial = TracePolynomial(body)
        counts = {
            sum(words.symbol_of(code) == token for one in (*traces, word or ()) for code in one) for _, traces, word in polynomial.terms
        }
        if len(tokens) > 1 or low != 1 or not counts <= {0, 2}:
            raise Unreadable(f"a sum over tokens is read from 1 on, of what has {token} twice in each term", position)
        covariance = self.laws[token].covariance if token in self.laws else TracePolynomial(Lambda)
        if covariance == Lambda and high == N:
            sample = Lambda_hat
        else:
            sample = symmetric_matrix(f"{token.name.rpartition('_')[0]}_hat", token.shape[0])
            self.laws[sample] = SampleCovariance(sample, covariance, high)
        others = {*polynomial.free_symbols, *LAWS_OF_PAPER, sample} - {token}
        return as_sympy(high * expect(polynomial, Gaussian(token, covariance=sample), given=others))


def _number_of_1_by_1(value: Any) -> Any:
    return Trace(value) if isinstance(value, MatrixExpr) and tuple(value.shape) == (1, 1) else value


def _described(value: Any) -> str:
    shape = f"has shape {tuple(value.shape)}" if is_matrix(value) else "is a number"
    return f"{value} {shape}"


def is_polynomial(formula: Any) -> bool:
    """Is it a trace polynomial?"""
    try:
        TracePolynomial(formula)
    except ValueError:
        return False
    return True


def count_terms(node: Any) -> int:
    """A bound on the number of terms after multiplying out."""
    if isinstance(node, sympy.Pow | sympy.MatPow) and node.exp.is_Integer:
        inside = count_terms(node.base)
        if node.exp.is_negative:  # a denominator stays one factor, once it is factored
            return 1 if inside <= MAX_DIVISOR else 10 * MAX_TERMS
        return min(inside ** int(node.exp), 10 * MAX_TERMS)
    counts = [count_terms(one) for one in node.args if isinstance(one, Expr)] if not isinstance(node, MatrixSymbol | Indexed) else []
    return sum(counts) if isinstance(node, sympy.Add | MatAdd) else min(reduce(mul, counts, 1), 10 * MAX_TERMS)


def letters_of_law(law: Any) -> set:
    """The letters of the mean, the covariance and the number of samples of a law."""
    return set().union(*(letters_of(getattr(law, name, S.Zero)) for name in ("mean", "covariance", "samples")))
