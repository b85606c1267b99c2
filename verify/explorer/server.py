"""``iclflow explore``: a page on this machine with a slider for each part of the setting, redrawn as it moves, and a desk to derive at.

The server answers only on the loopback address, to requests that name it; its pages load nothing from anywhere else. Answers are computed
in processes of their own, each with a deadline and a limit on its memory, and given up when their page no longer waits for them; whoever
finds all of them busy for some seconds is told so.
"""

import json
import select
import socket
import sys
import webbrowser
from base64 import b64encode
from collections.abc import Callable
from functools import lru_cache
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from math import log10
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit

from ...numerics.dynamics.solver import FlowError
from ...theory.proofs.written import VERBS
from ..experiments.kinds import choice, number
from ..figures.style import DARK, LIGHT
from . import desk
from .picture import panels
from .run import SLIDERS, Exploration, explored
from .workers import BusyError, TooLongError, Workers

ADDRESS = "127.0.0.1"
PAGE, DESK, STYLE = (Path(__file__).with_name(name) for name in ("explorer.html", "desk.html", "pages.css"))
# The values in a request besides those of the sliders.
VIEW = {
    "model": choice("merged", "separate"),
    "moment": number("a number from 0 to 1", lambda x: 0 <= x <= 1),
    "dark": choice("0", "1"),
    "narrow": choice("0", "1"),
}
# The first picture: values in a request as the page has them, and those of its sliders.
START = {slider.key: slider.start for slider in SLIDERS.values()} | {"model": "separate", "moment": 0.5, "dark": 0, "narrow": 0}
START["eigenvalues"] = ",".join(map(str, SLIDERS["eigenvalues"].start))
MORE = (0.08, 0.06, 0.05, 0.04)  # eigenvalues of a fifth to an eighth direction
PATIENCE = 4.0  # seconds to wait for a free process
MAX_BODY = 2_000_000  # bytes of a request to the desk


class Task(NamedTuple):
    """What a page asks for: ``deadline`` in seconds, and what to do if that is too short."""

    deadline: float
    advice: str


TASKS = {
    "/run": Task(20.0, "choose larger weights or fewer heads"),
    "/desk": Task(20.0, "take smaller steps"),
    "/proof": Task(60.0, "judge it with iclflow prove"),
}


def setting(query: str) -> tuple[Exploration, float, bool, bool]:
    """Setting, moment, and whether the page is dark and narrow, from a request's query; ``ValueError`` names the wrong value."""
    given = dict(parse_qsl(query, keep_blank_values=True))
    kinds = {slider.key: slider.kind for slider in SLIDERS.values()} | VIEW
    if given.keys() != kinds.keys():
        raise ValueError(f"the request must give {', '.join(sorted(kinds))}, got {', '.join(sorted(given)) or 'nothing'}")
    values: dict[str, Any] = {}
    for key, kind in kinds.items():
        try:
            values[key] = kind.parse(given[key])
        except ValueError as problem:
            raise ValueError(f"{key} {problem}") from None
    chosen = Exploration(**{name: values[slider.key] for name, slider in SLIDERS.items()}, merged=values["model"] == "merged")
    return chosen, values["moment"], values["dark"] == "1", values["narrow"] == "1"


@lru_cache(maxsize=32)
def answer(query: str) -> bytes:
    """The picture, the plateaus and the algorithm for a query, as JSON; {"error": ...} for a setting that cannot run."""
    try:
        chosen, moment, dark, narrow = setting(query)
        run = explored(chosen)
        buffer = BytesIO()
        picture = panels(run, moment, DARK if dark else LIGHT, narrow=narrow)
        picture.savefig(buffer, format="svg", metadata={"Date": None})
        found = run.plateaus
    except (ValueError, FlowError) as problem:
        return _error(" ".join(str(problem).split()))
    rows = [
        {"level": f"{level:.4f}", "from": f"{start:.0f}", "to": f"{end:.0f}"}
        for level, start, end in zip(found.levels, found.starts, found.ends, strict=True)
    ]
    svg = buffer.getvalue().decode()
    result = {
        "svg": svg[svg.index("<svg") :],
        "plateaus": rows,
        "algorithm": run.summary(moment * run.end),
        "time": f"{moment * run.end:.0f}",
        "unpredicted": run.unpredicted,
        "csv": run.table(),
        "code": run.code(),
    }
    return json.dumps(result).encode()


def _error(text: str) -> bytes:
    return json.dumps({"error": text}).encode()


def answered(request: str) -> bytes:
    """The answer to a path, a ``?`` and what is asked there."""
    path, _, content = request.partition("?")
    return answer(content) if path == "/run" else desk.answer(content)


def _whole(path: Path) -> str:
    return path.read_text(encoding="utf-8").replace("/* STYLE */", STYLE.read_text(encoding="utf-8"))


@lru_cache(maxsize=1)
def desk_page() -> bytes:
    """The page of the desk, with what each verb needs."""
    verbs = [(name, verb.needs, verb.example, verb.optional) for name, verb in VERBS.items()]
    return _whole(DESK).replace("VERB_TABLE", json.dumps(verbs)).encode()


