"""The format of presets: the schema fits what is read, and the file of all presets reproduces them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kaldi_compat.errors import OptionError
from kaldi_compat.frontends import Preset, list_presets
from kaldi_compat.frontends.preset import FOLDER
from kaldi_compat.frontends.steps import STEPS

ROOT = Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.skipif(not (ROOT / "packages" / "c").exists(), reason="not the sources of the project")


def stored() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / "kaldi_compat" / "frontends" / "presets.json").read_text())["presets"]
    return found


def test_file_of_all_presets_reproduces_them() -> None:
    assert [*stored()] == [*list_presets()]
    for name, description in stored().items():
        assert Preset.from_dict(description) == Preset.of(name)


def test_schema_takes_what_is_read_and_refuses_the_rest() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((ROOT / "kaldi_compat" / "frontends" / "preset.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    is_valid = jsonschema.Draft202012Validator(schema).is_valid
    written = [json.loads(file.read_text()) for file in FOLDER.glob("*.json")]
    assert all(map(is_valid, [*stored().values(), *written]))
    plain = {"name": "mine", "feature": "fbank"}
    refused: list[dict[str, Any]] = [
        {"feature": "fbank"}, {**plain, "feature": "whisper"}, {**plain, "scale": 1}, {**plain, "format": 2},
        {**plain, "options": {"num_mel_bin": 80}}, {**plain, "options": {"num_ceps": 13}},
        {**plain, "options": {"window_type": "hann"}}, {**plain, "options": {"sample_frequency": 8000.0}},
        {**plain, "steps": [{"lfr": {}}]}, {**plain, "steps": [{"stack_frames": {"size": 0}}]},
        {**plain, "sample_scale": 0},
    ]  # fmt: skip
    for description in refused:
        assert not is_valid(description), description
        with pytest.raises(OptionError):
            Preset.from_dict(description)


def test_page_describes_every_entry_and_step() -> None:
    page = (ROOT / "docs" / "frontends" / "format.md").read_text()
    schema = json.loads((ROOT / "kaldi_compat" / "frontends" / "preset.schema.json").read_text())
    assert [name for name in [*schema["properties"], *STEPS] if f"`{name}`" not in page] == []
