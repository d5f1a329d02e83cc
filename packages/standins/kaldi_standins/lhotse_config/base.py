"""Base classes of the configurations of :mod:`kaldi_standins.lhotse`."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

from kaldi_compat.errors import WRONG_NUMBERS, OptionError
from kaldi_standins.named_options import NamedOptions

AnyConfig = TypeVar("AnyConfig", bound="LhotseOptions")
THEIR_NAMES = {
    "sample_frequency": "sampling_rate",
    "preemphasis_coefficient": "preemph_coeff",
    "num_mel_bins": "num_filters",
}


class LhotseOptions(NamedOptions):
    """Base class of the configurations, with the methods for lhotse's configuration files."""

    def to_dict(self) -> dict[str, Any]:
        """Return the options that are not None, by name, for lhotse's configuration files."""
        return {name: value for name, value in vars(self).items() if value is not None}

    @classmethod
    def from_dict(cls: type[AnyConfig], data: dict[str, Any]) -> AnyConfig:
        """Create a configuration from a dictionary of options. Raise OptionError for an unknown or invalid option."""
        return cls(**data)

    def to_our_options(self) -> Any:
        """Convert to options of kaldi-compat. Raise OptionError if Kaldi refuses a value, or lacks an option."""
        return self.convert(vars(self))


class Config(LhotseOptions):
    """Base class of the configurations of all features except for Whisper's.

    Attributes:
        fixed_values: maps options of lhotse for which Kaldi has only one value to this value.
    """

    their_names = THEIR_NAMES
    fixed_values: ClassVar[Mapping[str, bool]] = {"norm_filters": False, "torchaudio_compatible_mel_scale": True}

    frame_length: float
    frame_shift: float
    snip_edges: bool
    use_fft_mag: bool

    def __post_init__(self) -> None:
        """Move ``num_mel_bins`` to ``num_filters``, and warn if ``snip_edges`` is True.

        Raise OptionError if ``frame_length`` or ``frame_shift`` is 1 s or more, and thus probably in milliseconds.
        """
        values: dict[str, Any] = vars(self)
        if values.get("num_mel_bins") is not None:
            values["num_filters"], values["num_mel_bins"] = values["num_mel_bins"], None
        for name in ("frame_length", "frame_shift"):
            if values[name] >= 1:
                raise OptionError(
                    f"{name}={values[name]:g} would be in seconds, as in lhotse: pass {values[name] / 1000:g} for "
                    f"{values[name]:g} ms"
                )
        if self.snip_edges:
            warnings.warn(
                "snip_edges=True gives fewer frames than lhotse computes from a duration: pass snip_edges=False unless "
                f"you handle the difference (see {WRONG_NUMBERS})",
                stacklevel=3,
            )

    def to_our_options(self) -> Any:
        """Convert to options of kaldi-compat. Raise OptionError if Kaldi refuses a value, or lacks an option."""
        values = {"allow_empty_bins": True, **vars(self)}
        for name, value in self.fixed_values.items():
            if values.get(name, value) != value:
                raise OptionError(f"{type(self).__name__} supports only {name}={value}, as Kaldi does: leave it out")
        values["use_power"] = not self.use_fft_mag
        values["frame_length"], values["frame_shift"] = 1000.0 * self.frame_length, 1000.0 * self.frame_shift
        return self.convert(values)


class PowerConfig(Config):
    """Base class of the configurations of features that Kaldi computes only from the power spectrum."""

    fixed_values = {**Config.fixed_values, "use_fft_mag": False}  # noqa: RUF012  The base class declares the ClassVar.


class EnergyConfig(PowerConfig):
    """Base class of the configurations of features whose first column holds the energy."""

    fixed_values = {**PowerConfig.fixed_values, "use_energy": True}  # noqa: RUF012


class WhisperConfig(LhotseOptions):
    """Base class of the configuration of Whisper's features, whose rate and frames are fixed."""

    their_names: ClassVar[Mapping[str, str]] = {"num_mels": "num_filters"}
    sampling_rate: ClassVar[int] = 16000
    frame_shift: ClassVar[float] = 0.01
