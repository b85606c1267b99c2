"""A run of the paper's official code, recorded in an ``.npz`` file: read and checked.

The file holds ``data.x`` and ``data.y`` (P, L, D+1), the sequences as the network sees them (last row: the query, its
label 0) and the targets; ``init.*``, the weights before the first step in PyTorch layout (out, in); ``loss`` (steps,),
the mean squared error before each step; ``args``, the settings as the text of a dict; ``seconds``, the time of the
training loop. With test sets also ``data.x_iwl``, ``data.y_iwl``, ``loss_iwl`` and the same for ``icl``.
"""

import ast
import zipfile
import zlib
from pathlib import Path

import numpy as np

from ..tasks.sample_moments import SampleMoments

TESTS = ("iwl", "icl")
SMALL = 64  # sequences a batch: few enough at D = 4 for a product that starts no threads, as in ensemble.py


class Recording:
    """A recorded run, read and checked."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.arrays = _read(path)
        self.settings = self._settings()
        D, H = self._count("in_dim"), self._count("head_num")
        self.learning_rate = self._number("lr")
        self.context_length = self._count("seq_len") - 1
        self.dimension = D
        self.steps = len(self._array("loss", ("steps",)))
        if self.steps == 0:
            raise self.fault("loss", "must hold at least one step")
        for name in ("loss", *(f"loss_{test}" for test in TESTS if f"loss_{test}" in self.arrays)):
            if not (self._array(name, (self.steps,)) > 0).all():
                raise self.fault(name, "must be positive")
        if not self._array("seconds", ()) > 0:
            raise self.fault("seconds", f"must be positive, got {self.arrays['seconds']}")
        value = self._array("init.value.weight", (H * (D + 1), D + 1)).reshape(H, D + 1, D + 1)[:, -1]
        if self.settings["model"] == "attnM":
            key_query = self._array("init.kq.weight", (H * (D + 1), D + 1)).reshape(H, D + 1, D + 1)[:, :D]
            weights = value, key_query.swapaxes(1, 2)
        else:
            R = self._count("rank")
            key = self._array("init.key.weight", (H * R, D + 1)).reshape(H, R, D + 1)
            query = self._array("init.query.weight", (H * R, D + 1)).reshape(H, R, D + 1)[:, :, :D]
            weights = value, key, query
        self.weights = tuple(array[None, None] for array in weights)

    def moments(self, test: str) -> SampleMoments:
        shape = ("P", self.context_length + 1, self.dimension + 1)
        x, y = self._array(f"data.x{test}", shape), self._array(f"data.y{test}", shape)
        if len(y) != len(x) or not len(x):
            raise self.fault(f"data.y{test}", f"must hold as many sequences as data.x{test}, at least 1")
        try:
            batches = ((x[i : i + SMALL], y[i : i + SMALL, -1, -1]) for i in range(0, len(x), SMALL))
            return SampleMoments.from_batches(batches, context="sum")
        except ValueError as error:
            raise self.fault(f"data.x{test}", str(error)) from error

    def fault(self, key: str, problem: str) -> ValueError:
        return ValueError(f"{self.path}: {key}: {problem}")

    def _settings(self) -> dict[str, object]:
        try:
            settings = ast.literal_eval(str(self._any("args")))
        except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
            raise self.fault("args", f"must be the text of a dict literal ({error})") from error
        if not isinstance(settings, dict):
            raise self.fault("args", f"must be the text of a dict literal, got {settings!r}")
        if settings.get("model") not in ("attnM", "attnS"):
            raise self.fault("args", f"model must be attnM or attnS, got {settings.get('model')!r}")
        for key, why in (
            ("softmax", "softmax attention is not linear in moments of the data: it cannot be replayed from them"),
            ("vary_len", "sequences of varying length cannot be replayed"),
            ("cubic_feat", "cubic features belong to another model, which cannot be replayed"),
        ):
            if settings.get(key, False) is not False:
                raise self.fault("args", f"{why}, got {key}={settings[key]!r}")
        return settings

    def _count(self, key: str) -> int:
        value = self.settings.get(key)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise self.fault("args", f"{key} must be an integer of at least 1, got {value!r}")
        return value

    def _number(self, key: str) -> float:
        value = self.settings.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or not (np.isfinite(value) and value > 0):
            raise self.fault("args", f"{key} must be a positive number, got {value!r}")
        return float(value)

    def _any(self, key: str) -> np.ndarray:
        if key not in self.arrays:
            raise self.fault(key, "is missing")
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


def _read(path: Path) -> dict[str, np.ndarray]:
    damage = (*(ValueError, TypeError, OSError, EOFError, KeyError, AttributeError, NotImplementedError), *(zipfile.BadZipFile, zlib.error))
    reading, arrays = "file", {}
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            for reading in archive.files:
                if not reading.startswith("final."):
                    arrays[reading] = archive[reading]
    except FileNotFoundError:
        raise
    except damage as error:
        raise ValueError(f"{path}: {reading}: cannot be read as npz without pickle ({error})") from error
    return arrays
