"""The theory evaluated: scalar and white flows, whole loss curves, drop times."""
