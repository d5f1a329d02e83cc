"""Base class of options with another library's names over ours."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from kaldi_compat.errors import OptionError
from kaldi_compat.options.base import BaseOptions, ConstructorSignature, OptionInfo, infos, nearest


class NamedOptions:
    """Base of mutable dataclasses of options. A name that is not an option raises OptionError.

    Attributes:
        our_type: our options of the same meaning.
        their_names: the other library's names of options, by ours, where they differ.
    """

    our_type: ClassVar[type[BaseOptions]]
    their_names: ClassVar[Mapping[str, str]]

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
            known = nearest(name, cls._described(fields))
            hint = f"did you mean {known}?" if known else f"it has {', '.join(fields)}"
            raise OptionError(f"{cls.__name__} has no option {name}: {hint}")

    @classmethod
    def _described(cls, fields: Mapping[str, Any]) -> dict[str, OptionInfo]:
        """Return how our options are declared, by the names of these fields, with ours as further names."""
        declared = infos(cls.our_type)
        our_names = {cls.their_names.get(name, name): name for name in declared}
        return {
            theirs: dataclasses.replace(declared[name], known_as=(*declared[name].known_as, name))
            for theirs, name in our_names.items()
            if theirs in fields
        }

    def converted(self, values: Mapping[str, Any]) -> Any:
        """Return our options with these values, which have the other library's names; others are left out.

        Raises:
            OptionError: a value that Kaldi refuses.
        """
        names = {name: self.their_names.get(name, name) for name in infos(self.our_type)}
        return self.our_type(**{name: values[theirs] for name, theirs in names.items() if theirs in values})
