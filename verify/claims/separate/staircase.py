"""Claims about the staircase of separate attention: plateaus, drops, alignment, units of time, conservation."""

import numpy as np

from ....numerics.dynamics.flow import gradient_flow
from ....numerics.dynamics.trajectory import Trajectory
from ...experiments.staircase import DEFAULT, SMALL, final_weights, flow, plateaus
from .. import formulas
from ..book import claim
from ..tolerances import ALIGNMENT, CONVERGED, COUNT, DROP_TIME, PLATEAU


@claim(
    "24",
    "the loss on the five plateaus of the flow from weights of scale 0.01",
    method="flow",
    tolerance=PLATEAU,
    theory=formulas.plateau_losses,
    wrong={
        "N + 1 for N": formulas.longer_context(formulas.plateau_losses),
        "drops of exactly lambda_m": formulas.infinite_context(formulas.plateau_losses),
    },
)
def plateau_losses_flow(losses) -> float:
    levels, expected = plateaus(flow(SMALL)).levels, losses(SMALL.task)
    if len(levels) != len(expected):
        raise ArithmeticError(f"the flow has {len(levels)} plateaus, theory has {len(expected)}")
    return float(np.abs(levels / expected - 1).max())


@claim(
    "24",
    "the loss at the end of the flow, all components learned",
    method="flow",
    tolerance=CONVERGED,
    theory=formulas.plateau_losses,
    wrong={"N + 1 for N": formulas.longer_context(formulas.plateau_losses)},
)
def final_loss_flow(losses) -> float:
    return abs(flow().loss[-1] / losses(DEFAULT.task)[-1] - 1)


def _middles(trajectory: Trajectory) -> np.ndarray:
    found = plateaus(trajectory)
    return (found.starts + found.ends) / 2


@claim(
    "23",
    "the effective map in the middle of each plateau against the m leading components",
    method="flow",
    tolerance=PLATEAU,
    theory=formulas.saddle_map,
    wrong={
        "1/lambda without its factor": formulas.infinite_context(formulas.saddle_map),
        "one component too many": lambda task, m: formulas.saddle_map(task, min(m + 1, 4)),
    },
)
def plateau_maps_flow(saddle_map) -> float:
    maps = flow(SMALL).effective_map_at(_middles(flow(SMALL)))
    scale = np.abs(formulas.saddle_map(SMALL.task, 4)).max()
    return float(max(np.abs(B - saddle_map(SMALL.task, m)).max() for m, B in enumerate(maps)) / scale)


@claim(
    "25",
    "the value weights learned from Gaussian initial weights, one head a component",
    method="flow",
    tolerance=PLATEAU,
    theory=formulas.learned_value_weights,
    wrong={"no 1/N": formulas.infinite_context(formulas.learned_value_weights)},
)
def learned_value_weights_flow(value_weights) -> float:
    v = np.sort(np.abs(flow(SMALL).arrays["v"][-1]))[::-1]
    expected = np.sort(value_weights(SMALL.task))[::-1]
    return float(np.abs(v[:4] / expected - 1).max())


@claim(
    "Sec. 4.3",
    "how far the cosine between a learned key and its eigenvector falls short of one",
    method="flow",
    tolerance=ALIGNMENT,
    theory=lambda task: task.eigenvectors,
    wrong={"axes turned by 20 degrees": lambda task: _turn(20) @ task.eigenvectors},
)
def learned_keys_align(eigenvectors) -> float:
    w = final_weights(flow(SMALL))
    learned = np.argsort(-np.abs(w["v"]))[:4]
    k = w["k"][learned, 0] / np.linalg.norm(w["k"][learned, 0], axis=1, keepdims=True)
    cosines = np.abs(k @ eigenvectors(SMALL.task)).max(axis=1)
    return float(1 - cosines.min())


def _turn(degrees: float) -> np.ndarray:
    c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    turn = np.eye(4)
    turn[:2, :2] = [[c, -s], [s, c]]
    return turn


@claim(
    "Sec. 4.3",
    "the components are learned in the order of their eigenvalues: position of each drop",
    method="flow",
    tolerance=COUNT,
    theory=lambda task: np.argsort(-task.eigenvalues),
    wrong={"smallest first": lambda task: np.argsort(task.eigenvalues)},
)
def order_of_learning(order) -> float:
    maps = flow(SMALL).effective_map_at(_middles(flow(SMALL)))
    diagonal = np.diagonal(maps, axis1=1, axis2=2) / np.diag(formulas.saddle_map(SMALL.task, 4))
    gained = np.argmax(np.diff(diagonal, axis=0), axis=1)
    return float(np.abs(gained - order(SMALL.task)).max())


# Units of time and conservation


@claim(
    "10",
    "the four drop times scale with tau: tau of 1e-9 and 1e9",
    method="flow",
    tolerance=DROP_TIME,
    theory=lambda tau: tau,
    wrong={"square root of tau": lambda tau: np.sqrt(tau)},
)
def drop_times_scale_with_tau(unit) -> float:
    reference = plateaus(flow()).drops
    worst = 0.0
    for tau in (1e-9, 1e9):
        run = gradient_flow(flow().objective, DEFAULT.weights, t_end=DEFAULT.duration * tau, tau=tau)
        worst = max(worst, np.abs(plateaus(run).drops / (unit(tau) * reference) - 1).max())
    return float(worst)


@claim(
    "10",
    "the four drop times when the solver's tolerance is tightened a hundredfold",
    method="flow",
    tolerance=DROP_TIME,
    theory=1e-10,
    wrong={"a tolerance of 0.05": 5e-2},
)
def drop_times_converge(rtol) -> float:
    return float(np.abs(plateaus(flow(DEFAULT, rtol)).drops / plateaus(flow()).drops - 1).max())


@claim(
    "79",
    "k'k - q'q and k'k - v^2 along the whole staircase",
    method="flow",
    theory=lambda v, k, q: np.concatenate([_squares(k) - _squares(q), _squares(k) - v**2], axis=-1),
    wrong={"2 v^2 for v^2": lambda v, k, q: _squares(k) - 2 * v**2},
)
def conservation_along_the_flow(conserved) -> float:
    values = conserved(*(flow().arrays[name] for name in ("v", "k", "q")))
    return float(np.abs(values - values[0]).max())


def _squares(k: np.ndarray) -> np.ndarray:
    return np.einsum("...hrd,...hrd->...h", k, k)
