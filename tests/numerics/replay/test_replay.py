"""Replay of recorded training: the official curves, small recordings made here sequence by sequence, damaged files."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from iclflow.numerics.dynamics.descent import gradient_descent
from iclflow.numerics.parametrizations.full_attention import FullMergedWeights
from iclflow.numerics.replay.ensemble import Ensemble
from iclflow.numerics.replay.replay import AGREEMENT, first_unstable_step, replay
from iclflow.numerics.tasks.regression import RegressionTask
from iclflow.numerics.tasks.sample_moments import SampleMoments, gram_index, sequences

DATA = Path(__file__).parents[2] / "data"
OFFICIAL = ("separate_rank1_D4", "separate_rank2_D4", "merged_D4", "inweight60_D4")
D, N, H = 2, 4, 3
TASK = RegressionTask(eigenvalues=[0.7, 0.4], context_length=N)


# The official runs, from fixtures that hold the moments of their data.


def fixture_moments(file: dict[str, np.ndarray], suffix: str) -> SampleMoments:
    linear, upper = file[f"linear{suffix}"], file[f"quadratic{suffix}"]
    quadratic = np.zeros((len(linear), len(linear)))
    quadratic[np.triu_indices(len(linear))] = upper
    quadratic += np.triu(quadratic, 1).T
    return SampleMoments(quadratic, linear, float(file[f"constant{suffix}"]), int(file[f"count{suffix}"]), gram_index(4))


def official_errors(name: str, rate_factor: float = 1.0) -> dict[str, float]:
    file = dict(np.load(DATA / f"{name}.npz", allow_pickle=False))
    names = ("value", "key_query") if "init.key_query" in file else ("value", "key", "query")
    weights = tuple(file[f"init.{part}"][None, None] for part in names)
    ensemble = Ensemble([fixture_moments(file, "")])
    rate, steps = float(file["learning_rate"]) * rate_factor, int(file["steps"])
    maps = np.concatenate([maps for maps, _ in ensemble.descend(weights, rate, steps)])
    errors = {}
    for key in [key for key in file if key.startswith("loss")]:
        found = ensemble.losses(maps, [fixture_moments(file, key.removeprefix("loss"))])[:, 0, 0]
        every = -(-steps // len(file[key]))
        errors[key] = float(np.abs(found[::every] / file[key] - 1).max())
    return errors


@pytest.mark.parametrize("name", OFFICIAL)
def test_official_curves_are_replayed_within_float32_rounding(name: str) -> None:
    errors = official_errors(name)
    assert max(errors.values()) < AGREEMENT
    assert set(errors) == ({"loss", "loss_iwl", "loss_icl"} if name == "inweight60_D4" else {"loss"})


@pytest.mark.parametrize("name", OFFICIAL)
def test_a_step_size_wrong_by_a_thousandth_is_seen(name: str) -> None:
    assert max(official_errors(name, rate_factor=1.001).values()) > 10 * AGREEMENT


# Recordings made here, in the file format of the official code, by attention on each sequence.


def attention_loss_and_gradients(x: np.ndarray, y: np.ndarray, value: np.ndarray, W: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Equation (7) summed over the context, and the gradients in nu_i and W_i, from every sequence one by one."""
    loss, d_value, d_W = 0.0, np.zeros_like(value), np.zeros_like(W)
    for tokens, target in zip(x, y, strict=True):
        gram, query = tokens.T @ tokens, tokens[-1, :-1]
        context = [gram @ nu for nu in value]
        error = target - sum((c @ w) @ query for c, w in zip(context, W, strict=True))
        loss += error**2 / len(x)
        for i in range(len(value)):
            d_value[i] -= 2 * error * (gram @ W[i] @ query) / len(x)
            d_W[i] -= 2 * error * np.outer(context[i], query) / len(x)
    return loss, d_value, d_W


