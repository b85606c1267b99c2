"""Figures of what models compute in context: attention beside least squares and Bayes (V9), a model of the user (V10), and depth (V13)."""

import numpy as np
import torch

from ...numerics import ModelTrajectory, RegressionTask, compile_expression, compiled, integrate
from ...numerics.tasks.risks import bayes_bounds, crossover_length, least_squares_risk, linear_attention_risk, risk_limits, sampled_risks
from ...theory.model import Model
from ...theory.notation import D, N
from ...theory.results.estimators.optimality import c
from ...theory.results.own_model.depth import DEPTHS, LAYERS, Z, layers, moment, scalar_layers
from ...theory.results.own_model.two_steps import U, descend
from ..own_model.prompts import ModelNetwork
from ..training.descent import fresh_batches, mean_squared_error, one_thread, train
from ..training.sequences import draw_sequences
from .gallery import Drawing, canvas, figure, listed
from .style import BLUE, GREEN, LOSS, ORANGE, SERIES, TIME, Theme

DIMENSION, COUNT = 8, 10_000
LENGTHS = (1, 2, 3, 4, 6, 8, 10, 13, 16, 20, 26, 32, 40, 48)
NOISE = (0.1, 1.0)  # in units of the variance of a noiseless label
NAMES = {"linear": "linear attention", "least squares": "least squares", "Bayes": "Bayes (ridge)"}
COLORS = {"linear": BLUE, "least squares": ORANGE, "Bayes": GREEN}


def setting(length: int, noise: float) -> RegressionTask:
    return RegressionTask(eigenvalues=np.full(DIMENSION, 1 / DIMENSION), context_length=length, noise_variance=noise)


@figure("optimality")
def optimality(theme: Theme) -> Drawing:
    """Exact risks as lines, sampled ones as dots, and for Bayes its limit in high dimension between its bounds."""
    picture, panels = canvas(theme, 8.2, 3.8, ncols=2, sharey=True)
    rng = np.random.default_rng(0)
    worst = dict.fromkeys(COLORS, 0.0)
    for noise, axes in zip(NOISE, panels, strict=True):
        lengths = np.arange(1, 49)
        tasks = [setting(int(length), noise) for length in lengths]
        ratios = np.linspace(1 / DIMENSION, 6, 400)
        axes.plot(lengths / DIMENSION, [linear_attention_risk(task) for task in tasks], color=BLUE)
        axes.plot(lengths / DIMENSION, [least_squares_risk(task) for task in tasks], color=ORANGE)
        axes.plot(ratios, risk_limits(ratios, noise)["Bayes"], color=GREEN, label="Bayes, limit of high dimension")
        lower, upper = np.array([bayes_bounds(task) for task in tasks]).T
        axes.fill_between(lengths / DIMENSION, lower, upper, color=GREEN, alpha=0.15, lw=0, label="bounds for Bayes")
        for length in LENGTHS:
            task = setting(length, noise)
            sampled = sampled_risks(task, count=COUNT, rng=rng)
            for name, color in COLORS.items():
                if name == "least squares" and abs(length - DIMENSION) <= 4:
                    continue  # squared errors without a finite variance: an average would say nothing
                risk = sampled[name]
                label = f"{NAMES[name]}, sampled" if length == LENGTHS[0] else None
                axes.errorbar(length / DIMENSION, risk.mean, 2 * risk.error, fmt="o", ms=3.5, color=color, label=label)
                worst[name] = max(worst[name], _deviation(name, task, risk))
        crossing = crossover_length(DIMENSION, noise) / DIMENSION
        axes.axvline(crossing, color=theme.faint, lw=1, ls=(0, (2, 2)), zorder=0)
        axes.annotate("$N_*$", (crossing, 2.0), xytext=(4, 0), textcoords="offset points", color=theme.ink)
        axes.set(xlabel="$N/D$", yscale="log", ylim=(0.01, 3), xlim=(0, 6.1), title=rf"label noise $\sigma^2 = {noise:g}\,$tr$\,\Lambda$")
    panels[0].set(ylabel=r"risk / tr$\,\Lambda$")
    panels[1].legend(loc="lower left", fontsize=8)
    caption = (
        f"Error in the noiseless target (white tokens, D = {DIMENSION}), in units of tr(Lambda). Lines: exact, except for Bayes, whose "
        f"line is the limit N = c D of high dimension. Dots: {COUNT:,} sampled sequences, bars of two standard errors; least squares "
        "has a finite mean only for N < D - 1 and N > D + 1, and squared errors of finite variance only further off. Dashed: "
        "N_* = (D + 1 + s)^2/(D + 1) with s = sigma^2/lambda: from D - 1 to N_* tokens linear attention beats least squares.\n"
        f"Largest deviation of a dot in standard errors: linear attention {worst['linear']:.1f}, least squares "
        f"{worst['least squares']:.1f}. Bayes at D = {DIMENSION} is up to {worst['Bayes']:.1%} from its limit."
    )
    return Drawing(picture, caption)


