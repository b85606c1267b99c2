"""Claims about least squares, Bayes, and the user's own model."""

MODULES = ("own_model", "depth", "optimality", "task_diversity")
