"""Figures of other tasks: label noise (V1), contexts of random length (V4), laws of tokens (V5); and of weight decay (V12)."""

from dataclasses import replace

import numpy as np
from matplotlib.axes import Axes

from ...numerics import QuadraticLoss, RegressionTask, SeparateWeights, compiled, find_plateaus, gradient_flow
from ...theory.notation import N, T, a, lambda_, tau
from ...theory.results.landscape.fixed_points import v_positive as size
from ...theory.results.variations.token_laws import kappa
from ...theory.results.variations.weight_decay import decay, wait
from ..experiments import varied_tasks as varied
from ..experiments.prefixes import prefix_loss, prefix_plateaus, prefix_training
from ..experiments.setting import DEFAULT
from ..experiments.staircase import flow as default_flow, trained_loss as default_loss, training as default_training
from ..experiments.varied_tasks import LENGTH, LONGEST, NOISY, OFFICIAL, PLAIN, RUNS, SHORT, SPECTRUM, STUDENT
from .gallery import Drawing, canvas, figure, listed
from .style import LOSS, SERIES, TIME, Theme


def _curve(axes: Axes, name: str, color: str, label: str, theme: Theme, less: float = 0.0) -> None:
    """The trained loss, thick and pale, the flow's over it, and the levels of theory."""
    times = np.linspace(1.0, RUNS[name].duration, 1500)
    axes.plot(varied.training(name, theme.share).times, varied.trained_loss(name, theme.share) - less, color=color, lw=4.0, alpha=0.35)
    axes.plot(times, varied.flow(name).loss_at(times) - less, color=color, lw=1.3, label=label)
    for level in varied.levels(RUNS[name].task):
        axes.axhline(level - less, color=color, lw=0.9, ls=(0, (4, 3)), zorder=1)
    axes.set(xlabel=TIME, ylabel=LOSS, xlim=(0, RUNS[name].duration))


def _compared(theme: Theme, *names: str) -> str:
    trained = {name: varied.trained_plateaus(name, theme.share) for name in names}
    return "\n".join(
        f"{name}: theory {listed(varied.levels(RUNS[name].task))}; trained {listed(found.levels)}; drops at t/tau = "
        f"{listed(varied.plateaus(name).drops, '.0f')} (flow), {listed(found.drops, '.0f')} (trained)."
        for name, found in trained.items()
    )


ROOM = (0, 1.55)  # above the first plateau, for the legend
SETTING = (
    f"Separate attention, D = 3, N = {LENGTH}, H = 4, eigenvalues {listed(SPECTRUM, 'g')}, initial scale 0.1. Thin: gradient flow; "
    "thick, pale: PyTorch on fresh sequences, its population loss; dashed: theory."
)


@figure("noise")
def noise(theme: Theme) -> Drawing:
    """Label noise: plateaus move up, drops stay where they are; the end as a function of the noise."""
    picture, (left, right) = canvas(theme, 8.4, 3.4, ncols=2)
    _curve(left, "plain", SERIES[0], r"$\sigma^2 = 0$", theme)
    _curve(left, "noise", SERIES[1], r"$\sigma^2 = 1$", theme, less=NOISY.noise_variance)
    left.set(ylabel=r"loss $\mathcal{L} - \sigma^2$", ylim=ROOM)
    left.legend(loc="upper right", ncols=2)
    variances = np.linspace(0, 4, 81)
    for length, color in zip((5, 10, 40, 160), SERIES[2:], strict=False):
        tasks = [RegressionTask(eigenvalues=SPECTRUM, context_length=length, noise_variance=float(one)) for one in variances]
        right.plot(variances, [varied.levels(task)[-1] - task.noise_variance for task in tasks], color=color, label=f"N = {length}")
    right.axhline(sum(SPECTRUM), color=theme.faint, lw=1, ls=(0, (4, 3)))
    small = {"va": "top", "color": theme.ink, "fontsize": 9}
    right.annotate("nothing learned", (4, sum(SPECTRUM)), (0, -4), "data", "offset points", ha="right", **small)
    ends = {0.0: "plain", NOISY.noise_variance: "noise"}
    marks = [varied.trained_plateaus(name, theme.share).levels[-1] - variance for variance, name in ends.items()]
    right.plot(list(ends), marks, "o", color=SERIES[3], mec=theme.ink, ms=6, label="trained, N = 10")
    right.set(xlabel=r"label noise $\sigma^2$", ylabel=r"final loss $-\,\sigma^2$", xlim=(-0.05, 4.05), ylim=ROOM)
    right.legend(loc="upper right", ncols=3, columnspacing=1.0, handlelength=1.4)
    caption = (
        f"Label noise (V1). {SETTING} The loss is drawn minus the noise of the target. Noise adds to tr(Lambda) in a_d: it moves "
        f"the plateaus, not the first drops. {varied.SELECTED}\n{_compared(theme, 'plain', 'noise')}"
    )
    return Drawing(picture, caption)


