"""The largest step of descent that is stable near a fixed point (V8-stable)."""

from .._checks import instance
from ..dynamics.momentum import check_momentum
from .fixed_points import FixedPoint


def largest_stable_step(point: FixedPoint, *, momentum: float = 0.0) -> float:
    """The step on L above which weights near a fixed point oscillate away: (1 + mu)/kappa, with kappa the largest curvature of L/2.

    At a saddle it concerns the directions along which the loss curves upward; it is infinite if there are none.
    """
    curvature = float(instance("point", point, FixedPoint, "a FixedPoint of iclflow.numerics").spectrum[-1])
    return (1 + check_momentum(momentum)) / curvature if curvature > 0 else float("inf")
