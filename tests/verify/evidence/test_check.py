"""What the check does with equations and claims, shown on a registry of stand-ins."""

import json
import multiprocessing
from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest
from iclflow.theory.derivations.registry import KINDS
from iclflow.theory.equations import equation
from iclflow.verify.claims.book import ClaimBook
from iclflow.verify.claims.tolerances import EXACT, Tolerance
from iclflow.verify.cli import main as command_line
from iclflow.verify.evidence.check import SENSES, Evidence, plan, prove
from iclflow.verify.evidence.page import page
from iclflow.verify.evidence.run import _places, run
from iclflow.verify.evidence.table import render
from iclflow.verify.experiments import draws


@dataclass(frozen=True)
class StandInLine:
    """A line with the verdict that it is told to give."""

    status: str = "exact"
    relation: str = "="
    reason: str = "by assertion"

    def verify(self, *, seed):
        return SimpleNamespace(status=self.status, method="by assertion", residual=0.5, point={"N": 3})


@dataclass
class StandIn:
    number: str
    outcome: object = True
    kind: str = "exact"
    title: str = "A statement with <angle> brackets"
    section: str = "Section 1"
    conditions: tuple[str, ...] = ("small & large",)
    erratum: str | None = None
    notes: tuple[str, ...] = ("read as <text>", "Argued, not derived: for a reason")
    lines: tuple[StandInLine, ...] = (StandInLine(), StandInLine("assumed", ":="))

    parts = {"": "1"}  # noqa: RUF012
    lefts = {"": "x"}  # noqa: RUF012

    @property
    def derivation(self):
        return None if self.kind == "definition" else self.holds

    def needed(self, *, seed):
        return (("small & large", True, {"N": 3}), ("wide", False, None), ("in words", None, None))

    def holds(self):
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome


@pytest.fixture
def book():
    book = ClaimBook()
    reason = Tolerance(0.5, "half is enough")
    for name, number, method, residual in (("a", "2", "flow", 0.25), ("b", "10", "training", 0.75), ("c", "X", "flow", 0)):
        measure = eval(f"lambda theory: theory + {residual}")  # a function of its own for each claim
        measure.__name__ = name
        book.claim(number, f"claim {name} <b>", method=method, tolerance=reason, theory=0, wrong={"one": 1})(measure)
    slow = book.claim("2", "a slow claim", method="descent", tolerance=EXACT, theory=0, wrong={"one": 1}, slow=True)
    slow(abs)
    return book


def registry():
    return [StandIn("10"), StandIn("2", outcome=False), StandIn("1", kind="definition"), StandIn("3", ValueError("no\nway"))]


def made(book, numbers=None, **options):
    checks = book.select(full=True)
    return plan(numbers, registry=registry, checks=lambda: checks, **options)


def evidence(book, **options) -> Evidence:
    return list(run(made(book, **options)))[-1]


def test_plan_is_in_the_papers_order_with_lettered_ones_last(book):
    assert [subject.number for subject in made(book)] == ["1", "2", "3", "10", "X"]
    assert [len(subject.checks) for subject in made(book)] == [0, 1, 0, 1, 1]
    assert [len(subject.checks) for subject in made(book, full=True)] == [0, 2, 0, 1, 1]
    assert made(book)[-1].title == "claim c <b>"


def test_plan_takes_the_equations_asked_for_once(book):
    assert [subject.number for subject in made(book, ["(10)", "2", "2"])] == ["10", "2"]


def test_unknown_equation_suggests_the_nearest(book):
    with pytest.raises(ValueError, match="there is no equation '100'; the nearest are 10"):
        made(book, ["100"])


def test_proofs(book):
    assert [prove(entry).status for entry in registry()] == ["holds", "fails", "none", "fails"]
    assert prove(StandIn("3", ValueError("no way"))).error == "ValueError: no way"
    assert prove(None).status == "none"
    wrong = prove(StandIn("4", lines=(StandInLine(), StandInLine("fails"))))
    assert wrong.status == "fails"
    assert wrong.error == "line 2 (by assertion) fails by assertion: 0.5, {'N': 3}"
    assert [line.status for line in wrong.lines] == ["exact", "fails"]


