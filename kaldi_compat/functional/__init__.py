"""Pure functions on NumPy arrays and torch tensors: the formulas of the features and of what is done to them."""
