"""Other tasks: V1 to V5, V11; and weight decay: V12."""

MODULES = ("labels", "shift", "finite_tasks", "weight_decay", "random_length", "token_laws")
