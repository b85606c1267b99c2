"""Loss and flow of a model that the user defines."""
