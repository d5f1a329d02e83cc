"""Pure functions on NumPy arrays and torch tensors: the formulas of features and of their post-processing."""