def _deviation(name: str, task: RegressionTask, risk) -> float:
    """In standard errors from the exact risk; for Bayes relative to its limit."""
    if name == "Bayes":
        limit = risk_limits(task.context_length / task.dimension, task.noise_variance)["Bayes"]
        return abs(risk.mean / float(limit) - 1)
    exact = linear_attention_risk(task) if name == "linear" else least_squares_risk(task)
    return abs(risk.mean - exact) / risk.error


TASK = RegressionTask(eigenvalues=[0.4, 0.3, 0.2, 0.1], context_length=31)
START, END, RATE, BATCH = np.zeros((4, 4)), 200.0, 0.05, 256


@figure("own-model")
def own_model(theme: Theme) -> Drawing:
    """The loss of each model in the gradient flow of its expression, and of the same expression trained by SGD."""
    picture, axes = canvas(theme, 6.4, 3.6)
    lines = []
    for steps, color in zip((1, 2, 3), SERIES, strict=False):
        model = Model(prediction=descend(steps), weights=(U,))
        flow = integrate(model, TASK, initial={U: START}, t_end=END, rtol=1e-6)
        times = np.linspace(0, END, 400)
        name = f"{steps} step{'s' if steps > 1 else ''}"
        axes.plot(times, flow.loss_at(times), color=theme.theory, lw=1.2, label="gradient flow" if steps == 1 else None)
        trained_times, trained = _trained(model)
        axes.plot(trained_times, trained, "o", color=color, ms=4, label=f"{name}, trained")
        gap = np.abs(trained / flow.loss_at(trained_times) - 1).max()
        lines.append(f"{name}: final loss {flow.loss[-1]:.4f}; trained within {gap:.2%} of the flow at every point.")
    axes.set(xlabel=TIME, ylabel=LOSS, ylim=(0, None), xlim=(0, END))
    axes.legend()
    caption = (
        f"Gradient descent in context with a learned preconditioner U (D = 4, N = 31, eigenvalues {listed(TASK.eigenvalues, 'g')}), "
        f"from U = 0. Loss and flow are derived from the one expression of the prediction; dots: the expression as a PyTorch network, "
        f"trained by SGD (step {RATE:g}, batch {BATCH}) and tested on 20,000 prompts. One step is linear attention."
    )
    return Drawing(picture, "\n".join([caption, *lines]))


