"""Claims about momentum (V8-ball, V8-mass, V8-energy): the flow with mass against heavy ball, in NumPy and in PyTorch."""

from collections.abc import Callable
from itertools import product

import numpy as np
from scipy.integrate import simpson

from ....numerics import QuadraticLoss, RegressionTask, SampleMoments, SeparateWeights, merged_fixed_points, separate_fixed_point
from ....numerics.dynamics.momentum import MassiveTrajectory, flow_with_mass, heavy_ball
from ....numerics.parametrizations.base import Parametrization, vector_field
from ....theory.notation import lambda_, v_0
from ....theory.results.discretisation.finite_steps import eta, mu
from ....theory.results.discretisation.momentum import W_dot, g, k_dot, m, q_dot, v_dot
from ...experiments import draws
from ...training.descent import fixed_set, train
from ...training.modules import ReducedSeparate
from ...training.sequences import draw_sequences
from ..book import claim, wrong
from ..formulas import formula, parts_of, power_law, times
from ..tolerances import INERTIA, ORDER, ROOTS, SECOND_ORDER_OF_STEP, TRAINED_MOMENTUM
from .finite_steps import LOSS, TASK, random_start

Rule = Callable[[float, float], float]  # of the step and the momentum
_BALL_MASS, _BALL_START = (formula("V8-ball", eta, mu, part=part) for part in ("mass", "start"))


def follow(
    mass: Rule = _BALL_MASS, start: Rule = _BALL_START
) -> Callable[[QuadraticLoss, Parametrization, float, float, float], MassiveTrajectory]:
    """The flow for a step, a momentum and a time, with the mass and the share of the force in the first velocity as derived."""

    def run(loss, weights, step: float, momentum: float, t_end: float) -> MassiveTrajectory:
        velocity = start(step, momentum) * vector_field(loss, weights)(0.0, weights.flatten())
        moving = weights.unflatten(velocity)
        return flow_with_mass(loss, weights, moving, mass=mass(step, momentum), t_end=t_end, rtol=1e-10)

    return run


FIRST_ORDER, LIGHT, FROM_REST = (
    follow(mass=lambda step, momentum: 2 * step / (1 - momentum) ** 2),
    follow(mass=lambda step, momentum: step / (1 - momentum)),
    follow(start=lambda step, momentum: 0.0),
)


@claim("V8-ball", method="descent", tolerance=ORDER, theory=follow())
@wrong("the first-order mass 2 eta/(1 - mu)^2", FIRST_ORDER)
@wrong("no more mass than a step", LIGHT)
@wrong("from rest", FROM_REST)
def order_at_fixed_momentum(flow) -> float:
    """Heavy ball at momentum 0.5 approaches the flow with mass as the square of the step: the fitted order, amid drops."""

    def error(step: float) -> float:
        count = round(120 * 0.5 / (2 * step))
        run = heavy_ball(LOSS, random_start(), steps=count, learning_rate=step, momentum=0.5, record_every=count)
        return float(np.linalg.norm(run.states[-1] - flow(LOSS, random_start(), step, 0.5, run.times[-1]).states[-1]))

    return abs(power_law([0.05, 0.025, 0.0125], error) - 2)


@claim("V8-ball", method="descent", tolerance=ORDER, theory=follow())
@wrong("the first-order mass 2 eta/(1 - mu)^2", FIRST_ORDER)
@wrong("no more mass than a step", LIGHT)
@wrong("from rest", FROM_REST)
def order_at_fixed_mass(flow) -> float:
    """At a mass of 20, at which the weights swing, heavy ball approaches the flow in proportion to eta: the fitted order in its root."""

    def error(friction: float) -> float:  # 1 - mu
        step, momentum = 20 * friction**2 / (2 - friction), 1 - friction
        run = heavy_ball(LOSS, random_start(), steps=round(120 * friction / (2 * step)), learning_rate=step, momentum=momentum)
        return float(np.abs(flow(LOSS, random_start(), step, momentum, run.times[-1]).states_at(run.times) - run.states).max())

    return abs(power_law([0.08, 0.04, 0.02], error) - 2)


