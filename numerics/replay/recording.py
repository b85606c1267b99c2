"""A run of the paper's official code as arrays, read from an ``.npz`` file or made from its arguments, and checked.

``data.x`` and ``data.y`` (P, L, D+1) are the sequences as the network sees them (last row: the query, its label 0) and the
targets; of an mlp ``data.x`` (P, D^2) holds the cubic features. ``init.*`` are the weights before the first step in PyTorch
layout (out, in), ``args`` the settings as the text of a dict. A recording has ``loss`` (steps,) too, the mean squared error
before each step, and ``seconds``, the time of the training loop, if somebody measured it. With test sets also ``data.x_iwl``,
``data.y_iwl``, ``loss_iwl`` and the same for ``icl``.
"""

import ast
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property, reduce
from pathlib import Path

import numpy as np

from ..tasks.sample_moments import SampleMoments, gram_index
from .arguments import Arguments

TESTS = ("iwl", "icl")
SMALL = 64  # sequences a batch: few enough at D = 4 for a product that starts no threads, as in ensemble.py


class Run:
    """Data, initial weights and arguments of a run; ``name`` begins the message of each error.

    Raises ``ValueError`` naming the key for an array that is missing, has a shape other than the arguments say, or is not finite.
    """

    def __init__(self, arrays: Mapping[str, np.ndarray], name: str) -> None:
        self.name, self.arrays = name, arrays
        self.arguments = given = self._arguments()
        self.dimension, self.context_length, self.learning_rate = given.in_dim, given.seq_len - 1, float(given.lr)
        self.steps = given.epoch
        self.tests = [test for test in TESTS if f"data.x_{test}" in arrays]
        self.layers = self._layers()
        self.sets = {test: self._set(test) for test in ("", *(f"_{test}" for test in self.tests))}

    @property
    def weights(self) -> tuple[np.ndarray, ...]:
        """The rows that training moves, with the axes of :class:`~iclflow.numerics.replay.ensemble.Ensemble`."""
        D, layers = self.dimension, self.layers
        if self.arguments.model == "mlp":
            value, key_query = np.zeros((len(layers["fc1"]), D + 1)), np.zeros((len(layers["fc1"]), D + 1, D))
            value[:, -1], key_query[:, :D] = layers["fc2"][0], layers["fc1"].reshape(-1, D, D)
            weights = value, key_query
        elif self.arguments.model == "attnM":
            weights = layers["value"][:, -1], layers["kq"][:, :D].swapaxes(1, 2)
        else:
            weights = layers["value"][:, -1], layers["key"], layers["query"][:, :, :D]
        return tuple(array[None, None] for array in weights)

    @cached_property
    def training(self) -> SampleMoments:
        """Moments of the training set."""
        return self.moments("")

    def moments(self, test: str) -> SampleMoments:
        """Moments of the training set (``""``) or of a test set (``"_iwl"``, ``"_icl"``).

        With ``vary_len`` each output is divided by the number of tokens, and the training loss is the mean over all prefixes:
        its moments are the means of theirs.
        """
        x, y = self.sets[test]
        if self.arguments.model == "mlp":
            return self._cubic(x, y[:, -1, -1])
        length = self.context_length + 1
        shorter = self.arguments.vary_len and not test
        parts = []
        for n in range(2, length + 1) if shorter else (length,):
            part = self._of_prefix(test, x, y, n)
            scale = 1 / n if self.arguments.vary_len else 1.0
            parts.append(replace(part, linear=scale * part.linear, quadratic=scale**2 * part.quadratic))
        return reduce(SampleMoments.union, parts)

    def _of_prefix(self, test: str, x: np.ndarray, y: np.ndarray, n: int) -> SampleMoments:
        """Moments of the first n tokens with the last of them as the query."""

        def batches():
            for i in range(0, len(x), SMALL):
                tokens = x[i : i + SMALL, :n].astype(np.float64)
                if n < x.shape[1]:
                    tokens[:, -1, -1] = 0.0
                yield tokens, y[i : i + SMALL, n - 1, -1]

        try:
            return SampleMoments.from_batches(batches(), context="sum")
        except ValueError as error:
            raise self.fault(f"data.x{test}", str(error)) from error

    def _cubic(self, z: np.ndarray, y: np.ndarray) -> SampleMoments:
        """Moments of the cubic features; those of all other features are zero, so that other blocks never move from zero."""
        index = gram_index(self.dimension)
        here, F = index[:-1, -1].ravel(), index.max() + 1
        linear, quadratic = np.zeros(F), np.zeros((F, F))
        z, y = z.astype(np.float64), y.astype(np.float64)
        linear[here], quadratic[np.ix_(here, here)] = y @ z / len(y), z.T @ z / len(y)
        return SampleMoments(quadratic, linear, float(y @ y) / len(y), len(y), index)

    def fault(self, key: str, problem: str) -> ValueError:
        return ValueError(f"{self.name}: {key}: {problem}")

    def _arguments(self) -> Arguments:
        text = str(self._any("args"))
        try:
            settings = ast.literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
            raise self.fault("args", f"must be the text of a dict literal ({error})") from error
        if not isinstance(settings, dict):
            raise self.fault("args", f"must be the text of a dict literal, got {str(settings)[:60]!r}")
        try:
            return Arguments.read(settings)
        except ValueError as error:
            raise self.fault("args", str(error)) from None

    def _layers(self) -> dict[str, np.ndarray]:
        """The initial weights by layer, a first axis for heads."""
        H, R, n = self.arguments.head_num, self.arguments.rank, self.dimension + 1
        if self.arguments.model == "mlp":
            shapes = {"fc1": (H, (n - 1) ** 2), "fc2": (1, H)}
        elif self.arguments.model == "attnM":
            shapes = {"kq": (H, n, n), "value": (H, n, n)}
        else:
            shapes = {"key": (H, R, n), "query": (H, R, n), "value": (H, n, n)}
        flat = {layer: shape if len(shape) == 2 else (shape[0] * shape[1], shape[2]) for layer, shape in shapes.items()}
        return {layer: self._array(f"init.{layer}.weight", flat[layer]).reshape(shape) for layer, shape in shapes.items()}

    def _set(self, test: str) -> tuple[np.ndarray, np.ndarray]:
        L, D = self.context_length + 1, self.dimension
        x = self._array(f"data.x{test}", ("P", D**2) if self.arguments.model == "mlp" else ("P", L, D + 1))
        y = self._array(f"data.y{test}", ("P", L, D + 1))
        if len(y) != len(x) or not len(x):
            raise self.fault(f"data.y{test}", f"must hold as many sequences as data.x{test}, at least 1")
        if self.arguments.model != "mlp" and x[:, -1, -1].any():
            raise self.fault(f"data.x{test}", "must have label 0 in the last row, the query")
        return x, y

    def _any(self, key: str) -> np.ndarray:
        if key not in self.arrays:
            raise self.fault(key, "is missing; iclflow official --output writes what can be replayed")
        return self.arrays[key]

    def _array(self, key: str, shape: tuple[int | str, ...]) -> np.ndarray:
        array = self._any(key)
        fits = array.ndim == len(shape) and all(isinstance(w, str) or h == w for h, w in zip(array.shape, shape, strict=True))
        if not fits:
            raise self.fault(key, f"must have shape ({', '.join(map(str, shape))}), got {array.shape}")
        if array.dtype.kind not in "fiu":
            raise self.fault(key, f"must hold real numbers, got dtype {array.dtype}")
        if not np.isfinite(array).all():
            raise self.fault(key, "must be finite, got nan or inf")
        return array


class Recording(Run):
    """A run with the losses that somebody recorded."""

    def __init__(self, path: Path) -> None:
        super().__init__(_read(path), str(path))
        self.steps = len(self._array("loss", ("steps",)))
        if self.steps == 0:
            raise self.fault("loss", "must hold at least one step")
        self.tests = [test for test in self.tests if f"loss_{test}" in self.arrays]
        for name in ("loss", *(f"loss_{test}" for test in self.tests)):
            if not (self._array(name, (self.steps,)) > 0).all():
                raise self.fault(name, "must be positive")
        self.seconds = float(self._array("seconds", ())) if "seconds" in self.arrays else None
        if self.seconds is not None and not self.seconds > 0:
            raise self.fault("seconds", f"must be positive, got {self.seconds}")


def _read(path: Path) -> dict[str, np.ndarray]:
    reading, arrays = "file", {}
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            for reading in archive.files:
                if not reading.startswith("final."):
                    arrays[reading] = archive[reading]
    except FileNotFoundError:
        raise
    except Exception as error:  # the readers of zip, zlib and npy raise some fifteen kinds for a damaged file
        raise ValueError(f"{path}: {reading}: cannot be read as npz without pickle ({str(error).partition('. ')[0]})") from error
    return arrays
