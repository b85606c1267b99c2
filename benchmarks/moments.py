"""How long exact moments take: the engine against a plain enumeration of pairings and, where it is installed, tensorgrad.

    python benchmarks/moments.py [--tensorgrad PYTHON] [--largest 12]

Each engine figure is the processor time of a fresh process, import included (on an idle machine, its wall time), beside that of the
call alone in that process. The enumeration visits all (2k - 1)!! pairings of the 2k tokens in k sample covariances, follows each to its
traces and open word, and is checked against the engine term by term. ``--tensorgrad`` names a Python that has tensorgrad (it needs
minutes for the third moment).
"""

import argparse
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator

from iclflow.theory import TracePolynomial, expect
from iclflow.theory.notation import D, Lambda, Lambda_hat, N, matrix

ENGINE = """
import time
start = time.process_time()
from sympy import Trace
from iclflow.theory import TracePolynomial, expect, gradient
from iclflow.theory.notation import B, D, Lambda_hat, beta, matrix, x_q, y_q
expression = {expression}
middle = time.process_time()
result = {call}
print(time.process_time() - middle, len(result.terms))
"""


def distinct_word(count: int) -> str:
    """tr(A1 S A2 S ... Ak S) with k different constants."""
    return "Trace(" + " * ".join(f'matrix("A{i}", D) * Lambda_hat' for i in range(1, count + 1)) + ")"


def in_a_fresh_process(expression: str, call: str = "expect(expression)") -> tuple[float, float, int]:
    """(time of the process, time of the call, number of terms): the least of three runs."""
    runs = []
    for _ in range(3):
        before = os.times()
        script = ENGINE.format(expression=expression, call=call)
        output = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
        after = os.times()
        spent = after.children_user + after.children_system - before.children_user - before.children_system
        runs.append((spent, float(output[0]), int(output[1])))
    return min(runs)


# The plain enumeration


def pairings(slots: tuple[int, ...]) -> Iterator[dict[int, int]]:
    """All perfect matchings of the slots, each as a symmetric map."""
    if not slots:
        yield {}
        return
    first, rest = slots[0], slots[1:]
    for i, other in enumerate(rest):
        for pairing in pairings(rest[:i] + rest[i + 1 :]):
            yield pairing | {first: other, other: first}


def enumerated(constants: list[str]) -> Counter:
    """E[S c1 S c2 ... S]: {(power of 1/N, traces, open word): count}, letters being constants, transposed ones marked, and L.

    The j-th S is (1/N) sum_n x_n x_n'; its vectors are the slots 2j and 2j + 1. A pairing joins two slots by a covariance L; slots
    2j + 1 and 2j + 2 are joined by a constant. Each cycle of token indices (pairing and S alternating) gives a factor N.
    """
    k = len(constants) + 1
    total: Counter = Counter()
    for pairing in pairings(tuple(range(2 * k))):
        unseen, loops = set(range(2 * k)), 0
        while unseen:
            loops += 1
            slot = min(unseen)
            while slot in unseen:
                unseen -= {slot, pairing[slot]}
                slot = pairing[slot] ^ 1
        unseen = set(range(2 * k))
        open_word = _walk(0, pairing, constants, unseen)
        traces = []
        while unseen:
            start = min(slot for slot in unseen if slot % 2 == 0)
            traces.append(_least(_walk(start, pairing, constants, unseen)))
        total[k - loops, tuple(sorted(traces)), tuple(open_word)] += 1
    return total