def test_json_has_exactly_the_agreed_keys(book):
    document = json.loads(json.dumps(evidence(book).to_json(), allow_nan=False))
    assert set(document) == {"iclflow", "seed", "complete", "planned", "entries", "summary"}
    assert document["summary"] == {"holds": 3, "fails": 3}
    for entry in document["entries"]:
        assert set(entry) == {"equation", "title", "kind", "proof", "lines", "conditions", "claims"}
        assert all(set(line) == {"status", "relation"} for line in entry["lines"])
        assert set(entry["proof"]) == {"status", "seconds"}
        for claim in entry["claims"]:
            assert set(claim) == {
                "name", "method", "residual", "tolerance", "tolerance_reason", "status", "seconds",
            }  # fmt: skip
    assert document["entries"][3]["claims"][0]["status"] == "fails"
    assert document["entries"][3]["conditions"] == [
        {"text": "small & large", "needed": True, "point": "{'N': 3}"},
        {"text": "wide", "needed": False, "point": None},
        {"text": "in words", "needed": None, "point": None},
    ]
    assert document["entries"][1]["claims"][0] == {
        "name": "claim a <b>",
        "method": "flow",
        "residual": 0.25,
        "tolerance": 0.5,
        "tolerance_reason": "half is enough",
        "status": "holds",
        "seconds": document["entries"][1]["claims"][0]["seconds"],
    }


def test_table_tells_what_fails_and_why(book):
    text = render(evidence(book), width=100)
    lines = text.splitlines()
    assert lines[0].split() == ["equation", "statement", "derivation", "numbers", "training"]
    assert lines[4].split()[-6:] == ["exact", "-", "1", "of", "1", "fail"]
    assert "(3) exact, proof fails: ValueError: no\nway" in text
    assert "(2) exact, proof fails: the two sides differ" in text
    assert "training: residual 0.75 > 0.5" in text
    assert "half is enough" in text
    assert "claim a" not in text  # what holds is shown only on request
    assert "claim a" in render(evidence(book), details=True)
    assert "3 hold, 3 fail" in text
    assert "\x1b" not in text
    assert "\x1b[31" in render(evidence(book), colour=True)
    assert max(map(len, lines[:6])) <= 100


def test_the_kind_stands_where_the_verdict_does():
    entries = [StandIn("1", kind="approximation"), StandIn("2", kind="ansatz"), StandIn("3", False, kind="limit")]
    found = list(run(plan(registry=lambda: entries, checks=list)))[-1]
    rows = [line.split() for line in render(found, width=100).splitlines()[1:4]]
    assert [row[-3] for row in rows] == ["approximation", "ansatz", "fails"]
    assert "approximation: its lines hold to the stated order" in render(found)
    html = page(found, figures=())
    assert "approximation: its lines hold to the stated order" in html
    assert "ansatz: its lines hold for weights of the assumed form" in html
    assert "limit fails" in html
    assert "exact proof" not in html
    assert set(SENSES) == set(KINDS)


def test_a_definition_with_a_derivation_is_judged():
    entry = equation("10")
    assert entry.kind == "definition"
    proof = prove(entry)
    assert proof.status == "holds"
    wrong = replace(entry, typed=lambda: 2 * entry.statement if not isinstance(entry.statement, dict) else {})
    assert prove(wrong).status == "fails"


def test_conditions_are_told_wherever_the_verdict_is(book):
    assert prove(StandIn("10")).conditions[0].point == "{'N': 3}"
    found = evidence(book)
    assert "conditions: 3 needed, 3 not known to be needed, 3 of the data or the model" in render(found)
    assert "notes: 4 argued, 0 measured, not derived" in render(found)
    assert "small & large\n    needed, at {'N': 3}" in render(found, details=True)
    assert "wide (not known to be needed)" in page(found, figures=())
    assert "small &amp; large (needed, at {&#x27;N&#x27;: 3})" in page(found, figures=())


def test_the_page_shows_notes(book):
    assert '<p class="where">read as &lt;text&gt;</p>' in page(evidence(book), figures=())


def test_two_processes_agree_with_one(monkeypatch):
    numbers = ["1-mask", "16", "21", "22", "24", "29", "31", "32", "35", "45", "55", "56", "57", "58"]
    subjects = plan(numbers)
    together = list(run(subjects))
    assert len(together) == len(subjects)
    assert together[-1].complete
    monkeypatch.setattr("iclflow.verify.evidence.run.ALONE", len(subjects))
    alone = list(run(subjects))[-1]

    def timeless(evidence):
        return [
            (entry.equation, replace(entry.proof, seconds=0), [replace(claim, seconds=0) for claim in entry.claims])
            for entry in evidence.entries
        ]

    assert timeless(together[-1]) == timeless(alone)


