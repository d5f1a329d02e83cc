"""A small data directory for the tests of data sets."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import io_ark
from io_ark.codecs.wave import Wave

KEYS = [f"spk{i % 3}-utt{i:02}" for i in range(23)]


def write_corpus(folder: Path) -> None:
    """Write features, audio and segments, and all targets. Utterance 7 has no target by frame."""
    rng = np.random.default_rng(0)
    with (
        io_ark.Writer(f"ark,scp:{folder}/feats.ark,{folder}/feats.scp", kind="matrix") as feats,
        io_ark.Writer(f"ark,scp:{folder}/ali.ark,{folder}/ali.scp", kind="int-vector") as alignments,
        io_ark.Writer(f"ark,scp:{folder}/post.ark,{folder}/post.scp", kind="posterior") as posteriors,
        io_ark.Writer(f"ark,scp:{folder}/wav.ark,{folder}/wav.scp", kind="wave") as wav,
    ):
        for i, key in enumerate(KEYS):
            frames = int(rng.integers(1, 60))
            feats[key] = np.full((frames, 4), i, np.float32)
            if i != 7:
                alignments[key] = np.full(frames, i, np.int32)
                posteriors[key] = [[(i + j, 1.0 / (i + 1)) for j in range(frame % 4)] for frame in range(frames)]
            wav[key] = Wave(16000.0, rng.integers(-1000, 1000, (1, 400 + 160 * i)).astype(np.int16))
    (folder / "utt2spk").write_text("".join(f"{key} {key.split('-')[0]}\n" for key in KEYS))
    (folder / "labels").write_text("".join(f"{key} {i % 2}\n" for i, key in enumerate(KEYS)))
    (folder / "text").write_text("".join(f"{key} {'ab ' * (i % 4)}\n" for i, key in enumerate(KEYS)))
    (folder / "ctm").write_text(
        "".join(f"{key} 1 0.{i:02} 0.5 word{i}\n{key} 1 1.5 0.25 end\n" for i, key in enumerate(KEYS))
    )
    (folder / "segments").write_text(f"seg-a {KEYS[20]} 0.05 0.15\nseg-b {KEYS[21]} 0.0 -1\n")
