"""Claims about other tasks."""

MODULES = ("moments", "random_length", "task_covariance", "finite_tasks", "shift", "blow_up", "trained")
