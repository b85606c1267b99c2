"""PyTorch: sequences, modules, descent, and the official code's runs."""
