"""Fixed points, the order in which they are visited, stable steps."""
