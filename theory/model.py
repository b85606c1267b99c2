r"""Your own model: one expression, its prediction, gives its loss and its gradient flow; other packages add numbers and a check.

>>> from iclflow.theory.notation import D, Lambda_hat, beta, matrix, x_q
>>> U = matrix("U", D)
>>> model = Model(prediction=beta.T * U * x_q, weights=(U,))
>>> model.flow()[U]                                                       # the force (53), with M = E(Lambda_hat^2) written out
Lambda^2 - (1 + 1/N) Lambda^2 U Lambda - 1/N tr(Lambda) Lambda U Lambda

The loss is L = E(y_q - prediction)^2 over the laws of the data, the flow tau dW/dt = -1/2 dL/dW, equations (9) and (10).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from numbers import Number
from types import MappingProxyType
from typing import Any

from sympy import Add, Expr, Float, Function, Mul, NumberSymbol, Pow, Sum, Symbol, Transpose, sympify
from sympy.core.numbers import ImaginaryUnit
from sympy.matrices import MatrixBase
from sympy.matrices.expressions import MatrixSymbol

from .algebra import words
from .algebra.arithmetic import SUPPORTED
from .algebra.polynomial import TracePolynomial
from .calculus.derivatives import gradient
from .expectation.laws import PAPER_LAWS, Law, Mixture, SampleCovariance
from .expectation.moments import expect
from .notation import D, Lambda, N, beta, matrix, x_q, y_q

__all__ = ["KNOWN", "Model"]

# Every task gives these symbols a value.
KNOWN = frozenset((Lambda, N, D))
FORCE = matrix("F", D)
INSTEAD = (
    "expand it in powers, such as exp(z) to 1 + z + z**2/2 with z = TracePolynomial(beta.T * U * x_q), or train a PyTorch module of your "
    "own by train of iclflow.verify.training.descent, which needs no formula"
)


@dataclass(frozen=True)
class Model:
    """A model of in-context regression, by its prediction for one sequence.

    ``prediction``: a scalar expression, polynomial in the data, in ``beta``, ``Lambda_hat``, ``x_q``, the weights and any symbols of
    ``laws`` or ``constants``. ``weights``: the matrix symbols (or scalar symbols) that are learned, of any shape. ``laws``: laws of
    further random symbols, or laws that replace the paper's (2)-(4), (28), (30). ``constants``: fixed symbols, given a value when numbers
    are computed. ``target``: what the model is to predict, by default y_q = w' x_q. ``penalty``: a polynomial in the weights that the
    loss adds, such as gamma * Trace(U.T * U) for weight decay.

    Raises ValueError for a prediction that is not a polynomial or not a scalar, for a weight or constant that is not used, for a symbol
    that is neither a weight, a constant nor random, and for a weight or constant that is a symbol of the task, the data or a law, or has
    the name of one. Raises TypeError for a prediction that is not an expression and a weight that is not a symbol.
    """

    prediction: Any
    weights: tuple
    laws: tuple = ()
    constants: tuple = ()
    target: Any = y_q
    penalty: Any = 0

    def __post_init__(self):
        for name in ("prediction", "target", "penalty"):
            object.__setattr__(self, name, _scalar(name, getattr(self, name)))
        for name in ("weights", "laws", "constants"):
            given = getattr(self, name)
            object.__setattr__(self, name, tuple(given) if isinstance(given, (tuple, list)) else (given,))
        for law in self.laws:
            if not isinstance(law, Law):
                raise TypeError(f"laws must hold laws (Gaussian, SampleCovariance, Fixed, Mixture), got {law!r}")
        ruled = [law.symbol for law in self.laws]
        for symbol in ruled:
            if ruled.count(symbol) > 1:
                raise ValueError(f"laws must hold one law of each symbol, got two of {symbol}: combine them in a Mixture")
        for name in ("weights", "constants"):
            self._check_own(name, getattr(self, name))
        if not self.weights:
            raise ValueError("weights must name at least one symbol to learn, got none")
        self._check_use()
        if drawn := self.penalty.free_symbols & self.random.keys():
            raise ValueError(f"penalty must not depend on what is random, got {min(drawn, key=str)} in {self.penalty}")
        self._check_names()
        self._check_symbols()

    def _check_own(self, name: str, symbols: tuple) -> None:
        """Each is a symbol, listed once, to which neither the task nor a law gives a value."""
        for symbol in symbols:
            if not isinstance(symbol, (Symbol, MatrixSymbol)):
                raise TypeError(f"{name} must be symbols, e.g. matrix('U', D) of theory.notation, got {symbol!r}")
            if symbol in KNOWN:
                raise ValueError(f"{name} must not hold {symbol}, to which the task gives its value: set it there")
            if symbol in self.random:
                raise ValueError(
                    f"{name} must not hold {symbol}, which has a law: take another symbol"
                    + (f", and laws=(Fixed({symbol}, other),) to hold {symbol} at it" if name == "constants" else "")
                )
        names = [str(symbol) for symbol in symbols]
        if len(set(names)) < len(names):
            raise ValueError(f"{name} must have names of their own, got {names}")

    def _check_use(self) -> None:
        for weight in self.weights:
            if weight in self.constants:
                raise ValueError(f"weights must not hold {weight}, which constants hold too: leave it out of one of them")
            if weight not in self.prediction.free_symbols | self.penalty.free_symbols:
                raise ValueError(
                    f"weights holds {weight}, on which the prediction {self.prediction} does not depend: "
                    "use it there (the same symbol, of the same shape), or take it out of weights"
                )
        for constant in self.constants:
            if constant not in self.symbols:
                raise ValueError(
                    f"constants holds {constant}, on which neither the prediction {self.prediction} nor the target and their laws depend: "
                    "use it there (the same symbol, of the same shape), or take it out of constants"
                )

    def _check_names(self) -> None:
        """No two symbols share a name, since a printed formula could not tell them apart."""
        named: dict[str, Any] = {}
        for symbol in (*KNOWN, *self.random, *self.weights, *self.constants, *self.symbols):
            other = named.setdefault(str(symbol), symbol)
            if other != symbol:
                raise ValueError(
                    f"{symbol} must be the name of one symbol, got two, a {_kind(other)} and a {_kind(symbol)}: if yours is to be that of "
                    "the task or the data, import it from iclflow.theory.notation; if not, call it by another name"
                )

    def _check_symbols(self) -> None:
        unknown = self.symbols - set(self.weights) - self.random.keys() - KNOWN - set(self.constants)
        if unknown:
            one = min(unknown, key=str)
            law = ""
            if getattr(one, "is_symmetric_letter", False):
                law = f"give its law, e.g. laws=(SampleCovariance({one}, Lambda, N),), or "
            elif isinstance(one, MatrixSymbol) and one.shape[1] == 1:
                law = f"give its law, e.g. laws=(Gaussian({one}),), or "
            raise ValueError(
                f"{one} has no law, and is neither a weight nor a constant, but the loss depends on it: "
                f"{law}add it to weights (to learn it) or to constants (to give its value later)"
            )

    def __deepcopy__(self, _memo: dict) -> "Model":
        return self  # frozen; the mappings that it keeps cannot be copied

    @cached_property
    def symbols(self) -> frozenset:
        """The symbols on which the loss depends."""
        return symbols_of(self, self.random)

    @cached_property
    def random(self) -> Mapping[Any, Any]:
        """The law of each random symbol: those of ``laws``, and the paper's for all other symbols."""
        return MappingProxyType({law.symbol: law for law in (*PAPER_LAWS, *self.laws)})

    @cached_property
    def _loss(self) -> TracePolynomial:
        return expect((self.target - self.prediction) ** 2, self.laws) + self.penalty

    @cached_property
    def _flow(self) -> Mapping[Any, TracePolynomial]:
        return MappingProxyType({weight: -gradient(self._loss, weight) / 2 for weight in self.weights})

    def loss(self) -> TracePolynomial:
        """L = E(target - prediction)^2 + penalty, equation (9), exact in the weights, Lambda and N."""
        return self._loss

    @cached_property
    def effective_map(self) -> TracePolynomial | None:
        """B(W) of a prediction beta' B(W) x_q, in which the loss is then quadratic; None for any other."""
        B, last = TracePolynomial.from_terms({}, (D, D)), words.letter(x_q)
        for (scalars, traces, word), number in gradient(self.prediction, beta).terms.items():
            if word[-1:] == (last,):
                B += TracePolynomial.from_terms({(scalars, traces, word[:-1]): number}, (D, D))
                continue
            with_query = [trace for trace in traces if last in trace or last + 1 in trace]
            if len(with_query) != 1:
                return None
            others = list(traces)
            others.remove(with_query[0])  # of a key and a query with one row, K' (Q x_q)
            row = gradient(TracePolynomial.from_terms({((), tuple(with_query), None): 1}, None), x_q)
            B += TracePolynomial.from_terms({(scalars, tuple(others), word): number}, (D, 1)) * row.T
        of_weights = B.terms and not B.free_symbols & self.random.keys()
        return B if of_weights and TracePolynomial(beta.T) * B * TracePolynomial(x_q) == self.prediction else None

    @cached_property
    def map_terms(self) -> tuple[tuple[Any, tuple, tuple], ...] | None:
        """The terms of B(W): a coefficient, the scalar weights, and the matrices in order, each with whether it is transposed.

        None unless the loss is quadratic in B under the paper's laws, and each weight occurs in one term of B, once.
        """
        if self.effective_map is None or self.laws or self.target != y_q or self.penalty.terms:
            return None
        terms = []
        for term in Add.make_args(self.effective_map.to_sympy()):
            scalar, factors = term.as_coeff_matrices() if hasattr(term, "as_coeff_matrices") else (sympify(1), [term])
            matrices = tuple((one.arg, True) if isinstance(one, Transpose) else (one, False) for one in factors)
            scalars = tuple(one for one in Mul.make_args(scalar) if one in self.weights)
            terms.append((scalar / Mul(*scalars), scalars, matrices))
        used = [weight for _, scalars, matrices in terms for weight in (*scalars, *(matrix for matrix, _ in matrices))]
        symmetric = any(getattr(weight, "is_symmetric_letter", False) for weight in used)
        once = len(set(used)) == len(used) and set(used) == set(self.weights)
        return tuple(terms) if once and not symmetric else None

    def fixed_point_conditions(self) -> Mapping[Any, TracePolynomial]:
        """{weight: tau dW/dt as a function of the force F}, each of which vanishes at a fixed point.

        F = E(beta y_q x_q') - E(beta beta') B E(x_q x_q') is minus half the gradient of the loss in the effective map B(W), the same for
        every task. Raises ValueError for a prediction that is not beta' B(W) x_q, with no other random letter.
        """
        B = self.effective_map
        if B is None:
            raise ValueError(f"prediction must be beta' B x_q with B a polynomial of the weights alone, got {self.prediction}")
        along = (TracePolynomial(FORCE.T) * B).trace() - self.penalty / 2
        return MappingProxyType({weight: gradient(along, weight) for weight in self.weights})

    @cached_property
    def conditions(self) -> frozenset:
        """The inequalities under which the loss exists: those of its inverse moments, and N >= D if Lambda_hat is inverted."""
        inverted = {
            words.symbol_of(code)
            for formula in (self.prediction, self.target)
            for _, traces, _ in formula.terms
            for word in traces
            for code in word
            if words.is_inverse(code)
        }
        laws = [self.random[symbol] for symbol in inverted & self.random.keys()]
        full_rank = {law.samples.to_sympy() >= law.symbol.shape[0] for law in laws if isinstance(law, SampleCovariance)}
        return self._loss.conditions | full_rank

    def flow(self) -> Mapping[Any, TracePolynomial]:
        """{weight: tau dW/dt} = {weight: -1/2 dL/dW}, equation (10)."""
        return self._flow


