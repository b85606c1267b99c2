"""The figures: theory drawn over simulation, a module for each subject."""

MODULES = ("separate", "rank", "merged", "in_weight", "estimators", "discretisation", "momentum", "variations", "covariances")
