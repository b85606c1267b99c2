"""Claims about moments, features, models and their gradients."""

MODULES = ("moments", "features", "models", "definitions", "gradients")
