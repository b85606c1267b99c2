"""Other tasks: V1 to V5, V11."""

MODULES = ("labels", "shift", "finite_tasks", "random_length", "token_laws")
