"""The results, by subject, in the order in which they build on each other."""

FOLDERS = ("task", "attention", "merged", "separate", "landscape", "in_weight", "variations", "discretisation", "estimators", "own_model")
