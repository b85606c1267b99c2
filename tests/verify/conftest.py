"""Small tensors, and a machine shared with other tests: PyTorch's threads would only wait for each other."""

import torch

torch.set_num_threads(1)
