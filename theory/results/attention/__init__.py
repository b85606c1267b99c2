"""Attention on the prompt, the reduced models, the equivalent networks, the zero blocks: (5)-(18), (29), (38)-(43), T4."""

MODULES = (
    "blocks", "unreduced", "reduced", "kronecker", "equivalent_networks", "cubic_features", "zero_blocks", "zero_block_loss",
    "mirror_sector",
)  # fmt: skip
