"""Other tasks: V1 to V5."""

MODULES = ("labels", "shift", "random_length", "token_laws")
