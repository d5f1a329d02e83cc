"""Update the pages: figures of the benchmarks, counts, and the tables of programs and presets."""

from __future__ import annotations

import functools
import json
import re
import typing
from pathlib import Path

import io_ark
from benchmarks import figures
from io_ark.data_dir import DataDir
from io_ark.data_dir.scripts import SCRIPTS
from kaldi_compat import list_presets
from kaldi_compat.dump.arguments import get_first_sentence, list_programs
from kaldi_compat.frontends import Preset

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
_PROGRAMS = re.compile(r"(?<=<!-- programs -->\n).*?(?=<!-- end of programs -->\n)", flags=re.S)
_SCRIPTS = re.compile(r"(?<=<!-- scripts -->\n).*?(?=<!-- end of scripts -->\n)", flags=re.S)
_FAMILY = re.compile(r"^(\| \[[^]]+\]\(([\w-]+)\.md\) \|) `.*` \|$", flags=re.M)


def pages() -> list[Path]:
    """Return the pages of the project and of its documentation, except for the pages that the site's builder writes."""
    built = {DOCS / "_build", DOCS / "generated"}
    return [
        *sorted(ROOT.glob("*.md")),
        *(path for path in sorted(DOCS.rglob("*.md")) if built.isdisjoint(path.parents)),
    ]


def source(path: Path) -> str:
    """Return the text of a page with its figures, counts and tables brought up to date."""
    text = _PROGRAMS.sub(lambda _: format_programs(), figures.page(path))
    text = _SCRIPTS.sub(lambda _: format_scripts(), text)
    text = _FAMILY.sub(lambda row: f"{row[1]} {', '.join(f'`{name}`' for name in _list_family(row[2]))} |", text)
    for words, count in counts().items():
        text = re.sub(rf"\b\d[\d,]*(?=\s+{words})", f"{count:,}", text)
    return text


@functools.cache
def counts() -> dict[str, int]:
    """Return the counts that pages state. A key is a pattern of the words that follow the number on a page."""
    reference, folder = ROOT / "reference_data", DOCS / "migrating"
    kit = [json.loads(path.read_text())["vectors"] for path in (reference / "conformance").glob("level-*.json")]
    stated = re.search(r"(\d+) functions of (\d+) .*? (\d+) scripts", (folder / "repositories.md").read_text())
    assert stated is not None, "repositories.md does not state its counts"
    functions, repositories, scripts = map(int, stated.groups())
    return {
        r"programs(?: of Kaldi|, `| with Kaldi)": len(list_compared_programs()),
        r"of Kaldi's scripts": len(SCRIPTS),
        r"commands[,.]": len(list_kaldi_commands()),
        r"(?:test )?vectors (?:that|from) Kaldi": sum(map(len, kit)),
        r"(?:presets of|published models)": len(list_presets()),
        r"(?:types of objects|kinds\b)": len(typing.get_args(io_ark.Kind)),
        r"functions of \d+ (?:public )?repositories": functions,
        r"(?:public )?repositories(?:, such|\s+and \d+)": repositories,
        r"(?:of their )?scripts run": scripts,
    }


@functools.cache
def list_kaldi_commands() -> list[str]:
    """Return the commands of Kaldi's programs whose output is stored in ``reference_data``."""
    return [case["cmd"] for case in json.loads((ROOT / "reference_data" / "cases.json").read_text())]


def list_compared_programs() -> set[str]:
    """Return the programs of the installation that occur in a command of :func:`list_kaldi_commands`."""
    words = {word for command in list_kaldi_commands() for word in re.findall(r"[a-z][a-z0-9-]+", command)}
    return words.intersection(list_programs())


@functools.cache
def format_programs() -> str:
    """Return a table with the name of each program and the first sentence of its usage."""
    rows = (f"| `{name}` | {get_first_sentence(program.text)} |\n" for name, program in list_programs().items())
    return "".join(["| program | what it does |\n", "|---|---|\n", *rows])


@functools.cache
def format_scripts() -> str:
    """Return a table of Kaldi's scripts with the commands and the methods that do the same."""
    # The command "filter" prints lines, unlike the method of this name.
    methods = {script.command: script.command.replace("-", "_") for script in SCRIPTS.values()}
    methods.update({"utt2num-frames": "num_frames", "filter": ""})
    rows = ["| script | `kaldi-compat data` | method of `DataDir` |\n", "|---|---|---|\n"]
    for name, script in SCRIPTS.items():
        method = methods[script.command]
        has_method = bool(method) and callable(getattr(DataDir, method, None))
        cells = (name, script.command, method if has_method else "")
        rows.append(f"| {' | '.join(f'`{cell}`' if cell else '' for cell in cells)} |\n")
    return "".join(rows)


def _list_family(family: str) -> list[str]:
    return [name for name in list_presets() if Preset.of(name).family == family]