@claim("V8-ball", method="training", tolerance=TRAINED_MOMENTUM, theory=follow())
@wrong("no more mass than a step", LIGHT)
@wrong("half the mass", follow(times(1 / 2)(_BALL_MASS)))
@wrong("twice the mass", follow(times(2)(_BALL_MASS)))
def trained_with_momentum(flow) -> float:
    """The loss of a rank-one attention trained in PyTorch with momentum 0.9 and 0.99 on 200 sequences, over the initial loss."""
    X, y = draw_sequences(TASK, 200, draws.torch_generator(12))
    loss, weights, worst = (SampleMoments.from_batches([(X.mT.numpy(), y.numpy())], context="mean").reduced().loss(), random_start(), 0.0)
    for momentum, step in ((0.9, 0.05), (0.99, 0.002)):
        count = round(150 * (1 - momentum) / (2 * step))
        run = train([ReducedSeparate(weights)], fixed_set((X, y)), steps=count, learning_rate=step, momentum=momentum, progress=False)
        curve = flow(loss, weights, step, momentum, run.times[-1]).loss_at(run.times)
        worst = max(worst, float(np.abs(run.batch_loss[:, 0] - curve).max() / run.batch_loss[0, 0]))
    return worst


@claim("V8-mass", method="descent", tolerance=SECOND_ORDER_OF_STEP, theory=formula("V8-mass", g, m, part="escape"))
@wrong("the rate of gradient flow", lambda force, mass: force)
@wrong("half the mass", {m: m / 2})
@wrong("the limit of a large mass", lambda force, mass: (force / mass) ** (1 / 2))
def rate_of_escape(rate) -> float:
    """The rate at which heavy ball leaves the saddle of merged attention at the origin, at masses of 0.5, 5 and 50."""
    saddle, errors = merged_fixed_points(TASK, heads=2)[0], []
    values, vectors = np.linalg.eigh(saddle.weights.hessian(LOSS))
    start = saddle.weights.unflatten(saddle.weights.flatten() + 1e-9 * vectors[:, 0])
    for mass in (0.5, 5.0, 50.0):
        step, momentum = of_mass(mass, 0.2)
        expected = rate(-values[0], mass)
        run = heavy_ball(LOSS, start, steps=round(60 / expected), learning_rate=step, momentum=momentum)
        sizes = np.log(np.linalg.norm(run.states - saddle.weights.flatten(), axis=1))
        late = run.times > 0.75 * run.times[-1]
        errors.append(abs(np.polyfit(run.times[late], sizes[late], 1)[0] / expected - 1))
    return float(max(errors))


@claim("V8-mass", method="linear algebra", tolerance=ROOTS, theory=parts_of("V8-mass", {"ball rings": (mu,), "flow rings": ()}))
@wrong("swings from twice the mass", {"flow rings": times(2)})
@wrong("swings from the limit of momentum near 1", {"ball rings": lambda momentum: (1 - momentum) ** 2 / 8})
def where_weights_swing(bounds) -> float:
    """The step and the mass at which the fastest mode near the global minimum starts to swing, bisected from eigenvalues."""
    point = separate_fixed_point(TASK, range(4), heads=4)
    hessian = point.weights.hessian(LOSS)
    curvature, unit, zero = float(point.spectrum[-1]), np.eye(len(hessian)), np.zeros_like(hessian)
    errors = []
    for momentum in (0.3, 0.9):

        def ball(step: float, momentum: float = momentum) -> np.ndarray:
            return np.block([[(1 + momentum) * unit - 2 * step * hessian, -momentum * unit], [unit, zero]])

        errors.append(_edge(ball, 1e-4, 1.0) * curvature / bounds["ball rings"](momentum) - 1)
    edge = _edge(lambda mass: np.block([[zero, unit], [-hessian / mass, -unit / mass]]), 1e-2, 10.0)
    errors.append(edge * curvature / bounds["flow rings"]() - 1)
    return float(np.abs(errors).max())


