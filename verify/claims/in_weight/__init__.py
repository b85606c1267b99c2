"""Claims about fixed task vectors and the zero blocks."""

MODULES = ("loss", "zero_blocks", "idle_heads", "ordinary_start", "curves", "five_weights")
