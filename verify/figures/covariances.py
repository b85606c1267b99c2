"""Figures of covariances: of the task vectors (V2), under which heads turn, of shared tasks (V11), and of tests unlike training (V3)."""

from collections.abc import Iterable

import numpy as np
from matplotlib.axes import Axes

from ...numerics import QuadraticLoss, RegressionTask, compiled, order_of_learning
from ...theory.notation import D, Lambda
from ...theory.results.estimators.task_diversity import kappa, theta, u
from ...theory.results.variations.finite_tasks import K
from ..experiments import varied_tasks as varied
from ..experiments.plateau_maps import measured, settled_network
from ..experiments.varied_tasks import LENGTH, NOISY, PLAIN, RETURNING, RUNS, SHARED, SPECTRUM, TURNING
from .gallery import Drawing, beside_axes, canvas, figure, listed, theory_levels
from .style import LOSS, SERIES, TIME, Theme

ANGLES = {"turning": "0, commutes", "nearly": "0.02", "inclined": "0.5"}


def _losses(axes: Axes, name: str, theme: Theme) -> None:
    """The trained loss, thick and pale, the flow's over it, and the sets of theory."""
    times, run = np.linspace(1.0, RUNS[name].duration, 2500), RUNS[name]
    theory_levels(axes, varied.turning_levels(run.task), theme, names=False)
    for visit in order_of_learning(run.task):
        inside = ", ".join(str(d + 1) for d in visit.directions)
        beside_axes(axes, rf"$\{{{inside}\}}$" if inside else r"$\varnothing$", visit.loss, theme)
    trained = varied.training(name, theme.share).times
    axes.plot(trained, varied.trained_loss(name, theme.share), color=theme.trained, lw=4, alpha=0.6, label="trained")
    axes.plot(times, varied.flow(name).loss_at(times), color=theme.ink, lw=1.3, label="gradient flow")
    axes.set(xlabel=TIME, ylabel=LOSS, xlim=(0, run.duration), ylim=(0, 1.28 * run.task.loss_moments.c))
    axes.legend(loc="upper right", ncols=2)


def _components(axes: Axes, name: str, share: int) -> None:
    """B_dd over its final value, trained and of the flow."""
    task, times = RUNS[name].task, np.linspace(1.0, RUNS[name].duration, 2500)
    trained = varied.training(name, share)
    maps = trained.effective_maps()
    along = np.array([np.diag(varied.flow(name).effective_map_at(t)) for t in times]) / task.modes.levels
    for d, color in enumerate(SERIES[: task.dimension]):
        axes.plot(trained.times, maps[:, d, d] / task.modes.levels[d], color=color, lw=4, alpha=0.35)
        axes.plot(times, along[:, d], color=color, label=rf"$B_{{{d + 1}{d + 1}}}$")
    axes.set(xlabel=TIME, ylabel="over the final value", xlim=(0, RUNS[name].duration), ylim=(-0.05, 1.4))
    axes.legend(loc="upper left", ncols=3)


def _angles(axes: Axes, theme: Theme) -> None:
    """The losses after the first drop for covariances turned by an angle, and the level at which commuting covariances rest."""
    for (name, angle), color in zip(ANGLES.items(), SERIES, strict=False):
        start = varied.plateaus(name).drops[0]
        times = np.linspace(start - 100, start + 160, 2500)
        trained, c = varied.training(name, theme.share), RUNS[name].task.loss_moments.c
        begun = varied.trained_plateaus(name, theme.share).drops[0]
        axes.plot(trained.times - begun, varied.trained_loss(name, theme.share) / c, color=color, lw=4, alpha=0.35)
        axes.plot(times - start, varied.flow(name).loss_at(times) / c, color=color, label=angle)
        one = varied.turning_levels(RUNS[name].task)[-2]
        axes.plot([60, 160], [one / c] * 2, color=color, lw=1.0, ls=(0, (4, 3)), zorder=1)
    axes.axhline(varied.turning_levels(TURNING)[1] / TURNING.loss_moments.c, color=theme.theory, lw=1.0, ls=(0, (4, 3)), zorder=1)
    axes.set(xlabel=r"$t/\tau$ after the first drop", ylabel=r"$\mathcal{L}/c$", xlim=(-60, 160), ylim=(0.3, 1.05))
    axes.legend(loc="upper right", title="angle between the covariances")


