"""Generators of the files that only type checkers, editors and users of other libraries read.

``make generate`` (or ``python -m tools.generate``) writes them. ``tests/test_generated.py`` fails when one is stale.
"""
