"""Base classes of kaldifeat's options. See :mod:`kaldi_compat.interop.kaldifeat`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from kaldi_compat.errors import OptionError
from kaldi_compat.interop.kaldifeat.whisper import WhisperMelOptions
from kaldi_compat.interop.named_options import NamedOptions

Made = TypeVar("Made", bound="Options")
# kaldifeat's names of options that we call otherwise.
THEIR_NAMES = {
    "sample_frequency": "samp_freq",
    "frame_length": "frame_length_ms",
    "frame_shift": "frame_shift_ms",
    "preemphasis_coefficient": "preemph_coeff",
    "num_mel_bins": "num_bins",
}


class Options(NamedOptions):
    """Base of kaldifeat's options, which convert to and from dictionaries."""

    their_names = THEIR_NAMES

    if not TYPE_CHECKING:  # a type checker would take it that every name may be set

        def __setattr__(self, name, value) -> None:
            super().__setattr__(name, torch.device(str(value)) if name == "device" else value)

    def as_dict(self) -> dict[str, Any]:
        """Return the options by name; groups of options as dictionaries."""
        return {name: value.as_dict() if isinstance(value, Options) else value for name, value in vars(self).items()}

    @classmethod
    def from_dict(cls: type[Made], data: Mapping[str, Any]) -> Made:
        """Make options from a dictionary. Absent ones are defaults, and unknown names are ignored, as in kaldifeat."""
        made = cls()
        for name in vars(made).keys() & data.keys():
            group = getattr(made, name)
            setattr(made, name, type(group).from_dict(data[name]) if isinstance(group, Options) else data[name])
        return made


class FeatureOptions(Options):
    """Base class of the options of a feature: those of frames and mel bins, its own, and the device."""

    frame_opts: Any
    device: torch.device

    def ours(self) -> Any:
        """Return the same as this package's options.

        Raises:
            OptionError: a value that Kaldi refuses.
        """
        values: dict[str, Any] = {}
        for name, value in vars(self).items():
            values |= vars(value) if isinstance(value, Options) else {name: value}
        values["max_feature_vectors"] = values["max_feature_vectors"] or -1
        values["allow_empty_bins"] = True
        return self.converted(values)


class WhisperOptions(FeatureOptions):
    """Base class of Whisper's options, of whose frames all but ``snip_edges`` are fixed."""

    num_mels: int

    def ours(self) -> WhisperMelOptions:
        """Return the same as this package's options.

        Raises:
            OptionError: ``num_mels`` is neither 80 nor 128.
        """
        if self.num_mels not in (80, 128):
            raise OptionError(f"num_mels must be 80 or 128, as in Whisper's models, not {self.num_mels!r}")
        return WhisperMelOptions(num_mels=self.num_mels, snip_edges=self.frame_opts.snip_edges)
