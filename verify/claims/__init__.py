"""Claims: statements of the theory checked outside the algebra, by subject."""

FOLDERS = ("attention", "merged", "landscape", "separate", "in_weight", "variations", "discretisation", "estimators")
