"""Settings, and the runs that claims and figures share, each computed once."""
