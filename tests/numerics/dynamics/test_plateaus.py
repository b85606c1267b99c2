"""Plateaus and drops: staircases whose answer is known, with noise, on any clock; curves with nothing to find; files."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from iclflow.numerics.dynamics.flow import gradient_flow
from iclflow.numerics.dynamics.plateaus import find_plateaus, read_curve
from iclflow.numerics.parametrizations.attention import SeparateWeights
from iclflow.numerics.tasks.losses import QuadraticLoss
from iclflow.numerics.tasks.regression import RegressionTask

DATA = Path(__file__).parents[2] / "data"
SIZES, DROPS, WIDTHS = np.array([0.4, 0.25, 0.15]), np.array([200.0, 450.0, 1300.0]), np.array([8.0, 10.0, 12.0])
LEVELS = 0.2 + np.append(np.cumsum(SIZES[::-1])[::-1], 0.0)
TIMES = np.linspace(0.0, 2000.0, 4001)


def staircase(t: np.ndarray) -> np.ndarray:
    """Logistic drops: half done at DROPS exactly, from 10 % to 90 % in 2 ln 9 times the scale of WIDTHS."""
    steps = 1 / (1 + np.exp(np.clip((t[:, None] - DROPS) / WIDTHS, -500, 500)))
    return 0.2 + steps @ SIZES


def test_a_staircase_gives_its_levels_times_and_widths() -> None:
    found = find_plateaus(TIMES, staircase(TIMES))
    np.testing.assert_allclose(found.levels, LEVELS, atol=1e-4)  # a fifth of a cell
    np.testing.assert_allclose(found.drops, DROPS, atol=5e-3)
    np.testing.assert_allclose(found.widths, 2 * np.log(9) * WIDTHS, rtol=1e-3)
    np.testing.assert_allclose(found.sizes, SIZES, atol=1e-4)
    np.testing.assert_allclose(found.starts, [0.0, *(DROPS + np.log(9) * WIDTHS)], atol=1e-2)
    np.testing.assert_allclose(found.ends, [*(DROPS - np.log(9) * WIDTHS), 2000.0], atol=1e-2)
    np.testing.assert_allclose(found.durations, found.ends - found.starts)


@pytest.mark.parametrize("noise", [1e-9, 0.001, 0.01, 0.03, 0.05])
@pytest.mark.parametrize("seed", range(4))
def test_noise_of_several_percent_hides_nothing_and_adds_nothing(noise: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    found = find_plateaus(TIMES, staircase(TIMES) * (1 + noise * rng.normal(size=len(TIMES))))
    assert len(found) == 4
    np.testing.assert_allclose(found.levels, LEVELS, rtol=0.01 + noise / 5)
    np.testing.assert_allclose(found.drops, DROPS, atol=0.5 + 100 * noise)


def test_log_spaced_times_and_plateaus_five_decades_apart() -> None:
    t = np.geomspace(1e-3, 1e5, 1000)
    centres = np.array([0.1, 7.0, 2e4])
    curve = 0.1 + (SIZES / (1 + (t[:, None] / centres) ** 6)).sum(axis=1)
    for noise in (0.0, 0.03):
        found = find_plateaus(t, curve * (1 + noise * np.random.default_rng(0).normal(size=len(t))))
        np.testing.assert_allclose(found.drops, centres, rtol=0.005 + noise)


@given(
    scale=st.floats(1e-9, 1e9),
    shift=st.floats(-1e3, 1e3),
    loss_scale=st.floats(1e-6, 1e6),
    loss_shift=st.floats(-2.0, 100.0),
    noise=st.sampled_from([0.0, 0.02]),
)
@settings(max_examples=40, deadline=None)
def test_units_of_time_and_loss_do_not_matter(scale, shift, loss_scale, loss_shift, noise) -> None:
    curve = staircase(TIMES) + noise * np.random.default_rng(1).normal(size=len(TIMES))
    plain = find_plateaus(TIMES, curve)
    moved = find_plateaus(scale * (TIMES + shift), loss_scale * (curve + loss_shift))
    assert len(moved) == len(plain) == 4
    for name in ("drops", "starts", "ends"):
        np.testing.assert_allclose(getattr(moved, name) / scale - shift, getattr(plain, name), atol=0.1)
    np.testing.assert_allclose(moved.levels / loss_scale - loss_shift, plain.levels, atol=1e-3)


@given(seed=st.integers(0, 2**32 - 1), count=st.integers(2, 7))
@settings(max_examples=30, deadline=None)
def test_random_staircases_are_found_whole(seed: int, count: int) -> None:
    """Plateaus between 4 and 400 times as long as the drops between them, on solver-like uneven times."""
    rng = np.random.default_rng(seed)
    widths = rng.uniform(0.5, 1.5, count)
    gaps = np.exp(rng.uniform(np.log(40), np.log(2000), count + 1))
    drops, sizes = np.cumsum(gaps)[:-1], rng.uniform(0.1, 1.0, count)
    t = np.unique(np.concatenate([np.linspace(0, gaps.sum(), 100), (drops[:, None] + np.linspace(-9, 9, 60)).ravel()]))
    curve = (sizes / (1 + np.exp(np.clip((t[:, None] - drops) / widths, -500, 500)))).sum(axis=1)
    found = find_plateaus(t, curve)
    assert len(found) == count + 1
    np.testing.assert_allclose(found.drops, drops, atol=0.05)


def test_drops_below_the_least_are_not_counted() -> None:
    """A step of 0.5 % of the range on the third plateau: part of it, or a drop of its own, as ``min_drop`` says."""
    curve = staircase(TIMES) + 0.004 / (1 + np.exp(np.clip((TIMES - 900) / 2, -500, 500)))
    coarse, fine = find_plateaus(TIMES, curve), find_plateaus(TIMES, curve, min_drop=0.001)
    np.testing.assert_allclose(coarse.drops, DROPS, atol=1)
    np.testing.assert_allclose(fine.drops, np.sort([*DROPS, 900.0]), atol=1)


def test_curves_with_nothing_to_find() -> None:
    t = np.linspace(0.0, 10.0, 1000)
    constant = find_plateaus(t, np.full(1000, 3.0))
    assert constant.levels.tolist() == [3.0]
    assert constant.durations.tolist() == [10.0]
    assert len(find_plateaus(t, 5 - 0.1 * t)) == 0  # lingers nowhere
    decay = find_plateaus(t, np.exp(-t))
    assert len(decay) == 1  # the end, and no plateau before it
    assert len(decay.drops) == 0


@pytest.mark.parametrize("seed", range(20))
def test_noise_alone_is_one_plateau(seed: int) -> None:
    values = 3 + 0.1 * np.random.default_rng(seed).normal(size=1000)
    found = find_plateaus(np.arange(1000.0), values)
    assert len(found) == 1
    assert found.levels[0] == pytest.approx(3, abs=0.03)


@pytest.mark.parametrize(("name", "drops"), [("separate_rank1_D4", (1994, 2938, 7609)), ("merged_D4", (846,))])
def test_official_curves(name: str, drops: tuple[int, ...]) -> None:
    """Rank one reaches three of its drops in 10,001 steps, the merged model its only one; every 25th step is kept."""
    curve = np.load(DATA / f"{name}.npz")["loss"]
    t = 25.0 * np.arange(len(curve))
    np.testing.assert_allclose(find_plateaus(t, curve).drops, drops, atol=10)
    noisy = curve * (1 + 0.02 * np.random.default_rng(0).normal(size=len(curve)))
    np.testing.assert_allclose(find_plateaus(t, noisy).drops, drops, atol=40)


def test_a_trajectory_is_searched_between_its_own_steps() -> None:
    """Drop times on the dense output equal those of a fine grid to the solver's accuracy; levels are those of (24)."""
    task = RegressionTask(eigenvalues=[0.4, 0.2], context_length=31)
    weights = SeparateWeights.initialize(task, heads=3, scale=1e-3, rng=np.random.default_rng(4))
    trajectory = gradient_flow(QuadraticLoss.population(task), weights, t_end=4e5)
    found = find_plateaus(trajectory)
    explained = task.eigenvalues**3 / task.second_moment_eigenvalues
    np.testing.assert_allclose(found.levels, 0.6 - np.append(0.0, np.cumsum(explained)), atol=2e-4)
    for drop, half in zip(found.drops, (found.levels[:-1] + found.levels[1:]) / 2, strict=True):
        assert trajectory.loss_at(drop) == pytest.approx(half, rel=1e-9)


