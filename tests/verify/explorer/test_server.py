"""The page of the explorer: what it is told, and who may ask."""

import http.client
import json
import os
import socket
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlencode

import pytest
from iclflow.verify.cli.main import main
from iclflow.verify.explorer.server import PATIENCE, START, answer, page, serve, server, setting
from iclflow.verify.explorer.workers import MEMORY, BusyError, TooLongError, Workers

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
    assert found["csv"].startswith("t/tau,loss,predicted_loss,")
    assert "gradient_flow" in found["code"]
    assert found["unpredicted"] == ""
    assert asked(dark="1")["svg"] != found["svg"]


@pytest.mark.parametrize("dimension", [1, 8])
def test_one_to_eight_directions_can_be_set(dimension):
    spectrum = [0.5 / (d + 1) for d in range(dimension)]
    found = asked(eigenvalues=",".join(map(str, spectrum)), H=str(dimension), scale="0.3")
    assert "error" not in found
    assert len(found["csv"].splitlines()[0].split("share_e")) == dimension + 1


def test_the_page_has_a_slider_for_each_of_eight_eigenvalues():
    text = page().decode()
    assert text.count('["eigenvalues", ') == 8
    assert '["D", "dimension D", 1, 8, 1, 4, false]' in text
    assert "The first picture is being computed" in text
    for id in ("link", "svg", "csv", "code", "unpredicted"):
        assert f'id="{id}"' in text
        assert f'"{id}"' in text.partition("<script>")[2]


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


def test_a_server_begins_with_the_first_picture():
    assert json.loads(answer(urlencode(START)))["algorithm"] == asked()["algorithm"]


def test_a_request_must_be_whole():
    with pytest.raises(ValueError, match="must give"):
        setting("N=3")


def test_the_server_answers_this_machine_only():
    with server(0) as running:
        host, port = running.server_address
        assert host == "127.0.0.1"
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()

        def get(path: str, name: str = "127.0.0.1", **headers: str) -> tuple[int, bytes]:
            given = {"Host": f"{name}:{port}"} | {key.replace("_", "-"): value for key, value in headers.items()}
            request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=given)
            try:
                with urllib.request.urlopen(request, timeout=120) as reply:
                    return reply.status, reply.read()
            except urllib.error.HTTPError as refusal:
                with refusal:
                    return refusal.code, b""

        assert get("/") == (200, page())
        assert get("/", name="elsewhere.example")[0] == 403
        assert get("/secrets")[0] == 404
        path = "/run?" + urlencode(GIVEN)
        found, expected = json.loads(get(path)[1]), asked()
        assert found.pop("svg").startswith("<svg")
        assert found.items() <= expected.items()
        assert get(path, Origin="http://elsewhere.example")[0] == 403
        assert get(path, Sec_Fetch_Site="cross-site")[0] == 403
        assert get(path, Sec_Fetch_Site="same-origin", Origin=f"http://127.0.0.1:{port}")[0] == 200
        assert get("/", Sec_Fetch_Site="cross-site")[0] == 200  # somebody followed a link
        running.shutdown()
        thread.join()


@pytest.fixture
def spawnable(monkeypatch):
    """A process that is started anew finds the functions of this file."""
    monkeypatch.syspath_prepend(Path(__file__).parents[3])


@pytest.mark.slow
@pytest.mark.usefixtures("spawnable")
def test_a_crowd_is_answered_or_told_and_departed_clients_leave_no_trace(capfd):
    """50 clients at once, 10 of whom hang up, and two requests that are none: each other one has its answer within seconds."""
    with server(0, quick) as running:
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        address = running.server_address

        def client(number: int) -> tuple[int, float]:
            path, start = f"/run?{number}", time.perf_counter()
            connection = http.client.HTTPConnection(*address, timeout=60)
            connection.request("GET", path)
            if number % 5 == 0:
                connection.sock.close()
                return 0, 0.0
            return connection.getresponse().status, time.perf_counter() - start

        for nonsense in (b"NONSENSE\r\n\r\n", b"GET http://[ HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n"):
            with socket.create_connection(address) as bare:
                bare.sendall(nonsense)
                assert b"400" in bare.recv(1000)
        for _ in range(2):  # both processes have started
            running.workers.compute("", patience=60, deadline=60)
        with ThreadPoolExecutor(50) as pool:
            found = list(pool.map(client, range(50)))
        assert {status for status, _ in found} <= {0, 200, 503}
        assert sum(status == 200 for status, _ in found) > 4
        assert max(seconds for _, seconds in found) < 2 * PATIENCE
        running.shutdown()
        thread.join()
    assert "Traceback" not in capfd.readouterr().err


def quick(argument: str) -> bytes:
    time.sleep(0.2)
    return argument.encode()


def slow(argument: str) -> bytes:
    if argument == "memory":
        return bytes(2 * MEMORY)
    if argument == "exit":
        os._exit(1)
    time.sleep(float(argument))
    return argument.encode()


@pytest.mark.usefixtures("spawnable")
def test_a_worker_has_one_thread_of_linear_algebra():
    """With two, eight directions and sixteen heads took minutes on a busy machine, in place of seconds."""
    workers, before = Workers(threads, count=1), dict(os.environ)
    try:
        assert workers.compute("", patience=30, deadline=60) == b"1"
    finally:
        workers.close()
    assert dict(os.environ) == before


def threads(argument: str) -> bytes:
    return os.environ["OMP_NUM_THREADS"].encode()


@pytest.mark.slow
@pytest.mark.usefixtures("spawnable")
def test_a_computation_is_given_up_and_the_next_is_not():
    workers = Workers(slow, count=1)
    try:
        assert workers.compute("0", patience=30, deadline=60) == b"0"
        with pytest.raises(TooLongError):
            workers.compute("30", patience=1, deadline=0.5)
        with pytest.raises(TooLongError):
            workers.compute("30", patience=30, deadline=60, wanted=lambda: False)
        for argument in ("memory", "exit"):
            with pytest.raises(MemoryError):
                workers.compute(argument, patience=30, deadline=60)
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(workers.compute, "3", patience=30, deadline=60)
            time.sleep(0.2)
            with pytest.raises(BusyError):
                workers.compute("0", patience=0.1, deadline=60)
            assert first.result() == b"3"
    finally:
        workers.close()


def test_the_page_loads_nothing_from_elsewhere():
    text = page().decode()
    assert "http" not in text.replace("http-equiv", "")
    assert all(f'"{name}"' in text for name in ("N", "H", "R", "scale", "seed", "noise", "moment"))


def test_a_bad_port_is_refused():
    with pytest.raises(ValueError, match="port"):
        serve(70_000, browser=False)
    with pytest.raises(SystemExit, match="2"):
        main(["explore", "--port", "70000"])
