"""Numbers: tasks, weights, losses, gradient flow and descent, reduced dynamics, fixed points, replay of training runs.

Not imported here: ``iclflow.numerics.precision`` (50 digits and enclosures), ``iclflow.numerics.results`` (xarray datasets).
"""

from .balanced import BalancedCurve, balanced_curve, effective_start, predict_merged_curve
from .blocks import FullMergedWeights, FullSeparateWeights
from .compile import compile_expression
from .descent import gradient_descent
from .discrete import noisy_drop
from .drop_noise import DropSpread, spread_of_drops
from .ensemble import Ensemble
from .five_weights import FiveWeights
from .flow import gradient_flow
from .integration import FlowError
from .inweight import MixedTask
from .landscape import (
    FixedPoint,
    fixed_point_sets,
    merged_fixed_points,
    search_fixed_points,
    separate_fixed_point,
    separate_fixed_points,
)
from .losses import QuadraticLoss
from .merged_drop import MergedDrop
from .model_flow import ModelTrajectory, integrate
from .modified_flow import modified_flow
from .moments import SampleMoments, sequences
from .momentum import MassiveTrajectory, flow_with_mass, heavy_ball, heavy_ball_flow
from .networks import ConvolutionalNetwork, TwoLayerNetwork
from .optimality import (
    SampledRisk,
    bayes_bounds,
    crossover_length,
    least_squares_risk,
    linear_attention_risk,
    risk_limits,
    sampled_risks,
)
from .order import Visit, order_of_learning
from .parametrization import Parametrization
from .plateaus import Plateaus, find_plateaus, read_curve
from .prediction import CurvePrediction, predict_curve
from .reduced import ScalarReduction
from .silent import SilentHead
from .stable_steps import largest_stable_step
from .tasks import RegressionTask
from .token_laws import GaussianTokens, RademacherTokens, SphereTokens, StudentTokens
from .trajectory import Statistics, Trajectory
from .weights import MergedWeights, SeparateWeights
from .white import WhiteReduction

__all__ = [
    # The problem: a task, its loss, weights that make the effective map
    "RegressionTask",
    "GaussianTokens",
    "SphereTokens",
    "StudentTokens",
    "RademacherTokens",
    "MixedTask",
    "QuadraticLoss",
    "SampleMoments",
    "sequences",
    "Parametrization",
    "MergedWeights",
    "SeparateWeights",
    "FullMergedWeights",
    "FullSeparateWeights",
    "TwoLayerNetwork",
    "ConvolutionalNetwork",
    # The methods, and what they return
    "gradient_flow",
    "gradient_descent",
    "heavy_ball",
    "heavy_ball_flow",
    "flow_with_mass",
    "modified_flow",
    "balanced_curve",
    "Trajectory",
    "MassiveTrajectory",
    "BalancedCurve",
    "Statistics",
    "FlowError",
    "Ensemble",
    "integrate",
    "ModelTrajectory",
    "find_plateaus",
    "Plateaus",
    "read_curve",
    # Theory, evaluated
    "compile_expression",
    "ScalarReduction",
    "WhiteReduction",
    "FiveWeights",
    "SilentHead",
    "predict_curve",
    "order_of_learning",
    "CurvePrediction",
    "Visit",
    "predict_merged_curve",
    "effective_start",
    "MergedDrop",
    "largest_stable_step",
    "noisy_drop",
    "spread_of_drops",
    "DropSpread",
    "linear_attention_risk",
    "least_squares_risk",
    "bayes_bounds",
    "crossover_length",
    "risk_limits",
    "sampled_risks",
    "SampledRisk",
    "FixedPoint",
    "fixed_point_sets",
    "separate_fixed_point",
    "separate_fixed_points",
    "merged_fixed_points",
    "search_fixed_points",
]
