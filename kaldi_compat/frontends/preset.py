"""Presets: front ends as data, from the files in ``presets`` or from a user's own file. Does not import torch."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from io_ark.text import quote_value
from kaldi_compat.errors import OptionError
from kaldi_compat.frontends.names import PresetName
from kaldi_compat.frontends.steps import STEPS, Step, count_columns, make_step
from kaldi_compat.json_file import parse_json, read_regular_file
from kaldi_compat.options.base import find_nearest_name, make_options
from kaldi_compat.options.registry import SPECTRAL_FEATURES
from kaldi_compat.options.spectral import FrameOptions

FOLDER = Path(__file__).with_name("presets")
FEATURES = {name: feature.options for name, feature in SPECTRAL_FEATURES.items()}
# Maps parts of the names of models whose features are not Kaldi's to advice.
ELSEWHERE = {
    "whisper": "Whisper's features are not Kaldi's: use kaldi_standins.kaldifeat.WhisperFbank",
    "moonshine": "Moonshine takes audio, not features",
    **dict.fromkeys(
        ("nemo", "parakeet", "canary", "gigaam", "clap"), "its features are not Kaldi's: use the model's own front end"
    ),
}
SET_BY_PRESET = ("sample_frequency", "waveform_scale")
FORMAT_VERSION = 1  # Version of the JSON format of presets.
# Limits that keep a preset from an untrusted file from using all memory.
MAX_COLUMNS = 1 << 20  # Largest number of columns of a frame after the steps.
MAX_STEPS = 100  # Largest number of steps of a preset.
MAX_BITS = 64  # Largest size of an integer in bits. Python's integers have no limit.
KEYS: dict[str, Any] = {
    "format": int,
    "columns": int,
    "name": str,
    "title": str,
    "family": str,
    "source": Mapping,
    "sampling_rate": int,
    "sample_scale": (int, float),
    "feature": str,
    "options": Mapping,
    "subtract_clip_mean": bool,
    "shortens_frame": bool,
    "double_precision": bool,
    "steps": list,
    "notes": list,
}
_TYPE_WORDS: dict[Any, str] = {
    int: "an integer", (int, float): "a number", str: "a string", bool: "true or false", list: "a list",
    Mapping: "an object with names and values",
}  # fmt: skip


@dataclass(frozen=True)
class Source:
    """Origin of a preset: the project from whose code the settings were taken.

    Attributes:
        repository: address of the project.
        file: file of the project that computes the front end.
        commit: hash of the commit whose code was read and run.
        date: date of the commit, such as "2025-01-31".
    """

    repository: str = ""
    file: str = ""
    commit: str = ""
    date: str = ""


@dataclass(frozen=True)
class Preset:
    """Description of a front end: the settings from audio to the input of a model.

    Attributes:
        name: short name, such as "paraformer".
        title: the models that the preset is for.
        family: name of the documentation page that describes the preset.
        source: origin of the settings.
        sampling_rate: sampling rate of the model's audio, in Hz.
        sample_scale: factor on audio in -1 to 1: 32768 for models trained on 16-bit integers, 1 for other models.
        feature: type of the feature: "fbank", "mfcc", "plp" or "spectrogram".
        options: options of the feature, with a scale of 1, because ``sample_scale`` has the scale.
        subtract_clip_mean: True to subtract the mean of the audio before the feature is computed.
        shortens_frame: True if audio shorter than a frame gives one shorter frame, as in FunASR. Otherwise, it gives no
            frames.
        double_precision: True to compute an accurate spectrum, because the model's own code computes it in double
            precision. Otherwise, the spectrum is Kaldi's, which is rounded to single precision at each step.
        steps: steps that process the features, in order.
        notes: pitfalls and hints for users.

    >>> from kaldi_compat.frontends import Preset
    >>> preset = Preset.of("paraformer")
    >>> preset.sampling_rate, preset.feature, [str(step) for step in preset.steps][0]
    (16000, 'fbank', 'low_frame_rate(stack=7, stride=6)')
    """

    name: str
    feature: str
    options: FrameOptions
    title: str = ""
    family: str = ""
    source: Source = Source()
    sampling_rate: int = 16000
    sample_scale: float = 32768.0
    subtract_clip_mean: bool = False
    shortens_frame: bool = False
    double_precision: bool = False
    steps: tuple[Step, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raise :class:`OptionError` for too many steps or columns, or for a spectrogram of shortened frames."""
        if len(self.steps) > MAX_STEPS:
            raise OptionError(f"there are {len(self.steps)} steps: use at most {MAX_STEPS}")
        if self.shortens_frame and self.feature == "spectrogram":
            raise OptionError(
                "shortens_frame does not work with the feature spectrogram, because the frame length determines "
                "its number of columns: leave shortens_frame out"
            )
        columns = count_columns(self.options, self.steps)
        if columns > MAX_COLUMNS:
            raise OptionError(
                f"the steps turn the {self.options.dim} columns of the feature into {columns:.3g}, but at most "
                f"{MAX_COLUMNS} are supported: stack fewer frames"
            )

    @classmethod
    def of(cls, preset: PresetName | str | os.PathLike[str] | Preset) -> Preset:
        """Return the preset that a name or a file describes, or a Preset unchanged.

        Args:
            preset: name from :func:`list_presets`, path of a JSON file, or a Preset.

        Raises:
            OptionError: the preset is unknown, the file cannot be read or does not describe a preset, or ``preset`` has
                another type.

        >>> from kaldi_compat.frontends import Preset
        >>> Preset.of("paraformer").options.window_type
        'hamming'
        """
        if isinstance(preset, Preset):
            return preset
        if not isinstance(preset, (str, os.PathLike)):
            raise OptionError(
                f"preset={quote_value(preset)} is of type {type(preset).__name__}: pass a name, a JSON file or a Preset"
            )
        name = os.fspath(preset)
        if not isinstance(preset, str) or is_preset_file(name):
            return cls.read(name)
        if name in list_presets():
            return _read_packaged(name)
        normalized_name = name.lower().replace("_", "-")
        if advice := next((advice for model, advice in ELSEWHERE.items() if model in normalized_name), ""):
            raise OptionError(f"there is no preset {name!r}: {advice}")
        nearest = find_nearest_name(normalized_name, list_presets())
        hint = f"did you mean {nearest!r}?" if nearest else f"choose from {', '.join(list_presets())}"
        raise OptionError(f"there is no preset {name!r}: {hint} (a preset of your own is a file that ends in .json)")

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Preset:
        """Read a preset from the JSON file ``path`` (see :meth:`from_dict`).

        Raises:
            OptionError: the file cannot be read, or does not describe a preset. The message names the file.

        >>> import os, tempfile
        >>> from kaldi_compat.frontends import Preset
        >>> path = os.path.join(tempfile.mkdtemp(), "mine.json")
        >>> _ = open(path, "w").write('{"name": "mine", "feature": "fbank"}')
        >>> Preset.read(path).feature
        'fbank'
        """
        name = os.fspath(path)
        try:
            description = parse_json(read_regular_file(name))
        except OSError as error:
            raise OptionError(f"cannot read the preset {name}: {error.strerror}") from None
        except ValueError as error:
            raise OptionError(f"the preset {name} is not a JSON file: {error}; correct the file") from None
        try:
            return cls.from_dict(description)
        except OptionError as error:
            raise OptionError(f"the preset {name}: {error}") from None

    @classmethod
    def from_dict(cls, description: Any) -> Preset:
        """Create a preset from a dictionary, such as the content of a JSON file.

        Args:
            description: ``name`` and ``feature``; and optionally the other attributes of this class, with ``options``
                by name, and ``steps`` as a list of ``{name: options}``. docs/frontends/format.md describes the format.

        Raises:
            OptionError: a name is missing or unknown, or a value is invalid.

        >>> from kaldi_compat.frontends import Preset
        >>> preset = Preset.from_dict({"name": "mine", "feature": "fbank", "options": {"num_mel_bins": 64}})
        >>> preset.options.num_mel_bins, preset.options.dither
        (64, 0.0)
        """
        if not isinstance(description, Mapping):
            kind = type(description).__name__
            raise OptionError(f"a preset must be a JSON object with at least 'name' and 'feature', not {kind}")
        _check_entries(description)
        values = dict(description)
        if (version := values.pop("format", FORMAT_VERSION)) != FORMAT_VERSION:
            expected = f"this version of kaldi-compat reads only {FORMAT_VERSION}"
            raise OptionError(f"format is {version}, but {expected}: correct the number, or upgrade kaldi-compat")
        values.pop("columns", None)  # The other entries determine the number of columns.
        feature = values["feature"]
        if feature not in FEATURES:
            raise OptionError(f"feature must be one of {', '.join(FEATURES)}, not {feature!r}")
        values["source"] = _parse_source(values.get("source", {}))
        sampling_rate = values.setdefault("sampling_rate", cls.sampling_rate)
        values["options"] = _parse_options(feature, values.get("options", {}), sampling_rate)
        values["steps"] = tuple(map(make_step, values.get("steps", ())))
        values["notes"] = tuple(map(str, values.get("notes", ())))
        values["sample_scale"] = float(values.get("sample_scale", cls.sample_scale))
        if not 0 < values["sample_scale"] < float("inf"):
            raise OptionError(f"sample_scale must be positive and finite, not {values['sample_scale']:g}")
        return cls(**values)

    @property
    def feature_options(self) -> FrameOptions:
        """Options of the feature, with ``waveform_scale`` set to :attr:`sample_scale`, for samples from -1 to 1."""
        return dataclasses.replace(self.options, waveform_scale=self.sample_scale)

    @property
    def statistics(self) -> str:
        """Name of the file of statistics that the model ships, or "" if there is none."""
        return next((step.statistics for step in self.steps if step.statistics), "")

    @property
    def why_no_stream(self) -> str:
        """Reason why the front end cannot be computed in chunks, or "" if it can."""
        if self.subtract_clip_mean:
            return "it subtracts the mean of the whole clip"
        step_name = next((step.kind for step in self.steps if not STEPS[step.kind].streams), "")
        return f"its step {step_name} needs the whole utterance" if step_name else ""

    @property
    def why_no_graph(self) -> str:
        """Reason why the front end cannot be exported or scripted, or "" if it can."""
        step_name = next((step.kind for step in self.steps if STEPS[step.kind].selects), "")
        return f"how many frames its step {step_name} keeps depends on the audio" if step_name else ""


