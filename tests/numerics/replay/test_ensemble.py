"""Many runs at once: each is the run alone, and that is plain gradient descent on the sample's loss."""

import subprocess
import sys
from pathlib import Path

import iclflow.numerics.replay.ensemble as ensemble_module
import numpy as np
import pytest
from iclflow.numerics.dynamics.descent import gradient_descent
from iclflow.numerics.parametrizations.full_attention import FullMergedWeights, FullSeparateWeights
from iclflow.numerics.replay.ensemble import Ensemble
from iclflow.numerics.tasks.regression import RegressionTask
from iclflow.numerics.tasks.sample_moments import SampleMoments

TASK = RegressionTask(eigenvalues=[0.8, 0.5, 0.3], context_length=6)
SAMPLES = [SampleMoments.sampled(TASK, 200, np.random.default_rng(seed)) for seed in (1, 2)]


def weights_of(kind: str, seed: int = 0):
    rng = np.random.default_rng(seed)
    if kind == "merged":
        return FullMergedWeights.initialize(TASK, heads=4, scale=0.7, rng=rng, block_scale=0.4)
    return FullSeparateWeights.initialize(TASK, heads=4, rank=2, scale=0.9, rng=rng, block_scale=0.5)


def stacked(runs: list) -> tuple[np.ndarray, ...]:
    """Runs (S lists of J parametrizations) as the arrays of an ensemble."""
    return tuple(np.array([[run.arrays[i] for run in row] for row in runs]) for i in range(len(runs[0][0].arrays)))


def losses(ensemble: Ensemble, weights, rate, steps: int, **options) -> np.ndarray:
    return np.concatenate([ensemble.losses(maps) for maps, _ in ensemble.descend(weights, rate, steps, **options)])


