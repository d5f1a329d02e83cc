"""The README and the first page of the documentation are short, and their commands run."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

import io_ark
from kaldi_compat.frontends.numpy import Frontend
from kaldi_compat.numpy import Fbank

ROOT = Path(__file__).parents[2]
INPUTS = ROOT / "reference_data" / "inputs"
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = [block for block in re.findall(r"^```sh\n(.*?)^```", README, re.M | re.S) if "pip install" not in block]


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_page_is_short(page: str) -> None:
    assert len((ROOT / page).read_text(encoding="utf-8").splitlines()) <= 150


@pytest.mark.parametrize("commands", COMMANDS, ids=lambda block: block.split()[0])
def test_commands_of_the_readme_run(commands: str, tmp_path: Path) -> None:
    data = tmp_path / "data" / "train"
    data.mkdir(parents=True)
    for folder in (tmp_path, data):
        names = ("speech16k", "speech16k_b")
        (folder / "wav.scp").write_text("".join(f"{name} {INPUTS}/wav/{name}.wav\n" for name in names))
        (folder / "utt2spk").write_text("".join(f"{name} {name}\n" for name in names))
        (folder / "spk2utt").write_text("".join(f"{name} {name}\n" for name in names))
    shell = ["bash", "-e", "-c", commands]
    done = subprocess.run(shell, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    scripts = [*tmp_path.rglob("feats.scp")]
    assert len(scripts) == 1
    assert sorted(io_ark.load_scp(str(scripts[0]))) == ["speech16k", "speech16k_b"]


def test_the_two_commands_for_a_fresh_machine_are_named() -> None:
    assert "`make demo`" in README and "`make test`" in README


def test_there_are_commands_for_recipes_and_corpora() -> None:
    assert [block.split()[0] for block in COMMANDS] == ["compute-fbank-feats", "kaldi-compat"]


def test_faulty_port_differs_as_the_readme_says() -> None:
    samples = io_ark.load(str(INPUTS / "wav" / "speech16k.wav")).samples[0]
    features = Fbank(dither=0.0, snip_edges=False, num_mel_bins=80)(samples.astype(np.float32))
    expected = Frontend.from_preset("wespeaker")(samples)
    normalized = features - features.mean(0)
    unaligned, aligned = (np.abs(normalized[first:][: len(expected)] - expected).mean() for first in (0, 1))
    words = f"the values differ by {unaligned:.1f} on average, or by {aligned:.1f} if the frames are aligned"
    assert words in " ".join(README.split())
