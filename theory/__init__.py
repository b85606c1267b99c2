"""Symbols and derivations: the paper's formulas, computed from its definitions."""
