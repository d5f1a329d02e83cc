"""HTML that Jupyter shows for tables, data sets and modules. Without colours, to fit light and dark themes."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

FIRST = 5  # entries shown of a long list


def html_table(title: str, rows: Iterable[Sequence[object]], header: Sequence[str] = (), note: str = "") -> str:
    """Write a table as HTML.

    Args:
        title: shown above, in bold.
        rows: the cells.
        header: names of the columns; none if empty.
        note: shown below.

    >>> html_table("utt1", [("frames", 98)])
    '<div><b>utt1</b><table><tr><td>frames</td><td>98</td></tr></table></div>'
    """
    head = "".join(f'<th style="text-align: left">{_escaped(name)}</th>' for name in header)
    body = "".join(f"<tr>{''.join(f'<td>{_escaped(cell)}</td>' for cell in row)}</tr>" for row in rows)
    table = f"<table>{f'<tr>{head}</tr>' if head else ''}{body}</table>" if head or body else ""
    return f"<div><b>{_escaped(title)}</b>{table}{f'<small>{_escaped(note)}</small>' if note else ''}</div>"


def _escaped(value: object) -> str:
    return html.escape(str(value), quote=False)