@claim("V8-mass", method="descent", tolerance=INERTIA, theory=formula("V8-mass", lambda_, m, v_0, part="drop"))
@wrong("inverse in the start, like gradient flow", {v_0: v_0**2})
@wrong("linear from rest", lambda lam, mass, start: (mass / start) ** (1 / 2) / lam * 2)
@wrong("half the mass", {m: m / 2})
def drop_by_inertia(time) -> float:
    """The time in which a head grows from 1e-5 at a mass of 1e10, from heavy ball, whose momentum is 1 - 4e-6."""
    task, mass, start = RegressionTask(eigenvalues=[0.8], context_length=20), 1e10, 1e-5
    expected = time(0.8, mass, start)
    step, momentum = of_mass(mass, 2.5e4)
    weights = SeparateWeights(np.array([start]), np.full((1, 1, 1), start), np.full((1, 1, 1), start))
    run = heavy_ball(QuadraticLoss.population(task), weights, steps=5000, learning_rate=step, momentum=momentum)
    grown = int(np.argmax(run.states[:, 0] > 0.5))
    return abs(float(run.times[grown]) / expected - 1)


_OF_HEAD = (m, k_dot, q_dot, v_dot)
_ENERGY = parts_of("V8-energy", {"energy": (W_dot,), "query": _OF_HEAD, "value": _OF_HEAD})


@claim("V8-energy", method="flow", theory=_ENERGY)
@wrong("energy lost at half the rate", {"energy": times(1 / 2)})
@wrong("balance conserved", dict.fromkeys(("query", "value"), lambda *values: 0.0))
@wrong("value for query", {"query": _ENERGY["value"]})
def energy_and_balance(rates) -> float:
    """The energy, and the balance of each head's key with its query and value, integrated along the flow at a mass of 20."""
    mass, times, start = 20.0, np.linspace(0, 100, 401), random_start()
    flow = flow_with_mass(LOSS, start, mass=mass, t_end=times[-1], rtol=1e-10)
    speeds = flow.velocities_at(times)
    lost = simpson([float(rates["energy"](speed[:, None])) for speed in speeds], x=times)
    errors = [lost - (flow.energy[-1] - flow.energy[0])]
    places, moving = (dict(zip("vkq", start.split(states), strict=True)) for states in (flow.states_at(times), speeds))
    for i, (part, other) in product(range(len(start.v)), (("query", "q"), ("value", "v"))):
        key, partner, key_speed, speed = (of[name][:, i].reshape(len(times), -1) for of in (places, moving) for name in ("k", other))
        balance = np.sum(key**2, axis=1) - np.sum(partner**2, axis=1)
        rate = 2 * np.sum(key * key_speed, axis=1) - 2 * np.sum(partner * speed, axis=1)
        given = (moving["k"][:, i, 0], moving["q"][:, i, 0], moving["v"][:, i])
        pulled = [float(rates[part](mass, k[:, None], q[:, None], v)) for k, q, v in zip(*given, strict=True)]
        errors.append(simpson(pulled, x=times) - (mass * rate + balance)[[0, -1]] @ [-1, 1])
    return float(np.abs(errors).max())


def of_mass(mass: float, advance: float) -> tuple[float, float]:
    """The step on L and the momentum with which heavy ball has this mass and each step counts as ``advance`` of t/tau."""
    friction = 2 * advance / (2 * mass + advance)
    return advance * friction / 2, 1 - friction


def _edge(matrix: Callable[[float], np.ndarray], low: float, high: float) -> float:
    """The parameter at which eigenvalues of a matrix become complex, bisected on a logarithmic scale."""
    for _ in range(40):
        middle = (low * high) ** 0.5
        swings = np.abs(np.linalg.eigvals(matrix(middle)).imag).max() > 1e-6
        low, high = (low, middle) if swings else (middle, high)
    return low