@figure("tokens")
def tokens(theme: Theme) -> Drawing:
    """Tokens of other laws: the same steps at other levels."""
    picture, axes = canvas(theme, 6.8, 3.8)
    laws = {"Student": f"Student, {varied.DEGREES} degrees of freedom", "plain": "Gaussian", "sphere": "on an ellipsoid", "signs": "signs"}
    for (name, label), color in zip(laws.items(), SERIES, strict=False):
        _curve(axes, name, color, label, theme)
    axes.set(ylim=ROOM)
    axes.legend(loc="upper right", ncols=4, columnspacing=1.2)
    alike = compiled("V5-elliptical", (lambda_, T, kappa, N), part="length")
    heavy = STUDENT.token_law.kappa(3)  # pyright: ignore[reportAttributeAccessIssue]
    lengths = alike(PLAIN.eigenvalues, sum(SPECTRUM), heavy, LENGTH)
    caption = (
        f"Tokens of other laws with the same covariance (V5). {SETTING} Heavy tails act like a shorter context, of another length for "
        f"each direction: Student's {LENGTH} tokens, with kappa = {heavy}, are worth {listed(lengths, '.2f')} "
        f"Gaussian ones; the drops come at almost the same times. The spikes of trained curves are steps on rare, large sequences. "
        f"{varied.SELECTED}\n{_compared(theme, *laws)}"
    )
    return Drawing(picture, caption)


# The name of the run, its task, and what the sum over n tokens is divided by.
NORMALISATIONS = {"random length": (SHORT, "by $n$"), "longest": (LONGEST, "by $N$"), "official": (OFFICIAL, "by $n + 1$ (official)")}


