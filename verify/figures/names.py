"""The names of the figures that ``iclflow figure`` draws, by subject, for help and completion, which load no figure."""

from collections.abc import Mapping

FIGURE_NAMES: Mapping[str, tuple[str, ...]] = {
    "the paper's figures": ("1", "3a", "3b", "3c", "4", "5", "6", "8", "9", "10"),
    "theory over runs": ("staircase", "prediction", "weights", "scale", "softmax", "in-weight", "zero-blocks"),
    "varied tasks": ("noise", "task-covariance", "finite-tasks", "weight-decay", "shift", "random-length", "tokens", "optimality"),
    "other models": ("own-model", "depth", "merged-drop"),
    "training": ("discrete", "stable-steps", "momentum", "optimizers", "mini-batches"),
}


def listed_names() -> str:
    """A line for each subject."""
    width = max(map(len, FIGURE_NAMES))
    return "\n".join(f"  {subject:{width}}  {', '.join(names)}" for subject, names in FIGURE_NAMES.items())
