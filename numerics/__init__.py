"""Numbers: tasks, weights, losses, gradient flow and descent, reduced dynamics."""

from .blocks import FullMergedWeights, FullSeparateWeights
from .descent import gradient_descent
from .flow import gradient_flow
from .integration import FlowError
from .losses import QuadraticLoss
from .networks import ConvolutionalNetwork, TwoLayerNetwork
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
    "FullMergedWeights",
    "FullSeparateWeights",
    "TwoLayerNetwork",
    "ConvolutionalNetwork",
    "gradient_flow",
    "gradient_descent",
    "FlowError",
    "Trajectory",
    "Statistics",
]