def test_what_a_stopped_helper_leaves_is_done_here(monkeypatch):
    def stop(seed, numbers, orders, taken, results):
        next(_places(taken, 1))

    monkeypatch.setattr("iclflow.verify.evidence.run._help", stop)
    monkeypatch.setattr("iclflow.verify.evidence.run.get_context", lambda _: multiprocessing.get_context("fork"))
    monkeypatch.setattr("iclflow.verify.evidence.run.ALONE", 1)
    found = list(run(plan(["21", "22", "58"])))[-1]
    assert found.complete
    assert [entry.equation for entry in found.entries] == ["21", "22", "58"]


def test_the_seed_reaches_claims_and_lines_and_is_stored():
    book, seen = ClaimBook(), []

    @book.claim("1", "a random number", method="flow", tolerance=EXACT, theory=0.0, wrong={"one": 1.0})
    def drawn(zero):
        seen.append(draws.number(7))
        return zero

    class Line(StandInLine):
        def verify(self, *, seed):
            seen.append(seed)
            return super().verify(seed=seed)

    stand_in = StandIn("1", lines=(Line(),))
    for seed in (0, 3):
        found = list(run(plan(registry=lambda: [stand_in], checks=lambda: book.select()), seed=seed))[-1]
        assert found.to_json()["seed"] == seed
        assert f"seed {seed}" in render(found)
    with draws.seeded(3):
        assert seen[1::2] == [0, 3]
        assert seen[2] == draws.number(7)
    assert seen[0] == draws.number(7) != seen[2]


def test_a_partial_result_says_so(book):
    partial = next(iter(run(made(book))))
    assert not partial.complete
    assert "interrupted after 1 of 5 equations" in render(partial)
    assert "1 of 5 equations were checked" in page(partial, figures=())


def options(**given):
    return SimpleNamespace(**({"json": None, "report": None, "equation": None, "full": False, "seed": 0} | given))


def test_command_fails_if_anything_fails_and_writes_its_files(book, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("iclflow.verify.evidence.check.plan", lambda numbers, full: made(book, numbers, full=full))
    monkeypatch.setattr("iclflow.verify.evidence.page.FIGURES", {})
    target = tmp_path / "check.json"
    assert command_line.check(options(json=str(target), report=str(tmp_path / "new" / "folder"))) == 1
    assert json.loads(target.read_text())["summary"]["fails"] == 3
    html = (tmp_path / "new" / "folder" / "index.html").read_text()
    assert "3 of 6 fail" in html
    assert "<angle>" not in html
    assert "&lt;angle&gt;" in html
    assert command_line.check(options(equation=["X"])) == 0
    assert "residual 0 <= 0.5" in capsys.readouterr().out


def test_an_interrupt_leaves_a_partial_report_beside_the_complete_one(book, monkeypatch, tmp_path, capsys):
    subjects = [StandIn("1", kind="definition"), StandIn("2"), StandIn("3")]
    monkeypatch.setattr("iclflow.verify.evidence.check.plan", lambda numbers, full: plan(registry=lambda: subjects, checks=list))
    monkeypatch.setattr("iclflow.verify.evidence.page.FIGURES", {})
    target = tmp_path / "check.json"
    written = options(json=str(target), report=str(tmp_path))
    assert command_line.check(written) == 0
    complete = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert complete.keys() == {"check.json", "index.html"}
    found = json.loads(complete["check.json"])
    assert (found["complete"], found["planned"], len(found["entries"])) == (True, 3, 3)
    subjects[2] = StandIn("3", KeyboardInterrupt())
    assert command_line.check(written) == command_line.INTERRUPTED
    assert {name: (tmp_path / name).read_bytes() for name in complete} == complete
    found = json.loads((tmp_path / "check.partial.json").read_text())
    assert (found["complete"], found["planned"], [entry["equation"] for entry in found["entries"]]) == (False, 3, ["1", "2"])
    page = (tmp_path / "index.partial.html").read_text()
    assert "2 of 3 equations were checked" in page
    assert "Every statement holds" not in page
    assert len(list(tmp_path.iterdir())) == 4
    assert "check.partial.json" in capsys.readouterr().out
    subjects[1] = StandIn("2", KeyboardInterrupt())
    subjects[0] = StandIn("1", KeyboardInterrupt())
    assert command_line.check(written) == command_line.INTERRUPTED
    assert {name: (tmp_path / name).read_bytes() for name in complete} == complete
