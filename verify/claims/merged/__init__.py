"""Claims about merged key and query."""

MODULES = ("flow", "drop")
