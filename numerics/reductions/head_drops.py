r"""A head that learns: from its escape to the fixed point, slot by slot.

A rank-one head follows the scalar flow (26), whose exact solution needs only the escape time. A head of rank R is aligned: it follows
:math:`\tau\dot x_d = v\,G_d\,x_d` with :math:`G_d = \lambda_d^2 - \lambda_d a_d v x_d^2` (80), R + 1 equations, and fills its slots one
after the other, with brief plateaus in between (T3).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

from ...theory.notation import a, lambda_, rho, v
from ...theory.results.separate.rank_plateaus import x
from ..compilation.equations import compiled
from .scalar import ScalarReduction, escaping_ratio
from .waiting_head import WaitingHead

HALF = 0.5 ** (1 / 3)  # v/v* where v^3, and with it B_dd, is at half of its final value
ABSENT = 1e-13  # amplitudes below this fraction of the head's are rounding: the head has no component there
SETTLED = 1e-8  # relative distance from the fixed point at which a head counts as filled


@dataclass(frozen=True, eq=False)
class Drop:
    """One learned direction: the index of its eigenvalue, the unit vector, the head, and the rise of the component B_dd.

    At ``time`` B_dd is half of its final value, from ``switch`` on the other heads count as not feeling the direction, and
    ``fraction(times)`` is B_dd over its final value. Times are in units of tau.
    """

    component: int
    direction: Float[np.ndarray, " D"]
    head: int
    reduction: ScalarReduction
    time: float
    switch: float
    fraction: Callable[[np.ndarray], np.ndarray]


def filled_by(
    head: WaitingHead, now: float, escape: float, number: int, basis: np.ndarray, reductions: Mapping[int, ScalarReduction]
) -> list[Drop]:
    """The drops that a head makes, in order, that escapes at ``escape``. ``reductions`` are those of the eigendirections, with tau = 1."""
    if len(head.k) == 1:
        component = _leading(head)
        reduction = reductions[component]

        def fraction(times: np.ndarray) -> np.ndarray:
            return np.asarray(escaping_ratio((escape - times) / reduction.time_unit)[0]) ** 3

        half = escape - reduction.time_unit * float(compiled("68-next", (rho,), part="constant")(HALF))
        return [Drop(component, basis[:, component], number, reduction, half, escape - reduction.time_unit, fraction)]
    return _slots(head, now, escape, number, basis, reductions)


def _leading(head: WaitingHead) -> int:
    """The direction that a head will learn: the fastest growing one of its components."""
    A, B = head.amplitudes
    return int(np.argmax(np.where(A + B > 0, head.frequencies, 0.0)))


def _slots(
    head: WaitingHead, now: float, escape: float, number: int, basis: np.ndarray, reductions: Mapping[int, ScalarReduction]
) -> list[Drop]:
    """The drops of a head of rank above 1, from the amplitudes of its slots far above its start and far below saturation."""
    largest = reductions[_leading(head)].fixed_point
    try:
        waited, grown = head.before_escape(np.sqrt(head.size * largest))
    except ValueError:  # its v is beyond that size
        raise out_of_turn(number) from None
    amplitudes = (grown.k + np.sign(grown.v) * grown.q) / 2
    components: list[int] = []
    starts: list[float] = []
    taken = np.zeros((0, len(head.k)))  # orthonormal directions in the space of slots
    for component in np.argsort(-head.frequencies, kind="stable"):
        rest = amplitudes[:, component] - taken.T @ (taken @ amplitudes[:, component])  # orthogonal to faster modes
        size = float(np.linalg.norm(rest))
        if head.frequencies[component] > 0 and size > ABSENT * np.linalg.norm(amplitudes) and len(taken) < len(head.k):
            taken = np.vstack([taken, rest / size])
            components.append(int(component))
            starts.append(size)
    return _fill((now, now + waited, escape), float(abs(grown.v)), np.array(starts), components, number, basis, reductions)


def out_of_turn(head: int) -> ValueError:
    """The error for a head of rank above 1, counted from 0, that learns while another fills its slots."""
    reason = "no bound holds for heads that learn together, as the theory lets one fill all its slots before the next leaves"
    return ValueError(
        f"weights of rank above 1 must be smaller: head {head + 1} learns before the heads ahead of it are done, and {reason}"
    )


def _fill(
    moments_of_time: tuple[float, float, float],
    v_start: float,
    x_start: np.ndarray,
    components: list[int],
    number: int,
    basis: np.ndarray,
    reductions: Mapping[int, ScalarReduction],
) -> list[Drop]:
    """Integrate the aligned head of one slot for each of ``components`` from amplitudes x_start until it rests."""
    now, start, escape = moments_of_time
    chosen = [reductions[d] for d in components]
    eigenvalues = np.array([reduction.eigenvalue for reduction in chosen])
    moments = np.array([reduction.second_moment for reduction in chosen])
    n, levels = len(chosen), eigenvalues / moments
    rates = compiled("T3-slots", (v, x, lambda_, a), part=("slot", "value"))

    def field(_t: float, state: np.ndarray) -> np.ndarray:
        weight, slots = state[0], np.exp(np.minimum(state[1 : n + 1], 50.0))  # a trial step may go far beyond
        slot_rates, v_parts = rates(weight, slots, eigenvalues, moments)
        return np.concatenate([[np.sum(v_parts)], slot_rates / slots, v_parts / (eigenvalues * slots) ** 2])

    def unsettled(_t: float, state: np.ndarray) -> float:
        return float(np.max(np.abs(1 - state[0] * np.exp(2 * state[1 : n + 1]) / levels))) - SETTLED

    unsettled.terminal = True  # type: ignore[attr-defined]
    longest = 1e3 * np.sum((30 - np.log(x_start)) / (v_start * eigenvalues**2))
    solution = solve_ivp(
        field, (0, longest), np.concatenate([[v_start], np.log(x_start), np.zeros(n)]), method="LSODA", rtol=1e-9, atol=1e-12,
        dense_output=True, events=unsettled,
    )  # fmt: skip
    if not solution.success or not len(solution.t_events[0]):
        raise ArithmeticError(f"a head of {n} slots did not settle by {solution.t[-1]:.6g}: {solution.message}")
    drops = []
    for j, component in enumerate(components):
        power = 1 + 2 * (chosen[j].eigenvalue / chosen[0].eigenvalue) ** 2  # of v in v x_d^2, before saturation

        def fraction(times: np.ndarray | float, j: int = j, power: float = power) -> np.ndarray:
            times = np.asarray(times, dtype=float)
            state = solution.sol(np.clip(times - start, 0, solution.t[-1]))
            before = ((escape - start) / (escape - np.minimum(times, start))) ** power  # v is 1/(lambda^2 (escape - t)) there
            return state[0] * np.exp(2 * state[1 + j]) / levels[j] * before

        if fraction(now) >= 0.5:
            raise out_of_turn(number)
        half: Any = brentq(lambda t, f=fraction: float(f(start + t)) - 0.5, now - start, solution.t[-1])
        switch = start + float(solution.y[1 + n + j, -1])
        drops.append(Drop(component, basis[:, component], number, chosen[j], start + half, switch, fraction))
    return drops
