"""Evidence: PyTorch training, claims with residuals and tolerances, figures, the command line."""
