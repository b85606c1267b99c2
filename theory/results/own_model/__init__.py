"""The user's own model on varied tasks: V10."""

MODULES = ("two_steps",)
