"""Random input to everything that takes input: tracebacks, hangs, and answers that differ from sampling. There should be none of each.

    python benchmarks/fuzz.py [--inputs 10000] [--seed 0] [--kinds grammar toml ...]

The exit code is 1 if one is found; ``--seed`` and the number of an input give the same input again.
"""

import argparse
import contextlib
import io
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
from iclflow.numerics import QuadraticLoss, RegressionTask, SeparateWeights, gradient_descent, gradient_flow, predict_curve
from iclflow.numerics.dynamics.solver import FlowError
from iclflow.numerics.replay.recording import Recording
from iclflow.theory import expect
from iclflow.theory.algebra.syntax import Node, tree
from iclflow.theory.derivations import carried_out
from iclflow.theory.notation import Lambda_hat
from iclflow.theory.proofs.meaning import read_text
from iclflow.theory.proofs.written import VERBS
from iclflow.verify.cli.main import main as command
from iclflow.verify.explorer.server import answer, answered
from iclflow.verify.sweep.description import read_sweep

SECONDS = 10  # for one input: a hang
RECORDING = Path(__file__).parents[1] / "tests" / "data" / "merged_D4.npz"
NASTY = [
    None, True, -1, 0, 1, 2.5, 1e-300, 1e300, np.nan, np.inf, 10**400, 10**12, "x", "", [], [np.nan], [[1, 2], [3]], (), {},
    np.array([0.4, 0.3]), np.eye(2), np.zeros((2, 2)), 1j, b"1", object(), lambda x: x, np.float32(0.1), np.datetime64("2020"),
    7, 0.05, 0.3,
]  # fmt: skip
WORDS = [
    "0", "-1", "1", "3", "1e400", "1e-300", "nan", "inf", "9" * 400, "x", "", "0.4,0.3", ",", "0,nan", "1-10", "10-1", "--", "é", "[" * 50,
    "adam", "sign",
]  # fmt: skip
PLAN = """method = "flow"
points = 20
[setting]
heads = 5
scale = 0.1
optimizer = "sgd"
[vary]
seed = { first = 0, count = 3 }
"scale, duration" = [[0.2, 10]]"""
SLIDERS = {"eigenvalues": "0.4,0.3,0.2,0.1", "N": "31", "H": "5", "R": "1", "scale": "0.2", "seed": "1", "noise": "0", "model": "separate",
           "moment": "0.5", "dark": "0", "narrow": "0"}  # fmt: skip
SYMBOLS = [
    "S",
    "A",
    "B",
    "Lambda",
    "I",
    "N",
    "D",
    "tr",
    "(",
    ")",
    "+",
    "-",
    "*",
    "/",
    "^",
    "'",
    "1",
    "2",
    "40",
    "99",
    "w",
    "x_q",
    "y_q",
    "beta",
    "sigma",
    "#",
    "é",
    "1/2",
    ".",
    ",",
]

TASK = RegressionTask(eigenvalues=[0.4, 0.3], context_length=5)
LOSS, WEIGHTS = QuadraticLoss.population(TASK), SeparateWeights.initialize(TASK, heads=2, scale=0.1, rng=np.random.default_rng(0))


class HangError(BaseException):
    """An input took too long."""


def matrix_text(rng: np.random.Generator, depth: int = 2) -> str:
    """A matrix-valued formula in S, A, B and Lambda."""
    if depth == 0:
        return str(rng.choice(["S", "S", "A", "A'", "B", "Lambda"]))
    one, other = (matrix_text(rng, depth - 1) for _ in range(2))
    return str(
        rng.choice(
            [f"{one} {other}", f"{one} {other}", f"({one} + 1/2 {other})", f"tr({one}) {other}", f"({one})'", f"{one} - 2 {other}/N"]
        )
    )


def evaluated(node: Node, values: dict[str, np.ndarray]) -> np.ndarray:
    """The value of a formula, (samples, rows, columns), by NumPy and without the algebra of the theory layer."""
    kind, parts = node.kind, node.parts
    if kind == "number":
        return np.full((1, 1, 1), float(eval_number(parts[0].text)))
    if kind == "name":
        return values[parts[0].text]
    if kind == "call":
        return np.trace(evaluated(parts[1], values), axis1=1, axis2=2)[:, None, None]
    if kind == "power":
        return np.linalg.matrix_power(evaluated(parts[0], values), exponent(parts[1]))
    operands = [evaluated(part, values) for part in parts]
    result = operands[0]
    for other in operands[1:]:
        if kind == "sum":
            result = result + other
        elif kind == "quotient":
            result = result / other
        else:
            result = result * other if 1 in (result[0].size, other[0].size) else result @ other
    return -result if kind == "negative" else result.swapaxes(1, 2) if kind == "transpose" else result


def eval_number(text: str) -> float:
    top, _, bottom = text.partition("/")
    return float(top) / float(bottom or 1)


