"""The documentation site covers every program, option and public name, and builds without warnings."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

import io_ark
import kaldi_compat

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def generate() -> Iterator[ModuleType]:
    sys.path.insert(0, str(DOCS))
    try:
        from site_builder import generate

        yield generate
    finally:
        sys.path.remove(str(DOCS))


@pytest.fixture(scope="module")
def pages(generate: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    for library in ("transformers", "kaldi_explain", "kaldi_standins"):  # whose modules are imported for their pages
        pytest.importorskip(library)
    folder = tmp_path_factory.mktemp("generated")
    (folder / "reference").mkdir()
    (folder / "reference" / "removed.md").write_text("a page of a program that no longer exists")
    generate.write(folder)
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*.*")}


def test_every_program_has_a_page(pages: dict[str, str]) -> None:
    scripts = {each.name for each in importlib.metadata.distribution("kaldi-compat").entry_points}
    documented = {name.split("/")[2].removesuffix(".md") for name in pages if name.startswith("reference/programs/")}
    assert documented - {"kaldi-compat-dump"} == scripts - {"kaldi-compat"}
    assert "`--num-mel-bins`" in pages["reference/programs/compute-fbank-feats.md"]


def test_pages_of_removed_programs_are_deleted(pages: dict[str, str]) -> None:
    assert "reference/removed.md" not in pages


def test_every_option_is_in_the_table(generate: ModuleType, pages: dict[str, str]) -> None:
    for options in generate.all_options():
        for field in dataclasses.fields(options):
            assert f"| `{field.name}` |" in pages["reference/options.md"], f"{options.__name__}.{field.name}"


def test_every_public_name_is_in_the_api_reference(pages: dict[str, str]) -> None:
    text = "\n".join(page for name, page in pages.items() if name.startswith("reference/api/"))
    missing = [
        name for name in kaldi_compat.__all__ if name != "__version__" and f":: kaldi_compat.{name}\n" not in text
    ]
    assert missing == []
    assert ":: io_ark\n" in text and "load_scp" in io_ark.__all__


def test_files_that_project_pages_link_to_exist(pages: dict[str, str]) -> None:
    texts = [page for name, page in pages.items() if name.startswith("project/")]
    links = {link for text in texts for link in re.findall(r"\]\(([^):#]+)(?:#[^)]*)?\)", text)}
    files = {link for link in links if not link.startswith("/")}
    assert files
    assert [link for link in files if not (DOCS / "generated" / "project" / link).resolve().is_file()] == []


def broken_links(site: Path) -> Iterator[str]:
    """Yield the links between pages of a site that lead to no page, or to no name on it."""
    texts = {path: path.read_text(encoding="utf-8") for path in site.rglob("*.html") if "_static" not in path.parts}
    names = {path: set(re.findall(r'\bid="([^"]+)"', text)) for path, text in texts.items()}
    for path, text in texts.items():
        for link, name in set(re.findall(r'href="([^"#:?]*)(?:#([^"]*))?"', text)):
            target = (path.parent / link).resolve() if link else path
            if not target.exists() or (name and target in names and name not in names[target]):
                yield f"{path.relative_to(site)}: {link}#{name}"


@pytest.mark.slow
def test_site_builds_without_warnings_and_broken_links(tmp_path: Path) -> None:
    pytest.importorskip("myst_parser")
    pytest.importorskip("pydata_sphinx_theme")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", str(DOCS), str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert list(broken_links(tmp_path.resolve())) == []


def test_every_picture_of_the_pages_can_be_drawn() -> None:
    drawings = (DOCS / "site_builder" / "drawings.py").read_text()
    pages = [path for path in DOCS.rglob("*.md") if path.relative_to(DOCS).parts[0] not in ("generated", "_build")]
    used = {name for path in pages for name in re.findall(r"^:::\{picture\} (\w+)$", path.read_text(), flags=re.M)}
    assert used == set(re.findall(r"^def ([a-z]\w*)\(", drawings, flags=re.M))


def test_caption_of_a_picture_is_no_sibling_of_an_image_that_a_theme_hides(
    generate: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = pytest.importorskip("docutils.nodes")
    pytest.importorskip("matplotlib")
    from site_builder import pictures

    monkeypatch.setattr(pictures, "draw", lambda name, theme: Path(f"{name}-{theme}.png"))
    directive = object.__new__(pictures.Picture)
    directive.arguments, directive.options, directive.content, directive.lineno = ["speed"], {"alt": "a"}, ["c"], 1
    directive.state = SimpleNamespace(inline_text=lambda text, line: ([nodes.Text(text)], []))
    (figure,) = directive.run()
    assert len(list(figure.findall(nodes.image))) == 2
    assert not [each for each in figure.children if isinstance(each, nodes.image)]
    assert isinstance(figure.children[-1], nodes.caption)
