"""Claims about other tasks."""

MODULES = ("moments", "random_length", "task_covariance", "finite_tasks", "weight_decay", "shift", "blow_up", "trained")
