"""A formula or a sentence as LaTeX, Markdown or text."""
