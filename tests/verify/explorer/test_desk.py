"""The desk: what its server answers to verbs, claims and proofs, what it refuses, and that a browser shows it."""

import http.client
import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from urllib.parse import quote

import nbformat
import pytest
from iclflow.theory.proofs.judging import judged
from iclflow.theory.proofs.written import VERBS
from iclflow.verify.explorer import desk
from iclflow.verify.explorer.desk import answer
from iclflow.verify.explorer.server import MAX_BODY, TASKS, Server, desk_page, page, policy, server

LOSS = "E[(y_q - beta' B x_q)^2]"
STEPS = ["expect", "fold M = E[S^2]", "gradient B", "claim 2 (B M Lambda - Lambda^2)", "factor", "solve_for B"]
VERDICTS = [["exact"], ["assumed", "exact"], ["exact"], ["fails"], ["exact"], ["assumed", "numeric"]]
PRESSED = {  # verb: (start, what the verb needs, declarations)
    "expect": ("S A S", "", ""),
    "gradient": ("tr(A B)", "B", ""),
    "substitute": ("A B", "B = Lambda/2, A = Lambda", ""),
    "fold": ("A B", "C = A B", ""),
    "expand": ("(A + B) C", "", ""),
    "factor": ("A C + B C", "", ""),
    "collect": ("u + u N + 3", "N", "u: positive"),
    "along_eigenvectors": ("Lambda M", "", ""),
    "solve_for": (r"3 \mathbf{B} - \mathbf{A}", r"\mathbf{B}", ""),
    "limit": ("u + 1/N", "N -> infinity", "u: positive"),
    "series": ("1/(1 + 1/N)", "N -> infinity, up to order 2", ""),
    "derivative": ("tr(W W')", "W = -W", ""),
    "hessian": ("tr(W' W)", "W = A", ""),
    "integrate": ("1/(u + 1)^2", "0 < u < infinity", "u: positive"),
    "transpose": ("A B", "", ""),
    "trace": ("A B", "", ""),
    "claim": ("u + 1/u", ">= 2", "u: positive"),
}
PROOF = "let A: symmetric\nE[S A S] = Lambda A Lambda + (Lambda A Lambda + tr(A Lambda) Lambda)/N\n  = Lambda A Lambda\nsin(A) = A\n"


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with server(0) as one:
        thread = threading.Thread(target=one.serve_forever, daemon=True)
        thread.start()
        yield one
        one.shutdown()
        thread.join()


@pytest.fixture
def post(running: Server) -> Callable[..., tuple[int, dict]]:
    def send(path: str, body: object, **headers: str) -> tuple[int, dict]:
        connection = http.client.HTTPConnection(*running.server_address, timeout=120)
        given = {"Content-Type": "application/json"} | {key.replace("_", "-"): value for key, value in headers.items()}
        connection.request("POST", path, body if isinstance(body, bytes) else json.dumps(body), given)
        reply = connection.getresponse()
        text = reply.read()
        connection.close()
        return reply.status, json.loads(text) if reply.headers.get_content_type() == "application/json" else {}

    return send


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_adds_a_judged_line(post, verb):
    start, needs, let = PRESSED[verb]
    asked = {"start": start, "steps": [f"{verb} {needs}".strip()], "let": let}
    status, found = post("/desk", asked)
    assert status == 200
    ((*_, line),) = [step["lines"] for step in found["steps"]]
    assert line["status"] in ("exact", "numeric")
    assert "<math" in line["formula"]
    assert line["reason"]
    preview = post("/desk", asked | {"preview": True})[1]
    assert preview.keys() == {"shown"}
    assert ("<math" in preview["shown"]) >= bool(needs)


def test_a_wrong_claim_is_shown_with_the_point_and_left_out_of_what_is_kept(post):
    found = post("/desk", {"start": LOSS, "steps": STEPS})[1]
    assert [[line["status"] for line in step["lines"]] for step in found["steps"]] == VERDICTS
    assert [step["problem"] for step in found["steps"]] == [""] * len(STEPS)
    wrong = found["steps"][3]["lines"][0]["how"]
    assert wrong.startswith("fails at D = ")
    assert "B = [[" in wrong
    for form in ("latex", "markdown", "python", "notebook"):
        assert "B M" not in found[form]
        assert r"\boldsymbol{B} \boldsymbol{M}" not in found[form]
    assert found["latex"].count(r"\begin{align*}") == 1
    assert "5. Factored [exact]" in found["markdown"]


