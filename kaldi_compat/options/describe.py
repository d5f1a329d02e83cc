"""Describe options to people and tools: signatures for ``inspect`` and Jupyter, lists for ``help()``.

Computed when somebody asks for them, so that programs do not import ``inspect`` and ``textwrap``.
"""

from __future__ import annotations

import dataclasses
import inspect
import textwrap
from collections.abc import Callable
from typing import Any

from io_ark.text import html_table
from kaldi_compat.options.base import info

WIDTH = 100


def parameters(options: type[Any]) -> list[inspect.Parameter]:
    """Return the options as keyword-only parameters with their types and defaults."""
    return [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=type(field.default)
        )
        for field in dataclasses.fields(options)
    ]


def signature(function: Callable[..., Any], options: type[Any] | None = None) -> inspect.Signature:
    """Return a function's signature, its ``**changes`` replaced by the options themselves."""
    own = inspect.signature(function)
    declared = list(own.parameters.values())
    named = [
        p.replace(annotation=options | None) if options is not None and p.name == "options" else p
        for p in declared
        if options is None or p.kind is not p.VAR_KEYWORD
    ]
    replaced = parameters(options) if options is not None and len(named) < len(declared) else []
    return own.replace(parameters=named + replaced)


def html(title: str, options: Any, engine: str = "") -> str:
    """Return a table of options for Jupyter. Options that differ from Kaldi's defaults come first.

    >>> from kaldi_compat.options.postprocessing import SpliceOptions
    >>> html("Splice", SpliceOptions(left_context=2)).count("<td>")
    8
    """
    fields = [(field, getattr(options, field.name)) for field in dataclasses.fields(options)]
    changed = [(field, value) for field, value in fields if value != field.default]
    unchanged = [(field, value) for field, value in fields if value == field.default]
    rows = [
        (field.name, repr(value), "" if value == field.default else repr(field.default), info(field).description)
        for field, value in changed + unchanged
    ]
    note = f"engine: {engine}; " if engine else ""
    note += f"{len(changed)} of {len(fields)} options differ from Kaldi's defaults" if changed else "Kaldi's defaults"
    return html_table(title, rows, ("option", "value", "Kaldi's default", "meaning"), note)


def documentation(text: str, options: type[Any]) -> str:
    """Return a class's docstring followed by the list of its options."""
    return f"{inspect.cleandoc(text)}\n\nOptions:\n{option_lines(options)}\n"


def option_lines(options: type[Any]) -> str:
    """Return a paragraph for each option: name, type, default, meaning, unit and range.

    >>> from kaldi_compat.options.postprocessing import SpliceOptions
    >>> print(option_lines(SpliceOptions))
        left_context (int, default 4): frames before each frame; at least 0
        right_context (int, default 4): frames after each frame; at least 0
    """
    lines = (
        f"{field.name} ({type(field.default).__name__}, default {field.default!r}): {info(field).description}"
        for field in dataclasses.fields(options)
    )
    return "\n".join(
        textwrap.fill(
            line,
            WIDTH,
            initial_indent=" " * 4,
            subsequent_indent=" " * 8,
            break_long_words=False,
            break_on_hyphens=False,
        )
        for line in lines
    )
