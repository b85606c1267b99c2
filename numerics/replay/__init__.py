"""Recorded full-batch runs, replayed from moments; many runs at once."""
