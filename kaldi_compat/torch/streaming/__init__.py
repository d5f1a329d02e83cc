"""Features of audio that arrives in chunks."""
