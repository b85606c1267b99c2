"""Tasks, token laws, losses, sample moments, risks."""
