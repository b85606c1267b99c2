"""Processor seconds of what has to be quick, each in a new process, against what it may take: exit code 1 if one takes longer.

python benchmarks/quick.py
"""

import os
import subprocess
import sys

DERIVED = "[str(entry.derive()) for entry in equations() if entry.derivation is not None]"
FLOW = """
import numpy as np
from iclflow.numerics import RegressionTask, QuadraticLoss, SeparateWeights, gradient_descent, gradient_flow
task = RegressionTask(eigenvalues=[0.4, 0.3, 0.2, 0.1], context_length=31)
loss, start = QuadraticLoss.population(task), SeparateWeights.initialize(task, heads=5, rank=1, scale=1e-2, rng=np.random.default_rng(0))
"""
TRAINING = """
import torch
from dataclasses import replace
from iclflow.verify.experiments.staircase import DEFAULT
from iclflow.verify.training.descent import fresh_batches, train
from iclflow.verify.training.modules import ReducedSeparate
torch.set_num_threads(1)
networks = [ReducedSeparate(replace(DEFAULT, seed=seed).weights) for seed in range(64)]
def trained(networks, steps=30):
    for one in networks:
        train(one, fresh_batches(DEFAULT.task, 32, torch.Generator().manual_seed(1)), steps=steps, learning_rate=0.1, progress=False)
trained([networks[0]], 2)
"""

# (what, what is not counted, what is, the seconds it may take: several times what one free core needs)
PROGRAMS = [
    ("import the theory layer, SymPy loaded", "import sympy", "import iclflow.theory", 0.3),
    ("derive every equation", "from iclflow.theory.equations import equations", DERIVED, 30.0),
    ("the default flow to t = 1e5", FLOW, "gradient_flow(loss, start, t_end=1e5)", 0.5),
    ("10,001 steps of gradient descent", FLOW, "gradient_descent(loss, start, steps=10_001, learning_rate=0.1)", 1.0),
    ("30 steps of 8 trainings, one by one", TRAINING, "trained(networks[:8])", 2.0),
    ("30 steps of 64 trainings together", TRAINING, "trained([networks])", 1.0),
]


def seconds(setup: str, program: str) -> float:
    """The best of three processes."""
    script = f"{setup}\nimport time\nbegan = time.process_time()\n{program}\nprint(time.process_time() - began)"
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    runs = [subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment) for _ in range(3)]
    return min(float(run.stdout) for run in runs)


if __name__ == "__main__":
    late = 0
    for what, setup, program, allowed in PROGRAMS:
        taken = seconds(setup, program)
        late += taken > allowed
        print(f"{what}: {taken:.2f} s of {allowed:g} s allowed", flush=True)
    sys.exit(late > 0)