def recording(model: str, *, rate: float = 0.002, steps: int = 40, rank: int = 1, tests: bool = False, scale: float = 1.0) -> dict:
    rng = np.random.default_rng(5)
    x, y = next(sequences(TASK, 12, rng))
    x_iwl, y_iwl = next(sequences(TASK, 5, rng))
    value = rng.normal(size=(H, D + 1)) * 0.4 * scale
    key, query = (rng.normal(size=(H, rank, n)) * 0.4 * scale for n in (D + 1, D))
    W = rng.normal(size=(H, D + 1, D)) * 0.3 * scale
    rows = rng.normal(size=(H, D + 1, D + 1))  # what gets no gradient may hold anything
    value_weight, kq_weight = rows.copy(), rows.copy()
    value_weight[:, -1] = value
    kq_weight[:, :D] = W.swapaxes(1, 2)
    file = {"init.value.weight": value_weight.reshape(-1, D + 1)}
    if model == "attnM":
        file["init.kq.weight"] = kq_weight.reshape(-1, D + 1)
    else:
        file["init.key.weight"] = key.reshape(-1, D + 1)
        file["init.query.weight"] = np.concatenate([query, rng.normal(size=(H, rank, 1))], axis=2).reshape(-1, D + 1)
    losses, test_losses = [], []
    for _ in range(steps):
        if model == "attnS":
            W = np.einsum("hrb,hrc->hbc", key, query)
        loss, d_value, d_W = attention_loss_and_gradients(x, y, value, W)
        losses.append(loss)
        test_losses.append(attention_loss_and_gradients(x_iwl, y_iwl, value, W)[0])
        value = value - rate * d_value
        if model == "attnM":
            W = W - rate * d_W
        else:
            d_key, d_query = np.einsum("hbc,hrc->hrb", d_W, query), np.einsum("hbc,hrb->hrc", d_W, key)
            key, query = key - rate * d_key, query - rate * d_query
    settings_text = {"epoch": steps, "lr": rate, "in_dim": D, "head_num": H, "rank": rank, "seq_len": N + 1}
    file |= {
        "data.x": x,
        "data.y": labels(x, y),
        "loss": np.array(losses),
        "seconds": np.array(3.0),
        "args": np.array(str(settings_text | {"model": model, "softmax": False})),
    }
    if tests:
        file |= {"data.x_iwl": x_iwl, "data.y_iwl": labels(x_iwl, y_iwl), "loss_iwl": np.array(test_losses)}
    return file