def exponent(node: Node) -> int:
    return -exponent(node.parts[0]) if node.kind == "negative" else int(node.parts[0].text)


def averages(rng: np.random.Generator) -> None:
    """An expectation against 2,000 samples, and in doubt against 200,000."""
    text = matrix_text(rng)
    result = repr(expect(carried_out(read_text(text)[0])))
    A, B, Lambda = rng.standard_normal((2, 2)), rng.standard_normal((2, 2)), np.diag([0.7, 0.4])
    fixed = {name: value[None] for name, value in {"A": A, "B": B, "Lambda": Lambda, "I": np.eye(2)}.items()}
    fixed |= {"N": np.full((1, 1, 1), 4.0), "D": np.full((1, 1, 1), 2.0)}
    exact = evaluated(tree(result), fixed)[0]
    for count in (2_000, 200_000):
        x = rng.standard_normal((count, 4, 2)) * np.sqrt(np.diag(Lambda))
        found = evaluated(tree(text), fixed | {"S": x.swapaxes(1, 2) @ x / 4})
        error = found.std(axis=0) / np.sqrt(len(found)) + 1e-9 * (1 + np.abs(exact))
        if (np.abs(found.mean(axis=0) - exact) < 6 * error).all():
            return
    raise AssertionError(f"E[{text}] = {result} differs from sampling: {exact.tolist()} and {found.mean(axis=0).tolist()}")


def grammar(rng: np.random.Generator, folder: Path) -> None:
    if rng.random() < 0.4:
        try:
            averages(rng)
        except ValueError as problem:  # a formula that is well formed
            raise AssertionError(str(problem)) from problem
        return
    text = " ".join(rng.choice(SYMBOLS, size=rng.integers(1, 14)))
    if rng.random() < 0.3:
        text = f"({matrix_text(rng)})^{rng.integers(0, 60)}"
    expect(carried_out(read_text(text)[0]))


def toml(rng: np.random.Generator, folder: Path) -> None:
    lines = PLAN.splitlines()
    at = int(rng.integers(len(lines)))
    change = rng.integers(4)
    if change == 0:
        lines[at] = lines[at].partition("=")[0] + "= " + str(rng.choice([*WORDS, '"x"', "[[]]", "{}", "true", "[" * 2000, "1979-05-27"]))
    elif change == 1:
        lines[at] = "".join(rng.permutation(list(lines[at])))
    elif change == 2:
        lines.insert(at, lines[int(rng.integers(len(lines)))])
    else:
        lines[at] = lines[at][: int(rng.integers(len(lines[at])))] + chr(int(rng.integers(1, 1000)))
    path = folder / "sweep.toml"
    path.write_text("\n".join(lines), encoding="utf-8")
    read_sweep(path)


def recording(rng: np.random.Generator, folder: Path) -> None:
    data = bytearray(RECORDING.read_bytes())
    places = rng.integers(len(data), size=rng.integers(1, 4))
    for place in places:
        data[place] ^= 1 << int(rng.integers(8))
    if rng.random() < 0.2:
        data = data[: int(rng.integers(len(data)))]
    path = folder / "recording.npz"
    path.write_bytes(data)
    Recording(path)


def commands(rng: np.random.Generator, folder: Path) -> None:
    options = ["--heads", "--rank", "--scale", "--seed", "--eigenvalues", "--context-length", "--context-lengths", "--noise", "--model",
               "--learning-rate", "--batch-size", "--momentum", "--optimizer", "--output", "--digits", "--device"]  # fmt: skip
    name = str(
        rng.choice(["flow", "train", "derive", "expect", "gradient", "map", "figure", "replay", "sweep", "prove", "export", "nonsense"])
    )
    words = [str(one) for one in rng.choice([*WORDS, *SYMBOLS], size=rng.integers(0, 3))]
    if name in ("flow", "train"):
        words = ["--duration", "5"]
        for _ in range(rng.integers(1, 3)):
            words += [str(rng.choice(options)), str(rng.choice(WORDS))]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as errors:
        try:
            code = command([name, *words])
        except SystemExit as end:
            code = end.code
    if code not in (0, 1, 2) or "Traceback" in errors.getvalue():
        raise RuntimeError(f"{[name, *words]}: exit code {code}: {errors.getvalue()}")


