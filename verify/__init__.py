"""Evidence: PyTorch training, claims with residuals and tolerances, figures, the command line.

Nothing is imported here, so that the command line starts without PyTorch or matplotlib. The parts are the folders ``training``,
``experiments``, ``own_model``, ``claims``, ``figures``, ``evidence``, ``explorer``, ``sweep`` and ``cli``.
"""
