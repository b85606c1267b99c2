"""Trace polynomials as a data type: canonical form, reading, printing."""
