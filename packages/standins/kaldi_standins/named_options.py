"""Base class of options that have another library's names, and that convert to options of kaldi-compat."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from kaldi_compat.errors import OptionError
from kaldi_compat.options.base import BaseOptions, ConstructorSignature, find_nearest_option
from kaldi_compat.options.declaration import OptionInfo, get_info, get_infos

# Maps names of Kaldi's options to the shorter names that kaldifeat and kaldi_native_fbank use.
SHORT_NAMES = {
    "sample_frequency": "samp_freq",
    "frame_length": "frame_length_ms",
    "frame_shift": "frame_shift_ms",
    "preemphasis_coefficient": "preemph_coeff",
    "num_mel_bins": "num_bins",
}
Made = TypeVar("Made", bound="OptionGroups")
Field = tuple[str, type, Any, str]  # Name, type, default (or a function that returns the default), and meaning.


class NamedOptions:
    """Base class of mutable dataclasses of options. Setting a name that is not an option raises ``name_error``.

    Attributes:
        our_type: the dataclass of kaldi-compat with the same options.
        their_names: maps our names of options to the other library's names, where the names differ.
        name_error: class of the error for a name that is not an option.
    """

    our_type: ClassVar[type[Any]]
    their_names: ClassVar[Mapping[str, str]] = SHORT_NAMES
    name_error: ClassVar[type[OptionError]] = OptionError

    __signature__ = ConstructorSignature()  # help() then shows the options, not the arguments of __new__.

    def __new__(cls, *arguments: Any, **values: Any) -> Any:
        for name in values:
            cls._check_name(name)
        return super().__new__(cls)

    if not TYPE_CHECKING:  # With __setattr__, a type checker would accept assignments to any name.

        def __setattr__(self, name, value) -> None:
            self._check_name(name)
            object.__setattr__(self, name, value)

    @classmethod
    def _check_name(cls, name: str) -> None:
        """Raise ``name_error`` if no option has this name."""
        fields = cls.__dataclass_fields__  # type: ignore[attr-defined]
        if name not in fields:
            nearest = find_nearest_option(name, cls._describe_options(fields))
            hint = f"did you mean {nearest}?" if nearest else f"choose from {', '.join(fields)}"
            raise cls.name_error(f"{cls.__name__} has no option {name}: {hint}")

    @classmethod
    def _describe_options(cls, fields: Mapping[str, Any]) -> dict[str, OptionInfo]:
        """Map the other library's names in ``fields`` to declarations of our options. Our names become aliases."""
        declarations = get_infos(cls.our_type) if issubclass(cls.our_type, BaseOptions) else {}
        our_names = {cls.their_names.get(name, name): name for name in declarations}
        return {
            theirs: dataclasses.replace(declarations[name], known_as=(*declarations[name].known_as, name))
            for theirs, name in our_names.items()
            if theirs in fields
        }

    @classmethod
    def convert(cls, values: Mapping[str, Any]) -> Any:
        """Return an instance of ``our_type``. ``values`` maps the other library's names to values.

        Unknown names are ignored. Raise :class:`OptionError` if Kaldi refuses a value.
        """
        names = {name: cls.their_names.get(name, name) for name in get_infos(cls.our_type)}
        return cls.our_type(**{name: values[theirs] for name, theirs in names.items() if theirs in values})


class OptionGroups(NamedOptions):
    """Options that hold groups of options, and convert to and from dictionaries."""

    def as_dict(self) -> dict[str, Any]:
        """Return a dictionary from option names to values. A group of options becomes a dictionary inside it."""
        return {name: value.as_dict() if isinstance(value, OptionGroups) else value
                for name, value in vars(self).items()}  # fmt: skip

    @classmethod
    def from_dict(cls: type[Made], data: Mapping[str, Any]) -> Made:
        """Create options from a dictionary of options and groups. Ignore unknown names.

        Values are converted to the types of the defaults. Options that are not in ``data`` have their defaults.
        """
        options = cls()
        for name in vars(options).keys() & dict(data).keys():
            field_type = type(getattr(options, name))
            setattr(options, name, getattr(field_type, "from_dict", field_type)(data[name]))
        return options

    def flatten(self) -> dict[str, Any]:
        """Return all options by name in one dictionary, including the options inside groups."""
        values: dict[str, Any] = {}
        for name, value in vars(self).items():
            values |= value.flatten() if isinstance(value, OptionGroups) else {name: value}
        return values


def make_options_class(
    name: str, base: type[NamedOptions], text: str, our_type: type[Any], *fields: Field, is_comparable: bool = True
) -> Any:
    """Return a mutable dataclass with ``fields``, in the module ``options`` beside the module of ``base``.

    Args:
        name: name of the class.
        base: base class.
        text: docstring, to which the meanings of the fields are appended.
        our_type: the dataclass of kaldi-compat with the same options.
        fields: name, type, default and meaning of each field. A callable default is called for each instance.
        is_comparable: True to generate ``__eq__`` and ``__repr__``, which compare and show the values.
    """
    declarations = [
        (field, field_type, dataclasses.field(**{"default_factory" if callable(default) else "default": default}))
        for field, field_type, default, _ in fields
    ]
    meanings = "".join(f"    {field}: {meaning}.\n" for field, _, _, meaning in fields)
    module = f"{base.__module__.rpartition('.')[0]}.options"
    body = {"__module__": module, "__doc__": f"{text}\n\nAttributes:\n{meanings}", "our_type": our_type}
    cls: Any = dataclasses.make_dataclass(
        name, declarations, bases=(base,), namespace=body, eq=is_comparable, repr=is_comparable
    )
    cls.__init__.__doc__ = f"Set the options.\n\nArgs:\n{meanings}"  # The tests of the original packages read it.
    return cls


def make_fields(
    our_type: type[Any],
    *names: str,
    meanings: Mapping[str, str] | None = None,
    renamed: Mapping[str, str] = SHORT_NAMES,
    **defaults: Any,
) -> list[Field]:
    """Return the fields for :func:`make_options_class` that correspond to the options ``names`` of kaldi-compat.

    Args:
        our_type: the dataclass of kaldi-compat.
        names: names of the options in ``our_type``.
        meanings: maps names of fields to descriptions that replace kaldi-compat's descriptions.
        renamed: maps names of options to different names of their fields.
        defaults: defaults that replace kaldi-compat's defaults, by the name of the option.
    """
    ours = {field.name: field for field in dataclasses.fields(our_type)}
    fields = [(renamed.get(name, name), defaults.get(name, ours[name].default), ours[name]) for name in names]
    return [(name, type(default), default, (meanings or {}).get(name) or get_info(field).description)
            for name, default, field in fields]  # fmt: skip
