"""What the model computes in context, beside least squares, ridge and Bayes: (16), (27), V9."""

MODULES = ("algorithms", "optimality", "short_context", "high_dimension")
