"""Base classes of kaldifeat's options, and the script that writes the options themselves.

``python -m kaldi_compat.interop.kaldifeat_groups`` writes ``kaldifeat_options.py`` from our declarations, so that type
checkers and editors see every option with its default. A test fails when the file is stale.
"""

from __future__ import annotations

import dataclasses
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from kaldi_compat.errors import OptionError
from kaldi_compat.options import spectral as options
from kaldi_compat.options.base import BaseOptions, ConstructorSignature, OptionInfo, infos, nearest

__all__ = ["TARGET", "FeatureOptions", "OptionGroup", "main", "options_source"]

TARGET = Path(__file__).with_name("kaldifeat_options.py")
# kaldifeat's names where they differ from ours.
RENAMED = {
    "sample_frequency": "samp_freq",
    "frame_length": "frame_length_ms",
    "frame_shift": "frame_shift_ms",
    "preemphasis_coefficient": "preemph_coeff",
    "num_mel_bins": "num_bins",
}
# Options that kaldifeat does not have in its groups: resampling, a scale, and an option of the feature itself.
NOT_IN_GROUPS = ("allow_downsample", "allow_upsample", "waveform_scale", "htk_compat", "allow_empty_bins")
GROUPS = {"FrameExtractionOptions": options.FrameOptions, "MelBanksOptions": options.MelOptions}
FEATURES = (options.FbankOptions, options.MfccOptions, options.PlpOptions, options.SpectrogramOptions)

HEADER = '''\
"""kaldifeat's options: what :mod:`kaldi_compat.interop.kaldifeat_groups` writes from our declarations. Do not edit."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from kaldi_compat.interop.kaldifeat_groups import FeatureOptions, OptionGroup
from kaldi_compat.options import spectral as options

__all__ = [
    "FbankOptions",
    "FrameExtractionOptions",
    "MelBanksOptions",
    "MfccOptions",
    "PlpOptions",
    "SpectrogramOptions",
]
'''
GROUP = '''

@dataclass
class {name}(OptionGroup):
    """Options of kaldifeat for which ours are :class:`~kaldi_compat.options.spectral.{kind}`.

    Attributes:
{attributes}
    """

    _kind = options.{kind}

{fields}
'''
FEATURE = '''

@dataclass
class {name}(FeatureOptions):
    """Options of kaldifeat for which ours are :class:`~kaldi_compat.options.spectral.{kind}`.

    Attributes:
        frame_opts: how audio is cut into frames.
        mel_opts: the mel filter bank.
        device: device of the features.
{attributes}
    """

    _kind = options.{kind}

    frame_opts: FrameExtractionOptions = field(default_factory=FrameExtractionOptions)
    mel_opts: MelBanksOptions = field(default_factory=MelBanksOptions)
    device: torch.device | str = field(default_factory=lambda: torch.device("cpu"))
{fields}
'''


class _Options:
    """Base of mutable dataclasses of options: a name that is not an option is refused when it is set."""

    _kind: ClassVar[type[BaseOptions]]

    __signature__ = ConstructorSignature()  # of the dataclass's constructor, not of __new__

    def __new__(cls, *arguments: Any, **values: Any) -> Any:
        for name in values:
            cls._check(name)
        return super().__new__(cls)

    if not TYPE_CHECKING:  # a type checker would take it that every name may be set

        def __setattr__(self, name, value) -> None:
            self._check(name)
            object.__setattr__(self, name, value)

    @classmethod
    def _check(cls, name: str) -> None:
        fields = cls.__dataclass_fields__  # type: ignore[attr-defined]
        if name not in fields:
            known = nearest(name, cls._infos(list(fields)))
            hint = f"did you mean {known}?" if known else f"it has {', '.join(fields)}"
            raise OptionError(f"{cls.__name__} has no option {name}: {hint}")

    @classmethod
    def _infos(cls, names: list[str]) -> dict[str, OptionInfo]:
        """Return what the options were declared with, and our names for those that kaldifeat calls otherwise."""
        found = {}
        for name, described in infos(cls._kind).items():
            theirs = RENAMED.get(name, name)
            if theirs in names:
                found[theirs] = dataclasses.replace(described, known_as=(*described.known_as, name))
        return found


class OptionGroup(_Options):
    """Options of frames or mel bins, with kaldifeat's names and our defaults."""

    def as_dict(self) -> dict[str, Any]:
        """Return the options by kaldifeat's names."""
        return dict(vars(self))

    def ours(self) -> dict[str, Any]:
        """Return the options by our names."""
        back = {theirs: ours for ours, theirs in RENAMED.items()}
        return {back.get(name, name): value for name, value in vars(self).items()}


class FeatureOptions(_Options):
    """Options of a feature: those of frames, those of mel bins if it has any, its own, and the device."""

    frame_opts: Any
    mel_opts: Any
    device: Any

    def _own(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("frame_opts", "mel_opts", "device")}

    def as_dict(self) -> dict[str, Any]:
        """Return the options by kaldifeat's names, those of frames and mel bins as dictionaries."""
        return {"frame_opts": self.frame_opts.as_dict(), "mel_opts": self.mel_opts.as_dict(), **self._own()}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Any:
        """Make the options of which :meth:`as_dict` gave some or all."""
        made: Any = cls()
        for name, value in data.items():
            group = name in ("frame_opts", "mel_opts")
            setattr(made, name, type(getattr(made, name))(**value) if group else value)
        return made

    def ours(self) -> options.FrameOptions:
        """Return the same as our options.

        Raises:
            OptionError: a value that Kaldi refuses.
        """
        values = {**self.frame_opts.ours(), **self.mel_opts.ours(), **self._own()}
        known = infos(self._kind)
        kind: type[Any] = self._kind
        made: options.FrameOptions = kind(**{name: value for name, value in values.items() if name in known})
        return made


def options_source() -> str:
    """Return the text of ``kaldifeat_options.py``."""
    groups = [_filled(GROUP, name, kind, _in_group(kind)) for name, kind in GROUPS.items()]
    features = [_filled(FEATURE, kind.__name__, kind, _own_options(kind)) for kind in FEATURES]
    return HEADER + "".join(groups + features)


def _in_group(kind: type[Any]) -> list[dataclasses.Field[Any]]:
    return [field for field in dataclasses.fields(kind) if field.name not in NOT_IN_GROUPS]


def _own_options(kind: type[Any]) -> list[dataclasses.Field[Any]]:
    """Return the options of a feature that are in no group."""
    grouped = {field.name for group in GROUPS.values() for field in _in_group(group)}
    refused = set(NOT_IN_GROUPS) - {"htk_compat"}
    return [field for field in dataclasses.fields(kind) if field.name not in grouped | refused]


def _filled(template: str, name: str, kind: type[Any], fields: list[dataclasses.Field[Any]]) -> str:
    described = infos(kind)
    lines = [
        (RENAMED.get(field.name, field.name), described[field.name].description, field.default) for field in fields
    ]
    return template.format(
        name=name,
        kind=kind.__name__,
        attributes="\n".join(_wrapped(f"{theirs}: {description}") for theirs, description, _ in lines),
        fields="\n".join(f"    {theirs}: {type(value).__name__} = {_literal(value)}" for theirs, _, value in lines),
    )


def _wrapped(text: str) -> str:
    return textwrap.fill(text, 120, initial_indent=" " * 8, subsequent_indent=" " * 12, break_on_hyphens=False)


def _literal(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def main() -> None:
    """Write the file."""
    TARGET.write_text(options_source(), encoding="utf-8")


if __name__ == "__main__":
    main()
