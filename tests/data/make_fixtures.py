"""Cut recorded runs of the paper's official code down to fixtures: ``python make_fixtures.py RUN.npz ...``.

Kept of each run: the moments of its data in place of the data (``numerics/moments.py``), its initial weights, its settings
and every ``EVERY``-th loss. The runs are of the public repository yedizhang/linattn-icl, commit 9a481d5, in float32 on CPU.
"""

import sys
from pathlib import Path

import numpy as np
from iclflow.numerics.replay.recording import TESTS, Recording

EVERY = 25


def cut(path: Path) -> None:
    run = Recording(path)
    kept: dict[str, np.ndarray] = {"learning_rate": np.array(run.learning_rate), "steps": np.array(run.steps)}
    names = ("value", "key_query") if len(run.weights) == 2 else ("value", "key", "query")
    kept |= {f"init.{name}": array[0, 0].astype(np.float32) for name, array in zip(names, run.weights, strict=True)}
    for suffix in ("", *(f"_{test}" for test in TESTS if f"loss_{test}" in run.arrays)):
        moments = run.moments(suffix)
        kept[f"loss{suffix}"] = run.arrays[f"loss{suffix}"][::EVERY]
        upper = np.triu_indices(len(moments.linear))
        kept[f"quadratic{suffix}"], kept[f"linear{suffix}"] = moments.quadratic[upper], moments.linear
        kept[f"constant{suffix}"], kept[f"count{suffix}"] = np.array(moments.constant), np.array(moments.count)
    np.savez_compressed(Path(__file__).with_name(f"{path.stem}.npz"), **kept)


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        cut(Path(argument))
