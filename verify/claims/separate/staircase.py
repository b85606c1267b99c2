"""Claims about the staircase of separate attention: plateaus, drops, alignment, units of time, conservation."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache

import numpy as np
from scipy.linalg import expm

from ....numerics import Plateaus, gradient_flow
from ...experiments.setting import Setting
from ...experiments.staircase import DEFAULT, SMALL, final_weights, flow, plateaus, random_start, random_starts
from ...experiments.varied_tasks import against
from .. import formulas
from ..book import claim, wrong
from ..tolerances import ALIGNMENT, CONVERGED, COUNT, DROP_TIME, PLATEAU


def small_starts() -> tuple[Setting, ...]:
    """Gaussian starts of scale 0.01, integrated until all is learned: 100 of 100 that were tried show all five plateaus by then."""
    return random_starts(replace(SMALL, duration=10 * SMALL.duration))


def over_starts(residual: Callable[[Setting], float], starts: Iterable[Setting] | None = None) -> float:
    """The median of a residual over random starts: heads that drop together blur a plateau in one start of fifty."""
    return float(np.median([residual(setting) for setting in starts or small_starts()]))


@cache
def flow_plateaus(setting: Setting, rtol: float = 1e-8) -> Plateaus:
    """The plateaus of the flow."""
    return plateaus(flow(setting, rtol))


@claim("24", method="flow", tolerance=PLATEAU, theory=formulas.plateau_losses)
@wrong("N + 1 for N", formulas.longer_context)
@wrong("drops of exactly lambda_m", formulas.infinite_context)
def plateau_losses_flow(losses) -> float:
    """The loss on the five plateaus of the flow, in the median of eight random starts of scale 0.01."""
    return over_starts(lambda setting: against(flow_plateaus(setting).levels, losses(setting.task)))


@claim("24", method="flow", tolerance=CONVERGED, theory=formulas.plateau_losses)
@wrong("N + 1 for N", formulas.longer_context)
def final_loss_flow(losses) -> float:
    """The loss at the end of the flow from eight random starts, all components learned."""
    return max(abs(flow(setting).loss[-1] / losses(setting.task)[-1] - 1) for setting in small_starts())


def _middle_maps(setting: Setting) -> np.ndarray:
    """The effective map in the middle of each plateau, all five if they show."""
    run, found = flow(setting), flow_plateaus(setting)
    return run.effective_map_at((found.starts + found.ends) / 2)


@claim("23", method="flow", tolerance=PLATEAU, theory=formulas.saddle_map)
@wrong("1/lambda without its factor", formulas.infinite_context)
@wrong("one component too many", lambda task, m: formulas.saddle_map(task, min(m + 1, 4)))
def plateau_maps_flow(saddle_map) -> float:
    """The effective map in the middle of each plateau against the m leading components, in the median of eight random starts."""

    def worst(setting: Setting) -> float:
        maps, scale = _middle_maps(setting), np.abs(formulas.saddle_map(setting.task, 4)).max()
        return float(max(np.abs(B - saddle_map(setting.task, m)).max() for m, B in enumerate(maps)) / scale)

    return over_starts(worst)


@claim("25", method="flow", tolerance=PLATEAU, theory=formulas.learned_value_weights)
@wrong("no 1/N", formulas.infinite_context)
def learned_value_weights_flow(value_weights) -> float:
    """The value weights learned from Gaussian initial weights, one head a component."""

    def worst(setting: Setting) -> float:
        v = np.sort(np.abs(flow(setting).arrays["v"][-1]))[::-1]
        return float(np.abs(v[:4] / np.sort(value_weights(setting.task))[::-1] - 1).max())

    return over_starts(worst)


TURNED = expm(np.radians(20) * (np.diag([1, 0, 0], -1) - np.diag([1, 0, 0], 1)))  # the first two axes


@claim("Sec. 4.3", method="flow", tolerance=ALIGNMENT, theory=lambda task: task.eigenvectors)
@wrong("axes turned by 20 degrees", lambda task: TURNED @ task.eigenvectors)
def learned_keys_align(eigenvectors) -> float:
    """How far the cosine between a learned key and an eigenvector falls short of one, in the median of four keys and eight starts."""

    def middle(setting: Setting) -> float:
        w = final_weights(flow(setting))
        learned = np.argsort(-np.abs(w["v"]))[:4]
        k = w["k"][learned, 0] / np.linalg.norm(w["k"][learned, 0], axis=1, keepdims=True)
        return float(1 - np.median(np.abs(k @ eigenvectors(setting.task)).max(axis=1)))

    return over_starts(middle)


@claim("Sec. 4.3", method="flow", tolerance=COUNT, theory=lambda task: np.argsort(-task.eigenvalues))
@wrong("smallest first", lambda task: np.argsort(task.eigenvalues))
def order_of_learning(order) -> float:
    """The components are learned in the order of their eigenvalues: position of each drop, in the median of eight random starts."""

    def worst(setting: Setting) -> float:
        diagonal = np.diagonal(_middle_maps(setting), axis1=1, axis2=2) / np.diag(formulas.saddle_map(setting.task, 4))
        gained = np.argmax(np.diff(diagonal, axis=0), axis=1)
        return float(np.abs(gained - order(setting.task)).max())

    return over_starts(worst)


# Units of time and conservation


@claim("10", method="flow", tolerance=DROP_TIME, theory=lambda tau: tau)
@wrong("square root of tau", lambda tau: np.sqrt(tau))
def drop_times_scale_with_tau(unit) -> float:
    """The drop times scale with tau: tau of 1e-9 and 1e9."""
    setting = random_start(DEFAULT)
    run, worst = flow(setting), 0.0
    reference = plateaus(run).drops
    for tau in (1e-9, 1e9):
        other = gradient_flow(run.objective, setting.weights, t_end=setting.duration * tau, tau=tau)
        worst = max(worst, np.abs(plateaus(other).drops / (unit(tau) * reference) - 1).max())
    return float(worst)


@claim("10", method="flow", tolerance=DROP_TIME, theory=1e-10)
@wrong("a tolerance of 0.05", 5e-2)
def drop_times_converge(rtol) -> float:
    """The drop times when the solver's tolerance is tightened a hundredfold."""
    setting = random_start(DEFAULT)
    return float(np.abs(plateaus(flow(setting, rtol)).drops / flow_plateaus(setting).drops - 1).max())


@claim("79", method="flow", theory=lambda v, k, q: np.concatenate([_squares(k) - _squares(q), _squares(k) - v**2], axis=-1))
@wrong("2 v^2 for v^2", lambda v, k, q: _squares(k) - 2 * v**2)
def conservation_along_the_flow(conserved) -> float:
    """k'k - q'q and k'k - v^2 along the whole staircase."""
    values = conserved(*(flow(random_start(DEFAULT)).arrays[name] for name in ("v", "k", "q")))
    return float(np.abs(values - values[0]).max())


def _squares(k: np.ndarray) -> np.ndarray:
    return np.einsum("...hrd,...hrd->...h", k, k)
