"""Tests for kaldi_compat.cli.log."""

from __future__ import annotations

import pytest

from kaldi_compat.cli.log import logger, logging_as_kaldi


def test_control_characters_do_not_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with logging_as_kaldi("copy-feats", verbose=0):
        logger.warning("no statistics for %s", "\x1b[31mred\x07")
    errors = capsys.readouterr().err
    assert errors.startswith("WARNING (copy-feats[")
    assert errors.endswith("no statistics for \\x1b[31mred\\x07\n")
