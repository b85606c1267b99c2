"""Appendix F: fixed task vectors and the unreduced model, (87), V6."""

MODULES = ("population_loss", "moving_blocks", "idle_heads", "ordinary_start", "five_weights", "five_weights_error")
