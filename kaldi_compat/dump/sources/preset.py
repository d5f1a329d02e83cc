"""``--preset``: the front end of a published model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kaldi_compat.dump.options import CPU, DumpOptions
from kaldi_compat.dump.sources import (
    ALONE,
    NO_DIGESTS,
    Array,
    Digests,
    Extractor,
    ExtractorSource,
    compute_frame_shift,
    wrap_padded_function,
)
from kaldi_compat.frontends.preset import is_preset_file


class PresetSource(ExtractorSource):
    """A preset by its name or file, with optional statistics."""

    option = "preset"
    used_options = ("engine", "dtype")
    is_decided_by_files = True

    @classmethod
    def list_used_options(cls, options: DumpOptions) -> set[str]:
        """Return the names of options that have an effect. ``dtype`` has none if NumPy computes the front end."""
        return super().list_used_options(options) - ({"dtype"} if options.uses_numpy else set())

    def list_files(self) -> dict[str, Path]:
        """Return the statistics file and the preset file by flag, if the options name these files."""
        path, statistics = Path(self.options.preset), self.options.statistics
        # The reader of presets reports a missing file, and suggests similar names.
        preset = {"--preset": path} if is_preset_file(self.options.preset) and path.exists() else {}
        return preset | ({"--statistics": Path(statistics)} if statistics else {})

    def open(self, device: str, threads: int) -> Extractor:
        """Open the front end, with NumPy if the options allow it, otherwise with torch."""
        if self.options.uses_numpy:  # NumPy computes the same bits as torch, and is imported faster.
            return wrap_frontend(self.open_array_frontend(), device)
        from kaldi_compat.torch.frontend import Frontend

        statistics: Any = self.options.statistics or None
        engine: Any = self.options.engine
        frontend: Any = Frontend(self.options.preset, statistics=statistics, engine=engine)
        return wrap_frontend(frontend.to(device), device)

    def open_array_frontend(self) -> Any:
        """Return the front end that computes with NumPy. Torch is not imported."""
        from kaldi_compat.frontends.numpy import Frontend

        return Frontend(self.options.preset, statistics=self.options.statistics or None)

    def compute_digests(self, volatile: Sequence[str] = (), variables: Sequence[str] = ()) -> Digests:
        """Return no digests, because the files and this program determine all results."""
        return NO_DIGESTS


def wrap_frontend(frontend: Any, device: str) -> Extractor:
    """Return an extractor that calls a front end: on a GPU with padded batches, on a CPU with single utterances."""
    name, shift = frontend.preset.name, compute_frame_shift(frontend)
    if device != CPU:
        return Extractor(wrap_padded_function(frontend, device), name, frontend.sampling_rate, shift)
    convert: Callable[[Array], Any] = np.asarray
    if hasattr(frontend, "parameters"):  # A torch module takes tensors.
        from torch import from_numpy as convert

    def call(audio: Sequence[Array], rates: Sequence[float]) -> list[Any]:
        return [frontend(convert(samples), sampling_rate=int(rate)) for samples, rate in zip(audio, rates, strict=True)]

    return Extractor(call, name, sample_rate=None, frame_shift=shift, batching=ALONE, own_rate=frontend.sampling_rate)
