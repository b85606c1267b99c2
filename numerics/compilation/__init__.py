"""From symbols to numbers: equations, expressions and tensors as NumPy, mpmath or Arb functions."""
