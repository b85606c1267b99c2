r"""Your own model on a varied task (V1 to V5): what the task changes, stated as laws; and the mean over random context lengths.

Label noise adds zeta to beta and epsilon_q to the target, a task or query covariance changes one Gaussian law, tokens of another law have
a fourth moment of their own, :math:`F(A) = \mathbb E(xx^\top Axx^\top)`. For elliptical tokens that is kappa times the Gaussian one; for
any other law it is

.. math:: F(A) = F_{\text{Gauss}}(A) + \sum_m c_m\operatorname{tr}(V_mA)\,V_m,

since what is left is a symmetric form on symmetric matrices (it is one of four vectors, so that formulas that differ by which of them
V_m joins have the same value). A loss is linear in functions of N such as 1/N, whose means over random
lengths take their places. Where sums over the context are divided by another number than that of its tokens, beta and Lambda_hat of
the prediction are those sums: g_n times the averages, with a gain g_n for each length (V4).

>>> from iclflow.theory.notation import D, Lambda_hat, beta, matrix, x_q
>>> U = matrix("U", D)
>>> linear = Model(prediction=beta.T * U * x_q, weights=(U,))
>>> on_task(linear, {"noise_variance"}).loss() - linear.loss()
sigma^2 + sigma^2/N tr(Lambda U Lambda U')
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import cache

from sympy import Expr, Mul, Symbol
from sympy.matrices.expressions import MatrixSymbol

from ...algebra import words
from ...algebra.coefficients import multiply_scalars, scalar_of
from ...algebra.polynomial import TracePolynomial
from ...algebra.terms import accumulate
from ...calculus import substitute
from ...expectation import Fixed, Gaussian, Law, SampleCovariance, expect
from ...model import Model, symbols_of
from ...notation import D, Lambda, Lambda_hat, Lambda_q, N, beta, sigma, symmetric_matrix, w, x_q, y_q
from ..task.population import Sigma_w, g_n, noise_q, zeta
from ..variations.token_laws import elliptical_of, gaussian_of, kappa

# The variations that are laws, with the symbols whose laws they state. A random length is none: see mean_over_lengths.
STATED: Mapping[str, tuple] = {
    "noise_variance": (y_q, beta),
    "task_covariance": (w,),
    "query_covariance": (x_q,),
    "token_law": (Lambda_hat,),
    "context_gain": (),  # no law: the prediction sees the context through it
}
ADVICE = "or train it on prompts: ModelNetwork of iclflow.verify.own_model.prompts needs no law"


def cumulant(m: int) -> tuple[Symbol, MatrixSymbol]:
    """c_m and V_m, a term of what a token's fourth moment has beyond the Gaussian one."""
    return Symbol(f"c_{m}", real=True), symmetric_matrix(f"V_{m}", D)


def on_task(model: Model, variations: Collection[str], cumulants: int | None = None) -> Model:
    """The model with the laws of a task that has these ``variations``, arguments of ``RegressionTask``.

    The task's parameters are constants of what is returned: sigma, Sigma_w, Lambda_q; kappa for elliptical tokens, or c_m and V_m for
    ``cumulants`` terms of tokens of another law; g_n, whose means :func:`mean_over_lengths` takes. Raises ValueError where a law of the
    model and a variation state the same thing, where a letter of the model is one of the task's, where the loss needs moments of the
    tokens that are not known, and where a gain would have to be put into a law of the model's own.
    """
    stating = frozenset(one for one in variations if one in STATED)
    return _on_task(model, stating, cumulants) if stating else model


@cache
def _on_task(model: Model, variations: frozenset[str], cumulants: int | None) -> Model:
    laws, letters = [], []
    own = {law.symbol for law in model.laws}
    for variation in sorted(variations):
        for symbol in STATED[variation]:
            if symbol in own:
                raise ValueError(f"laws holds one for {symbol}, which {variation} of the task states too: leave one of the two out")
        added, parameters, hidden = _laws(variation, model, cumulants)
        laws, letters = [*laws, *added], [*letters, *parameters]
        _refuse_taken(model, variation, parameters, hidden)
    if "context_gain" in variations:
        model = _gained(model)
    stated = replace(model, laws=(*laws, *model.laws), constants=_constants(model, laws, letters))
    if "token_law" in variations:
        _require_known_moments(stated, query=x_q not in own)
    return stated


def _laws(variation: str, model: Model, cumulants: int | None) -> tuple[tuple[Law, ...], tuple, tuple]:
    """The laws of a variation, the parameters in them, and the random symbols that it brings along."""
    if variation == "noise_variance":
        context = model.random[Lambda_hat]
        if not isinstance(context, SampleCovariance):
            raise ValueError(f"laws must make Lambda_hat a SampleCovariance for noise_variance of the task, got {context}")
        noise = (
            Fixed(y_q, w.T * x_q + noise_q),
            Fixed(beta, Lambda_hat * w + zeta),
            Gaussian(zeta, covariance=sigma**2 / context.samples * Lambda_hat),
            Gaussian(noise_q, covariance=sigma**2),
        )
        return noise, (sigma,), (zeta, noise_q)
    if variation == "context_gain":
        return (), (g_n,), ()
    if variation == "task_covariance":
        return (Gaussian(w, covariance=Sigma_w),), (Sigma_w,), ()
    if variation == "query_covariance":
        return (Gaussian(x_q, covariance=Lambda_q),), (Lambda_q,), ()
    letters = (kappa,) if cumulants is None else tuple(one for m in range(cumulants) for one in cumulant(m))
    return (SampleCovariance(Lambda_hat, Lambda, N, fourth_moment=_fourth_moment(cumulants)),), letters, ()


