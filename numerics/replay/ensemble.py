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

from .._checks import finite_array, instance, positive_integer, positive_number
from ..dynamics.results import Result, Variable
from ..tasks.sample_moments import SampleMoments

Weights = tuple[np.ndarray, ...]  # (value, key_query), merged; (value, key, query), separate

BLOCK = 64  # steps between two evaluations of the loss, and between two snapshots of the weights
UNTHREADED_VECTOR = 9_000  # multiplications of a matrix-vector product that OpenBLAS does in one thread
UNTHREADED_MATRIX = 250_000  # multiplications of a matrix-matrix product that it does in one thread
WHOLE = 200  # up to this many entries of B a product with all of them is faster than gathering the distinct features


@dataclass(frozen=True, eq=False, repr=False)
class Ensemble(Result):
    """The vector field of full-batch training on each of ``moments``, all of the unreduced feature and the same D.

    Weights are tuples of arrays with the axes of ``FullMergedWeights`` or ``FullSeparateWeights`` after S and J.
    """

    moments: tuple[SampleMoments, ...]
    shown = ("moments",)

    def variables(self) -> dict[str, Variable]:
        return {
            "linear": Variable(("sample", "feature"), [one.linear for one in self.moments], "E(y phi)"),
            "quadratic": Variable(("sample", "feature", "feature_2"), [one.quadratic for one in self.moments], "E(phi phi')"),
            "constant": Variable(("sample",), [one.constant for one in self.moments], "E(y^2)"),
        }

    def __init__(self, moments: Sequence[SampleMoments]) -> None:
        each, kind = instance("moments", moments, Sequence, "a list of SampleMoments"), "SampleMoments of each training set"
        shapes = {instance("moments", one, SampleMoments, kind).index.shape for one in each}
        if len(shapes) != 1 or len(*shapes) != 3:
            raise ValueError("moments must be one or more moments of the unreduced feature, all of the same dimension")
        object.__setattr__(self, "moments", tuple(moments))

    def losses(self, maps: Float[np.ndarray, "T S J n nD"], moments: Sequence[SampleMoments] | None = None) -> Float[np.ndarray, "T S J"]:
        """The mean squared error on ``moments`` (default: the training sets) at recorded effective maps."""
        own, (n, _, D) = self.moments if moments is None else Ensemble(moments).moments, self.moments[0].index.shape
        b = self._fold(finite_array("maps", maps, ("T", len(own), "J", n, n * D))) * self._once
        out = np.empty(b.shape[:-1])
        for s, m in enumerate(own):
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
    ) -> Iterator[tuple[Float[np.ndarray, "T S J n nD"], Weights]]:
        """Blocks of up to ``block`` steps: the effective map BEFORE each step, and the weights before the block's first.

        ``learning_rate`` is one for all runs, or one for each. ``float32_runs`` marks runs whose weights are rounded to
        float32 after each step. Raises ``ValueError`` for weights that do not agree in shape with each other or with
        the moments, and ``FloatingPointError`` when a run overflows.
        """
        arrays, steps = self._checked(weights), positive_integer("steps", steps)
        if not isinstance(learning_rate, Sequence | np.ndarray):
            rate = 2 * positive_number("learning_rate", learning_rate)
        else:
            runs = finite_array("learning_rate", learning_rate, arrays[0].shape[:2]).ravel()
            rate = np.concatenate([np.repeat([2 * positive_number("learning_rate", one) for one in runs], a[0, 0].size) for a in arrays])
        return self._descend(arrays, rate, steps, float32_runs, positive_integer("block", block))

    def _descend(
        self, arrays: Weights, rate: float | np.ndarray, steps: int, float32_runs: slice | None, block: int
    ) -> Iterator[tuple[np.ndarray, Weights]]:
        state, weights = _flat_copy(arrays)  # one addition steps all arrays, which are views of one vector
        change, velocity = _flat_copy(arrays)
        for start in range(0, steps, block):
            _, before = _flat_copy(weights)
            record = []
            with np.errstate(over="ignore", invalid="ignore"):  # reported below, with the step
                for _ in range(min(block, steps - start)):
                    record.append(self._velocity(weights, velocity))
                    change *= rate
                    state += change
                    if float32_runs is not None:
                        for array in weights:
                            array[:, float32_runs] = array[:, float32_runs].astype(np.float32)
            maps = np.stack(record)
            finite = np.isfinite(maps).all(axis=(1, 2, 3, 4))
            if not finite.all():
                step, eta = start + int(np.argmin(finite)), np.max(rate) / 2
                raise FloatingPointError(f"gradient descent overflows at step {step}: learning_rate={eta} is too large")
            yield maps, before

    def _velocity(self, weights: Weights, out: Weights) -> Float[np.ndarray, "S J n nD"]:
        """-1/2 dL/dW into ``out``, and the effective map B, its last two axes flattened."""
        value = weights[0]
        S, J, H, n = value.shape
        if len(weights) == 2:
            W = weights[1].reshape(S, J, H, -1)
        else:
            _, key, query = weights
            W = (key.swapaxes(3, 4) @ query).reshape(S, J, H, -1)
        B = value.swapaxes(2, 3) @ W
        G = self._force(B)
        np.matmul(W, G.swapaxes(2, 3), out=out[0])
        if len(weights) == 2:
            np.matmul(value, G, out=out[1].reshape(S, J, H, -1))
        else:
            d_W = (value @ G).reshape(S, J, H, n, n - 1)
            np.matmul(query, d_W.swapaxes(3, 4), out=out[1])
            np.matmul(key, d_W, out=out[2])
        return B

    def _force(self, B: Float[np.ndarray, "S J n nD"]) -> Float[np.ndarray, "S J n nD"]:
        """G = -1/2 dL/dB."""
        S, J, n, nD = B.shape
        whole = n * nD <= WHOLE
        linear, quadratic = self._columns(whole, J)
        b = (B.reshape(S, J, -1) if whole else self._fold(B))[:, None]
        G = (linear - b @ quadratic).swapaxes(1, 2)  # (S, J, blocks, F / blocks)
        return G.reshape(B.shape) if whole else G.reshape(S, J, -1, n - 1).take(self._pairs[2], 2).reshape(B.shape)

    def _fold(self, B: Float[np.ndarray, "*lead n nD"]) -> Float[np.ndarray, "*lead F"]:
        """B_abc + B_bac for each distinct feature, a <= b."""
        *lead, n, nD = B.shape
        rows = B.reshape(*lead, n * n, nD // n)
        first, second, _ = self._pairs
        both = rows.take(first, -2)
        both += rows.take(second, -2)
        return both.reshape(*lead, -1)

    @cached_property
    def _pairs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The places of ab and of ba among the n^2 pairs, for each pair a <= b; and the number of its pair a <= b, for each place."""
        n, _, D = self.moments[0].index.shape
        a, b = np.triu_indices(n)
        return a * n + b, b * n + a, self.moments[0].index[:, :, 0].ravel() // D

    @cached_property
    def _once(self) -> Float[np.ndarray, " F"]:
        """1/2 for the features with a = b, which ``_fold`` counts twice."""
        first, second, _ = self._pairs
        return np.repeat(np.where(first == second, 0.5, 1.0), self.moments[0].index.shape[2])

    def _columns(self, whole: bool, J: int) -> tuple[np.ndarray, np.ndarray]:
        """E(y phi) and E(phi phi') of all entries of B or of the distinct features, in blocks of columns.

        The blocks are so small that OpenBLAS starts no threads, which would cost more than the product, a hundred times
        more on a busy machine.
        """
        F = self.moments[0].index.size if whole else len(self.moments[0].linear)
        most = UNTHREADED_VECTOR / F if J == 1 else UNTHREADED_MATRIX / (F * J)
        blocks = next((k for k in range(1, F) if F % k == 0 and F / k <= most), F)
        if (whole, blocks) not in self._cache:
            entries, once = (self.moments[0].index.ravel(), np.ones(F)) if whole else (np.arange(F), self._once)
            linear = np.stack([m.linear[entries] for m in self.moments]).reshape(-1, blocks, 1, F // blocks)
            quadratic = np.stack([m.quadratic[np.ix_(entries, entries)] for m in self.moments]) * once[:, None]
            columns = quadratic.reshape(-1, F, blocks, F // blocks).swapaxes(1, 2)
            self._cache[whole, blocks] = linear, np.ascontiguousarray(columns)
        return self._cache[whole, blocks]

    @cached_property
    def _cache(self) -> dict[tuple[bool, int], tuple[np.ndarray, np.ndarray]]:
        return {}

    def sharpness(self, weights: Weights, *, iterations: int = 30) -> Float[np.ndarray, "S J"]:
        """A lower bound on the largest eigenvalue of the Hessian of L, by ``iterations`` of the power method.

        A Rayleigh quotient never exceeds the largest eigenvalue, so a value above 2/eta proves that the step eta is past the
        edge of stability. Hessian times direction is a central difference of the gradient, accurate to about 1e-9.
        """
        weights = self._checked(weights)
        rng = np.random.default_rng(0)  # a fixed start: the result must not depend on the caller's generator
        direction = tuple(rng.standard_normal(array.shape) for array in weights)
        size = np.maximum(1.0, _norm(weights))
        quotient = np.zeros(size.shape)
        ahead, behind = (tuple(map(np.empty_like, weights)) for _ in range(2))
        for _ in range(positive_integer("iterations", iterations)):
            direction = _scaled(direction, 1 / np.maximum(_norm(direction), np.finfo(float).tiny))
            nudge = _scaled(direction, 1e-5 * size)
            self._velocity(tuple(a + d for a, d in zip(weights, nudge, strict=True)), ahead)
            self._velocity(tuple(a - d for a, d in zip(weights, nudge, strict=True)), behind)
            product = tuple(b - a for a, b in zip(ahead, behind, strict=True))
            product = _scaled(product, 1e5 / size)
            quotient = _inner(direction, product)
            direction = product
        return quotient

    def _checked(self, weights: Weights) -> Weights:
        """``weights`` as float64, of shapes that agree."""
        n, _, D = self.moments[0].index.shape
        if not isinstance(weights, Sequence) or len(weights) not in (2, 3):
            raise ValueError(f"weights must be (value, key_query) or (value, key, query), got {weights!r}")
        lead = (len(self.moments), *np.shape(weights[0])[1:3])
        if len(weights) == 2:
            wanted = {"value": (*lead, n), "key_query": (*lead, n, D)}
        else:
            R = np.shape(weights[1])[3:4]
            wanted = {"value": (*lead, n), "key": (*lead, *R, n), "query": (*lead, *R, D)}
        return tuple(finite_array(name, array, wanted[name]) for name, array in zip(wanted, weights, strict=True))


def _flat_copy(arrays: Weights) -> tuple[np.ndarray, Weights]:
    """One vector of all entries, and views of it in the arrays' shapes."""
    flat = np.concatenate([array.ravel() for array in arrays])
    ends = np.cumsum([array.size for array in arrays])
    return flat, tuple(flat[end - a.size : end].reshape(a.shape) for a, end in zip(arrays, ends, strict=True))


def _inner(left: Weights, right: Weights) -> Float[np.ndarray, "S J"]:
    return np.sum([(a * b).reshape(*a.shape[:2], -1).sum(-1) for a, b in zip(left, right, strict=True)], axis=0)


def _norm(weights: Weights) -> Float[np.ndarray, "S J"]:
    return np.sqrt(_inner(weights, weights))


def _scaled(weights: Weights, factor: Float[np.ndarray, "S J"]) -> Weights:
    return tuple(array * factor.reshape(*factor.shape, *[1] * (array.ndim - 2)) for array in weights)
