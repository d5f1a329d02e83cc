"""Describe options: signatures for ``inspect``, tables for Jupyter, lists for ``help()``.

This module is imported on demand, so that programs do not import ``inspect`` and ``textwrap``.
"""

from __future__ import annotations

import dataclasses
import inspect
import textwrap
from collections.abc import Callable
from typing import Any

from io_ark.text import format_html_table
from kaldi_compat.options.declaration import get_info

WIDTH = 100  # Largest line length of a list of options, in characters.


def make_parameters(options: type[Any]) -> list[inspect.Parameter]:
    """Convert the fields of an options dataclass to keyword-only parameters with the same types and defaults."""
    return [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=type(field.default)
        )
        for field in dataclasses.fields(options)
    ]


def make_signature(function: Callable[..., Any], options: type[Any] | None = None) -> inspect.Signature:
    """Return the signature of a function, with a parameter for each option in place of ``**changes``.

    ``options`` is the dataclass of the options, and becomes the type of a parameter ``options``. None changes nothing.
    """
    signature = inspect.signature(function)
    if options is None:
        return signature
    parameters: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            parameters += make_parameters(options)
        else:
            is_options = parameter.name == "options"
            parameters.append(parameter.replace(annotation=options | None) if is_options else parameter)
    return signature.replace(parameters=parameters)


def render_html(title: str, options: Any, engine: str = "") -> str:
    """Render a table of options as HTML for Jupyter. Options that differ from Kaldi's defaults come first.

    Args:
        title: title of the table, such as the name of the feature.
        options: instance of an options dataclass.
        engine: name of the engine for the note above the options; "" to omit it.
    """
    fields = [(field, getattr(options, field.name)) for field in dataclasses.fields(options)]
    changed = [(field, value) for field, value in fields if value != field.default]
    unchanged = [(field, value) for field, value in fields if value == field.default]
    rows = [
        (field.name, repr(value), "" if value == field.default else repr(field.default), get_info(field).description)
        for field, value in changed + unchanged
    ]
    note = f"engine: {engine}; " if engine else ""
    note += f"{len(changed)} of {len(fields)} options differ from Kaldi's defaults" if changed else "Kaldi's defaults"
    return format_html_table(title, rows, ("option", "value", "Kaldi's default", "meaning"), note)


def format_documentation(text: str, options: type[Any]) -> str:
    """Return the docstring ``text``, followed by the list of the options of the dataclass ``options``."""
    return f"{inspect.cleandoc(text)}\n\nOptions:\n{format_options(options)}\n"


def format_options(options: type[Any]) -> str:
    """Format a paragraph for each option of a dataclass, with name, type, default, meaning, unit and range."""
    paragraphs = (
        f"{field.name} ({type(field.default).__name__}, default {field.default!r}): {get_info(field).description}"
        for field in dataclasses.fields(options)
    )
    return "\n".join(
        textwrap.fill(
            paragraph,
            WIDTH,
            initial_indent=" " * 4,
            subsequent_indent=" " * 8,
            break_long_words=False,
            break_on_hyphens=False,
        )
        for paragraph in paragraphs
    )
