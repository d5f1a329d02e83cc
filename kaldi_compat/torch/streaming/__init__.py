"""Streams, which compute features from audio or frames that arrive in chunks."""
