"""Section 3 and Appendix C, merged key and query: (14), (15), (44)-(51), V7."""

MODULES = ("fixed_points", "balanced_flow", "sigmoid", "plateau", "drop", "drop_bounds", "turning")
