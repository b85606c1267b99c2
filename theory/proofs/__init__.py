"""Derivations that a user builds or hands over: each line is judged as those of the registry are."""
