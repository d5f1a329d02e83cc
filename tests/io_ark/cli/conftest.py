"""Fixtures of the tests of ``ark``."""

from tests.support.ark_program import ark as ark
