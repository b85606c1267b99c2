"""Section 2 and Appendix B: the regression task, its moments, the initial weights, general laws (V0)."""

MODULES = ("regression", "second_moments", "initialization", "population")
