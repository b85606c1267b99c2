"""Small tensors, and a machine shared with other tests: PyTorch's threads would only wait for each other. Benchmarks are importable."""

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
torch.set_num_threads(1)
