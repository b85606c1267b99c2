"""``iclflow official``: a run of the paper's official code, from its command line, beside theory."""

import argparse
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from .options import add_digits

if TYPE_CHECKING:
    import numpy as np

    from ...numerics.replay.arguments import Arguments
    from ...numerics.replay.replay import Replayed


HELP = {
    "epoch": "steps",
    "lr": "size of a step",
    "seed": "of the data and the initial weights",
    "icl": "share of the sequences with a random task vector",
    "trainset_size": "training sequences P",
    "testset_size": "sequences of each of the two test sets",
    "white_cov": "tokens of covariance I/D",
    "vary_len": "the mean of the losses over all prefixes",
    "seq_len": "tokens of a sequence, N + 1 with the query",
    "in_dim": "dimension D of a token",
    "out_dim": "dimension of a label",
    "cubic_feat": "cubic features as input, for the mlp",
    "model": "attnM (merged), attnS (separate) or mlp",
    "softmax": "softmax attention",
    "rank": "rank R of a head's keys and queries",
    "head_num": "heads H",
    "init": "scale of the initial weights",
    "show": "accepted and ignored: --figure draws the curve",
    "track_value": "accepted and ignored",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The official code's options, with its names, defaults and abbreviations, and what to do with the run."""
    from dataclasses import fields

    from ...numerics.replay.arguments import Arguments, Model

    for one in fields(Arguments):
        if isinstance(one.default, bool):
            parser.add_argument(f"--{one.name}", action="store_true", help=HELP[one.name])
            continue
        kind: Callable[[str], Any] = float if one.name == "icl" else type(one.default)
        choices = get_args(Model) if one.name == "model" else None
        help = f"{HELP[one.name]} (default {one.default})"
        parser.add_argument(f"--{one.name}", type=kind, default=one.default, choices=choices, help=help)
    add_digits(parser)
    parser.add_argument("--output", metavar="FILE.npz", help="data, initial weights, arguments and losses, which iclflow replay reads")
    parser.add_argument("--compare", metavar="FILE", help="the official code's losses (.txt) or a recording (.npz): exit 1 if they differ")
    parser.add_argument("--figure", metavar="FILE", help="the loss over theory's levels, .png, .pdf or .svg")


def official(options: argparse.Namespace) -> int:
    from dataclasses import fields

    from ...numerics.replay.arguments import Arguments
    from ..files import require_writable, write_atomically

    for path, endings in ((options.output, (".npz",)), (options.figure, (".png", ".pdf", ".svg")), (options.compare, (".txt", ".npz"))):
        if path and Path(path).suffix not in endings:
            raise ValueError(f"{path}: the file must end in {' or '.join(endings)}")
    for path in filter(None, (options.output, options.figure)):
        require_writable(Path(path))
    try:
        given = Arguments(**{one.name: getattr(options, one.name) for one in fields(Arguments)})
    except ValueError as problem:
        raise ValueError(f"--{problem}") from None

    import numpy as np

    from ..training.official import official_run

    arrays, played = official_run(given)
    how = "replayed from moments" if given.replayable else "of PyTorch"
    print(f"{given.file_name.removesuffix('.txt')}: {given.epoch} steps {how} in {played.seconds:.2f} s")
    print(_beside_theory(given, played.losses["loss"], options.digits))
    if options.output:
        buffer = BytesIO()
        np.savez_compressed(buffer, **arrays)  # pyright: ignore[reportArgumentType]
        write_atomically(Path(options.output), buffer.getvalue())
    if options.figure:
        write_atomically(Path(options.figure), _picture(given, played.losses, Path(options.figure).suffix))
    return _compared(Path(options.compare), arrays, played) if options.compare else 0


def theory_levels(given: "Arguments") -> "list[float]":
    """The losses at the plateaus, equation (24), or for merged attention and the mlp at its two fixed points; none without a theory."""
    from ...numerics.tasks.regression import RegressionTask
    from ..experiments.varied_tasks import levels

    if given.icl != 1 or not given.replayable:
        return []
    D, N = given.in_dim, given.seq_len - 1
    eigenvalues = [1 / D] * D if given.white_cov else [2 * d / (D * (D + 1)) for d in range(D, 0, -1)]
    lengths = {"context_lengths": range(1, N + 1), "context_gain": "official"} if given.vary_len else {"context_length": N}
    found = [float(level) for level in levels(RegressionTask(eigenvalues=eigenvalues, **lengths))]
    return found if given.model == "attnS" else [found[0], found[-1]]


def _beside_theory(given: "Arguments", loss: "np.ndarray", digits: int) -> str:
    import numpy as np

    from ...numerics.dynamics.plateaus import find_plateaus
    from .plateau_table import table

    if len(loss) < 3:
        return f"loss {loss[0]:.{digits}f} to {loss[-1]:.{digits}f}"
    found = find_plateaus(np.arange(len(loss)), loss)
    return table(theory_levels(given), {"run": found}, digits, drop="drop at step", time=".0f")


def _picture(given: "Arguments", losses: "dict[str, np.ndarray]", suffix: str) -> bytes:
    from ..figures import gallery, style

    names = {"loss": "training", "loss_iwl": "in-weight test", "loss_icl": "in-context test"}
    with style.themed() as theme:
        picture, axes = gallery.canvas(theme)
        if levels := theory_levels(given):
            gallery.theory_levels(axes, levels, theme, names=False, label="theory")
        for (name, loss), color in zip(losses.items(), style.SERIES, strict=False):
            axes.plot(loss, color=color, label=names[name])
        axes.set(xlabel="steps", ylabel=style.LOSS, xlim=(0, given.epoch - 1), ylim=(0, None), title=given.file_name.removesuffix(".txt"))
        axes.legend(loc="upper right")
        buffer = BytesIO()
        picture.savefig(buffer, format=suffix[1:])
    return buffer.getvalue()


def _compared(path: Path, arrays: "dict[str, np.ndarray]", played: "Replayed") -> int:
    """Print how far the losses, and of a recording the arrays, are from those in a file; 1 if the losses differ."""
    import numpy as np

    from ...numerics.replay.recording import Recording
    from ...numerics.replay.replay import AGREEMENT

    if path.suffix == ".npz":
        recorded = Recording(path)
        theirs = {name: recorded.arrays[name] for name in played.losses if name in recorded.arrays}
        for name in (name for name in arrays if name.startswith(("data.", "init."))):
            if name not in recorded.arrays or recorded.arrays[name].shape != arrays[name].shape:
                print(f"{name} has another shape in {path}, or is missing there")
            elif (apart := np.abs(recorded.arrays[name] - arrays[name])).any():
                print(f"{name} differs in {np.count_nonzero(apart)} of {apart.size} entries, by at most {apart.max():.1e}")
    else:
        try:
            columns = np.loadtxt(path, ndmin=2).T
        except ValueError as problem:
            raise ValueError(f"{path}: must hold numbers, one row a step ({problem})") from None
        theirs = dict[str, Any](zip(("loss", "loss_iwl", "loss_icl"), columns, strict=False))
    stable = None if played.unstable_step is None else played.unstable_step + 1
    worst = 0.0
    for name, loss in played.losses.items():
        if name not in theirs or len(theirs[name]) != len(loss):
            got = f"{len(theirs[name])} rows" if name in theirs else "none"
            raise ValueError(f"{path}: must hold the {name} before each of {len(loss)} steps, got {got}")
        worst = max(worst, float(np.abs(loss / theirs[name] - 1)[:stable].max()))
    until = "" if stable is None else f" up to step {stable - 1}, where the step passes the edge of stability,"
    print(f"{path}: largest relative difference of a loss{until} {worst:.2e}: {'agrees' if worst <= AGREEMENT else 'differs'}")
    return 0 if worst <= AGREEMENT else 1
