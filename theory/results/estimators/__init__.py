"""What the model computes in context, beside least squares, ridge and Bayes: (16), (27), V9, and many tasks: V11-limit."""

MODULES = ("algorithms", "optimality", "short_context", "high_dimension", "task_diversity")
