"""The figures: theory drawn over simulation, a module for each subject."""

MODULES = (
    "separate",
    "rank",
    "weights",
    "merged",
    "in_weight",
    "in_weight_theory",
    "prediction",
    "own_model",
    "estimators",
    "discretisation",
    "minibatch",
    "momentum",
    "stable_steps",
    "merged_drop",
    "variations",
    "covariances",
    "shift",
    "random_length",
)