def _walk(slot: int, pairing, constants, unseen) -> list[str]:
    """The word met from a slot onwards, over L to its partner and over a constant to the next slot, to the end or round the cycle."""
    word = []
    while True:
        other = pairing[slot]
        unseen -= {slot, other}
        word.append("L")
        if other % 2:  # the right side of an S: go on rightwards
            if other == len(pairing) - 1:
                return word
            word.append(constants[other // 2])
            slot = other + 1
        else:
            if other == 0:
                return word
            word.append(constants[other // 2 - 1] + "'")
            slot = other - 1
        if slot not in unseen:
            return word


def _least(word: list[str]) -> tuple[str, ...]:
    flipped = [letter if letter in ("L", "I") else letter[:-1] if letter.endswith("'") else letter + "'" for letter in word[::-1]]
    return min(tuple(ring[i:] + ring[:i]) for ring in (word, flipped) for i in range(len(word)))


def as_polynomial(moment: Counter) -> TracePolynomial:
    """The enumerated moment in the engine's form; the constant I is the identity."""
    total = TracePolynomial(0) * Lambda
    letters: dict = {"L": TracePolynomial(Lambda)}

    def product(word):
        result = None
        for name in word:
            if name.rstrip("'") != "I":
                stem = name.rstrip("'")
                value = letters.setdefault(stem, TracePolynomial(matrix(stem, D)))
                value = value.T if name.endswith("'") else value
                result = value if result is None else result * value
        return result

    for (power, traces, word), count in moment.items():
        term = product(word) * count / TracePolynomial(N) ** power
        for one in traces:
            term = product(one).trace() * term
        total = total + term
    return total


def time_enumeration(constants: list[str]) -> tuple[float, Counter]:
    started = time.process_time()
    moment = enumerated(constants)
    return time.process_time() - started, moment


# tensorgrad

TENSORGRAD = """
import time, sympy
from tensorgrad import Delta, Variable
from tensorgrad.extras.expectation import Expectation
n, d = sympy.symbols("n d")
X = Variable("X", n=n, d=d)
covariance = Variable("L", d=d, e=d).with_symmetries("d e").rename(e="d_") @ Delta(n, "n", "n_")
word = None
for i in range({power}):
    factor = X.rename(d=f"d{{i}}", n=f"n{{i}}") @ X.rename(d=f"d{{i + 1}}", n=f"n{{i}}")
    word = factor if word is None else word @ factor
start = time.process_time()
result = Expectation(word, X, covar=covariance, covar_names={{"d": "d_", "n": "n_"}}).full_simplify()
print(time.process_time() - start)
"""


def time_tensorgrad(python: str, power: int) -> float | None:
    run = subprocess.run([python, "-c", TENSORGRAD.format(power=power)], capture_output=True, text=True)
    return float(run.stdout) if run.returncode == 0 else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tensorgrad", default=sys.executable, metavar="PYTHON", help="a Python that has tensorgrad")
    parser.add_argument("--largest", type=int, default=12, help="the largest power of the sample covariance")
    arguments = parser.parse_args()

    print(f"{'expectation':34} {'terms':>6} {'process':>9} {'call':>9} {'pairings':>9} {'times':>8} {'tensorgrad':>10} {'times':>8}")

    def row(name, engine, enumeration=None, tensorgrad=None):
        process, call, terms = engine
        columns = [f"{name:34} {terms:6} {process:8.2f}s {call:8.4f}s"]
        for rival, width in ((enumeration, 8), (tensorgrad, 9)):
            columns.append(f"{rival:{width}.3f}s {rival / call:8.0f}" if rival is not None else " " * (width + 10))
        print(*columns, flush=True)

    has_tensorgrad = time_tensorgrad(arguments.tensorgrad, 1) is not None
    for k in range(2, arguments.largest + 1):
        enumeration = None
        if k <= 7:
            enumeration, moment = time_enumeration(["I"] * (k - 1))
            if k <= 6:
                assert as_polynomial(moment) == expect(Lambda_hat**k)
        rival = time_tensorgrad(arguments.tensorgrad, k) if has_tensorgrad and k <= 3 else None
        row(f"E[S^{k}]", in_a_fresh_process(f"Lambda_hat**{k}"), enumeration, rival)
    for k in range(2, 7):
        names = [f"A{i}" for i in range(1, k)]
        enumeration, moment = time_enumeration(names)
        word = TracePolynomial(Lambda_hat)
        for name in names:
            word = word * matrix(name, D) * Lambda_hat
        if k <= 5:
            assert as_polynomial(moment) == expect(word)
        row(f"E[tr(A1 S ... A{k} S)]", in_a_fresh_process(distinct_word(k)), enumeration)
    loss = "expect((y_q - beta.T * B * x_q) ** 2)"
    row("population loss", in_a_fresh_process("(y_q - beta.T * B * x_q) ** 2"))
    row("gradient of the population loss", in_a_fresh_process("None", f"gradient({loss}, B)"))
    if not has_tensorgrad:
        print("tensorgrad is not installed in", arguments.tensorgrad)


if __name__ == "__main__":
    main()