def labels(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    full = np.full_like(x, -7.0)  # only the query's own label counts
    full[:, -1, -1] = y
    return full


def saved(tmp_path: Path, file: dict) -> Path:
    path = tmp_path / "run.npz"
    np.savez(path, **file)
    return path


@pytest.mark.parametrize(("model", "rank"), [("attnM", 1), ("attnS", 1), ("attnS", 2)])
def test_training_on_each_sequence_is_replayed_from_moments(model: str, rank: int, tmp_path: Path) -> None:
    """All blocks start away from zero; the recording is float64, so only float64 rounding is left."""
    file = recording(model, rank=rank, tests=True)
    result = replay(saved(tmp_path, file))
    assert result.max_relative_error < 1e-10
    assert set(result.errors) == {"loss", "loss_iwl"}
    assert file["loss"][-1] < 0.9 * file["loss"][0]
    assert (result.steps, result.unstable_step, result.parted_step) == (40, None, None)
    assert result.step_times_sharpness < 2
    assert result.speedup == pytest.approx(3.0 / result.seconds)
    assert result.agrees
    report = json.loads(json.dumps(result.report()))
    assert {"max_relative_error", "speedup", "steps", "seconds"} <= set(report)


@pytest.mark.parametrize(("key", "index"), [("data.x", (3, 1, 0)), ("data.y", (3, -1, -1)), ("loss", 30)])
def test_one_wrong_number_is_seen(key: str, index: object, tmp_path: Path) -> None:
    file = recording("attnS")
    file[key][index] *= 1.05
    assert replay(saved(tmp_path, file)).max_relative_error > AGREEMENT


def test_the_edge_of_stability_is_found_at_its_step(tmp_path: Path) -> None:
    """The curvature grows along the run until the step is too long for it; rounding then grows until the curves part."""
    rate = 0.2
    file = recording("attnM", rate=rate, steps=400, scale=0.3)
    result = replay(saved(tmp_path, file))
    rises = np.flatnonzero(np.diff(file["loss"]) > 0)
    assert result.unstable_step is not None
    assert result.parted_step is not None
    assert 0 < result.unstable_step < rises[0]  # the Hessian tells before the loss does
    assert result.unstable_step < result.parted_step
    assert result.max_relative_error_while_stable < 1e-10
    assert result.max_relative_error > 0.01  # two float64 runs that differ in the order of summation
    assert f"edge of stability from step {result.unstable_step} " in result.summary()

    # The whole Hessian crosses 2 / eta there: the power method lags by a few steps at most.
    value = file["init.value.weight"].reshape(H, D + 1, D + 1)[:, -1]
    key_query = file["init.kq.weight"].reshape(H, D + 1, D + 1)[:, :D].swapaxes(1, 2)
    loss = SampleMoments.from_arrays(file["data.x"], file["data.y"][:, -1, -1], context="sum").loss()
    run = gradient_descent(loss, FullMergedWeights(value, key_query), steps=result.unstable_step, learning_rate=rate)
    products = [rate * 2 * np.linalg.eigvalsh(weights.hessian(loss))[-1] for weights in (run.weights[-1], run.weights[-6])]
    assert products[0] > 2 > products[1]

    # A step below the edge: nothing to report.
    assert replay(saved(tmp_path, recording("attnM", rate=0.14, steps=400, scale=0.3))).unstable_step is None


def test_a_rising_loss_alone_tells_the_edge() -> None:
    """A loss that rises between two looks at the Hessian is a proof too: weights on flat ground, a curve that rises."""
    moments = SampleMoments.from_arrays(*next(sequences(TASK, 12, np.random.default_rng(0))), context="sum")
    flat = (np.zeros((1, 1, H, D + 1)), np.zeros((1, 1, H, D + 1, D)))
    loss = np.array([1.0, 0.9, 0.8, 0.8 * (1 + 1e-6), 0.7])
    assert first_unstable_step(Ensemble([moments]), [flat], loss, 0.1)[0] == 2
    assert first_unstable_step(Ensemble([moments]), [flat], np.sort(loss)[::-1], 0.1)[0] is None


def test_an_overflowing_run_names_file_and_step(tmp_path: Path) -> None:
    file = recording("attnM", steps=5)
    file["args"] = np.array(str(file["args"]).replace("'lr': 0.002", "'lr': 900.0"))
    file["loss"] = np.repeat(file["loss"], 20)
    with pytest.raises(FloatingPointError, match=r"run\.npz: .*overflows at step"):
        replay(saved(tmp_path, file))


# Files that are not what they should be.


def without(file: dict, key: str) -> dict:
    return {name: value for name, value in file.items() if name != key}


BROKEN = {
    "data.x": lambda f: without(f, "data.x"),
    "data.y": lambda f: f | {"data.y": f["data.y"][:5]},
    "loss": lambda f: f | {"loss": np.where(np.arange(40) == 7, np.nan, f["loss"])},
    "seconds": lambda f: f | {"seconds": np.array(-1.0)},
    "init.value.weight": lambda f: f | {"init.value.weight": f["init.value.weight"][:-1]},
    "init.query.weight": lambda f: f | {"init.query.weight": f["init.query.weight"].astype(str)},
    "init.key.weight": lambda f: without(f, "init.key.weight"),
    "args": lambda f: f | {"args": np.array("__import__('os').getcwd()")},
}


@pytest.mark.parametrize("key", BROKEN)
def test_a_broken_key_is_named_with_its_file(key: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=rf"run\.npz: {key}: "):
        replay(saved(tmp_path, BROKEN[key](recording("attnS"))))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("'softmax': False", "'softmax': True"), "softmax attention is not linear"),
        (("'attnS'", "'mlq'"), "model must be one of attnM, attnS, mlp, got 'mlq'"),
        (("'model'", "'modle'"), "lacks model"),
        (("'lr': 0.002", "'lr': 'fast'"), "lr must be a positive finite number, got 'fast'"),
        (("'head_num': 3", "'head_num': 0"), "head_num must be an integer of at least 1, got 0"),
    ],
)
def test_settings_that_cannot_be_replayed_are_one_clear_line(change, message, tmp_path: Path) -> None:
    file = recording("attnS")
    file["args"] = np.array(str(file["args"]).replace(*change))
    with pytest.raises(ValueError, match=rf"args: .*{message}") as caught:
        replay(saved(tmp_path, file))
    assert "\n" not in str(caught.value)


def test_pickled_objects_are_never_loaded(tmp_path: Path) -> None:
    file = recording("attnS") | {"args": np.array([{"lr": 1}], dtype=object)}
    with pytest.raises(ValueError, match=r"run\.npz: args: cannot be read"):
        replay(saved(tmp_path, file))


@given(bit=st.integers(0, 10**9), compressed=st.booleans())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_flipped_bit_agrees_differs_or_is_one_line(bit: int, compressed: bool, tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    (np.savez_compressed if compressed else np.savez)(path, **recording("attnS", steps=2))
    whole = bytearray(path.read_bytes())
    place, bit = divmod(bit % (8 * len(whole)), 8)
    whole[place] ^= 1 << bit
    path.write_bytes(whole)
    try:
        said = replay(path).summary()
    except (ValueError, FloatingPointError) as problem:
        said = str(problem)
    assert "run.npz: " in said
    assert said.count("\n") <= 1


@given(part=st.floats(0.0, 0.999))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_truncated_file_is_a_value_error_naming_it(part: float, tmp_path: Path) -> None:
    path = saved(tmp_path, recording("attnS", steps=1))
    whole = path.read_bytes()
    path.write_bytes(whole[: int(part * len(whole))])
    with pytest.raises(ValueError, match=r"run\.npz: "):
        replay(path)


def test_a_missing_file_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"absent\.npz"):
        replay(tmp_path / "absent.npz")
