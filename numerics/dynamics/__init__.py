"""Gradient flow, descent and momentum; trajectories, their plateaus, their files."""
