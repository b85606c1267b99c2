"""Claims about separate key and query."""

MODULES = ("staircase", "drop", "starts", "durations", "trained")