def _kind(symbol) -> str:
    shape = getattr(symbol, "shape", None)
    return f"matrix of shape {shape}" if shape else "number"


def symbols_of(model: Model, laws: Mapping[Any, Any]) -> frozenset:
    """The symbols on which the loss of a model depends under these laws."""
    used = set(model.prediction.free_symbols | model.target.free_symbols | model.penalty.free_symbols)
    for _ in laws:  # each pass reaches one more level of laws
        used |= set().union(*(_stated_with(laws[symbol]) for symbol in used & laws.keys()))
    return frozenset(used)


def _stated_with(law) -> Iterator:
    yield from law.parents
    if isinstance(law, SampleCovariance):
        yield from law.samples.free_symbols
        if law.fourth_moment is not None:
            some = matrix("any matrix", law.symbol.shape[0])
            yield from law.fourth_moment(TracePolynomial(some)).free_symbols - {some}
    if isinstance(law, Mixture):
        for share, part in law.parts:
            yield from share.free_symbols
            yield from _stated_with(part)


def _scalar(name: str, expression) -> TracePolynomial:
    if not isinstance(expression, (Expr, TracePolynomial, Number)):
        read = "; read text by read_text of iclflow.theory.proofs.meaning" if isinstance(expression, str) else ""
        raise TypeError(f"{name} must be an expression such as beta.T * U * x_q, got {expression!r}{read}")
    try:
        polynomial = TracePolynomial(expression)
    except ValueError as error:
        raise ValueError(f"{name} must {_unread(sympify(expression), str(error))}") from None
    if polynomial.shape is not None:
        raise ValueError(
            f"{name} must be one number for each sequence, such as beta.T * U * x_q, "
            f"got the matrix {polynomial} of shape {polynomial.shape}"
        )
    return polynomial


def _unread(expression, problem: str) -> str:
    """The error message for an expression that is not a trace polynomial, after "must"."""
    if problem.endswith(SUPPORTED):
        remedy = f"; {INSTEAD}"
        if expression.atoms(MatrixBase) or any(power.is_number for power in expression.atoms(Pow)):
            remedy = "; give what is a number or a matrix of numbers a symbol of constants, whose value comes later"
        elif expression.has(Sum) and not expression.has(Function):
            remedy = ""  # one entry of a product: the problem says how to write it
        return f"be a polynomial in the data and the weights: {problem}{remedy}"
    if expression.atoms(Float, NumberSymbol, ImaginaryUnit):
        return f"have rational coefficients: {problem}, or as a symbol of constants, whose value is given later"
    return f"be an expression such as beta.T * U * x_q: {problem}"
