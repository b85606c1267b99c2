"""The page of the explorer: what it is told, and who may ask."""

import json
import threading
import urllib.error
import urllib.request
from urllib.parse import urlencode

import pytest
from iclflow.verify.cli.main import main
from iclflow.verify.explorer.server import answer, page, serve, server, setting

GIVEN = {
    "eigenvalues": "0.4,0.3,0.2,0.1", "N": "31", "H": "5", "R": "1", "scale": "0.05", "seed": "12", "noise": "0",
    "model": "separate", "moment": "0.5", "dark": "0", "narrow": "0",
}  # fmt: skip


def asked(**changes: str) -> dict:
    return json.loads(answer(urlencode(GIVEN | changes)))


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