@figure("task-covariance")
def task_covariance(theme: Theme) -> Drawing:
    """If growth and drops disagree, heads learn one direction and turn to another; if covariances do not commute, they turn sooner."""
    picture, panels = canvas(theme, 9.6, 6.4, nrows=2, ncols=2)
    _losses(panels[0, 0], "turning", theme)
    _losses(panels[0, 1], "returning", theme)
    _components(panels[1, 1], "returning", theme.share)
    _angles(panels[1, 0], theme)
    growth = [np.diag(task.loss_moments.A) for task in (TURNING, RETURNING)]
    caption = (
        "Task vectors with a covariance (V2), N = 20, initial scale 0.03. (a) Tokens of covariance diag(1, 0.5), task vectors of "
        f"diag(0.3, 0.8), H = 3. Direction 1 grows faster (lambda^2 omega: {listed(growth[0], '.2f')}), direction 2 drops more "
        f"({listed(TURNING.modes.drops)}): the first head learns 1 and turns to 2, a second head learns 1. (b) "
        f"Diagonals 1.2, 0.6, 0.3 and 0.4, 1.1, 2.1, H = 4, growth {listed(growth[1], '.2f')}, drops {listed(RETURNING.modes.drops)}: "
        "the second head learns 1 and turns to 3, so that 1 is learned three times; dashed: the sets visited (V2-sequence). (c) "
        "The task covariance of (a) turned, so that it does not commute with that of the tokens (V2-oblique), time from each "
        "first drop: a head rests in the smaller drop for a time that grows as the logarithm of the inverse angle, and not at all at 0.5; "
        "dashed: {1} of (a), and the final rest of one head. (d) B_dd in (b). "
        f"{varied.SELECTED}\n" + "\n".join(_compared(name, theme.share) for name in ("returning", *ANGLES))
    )
    return Drawing(picture, caption)


def _compared(name: str, share: int) -> str:
    found, trained = varied.plateaus(name), varied.trained_plateaus(name, share)
    return (
        f"{name}: theory {listed(varied.turning_levels(RUNS[name].task))}; flow {listed(found.levels)}; trained {listed(trained.levels)}; "
        f"drops at t/tau = {listed(found.drops, '.0f')} (flow), {listed(trained.drops, '.0f')} (trained)."
    )


SIZE, DRAWS = 32, 20
RATIOS = (4, 32, 320)  # N/D


def _transition(axes: Axes, theme: Theme) -> None:
    """The risks of (V11-limit) over K/D, and their means over draws."""
    ratios, numbers = np.geomspace(0.1, 10, 400), np.unique(np.geomspace(3, 320, 13).round().astype(int))
    for ratio, color in zip(RATIOS, SERIES, strict=False):
        average, length = compiled("V11-limit", (kappa, theta), part="u")(ratios, 1 / ratio), ratio * SIZE
        new = compiled("V11-limit", (kappa, theta, u), part="new")(ratios, 1 / ratio, average)
        axes.plot(ratios, new, color=color, label=f"N/D = {ratio}")
        axes.plot(ratios, compiled("V11-limit", (theta, u), part="seen")(1 / ratio, average), color=color, ls=(0, (4, 3)))
        test = QuadraticLoss.population(RegressionTask(eigenvalues=np.full(SIZE, 1 / SIZE), context_length=length))
        for number in numbers:
            tasks = [
                RegressionTask(eigenvalues=np.full(SIZE, 1 / SIZE), context_length=length, number_of_tasks=int(number), task_seed=seed)
                for seed in range(DRAWS)
            ]
            maps = [np.linalg.solve(task.second_moment, task.covariance @ task.task_covariance) for task in tasks]
            axes.plot(number / SIZE, np.mean([test.value(B) for B in maps]), "o", color=color, ms=3.5)
            seen = [QuadraticLoss.population(task).value(B) for task, B in zip(tasks, maps, strict=True)]
            axes.plot(number / SIZE, np.mean(seen), "o", color=theme.paper, mec=color, ms=3.5)
    axes.axvline(1, color=theme.faint, lw=1, zorder=0)
    axes.set(xscale="log", yscale="log", xlabel="$K/D$", ylabel=r"risk / tr$\,\Lambda$", ylim=(1e-4, 2))
    axes.legend(loc="lower right")


