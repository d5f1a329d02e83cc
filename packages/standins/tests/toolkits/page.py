"""Write docs/migrating/repositories.md: ``python -m packages.standins.tests.toolkits.page``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from packages.standins.tests.toolkits.calls import CALLS
from packages.standins.tests.toolkits.repositories import REPOSITORIES
from packages.standins.tests.toolkits.scripts import SCRIPTS

PAGE = Path(__file__).parents[4] / "docs" / "migrating" / "repositories.md"
LIBRARIES = ("torchaudio", "kaldi_native_fbank", "kaldifeat", "kaldiio", "kaldi_io")


def _link(repository: str) -> str:
    owner, commit = REPOSITORIES[repository]
    return f"[{owner}/{repository}](https://github.com/{owner}/{repository}/tree/{commit})"


def _format_calls(library: str) -> Iterator[str]:
    """Yield the row of each repository whose functions call a library."""
    functions: dict[str, dict[str, list[str]]] = {}
    for call in CALLS:
        if call.library == library:
            repository, _, path = call.file.partition("/")
            functions.setdefault(repository, {}).setdefault(path, []).append(f"`{call.function}`")
    for repository, paths in sorted(functions.items(), key=lambda item: _link(item[0]).lower()):
        cell = "; ".join(f"`{path}`: {', '.join(names)}" for path, names in paths.items())
        yield f"| {_link(repository)} | {cell} |"


def format_page() -> str:
    """Return the text of the page."""
    template = Path(__file__).with_name("page.md").read_text(encoding="utf-8")
    tables = ["\n".join([f"### {library}", "", "| repository | functions |", "| --- | --- |", *_format_calls(library)])
              for library in LIBRARIES]  # fmt: skip
    scripts = [f"| {_link(script.repository)} | `{script.command.split()[0]}` | {script.libraries.replace(',', ', ')} |"
               for script in SCRIPTS]  # fmt: skip
    return template.format(
        calls=len(CALLS),
        repositories=len({call.file.partition("/")[0] for call in CALLS}),
        scripts=len(SCRIPTS),
        calls_tables="\n\n".join(tables),
        scripts_table="\n".join(scripts),
    )


if __name__ == "__main__":
    PAGE.write_text(format_page(), encoding="utf-8")
