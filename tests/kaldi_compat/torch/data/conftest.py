"""A data directory that the tests of data sets share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.data_directory import write_corpus


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    write_corpus(folder)
    return folder
