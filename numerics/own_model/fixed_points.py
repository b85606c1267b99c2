r"""Fixed points of a ``Model`` on a task: all of them where theory knows all, else those that a search finds.

A loss that is quadratic in the effective map B(W) is :math:`|B' - A'|^2` in whitened coordinates, so that for a few shapes of B every
fixed point is known as a function: a free map (the minimum alone), maps :math:`\sum_i v_i U_i` (zero and the minimum, (14)), and
products of two or more matrices, or :math:`\sum_i v_i K_i Q_i`, whose maps are those of the sets S of at most as many directions as the
narrowest matrix passes (23), (83).

>>> from iclflow.numerics.tasks.regression import RegressionTask
>>> from iclflow.theory.model import Model
>>> from iclflow.theory.notation import D, beta, matrix, x_q
>>> K, Q = matrix("K", 1, D), matrix("Q", 1, D)
>>> found = fixed_points(Model(beta.T * K.T * Q * x_q, (K, Q)), RegressionTask(eigenvalues=[0.5, 0.25], context_length=8))
>>> found.complete, [(point.directions, round(point.loss, 4), point.index) for point in found.points]
(True, [((), 0.75, 2), ((1,), 0.5833, 1), ((0,), 0.369, 0)])
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.optimize import least_squares

from ...theory.model import Model
from ...theory.notation import D, N
from .._checks import generator, positive_integer, positive_number
from ..compilation.expressions import compile_expression
from ..landscape.fixed_points import AtRest, has_equal_eigenvalues
from ..tasks.regression import RegressionTask
from .loss import ModelLoss, model_loss, require_model

AT_REST = 1e-9  # the largest velocity of a root, over that of unit weights or 1
MOST = 4096  # sets of directions that are listed


@dataclass(frozen=True, eq=False)
class ModelFixedPoint(AtRest):
    """Weights at rest. ``directions`` is the set S of ``task.modes`` that they have learned, None where the theory has no sets;
    ``found`` counts the starts of a search that ended at this loss and spectrum."""

    objective: ModelLoss
    flat: Float[np.ndarray, " P"]
    directions: tuple[int, ...] | None = None
    found: int = 0
    zero = 1e-7  # the Hessian is a difference of velocities

    @property
    def weights(self) -> Mapping[Any, np.ndarray]:
        """Each weight by its symbol."""
        return dict(zip(self.objective.model.weights, self.objective.split(self.flat), strict=True))

    @cached_property
    def loss(self) -> float:
        return self.objective.value(self.flat)

    @cached_property
    def residual(self) -> float:
        """The largest velocity tau dW/dt there: zero up to rounding."""
        return float(np.abs(self.objective.velocity(self.flat)).max())

    @cached_property
    def spectrum(self) -> Float[np.ndarray, " P"]:
        """The eigenvalues of the Hessian of L/2, ascending."""
        return np.linalg.eigvalsh(_hessian(self.objective, self.flat))


@dataclass(frozen=True, eq=False)
class FixedPoints:
    """Fixed points of a model on a task, the largest loss first.

    ``complete``: every fixed point computes one of these functions, or lies in a connected set of weights that does. ``reason`` says why
    they are all, or how they were searched for: ``converged`` of ``starts`` random starts.
    """

    points: tuple[ModelFixedPoint, ...]
    complete: bool
    reason: str
    starts: int = 0
    converged: int = 0

    def __iter__(self) -> Iterator[ModelFixedPoint]:
        return iter(self.points)

    def __len__(self) -> int:
        return len(self.points)


def fixed_points(
    model: Model,
    task: RegressionTask,
    *,
    constants: Mapping[Any, object] | None = None,
    starts: int = 30,
    scale: float = 1.0,
    rng: np.random.Generator | None = None,
) -> FixedPoints:
    """The fixed points of ``model`` on ``task``, one in weights for each function that they compute.

    Where the loss is quadratic in the effective map and its shape is one that theory knows, and the drops are distinct, the list is
    complete. Elsewhere it holds what least squares on the velocity finds from ``starts`` Gaussian weights, of scale ``scale``, a
    third of it and three times it in turn, drawn by ``rng``, by default one of seed 0; roots of one loss and spectrum are listed once.

    Raises ``ValueError`` or ``TypeError`` for bad arguments, for weights whose sizes are neither D nor numbers, and for more than 4,096
    sets of directions.
    """
    starts, scale = positive_integer("starts", starts), positive_number("scale", scale)
    rng = np.random.default_rng(0) if rng is None else generator("rng", rng)
    require_model(model, task)
    zeros = {weight: np.zeros(_shape(weight, task)) for weight in model.weights}
    loss, flat = model_loss(model, task, weights=zeros, constants=constants)
    known = _known(loss)
    if known is not None:
        points, reason = known
        return FixedPoints(tuple(sorted(points, key=lambda point: -point.loss)), True, reason)
    return _searched(loss, flat.size, starts, scale, rng)


def levels(model: Model, task: RegressionTask, **options: Any) -> Float[np.ndarray, " n"]:
    """The losses of the fixed points, the largest first, each once; ``options`` as for :func:`fixed_points`."""
    losses = np.array([point.loss for point in fixed_points(model, task, **options)])
    apart = np.diff(losses, prepend=np.inf) < -1e-9 * max(np.abs(losses).max(initial=0.0), 1e-300)
    return losses[apart]


def _shape(weight: Any, task: RegressionTask) -> tuple[int, ...]:
    sizes = tuple(size.subs({D: task.dimension, N: task.context_length}) for size in getattr(weight, "shape", ()))
    if not all(size.is_Integer for size in sizes):
        raise ValueError(f"model must have weights of sizes D or numbers for its fixed points, got {weight} of shape {weight.shape}")
    return tuple(map(int, sizes))


def _hessian(loss: ModelLoss, flat: np.ndarray) -> np.ndarray:
    """The Hessian of L/2 by differences of the velocity, exact up to rounding for losses of degree six or less."""
    step = 1e-2 * max(1.0, float(np.abs(flat).max()))
    columns = []
    for unit in step * np.eye(flat.size):
        near, middle, far = (loss.velocity(flat - k * unit) - loss.velocity(flat + k * unit) for k in (1, 2, 3))
        columns.append((45 * near - 9 * middle + far) / (60 * step))
    hessian = np.array(columns)
    return (hessian + hessian.T) / 2


# The shapes of the effective map whose fixed points are all known


class _Chain(NamedTuple):
    """One term of B(W): a number times scalar weights and matrix weights, each flagged if it is transposed."""

    number: float
    scalars: tuple[Any, ...]
    matrices: tuple[tuple[Any, bool], ...]

    def widths(self, task: RegressionTask) -> list[int]:
        """The sizes between neighbouring matrices."""
        return [_shape(weight, task)[0 if transposed else 1] for weight, transposed in self.matrices[:-1]]


def _known(loss: ModelLoss) -> tuple[list[ModelFixedPoint], str] | None:
    """All fixed functions and the reason, for a shape of B that theory knows."""
    terms, task = loss.model.map_terms, loss.task
    if terms is None or any(coefficient.free_symbols - loss.fixed.keys() for coefficient, *_ in terms):
        return None
    values = [compile_expression(coefficient, tuple(loss.fixed))(*loss.fixed.values()) for coefficient, *_ in terms]
    chains = [_Chain(float(value), scalars, matrices) for value, (_, scalars, matrices) in zip(values, terms, strict=True)]
    kinds = {(len(chain.scalars), len(chain.matrices)) for chain in chains}
    best = task.modes.effective_map()
    if (0, 1) in kinds:
        free = next(chain for chain in chains if not chain.scalars and len(chain.matrices) == 1)
        return [_point(loss, {free: [best]}, None)], "a term of the map is a free matrix, so that the force must vanish"
    if all(count == 1 for _, count in kinds):
        return [_point(loss, {}, ()), _point(loss, {chains[0]: [best]}, None)], "value times matrix: zero or the minimum, as in (14)"
    if has_equal_eigenvalues(task):
        return None
    two = kinds <= {(0, 2)} or kinds <= {(1, 2)}
    if not (two or (len(chains) == 1 and not chains[0].scalars)):
        return None
    slots = [chain for chain in chains for _ in range(min(chain.widths(task)))]
    most = min(task.rank, len(slots))
    sets = [S for m in range(most + 1) for S in combinations(task.modes.learnable, m)]
    if len(sets) > MOST:
        raise ValueError(f"task must have at most {MOST} sets of directions for its fixed points to be listed, got {len(sets)}")
    return [_of_set(loss, slots, S) for S in sets], f"the sets of at most {most} directions, as in (23) and (83)"


def _of_set(loss: ModelLoss, slots: list[_Chain], directions: tuple[int, ...]) -> ModelFixedPoint:
    """The fixed point that has learned S: the slots of each term are filled one after the other, largest level first."""
    modes = loss.task.modes
    filled: dict[_Chain, list[int]] = {}
    for chain, d in zip(slots, sorted(directions, key=lambda d: -modes.levels[d]), strict=False):
        filled.setdefault(chain, []).append(d)
    maps = {chain: [modes.levels[d] * np.outer(modes.keys[:, d], modes.queries[:, d]) for d in ds] for chain, ds in filled.items()}
    return _point(loss, maps, directions)


def _point(loss: ModelLoss, maps: dict[_Chain, list[np.ndarray]], directions: tuple[int, ...] | None) -> ModelFixedPoint:
    """Weights in which each term makes the sum of its maps, balanced between its factors, and all other terms are zero."""
    task = loss.task
    values: dict[Any, np.ndarray] = {weight: np.zeros(_shape(weight, loss.task)) for weight in loss.model.weights}
    for chain, parts in maps.items():
        whole = np.sum(parts, axis=0) / chain.number
        left, sizes, right = np.linalg.svd(whole)
        if len(chain.matrices) == 1:
            size = np.linalg.norm(whole) ** (1 / (len(chain.scalars) + 1)) if chain.scalars else 1.0
            matrices, scalar = [whole / size ** len(chain.scalars)], float(size)
        else:
            m, count = len(parts), len(chain.matrices)
            scalar = float(sizes[:m].sum()) ** (1 / 3) if chain.scalars else 1.0
            roots = (sizes[:m] / scalar) ** (1 / count)
            inner = [np.diag(roots)] * (count - 2)
            matrices = [left[:, :m] * roots, *inner, roots[:, None] * right[:m]]
        for weight in chain.scalars:
            values[weight] = np.array(scalar)
        for (weight, transposed), matrix in zip(chain.matrices, matrices, strict=True):
            place = values[weight].T if transposed else values[weight]
            place[: matrix.shape[0], : matrix.shape[1]] = matrix
    flat = np.concatenate([np.ravel(values[weight]) for weight in loss.model.weights])
    point = ModelFixedPoint(loss, flat, directions)
    if point.residual > 1e-8 * max(1.0, float(np.abs(task.loss_moments.A).max())):
        raise RuntimeError(f"the fixed point {directions} of {loss.model.prediction} moves by {point.residual:.1e}")
    return point


# Search


def _searched(loss: ModelLoss, size: int, starts: int, scale: float, rng: np.random.Generator) -> FixedPoints:
    unit = max(1.0, float(np.abs(loss.velocity(np.full(size, scale))).max()))
    groups: list[list[ModelFixedPoint]] = []
    converged = 0
    for number in range(starts):
        start = rng.standard_normal(size) * scale * 3.0 ** (number % 3 - 1)
        with np.errstate(all="ignore"):
            root = least_squares(loss.velocity, start, method="lm", xtol=1e-12, ftol=1e-12, gtol=1e-12, max_nfev=40 * size).x
            for _ in range(2):  # its differences are one-sided: two steps of Newton's method reach the rounding
                root = root + np.linalg.lstsq(_hessian(loss, root), loss.velocity(root), rcond=1e-7)[0]
        point = ModelFixedPoint(loss, root)
        if not (np.isfinite(root).all() and point.residual <= AT_REST * unit):
            continue
        converged += 1
        near = 1e-7 * max(abs(point.loss), 1e-3)  # of one loss and index: copies under a symmetry, or points of one connected set
        same = next((one for one in groups if abs(one[0].loss - point.loss) <= near and one[0].index == point.index), None)
        groups.append([point]) if same is None else same.append(point)
    points = [ModelFixedPoint(loss, min((p.flat for p in group), key=lambda x: float(x @ x)), None, len(group)) for group in groups]
    reason = f"searched: {converged} of {starts} random starts came to rest at {len(points)} different ones; there may be others"
    return FixedPoints(tuple(sorted(points, key=lambda point: -point.loss)), False, reason, starts, converged)