def policy(content: bytes) -> str:
    """What a page may do: run its own script and ask this server, nothing else."""
    script = content.partition(b"<script>")[2].partition(b"</script>")[0]
    known = b64encode(sha256(script).digest()).decode()
    return f"default-src 'none'; connect-src 'self'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{known}'"


@lru_cache(maxsize=1)
def page() -> bytes:
    """The page, with a row of numbers for each slider; the eigenvalues have one each, of which the first D are shown."""
    spectrum = SLIDERS["eigenvalues"].start
    rows: list[tuple[Any, ...]] = [("D", "dimension D", 1, len(spectrum + MORE), 1, len(spectrum), False)]
    for slider in SLIDERS.values():
        for d, start in enumerate(slider.start + MORE if isinstance(slider.start, tuple) else [slider.start], 1):
            label = slider.label + (chr(ord("₀") + d) if isinstance(slider.start, tuple) else "")
            value = round(log10(start), 2) if slider.power else start
            rows.append((slider.key, label, slider.least, slider.most, slider.step, value, slider.power))
    return _whole(PAGE).replace("SLIDERS", json.dumps(rows)).encode()


PAGES = {"/": page, "/desk": desk_page}


class Handler(BaseHTTPRequestHandler):
    """GET / and /desk are the pages, GET /run?..., POST /desk and POST /proof are answers."""

    server: "Server"
    timeout = 30  # seconds to send a request

    def do_GET(self) -> None:
        try:
            parts = urlsplit(self.path)
        except ValueError:
            self.send_error(400)
            return
        if not self._from_here():
            self.send_error(403)
        elif parts.path in PAGES:
            content = PAGES[parts.path]()
            self._send(200, content, "text/html; charset=utf-8", policy(content))
        elif parts.path == "/run":
            self._compute("/run", parts.query)
        else:
            self.send_error(404)

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not self._from_here() or self.headers.get_content_type() != "application/json":  # a foreign page cannot send this
            self.send_error(403)
        elif self.path not in ("/desk", "/proof"):
            self.send_error(404)
        elif not (length.isascii() and length.isdigit()):
            self.send_error(411)
        elif len(length) > 9 or int(length) > MAX_BODY:
            self.send_error(413)
        else:
            self._compute(self.path, self.rfile.read(int(length)).decode("utf-8", "replace"))

    def _from_here(self) -> bool:
        """False for a foreign page: one whose host name points to this address, or that asks from its own."""
        here = (ADDRESS, "localhost")
        host = self.headers.get("Host", "").rpartition(":")[0]
        origin = self.headers.get("Origin")
        site = self.headers.get("Sec-Fetch-Site", "none")
        named = origin is None or origin.removeprefix("http://").rpartition(":")[0] in here
        return host in here and named and (site in ("none", "same-origin") or (self.command == "GET" and self.path in PAGES))

    def _compute(self, path: str, content: str) -> None:
        task, status = TASKS[path], 200
        try:
            found = self.server.workers.compute(f"{path}?{content}", patience=PATIENCE, deadline=task.deadline, wanted=self._connected)
        except BusyError:
            status, found = 503, _error("busy with other requests; try again")
        except TooLongError:
            found = _error(f"this takes longer than {task.deadline:g} s: {task.advice}")
        except MemoryError:
            found = _error(f"this takes too much memory: {task.advice}")
        self._send(status, found, "application/json")

    def _connected(self) -> bool:
        """Whether the page still waits for its answer."""
        try:
            readable, _, _ = select.select([self.connection], [], [], 0)
            return not readable or self.connection.recv(1, socket.MSG_PEEK) != b""
        except OSError:
            return False

    def _send(self, status: int, content: bytes, kind: str, policy: str = "default-src 'none'") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Content-Security-Policy", policy)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Do not log requests."""


class Server(ThreadingHTTPServer):
    """The server and the processes that compute for it."""

    request_queue_size = 128
    daemon_threads = True

    def __init__(self, port: int, answering: Callable[[str], bytes]) -> None:
        super().__init__((ADDRESS, port), Handler)
        self.workers = Workers(answering, first=f"/run?{urlencode(START)}")

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of a client that has left."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # pyright: ignore[reportArgumentType]

    def server_close(self) -> None:
        super().server_close()
        self.workers.close()


def server(port: int, answering: Callable[[str], bytes] = answered) -> Server:
    """The server, bound to the loopback address; port 0 takes a free one."""
    if not 0 <= port <= 65535:
        raise ValueError(f"port must lie between 0 and 65535, got {port}")
    return Server(port, answering)


def serve(port: int = 0, *, browser: bool = True) -> int:
    """Show the page until interrupted; returns the exit code."""
    with server(port) as running:
        address = f"http://{ADDRESS}:{running.server_address[1]}/"
        print(f"exploring at {address}, deriving at {address}desk (stop with Ctrl-C)", flush=True)
        if browser:
            webbrowser.open(address)
        try:
            running.serve_forever()
        except KeyboardInterrupt:
            print()
    return 0
