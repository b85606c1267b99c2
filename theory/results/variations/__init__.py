"""Other tasks: V1 to V5."""

MODULES = ("label_noise", "task_covariance", "learning_order", "shift", "random_length", "token_laws")
