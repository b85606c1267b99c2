"""The command as a user types it: answers, suggestions, exit codes, nothing half-written."""

import atexit
import gc
import json
import os
import re
import signal
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest
import torch
from iclflow.numerics import QuadraticLoss, RegressionTask, SphereTokens, gradient_flow
from iclflow.numerics.dynamics.momentum import heavy_ball_flow
from iclflow.theory import __version__
from iclflow.theory.equations import equations
from iclflow.verify.cli import main as command_line
from iclflow.verify.cli.main import main
from iclflow.verify.cli.parser import build
from iclflow.verify.cli.progress import clock
from iclflow.verify.experiments.setting import Setting
from iclflow.verify.sweep.description import read_sweep


def answer(capsys, *arguments):
    """Exit code, standard output, standard error."""
    try:
        code = main(arguments)
    except SystemExit as end:
        code = end.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_expect(capsys):
    code, out, err = answer(capsys, "expect", "S A S")
    assert (code, err) == (0, "")
    assert out == "Lambda A Lambda + 1/N Lambda A' Lambda + 1/N tr(A Lambda) Lambda\n"
    assert r"\boldsymbol{\Lambda}" in answer(capsys, "expect", "S", "--format", "latex")[1]
    assert answer(capsys, "expect", "S^-1")[1] == "N/(N - D - 1) Lambda^-1, for N > D + 1\n"
    assert answer(capsys, "expect", "S^-1", "--format", "latex")[1].endswith("^{-1},\\quad N > D + 1\n")
    assert answer(capsys, "expect", "-S")[1] == "-Lambda\n"
    assert "cannot read '-S^' at character 4" in answer(capsys, "expect", "-S^")[2]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Tr(S)", "character 1: Tr(...) is not read: write tr(...)"),
        ("2 Exp(S)", "character 3: Exp(...) is not read: write exp(...)"),
        ("Inv(S)", "write inv(...)"),
        ("Det(S)", "Det(...) is not read"),
        ("exp(S)", "exp of a matrix is not read"),
        ("A(S)", "A(...) could be a product or a function"),
        ("H S H'", "character 6: the prime of a number is no transpose"),
        ("S**2", "character 2: found '**', expected ^ for a power"),
        ("S.T", "found '.T', expected ' for the transpose"),
        ("S^T K", "shape mismatch in a product: K has shape (D, R), "),
    ],
)
def test_what_is_no_formula_is_refused_with_the_right_spelling(capsys, text, message):
    text, declared = (text.replace("^T K", " K K"), ["--let", "K: D x R"]) if "K" in text else (text, [])
    code, out, err = answer(capsys, "expect", text, *declared)
    assert (code, out) == (2, "")
    assert message in err


def test_declared_letters(capsys):
    assert answer(capsys, "expect", "E(S) + 1e5 inv(S)")[1] == "Lambda + 100000 N/(N - D - 1) Lambda^-1, for N > D + 1\n"
    assert answer(capsys, "expect", "H S H'", "--let", "H: D x D")[1] == "H Lambda H'\n"
    assert answer(capsys, "expect", "S A S", "--let", "A: symmetric")[1] == "(1 + 1/N) Lambda A Lambda + 1/N tr(A Lambda) Lambda\n"
    laws = ["--let", "g: Gaussian(0, Sigma); A: symmetric", "--let", "W: sample covariance of n with Sigma"]
    assert answer(capsys, "expect", "g' A W A g", *laws)[1] == "tr(A Sigma A Sigma)\n"
    assert answer(capsys, "gradient", "tr(K' A K)", "K", "--let", "K: D x R", "--let", "A: symmetric")[1] == "2 A K\n"
    assert "'K: R x R' cannot be read: K is declared twice" in answer(capsys, "expect", "K", "--let", "K: D x R; K: R x R")[2]


def test_steps(capsys):
    out = answer(capsys, "expect", "(w' x_q)^2 tr(S)", "--steps")[1]
    assert [line[:7] for line in out.splitlines() if line[0].isdigit()] == ["1. Over", "2. Over", "3. Over"]
    assert out.endswith("=  tr(Lambda)^2\n")
    assert answer(capsys, "expect", "A", "--steps")[1] == "A\n"
    latex = answer(capsys, "gradient", "E[tr(A W S W')]", "W", "--steps", "--format", "latex")[1]
    assert latex.startswith("\\begin{align*}\n\\frac{\\partial}{\\partial \\boldsymbol{W}}")


