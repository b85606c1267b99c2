"""The problem: tasks, laws of tokens, losses, sample moments, risks."""
