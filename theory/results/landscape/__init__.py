"""Fixed points and their Hessians: (21)-(24), (55)-(60), (74)-(78), (81)-(84), T1, T2, V2-whitened."""

MODULES = (
    "fixed_points", "conditions", "levels", "completeness", "stability", "index_theorem", "saddles", "minimal_norm", "minimal_norm_bound",
    "any_quadratic_loss", "learning_order",
)  # fmt: skip
