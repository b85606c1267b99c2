"""Sweeps through a real Dask scheduler with two workers on this machine, with processes killed on the way."""

import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from iclflow.verify.cli.main import main
from iclflow.verify.experiments.processes import SINGLE_THREADED
from iclflow.verify.sweep.description import read_sweep
from iclflow.verify.sweep.execution import run_sweep

pytestmark = pytest.mark.slow  # three times hundreds of runs, and processes that import PyTorch

PLAN = """
points = 60
[setting]
heads = 4
[vary]
seed = { first = 0, count = COUNT }
"scale, duration" = [[0.2, 150], [0.1, 300]]
rank = [1, 2]
"""
PROGRAM = "import sys; from iclflow.verify.cli.main import main; sys.exit(main(sys.argv[1:]))"


def dask(*arguments: str) -> subprocess.Popen:
    environment = {**os.environ, **SINGLE_THREADED}
    command = [sys.executable, "-m", "dask", *arguments]
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@contextmanager
def cluster():
    """The address of a scheduler, and its two workers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    port = address.rsplit(":", 1)[1]
    started = [dask("scheduler", "--host", "127.0.0.1", "--port", port, "--no-dashboard")]
    try:
        worker = ("worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard")
        started += [dask(*worker) for _ in range(2)]
        from distributed import Client

        with Client(address, timeout=60) as client:
            client.wait_for_workers(2, timeout=120)
        yield address, started[1:]
    finally:
        for process in started:
            process.kill()
            process.wait()


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "runs").glob("*.nc")}


def wait_for(folder: Path, count: int) -> None:
    deadline = time.monotonic() + 300
    while len(list((folder / "runs").glob("*.nc"))) < count:
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize(("seeds", "tasks", "early"), [(20, 80, 15), (60, 4, 1)], ids=["one by one", "side by side"])
def test_a_cluster_gives_the_same_bits_whoever_is_killed(seeds, tasks, early, tmp_path):
    plan = tmp_path / "sweep.toml"
    plan.write_text(PLAN.replace("COUNT", str(seeds)))
    alone, killed, restarted = tmp_path / "alone", tmp_path / "killed", tmp_path / "restarted"
    assert run_sweep(read_sweep(plan), alone, lambda: ThreadPoolExecutor(1)).made == 4 * seeds
    with cluster() as (address, workers):

        def start(folder: Path) -> subprocess.Popen:
            arguments = ["sweep", str(plan), "--output", str(folder), "--scheduler", address]
            return subprocess.Popen([sys.executable, "-c", PROGRAM, *arguments], stdout=subprocess.DEVNULL)

        # The sweep itself is killed, and started again.
        first = start(restarted)
        wait_for(restarted, early)
        first.kill()
        first.wait()
        kept = {path.name: path.stat().st_mtime_ns for path in (restarted / "runs").glob("*.nc")}
        assert early <= len(kept) < tasks
        assert main(["sweep", str(plan), "--output", str(restarted), "--scheduler", address]) == 0
        assert {name: (restarted / "runs" / name).stat().st_mtime_ns for name in kept} == kept
        # A worker is killed: the other makes its runs again.
        second = start(killed)
        wait_for(killed, early)
        os.kill(workers[0].pid, signal.SIGKILL)
        assert second.wait(timeout=300) == 0
    assert files(killed) == files(restarted) == files(alone)
    assert len(files(alone)) == tasks
    assert (killed / "results.nc").read_bytes() == (restarted / "results.nc").read_bytes()


def test_a_scheduler_that_does_not_answer_is_told_in_one_line(tmp_path, capsys):
    plan = tmp_path / "sweep.toml"
    plan.write_text(PLAN.replace("COUNT", "2"))
    assert main(["sweep", str(plan), "--output", str(tmp_path), "--scheduler", "tcp://127.0.0.1:9"]) == 2
    message = capsys.readouterr().err
    assert "--scheduler tcp://127.0.0.1:9: no Dask scheduler answers" in message
    assert message.count("\n") == 1
