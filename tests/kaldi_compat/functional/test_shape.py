"""Batches whose axes look swapped are refused."""

from __future__ import annotations

import pytest

from kaldi_compat import AudioError
from kaldi_compat.functional.checks import check_shape


@pytest.mark.parametrize(("shape", "refused"), [((400, 399), True), ((399, 398), False), ((500, 400), False)])
def test_batch_with_more_rows_than_a_frame_has_samples_is_refused(shape: tuple[int, int], refused: bool) -> None:
    if refused:
        with pytest.raises(AudioError, match="utterances of"):
            check_shape(shape, 400)
    else:
        assert check_shape(shape, 400) is None  # type: ignore[func-returns-value]
