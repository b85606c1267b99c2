"""PyTorch: sequences, modules, descent, and the official code's runs."""

OPTIMIZERS = ("sgd", "adam", "sign")  # here, where reading it loads no PyTorch
