"""``iclflow check``: the plan, the run, the table in the terminal, the page."""
