"""Claims about other tasks."""

MODULES = ("moments", "random_length", "task_covariance", "shift", "blow_up", "trained")
