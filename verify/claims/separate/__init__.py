"""Claims about separate key and query."""

MODULES = ("staircase", "drop", "durations", "starts", "trained")
