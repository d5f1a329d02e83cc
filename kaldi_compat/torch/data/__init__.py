"""Data sets for training, with their samplers, batches and augmentation."""
