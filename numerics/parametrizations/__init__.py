"""How weights make the effective map."""
