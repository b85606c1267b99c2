"""The explorer: what a setting gives, what the page is told, and who may ask."""

import json
import threading
import urllib.error
import urllib.request
from urllib.parse import urlencode

import numpy as np
import pytest
from iclflow.numerics.landscape.fixed_points import separate_fixed_point
from iclflow.verify.cli.main import main
from iclflow.verify.explorer.picture import panels, panels_of
from iclflow.verify.explorer.run import Exploration, explored
from iclflow.verify.explorer.server import answer, page, serve, server, setting

GIVEN = {
    "eigenvalues": "0.4,0.3,0.2,0.1", "N": "31", "H": "5", "R": "1", "scale": "0.05", "seed": "12", "noise": "0",
    "model": "separate", "moment": "0.5", "dark": "0", "narrow": "0",
}  # fmt: skip


def asked(**changes: str) -> dict:
    return json.loads(answer(urlencode(GIVEN | changes)))


def test_a_run_reaches_every_level_of_theory():
    run = explored(Exploration(scale=0.05))
    levels = [separate_fixed_point(run.task, range(m), heads=5).loss for m in range(5)]
    np.testing.assert_allclose(run.plateaus.levels, levels, rtol=0.01)
    np.testing.assert_allclose(run.levels, levels, rtol=1e-12)
    assert run.prediction is not None
    np.testing.assert_allclose(run.prediction.drops, run.plateaus.drops, rtol=0.05)


def test_what_is_learned_is_said_in_words():
    run = explored(Exploration(scale=0.05))
    assert run.summary(0.0).startswith("Nothing")
    middle = (run.plateaus.starts[2] + run.plateaus.ends[2]) / 2
    assert run.summary(middle).startswith("Regression on principal components: e1")
    assert "e3" not in run.summary(middle)
    assert run.summary(run.end).startswith("Regression on all principal components")


@pytest.mark.parametrize(
    ("changes", "drops"),
    [
        ({"merged": True}, 1),
        ({"noise_variance": 0.5}, 4),
        ({"heads": 2}, 2),
        ({"heads": 2, "rank": 2}, 4),
        ({"scale": 0.5}, None),
    ],
)
def test_other_settings_run(changes, drops):
    run = explored(Exploration(**{"scale": 0.02} | changes))
    assert drops is None or len(run.plateaus.drops) == drops
    assert abs(run.trajectory.loss[-1] / run.levels[-1] - 1) < 0.002


def test_the_picture_shows_the_moment():
    run = explored(Exploration(scale=0.05))
    wide, narrow = panels(run, 0.0), panels(run, 1.0, narrow=True)
    assert wide.get_size_inches()[0] > wide.get_size_inches()[1]
    assert narrow.get_size_inches()[0] < narrow.get_size_inches()[1]
    at_start, at_end = (figure.axes[1 if figure is wide else 3].images[0].get_array() for figure in (wide, narrow))
    assert np.abs(at_start).max() < 0.05
    np.testing.assert_allclose(np.diag(at_end), 1, atol=0.02)
    with pytest.raises(ValueError, match="moment"):
        panels(run, 1.5)


def test_an_answer_holds_the_picture_and_the_plateaus():
    found = asked()
    assert found["svg"].startswith("<svg")
    assert len(found["plateaus"]) == 5
    assert found["algorithm"].startswith("Regression")
    assert asked(dark="1")["svg"] != found["svg"]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("model", "both", "model must be one of merged, separate, got 'both'"),
        ("N", "0", "N must be a whole number from 1 to 10,000, got '0'"),
        ("N", "1e9", "N must be"),
        ("H", "99", "H must be a whole number from 1 to 16, got '99'"),
        ("R", "5", "rank must be at most the dimension 4, got 5"),
        ("scale", "nan", "scale"),
        ("scale", "x", "scale"),
        ("eigenvalues", "0.4,-1", "eigenvalues"),
        ("eigenvalues", ",".join(["0.1"] * 9), "eigenvalues"),
        ("noise", "-1", "noise"),
        ("moment", "2", "moment"),
        ("dark", "yes", "dark must be one of 0, 1, got 'yes'"),
    ],
)
def test_a_bad_setting_is_answered_by_name(name, value, message):
    assert message in asked(**{name: value})["error"]


def test_a_request_must_be_whole():
    with pytest.raises(ValueError, match="must give"):
        setting("N=3")


def test_the_server_answers_this_machine_only():
    with server(0) as running:
        host, port = running.server_address
        assert host == "127.0.0.1"
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()

        def get(path: str, name: str = "127.0.0.1") -> tuple[int, bytes]:
            request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers={"Host": f"{name}:{port}"})
            try:
                with urllib.request.urlopen(request, timeout=30) as reply:
                    return reply.status, reply.read()
            except urllib.error.HTTPError as refusal:
                with refusal:
                    return refusal.code, b""

        assert get("/") == (200, page())
        assert get("/", name="elsewhere.example")[0] == 403
        assert get("/secrets")[0] == 404
        assert json.loads(get("/run?" + urlencode(GIVEN))[1]) == asked()
        running.shutdown()
        thread.join()


def test_the_page_loads_nothing_from_elsewhere():
    text = page().decode()
    assert "http" not in text.replace("http-equiv", "")
    assert all(f'"{name}"' in text for name in ("N", "H", "R", "scale", "seed", "noise", "moment"))


def test_a_bad_port_is_refused():
    with pytest.raises(ValueError, match="port"):
        serve(70_000, browser=False)
    assert main(["explore", "--port", "70000"]) == 2


def test_sliders_of_a_notebook_draw_or_say_why_not():
    values = {f"l{d}": value for d, value in enumerate((0.4, 0.3, 0.2, 0.1), 1)}
    values |= {"N": 31, "H": 5, "R": 1, "scale": 0.05, "seed": 12, "noise": 0.0, "merged": False, "moment": 1.0}
    drawn = panels_of(**values)
    assert not isinstance(drawn, str)
    np.testing.assert_allclose(np.diag(drawn.axes[1].images[0].get_array()), 1, atol=0.02)
    assert "rank" in panels_of(**values | {"R": 5})
