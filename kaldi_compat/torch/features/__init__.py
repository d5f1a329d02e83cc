"""The features as torch modules, one file each."""
