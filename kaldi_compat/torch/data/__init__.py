"""Data sets, batching and collation."""
