r"""The scalar flow (26) of one direction, with its exact time integral (67) and inverse.

The formulas are those of the registry, evaluated in variables that keep their digits.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.optimize import brentq

from ...theory import notation
from ...theory.notation import lambda_
from ...theory.results.separate import durations
from .._checks import finite_array, index, positive_number, within_float64
from ..compilation.equations import compiled
from ..compilation.expressions import compile_expression
from ..tasks.regression import RegressionTask, any_task

Array = Float[np.ndarray, "..."] | float


@cache
def _phi() -> Callable[..., Any]:
    """Phi(u) - Phi(0) of (67) for 0 <= u < 1 and u + gap = 1."""
    letters = (durations.u, durations.gap)
    return compile_expression(durations.difference_of_phi().subs(durations.u_0, 0).subs(durations.delta, durations.u), letters)


@cache
def _time_between() -> Callable[..., Any]:
    """(67) from u_0 to u, u + gap = 1, in the unit ``time_unit``, without cancellation."""
    letters = (durations.u_0, durations.u, durations.delta, durations.gap)
    return compile_expression(durations.time_between(), letters)


def escaping_ratio(remaining: Array) -> tuple[Array, Array]:
    r"""u and 1 - u, each to full relative precision, where :math:`1/u - \Phi(u) + \Phi(0) =` ``remaining``, 0 < u < 1.

    ``remaining`` is the time until the truncated flow of (68) would escape, in the unit ``time_unit``, negative afterwards: along (26) it
    falls at unit rate. Newton's iteration runs in u for u < 0.7 and in ln(1 - u) beyond: both problems are convex, and it starts on the
    side from which it is monotone.
    """
    remaining = np.asarray(remaining, dtype=float)
    held = np.maximum(remaining, -200.0)  # from there on ln(1 - u) is linear to the last digit
    switch = 0.7
    phi_switch = _phi()(switch, 1 - switch)
    early = held >= 1 / switch - phi_switch
    u = np.where(early, 1 / np.where(early, held + phi_switch, 1.0), switch)
    y = np.full_like(u, np.log(1 - switch))
    for _ in range(100):
        gap = np.where(early, 1 - u, np.exp(y))
        excess = 1 / u - _phi()(u, gap) - held
        step_u = np.where(early, excess * u**2 * (1 - u**3), 0.0)
        step_y = np.where(early, 0.0, -excess * u**2 * (1 + u + u**2))
        u, y = np.where(early, u + step_u, -np.expm1(y + step_y)), y + step_y
        if np.all(np.abs(step_u) <= 4e-16 * u) and np.all(np.abs(step_y) <= 4e-16 * np.maximum(1, -y)):
            break
    return u, np.where(early, 1 - u, np.exp(y + 3 * (remaining - held)))


@dataclass(frozen=True)
class ScalarReduction:
    r"""The aligned flow (26), :math:`\tau\dot v = \lambda^2v^2 - \lambda a v^5`, with its exact solution (67) for v > 0.

    ``eigenvalue`` is lambda, ``second_moment`` is a, the eigenvalue of :math:`E(\hat\Lambda^2)`, ``tau`` the unit of times. Raises
    ``ValueError`` unless all are positive.
    """

    eigenvalue: float
    second_moment: float
    tau: float = 1.0

    def __post_init__(self) -> None:
        for name in ("eigenvalue", "second_moment", "tau"):
            object.__setattr__(self, name, positive_number(name, getattr(self, name)))

    @classmethod
    def of(cls, task: RegressionTask, component: int) -> "ScalarReduction":
        """The drop of one eigendirection of a task, counted from 0 in the order of ``task.eigenvalues``.

        Raises ``ValueError`` for covariances of token, task and query that don't commute: no direction then flows alone.
        """
        component = index("component", component, any_task(task).dimension)
        if not task.variations & {"task_covariance", "query_covariance", "context_gain"}:
            return cls(float(task.eigenvalues[component]), float(task.second_moment_eigenvalues[component]))
        # The flow of a direction is A_d v^2 - M_d Q_d v^5: (26) with these in place of lambda and a.
        if task.modes.growth is None:
            raise ValueError(
                "task must have covariances that commute, and a token law whose fourth moment commutes with them, "
                f"for a direction to flow alone, got {task!r}"
            )
        if component not in task.modes.learnable:
            raise ValueError(f"component must be one of {task.modes.learnable}, which the task vectors span, got {component!r}")
        rate = float(np.sqrt(task.modes.growth[component]))
        return cls(rate, rate / float(task.modes.levels[component]))

    @cached_property
    @within_float64
    def fixed_point(self) -> float:
        """v*, equation (25)."""
        return float(compiled("25", (lambda_, notation.a), part="cube")(self.eigenvalue, self.second_moment))

    @cached_property
    @within_float64
    def time_unit(self) -> float:
        r""":math:`\tau/(\lambda^2 v_*)`, equation (68) at :math:`v_*`."""
        return float(self.escape_time(self.fixed_point))

    @within_float64
    def velocity(self, v: Array) -> Array:
        """dv/dt, equation (26)."""
        flow = compiled("26", (notation.v, lambda_, notation.a), part="short")
        return flow(finite_array("v", v), self.eigenvalue, self.second_moment) / self.tau

    @within_float64
    def gap(self, v: Array) -> Array:
        """1 - v/v*, to full relative precision even for a v next to v*."""
        v, ratio = finite_array("v", v), Fraction(self.second_moment) / Fraction(self.eigenvalue)

        def left(value: float, u: float) -> float:
            return float(1 - ratio * Fraction(float(value)) ** 3) / (1 + u + u**2) if abs(1 - u) < 0.5 else 1 - u

        return np.vectorize(left, otypes=[float])(v, v / self.fixed_point)

    @within_float64
    def time(self, v: Array, v_0: Array) -> Array:
        """The time from v_0 to v, equation (67); both in (0, v*) or both above v*. Negative if v comes before v_0."""
        v, v_0 = _positive_array("v", v), _positive_array("v_0", v_0)
        gap, gap_0 = self.gap(v), self.gap(v_0)
        if not np.all(gap * gap_0 > 0):
            raise ValueError(f"v and v_0 must lie on the same side of v* = {self.fixed_point:.17g}, got {v} and {v_0}")
        v, v_0 = np.broadcast_arrays(v, v_0)
        onward = np.abs(gap) < np.abs(gap_0)  # the end next to v* becomes u, for which the formula keeps its digits
        start, end = np.where(onward, (v_0, v), (v, v_0)) / self.fixed_point
        delta = np.where(onward, v - v_0, v_0 - v) / self.fixed_point
        duration = _time_between()(start, end, delta, np.where(onward, gap, gap_0))
        return self.time_unit * np.where(onward, duration, -duration)

    def value(self, t: Array, v_0: float) -> Array:
        """v at time t from v_0 at time 0: the inverse of ``time``."""
        return self.fixed_point * self.ratio(t, v_0)[0]

    @within_float64
    def ratio(self, t: Array, v_0: float) -> tuple[Array, Array]:
        """v(t)/v* and 1 - v(t)/v*, each to full relative precision."""
        t, v_0 = finite_array("t", t), positive_number("v_0", v_0)
        gap_0 = float(self.gap(v_0))
        if gap_0 == 0:
            return np.ones_like(t), np.zeros_like(t)
        if gap_0 < 0:
            return self._ratio_from_above(t, v_0, gap_0)
        rate = Fraction(self.eigenvalue) ** 2 / Fraction(self.tau)
        pole = np.vectorize(lambda time: float(1 / Fraction(v_0) - rate * Fraction(float(time))), otypes=[float])(t)
        u_0 = v_0 / self.fixed_point
        return escaping_ratio(self.fixed_point * pole - _phi()(u_0, gap_0))

    def _ratio_from_above(self, t: Array, v_0: float, gap_0: float) -> tuple[Array, Array]:
        u_0, start = v_0 / self.fixed_point, np.log(-gap_0)
        if np.any(t < 0):
            raise ValueError(f"t must not be negative for v_0 above v*, got {t}")

        def height(theta: float) -> float:  # ln(u - 1), which falls at a rate between 1/3 and 1/(u^2 (1 + u + u^2))
            def excess(y: float) -> float:
                u, above = 1 + np.exp(y), np.exp(y)
                return _time_between()(u_0, u, above + gap_0, -above) - theta

            lowest = start - theta * u_0**2 * (1 + u_0 + u_0**2) - 1
            if theta == 0:
                return start
            held = max(lowest, -600.0)  # from there on ln(u - 1) is linear to the last digit
            beyond = excess(held)
            return held + 3 * beyond if beyond < 0 else float(brentq(excess, held, start, xtol=1e-15, rtol=1e-15))  # type: ignore[arg-type]

        y = np.vectorize(height, otypes=[float])(t / self.time_unit)
        return 1 + np.exp(y), -np.exp(y)

    @within_float64
    def escape_time(self, v_0: Array) -> Array:
        """The time at which the flow without its saturation would reach infinity, equations (68), (73)."""
        duration = compiled("68", (notation.v_0, lambda_, notation.tau))
        return duration(_positive_array("v_0", v_0), self.eigenvalue, self.tau)

    @within_float64
    def loss_drop(self, u: Array) -> Array:
        """The change of the loss by this direction at v = u v*: 0 at u = 0 and the (negative) step of (24) at u = 1."""
        change = compiled("26-loss", (durations.u, lambda_, notation.a))
        return change(finite_array("u", u), self.eigenvalue, self.second_moment)


def _positive_array(name: str, value: Any) -> np.ndarray:
    array = finite_array(name, value)
    if not (array > 0).all():
        raise ValueError(f"{name} must be positive: the flow (26) does not cross 0, got {value!r}")
    return array
