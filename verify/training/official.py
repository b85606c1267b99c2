"""Runs of the paper's official code, trained again from their data and initial weights by the PyTorch modules here.

Softmax attention cannot be replayed from moments of the data; this works for both softmax and linear attention. Each step is a
full-batch step in the recording's precision.
"""

import ast
import time
import zipfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .descent import fixed_set, train
from .modules import Attention, MergedAttention, SeparateAttention

# The recordings are float32: 4,001 steps of rounding in another order of summation.
AGREEMENT = 1e-4


@dataclass(frozen=True)
class Retrained:
    """A comparison of a recorded loss curve with the one that training gives."""

    file: str
    steps: int
    seconds: float
    speedup: float
    max_relative_error: float

    @property
    def agrees(self) -> bool:
        return self.max_relative_error <= AGREEMENT

    def report(self) -> dict[str, object]:
        """Ready for JSON."""
        return asdict(self) | {"agrees": self.agrees, "method": "training"}

    def summary(self) -> str:
        return (
            f"{self.file}: {self.steps} steps of PyTorch in {self.seconds:.1f} s, {self.speedup:.1f} times faster than "
            f"recorded; largest relative difference of the loss {self.max_relative_error:.2e}"
        )


def settings(path: Path) -> dict[str, Any]:
    """The command-line settings of a recorded run; ``ValueError`` names file and key if there are none."""
    if path.is_file() and not zipfile.is_zipfile(path):
        raise ValueError(f"{path}: must be a readable npz file: it is not a zip archive")
    try:
        # np.load does not close a file that is not an archive; open it here
        with path.open("rb") as handle, np.load(handle, allow_pickle=False) as file:
            text = str(file["args"])
    except KeyError:
        raise ValueError(f"{path}: args: the key is missing") from None
    except (ValueError, EOFError, zipfile.BadZipFile) as problem:
        raise ValueError(f"{path}: must be a readable npz file: {' '.join(str(problem).split())}") from None
    try:
        found = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        found = None
    if not isinstance(found, dict):
        raise ValueError(f"{path}: args: must be the text of a dict, got {text[:60]!r}")
    return found


def _network(path: Path, arrays: dict[str, np.ndarray], given: dict[str, Any]) -> Attention:
    """The module with the recorded initial weights; as in the official code, scores are summed, not averaged."""

    def array(key: str, *shape: int) -> torch.Tensor:
        if key not in arrays:
            raise ValueError(f"{path}: {key}: the key is missing")
        if arrays[key].size != np.prod(shape) or not np.isfinite(arrays[key]).all():
            raise ValueError(f"{path}: {key}: must hold {np.prod(shape)} finite numbers, got shape {arrays[key].shape}")
        return torch.tensor(arrays[key]).reshape(shape)

    for key in ("in_dim", "head_num", "lr", "model"):
        if key not in given:
            raise ValueError(f"{path}: args: lacks {key}")
    if given.get("vary_len"):
        raise ValueError(
            f"{path}: args: vary_len must be False, got True: its losses are sums over prefixes, "
            "for which see iclflow.verify.experiments.prefixes"
        )
    D, H = given["in_dim"], given["head_num"]
    options: dict[str, Any] = {"softmax": bool(given.get("softmax")), "rho": 1.0}
    value = array("init.value.weight", H, D + 1, D + 1)
    if given["model"] == "attnM":
        return MergedAttention(value, array("init.kq.weight", H, D + 1, D + 1).mT, **options)
    if given["model"] == "attnS":
        R = given["rank"]
        key, query = (array(f"init.{name}.weight", H, R, D + 1) for name in ("key", "query"))
        return SeparateAttention(value, key, query, **options)
    raise ValueError(f"{path}: args: model must be attnM or attnS, got {given['model']!r}")


def retrain(path: Path, *, steps: int | None = None, progress: bool | None = None) -> Retrained:
    """Train again for the recorded number of steps, or the first ``steps``, and compare the losses."""
    given = settings(path)
    with np.load(path, allow_pickle=False) as file:
        arrays = {key: file[key] for key in file.files}
    for key in ("data.x", "data.y", "loss", "seconds"):
        if key not in arrays:
            raise ValueError(f"{path}: {key}: the key is missing")
        if not np.isfinite(arrays[key]).all():
            raise ValueError(f"{path}: {key}: must be finite")
    network = _network(path, arrays, given)
    loss = arrays["loss"][:steps]
    if len(loss) < 2:
        raise ValueError(f"{path}: loss: must hold at least two steps, got {len(loss)}")
    batch = torch.tensor(arrays["data.x"]).mT.contiguous(), torch.tensor(arrays["data.y"][:, -1, -1])
    start = time.perf_counter()
    run = train(network, fixed_set(batch), steps=len(loss) - 1, learning_rate=given["lr"], progress=progress)
    seconds = time.perf_counter() - start
    share = float(arrays["seconds"]) * len(loss) / len(arrays["loss"])
    error = float(np.abs(run.batch_loss / loss - 1).max())
    return Retrained(str(path), len(loss), seconds, share / seconds, error)
