"""Claims about fixed points, the order of learning, and varied tasks."""

MODULES = ("fixed_points", "varied_tasks", "learning_order")
