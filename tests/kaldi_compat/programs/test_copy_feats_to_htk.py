"""Tests of copy-feats-to-htk that the stored commands of Kaldi do not cover."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kaldi_compat.programs import (
    copy_feats_to_htk,
    copy_feats_to_sphinx,
)
from tests.support.programs import check_refused
from tests.support.tables import matrices, save

Run = Callable[..., int]


@pytest.mark.parametrize("main", [copy_feats_to_htk.main, copy_feats_to_sphinx.main])
def test_a_directory_that_cannot_be_created_is_named(main: Run) -> None:
    source = save("a.ark", matrices(4))
    message = "Could not create output directory: none/out: No such file or directory"
    check_refused(main, "--output-dir=none/out", source, message=message)
