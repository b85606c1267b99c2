"""The one crossing from symbols to numbers."""
