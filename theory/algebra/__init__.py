"""Trace polynomials as a data type: canonical form, arithmetic, reading, printing."""
