"""``iclflow sweep``: many settings from one file."""
