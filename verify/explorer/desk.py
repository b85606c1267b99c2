"""The desk of the explorer: a derivation by verbs, judged line by line, and the verdicts on a proof. What is typed is read, never run.

>>> found = json.loads(answer(json.dumps({"start": "S A S", "steps": ["expect"], "let": "A: symmetric"})))
>>> [(line["status"], line["reason"]) for step in found["steps"] for line in step["lines"]]
[('exact', 'The expectation')]
"""

import json
import time
from dataclasses import replace
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any

from ...theory.derivations.derivation import Derivation, line_rows
from ...theory.derivations.judging.trial import Verdict
from ...theory.derivations.lines import Line
from ...theory.proofs.counterexamples import counterexample
from ...theory.proofs.documents import statements
from ...theory.proofs.judging import judgements, report
from ...theory.proofs.written import Played, Written, play
from ...theory.typesetting.line_breaks import aligned
from ..evidence.page import mathml, sentence

MAX_LET = 2_000  # characters of declarations
PROOF_SECONDS = 40.0  # after which the rest of a proof is left to the command line


def answer(request: str) -> bytes:
    """The answer to a request, as JSON: {"start", "steps", "let", "preview"} of a derivation, or {"name", "proof"}.

    {"error": ...} for what cannot be read. With ``preview`` nothing is judged: only the last text is typeset.
    """
    try:
        given = json.loads(request)
        if not isinstance(given, dict):
            raise ValueError("a request is a JSON object")
        result = _judged(given) if "proof" in given else _derived(given)
    except MemoryError:
        raise
    except Exception as problem:  # whatever SymPy raises, the process goes on
        result = {"error": " ".join(str(problem).split()) or type(problem).__name__}
    return json.dumps(result).encode()


def _given(given: dict, name: str, kind: type, default: Any = None) -> Any:
    value = given.get(name, default)
    if not isinstance(value, kind) or (kind is list and not all(isinstance(one, str) for one in value)):
        raise ValueError(
            f"{name} must be a {'list of texts' if kind is list else 'text' if kind is str else 'truth value'}, got {value!r:.40}"
        )
    return value


def _derived(given: dict) -> dict:
    start, steps, let = _given(given, "start", str), _given(given, "steps", list, []), _given(given, "let", str, "")
    if len(let) > MAX_LET:
        raise ValueError(f"let has at most {MAX_LET} characters, got {len(let)}")
    declared = tuple(filter(str.strip, let.splitlines()))
    if _given(given, "preview", bool, False):
        return {"shown": _shown(Written(start, steps, declared).shown[-1])}
    built, played = play(start, steps, declared)
    held = [one.step for one in played if not one.error]
    result = {"shown": _shown(Written(start, [], declared).shown[0]), "steps": [], "python": python(start, held, declared)}
    before: Line | None = None
    for one in played:
        problem = "" if one.lines else " ".join(str(one.error).split())
        result["steps"].append({"problem": problem, "lines": _lines(one, before)})
        before = before if one.error else one.lines[-1]
    if built.lines:
        chained = (_continued(before, line) for before, line in pairwise((None, *built.lines)) if line)  # a = b = c, not a = b, a = c
        whole = Derivation(tuple(chained), verdicts=tuple(one.status * (one.status != "assumed") for one in built.verdicts))
        result |= {"latex": replace(whole, verdicts=()).latex(), "markdown": whole.markdown()}
        result["notebook"] = notebook(whole.markdown(), result["python"])
    return result


def _continued(before: Line | None, line: Line) -> Line:
    same = before is not None and before.relation == line.relation == "=" and before.left == line.left
    return replace(line, left=before.right) if before and same else line


def _lines(played: Played, before: Line | None) -> list[dict]:
    found = []
    for line, verdict in zip(played.lines, played.verdicts, strict=True):
        formula = _shown(aligned(line_rows(before, _continued(before, line)), "aligned"))
        found.append({"formula": formula, "reason": sentence(line.reason), "status": verdict.status, "how": _how(line, verdict)})
        before = line
    return found


def _how(line: Line, verdict: Verdict) -> str:
    if not verdict:
        return f"fails {counterexample(line, verdict)}"
    return verdict.method + (f", residual {verdict.residual:.1g}" if verdict.residual else "")


def _shown(latex: str) -> str:
    """MathML; the LaTeX itself if there is none for it."""
    try:
        return mathml(latex, display=True) if latex else ""
    except Exception:  # the converter has no error of its own
        return f"<code>{escape(latex)}</code>"


def _judged(given: dict) -> dict:
    """The verdict on each line of a proof, in the time that there is."""
    said = statements(Path(_given(given, "name", str)), _given(given, "proof", str))
    end, lines, complete = time.monotonic() + PROOF_SECONDS, [], True
    for line in judgements(said):
        if time.monotonic() > end:
            complete = False
            break
        lines.append(line)
    return {**report(lines), "complete": complete}


def python(start: str, steps: list[str], let: tuple[str, ...]) -> str:
    """A Python program that makes this derivation. What was typed stands in it as text only."""
    texts = [start, *steps]
    declared = f"    let={list(let)!r},\n" if let else ""
    lines = "".join(f"    {text!r},\n" for text in texts)
    return (
        f"from iclflow.theory.proofs.written import derive_written\n\nderivation = derive_written(\n{lines}{declared})\nprint(derivation)\n"
    )


def notebook(markdown: str, code: str) -> str:
    """A Jupyter notebook with the derivation, and the program that makes it."""
    text = {"cell_type": "markdown", "id": "derivation", "metadata": {}, "source": "# A derivation\n\n" + markdown}
    program = {"cell_type": "code", "id": "program", "metadata": {}, "execution_count": None, "outputs": [], "source": code}
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return json.dumps({"cells": [text, program], "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}, indent=1)
