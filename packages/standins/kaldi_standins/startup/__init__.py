"""Folder that is put on the import path, so that every new Python process loads its ``sitecustomize`` module."""
