"""How far two routes to one number may differ, and why: by rounding, a solver, finite steps, sampling or what an expansion leaves out."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Tolerance:
    """A bound on a residual, and why it is that large."""

    value: float
    reason: str

    def __post_init__(self) -> None:
        if not 0 <= self.value < math.inf:
            raise ValueError(f"value must be a finite number of at least 0, got {self.value!r}")
        if not self.reason:
            raise ValueError("reason must say why the tolerance is that large, got an empty string")


EXACT = Tolerance(0.0, "rational arithmetic does not round")
ROUNDOFF = Tolerance(1e-11, "float64 carries 16 digits, and sums of some thousand terms lose up to five")
HIGH_PRECISION = Tolerance(1e-40, "50 digits, of which a few sums and roots lose less than ten")

DIFFERENCES = Tolerance(1e-9, "central differences of steps 1e-5, and a force known to 1e-16 over weights of 1e-4 squared")

SOLVER = Tolerance(1e-6, "the flow is integrated to a relative tolerance of 1e-8 a step, some hundred steps")
SOLVER_TIGHT = Tolerance(1e-7, "integrated to a relative tolerance of 1e-10 a step, some hundred steps")

PLATEAU = Tolerance(1e-3, "a plateau has its saddle's loss only as the initial weights go to zero: at 0.01 within 1e-4")

SAMPLING = Tolerance(4.5, "in standard errors: among 16 averages chance exceeds 4.5 once in ten thousand seeds")

COUNT = Tolerance(0.0, "a count is right or wrong")
CONVERGED = Tolerance(1e-6, "the flow has a relative tolerance of 1e-8 a step, and approaches its end exponentially")
FEW_PLATEAUS = Tolerance(1.5, "a start in three lingers once; one plateau for each component would be four")
OTHER_RESTS = Tolerance(
    1 / 3, "a head may turn slowly past another saddle, in one task of ten: among 24, chance exceeds 8 once in three thousand"
)
OUTSIDE = Tolerance(3 / 32, "at most one drop in a hundred lies outside: among 32, chance exceeds 3 once in three thousand")
DROP_TIME = Tolerance(1e-4, "solver errors add up while a small start grows, and move the drop")

LEADING_ORDER = Tolerance(3e-2, "the next order in the initial scale is left out: a few times 1e-2 or less")
CONVERGED_RATE = Tolerance(5e-2, "over three decades of the excess loss the next slowest mode adds a few per cent to the slope")
RISE = Tolerance(0.1, "over 16 starts a term without the logarithm moves the power by up to 0.06")
SECOND_ORDER = Tolerance(1e-3, "the error is the square of the initial scale 1e-2, times a number of order one")
ALIGNMENT = Tolerance(1e-3, "one minus a cosine is second order in an angle that shrinks with the initial scale")

TRAINED_PLATEAU = Tolerance(1e-2, "steps of 0.4 on batches of 1024 add 0.4 % to the last plateau, in proportion to step over batch")
TRAINED_END = Tolerance(2e-3, "averaging the map over the last tenth of the run leaves a few 1e-4 of the noise")
TRAINED_EARLY_DROPS = Tolerance(
    5e-2, "over mini-batch seeds they scatter by 1 % (standard deviation), and a step of 0.4 delays the first by 1.6 %"
)
TRAINED_CURVE = Tolerance(2e-2, "mini-batches shift drops by a few per cent of their time: 0.6 to 3 % in single runs")
PLATEAUS_SHOWN = Tolerance(0.3, "mini-batches hide one plateau in five, over 8 starts 5 to 25 %")
SAME_COMPUTATION = Tolerance(1e-9, "the same arithmetic in another order, its rounding amplified along the run")
TRAINED_SIGMOID = Tolerance(3e-2, "steps of 1/80 on batches of 2,048 move the rise by a few per cent of its height")
TRAINED_ALGORITHM = Tolerance(1e-2, "squared error over squared prediction; waiting heads and mini-batch noise leave some thousandths")
TRAINED_VARIATION = Tolerance(2e-2, "steps of 0.2 on batches of 512 to 2048 add up to 1.4 % to the last plateau, with noise or heavy tails")
TRAINED_LEVEL = Tolerance(3e-3, "the map averaged over the middle half of a plateau; measured at most 1.1e-3, with heavy tails")
TRAINED_PROMPTS = Tolerance(
    3e-2,
    "at least 200,000 squared errors with heavy tails give their mean to 0.3 to 0.9 %; averaged maps leave 1.1 % at three times the scale",
)
TRAINED_VALUES = Tolerance(3e-2, "averaged over half a plateau, in the median of starts: a head keeps a per cent along other directions")
TRAINED_REST = Tolerance(2e-2, "averaged maps of trained networks; what is left of a force is of first order in their error")
RARE_DIRECTION = Tolerance(1e-5, "a share of 1e-7 of the variance, times the length and a number of order one")
TURNING_LEVEL = Tolerance(1e-2, "a head turns away exponentially, so that its plateau is not quite flat: 0.5 % from one start in twenty")
MINIMISER = Tolerance(1e-5, "the constrained minimiser stops at changes of 1e-12 of the objective, which leave a slope of 1e-6")

IN_WEIGHT_CURVES = Tolerance(
    5e-2, "sets of 250,000 sequences move a drop by some 0.1 of t/tau: in mid-drop 1.4 % in the median of six seeds, at most 3.1 %"
)
IN_WEIGHT_SGD = Tolerance(
    3e-2,
    "64 steps of 8 batches of 512 give the training loss to 0.6 %, in the worst window to three times that; batches and steps "
    "move drops by 0.05 of t/tau; measured at most 2.1 %",
)
FIVE_WEIGHTS = Tolerance(
    1e-2, "of the order of the initial scale 1e-3 to the power 0.86, 2.7e-3, by (V6-error); 0.0002 to 0.003 in 8 seeds"
)
ERROR_EXPONENT = Tolerance(12e-2, "between scales of 1e-5 and 1e-7 faster terms still count: 0.02 to 0.08 above the limit in 8 seeds")
LEAK_EARLY = Tolerance(0.12, "the slope over 12 sets of each size has a standard error of 0.03")
LEAK_AT_END = Tolerance(0.1, "the slope over 12 sets of each size has a standard error of 0.02, and corrections of P^(-1/4)")
IDLE_SIZE = Tolerance(
    1e-2, "the flow conserves |W|^2 - |nu|^2, the square of the initial scale 1e-3, beside weights of 0.017 to 0.036; measured 0.1 %"
)
IDLE_POWERS = Tolerance(2e-2, "the square of the initial scale is 1 % of that of the smallest weights; in 10 seeds at most 0.015")
ORDINARY_POWERS = Tolerance(8e-2, "medians of 7 sets: in 8 seeds at most 0.03 in the matrices, 0.003 in rows and columns")
TIME_POWERS = Tolerance(25e-2, "the time holds a logarithm of P: in 10 seeds 0.45 to 0.47, and 0.10 to 0.19")
ORDINARY_SIZE = Tolerance(3e-2, "the square of the size, of some 0.01, that is left out; in 10 seeds 0.001 to 0.007")
SIZE_POWER = Tolerance(2e-2, "the drop itself turns larger blocks; in 10 seeds at most 0.003")
CROSSING_POWER = Tolerance(2e-2, "read to 1 % of the number of sequences; in 10 seeds at most 0.003")
NOTHING_GROWS = Tolerance(1e-3, "relative: integrated to 1e-8 a step over a time of 1e5; at the first reading the drop is over up to 1e-5")
ONE_SPECTRUM = Tolerance(
    6e-2, "over 20 contexts in 1,000 dimensions the averages scatter by up to 0.011 about up to 0.006 beside the limit: 4.5 times that"
)
TRAINED_DEPTH = Tolerance(
    4e-2, "of numbers of order one: steps of 0.005 on batches of 1,024 leave up to 0.02 in the steepest of three layers"
)
OWN_MODEL = Tolerance(1e-2, "of the initial loss: steps of 0.05 on batches of 512 leave some thousandths of mini-batch noise")
HIGH_DIMENSION = Tolerance(
    5e-3, "averages over 1,600 and 800 contexts leave a thousandth, in the worst of six cases three; extrapolation in 1/D less"
)
LARGE_DIMENSION = Tolerance(
    1e-2, "averages over 400 and 200 draws of tasks leave some thousandths, extrapolation from 40 and 80 dimensions as much"
)
TRAINED_RISK = Tolerance(1.5e-2, "the mean of a million squared errors is known to 0.3 %, steps of 0.05 on batches of 1024 add 0.1 %")
STABLE = Tolerance(1e-2, "bisected ten to fourteen times, between growth and decay over a finite time")
ORDER = Tolerance(0.2, "a slope fitted to two or three steps, each half the one before, contains the next order of the largest")
NEXT_STEP_ORDER = Tolerance(3e-2, "the next order in the step: a fiftieth of the delay, halved with each halving")
SECOND_ORDER_OF_STEP = Tolerance(1e-3, "h^2 times the square of the rate, over 12: some 1e-4 for steps of a tenth of the time scale")
ROOTS = Tolerance(1e-6, "two roots that meet are known to half the digits of float64")
INERTIA = Tolerance(2e-2, "the head is stopped at half its final size, with a hundredth of the time left to go")
TRAINED_MOMENTUM = Tolerance(5e-3, "in units of the initial loss: the square of a step's time over a drop's, and measured of that size")
ADAM_CONSERVES = Tolerance(
    3e-2, "the gradients of a head's weights grow alike but for the start; the laws of gradient flow change more than the weights"
)
SCALES = Tolerance(0.1, "the scales are not all far below the weights at the end of the plateau, nor one step of them: 0.05")
STEP_OF_TIME = Tolerance(1e-3, "a step or two in several thousand of the time")
GROWING_SPEED = Tolerance(1e-2, "the means still hold the first steps, whose gradients are of another law: some thousandths")
NOISE_OF_TIMES = Tolerance(
    0.05, "4,000 runs give a standard deviation to 1.1 %; the next order in the noise takes 1 to 2 % at a batch of 16"
)
SHARE = Tolerance(5e-3, "the drop along the ray is over and the tail is 400 times slower: about a thousandth of each shows")
TRAINED_SHARE = Tolerance(1e-2, "mini-batches of 512 keep the loss some thousandths of its fall above the plateau")
TRAINED_HALF = Tolerance(3e-2, "the bounds agree to 1e-5 there; steps and mini-batches move the drop by a few per cent")
TURNING = Tolerance(
    6e-2, "of the whole fall: the square of the angle between flow and ray; 4.6 % at 3/gamma for four eigenvalues between 0.2 and 0.8"
)
NOISE_OF_A_DROP = Tolerance(
    0.1, "800 runs give the width of their middle to 3.5 %; the second order of the noise takes some 2 % at a batch of 16"
)
