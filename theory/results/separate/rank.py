r"""Heads of rank R: the aligned flow that fills their slots one by one, and the brief plateaus between (T3)."""

from functools import cache

from sympy import Matrix, Symbol, factor, log, solve, symbols

from ...derivations.derivation import Derivation
from ...notation import a, lambda_, tau, v, w_init
from .reduction import on_eigenvectors, second_moment_eigenvalue, separate_force

__all__ = ["aligned_mode_flow", "brief_plateau", "head_value", "x"]

x = Symbol("x", real=True)  # k_{i,r} = q_{i,r} = x e_d: the amplitude of one slot


@cache
def aligned_mode_flow() -> Derivation:
    r"""One slot of an aligned head, :math:`k_{i,r} = q_{i,r} = x_d e_d` (80): :math:`\tau\dot x_d = v\,G_d\,x_d`,
    :math:`\tau\dot v = \sum_{d} G_d\,x_d^2` with :math:`G_d = \lambda_d^2 - \lambda_d a_d v x_d^2`.

    The result is the column (tau dx/dt, the slot's part of tau dv/dt). With one slot and x = v both are (26).
    """
    G = on_eigenvectors(separate_force().result, lambda_, map_=Matrix([[v * x**2]]))[0, 0]
    moment = second_moment_eigenvalue().result
    named = G.subs(x, 0) + factor((G - G.subs(x, 0)) / moment) * a
    return Derivation.by(
        ("the force (53) on the slot's eigenvector", named),
        ("(80) for the slot and its part for v", Matrix([v * named * x, named * x**2])),
    )


@cache
def head_value() -> Derivation:
    r"""The value weight of a head that has filled a set J of slots: :math:`v = \bigl(\sum_{d\in J}\lambda_d/a_d\bigr)^{1/3}`.

    From :math:`G_d = 0` and the conserved :math:`v^2 = \sum_d x_d^2` (85). The result is the part of one slot in :math:`v^3`.
    """
    square = Symbol("y", positive=True)
    (level,) = solve(aligned_mode_flow().result[1].subs(x**2, square) / square, square)
    return Derivation.by(("x_d^2 where G_d = 0", level), ("its part of v^3 = v sum x_d^2", factor(v * level)))


@cache
def brief_plateau() -> Derivation:
    r"""The slope of a brief plateau (T3), inside a head whose slots are not yet full:

    .. math:: t_{m+1} - t_m \simeq \frac\tau v\Bigl(\frac1{\lambda_{m+1}^2} - \frac1{\lambda_m^2}\Bigr)\ln\frac1{w_{\rm init}} .

    Amplitudes grow as :math:`w_{\rm init}\,e^{\lambda_d^2 s}` in :math:`s = \int v\,dt/\tau`, in the plateaus and in the drops, until they
    are of order one; v is that of ``head_value``. Leading order for :math:`w_{\rm init} \to 0`. The result multiplies the logarithm.
    """
    before, after = symbols("lambda_m lambda_{m+1}", positive=True)
    clock = Symbol("s", positive=True)
    reached = [solve(log(w_init) + eigenvalue**2 * clock, clock)[0] for eigenvalue in (before, after)]
    slope = factor((reached[1] - reached[0]) / log(1 / w_init).expand(force=True) * tau / v)
    return Derivation.by(
        ("s at which each amplitude is of order one", Matrix(reached)),
        ("their distance in t, over ln(1/w_init)", slope),
    )
