"""Loss and flow of the user's own model."""