def edges(rng: np.random.Generator, folder: Path) -> None:
    calls: dict[str, Callable] = {
        "RegressionTask": lambda a, b: RegressionTask(eigenvalues=a, context_length=b),
        "covariance": lambda a, b: RegressionTask(covariance=a, context_length=b),
        "weights": lambda a, b: SeparateWeights(v=a, k=b, q=b),
        "initialize": lambda a, b: SeparateWeights.initialize(TASK, heads=a, scale=b, rng=np.random.default_rng(0)),
        "rank": lambda a, b: SeparateWeights.initialize(TASK, heads=2, rank=a, scale=0.1, rng=b),
        "flow": lambda a, b: gradient_flow(LOSS, WEIGHTS, t_end=a, tau=b),
        "rtol": lambda a, b: gradient_flow(LOSS, a, t_end=1.0, rtol=b),
        "descent": lambda a, b: gradient_descent(LOSS, WEIGHTS, steps=a, learning_rate=b),
        "loss": lambda a, b: QuadraticLoss(A=a, C=lambda B: B, c=b),
        "operator": lambda a, b: QuadraticLoss(A=np.eye(2), C=a, c=1.0).value(b),
        "prediction": lambda a, b: predict_curve(TASK, a, tau=b),
        "expect": lambda a, b: expect(a, b),
        "given": lambda a, b: expect(Lambda_hat, a, given=b),
        "read_text": lambda a, b: read_text(a, b),
    }
    values = [*NASTY, WEIGHTS, LOSS, TASK, Lambda_hat]
    name, (i, j) = str(rng.choice(list(calls))), rng.integers(len(values), size=2)
    with np.errstate(all="ignore"):
        calls[name](values[i], values[j])


def explorer(rng: np.random.Generator, folder: Path) -> None:
    if rng.random() < 0.5:
        desk(rng)
        return
    given = dict(SLIDERS)
    for key in rng.choice(list(given), size=rng.integers(1, 4)):
        given[str(key)] = str(rng.choice(WORDS))
    query = urlencode(given)
    answer(query if rng.random() < 0.9 else query[: int(rng.integers(len(query)))])


def desk(rng: np.random.Generator) -> None:
    """No line that a verb adds fails, claims apart; garbage is answered by an error."""
    steps = [
        f"{verb} {VERBS[verb].example if rng.random() < 0.9 else rng.choice(WORDS)}" if VERBS[verb].needs else verb
        for verb in map(str, rng.choice(list(VERBS), size=4))
    ]
    start = matrix_text(rng) if rng.random() < 0.9 else " ".join(map(str, rng.choice(SYMBOLS, size=8)))
    text = json.dumps({"start": f"tr({start})" if rng.random() < 0.5 else start, "steps": steps, "let": "b: scalar; u: positive"})
    try:
        found = json.loads(answered(f"/desk?{text if rng.random() < 0.95 else text[: int(rng.integers(len(text)))]}"))
    except HangError:  # its process would be ended
        return
    for step, one in zip(steps, found.get("steps", ()), strict=False):
        assert step.startswith("claim") or all(line["status"] != "fails" for line in one["lines"]), (start, steps)


KINDS = {"grammar": grammar, "toml": toml, "recording": recording, "commands": commands, "edges": edges, "explorer": explorer}
SHARES = {"grammar": 0.4, "toml": 0.25, "recording": 0.1, "commands": 0.1, "edges": 0.14, "explorer": 0.01}
EXPECTED = (ValueError, TypeError, FlowError, FileNotFoundError)  # each in one line, as the tests of each door ask for


def main() -> int:
    """Try the inputs, print what is wrong with them as it is found, and count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=10_000, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the number of the first")
    parser.add_argument("--seed", type=int, default=0, help="of all of them")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS), help="what to feed")
    options = parser.parse_args()
    shares = np.array([SHARES[kind] for kind in options.kinds])
    for clock in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(clock, _hang)
    counts: Counter[str] = Counter()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        for number in range(options.first, options.first + options.inputs):
            rng = np.random.default_rng([options.seed, number])
            kind = str(rng.choice(options.kinds, p=shares / shares.sum()))
            fault = _tried(KINDS[kind], rng, Path(name))
            counts[kind] += 1
            counts[fault] += bool(fault)
            if fault:
                print(f"input {number} of seed {options.seed}, {kind}: {fault}", flush=True)
    faults = ("traceback", "hang", "wrong answer")
    tried = ", ".join(f"{counts[kind]} {kind}" for kind in options.kinds)
    print(f"{options.inputs} inputs in {time.monotonic() - began:.0f} s ({tried}): " + ", ".join(f"{counts[one]} {one}s" for one in faults))
    return int(any(counts[one] for one in faults))


def _tried(kind: Callable[..., None], rng: np.random.Generator, folder: Path) -> str:
    """The fault, or nothing."""
    signal.setitimer(signal.ITIMER_PROF, SECONDS)  # of processor time: a busy machine is no hang
    signal.setitimer(signal.ITIMER_REAL, 10 * SECONDS)
    try:
        kind(rng, folder)
    except EXPECTED:
        return ""
    except (Exception, HangError) as problem:
        traceback.print_exc(limit=-4, file=sys.stdout)
        return {HangError: "hang", AssertionError: "wrong answer"}.get(type(problem), "traceback")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
    return ""


def _hang(*_: object) -> None:
    raise HangError


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
