"""Importing the theory layer costs little beyond importing SymPy."""

import subprocess
import sys

# The first sum that SymPy adds up loads its tensors and groups, which every use of it pays for.
SCRIPT = """
import sys, time
start = time.process_time()
import sympy
sympy.Symbol("x") + sympy.Symbol("y")
middle, before = time.process_time(), set(sys.modules)
import iclflow.theory
print(middle - start, time.process_time() - middle, *{name.partition(".")[0] for name in set(sys.modules) - before})
"""


def test_import_costs_little_more_than_sympy():
    """In processor time, as a share of SymPy's: a machine that is slow or busy slows both."""

    def run():
        return subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True).stdout.split()

    run()  # writes the bytecode
    runs = [run() for _ in range(5)]
    sympy_alone, theory = (min(float(one[i]) for one in runs) for i in (0, 1))
    assert theory < 0.375 * sympy_alone, (theory, sympy_alone)
    assert not {*runs[0][2:]} & {"numpy", "scipy", "torch", "matplotlib", "xarray"}
