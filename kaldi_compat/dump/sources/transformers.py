"""``--transformers``: an encoder or a codec in a folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kaldi_compat.dump.options import Job
from kaldi_compat.dump.sources.base import NO_DIGESTS, Digests, Extractor, ExtractorSource

WEIGHTS = (".safetensors", ".bin")


class TransformersSource(ExtractorSource):
    """A folder that transformers has saved, or the name of a model on the hub."""

    option = "transformers"

    @classmethod
    def name_of(cls, value: str) -> str:
        """Return the name of the folder, with its dots."""
        return Path(value).name

    def local_job(self) -> Job:
        """Return the job with the folder of a model of the hub, which is downloaded if necessary."""
        from kaldi_compat.torch.extractors import local_folder

        folder = local_folder(self.options.transformers, allow_pickle=self.options.allow_pickle)
        return replace(self.job, options=replace(self.options, transformers=folder))

    def files(self) -> dict[str, Path]:
        """Return configurations and weights, also those that an index of the weights names elsewhere."""
        folder = Path(self.options.transformers)
        names = {path.name for path in folder.glob("*") if path.suffix in (".json", *WEIGHTS)}
        for index in folder.glob("*.index.json"):
            names |= _weights_in(index)
        return {f"--transformers/{name}": folder / name for name in sorted(names)}

    def open(self, device: str, threads: int) -> Extractor:
        """Open the model."""
        from kaldi_compat.torch.extractors import open_pretrained

        made = open_pretrained(self.options, device)
        window = made.longest / made.sample_rate if made.longest else 0.0
        return Extractor(lambda audio, rates: made(audio), self.job.feature, made.sample_rate, made.frame_shift,
                         window_seconds=window)  # fmt: skip

    def digests(self, volatile: Sequence[str] = (), variables: Sequence[str] = ()) -> Digests:
        """Return nothing: the files decide all numbers, since no code of the folder runs."""
        return NO_DIGESTS


def _weights_in(index: Path) -> set[str]:
    """Return the names of the files that an index of divided weights lists; a damaged index lists none."""
    try:
        listed = json.loads(index.read_bytes())["weight_map"].values()
        return {name for name in listed if isinstance(name, str)}
    except (OSError, ValueError, LookupError, AttributeError, TypeError, RecursionError):
        return set()
