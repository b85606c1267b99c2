"""Sections 4 and 5, Appendices D and E, the flow of separate attention and its reductions.

(18)-(20), (25), (26), (52), (61)-(73), (79), (80), T3, T5, T6.
"""

MODULES = ("flow", "conservation", "aligned", "waiting", "durations", "rank_plateaus")
