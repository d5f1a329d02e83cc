"""Base classes of kaldifeat's options. See :mod:`kaldi_standins.kaldifeat`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from kaldi_compat.errors import OptionError
from kaldi_standins.kaldifeat.whisper import WhisperMelOptions
from kaldi_standins.named_options import OptionGroups


class Options(OptionGroups):
    """Base class of kaldifeat's options."""

    if not TYPE_CHECKING:  # With __setattr__, a type checker would accept assignments to any name.

        def __setattr__(self, name, value) -> None:
            """Set an option. Convert ``device`` to a ``torch.device``, and integers of float options to floats."""
            field = self.__dataclass_fields__.get(name)
            if name == "device":
                value = torch.device(str(value))
            elif field and field.type is float and isinstance(value, int):
                value = float(value)  # As in the original, whose ``str()`` of the options shows a float.
            super().__setattr__(name, value)


class FeatureOptions(Options):
    """Base class of the options of a feature, with groups of options for frames and mel bins, and the device."""

    frame_opts: Any
    device: torch.device

    def to_our_options(self) -> Any:
        """Return the options as an options dataclass of kaldi-compat.

        Raises:
            OptionError: Kaldi refuses a value.
        """
        values = self.flatten()
        values["max_feature_vectors"] = values["max_feature_vectors"] or -1  # Both 0 and -1 stand for all frames.
        values["allow_empty_bins"] = True  # Mel bins without an FFT bin have the energy 0 instead of raising an error.
        return self.convert(values)


class WhisperOptions(FeatureOptions):
    """Base class of Whisper's options. Options of frames other than ``snip_edges`` have no effect."""

    num_mels: int

    def to_our_options(self) -> WhisperMelOptions:
        """Return the options as an options dataclass of kaldi-compat.

        Raises:
            OptionError: ``num_mels`` is neither 80 nor 128.
        """
        if self.num_mels not in (80, 128):
            raise OptionError(f"num_mels must be 80 or 128, as in Whisper's models, not {self.num_mels!r}")
        return WhisperMelOptions(num_mels=self.num_mels, snip_edges=self.frame_opts.snip_edges)
