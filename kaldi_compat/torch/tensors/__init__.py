"""Steps of the features as functions of torch tensors, which run on any device and have gradients."""