def test_what_is_kept_makes_the_derivation_again(post):
    found = post("/desk", {"start": LOSS, "steps": STEPS, "let": "A: symmetric\nc: positive"})[1]
    held: dict = {}
    exec(found["python"], held)
    assert [line.reason for line in held["derivation"].lines][-1] == "It is a root"
    book = nbformat.reads(found["notebook"], as_version=4)
    nbformat.validate(book)
    assert book.cells[1].source == found["python"]
    assert book.cells[0].source.endswith(found["markdown"])


def test_quotes_and_braces_that_are_typed_stay_text():
    code = desk.python("A' \"\"\" \\ '''", ["claim '); raise SystemExit #"], ("A: symmetric'\n",))
    held: dict = {"derive_written": lambda *texts, let: (texts, let)}
    exec(code.partition("\n")[2].replace("print(derivation)", ""), held)
    assert held["derivation"] == (("A' \"\"\" \\ '''", "claim '); raise SystemExit #"), ["A: symmetric'\n"])


def test_a_verb_that_does_not_apply_says_why(post):
    found = post("/desk", {"start": "A B", "steps": ["gradient B", "transpose"]})[1]
    assert found["steps"][0]["problem"].startswith("gradient: ")
    assert [line["status"] for line in found["steps"][1]["lines"]] == ["exact"]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"start": "S +", "steps": []}, "cannot read 'S +' at character 4"),
        ({"start": "__import__('os')", "steps": []}, "cannot read"),
        ({"start": "S", "steps": ["__class__"]}, "there is no verb '__class__'"),
        ({"start": "S", "steps": ["moves"]}, "there is no verb 'moves'"),
        ({"start": "S", "steps": ["expand"] * 101}, "at most 100, got 101"),
        ({"start": "S" * 2001, "steps": []}, "at most 2000 characters"),
        ({"start": "S", "steps": [], "let": "A: symmetric;" * 200}, "let has at most 2000 characters"),
        ({"start": "S", "steps": ["claim"]}, "claim: needs a right side"),
        ({"start": 3, "steps": []}, "start must be a text, got 3"),
        ({"start": "S", "steps": [3]}, "steps must be a list of texts"),
        ({"start": "S", "steps": [], "preview": "yes"}, "preview must be a truth value"),
        ({"name": "proof.pdf", "proof": ""}, "must end in .txt, .md, .tex, got '.pdf'"),
        ({"name": "proof.txt", "proof": "A = B\n" * 2001}, "at most 2000 lines"),
        ({"name": "proof.txt", "proof": 3}, "proof must be a text"),
        ([], "a request is a JSON object"),
    ],
)
def test_what_cannot_be_answered_is_named(asked, message):
    assert message in json.loads(answer(json.dumps(asked)))["error"]


def test_what_is_not_json_is_named():
    for text in ("", "[", "[" * 100_000, "\udcff", '{"start": '):
        assert json.loads(answer(text))["error"]


@pytest.mark.parametrize("ending", [".txt", ".md", ".tex"])
def test_a_dropped_proof_is_judged_as_on_the_command_line(post, tmp_path, ending):
    text = {
        ".txt": PROOF,
        ".md": f"# Proof\n\n```\n{PROOF}```\n",
        ".tex": "\\begin{align*}\n\\mathbf A \\mathbf B &= \\mathbf B \\mathbf A \\\\\n&= \\mathbf A \\mathbf B\n\\end{align*}\n",
    }[ending]
    path = tmp_path / f"proof{ending}"
    path.write_text(text, encoding="utf-8")
    status, found = post("/proof", {"name": path.name, "proof": text})
    assert (status, found["complete"]) == (200, True)
    expected = [(line.number, line.text, line.status, line.reason) for line in judged(path)]
    assert [(line["number"], line["text"], line["status"], line["reason"]) for line in found["lines"]] == expected
    assert found["summary"]["fails"] >= 1


def test_a_long_proof_is_judged_as_far_as_there_is_time(monkeypatch):
    monkeypatch.setattr(desk, "PROOF_SECONDS", -1.0)
    found = json.loads(answer(json.dumps({"name": "proof.txt", "proof": PROOF})))
    assert (found["lines"], found["complete"]) == ([], False)