def _two_tasks(axes: Axes, theme: Theme) -> None:
    """Losses on the two tasks that are shared, and on new ones, along a training run."""
    times, new = np.linspace(1.0, RUNS["shared"].duration, 800), RegressionTask(eigenvalues=SPECTRUM, context_length=LENGTH)
    test, run = QuadraticLoss.population(new), varied.training("shared")
    axes.plot(run.times, varied.trained_loss("shared"), color=SERIES[0], lw=4, alpha=0.35)
    axes.plot(times, varied.flow("shared").loss_at(times), color=SERIES[0], label="the two tasks")
    axes.plot(run.times, test.values(run.effective_maps()), color=SERIES[1], lw=4, alpha=0.35)
    axes.plot(times, test.values(varied.flow("shared").effective_map_at(times)), color=SERIES[1], label="new tasks")
    theory_levels(axes, varied.levels(SHARED)[:3], theme, names=False)
    axes.axhline(varied.levels(new)[-1], color=SERIES[1], lw=1, ls=(0, (4, 3)))
    axes.set(xlabel=TIME, ylabel=LOSS, ylim=(0, None), xlim=(0, RUNS["shared"].duration))
    axes.legend(loc="upper right", bbox_to_anchor=(1.0, 0.92))


def _waiting(axes: Axes, theme: Theme) -> None:
    """The sum of 1/growth over the directions that tasks span, in eight dimensions."""
    size, rng, numbers = 8, np.random.default_rng(0), np.arange(1, 33)
    sums = np.array([(np.linalg.svd(rng.normal(size=(2000, k, size)), compute_uv=False) ** -2 * k).sum(axis=1) for k in numbers])
    low, middle, high = np.quantile(sums, [0.1, 0.5, 0.9], axis=1)
    axes.fill_between(numbers, low, high, color=SERIES[0], alpha=0.25, lw=0)
    axes.plot(numbers, middle, color=SERIES[0], label="median of draws, 10 to 90 %")
    many, few = (compiled("V11-growth", letters, part=part) for part, letters in (("many", (Lambda, D, K)), ("few", (D, K))))
    for side in (numbers[numbers < size - 1], numbers[numbers > size + 1]):
        means = [few(size, int(k)) if k < size else many(np.eye(size), size, int(k)) for k in side]
        axes.plot(side, means, color=theme.theory, label="exact mean" if side[0] < size else None)
    axes.axvline(size, color=theme.faint, lw=1, zorder=0)
    axes.set(yscale="log", xlabel="$K$, for $D = 8$", ylabel=r"sum of $1/g$, in units of $\lambda^{-2}$")
    axes.legend(loc="upper right")


@figure("finite-tasks")
def finite_tasks(theme: Theme) -> Drawing:
    """The risks over the number of tasks, training on two of them, and how long the plateaus last."""
    picture, (left, middle, right) = canvas(theme, 11.4, 3.6, ncols=3)
    _transition(left, theme)
    _two_tasks(middle, theme)
    _waiting(right, theme)
    caption = (
        "Finitely many tasks (V11). (a) The least risk on the K tasks (dashed, open) and on new ones (solid, full), for white tokens; "
        f"lines: high dimension (V11-limit), points: exact losses at D = {SIZE}, mean over {DRAWS} draws. (b) Separate attention, "
        f"eigenvalues {listed(SPECTRUM, 'g')}, N = {LENGTH}, trained on two tasks (of the first seed, 6, at which the "
        "rates of both directions exceed 0.4, one twice the other): they span two directions, the third is never learned. Thin: gradient "
        "flow; thick, pale: PyTorch; dashed: (V11-risk), and the least loss on new tasks. (c) How long the plateaus "
        f"last (V11-growth); the mean is infinite for |K - D| <= 1. {varied.SELECTED}\n{_compared('shared', theme.share)}"
    )
    return Drawing(picture, caption)


TOTAL = sum(SPECTRUM)
LENGTHS = (3, LENGTH, 100)  # of training
PROMPTS = 50_000
DOTTED = (0, (4, 3))


def _of_length(length: int) -> RegressionTask:
    return RegressionTask(eigenvalues=SPECTRUM, context_length=length)


def _scaled(g: float, trained: RegressionTask) -> RegressionTask:
    return RegressionTask(
        eigenvalues=g * trained.eigenvalues, query_covariance=trained.covariance,
        context_length=trained.context_length, noise_variance=trained.noise_variance,
    )  # fmt: skip


def _with_share(share: float, length: int) -> RegressionTask:
    """The task with this share of the variance in the last direction, the rest in proportion."""
    rest = np.array(SPECTRUM[:2]) * (1 - share) * TOTAL / sum(SPECTRUM[:2])
    return RegressionTask(eigenvalues=[*rest, share * TOTAL], context_length=length)


def _loss(trained: RegressionTask, test: RegressionTask) -> float:
    return QuadraticLoss.population(test).value(trained.modes.effective_map())


