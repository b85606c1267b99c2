"""Results draw themselves, become datasets with names and units, come back from a file, and print in a few lines."""

import matplotlib
import numpy as np
import pytest
import xarray as xr
from iclflow.numerics import (
    Ensemble,
    QuadraticLoss,
    RegressionTask,
    SampleMoments,
    SeparateWeights,
    find_plateaus,
    gradient_flow,
    integrate,
    load,
    predict_curve,
)
from iclflow.numerics.dynamics.storage import save_results
from iclflow.numerics.replay.replay import Replayed
from iclflow.theory import Model
from iclflow.theory.notation import D, Lambda_hat, beta, matrix, x_q
from iclflow.verify.training.descent import TrainingRun

matplotlib.use("agg")
TASK = RegressionTask(eigenvalues=[0.5, 0.2], context_length=20)
START = SeparateWeights.initialize(TASK, heads=3, scale=0.01, rng=np.random.default_rng(1))
FLOW = gradient_flow(QuadraticLoss.population(TASK), START, t_end=2e4)
U = matrix("U", D)
MODEL = Model(prediction=beta.T * (2 * U - U * Lambda_hat * U) * x_q, weights=(U,))
TRAINED = TrainingRun(np.arange(4.0), np.ones((4, 2)), {"v": np.zeros((4, 2, 5))}, 0.1, 8, 1.0)
REPLAYED = Replayed({"loss": np.ones(4), "loss_icl": np.ones(4)}, 0.5, None, 0.1)
MOMENTS = SampleMoments.sampled(TASK, 50, np.random.default_rng(1))
RESULTS = {
    "flow": FLOW,
    "model": integrate(MODEL, TASK, initial={U: 0.1 * np.eye(2)}, t_end=5.0),
    "plateaus": find_plateaus(FLOW),
    "prediction": predict_curve(TASK, START),
    "training": TRAINED,
    "replay": REPLAYED,
    "ensemble": Ensemble([MOMENTS]),
}


@pytest.fixture(autouse=True)
def close_figures():
    from matplotlib import pyplot

    yield
    pyplot.close("all")


@pytest.mark.parametrize("name", RESULTS)
def test_a_dataset_has_names_and_units_and_comes_back_from_a_file(name, tmp_path):
    result, path = RESULTS[name], tmp_path / "result.nc"
    dataset = result.to_xarray()
    assert dataset.attrs["result"] == type(result).__name__
    assert all(variable.attrs["long_name"] and variable.attrs["units"] for variable in dataset.variables.values())
    result.save(path)
    xr.testing.assert_identical(load(path), dataset)


@pytest.mark.parametrize("name", RESULTS)
def test_printing_takes_a_few_short_lines(name):
    lines = repr(RESULTS[name]).splitlines()
    assert lines[0] == type(RESULTS[name]).__name__
    assert 2 <= len(lines) <= 8
    assert max(map(len, lines)) < 250


def test_the_dataset_of_a_flow_holds_the_flow():
    dataset = FLOW.to_xarray()
    np.testing.assert_array_equal(dataset["loss"], FLOW.loss)
    np.testing.assert_array_equal(dataset["k"], FLOW.arrays["k"])
    np.testing.assert_array_equal(dataset["effective_map"], FLOW.effective_maps)
    assert dataset["k"].dims == ("time", "head", "rank", "component")
    assert dataset["time"].attrs["units"] == "tau"
    assert dataset.attrs["steps"] == FLOW.statistics.steps


def test_the_loss_is_drawn_over_its_levels():
    axes = FLOW.plot()
    *levels, curve = axes.lines
    assert [line.get_ydata()[0] for line in levels] == pytest.approx(find_plateaus(FLOW).levels)
    np.testing.assert_array_equal(curve.get_ydata(), FLOW.loss)
    predicted = RESULTS["prediction"].plot(axes=axes)
    assert predicted is axes
    assert [line.get_ydata()[0] for line in axes.lines[4:7]] == pytest.approx(find_plateaus(FLOW).levels, abs=1e-4)


def test_weights_and_map_are_drawn_entry_by_entry():
    assert len(FLOW.plot("weights").lines) == START.size
    assert [text.get_text() for text in FLOW.plot("weights").get_legend().get_texts()] == ["v", "k", "q"]
    assert len(FLOW.plot("map").lines) == 4
    assert len(TRAINED.plot("weights").lines) == 10
    assert len(REPLAYED.plot().lines) == 2
    assert len(find_plateaus(FLOW).plot().collections) == 2


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("flow", "what must be one of 'loss', 'weights', 'map', got 'keys'"),
        ("plateaus", "what must be 'loss', got 'keys'"),
        ("ensemble", "there is no picture"),
    ],
)
def test_what_cannot_be_drawn_is_named(name, message):
    with pytest.raises(ValueError, match=message):
        RESULTS[name].plot("keys")


def test_integers_of_64_bits_stay_what_they_are(tmp_path):
    dataset = xr.Dataset({"steps": ("seed", np.array([7, -(2**40)])), "few": ("seed", [1, 2])}, coords={"seed": [2**62, 3]})
    save_results(dataset, tmp_path / "x.nc")
    again = load(tmp_path / "x.nc")
    xr.testing.assert_identical(again, dataset)
    assert {variable.dtype for variable in again.variables.values()} == {np.dtype("int64")}
