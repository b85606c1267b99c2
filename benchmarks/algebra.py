"""How long exact moments of high degree take: a Markdown table by cold process and by call, in seconds of the processor.

    OMP_NUM_THREADS=1 python benchmarks/algebra.py [--tensorgrad PYTHON]

S is the sample covariance of N Gaussian tokens. A cold process starts Python, imports the engine and prints the count of terms; the call
alone is timed inside it. The word with six distinct constants repeats nothing, and is timed beside plain enumeration of its pairings
(moments.py), in one process that has loaded everything. tensorgrad, where ``--tensorgrad`` names a Python that has it, gets S^3.
"""

import argparse
import sys

from moments import distinct_word, in_a_fresh_process, time_enumeration, time_tensorgrad

STEPS = '__import__("iclflow.theory.results.own_model.depth", fromlist=["scalar_layers"]).scalar_layers(4)'
ROWS = {
    "E[S^3]": ("Lambda_hat**3", "expect(expression)"),
    "E[S^12]": ("Lambda_hat**12", "expect(expression)"),
    "E[S^20]": ("Lambda_hat**20", "expect(expression)"),
    "E[tr(S^10) S^10]": ("Trace(Lambda_hat**10) * Lambda_hat**10", "expect(expression)"),
    "E[tr(S^5)^4]": ("Trace(Lambda_hat**5)**4", "expect(expression)"),
    "E[S^-4]": ("Lambda_hat**-4", "expect(expression)"),
    "E[S^-8]": ("Lambda_hat**-8", "expect(expression)"),
    "E[tr(A1 S ... A6 S)]": (distinct_word(6), "expect(expression)"),
    "loss of four steps on white tokens, degree 8": (STEPS, "expression.loss()"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tensorgrad", default=sys.executable, metavar="PYTHON", help="a Python that has tensorgrad")
    rivals = {
        "E[S^3]": (time_tensorgrad(parser.parse_args().tensorgrad, 3), "tensorgrad"),
        "E[tr(A1 S ... A6 S)]": (time_enumeration([f"A{i}" for i in range(1, 6)])[0], "enumeration"),
    }
    print("| what | terms | cold process | call | beside |\n| --- | --- | --- | --- | --- |")
    for name, (expression, call) in ROWS.items():
        process, alone, terms = in_a_fresh_process(expression, call)
        seconds, rival = rivals.get(name, (None, ""))
        beside = f"{rival} {seconds:.2g} s" if seconds is not None else f"{rival} is not installed" if rival else ""
        print(f"| {name} | {terms:,} | {process:.2f} s | {alone:.4f} s | {beside} |", flush=True)


if __name__ == "__main__":
    main()