def _trained(name: str, share: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Times, losses and plateau losses of the trained network; all prefixes of plain sequences for the official code's."""
    if name == "official":
        return prefix_training(share).times, prefix_loss(share), prefix_plateaus(share).levels
    return varied.training(name, share).times, varied.trained_loss(name, share), varied.trained_plateaus(name, share).levels


@figure("random-length")
def random_length(theme: Theme) -> Drawing:
    """Contexts of random length, averaged in three ways: levels and times, and the loss left by long contexts."""
    picture, (left, right) = canvas(theme, 9.2, 3.8, ncols=2)
    longest = max(RUNS[name].duration for name in NORMALISATIONS)
    lengths = np.unique(np.geomspace(1, 1000, 40).round().astype(int))
    lines = []
    for (name, (task, label)), color in zip(NORMALISATIONS.items(), SERIES, strict=False):
        times, losses, reached = _trained(name, theme.share)
        left.plot(times, losses, color=color, lw=4.0, alpha=0.35)
        fine = np.linspace(0.0, RUNS[name].duration, 1500)
        left.plot(fine, varied.flow(name).loss_at(fine), color=color, lw=1.3, label=f"sum divided {label}")
        for level in varied.levels(task):
            left.axhline(level, color=color, lw=0.9, ls=(0, (4, 3)), zorder=1)
        gain = {"random length": "present"}.get(name, name)
        ends = [
            varied.levels(RegressionTask(eigenvalues=SPECTRUM, context_lengths=range(1, int(n) + 1), context_gain=gain))[-1]
            for n in lengths
        ]
        right.plot(lengths, ends, color=color, label=f"divided {label}")
        right.plot([LENGTH], reached[-1:], "o", color=color, mec=theme.ink, ms=6)
        lines.append(f"{name}: theory {listed(varied.levels(task))}; trained {listed(reached)}; N_e = {task.effective_context_length:.3f}.")
    left.set(xscale="log", xlabel=TIME, ylabel=LOSS, xlim=(20, longest), ylim=(0.5, 1.62))
    left.legend(loc="upper right")
    fixed = [varied.levels(RegressionTask(eigenvalues=SPECTRUM, context_length=int(n)))[-1] for n in lengths]
    right.plot(lengths, fixed, color=theme.ink, lw=1.0, ls=(0, (4, 3)), label="all contexts of $N$")
    right.axhline(sum(SPECTRUM) / 4, color=theme.faint, lw=1, ls=(0, (1, 2)))
    small = {"va": "top", "color": theme.ink, "fontsize": 9}
    right.annotate(r"$\mathrm{tr}\,\Lambda/4$", (1, sum(SPECTRUM) / 4), (4, -3), "data", "offset points", **small)
    right.set(xscale="log", xlabel="longest context $N$", ylabel="final loss", xlim=(1, 1000), ylim=(0, sum(SPECTRUM)))
    right.legend(loc="upper right")
    caption = (
        f"Contexts of n tokens, n uniform on 1 to N (V4), with sums over a context divided in three ways. (a) Separate attention, D = 3, "
        f"N = {LENGTH}, H = 4, eigenvalues {listed(SPECTRUM, 'g')}, initial scale 0.1; thin: gradient flow; thick, pale: PyTorch, its "
        "population loss, in the official code's way on all prefixes of plain sequences, each divided by all its tokens; dashed: theory. "
        "Drops come later by the factor 1/E(g); the spikes of training are steps on rare, large sequences. "
        "(b) The final loss by the longest context; points: trained; divided by N, a quarter stays. "
        f"{varied.SELECTED}\n" + "\n".join(lines)
    )
    return Drawing(picture, caption)


STRENGTHS = (0.0, 0.001, 0.003)  # of weight decay


@figure("weight-decay")
def weight_decay(theme: Theme) -> Drawing:
    """The rests of each direction over the strength, training with decay, and how plateaus stretch."""
    picture, (left, middle, right) = canvas(theme, 11.4, 3.6, ncols=3)
    values, moments = DEFAULT.task.eigenvalues, DEFAULT.task.second_moment_eigenvalues
    strength = compiled("V12-rest", (size, lambda_, a), part="rest")
    marks = {part: compiled("V12-rest", (lambda_, a), part=part)(values, moments) for part in ("most", "worth")}
    for value, moment, most, worth, color in zip(values, moments, *marks.values(), SERIES, strict=False):
        rests, turn = np.linspace(0, np.cbrt(value / moment), 400), np.cbrt(value / (4 * moment))
        for part, style in ((rests >= turn, "-"), (rests <= turn, (0, (4, 3)))):
            label = rf"$\lambda = {value:g}$" if style == "-" else None
            left.plot(strength(rests[part], value, moment), rests[part], color=color, ls=style, label=label)
        left.plot(worth, np.cbrt(value / (2 * moment)), "o", color=color, ms=4)
        for one in np.linspace(0.1, 0.9, 5) * most:
            task = RegressionTask(eigenvalues=[value], context_length=DEFAULT.context_length, noise_variance=1 - value)
            start = SeparateWeights(np.array([1.0]), np.ones((1, 1, 1)), np.ones((1, 1, 1)))
            run = gradient_flow(QuadraticLoss.population(task), start, t_end=200 / value**2, weight_decay=float(one))
            left.plot(one, run.states[-1][0], "x", color=theme.ink, ms=5)
    left.set(xlabel=r"weight decay $\gamma_w$", ylabel="value weight at rest", xlim=(0, None), ylim=(0, None))
    left.legend(loc="upper right")
    for one, color in zip(STRENGTHS, SERIES, strict=False):
        setting = replace(DEFAULT, weight_decay=one, batch_size=DEFAULT.batch_size // theme.share)
        times = np.linspace(0, setting.duration, 1500)
        middle.plot(default_training(setting).times, default_loss(setting), color=color, lw=4, alpha=0.35)
        middle.plot(times, default_flow(setting).loss_at(times), color=color, label=rf"$\gamma_w = {one:g}$")
    middle.set(xlabel=TIME, ylabel=LOSS, xlim=(0, DEFAULT.duration), ylim=(0, 1.05))
    middle.legend(loc="upper right")
    small = replace(DEFAULT, scale=1e-3, duration=1e5)
    free = find_plateaus(default_flow(small)).drops[0]
    parts = np.linspace(0.001, 0.99, 300)
    right.plot(parts, compiled("V12-plateau", (wait, decay, tau), part="wait")(1.0, parts, 1.0), color=theme.theory)
    for part in (0.1, 0.3, 0.5, 0.7, 0.9, 0.97):
        found = find_plateaus(default_flow(replace(small, weight_decay=float(part / free)))).drops[0]
        right.plot(part, found / free, "o", color=SERIES[0])
    right.axvline(1, color=theme.faint, lw=1, zorder=0)
    right.set(xlabel=r"$\gamma_wT_0/\tau$", ylabel="first plateau, $T/T_0$", ylim=(0.9, 5))
    found = [listed(find_plateaus(default_flow(replace(DEFAULT, weight_decay=one))).drops, ".0f") for one in STRENGTHS]
    caption = (
        f"Weight decay (V12), on the staircase: eigenvalues {listed(values, 'g')}, N = {DEFAULT.context_length}. (a) The rests of a "
        "head in one direction, stable (lines) and unstable (dashed: the size that it must exceed); crosses: ends of flows; dots: beyond "
        "them learning costs more than it gains. (b) H = 5, initial scale 0.2; thin: gradient flow; thick, pale: PyTorch. (c) The "
        "first plateau from a scale of 0.001 (dots: flows), infinite from tau/gamma_w on.\n"
        f"Drops of the flow with weight decay {listed(STRENGTHS, 'g')}: {'; '.join(found)}."
    )
    return Drawing(picture, caption)
