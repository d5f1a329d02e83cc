"""Unmodified functions of public repositories, run over this package's stand-ins and over the originals."""
