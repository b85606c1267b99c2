from .compilation.equations import compiled
from .compilation.expressions import compile_expression
from .dynamics.descent import adam, gradient_descent, sign_descent
from .dynamics.flow import gradient_flow
from .dynamics.momentum import MassiveTrajectory, flow_with_mass, heavy_ball, heavy_ball_flow, modified_flow
from .dynamics.plateaus import Plateaus, find_plateaus, read_curve
from .dynamics.results import load
from .dynamics.solver import FlowError
from .dynamics.trajectory import Statistics, Trajectories, Trajectory
from .landscape.fixed_points import (
    FixedPoint,
    fixed_point_sets,
    merged_fixed_points,
    search_fixed_points,
    separate_fixed_point,
    separate_fixed_points,
)
from .landscape.learning_order import Visit, order_of_learning
from .landscape.stable_steps import largest_stable_step
from .own_model.fixed_points import FixedPoints, fixed_points, levels
from .own_model.flow import ModelTrajectory, integrate
from .parametrizations.attention import MergedWeights, SeparateWeights
from .parametrizations.base import Parametrization
from .parametrizations.full_attention import FullMergedWeights, FullSeparateWeights
from .parametrizations.networks import ConvolutionalNetwork, TwoLayerNetwork
from .reductions.curve import CurvePrediction, predict_curve
from .reductions.drop_delays import noisy_drop
from .reductions.drop_noise import DropSpread, spread_of_drops
from .reductions.five_weights import FiveWeights
from .reductions.merged_curve import BalancedCurve, balanced_curve, effective_start, predict_merged_curve
from .reductions.merged_drop import MergedDrop
from .reductions.scalar import ScalarReduction
from .reductions.waiting_head import WaitingHead
from .reductions.white import WhiteReduction
from .replay.ensemble import Ensemble
from .tasks.losses import QuadraticLoss
from .tasks.mixed_task import MixedTask
from .tasks.regression import RegressionTask
from .tasks.risks import SampledRisk, bayes_bounds, crossover_length, least_squares_risk, linear_attention_risk, risk_limits, sampled_risks
from .tasks.sample_moments import SampleMoments, sequences
from .tasks.token_laws import GaussianTokens, RademacherTokens, SphereTokens, StudentTokens

__all__ = [
    # The problem: a task, its loss, weights that make the effective map
    "RegressionTask", "GaussianTokens", "SphereTokens", "StudentTokens", "RademacherTokens", "MixedTask", "QuadraticLoss",
    "SampleMoments", "sequences", "Parametrization", "MergedWeights", "SeparateWeights", "FullMergedWeights", "FullSeparateWeights",
    "TwoLayerNetwork", "ConvolutionalNetwork",
    # The methods, and what they return
    "gradient_flow", "gradient_descent", "sign_descent", "adam", "heavy_ball", "heavy_ball_flow", "flow_with_mass", "modified_flow",
    "balanced_curve", "Trajectory", "Trajectories", "MassiveTrajectory", "BalancedCurve", "Statistics", "FlowError", "Ensemble",
    "integrate", "ModelTrajectory", "fixed_points", "levels", "FixedPoints", "find_plateaus", "Plateaus", "read_curve", "load",
    # Theory, evaluated
    "compiled", "compile_expression", "ScalarReduction", "WhiteReduction", "FiveWeights", "WaitingHead", "predict_curve",
    "order_of_learning", "CurvePrediction", "Visit", "predict_merged_curve", "effective_start", "MergedDrop", "largest_stable_step",
    "noisy_drop", "spread_of_drops", "DropSpread", "linear_attention_risk", "least_squares_risk", "bayes_bounds", "crossover_length",
    "risk_limits", "sampled_risks", "SampledRisk", "FixedPoint", "fixed_point_sets", "separate_fixed_point", "separate_fixed_points",
    "merged_fixed_points", "search_fixed_points",
]  # fmt: skip
