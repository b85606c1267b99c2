"""Numbers: tasks, weights, losses, gradient flow and descent, reduced dynamics, fixed points, replay of training runs.

Not imported here: ``iclflow.numerics.reductions.precision`` (50 digits and enclosures) and
``iclflow.numerics.dynamics.storage`` (xarray datasets).
"""

from lazy_loader import attach_stub

# A name is imported when it is first asked for; the stub beside this file says from where.
__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
