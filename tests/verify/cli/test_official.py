"""Runs of the official code from its command line: its own losses, its own bits, and files that fit."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from iclflow.numerics.replay.arguments import Arguments
from iclflow.numerics.replay.recording import Recording
from iclflow.numerics.replay.replay import AGREEMENT
from iclflow.verify.cli.main import main

DATA = Path(__file__).parents[2] / "data"
RUNS = json.loads((DATA / "official.json").read_text())
SHORT = ["--epoch", "60", "--trainset_size", "20", "--seq_len", "6", "--in_dim", "3", "--head", "2"]


@pytest.mark.parametrize("run", RUNS, ids=[run["file"] for run in RUNS])
def test_the_losses_are_those_of_the_official_code(run, tmp_path, capsys):
    """The mlp, both attentions, softmax, rank, random and fixed tasks, test sets, white tokens, varied lengths."""
    assert main(["official", *run["options"].split(), "--output", str(tmp_path / "run.npz")]) == 0
    assert capsys.readouterr().out.startswith(run["file"].removesuffix(".txt") + ":")
    with np.load(tmp_path / "run.npz") as file:
        for name, expected in zip(("loss", "loss_iwl", "loss_icl"), run["losses"], strict=False):
            found = file[name][:: run["every"]]
            assert np.abs(found / expected - 1).max() < AGREEMENT, name
            assert np.abs(found[1:] / expected[:-1] - 1).max() > 10 * AGREEMENT, "a shifted curve would be seen"


def test_a_staircase_of_the_official_code_follows_from_its_arguments(tmp_path):
    """In a process of its own: MKL must be told before its first call to give the same bits on every processor."""
    options = ["--model", "attnS", "--head", "5", "--epoch", "10001", "--lr", "0.02", "--seed", "0", "--trainset", "1000"]
    command = [Path(sys.executable).with_name("iclflow"), "official", *options, "--output", "run.npz"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found, recorded = Recording(tmp_path / "run.npz"), np.load(DATA / "separate_rank1_D4.npz")
    for array, name in zip(found.weights, ("value", "key", "query"), strict=True):
        assert np.array_equal(array[0, 0], recorded[f"init.{name}"]), name
    assert np.abs(found.arrays["loss"][::25] / recorded["loss"] - 1).max() < AGREEMENT
    assert [line.split()[0] for line in done.stdout.splitlines()[2:]] == list("01234")


def test_what_is_written_is_replayed_and_compared(tmp_path, capsys):
    file = str(tmp_path / "run.npz")
    assert main(["official", *SHORT, "--output", file, "--figure", str(tmp_path / "run.png")]) == 0
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")
    assert main(["replay", file]) == 0
    assert main(["official", *SHORT, "--compare", file]) == 0
    assert "differs" not in capsys.readouterr().out
    assert main(["official", *SHORT, "--seed", "11", "--compare", file]) == 1
    assert "data.x differs in " in capsys.readouterr().out
    losses = tmp_path / "losses.txt"
    np.savetxt(losses, np.load(file)["loss"] * (1 + 2e-4))
    assert main(["official", *SHORT, "--compare", str(losses)]) == 1
    losses.write_text("a few words\n")
    assert main(["official", *SHORT, "--compare", str(losses)]) == 2
    np.savetxt(losses, np.load(file)["loss"][:-1])
    assert main(["official", *SHORT, "--compare", str(losses)]) == 2
    assert "60 steps, got 59 rows" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--lr 0", "--lr must be a positive finite number, got 0.0"),
        ("--icl 1.5", "--icl must be a share between 0 and 1, got 1.5"),
        ("--seed -1", "--seed must be an integer of at least 0, got -1"),
        ("--out_dim 2", "--out_dim must be 1"),
        ("--model mlp", "--cubic_feat must be given with the mlp"),
        ("--model mlp --cubic_feat --vary_len", "--vary_len must be left out with the mlp"),
        ("--trainset_size 100000000000", "--trainset_size must be at most"),
        ("--in_dim 1", "--in_dim must be an integer of at least 2"),
        ("--trainset_size 3", "--trainset_size must be above in_dim"),
        ("--output run.txt", "run.txt: the file must end in .npz"),
    ],
)
def test_options_that_cannot_be_are_one_line(options, message, capsys):
    assert main(["official", *options.split()]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_the_arguments_are_those_of_the_recordings():
    text = Arguments().to_text()
    assert text.startswith(
        "{'epoch': 6001, 'lr': 0.001, 'seed': 10, 'icl': 1, 'trainset_size': 5000, 'testset_size': 0, 'white_cov': False"
    )
    assert Arguments(testset_size=10, icl=0.6).file_name == "attnM_head1_D4_R1_P5000_N32_seed10_icl0.6.txt"
