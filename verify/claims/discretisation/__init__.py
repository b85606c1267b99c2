"""Claims about finite steps, momentum and mini-batches."""

MODULES = ("finite_steps", "momentum", "sign_descent", "minibatch")
