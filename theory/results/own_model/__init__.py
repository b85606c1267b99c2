"""The user's own model on varied tasks: V10; and of several layers: V13."""

MODULES = ("two_steps", "depth")
