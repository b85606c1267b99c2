r"""The risks of (V9) in high dimension, N = c D: Bayes in closed form, beside linear attention and least squares.

.. math::
    \lim\mathcal R_{\mathrm{Bayes}}/\operatorname{tr}\Lambda = \tfrac12\bigl(1 - c - \nu + \sqrt{(1 - c - \nu)^2 + 4\nu}\bigr), \qquad
    \lim\mathcal R_{\mathrm{lin}}/\operatorname{tr}\Lambda = \frac{1 + \nu}{1 + \nu + c}
"""

from sympy import Identity, Poly, Rational, S, Symbol, Trace, binomial, expand, limit, oo, solve, sqrt

from ...calculus.equality import require_zero
from ...calculus.substitution import substitute
from ...derivations.derivation import Derivation, Step
from ...derivations.registry import register
from ...expectation.moments import expect
from ...notation import D, Lambda, Lambda_hat, N
from .optimality import TASK, c, nu, white_risk

MOMENTS = 6  # how many moments of the spectrum are derived
_x = Symbol("x", positive=True)


def _moment(k: int):
    """lim E tr(Lambda_hat^k) / D for Lambda = I, as N and D grow with N = c D."""
    trace = substitute(expect(Trace(Lambda_hat**k)), {Lambda: Identity(D)}).to_sympy()
    powers = Poly(expand(trace * D ** (k - 1)).subs(N, c * D), D)  # times D^k: the limit is the highest coefficient
    if powers.degree() != k:
        raise ArithmeticError(f"E tr(Lambda_hat^{k}) should grow as D, got {trace}")
    return expand(powers.LC())


@register(
    "V9-limit",
    "The risk of Bayes in high dimension",
    kind="limit",
    section="beyond the paper",
    left={
        "moments": r"\sum_{k\le 6} m_k x^k",
        "Bayes": r"\lim\mathcal{R}_{\mathrm{Bayes}}/\operatorname{tr}(\boldsymbol{\Lambda})",
        "linear": r"\lim\mathcal{R}_{\mathrm{lin}}/\operatorname{tr}(\boldsymbol{\Lambda})",
        "least squares": r"\lim\mathcal{R}_{\mathrm{OLS}}/\operatorname{tr}(\boldsymbol{\Lambda})",
    },
    typed=lambda: {
        "moments": 1 + sum((_x**k * _narayana(k) for k in range(1, MOMENTS + 1)), S.Zero),
        "Bayes": (1 - c - nu + sqrt((1 - c - nu) ** 2 + 4 * nu)) / 2,
        "linear": (1 + nu) / (1 + nu + c),
        "least squares": nu / (c - 1),
    },
    conditions=(
        TASK,
        (
            r"White tokens, $\sigma^2=\nu\operatorname{tr}(\boldsymbol{\Lambda})$, $N = c D$, $D$ to infinity; least "
            "squares: $c > 1$"
        ),
        (
            r"$m_k=\lim\mathbb{E}\operatorname{tr}(\hat{\boldsymbol{\Lambda}}^k)/D$ with $\boldsymbol{\Lambda} = "
            r"\boldsymbol{I}$: six are derived and obey the equation $M=1+xM(1-1/c+M/c)$ of their generating "
            "function, which Marchenko and Pastur prove for all"
        ),
        "Finite $D$: the risk differs by a relative $O(1/D)$",
    ),
)
def high_dimension() -> Derivation:
    """Moments by the engine, the equation that they obey, and its root at rho = sigma^2/N."""
    moments = 1 + sum((_x**k * _moment(k) for k in range(1, MOMENTS + 1)), S.Zero)
    equation = moments - 1 - _x * moments * (1 - 1 / c + moments / c)
    require_zero(*(expand(equation).coeff(_x, k) for k in range(MOMENTS + 1)))
    share = Symbol("M", positive=True)
    # rho E tr (Lambda_hat + rho I)^-1 / D = M at x = -1/rho, with rho = sigma^2/N = nu/c
    at_penalty = (share - 1 - _x * share * (1 - 1 / c + share / c)).subs(_x, -c / nu)
    root = max(solve(at_penalty, share), key=lambda value: value.subs({nu: 1, c: 1}))  # the other is negative
    white = white_risk()
    return Derivation.by(
        Step("The first six moments of the spectrum, by the engine", moments, part="moments"),
        Step(
            (
                r"Their generating function at $\boldsymbol{x} = -N/\sigma^{2}$ is the risk of Bayes; the equation "
                "there"
            ),
            expand(nu * at_penalty),
        ),
        Step("Its positive root", root, part="Bayes"),
        *(Step(f"{name} at $N = c D$", limit(risk.subs(N, c * D), D, oo), part=name) for name, risk in white.items()),
    )


def _narayana(k: int):
    """The moment m_k of the law of Marchenko and Pastur of ratio 1/c, by the numbers of Narayana."""
    return sum(binomial(k, j) * binomial(k - 1, j) / (Rational(j + 1) * c**j) for j in range(k))
