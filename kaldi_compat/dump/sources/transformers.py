"""``--transformers``: an encoder or a codec in a folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kaldi_compat.dump.options import Job
from kaldi_compat.dump.sources import NO_DIGESTS, Digests, Extractor, ExtractorSource

WEIGHTS = (".safetensors", ".bin")


class TransformersSource(ExtractorSource):
    """A model in a folder in the format of transformers, or a model on the hub by its name."""

    option = "transformers"
    used_options = ("dtype", "compile", "allow_pickle")
    is_decided_by_files = True

    @classmethod
    def get_name(cls, value: str) -> str:
        """Return the name of the folder, including dots."""
        return Path(value).name

    def make_local_job(self) -> Job:
        """Download the model unless it is a folder or was downloaded before. Return the job with the model's folder."""
        from kaldi_compat.torch.extractors import find_or_download

        folder = find_or_download(self.options.transformers, allow_pickle=self.options.allow_pickle)
        return replace(self.job, options=replace(self.options, transformers=folder))

    def list_files(self) -> dict[str, Path]:
        """Return the configurations and weights of the folder, and the weights in other folders that an index names."""
        folder = Path(self.options.transformers)
        names = {path.name for path in folder.glob("*") if path.suffix in (".json", *WEIGHTS)}
        for index in folder.glob("*.index.json"):
            names |= _read_weight_names(index)
        return {f"--transformers/{name}": folder / name for name in sorted(names)}

    def open(self, device: str, threads: int) -> Extractor:
        """Open the model with transformers."""
        from kaldi_compat.torch.extractors import open_pretrained

        model = open_pretrained(self.options, device)
        window = model.max_samples / model.sample_rate if model.max_samples else 0.0
        return Extractor(lambda audio, rates: model(audio), self.job.feature, model.sample_rate, model.frame_shift,
                         window_seconds=window)  # fmt: skip

    def compute_digests(self, volatile: Sequence[str] = (), variables: Sequence[str] = ()) -> Digests:
        """Return no digests, because the files determine all results."""
        return NO_DIGESTS


def _read_weight_names(index: Path) -> set[str]:
    """Return the weight files in the index of a sharded model. The set is empty if the index is missing or invalid."""
    try:
        file_names = json.loads(index.read_bytes())["weight_map"].values()
        return {name for name in file_names if isinstance(name, str)}
    except (OSError, ValueError, LookupError, AttributeError, TypeError, RecursionError):
        return set()