def test_only_the_desk_itself_may_ask(post, running):
    asked = {"start": "S", "steps": []}
    here = f"http://127.0.0.1:{running.server_address[1]}"
    assert post("/desk", asked, Origin=here, Sec_Fetch_Site="same-origin")[0] == 200
    assert post("/desk", asked, Origin="http://elsewhere.example")[0] == 403
    assert post("/desk", asked, Sec_Fetch_Site="cross-site")[0] == 403
    assert post("/desk", asked, Host="elsewhere.example:80")[0] == 403
    assert post("/desk", asked, Content_Type="text/plain")[0] == 403
    assert post("/run", asked)[0] == 404
    assert post("/", asked)[0] == 404
    assert post("/desk", b"", Content_Length="x")[0] == 411
    assert post("/desk", b"", Content_Length=str(MAX_BODY + 1))[0] == 413
    assert post("/desk", b"", Content_Length="9" * 30)[0] == 413
    assert "error" in post("/desk", b"\xff\xfe{")[1]


def test_a_step_that_takes_too_long_is_given_up_and_the_others_are_answered(post, monkeypatch):
    monkeypatch.setitem(TASKS, "/desk", TASKS["/desk"]._replace(deadline=1.0))
    found: list = []
    long = threading.Thread(target=lambda: found.append(post("/desk", {"start": "tr(S)^20", "steps": ["expect"]})))
    long.start()
    assert post("/proof", {"name": "a.txt", "proof": "A B = A B"})[1]["summary"]["exact"] == 1
    long.join()
    assert found == [(200, {"error": "this takes longer than 1 s: take smaller steps"})]


def test_a_request_that_does_not_arrive_is_given_up(running, monkeypatch):
    monkeypatch.setattr(running.RequestHandlerClass, "timeout", 0.3)
    connection = http.client.HTTPConnection(*running.server_address, timeout=30)
    connection.putrequest("POST", "/desk")
    connection.putheader("Content-Type", "application/json")
    connection.putheader("Content-Length", "100")
    connection.endheaders(b"{")
    with pytest.raises((http.client.HTTPException, ConnectionError)):
        connection.getresponse()


@pytest.mark.parametrize("whole", [page, desk_page])
def test_a_page_runs_its_own_script_and_nothing_else(whole):
    text = whole().decode()
    assert "http" not in text.replace("http-equiv", "")
    assert text.count("<script>") == 1
    assert not set(text.partition("<script>")[0].split()) & {"onclick", "onload", "src"}
    assert "script-src 'sha256-" in policy(whole())
    assert "unsafe-eval" not in policy(whole())
    assert "/* STYLE */" not in text
    assert policy(whole().replace(b"<script>", b"<script>alert(1);")) != policy(whole())


def test_each_verb_has_a_key_of_its_own():
    text = desk_page().decode()
    keys = text.partition("const KEYS = {")[2].partition("}")[0].split(",")
    pairs = dict(one.split(":") for one in keys)
    assert {name.strip() for name in pairs} == VERBS.keys()
    assert len({key.strip() for key in pairs.values()} | {'"u"', '"b"'}) == len(VERBS) + 2
    for name in VERBS:
        assert f'["{name}", ' in text


@pytest.mark.needs("Chromium")
def test_a_browser_shows_a_derivation_from_its_link(running, tmp_path, chromium):
    held = quote(json.dumps({"start": LOSS, "let": "A: symmetric", "steps": STEPS}))
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
    flags += ["--disable-background-networking", "--disable-component-update", "--enable-logging=stderr", "--v=0"]
    flags += ["--virtual-time-budget=20000", f"--user-data-dir={tmp_path / 'profile'}"]
    done = subprocess.run(
        [chromium, *flags, "--dump-dom", f"http://127.0.0.1:{running.server_address[1]}/desk#{held}"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "CONSOLE" not in done.stderr
    lines = done.stdout.partition('<ol id="lines"')[2].partition("</ol>")[0]
    assert lines.count("<li") == 1 + sum(map(len, VERDICTS))
    assert lines.count('class="false"') == 1
    assert "fails at D = " in lines