def test_the_letters_are_listed(capsys):
    for command in ("expect", "gradient"):
        with pytest.raises(SystemExit):
            main([command, "--help"])
        out = capsys.readouterr().out
        assert all(word in out for word in ("Lambda_hat", "beta", "w' x_q", "sample covariance of n with Sigma", "inv(A)"))


def test_gradient(capsys):
    assert answer(capsys, "gradient", "tr(A W S W')", "W")[1] == "A W Lambda_hat + A' W Lambda_hat\n"
    assert answer(capsys, "gradient", "-tr(W)", "W")[1] == "-I\n"


def test_large_weights_are_told_in_one_line(capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        code, out, err = answer(capsys, "flow", "--scale", "100")
        assert code == 0
        assert out.splitlines()[0].split() == ["m", "theory", "flow", "loss", "flow", "drop"]
        assert err.startswith("iclflow: warning: initial weights of norm 1.5e+02 are large: until t/tau = 1.3e+03 the flow moves them")
        assert err.count("\n") == 1
        assert "\nno prediction from the initial weights: weights must be small" in out


@pytest.mark.slow  # it takes all the steps there are
def test_an_integration_that_fails_is_told_in_one_line(capsys):
    code, out, err = answer(capsys, "flow", "--scale", "1e6", "--seed", "2")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith("iclflow: the integration failed after t = ")
    assert "the loss rises by" in err or "more than max_steps" in err  # which comes first depends on rounding


def test_flow_shows_the_predicted_drops_with_their_bounds(capsys):
    lines = answer(capsys, "flow")[1].splitlines()
    drops = [float(line.split()[-1]) for line in lines[1:5]]
    predicted = re.findall(r"\(([0-9.]+) to ([0-9.]+)\)", lines[6])
    assert all(float(early) <= drop <= float(late) for drop, (early, late) in zip(drops, predicted, strict=True))
    assert lines[7].startswith("drop 4 lies between ")


def test_a_call_leaves_the_process_as_it_was(capsys, monkeypatch):
    """The collector and the end of the process belong to the caller; the console script, which has no arguments, sets both."""
    registered: list[object] = []
    monkeypatch.setattr(atexit, "register", registered.append)
    monkeypatch.setattr(gc, "set_threshold", lambda *numbers: registered.append(numbers))
    assert answer(capsys, "expect", "S")[0] == 0
    assert registered == []
    monkeypatch.setattr(sys, "argv", ["iclflow", "expect", "S"])
    assert main() == 0
    assert registered == [(200_000, 20, 20), gc.freeze]


def test_other_runtime_errors_are_not_hidden(monkeypatch):
    def broken(options):
        raise RuntimeError("a mistake in the program")

    monkeypatch.setitem(command_line.COMMANDS, "expect", broken)
    with pytest.raises(RuntimeError, match="a mistake"):
        main(["expect", "S"])


def test_a_reader_that_has_read_enough_is_told_nothing():
    script = "import sys; from iclflow.verify.cli.main import main; sys.exit(main(['derive', '24']))"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        assert run.stdout is not None
        assert run.stderr is not None
        run.stdout.close()
        assert run.stderr.read() == b""
        assert run.wait() == 141


def test_derive_at_another_task(capsys):
    assert main(["derive", "23", "--task", "noise=1/2"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.startswith("(23) ")
    assert ", for noise=1/2 1. " in printed
    assert "e' B e = 2 N chi/(2 N lambda + 2 T + 2 lambda + 1)" in printed
    for words, problem in (
        (["task_covariance"], "M Lambda = Lambda M, no longer holds"),
        (["size=3"], "--task must name noise, task_covariance"),
        (["noise=x"], "--task noise must be a number such as 1/2, got 'x'"),
    ):
        assert main(["derive", "23", "--task", *words]) == 2
        assert problem in capsys.readouterr().err


def test_derive_and_export(capsys, tmp_path):
    assert answer(capsys, "derive", "31")[1].startswith("(31) Second moment of the sample covariance")
    target = tmp_path / "equations.md"
    assert answer(capsys, "export", "--output", str(target), "--equation", "31", "32")[0] == 0
    assert "(31)" in target.read_text()
    assert "(32)" in target.read_text()


def test_equations_are_listed_found_and_derived_together(capsys):
    listed = answer(capsys, "derive", "--list")[1].splitlines()
    assert len(listed) == len(equations())
    assert "24             The loss levels of the plateaus [exact; Section 4.3]" in listed
    found = answer(capsys, "search", "loss", "PLATEAUS")[1].splitlines()
    assert set(found) < set(listed)
    assert listed[[line.split()[0] for line in listed].index("24")] in found
    code, out, err = answer(capsys, "search", "unheard")
    assert (code, out, err.count("\n")) == (1, "", 1)
    both = answer(capsys, "derive", "31", "32")[1]
    assert both == "\n".join(answer(capsys, "derive", number)[1] for number in ("31", "32"))


def test_version(capsys):
    code, out, _ = answer(capsys, "--version")
    assert (code, out) == (0, f"iclflow {__version__}\n")


def test_numbers_of_equations_are_completed(capsys):
    script = answer(capsys, "--completion", "bash")[1]
    assert " 24 " in script
    assert " 9-closed " in script


def test_a_part_of_the_paper_is_exported_under_its_own_title(capsys, tmp_path):
    target = tmp_path / "some.md"
    wanted = ["--equation", "31", "24", "32", "--sections", "B", "--title", "Second moments"]
    assert answer(capsys, "export", "--output", str(target), *wanted) == (0, "", "")
    lines = target.read_text().splitlines()
    assert lines[:4] == ["# Second moments", "", "- Appendix B. Preliminaries", "  - [(31) Second moment of the sample covariance](#eq-31)"]
    assert '<a id="eq-32"></a>' in lines
    assert "[(31)](#eq-31)" in target.read_text().partition("### (32)")[2]
    assert "(24)" not in target.read_text()


@pytest.mark.parametrize(("form", "shown"), [("text", "30. "), ("latex", r"\tag{30}"), ("markdown", "30. ")])
def test_derive_in_full(capsys, form, shown):
    whole = answer(capsys, "derive", "24", "--full", "--format", form)[1]
    alone = answer(capsys, "derive", "24", "--format", form)[1]
    assert shown in whole
    assert shown not in alone
    assert "(31) Second moment" in whole
    assert "(31) Second moment" not in alone


def test_map(capsys, tmp_path):
    drawn, judged = tmp_path / "map.json", tmp_path / "check.json"
    line = {"status": "numeric", "relation": "="}
    judged.write_text(json.dumps({"entries": [{"equation": "24", "proof": {"status": "holds"}, "lines": [line]}]}))
    assert answer(capsys, "map", "--output", str(drawn), "--equation", "24", "--json", str(judged)) == (0, "", "")
    nodes = {node["number"]: node for node in json.loads(drawn.read_text())["nodes"]}
    assert nodes["24"] == {
        "number": "24", "title": "The loss levels of the plateaus", "kind": "exact", "section": "Section 4.3", "status": "numeric",
    }  # fmt: skip
    assert nodes["59"]["status"] == "not judged"
    assert "1" not in nodes
    assert answer(capsys, "map", "--output", str(tmp_path / "map.svg"), "--equation", "24")[0] == 0
    assert (tmp_path / "map.svg").read_text().startswith("<svg ")
    for content in (drawn.read_text(), "[1", "\udcff"):  # a map, and what is no JSON, no text
        judged.write_text(content, errors="surrogateescape")
        code, _, err = answer(capsys, "map", "--output", str(tmp_path / "none.json"), "--json", str(judged))
        assert (code, err.count("\n")) == (2, 1)
        assert f"error: {judged}: " in err
    assert not (tmp_path / "none.json").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["map", "--output", "map.png"], "map.png: the file must end in .svg or .json, got '.png'"),
        (["map", "--output", "map.svg", "--equation", "3111"], "no equation (3111)"),
        (["sweep", "s.toml", "--output", "o", "--workers", "0"], "--workers must be a whole number from 1 to 10,000, got '0'"),
        (["explore", "--port", "65536"], "--port must be a whole number from 0 to 65,535, got '65536'"),
        (["derive", "24", "--task", "noise=-1"], "that is not negative, got -1"),
        (["chekc"], "did you mean check?"),
        (["check", "--equaton", "3"], "there is no option --equaton; did you mean --equation?"),
        (["check", "--equation", "999"], "there is no equation '999'"),
        (["derive", "3111"], "no equation (3111); the nearest are"),
        (["derive", "31", "--format", "latx"], "did you mean latex?"),
        (["derive"], "required: N"),
        (["derive", "31", "3111"], "no equation (3111); the nearest are"),
        (["search"], "required: WORD"),
        (["search", " "], "search: needs at least one word"),
        (["export", "--output", "a.tex", "--sections", "7"], "sections must be among 2, 3, 4, 5, B, C, D, E, F, beside, got 7"),
        (["expect", "S A ("], "cannot read"),
        (["gradient", "S", "W W"], "W W"),
        (["gradient", "tr(A W S W')", "Q"], "error: Q does not occur in tr(A W Lambda_hat W'), which holds A, Lambda_hat, W"),
        (["gradient", "tr(A W S W')", "N"], "error: N does not occur in"),
        (["gradient", "tr(A W S W')", "D"], "D is the dimension of a matrix"),
        (["flow", "--context-length", "0"], "--context-length must be"),
        (
            ["flow", "--eigenvalues", "0.4,x"],
            "--eigenvalues must be 1 to 1,000 positive numbers separated by commas, each from 1e-100 to 1e+100, got '0.4,x'",
        ),
        (["flow", "--eigenvalues", "0.4,-0.1"], "error: --eigenvalues must be 1 to 1,000 positive numbers"),
        (["flow", "--eigenvalues", "-0.1,0.4"], "error: --eigenvalues must be 1 to 1,000 positive numbers"),
        (["flow", "--rank", "9"], "--rank must be at most the dimension 4, got 9"),
        (["flow", "--noise-variance", "-1"], "error: --noise-variance must be a number from 0 to 1e+100, got '-1'"),
        (["flow", "--noise-varance", "1"], "did you mean --noise-variance?"),
        (["flow", "--task-eigenvalues", "1,2"], "--task-eigenvalues must have one eigenvalue for each of the tokens' 4"),
        (["train", "--query-eigenvalues", "1,2,0,1"], "--query-eigenvalues must be 1 to 1,000 positive numbers"),
        (["flow", "--task-covariance", "1,2;2,1"], "--task-covariance must have a row of 4 numbers for each"),
        (["flow", "--eigenvalues", "1,2", "--task-covariance", "1,2;2,1"], "--task-covariance must be nonzero and positive semidefinite"),
        (
            ["flow", "--task-covariance", "1,2;x,1"],
            "--task-covariance must be the rows of a matrix, numbers up to 1e+100 separated by commas and rows by semicolons, got",
        ),
        (["flow", "--task-covariance", "1", "--task-eigenvalues", "1"], "not allowed with argument --task-covariance"),
        (["flow", "--context-lengths", "5-"], "--context-lengths must be lengths such as 8,16 or 1-31"),
        (["flow", "--context-lengths", "8:0.2,9"], "--context-lengths must be lengths such as 8,16 or 1-31"),
        (["flow", "--context-lengths", "9-8"], "--context-lengths must be lengths in ranges that rise, such as 1-31, got '9-8'"),
        (["flow", "--context-lengths", "8:0.5,8:0.5"], "--context-lengths must be different lengths, got '8:0.5,8:0.5'"),
        (["flow", "--context-lengths", "0-8"], "at most 10,000, from 1 to 1,000,000,000, got '0-8'"),
        (["flow", "--context-lengths", "1-1000000000"], "--context-lengths must be at most 10,000 lengths"),
        (["flow", "--context-lengths", "8,1-9999,5-6"], "--context-lengths must be at most 10,000 lengths"),
        (
            ["flow", "--context-lengths", "8:0.2,9:0.5"],
            "--context-lengths must be lengths with probabilities that add up to 1, got '8:0.2,9:0.5'",
        ),
        (["flow", "--context-lengths", "8", "--context-length", "9"], "not allowed with argument --context-lengths"),
        (["flow", "--token-law", "spere"], "--token-law must be gaussian, sphere, rademacher or student:NU"),
        (["flow", "--token-law", "spere"], "got 'spere'; did you mean sphere?"),
        (["flow", "--token-law", "student:9.5"], "with a whole NU above 4, up to 1,000, got 'student:9.5'\n"),
        (
            ["flow", "--token-law", "student:4"],
            "--token-law must be gaussian, sphere, rademacher or student:NU with a whole NU above 4, up to 1,000, got 'student:4'\n",
        ),
        (["train", "--momentum", "1"], "error: --momentum must be a number of at least 0 and below 1, got '1'"),
        (["train", "--momentum", "-0.1"], "error: --momentum must be a number of at least 0 and below 1, got '-0.1'"),
        (["flow", "--seed", "-1"], "error: --seed must be a whole number from 0 to 9,223,372,036,854,775,807, got '-1'"),
        (["train", "--batch-size", "0"], "error: --batch-size must be a whole number from 1 to 10,000,000, got '0'"),
        (["flow", "--heads", "0"], "error: --heads must be a whole number from 1 to 10,000, got '0'"),
        (["flow", "--heads", "2"], "error: --heads must be at least 4 of rank 1 to learn 4 directions, got 2"),
        (["train", "--learning-rate", "100"], "error: --learning-rate must be smaller, got 100.0: the loss is nan at step"),
        (["train", "--learning-rate", "1e5"], "error: --learning-rate must be from 6.5e-06 to below 118, for 6 to"),
        (["train", "--duration", "0.1"], "error: --learning-rate must be from 5e-10 to below 0.00909, for 6 to 100,000,000 steps"),
        (["train", "--duration", "1"], "to below 0.0909, for 6 to 100,000,000 steps until duration 1, got 0.4"),
        (["train", "--learning-rate", "1e-9"], "100,000,000 steps until duration 1300, got 1e-09"),
        (["flow", "--duration", "nan"], "error: --duration must be a positive number of at most 1e+20, got 'nan'"),
        (
            ["flow", "--heads", "9999", "--rank", "600", "--eigenvalues", ",".join(["1"] * 600)],
            "error: --heads must be few enough for 10,000,000 weights, got 9999 of rank 600 in dimension 600",
        ),
        (
            ["train", "--batch-size", "10000000"],
            "error: --batch-size must be small enough for 1,000,000,000 numbers, got 10000000 sequences of 32 tokens",
        ),
        (["train", "--token-law", "student:999", "--batch-size", "99999"], "32 tokens, drawn from 999 numbers each"),
        (["train", "--device", "gpu"], "error: --device must be cpu, or cuda if PyTorch finds a GPU, got 'gpu'"),
        (["--completion", "zhs"], "there is no 'zhs'; did you mean zsh?"),
        (["train", "--momentm", "0.5"], "did you mean --momentum?"),
        (["check", "V6", "24", "--full"], "nothing more was expected, got 'V6'; did you mean --equation V6 24?"),
        (["flow", "--duration", "5", ""], "nothing more was expected, got ''"),
        (["export", "31", "--output", "a.tex"], "did you mean --equation 31?"),
        (["figure", "starcase", "--output", "a.png"], "did you mean staircase?"),
        (["figure", "staircase", "--output", "a.jpeg"], "must end in one of .png, .pdf, .svg"),
        (["export", "--output", "a.doc"], "must end in .tex, .md or .json"),
        (["export", "--output", "/nowhere/a.tex"], "/nowhere/a.tex: the directory /nowhere does not exist"),
        (["check", "--json", "/nowhere/a.json"], "the directory /nowhere does not exist"),
        (["check", "--report", "/proc/nowhere"], "/proc/nowhere: the directory cannot be made"),
        (["replay", "/nowhere/run.npz"], "/nowhere/run.npz"),
        (["flow", "--output", "run.csv"], "run.csv: the file must end in .npz"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(capsys, arguments, message):
    code, out, err = answer(capsys, *arguments)
    assert code == 2
    assert message in err
    assert out == ""
    assert err.count("\n") == 1


def test_replay_names_file_and_key(capsys, tmp_path):
    broken, lacking = tmp_path / "broken.npz", tmp_path / "lacking.npz"
    broken.write_bytes(b"PK\x03\x04 and no more")
    np.savez(lacking, loss=np.ones(3))
    for path, word in ((broken, "broken.npz"), (lacking, "lacking.npz")):
        code, _, err = answer(capsys, "replay", str(path), "--json", str(tmp_path / "out.json"))
        assert (code, word in err, err.count("\n")) == (2, True, 1)
    assert not (tmp_path / "out.json").exists()


def recorded_run(path, steps=40, **changed):
    """A run in the layout of the official code, made by attention that sums over the context."""
    from iclflow.verify.training.descent import fixed_set, train
    from iclflow.verify.training.modules import MergedAttention

    D, H, L, P = 2, 2, 6, 30
    rng = np.random.default_rng(0)
    x = rng.standard_normal((P, L, D + 1))
    x[:, :, D] = np.einsum("pld,pd->pl", x[:, :, :D], rng.standard_normal((P, D)))
    y = np.zeros_like(x)
    y[:, :, D] = x[:, :, D]
    x[:, -1, D] = 0
    value, kq = 0.3 * rng.standard_normal((2, H, D + 1, D + 1))
    softmax = bool(changed.get("softmax"))
    network = MergedAttention(value, kq.transpose(0, 2, 1), rho=1.0, softmax=softmax)
    batch = (torch.tensor(x).mT, torch.tensor(y[:, -1, D]))
    run = train(network, fixed_set(batch), steps=steps - 1, learning_rate=0.01)
    settings = {"model": "attnM", "lr": 0.01, "in_dim": D, "head_num": H, "seq_len": L, "softmax": False} | changed
    arrays = {
        "data.x": x,
        "data.y": y,
        "init.value.weight": value.reshape(H * (D + 1), D + 1),
        "init.kq.weight": kq.reshape(H * (D + 1), D + 1),
        "loss": run.batch_loss,
        "args": np.array(str(settings)),
        "seconds": np.array(1.0),
    }
    np.savez(path, **arrays)
    return path


def test_replay_of_a_recorded_run(capsys, tmp_path):
    target = tmp_path / "out.json"
    code, out, _ = answer(capsys, "replay", str(recorded_run(tmp_path / "run.npz")), "--json", str(target))
    assert code == 0
    assert "largest relative difference" in out
    assert json.loads(target.read_text())["max_relative_error"] < 1e-12
    code, out, _ = answer(capsys, "replay", str(tmp_path / "run.npz"), "--training")
    assert (code, "steps of PyTorch" in out) == (0, True)
    softmax = recorded_run(tmp_path / "softmax.npz", softmax=True)
    code, out, _ = answer(capsys, "replay", str(softmax))
    assert (code, "40 steps of PyTorch" in out) == (0, True)
    with np.load(tmp_path / "run.npz") as arrays:
        np.savez(tmp_path / "wrong.npz", **(dict(arrays) | {"loss": 1.01 * arrays["loss"]}))
    assert answer(capsys, "replay", str(tmp_path / "wrong.npz"))[0] == 1


def test_flow_and_train_show_theory_beside_the_run(capsys, tmp_path):
    target = tmp_path / "flow.npz"
    code, out, _ = answer(capsys, "flow", "--output", str(target))
    assert code == 0
    assert out.splitlines()[1].split() == ["0", "1.000000", "0.999820", "109.80"]
    with np.load(target) as arrays:
        assert set(arrays) == {"times", "loss", "v", "k", "q", "setting"}
        assert json.loads(str(arrays["setting"]))["context_length"] == 31
        assert arrays["k"].shape == (len(arrays["times"]), 5, 1, 4)
    target = tmp_path / "train.npz"
    code, out, err = answer(capsys, "train", "--duration", "20", "--batch-size", "16", "--output", str(target))
    assert (code, err) == (0, "")
    assert "25 steps of SGD" in out
    with np.load(target) as arrays:
        assert arrays["times"][-1] == 20


def test_train_with_momentum_is_compared_with_the_flow_that_has_mass(capsys, tmp_path):
    """Of few steps, which gradient flow does not describe; eta (1 + mu)/(1 - mu)^2 = 36."""
    target = tmp_path / "ball.npz"
    options = "--duration 300 --momentum 0.9 --learning-rate 0.19 --batch-size 4096 --scale 0.3"
    code, out, _ = answer(capsys, "train", *options.split(), "--output", str(target))
    assert code == 0
    lines = out.splitlines()
    assert lines[-2].startswith("79 steps of SGD with momentum 0.9, beside the flow with mass 36.1 tau, (V8-ball), in ")
    with np.load(target) as arrays:
        setting, times, loss = json.loads(str(arrays["setting"])), arrays["times"], arrays["loss"]
    assert setting["momentum"] == 0.9
    assert times[-1] == pytest.approx(300, abs=2)
    known = Setting(duration=300, momentum=0.9, learning_rate=0.19, batch_size=4096, scale=0.3)
    start, population = known.weights, QuadraticLoss.population(known.task)
    clock = np.minimum(times, 300)
    ball = heavy_ball_flow(population, start, learning_rate=0.19, momentum=0.9, t_end=300).loss_at(clock)
    distance = float(np.sqrt(np.mean((loss - ball) ** 2)) / loss[0])
    assert lines[-1] == f"the two losses differ by {distance:.1e} of the initial loss, root mean square over time"
    plain = gradient_flow(population, start, t_end=300).loss_at(clock)
    assert np.sqrt(np.mean((loss - plain) ** 2)) / loss[0] > 3 * distance


def test_a_varied_task_is_recorded_beside_its_plateaus(capsys, tmp_path):
    target = tmp_path / "noisy.npz"
    options = "--noise-variance 0.5 --context-lengths 8-31 --token-law sphere --duration 1500"
    code, out, _ = answer(capsys, "flow", *options.split(), "--output", str(target))
    assert code == 0
    head = "task: --noise-variance 0.5 --context-lengths 8-31 --token-law sphere; theory: directions in the order in which heads visit them"
    assert out.splitlines()[0] == head
    theory, flow = (float(x) for x in out.splitlines()[6].split()[1:3])
    task = RegressionTask(eigenvalues=[0.4, 0.3, 0.2, 0.1], context_lengths=range(8, 32), token_law=SphereTokens(), noise_variance=0.5)
    assert theory == pytest.approx(task.loss_moments.c - task.modes.drops.sum(), abs=1e-6)
    assert flow == pytest.approx(theory, abs=1e-5)
    with np.load(target) as arrays:
        recorded = json.loads(str(arrays["setting"]))
    assert (recorded["noise_variance"], recorded["token_law"], recorded["context_lengths"][-1]) == (0.5, "sphere", [31, 1 / 24])
    code, out, _ = answer(capsys, "train", *options.split()[:-1], "20", "--batch-size", "16")
    assert (code, out.splitlines()[0]) == (0, head)


@pytest.mark.parametrize(
    ("options", "rows"),
    [
        ("--eigenvalues 1,0.5 --task-eigenvalues 0.3,0.8 --scale 0.03 --heads 3 --seed 1 --duration 900", ["{}", "{1}", "{2}", "{1,2}"]),
        (
            "--eigenvalues 1.2,0.6,0.3 --task-eigenvalues 0.4,1.1,2.1 --scale 0.03 --heads 4 --seed 1 --duration 900",
            ["{}", "{1}", "{2}", "{1,2}", "{2,3}", "{1,2,3}"],
        ),
        (  # a head of rank two fills its second slot before it turns
            "--eigenvalues 1,0.6,0.4 --task-eigenvalues 0.3,0.7,1.4 --scale 0.003 --heads 2 --rank 2 --duration 30000",
            ["{}", "{1}", "{2}", "{3}", "{1,2}*", "{1,3}", "{2,3}", "{1,2,3}"],
        ),
    ],
)  # fmt: skip
def test_levels_are_those_at_which_heads_that_turn_rest(capsys, options, rows):
    code, out, _ = answer(capsys, "flow", "--context-length", "20", *options.split())
    assert code == 0
    table = [line.split() for line in out.splitlines()[2 : 2 + len(rows)]]
    assert [row[-1] for row in table] == rows
    rank_two = "--rank" in options
    assert any(line.startswith("*") for line in out.splitlines()) == rank_two
    for _m, theory, flow, *_ in table:
        if not (rank_two and flow == "-"):
            assert float(flow) == pytest.approx(float(theory), rel=1e-2), "a turning head leaves no flat plateau"


def test_train_names_what_went_wrong(capsys):
    setting = "--eigenvalues 0.6,0.3 --heads 2 --scale 0.5 --seed 3 --duration 30 --learning-rate 0.9 --batch-size 32768"
    code, out, _ = answer(capsys, "train", *setting.split())
    assert code == 0
    assert "cause: steps too large\n" in out


def test_check_of_one_equation_shows_its_evidence(capsys, tmp_path):
    target = tmp_path / "check.json"
    code, out, err = answer(capsys, "check", "--equation", "32", "--json", str(target))
    assert (code, err) == (0, "")
    assert "50 digits: residual" in out
    assert json.loads(target.read_text())["summary"] == {"holds": 2, "fails": 0}


def test_a_directory_without_write_permission_is_named(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root, who may run the tests, could write anywhere
    for options in (["--json", str(tmp_path / "a.json")], ["--report", str(tmp_path)]):
        code, _, err = answer(capsys, "check", "--equation", "32", *options)
        assert (code, "cannot be written to" in err) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_every_command_has_an_example_that_parses():
    import shlex

    parser = build()
    commands = parser._subparsers._group_actions[0].choices
    for name, command in commands.items():
        example = command.epilog.splitlines()[1].strip()
        assert parser.parse_args(shlex.split(example)[1:]).command == name
        assert "exit codes" in command.epilog


def test_what_the_help_shows_of_a_file_can_be_read(capsys, tmp_path):
    swept, proof = tmp_path / "s.toml", tmp_path / "proof.txt"
    swept.write_text(answer(capsys, "sweep", "--help")[1].partition("s.toml:\n")[2].partition("\n\n")[0])
    assert len(read_sweep(swept)) == 20
    proof.write_text(answer(capsys, "prove", "--help")[1].partition("proof.txt: ")[2].partition(", in the letters")[0])
    assert answer(capsys, "prove", str(proof))[1].endswith("1 exact\n")


def test_a_file_that_is_no_recording_is_told_what_writes_one(capsys, tmp_path):
    np.savez(tmp_path / "run.npz", loss=np.ones(3))
    code, _, err = answer(capsys, "replay", str(tmp_path / "run.npz"))
    assert (code, err.endswith("run.npz: args: is missing; iclflow official --output writes what can be replayed\n")) == (2, True)


@pytest.mark.parametrize(
    ("command", "absent"),
    [
        (["expect", "S A S"], {"torch", "matplotlib", "scipy"}),
        (["derive", "31"], {"torch", "matplotlib", "scipy"}),
        (["export", "--equation", "31", "--output", "31.tex"], {"torch", "matplotlib", "scipy"}),
        (["flow"], {"torch", "matplotlib", "numba", "scipy.ndimage", "sympy.physics", "iclflow.theory.results.estimators"}),
    ],
)
def test_commands_load_nothing_heavy_that_they_do_not_use(command, absent, tmp_path):
    script = (
        f"import sys; from iclflow.verify.cli.main import main; code = main({command!r});"
        f"loaded = {absent!r} & set(sys.modules); sys.exit(str(loaded) if loaded else code)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, cwd=tmp_path)


def test_the_installed_command_runs_and_is_quiet_when_piped():
    command = os.path.join(os.path.dirname(sys.executable), "iclflow")
    done = subprocess.run([command, "check", "--equation", "32"], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert "\x1b" not in done.stdout


def test_figure_help_lists_every_figure_and_loads_none(capsys):
    from iclflow.verify.figures.gallery import load

    listed = answer(capsys, "figure", "--help")[1].partition("figures:")[2]
    assert all(re.search(rf"[ ,]{name}[,\n]", listed) for name in load())
    script = (
        "import sys\nfrom iclflow.verify.cli.main import main\ntry:\n    main(['figure', '--help'])\nexcept SystemExit:\n    pass\n"
        "assert not {'torch', 'matplotlib', 'scipy', 'sympy', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)


class Terminal:
    def isatty(self):
        return True


def test_no_color_is_respected(monkeypatch):
    from iclflow.verify.evidence.table import colours

    monkeypatch.delenv("NO_COLOR", raising=False)
    assert colours(Terminal())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not colours(Terminal())


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_the_completion_knows_every_command(shell, capsys):
    with pytest.raises(SystemExit) as left:
        main(["--completion", shell])
    script = capsys.readouterr().out
    assert left.value.code in (0, None)
    assert all(
        name in script
        for name in (*command_line.COMMANDS, "--equation", "--report", "--noise-variance", "rademacher", "--momentum", "merged-drop")
    )


def test_a_terminal_sees_that_a_long_computation_goes_on_and_the_output_stays_clean(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with clock("iclflow expect", patience=0.01):
        time.sleep(1.2)
    shown = capsys.readouterr()
    assert "iclflow expect: 1 s, Ctrl-C stops it" in shown.err
    assert shown.err.endswith("\x1b[K")
    assert shown.out == ""
    with clock("iclflow expect"):
        pass
    assert capsys.readouterr().err == ""


def test_ctrl_c_ends_an_expectation_within_a_second():
    program = "import sys; from iclflow.verify.cli.main import main; print('ready', flush=True); sys.exit(main(sys.argv[1:]))"
    process = subprocess.Popen([sys.executable, "-c", program, "expect", "(Lambda S)^12"], stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    process.stdout.readline()
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    begin = time.monotonic()
    process.communicate(timeout=60)
    assert process.returncode in (0, command_line.INTERRUPTED)
    assert time.monotonic() - begin < 10  # a second on a free core
