"""Tables show themselves in Jupyter without reading their objects."""

from __future__ import annotations

from pathlib import Path

import io_ark
from io_ark.text import format_html_table


def test_script_table_shows_its_first_keys_and_reads_nothing(tmp_path: Path) -> None:
    script = tmp_path / "feats.scp"
    script.write_text("".join(f"utt{i} no_such.ark:{i}\n" for i in range(8)))
    shown = io_ark.load_scp(str(script))._repr_html_()  # type: ignore[attr-defined]
    assert "<td>utt4</td><td>no_such.ark:4</td>" in shown and "utt5" not in shown
    assert f"{script}: 8 keys" in shown and "... and 3 more" in shown
    completed: list[str] = io_ark.load_scp(str(script))._ipython_key_completions_()  # type: ignore[attr-defined]
    assert completed == [f"utt{i}" for i in range(8)]


def test_keys_and_commands_cannot_inject_html(tmp_path: Path) -> None:
    script = tmp_path / "feats.scp"
    script.write_text("<script>alert(1)</script> <img/onerror=x\n")
    shown = io_ark.load_scp(str(script))._repr_html_()  # type: ignore[attr-defined]
    assert "<script>" not in shown and "<img" not in shown and "&lt;script&gt;" in shown


def test_empty_table_has_no_rows() -> None:
    assert format_html_table("nothing", []) == "<div><b>nothing</b></div>"
