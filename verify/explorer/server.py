"""``iclflow explore``: a page on this machine with a slider for each part of the setting, redrawn as it moves.

The server answers only on the loopback address, to requests that name it, and only GET; the page loads nothing from anywhere else.
"""

import json
import webbrowser
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from math import log10
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from ...numerics.dynamics.solver import FlowError
from ..experiments.kinds import Kind, choice, number
from ..figures.style import DARK, LIGHT
from .picture import panels
from .run import SLIDERS, Exploration, explored

__all__ = ["answer", "serve"]

ADDRESS = "127.0.0.1"
PAGE = Path(__file__).with_name("explorer.html")
# The values in a request besides those of the sliders.
VIEW = {
    "model": choice("merged", "separate"),
    "moment": number("a number from 0 to 1", lambda x: 0 <= x <= 1),
    "dark": choice("0", "1"),
    "narrow": choice("0", "1"),
}
_one_at_a_time = Lock()  # matplotlib's settings are global


def setting(query: str) -> tuple[Exploration, float, bool, bool]:
    """Setting, moment, and whether the page is dark and narrow, from a request's query; ``ValueError`` names the wrong value."""
    given = dict(parse_qsl(query, keep_blank_values=True))
    kinds = {slider.key: slider.kind for slider in SLIDERS.values()} | VIEW
    if given.keys() != kinds.keys():
        raise ValueError(f"the request must give {', '.join(sorted(kinds))}, got {', '.join(sorted(given)) or 'nothing'}")
    values = {key: _parsed(key, given[key], kind) for key, kind in kinds.items()}
    chosen = Exploration(**{name: values[slider.key] for name, slider in SLIDERS.items()}, merged=values["model"] == "merged")
    return chosen, values["moment"], values["dark"] == "1", values["narrow"] == "1"


def _parsed(key: str, text: str, kind: Kind) -> Any:
    try:
        return kind.parse(text)
    except ValueError as problem:
        raise ValueError(f"{key} {problem}") from None


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
        return json.dumps({"error": " ".join(str(problem).split())}).encode()
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
    }
    return json.dumps(result).encode()


@lru_cache(maxsize=1)
def page() -> bytes:
    """The page, with a row of numbers for each slider; the eigenvalues have one each."""
    rows: list[tuple[Any, ...]] = []
    for slider in SLIDERS.values():
        for d, start in enumerate(slider.start if isinstance(slider.start, tuple) else [slider.start], 1):
            label = slider.label + (chr(ord("₀") + d) if isinstance(slider.start, tuple) else "")
            value = round(log10(start), 2) if slider.power else start
            rows.append((slider.key, label, slider.least, slider.most, slider.step, value, slider.power))
    return PAGE.read_text(encoding="utf-8").replace("SLIDERS", json.dumps(rows)).encode()


class Handler(BaseHTTPRequestHandler):
    """GET / is the page, GET /run?... an answer."""

    def do_GET(self) -> None:
        host = self.headers.get("Host", "").rpartition(":")[0]
        if host not in (ADDRESS, "localhost"):  # a foreign page whose host name points to this address
            self.send_error(403)
            return
        parts = urlsplit(self.path)
        if parts.path == "/":
            self._send(page(), "text/html; charset=utf-8")
        elif parts.path == "/run":
            with _one_at_a_time:
                content = answer(parts.query)
            self._send(content, "application/json")
        else:
            self.send_error(404)

    def _send(self, content: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Content-Security-Policy", "default-src 'self' 'unsafe-inline'; img-src data:")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Do not log requests."""


def server(port: int) -> ThreadingHTTPServer:
    """The server, bound to the loopback address; port 0 takes a free one."""
    if not 0 <= port <= 65535:
        raise ValueError(f"port must lie between 0 and 65535, got {port}")
    return ThreadingHTTPServer((ADDRESS, port), Handler)


def serve(port: int = 0, *, browser: bool = True) -> int:
    """Show the page until interrupted; returns the exit code."""
    with server(port) as running:
        address = f"http://{ADDRESS}:{running.server_address[1]}/"
        print(f"exploring at {address} (stop with Ctrl-C)", flush=True)
        if browser:
            webbrowser.open(address)
        try:
            running.serve_forever()
        except KeyboardInterrupt:
            print()
    return 0