def _trained(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Test losses along one run of SGD, at points evenly spread over the figure."""
    network = ModelNetwork(model, TASK, {U: START})
    steps = round(END / (2 * RATE))
    with one_thread():
        batches = fresh_batches(TASK, BATCH, torch.Generator().manual_seed(0))
        run = train(network, batches, steps=steps, learning_rate=RATE, record_every=steps // 20, progress=False)
        prompts = draw_sequences(TASK, 20_000, torch.Generator().manual_seed(1))
        with torch.no_grad():
            losses = [mean_squared_error(network, {"U": torch.tensor(state)}, prompts).item() for state in run.states["U"]]
    return run.times, np.array(losses)


WHITE_TASK, DEEP_END, STEPS = RegressionTask(eigenvalues=np.ones(3), context_length=9), 24.0, 2400
SPREADS = (0.1, 1e-3, 1e-5)  # half the difference of two layers at the start


def _best(depth: int) -> tuple[float, np.ndarray]:
    """The least loss of so many layers over tr(Lambda), and the layers, from the exact moments."""
    sizes = (WHITE_TASK.dimension, WHITE_TASK.context_length)
    m = [compile_expression(moment(k), (D, N))(*sizes) for k in range(1, 2 * depth + 1)]
    fitted = np.linalg.solve([[m[i + j + 1] for j in range(depth)] for i in range(depth)], m[:depth])
    return float(1 - fitted @ m[:depth]), 1 / np.roots([*-fitted[::-1], 1.0]).real


def _flow(start: np.ndarray, t_end: float) -> ModelTrajectory:
    """One number for each layer, in time tau/lambda^3."""
    initial = dict(zip(Z, start, strict=False))
    return integrate(scalar_layers(len(start)), WHITE_TASK, initial=initial, t_end=t_end, tau=WHITE_TASK.dimension, rtol=1e-8)


@figure("depth")
def depth(theme: Theme) -> Drawing:
    """Loss and layers over time for one to four layers, the plateau of two that are nearly equal, and high dimension."""
    picture, ((left, numbers), (plateau, right)) = canvas(theme, 9.0, 6.4, nrows=2, ncols=2)
    size, ratios, lines, steps = WHITE_TASK.dimension, np.geomspace(0.1, 10, 200), [], STEPS // theme.share
    for count, color in zip(DEPTHS, SERIES, strict=False):
        start, times = np.linspace(0.3, -0.3, count) if count > 1 else np.zeros(1), np.linspace(0, DEEP_END, 400)
        flow = _flow(start, DEEP_END)
        network = ModelNetwork(layers(count), WHITE_TASK, {one: x * np.eye(size) for one, x in zip(LAYERS, start, strict=False)})
        batches = fresh_batches(WHITE_TASK, 1024, torch.Generator().manual_seed(count))
        with one_thread():
            run = train(network, batches, steps=steps, learning_rate=DEEP_END / (2 * steps), record_every=steps // 60, progress=False)
        paths = np.array([np.trace(run.states[str(one)], axis1=1, axis2=2) / size for one in LAYERS[:count]])
        trained, (least, best) = np.array([flow.objective.value(point) for point in paths.T]) / size, _best(count)
        left.plot(run.times, trained, color=color, lw=4, alpha=0.35)
        left.plot(times, flow.loss_at(times) / size, color=color, label=f"{count} layer" + "s" * (count > 1))
        left.axhline(least, color=color, lw=0.9, ls=(0, (4, 3)), zorder=1)
        for path, reached, end in zip(paths, flow.at(times).values(), sorted(best, reverse=True), strict=True):
            numbers.plot(run.times, path, color=color, lw=4, alpha=0.35)
            numbers.plot(times, reached, color=color)
            numbers.plot(1.03 * DEEP_END, end, "<", color=color, ms=4)
        for part, style in (("best", "-"), ("loops", (0, (4, 3)))):
            right.plot(ratios, compiled("V13-limit", (c,), part=f"{count} {part}")(ratios), color=color, ls=style)
        lines.append(f"{count}: trained to {np.mean(trained[-10:]):.4f}, flow {flow.loss_at(DEEP_END) / size:.4f}, best {least:.4f}.")
    for spread, color in zip(SPREADS, SERIES, strict=False):
        flow, times = _flow(np.array([spread, -spread]), 60.0), np.linspace(0, 60, 1000)
        plateau.plot(times, np.transpose([*flow.at(times).values()]), color=color)
        plateau.plot([], [], color=color, label=f"apart by {2 * spread:g}")
    for end in _best(2)[1]:
        plateau.axhline(end, color=theme.theory, lw=0.9, ls=(0, (4, 3)), zorder=1)
    for name, color in zip(("one", "two"), SERIES, strict=False):
        lengths = np.array([2, 4, 10, 20, 60, 100])
        right.plot(lengths / 10, compiled("V13-white", (D, N), part=f"{name} at best")(10, lengths), "o", color=color, ms=4)
    time = r"training time $t\lambda^3/\tau$"
    left.set(xlabel=time, ylabel=r"loss / tr$\,\Lambda$", yscale="log", xlim=(0, DEEP_END))
    numbers.set(xlabel=time, ylabel="layers $z_l$", xlim=(0, 1.06 * DEEP_END))
    plateau.set(xlabel=time, ylabel="two layers, nearly equal", xlim=(0, 60), ylim=(0, None))
    right.set(xlabel="$c = N/D$", ylabel=r"best loss / tr$\,\Lambda$", xscale="log", yscale="log", xlim=(0.1, 10), ylim=(1e-4, 1))
    left.legend(loc="upper right")
    plateau.legend(loc="lower right")
    caption = (
        f"Layers of linear attention on white tokens (V13), D = {size}, N = {WHITE_TASK.context_length}. (a), (b) From multiples of the "
        "identity between -0.3 and 0.3; thin: the flow of one number for each layer; thick, pale: matrices trained by SGD, their trace "
        "over D; dashed and triangles: the best polynomial. (c) The flow of two layers, with a plateau at the best loops; dashed: "
        "the best polynomial. (d) High dimension, separate layers (lines) and loops (dashed); dots: exact, one and two layers, D = 10.\n"
        "Loss by layers: " + " ".join(lines)
    )
    return Drawing(picture, caption)
