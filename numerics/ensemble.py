r"""Full-batch gradient descent of many runs at once, on sample moments, with all blocks of the weights trained.

With :math:`\nu_i = (\mathbf v_i, v_i)` and :math:`W_i = (U_i; u_i^\top)`, or :math:`W_i = \sum_r \tilde k_{i,r}
q_{i,r}^\top` with :math:`\tilde k_{i,r} = (k_{i,r}, k_{i,r,D+1})`, equation (7), the effective map is :math:`B_{abc} =
\sum_i \nu_{i,a} W_{i,bc}` and one step of size :math:`\eta` on the mean squared error L is

.. math:: W \leftarrow W - \eta\, \partial L/\partial W, \qquad
          -\tfrac12\, \partial L/\partial B_{abc} = G_{abc} = E[(y - \hat y)\phi_{abc}],

that is 2 eta in units of t/tau of equation (10). Arrays carry two leading axes: S samples (one training set each) and J
runs on each sample, so that a step of all runs costs a few matrix products. Runs of different rank share an array,
their missing ranks zero: a key and query that both start at zero stay there exactly.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from ._checks import finite_array, positive_integer, positive_number
from .moments import SampleMoments

Weights = tuple[np.ndarray, ...]  # (value, kernel), merged; (value, key, query), separate

BLOCK = 64  # steps between two evaluations of the loss, and between two snapshots of the weights


@dataclass(frozen=True, eq=False)
class Ensemble:
    """The vector field of full-batch training on each of ``moments``, all of the unreduced feature and the same D."""

    moments: tuple[SampleMoments, ...]

    def __init__(self, moments: Sequence[SampleMoments]) -> None:
        if not moments or any(m.index.ndim != 3 or m.index.shape != moments[0].index.shape for m in moments):
            raise ValueError("moments must be one or more moments of the unreduced feature, all of the same dimension")
        object.__setattr__(self, "moments", tuple(moments))

    @cached_property
    def _pairs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For each pair a <= b where ab and ba lie among the (D+1)^2 pairs, and for each of those its pair a <= b."""
        width, _, D = self.moments[0].index.shape
        a, b = np.triu_indices(width)
        return a * width + b, b * width + a, self.moments[0].index[:, :, 0].ravel() // D

    @cached_property
    def _linear(self) -> Float[np.ndarray, "S one F"]:
        return np.stack([m.linear for m in self.moments])[:, None]

    @cached_property
    def _half_quadratic(self) -> Float[np.ndarray, "S F F"]:
        """E(phi phi') with the rows of the diagonal a = b halved: ``features`` counts those twice."""
        return np.stack([m.quadratic for m in self.moments]) * self._halves[:, None]

    @cached_property
    def _halves(self) -> Float[np.ndarray, " F"]:
        first, second, _ = self._pairs
        return np.repeat(np.where(first == second, 0.5, 1.0), self.moments[0].index.shape[2])

    def features(self, weights: Weights) -> Float[np.ndarray, "S J F"]:
        """B_abc + B_bac for a <= b."""
        return self._features(weights[0], _kernel(weights))

    def _features(self, value: np.ndarray, kernel: np.ndarray) -> np.ndarray:
        S, J, _, width = value.shape
        B = (value.swapaxes(2, 3) @ kernel).reshape(S, J, width * width, width - 1)
        first, second, _ = self._pairs
        both = B.take(first, 2)
        both += B.take(second, 2)
        return both.reshape(S, J, -1)

    def velocity(self, weights: Weights) -> tuple[Float[np.ndarray, "S J F"], Weights]:
        """``features``, and -1/2 dL/dW for each array of the weights."""
        value = weights[0]
        S, J, H, width = value.shape
        kernel = _kernel(weights)
        features = self._features(value, kernel)
        force = self._linear - features @ self._half_quadratic
        G = force.reshape(S, J, -1, width - 1).take(self._pairs[2], 2).reshape(S, J, width, -1)
        d_value, d_kernel = kernel @ G.swapaxes(2, 3), value @ G
        if len(weights) == 2:
            return features, (d_value, d_kernel.reshape(weights[1].shape))
        _, key, query = weights
        d_kernel = d_kernel.reshape(S, J, H, width, width - 1)
        return features, (d_value, query @ d_kernel.swapaxes(3, 4), key @ d_kernel)

    def losses(
        self, features: Float[np.ndarray, "T S J F"], moments: Sequence[SampleMoments] | None = None
    ) -> Float[np.ndarray, "T S J"]:
        """The mean squared error on ``moments`` (default: the training sets) at recorded ``features``."""
        b = features * self._halves
        out = np.empty(b.shape[:-1])
        for s, m in enumerate(self.moments if moments is None else moments):
            out[:, s] = m.constant + ((b[:, s] @ m.quadratic - 2 * m.linear) * b[:, s]).sum(-1)
        return out

    def descend(
        self,
        weights: Weights,
        learning_rate: float | Float[np.ndarray, "S J"],
        steps: int,
        *,
        float32_runs: slice | None = None,
        block: int = BLOCK,
    ) -> Iterator[tuple[Float[np.ndarray, "T S J F"], Weights]]:
        """Blocks of up to ``block`` steps: the features BEFORE each step, and the weights before the block's first.

        ``learning_rate`` is one for all runs, or one for each. ``float32_runs`` marks runs whose weights are rounded to
        float32 after each step. Raises ``ValueError`` for weights that do not agree in shape with each other or with
        the moments, and ``FloatingPointError`` when a run overflows.
        """
        checked, steps = self._checked(weights), positive_integer("steps", steps)
        if np.ndim(learning_rate) == 0:
            rates = tuple(2 * positive_number("learning_rate", learning_rate) for _ in checked)
        else:
            per_run = finite_array("learning_rate", learning_rate, checked[0].shape[:2])
            if not (per_run > 0).all():
                raise ValueError(f"learning_rate must be positive, got {learning_rate!r}")
            rates = tuple(2 * per_run.reshape(*per_run.shape, *[1] * (array.ndim - 2)) for array in checked)
        return self._descend(checked, rates, steps, float32_runs, positive_integer("block", block))

    def _descend(
        self, weights: Weights, rates: tuple, steps: int, float32_runs: slice | None, block: int
    ) -> Iterator[tuple[np.ndarray, Weights]]:
        for start in range(0, steps, block):
            before = tuple(array.copy() for array in weights)
            record = []
            with np.errstate(over="ignore", invalid="ignore"):  # reported below, with the step
                for _ in range(min(block, steps - start)):
                    features, velocity = self.velocity(weights)
                    record.append(features)
                    for array, change, rate in zip(weights, velocity, rates, strict=True):
                        change *= rate
                        array += change
                    if float32_runs is not None:
                        for array in weights:
                            array[:, float32_runs] = array[:, float32_runs].astype(np.float32)
            features = np.stack(record)
            if not np.isfinite(features).all():
                lost = start + int(np.argmin(np.isfinite(features).all(axis=(1, 2, 3))))
                raise FloatingPointError(
                    f"gradient descent overflows at step {lost}: learning_rate={np.max(rates[0]) / 2} is too long"
                )
            yield features, before

    def sharpness(self, weights: Weights, *, iterations: int = 30) -> Float[np.ndarray, "S J"]:
        """A lower bound on the largest eigenvalue of the Hessian of L, tight as ``iterations`` of the power method
        grow.

        A Rayleigh quotient never exceeds the largest eigenvalue, so a value above 2/eta proves that the step eta is
        past the edge of stability. Hessian times direction is the central difference of the gradient, exact to 1e-9.
        """
        weights = self._checked(weights)
        rng = np.random.default_rng(0)  # a fixed start: the result must not depend on the caller's generator
        direction = tuple(rng.standard_normal(array.shape) for array in weights)
        size = np.maximum(1.0, _norm(weights))
        quotient = np.zeros(size.shape)
        for _ in range(iterations):
            direction = _scaled(direction, 1 / np.maximum(_norm(direction), np.finfo(float).tiny))
            nudge = _scaled(direction, 1e-5 * size)
            ahead = self.velocity(tuple(a + d for a, d in zip(weights, nudge, strict=True)))[1]
            behind = self.velocity(tuple(a - d for a, d in zip(weights, nudge, strict=True)))[1]
            product = tuple(b - a for a, b in zip(ahead, behind, strict=True))
            product = _scaled(product, 1e5 / size)
            quotient = _inner(direction, product)
            direction = product
        return quotient

    def _checked(self, weights: Weights) -> Weights:
        """Float64 copies of ``weights`` with the (D+1) x D axes of a merged kernel flattened."""
        width, _, D = self.moments[0].index.shape
        arrays = tuple(np.array(array, dtype=np.float64) for array in weights)
        value = arrays[0]
        lead = (len(self.moments), *value.shape[1:3])
        if value.shape != (*lead, width):
            raise ValueError(f"value must have shape (S, J, H, D+1) with S={lead[0]}, D={D}, got {value.shape}")
        if len(arrays) == 2:
            wanted = {"kernel": (arrays[1], (*lead, width * D))}
        elif len(arrays) == 3:
            R = arrays[1].shape[3:4]
            wanted = {"key": (arrays[1], (*lead, *R, width)), "query": (arrays[2], (*lead, *R, D))}
        else:
            raise ValueError(f"weights must be (value, kernel) or (value, key, query), got {len(arrays)} arrays")
        for name, (array, shape) in wanted.items():
            if array.shape != shape:
                raise ValueError(f"{name} must have shape {shape}, got {array.shape}")
        return arrays


def _kernel(weights: Weights) -> Float[np.ndarray, "S J H n"]:
    """W_i, its two axes flattened."""
    if len(weights) == 2:
        return weights[1]
    value, key, query = weights
    return (key.swapaxes(3, 4) @ query).reshape(*value.shape[:3], -1)


def _inner(left: Weights, right: Weights) -> Float[np.ndarray, "S J"]:
    return np.sum([(a * b).reshape(*a.shape[:2], -1).sum(-1) for a, b in zip(left, right, strict=True)], axis=0)


def _norm(weights: Weights) -> Float[np.ndarray, "S J"]:
    return np.sqrt(_inner(weights, weights))


def _scaled(weights: Weights, factor: Float[np.ndarray, "S J"]) -> Weights:
    return tuple(array * factor.reshape(*factor.shape, *[1] * (array.ndim - 2)) for array in weights)