def is_preset_file(preset: str) -> bool:
    """Return True for the path of a preset file (it ends in .json or contains a folder), False for a preset's name."""
    return preset.endswith(".json") or os.sep in preset


def _check_entries(description: Mapping[str, Any]) -> None:
    """Raise OptionError if a preset has an unknown entry, a value of a wrong type or size, or no name or feature."""
    for key, value in description.items():
        if key not in KEYS:
            nearest = find_nearest_name(str(key), KEYS)
            hint = f"did you mean {nearest!r}?" if nearest else f"choose from {', '.join(KEYS)}"
            raise OptionError(f"there is no entry {key!r}: {hint}")
        if not isinstance(value, KEYS[key]) or (isinstance(value, bool) and KEYS[key] is not bool):
            raise OptionError(f"{key} must be {_TYPE_WORDS[KEYS[key]]}, not {value!r}")
        if isinstance(value, int) and value.bit_length() > MAX_BITS:
            raise OptionError(
                f"{key} is an integer of {value.bit_length()} bits: write a number of at most {MAX_BITS} bits"
            )
    for key in ("name", "feature"):
        if key not in description:
            raise OptionError(f"the entry {key!r} is missing: add it")


def _parse_source(values: Mapping[str, Any]) -> Source:
    """Create a source from a dictionary of its attributes. Raise OptionError for an invalid name or value."""
    fields = [field.name for field in dataclasses.fields(Source)]
    for key, value in values.items():
        if key not in fields:
            raise OptionError(f"source has an unknown entry {key!r}: choose from {', '.join(fields)}")
        if not isinstance(value, str):
            raise OptionError(f"the entry {key!r} of source must be a string, not {value!r}: put the value in quotes")
    return Source(**values)


def _parse_options(feature: str, values: Mapping[str, Any], sampling_rate: int) -> FrameOptions:
    """Create the options of a feature from a dictionary. Dithering is off unless ``values`` contains ``dither``.

    Raise :class:`OptionError` for an invalid value, or for an option that another entry of the preset sets.
    """
    for name, key in zip(SET_BY_PRESET, ("sampling_rate", "sample_scale"), strict=True):
        if name in values:
            raise OptionError(f"the option {name} follows from the entry {key!r}: set this entry instead of the option")
    changes = {"dither": 0.0, **values, "sample_frequency": sampling_rate}
    options: FrameOptions = make_options(feature, FEATURES[feature], options=None, changes=changes)
    return options


@functools.cache
def list_presets() -> tuple[str, ...]:
    """Return the names of the presets in this package, sorted.

    >>> from kaldi_compat import list_presets
    >>> "paraformer" in list_presets()
    True
    """
    return tuple(sorted(file.stem for file in FOLDER.glob("*.json")))


@functools.cache
def _read_packaged(name: str) -> Preset:
    return Preset.read(FOLDER / f"{name}.json")
