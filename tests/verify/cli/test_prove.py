"""``iclflow prove``: the verdict on each line, exit codes, and JSON."""

import json

import pytest
from iclflow.verify.cli.main import main

TRUE = "let A: D x D\nE[S A S] = Lambda A Lambda + (Lambda A' Lambda + tr(A Lambda) Lambda)/N"
FALSE = "E[S^2] = Lambda^2"
UNREAD = "what is this"


@pytest.mark.parametrize(
    ("text", "strict", "code"),
    [
        (TRUE, True, 0),
        (f"{TRUE}\n\n{FALSE}", False, 1),
        (f"{TRUE}\n\n{UNREAD}", False, 0),
        (f"{TRUE}\n\n{UNREAD}", True, 2),
        (f"{UNREAD}\n\n{FALSE}", True, 1),
        (UNREAD, False, 2),
        ("# nothing", False, 2),
    ],
)
def test_exit_codes(tmp_path, capsys, text, strict, code):
    file = tmp_path / "proof.txt"
    file.write_text(text)
    assert main(["prove", str(file), *["--strict"] * strict]) == code
    assert capsys.readouterr().err == ""


def test_what_it_says(tmp_path, capsys):
    file, out = tmp_path / "proof.txt", tmp_path / "verdicts.json"
    file.write_text(f"{TRUE}\n\n{FALSE}\n\n{UNREAD}")
    assert main(["prove", str(file), "--json", str(out)]) == 1
    printed = capsys.readouterr().out
    assert "   2  fails    E[S^2] = Lambda^2\n               at D = 2, N = 5, Lambda = [[" in printed
    assert "line 6: it has no relation" in printed
    assert printed.endswith("1 exact, 1 fails, 1 unread\n")
    report = json.loads(out.read_text())
    assert report["summary"] == {"exact": 1, "numeric": 0, "sampled": 0, "assumed": 0, "fails": 1, "unread": 1}
    line = report["lines"][1]
    assert (line["number"], line["text"], line["status"]) == (2, FALSE, "fails")
    assert line["residual"] > 0.01
    assert {"D", "N", "Lambda"} == set(line["point"])


@pytest.mark.parametrize(
    ("name", "message"),
    [("missing.txt", "No such file"), ("proof.pdf", "the file must end in .txt, .md, .tex"), ("binary.txt", "is no text in UTF-8")],
)
def test_bad_files_are_answered_in_one_line(tmp_path, capsys, name, message):
    file = tmp_path / name
    if name != "missing.txt":
        file.write_bytes(b"\xff\xfe\x00")
    assert main(["prove", str(file)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
