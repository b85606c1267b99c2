r"""What the first drop makes of zero blocks that start as large as the main weights (V6-ordinary), in the population.

While all weights are small, the zero blocks grow at lambda_d^2 and the main weights at the norm of Lambda^2, (T4-growth). Then the main
weights of all heads are one vector over the heads; across it, in idle heads, the zero blocks feel the force of the reduced model and
nothing else to first order. When the force has vanished they rest as large as they are: what they do the active head can do too (V6-idle).
"""

from sympy import Derivative, Identity, Symbol, powsimp, sqrt

from ...calculus import eigenvalue, substitute
from ...derivations import Gradient, Line, Lines, note, register, states
from ...notation import B, B_rest, D, Lambda, M, N, alpha, beta, gamma, lambda_, prediction, s, s_0, w_init, x_q
from ..attention.blocks import u_i, value_row
from ..attention.mirror_sector import size
from ..attention.zero_block_loss import HALF, half_loss, scale
from ..merged.sigmoid import norm_on_aligned_set
from ..task.regression import SECOND_MOMENT, force
from .idle_heads import COLUMN_SIZE, CURVATURE, FORCE, crossing

BLOCK_START = Symbol("h_0", positive=True)  # half of |v_j + u_j| of the idle heads when all weights are small
_SPREAD = 1 + (1 + D) / N


@register("V6-ordinary", "Zero blocks after the first drop, from the scale of the main weights", kind="approximation")
@states("row", lambda: (Lambda**2 - M * B_rest * Lambda) * u_i)
@states("column", lambda: (Lambda**2 - Lambda * B_rest.T * M) * value_row)
@states("power", lambda: w_init ** (1 - eigenvalue[1] ** 2 / gamma))
@states("crossing", lambda: 4 * FORCE**2 / CURVATURE**2 * w_init ** (4 * (eigenvalue[1] ** 2 / gamma - 1)))
@states("white", lambda: BLOCK_START * (sqrt(D) / (lambda_ * s_0 * _SPREAD)) ** (1 / (2 * sqrt(D))))
@states("white power", lambda: w_init ** (1 - 1 / sqrt(D)) * (sqrt(D) / (lambda_ * _SPREAD)) ** (1 / (2 * sqrt(D))))
@note(
    r"The heads are rotated until one is active, with the map $\boldsymbol{B}_{\neq i}$, and $v_i=0$, $\boldsymbol{U}_i=0$ in the "
    "idle heads $i$",
    r"$s$ is that of (45), $s_0$ the squared norm of (15-start), and $h_0$ the norm of the halves of $\boldsymbol{v}_i+\boldsymbol{u}_i$ "
    "of the idle heads at the start",
    "Measured, not derived: one head alone may rest with one direction learned, nearly all by its zero blocks (eigenvalues 0.6 and 0.4, "
    "$N=8$: in 113 of 300 starts at 0.03)",
)
def ordinary_start() -> Lines:
    """The flow of the zero blocks beside an active head; its length on the plateau; and beside the sigmoid of white tokens."""
    on_map = substitute(force(), {B: B_rest})
    white = {Lambda: lambda_ * Identity(D), B_rest: s / sqrt(D) * Identity(D)}
    column, sizes = w_init ** (1 - eigenvalue[1] ** 2 / gamma), {gamma: sqrt(D) * lambda_**2, alpha: lambda_**3 * _SPREAD}
    grown = BLOCK_START * (s / s_0) ** (1 / (2 * sqrt(D)))
    end = BLOCK_START * (sqrt(D) / (lambda_ * s_0 * _SPREAD)) ** (1 / (2 * sqrt(D)))
    yield SECOND_MOMENT
    yield Line(
        prediction, ":=", beta.T * (B_rest + scale**2 * value_row * u_i.T) * x_q, r"An idle head whose blocks are $\epsilon$ times these"
    )
    yield HALF
    for one, part, rate in ((value_row, "row", on_map * u_i), (u_i, "column", on_map.T * value_row)):
        yield Line(
            -Gradient(half_loss, one) / scale**2, "~", rate, f"The flow (10) of the {part}", part=part, parameter=(scale, 0), order=2
        )
    yield Line(size, "=", column, "So they leave the plateau at this size, up to a factor", "T4-leak", "power")
    yield Line(COLUMN_SIZE, ":=", size, "and keep it, up to a factor, while the force vanishes")
    yield Line(crossing(COLUMN_SIZE), "=", crossing(column), "The crossing of (V6-idle)", "T4-leak", "crossing")
    for one, value in (white | sizes).items():
        yield Line(one, ":=", value, "White tokens")
    yield Line(on_map, "=", (gamma - alpha * s) / sqrt(D) * Identity(D), "The force while the active head grows along (44)", 0)
    yield Line(
        norm_on_aligned_set().result["rate"] * Derivative(grown, s),
        "=",
        (gamma - alpha * s) / sqrt(D) * grown,
        "Beside (45) this force makes of the idle blocks a power of $s$",
    )
    yield Line(grown.subs(s, gamma / alpha), "=", end, "At the end of (45)", part="white")
    yield Line(BLOCK_START, ":=", w_init, "All start at this scale")
    yield Line(s_0, ":=", w_init**2, "and the value weights too")
    yield Line(grown.subs(s, gamma / alpha), "=", powsimp(end.subs({BLOCK_START: w_init, s_0: w_init**2})), "Then", part="white power")
