"""Numbers: tasks, weights, losses, gradient flow and descent, reduced dynamics."""