def test_text_files(tmp_path: Path) -> None:
    path = tmp_path / "curve.txt"
    np.savetxt(path, np.column_stack([TIMES, staircase(TIMES)]), header="time loss")
    np.testing.assert_allclose(find_plateaus(*read_curve(path)).drops, DROPS, atol=0.01)
    path.write_text("step,loss\n0,1.0\n\n1,0.5  # half\n2,0.25\n", encoding="utf-8")
    times, loss = read_curve(path)
    assert times.tolist() == [0, 1, 2]
    assert loss.tolist() == [1.0, 0.5, 0.25]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0 1\n1 x\n2 1\n", r"line 2: needs two numbers, got '1 x'"),
        ("0 1\n1 0.9 4\n", r"line 2: needs two finite numbers"),
        ("0 1\n1 nan\n", r"line 2: needs two finite numbers"),
        ("0 1\n1 1\n1 0.5\n", r"line 3: times must increase, got 1.0 after 1.0"),
        ("0 1\nloss time\n", r"line 2: needs two numbers"),
        ("a b\nc d\n0 1\n", r"line 2: needs two numbers"),
        ("", r"at least 3 lines"),
    ],
)
def test_bad_text_files_name_file_and_line(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "curve.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=rf"curve\.txt.*{message}"):
        read_curve(path)


@pytest.mark.parametrize(
    ("times", "loss", "options", "message"),
    [
        ([0, 1, 1], [3, 2, 1], {}, "times must increase"),
        ([0, 1], [2, 1], {}, "at least 3"),
        ([0, 1, 2], [2, 1], {}, "equal lengths"),
        ([0, 1, 2], [2, np.nan, 1], {}, "loss must be finite"),
        ([0, 1, 2], [3, 2, 1], {"contrast": 1.0}, "contrast must"),
        ([0, 1, 2], [3, 2, 1], {"min_drop": 0.0}, "min_drop must"),
    ],
)
def test_bad_input_is_refused_with_its_name(times, loss, options, message) -> None:
    with pytest.raises(ValueError, match=message):
        find_plateaus(times, loss, **options)


def test_a_loss_must_come_with_times() -> None:
    with pytest.raises(TypeError, match="loss must be given"):
        find_plateaus([0, 1, 2])


@pytest.mark.parametrize("points", [10, 11, 37, 200, 4000])
def test_a_step_is_found_at_any_resolution(points: int) -> None:
    """The curve rests exactly where it starts, and falls between two samples."""
    t = np.linspace(0.0, 10.0, points)
    found = find_plateaus(t, np.where(t < 4, 1, 0.5))
    assert found.levels.tolist() == [1.0, 0.5]
    assert found.drops[0] == pytest.approx(4, abs=10 / (points - 1))


def test_the_first_plateau_of_a_flow_from_tiny_weights_is_found_on_few_points() -> None:
    """At scale 1e-6 the loss keeps its initial value to the last digit for most of the plateau."""
    task = RegressionTask(eigenvalues=[0.4, 0.3, 0.2, 0.1], context_length=31)
    weights = SeparateWeights.initialize(task, heads=5, scale=1e-6, rng=np.random.default_rng(0))
    run = gradient_flow(QuadraticLoss.population(task), weights, t_end=4e8)
    times = np.linspace(0.0, 4e8, 200)
    found = find_plateaus(times, run.loss_at(times))
    explained = task.eigenvalues**3 / task.second_moment_eigenvalues
    np.testing.assert_allclose(found.levels, 1 - np.append(0.0, np.cumsum(explained)), atol=1e-3)
    np.testing.assert_allclose(found.drops, find_plateaus(run).drops, atol=4e8 / 199)