def _gained(model: Model) -> Model:
    """The prediction with g_n beta and g_n Lambda_hat for the averages over the context."""
    for symbol in sorted(model.prediction.free_symbols & {law.symbol for law in model.laws}, key=str):
        above, context = [symbol], {beta, Lambda_hat}
        while above and not context & set(above):
            above = [parent for one in above if one in model.random for parent in model.random[one].parents]
        if above and symbol not in context:
            raise ValueError(
                f"laws must not state {symbol} by the context for context_gain of the task, which would enter it: write it out in the "
                f"prediction, {ADVICE}"
            )
    seen = substitute(model.prediction, {beta: g_n * beta, Lambda_hat: g_n * Lambda_hat})
    extra = (g_n,) if g_n in seen.free_symbols else ()
    return replace(model, prediction=seen, constants=(*model.constants, *extra))


@cache
def _fourth_moment(cumulants: int | None):
    def moment(A: TracePolynomial) -> TracePolynomial:
        if cumulants is None:
            return elliptical_of(A)
        symmetric, total = (A + A.T) / 2, gaussian_of(A)
        for m in range(cumulants):
            c, V = cumulant(m)
            total = total + c * (TracePolynomial(V) * symmetric).trace() * V
        return total

    return moment


def _constants(model: Model, laws: Iterable[Law], parameters: Iterable) -> tuple:
    """Those of the model, and the task's parameters on which its loss depends."""
    used = symbols_of(model, {**model.random, **{law.symbol: law for law in laws}})
    return tuple(dict.fromkeys((*model.constants, *(one for one in parameters if one in used))))


def _refuse_taken(model: Model, variation: str, parameters: Iterable, hidden: Iterable) -> None:
    """ValueError for a symbol of the model that is, or is called as, one that the task brings along.

    A parameter may be a constant of the model: it is then known, and the numbers must agree.
    """
    laws = {one for law in model.laws for one in (law.symbol, *law.parents)}
    used = model.prediction.free_symbols | model.target.free_symbols | set(model.constants) | laws
    shared = set(parameters) & set(model.constants)
    for letter in (*parameters, *hidden):
        for symbol in used - shared:
            if str(symbol) == str(letter):
                raise ValueError(
                    f"{symbol} of the model must have another name: {variation} of the task is stated with a letter of this name"
                )


def _require_known_moments(model: Model, *, query: bool) -> None:
    """ValueError unless the tokens enter by their second and fourth moments only.

    Lambda_hat may then occur twice, for which the fourth moment is needed; a query that has the tokens' law twice, for which the
    covariance is.
    """
    tokens = (Lambda_hat, x_q) if query else (Lambda_hat,)
    error = expect((model.target - model.prediction) ** 2, model.laws, given=tokens)
    for symbol in tokens:
        code = words.letter(symbol)
        products = [[one & ~1 for word in traces for one in word] for _, traces, _ in error.terms]
        times, inverted = max(letters.count(code) for letters in products), any(code | 2 in one for one in products)
        if times > 2 or inverted:
            how = "inverted" if inverted else f"{times} times in one term"
            raise ValueError(
                f"token_law of the task must be Gaussian for this prediction, whose squared error holds {symbol} {how}: of tokens "
                f"of other laws the second and fourth moments are known, enough for two; take GaussianTokens, {ADVICE}"
            )


def mean_over_lengths(polynomials: Iterable[TracePolynomial]) -> tuple[tuple[TracePolynomial, ...], dict[Symbol, Expr]]:
    """The polynomials with a letter for the mean of each function of N and g_n in their coefficients, and the function of each letter.

    Raises ValueError where a function of N holds a symbol other than N and D, whose value may change.
    """
    means: dict[Symbol, Expr] = {}

    def averaged(polynomial: TracePolynomial) -> TracePolynomial:
        terms: dict = {}
        for (scalars, traces, word), number in polynomial.terms.items():
            of_length = tuple(power for power in scalars if {N, g_n} & scalar_of(power[0]).free_symbols)
            if of_length:
                function = Mul(*(scalar_of(generator) ** exponent for generator, exponent in of_length))
                letter = Symbol(f"mean({function})", real=True)
                means[letter] = function
                rest = tuple(power for power in scalars if power not in of_length)
                scalars = multiply_scalars(rest, _scalars(letter))
            accumulate(terms, (scalars, traces, word), number)
        return TracePolynomial.from_terms(terms, polynomial.shape, polynomial.conditions)

    results = tuple(averaged(polynomial) for polynomial in polynomials)
    for function in means.values():
        others = function.free_symbols - {N, D, g_n}
        if others:
            raise ValueError(
                f"context_lengths of the task must be one length where {min(others, key=str)} stands with N in a denominator, as in "
                f"{function} of this loss; take it out of the denominator, {ADVICE}"
            )
    return results, means


@cache
def _scalars(symbol: Symbol) -> tuple:
    (((scalars, _, _), _),) = TracePolynomial(symbol).terms.items()
    return scalars
