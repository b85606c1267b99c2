"""Other tasks: V1 to V5."""

MODULES = ("labels", "learning_order", "shift", "random_length", "token_laws")
