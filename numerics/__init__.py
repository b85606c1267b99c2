"""Numbers: tasks, weights, losses, gradient flow and descent, reduced dynamics."""

from .flow import FlowError, gradient_flow
from .losses import QuadraticLoss
from .parametrization import Parametrization
from .tasks import RegressionTask
from .trajectory import Statistics, Trajectory
from .weights import MergedWeights, SeparateWeights

__all__ = [
    "RegressionTask",
    "QuadraticLoss",
    "Parametrization",
    "MergedWeights",
    "SeparateWeights",
    "gradient_flow",
    "FlowError",
    "Trajectory",
    "Statistics",
]
