"""The user's own model against prompts drawn from its laws."""
