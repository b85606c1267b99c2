"""Parametrizations: the effective map as a function of the weights."""
