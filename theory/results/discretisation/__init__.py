"""Finite steps, momentum, mini-batches: V8."""

MODULES = ("finite_steps", "minibatch_noise", "stable_steps", "momentum", "sign_descent")
