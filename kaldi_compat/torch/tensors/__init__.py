"""The steps of the features on torch tensors, on any device and with gradients."""