@pytest.mark.parametrize("kind", ["merged", "separate"])
@pytest.mark.parametrize("whole", [0, 200])
def test_each_run_is_gradient_descent_on_its_own_sample(kind: str, whole: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two samples, two runs on each, 90 steps across the border of a block, by both ways to apply the moments."""
    monkeypatch.setattr(ensemble_module, "WHOLE", whole)
    runs = [[weights_of(kind, 2 * s + j) for j in range(2)] for s in range(2)]
    found = losses(Ensemble(SAMPLES), stacked(runs), 0.05, 91)
    for s in range(2):
        for j in range(2):
            alone = gradient_descent(SAMPLES[s].loss(), runs[s][j], steps=90, learning_rate=0.05)
            np.testing.assert_allclose(found[:, s, j], alone.loss, rtol=1e-11)
    assert found[-1].max() < 0.9 * found[0].max()  # it moved


def test_one_step_size_for_each_run() -> None:
    runs = [[weights_of("separate", 0), weights_of("separate", 1)]]
    together = losses(Ensemble(SAMPLES[:1]), stacked(runs), np.array([[0.05, 0.02]]), 40)
    for j, rate in enumerate((0.05, 0.02)):
        alone = losses(Ensemble(SAMPLES[:1]), stacked([[runs[0][j]]]), rate, 40)
        np.testing.assert_allclose(together[:, 0, j], alone[:, 0, 0], rtol=1e-12)


def test_missing_ranks_stay_exactly_zero_and_change_nothing() -> None:
    value, key, query = stacked([[weights_of("separate")]])
    padded = value, np.pad(key, [(0, 0)] * 3 + [(0, 1), (0, 0)]), np.pad(query, [(0, 0)] * 3 + [(0, 1), (0, 0)])
    plain = losses(Ensemble(SAMPLES[:1]), (value, key, query), 0.05, 100)
    blocks = list(Ensemble(SAMPLES[:1]).descend(padded, 0.05, 100))
    np.testing.assert_allclose(np.concatenate([Ensemble(SAMPLES[:1]).losses(maps) for maps, _ in blocks]), plain, rtol=1e-12)
    last = blocks[-1][1]
    assert not last[1][..., 2, :].any()
    assert not last[2][..., 2, :].any()


def test_losses_on_another_sample_are_its_mean_squared_errors() -> None:
    run = weights_of("merged")
    maps, _ = next(Ensemble(SAMPLES[:1]).descend(stacked([[run]]), 0.05, 1))
    found = Ensemble(SAMPLES[:1]).losses(maps, [SAMPLES[1]])
    assert found[0, 0, 0] == pytest.approx(SAMPLES[1].value(run.effective_map()), rel=1e-12)


@pytest.mark.parametrize("kind", ["merged", "separate"])
def test_sharpness_is_the_largest_eigenvalue_of_the_hessian_and_never_above_it(kind: str) -> None:
    run, loss = weights_of(kind), SAMPLES[0].loss()
    largest = 2 * np.linalg.eigvalsh(run.hessian(loss))[-1]  # it is that of L/2
    ensemble = Ensemble(SAMPLES[:1])
    assert ensemble.sharpness(stacked([[run]]), iterations=300)[0, 0] == pytest.approx(largest, rel=1e-7)
    for iterations in (1, 3, 10, 30):
        assert ensemble.sharpness(stacked([[run]]), iterations=iterations)[0, 0] <= largest * (1 + 1e-9)


def test_float32_runs_keep_their_weights_in_float32() -> None:
    runs = stacked([[weights_of("separate"), weights_of("separate")]])
    *_, (_, last) = Ensemble(SAMPLES[:1]).descend(runs, 0.05, 200, float32_runs=slice(1, 2))
    for array in last:
        assert np.array_equal(array[:, 1], array[:, 1].astype(np.float32))
        assert not np.array_equal(array[:, 0], array[:, 0].astype(np.float32))
        np.testing.assert_allclose(array[:, 1], array[:, 0], atol=1e-4)


def test_an_overflow_names_its_step() -> None:
    with pytest.raises(FloatingPointError, match=r"overflows at step \d+: learning_rate=50"):
        losses(Ensemble(SAMPLES[:1]), stacked([[weights_of("separate")]]), 50.0, 500)


def test_bad_input_is_refused_with_its_name() -> None:
    ensemble, good = Ensemble(SAMPLES[:1]), stacked([[weights_of("separate")]])
    with pytest.raises(ValueError, match="moments must be"):
        Ensemble([SAMPLES[0].reduced()])
    with pytest.raises(ValueError, match="learning_rate"):
        ensemble.descend(good, -0.1, 10)
    with pytest.raises(ValueError, match="learning_rate must have shape"):
        ensemble.descend(good, np.array([[0.1, 0.1]]), 10)
    with pytest.raises(ValueError, match="steps"):
        ensemble.descend(good, 0.1, 0)
    with pytest.raises(ValueError, match="query must have shape"):
        ensemble.descend((good[0], good[1], good[2][..., :2]), 0.1, 10)
    with pytest.raises(ValueError, match="value must have shape"):
        ensemble.descend((good[0][..., :2], good[1], good[2]), 0.1, 10)
    with pytest.raises(ValueError, match=r"weights must be \(value, key_query\) or \(value, key, query\)"):
        ensemble.descend(good[:1], 0.1, 10)


def test_the_benchmark_of_figures_4_and_9_runs(tmp_path: Path) -> None:
    """At a hundredth of its size: every rank, a table line for each, curves that start at tr Lambda and fall."""
    script = Path(__file__).parents[3] / "benchmarks" / "figures_4_9.py"
    sizes = ["--seeds", "2", "--sequences", "2000", "--steps", "300", "--processes", "1", "--save", str(tmp_path / "f.npz")]
    done = subprocess.run([sys.executable, script, *sizes], capture_output=True, text=True, check=True, timeout=60)
    assert [line.split()[0] for line in done.stdout.splitlines()[3:11]] == [str(rank) for rank in range(1, 9)]
    curves = np.load(tmp_path / "f.npz")["losses"]
    assert curves.shape == (2, 300, 8)
    np.testing.assert_allclose(curves[:, 0], 1.0, atol=0.1)
    assert (curves[:, -1] < 0.85 * curves[:, 0]).all()
