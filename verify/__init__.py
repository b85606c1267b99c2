"""Evidence: PyTorch training, claims with residuals and tolerances, figures, the command line.

Nothing is imported here, so that the command line starts without PyTorch or matplotlib. The parts are
``iclflow.verify.models``, ``.data``, ``.training``, ``.claims``, ``.check``, ``.report``, ``.figures`` and ``.cli``.
"""