def _points(axes: Axes, name: str, tests: dict[float, RegressionTask], unit: float, color: str, theme: Theme, label: str) -> None:
    """Errors of a trained network on prompts of these tests, with two standard errors."""
    found = [
        measured(settled_network(name, share=theme.share), test, count=PROMPTS // theme.share, seed=seed)
        for seed, test in enumerate(tests.values())
    ]
    axes.errorbar(
        list(tests), [one.mean / unit for one in found], yerr=[2 * one.error / unit for one in found], fmt="o", color=color,
        mec=theme.ink, ms=5, ecolor=theme.ink, elinewidth=1, label=label, zorder=4,
    )  # fmt: skip


@figure("shift")
def shift(theme: Theme) -> Drawing:
    """The test loss of trained networks at other lengths, at other scales of the context and on a rare direction."""
    picture, (left, middle, right) = canvas(theme, 11.4, 3.6, ncols=3)
    lengths, scales = np.unique(np.geomspace(1, 1000, 60).round().astype(int)), np.linspace(0.01, 3, 120)
    shares = np.linspace(SPECTRUM[2] / TOTAL, 1 - 1e-9, 80)
    for length, color in zip(LENGTHS, SERIES, strict=False):
        trained = _of_length(length)
        left.plot(lengths, [_loss(trained, _of_length(int(n))) for n in lengths], color=color, label=f"N = {length}")
        middle.plot(scales, [_loss(trained, _scaled(g, trained)) / TOTAL for g in scales], color=color)
        right.plot(shares, [_loss(trained, _with_share(f, length)) / TOTAL for f in shares], color=color)
    left.plot(lengths, [varied.levels(_of_length(int(n)))[-1] for n in lengths], color=theme.ink, lw=1, ls=DOTTED, label="best map")
    c = NOISY.loss_moments.c
    middle.plot(scales, [_loss(NOISY, _scaled(g, NOISY)) / c for g in scales], color=SERIES[3], label=r"N = 10, $\sigma^2 = 1$")
    label = "PyTorch, N = 10"
    _points(left, "plain", {n: _of_length(n) for n in (1, 3, 10, 40, 200)}, 1.0, SERIES[1], theme, label)
    _points(middle, "plain", {g: _scaled(g, PLAIN) for g in (0.5, 1, 1.5, 2, 2.5)}, TOTAL, SERIES[1], theme, label)
    _points(middle, "noise", {g: _scaled(g, NOISY) for g in (1, 1.75, 2.5)}, c, SERIES[3], theme, "PyTorch, with noise")
    _points(right, "plain", {f: _with_share(f, LENGTH) for f in (0.2, 0.4, 0.6, 0.8, 1 - 1e-9)}, TOTAL, SERIES[1], theme, label)
    for axes in (middle, right):
        axes.axhline(1, color=theme.faint, lw=1, ls=DOTTED)
    middle.annotate("no answer", (0.03, 1), va="bottom", color=theme.ink, fontsize=9)
    left.set(xscale="log", xlabel="test length $N'$", ylabel="test loss", ylim=(0, 3.0), xlim=(0.9, 1000))
    middle.set(xlabel="scale $g$ of the context's covariance", ylabel="test loss over that of no answer", xlim=(0, 3), ylim=(0, 3.2))
    right.set(xlabel="share of variance, rarest direction", xlim=(0.18, 1.02), yscale="log")
    left.legend(loc="upper right")
    middle.legend(loc="upper left", bbox_to_anchor=(0.0, 1.0))
    return Drawing(picture, _shift_caption(PROMPTS // theme.share))


def _shift_caption(prompts: int) -> str:
    def over(tests: Iterable[RegressionTask]) -> str:
        return listed((_loss(PLAIN, test) for test in tests), ".3f")

    few = (1, 10, 1000)
    return (
        f"Shift at test (V3). Trained on eigenvalues {listed(SPECTRUM, 'g')}, w ~ N(0, I). (a) Contexts of N' tokens. (b) "
        "Contexts of covariance g Lambda with queries of covariance Lambda: worse than no answer beyond g = 2 without noise, later with "
        "it. (c) The same variance, moved to the direction rarest in training (V3-unseen); for a direction that training hardly "
        f"showed, up to N^2 + 1 times the loss of no answer. Lines: closed forms; points: errors of PyTorch networks on {prompts:,} "
        "prompts, two standard errors.\n"
        f"Trained at 10, tested at 1, 10, 1000: {over(_of_length(n) for n in few)}; "
        f"best: {listed((varied.levels(_of_length(n))[-1] for n in few), '.3f')}. "
        f"All the variance in the rarest direction: {over([_with_share(1 - 1e-9, LENGTH)])}, no answer {TOTAL:g}."
    )
