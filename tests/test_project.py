"""Files for maintainers agree with each other: versions, Pythons, extras, workflows."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import io_ark
import kaldi_compat
from tools.generate.packages import BESIDE, PACKAGES, PRODUCT, ROOT, folder, sources

PYPROJECT = (ROOT / "pyproject.toml").read_text()
NOXFILE = (ROOT / "noxfile.py").read_text()


def found(pattern: str, text: str) -> list[str]:
    return re.findall(pattern, text, flags=re.M)


def test_all_files_have_the_same_version() -> None:
    [version] = found(r'^version = "(.*)"$', PYPROJECT)
    citation = found(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text())
    assert [io_ark.__version__, kaldi_compat.__version__, *citation] == [version] * 3


def test_recipe_for_conda_is_that_of_pyproject() -> None:
    recipe = (ROOT / "packaging" / "conda" / "recipe.yaml").read_text()
    project, scripts = PYPROJECT.split("[project.optional-dependencies]")[0], PYPROJECT.split("[project.scripts]")[1]
    for ours, theirs in (("version", "version"), ("description", "summary"), ("license", "license")):
        [text] = found(rf"^  {theirs}: ([^$]*?)$", recipe)
        assert found(rf'^{ours} = "(.*)"$', project) == [text.strip('"')]
    run = found(r"^    - (.*)$", recipe.split("\n  run:\n")[1].split("\n  run_constraints:")[0])
    [python], [needed] = found(r'^requires-python = "(.*)"$', project), found(r"^dependencies = \[(.*)\]$", project)
    assert [each.replace(" ", "") for each in run] == [f"python{python}", *re.findall(r'"(.*?)"', needed)]
    host = found(r"^    - (.*)$", recipe.split("\n  host:\n")[1].split("\n  run:")[0])
    assert [each.replace(" ", "") for each in host] == ["python", "pip", *found(r'^requires = \["(.*)"\]$', PYPROJECT)]
    assert found(r"^ +- pytorch (.*)$", recipe) == found(r'^torch = \["torch(.*)"\]$', PYPROJECT)
    assert found(r"imports: \[(.*)\]", recipe) == [", ".join(PRODUCT)]
    commands = found(r"^      - (\S+)", recipe.split("\n  - script:")[1].split("\nabout:")[0])
    assert commands and set(commands) <= set(found(r'^([\w-]+) = "', scripts))


def test_workflows_run_sessions_and_pythons_of_the_noxfile() -> None:
    workflow = (ROOT / ".github" / "workflows" / "tests.yml").read_text()
    weekly = (ROOT / ".github" / "workflows" / "weekly.yml").read_text()
    pythons = set(found(r'"(3\.\d+t?)"', NOXFILE.split("PYTHONS = ")[1].split("\n")[0]))
    sessions = set(found(r"^def ([a-z]\w*)\(session", NOXFILE))
    used = found(r"session: ([\w.-]+)}", workflow)
    assert {session.partition("-")[0] for session in used} | set(found(r'--session "?(\w+)', weekly)) == sessions
    folder_of_pins = ROOT / "packages/standins/environments"
    toolkits = ", ".join(path.stem for path in sorted(folder_of_pins.glob("*.txt")))
    assert found(r"toolkit: \[(.*)\]", weekly) == [toolkits] or not folder_of_pins.exists()
    assert {session.partition("-")[2] for session in used if "-" in session} == pythons
    assert not re.search(r"uses: \S+@v\d", workflow + weekly), "pin actions to a commit"


def test_pythons_of_the_classifiers_are_tested() -> None:
    declared = found(r"Python :: (3\.\d+)\"", PYPROJECT)
    [oldest] = found(r'^requires-python = ">=(.*)"$', PYPROJECT)
    assert oldest == declared[0]
    assert all(f'"{python}"' in NOXFILE for python in declared)


def imported(path: Path) -> set[str]:
    nodes = list(ast.walk(ast.parse(path.read_text())))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom) and not node.level]
    return {name.partition(".")[0] for name in names}


def test_types_can_be_checked_with_numpy_and_pytorch_alone() -> None:
    known = {"numpy", "torch", "typing_extensions", *PACKAGES, *sys.stdlib_module_names}
    optional = set().union(*map(imported, sources())) - known
    assert [name for name in sorted(optional) if f'"{name}.*"' not in PYPROJECT] == []


def test_product_imports_no_package_beside_it() -> None:
    names = {path.relative_to(ROOT).as_posix(): imported(path).intersection(BESIDE) for path in sources(PRODUCT)}
    assert len(names) > 300
    assert {path: packages for path, packages in names.items() if packages} == {}


def test_packages_have_one_version_and_ask_for_the_product_of_that_version() -> None:
    projects = [folder(package).with_name("pyproject.toml").read_text() for package in BESIDE]
    for text in projects:
        assert found(r'^version = "(.*)"$', text) == [kaldi_compat.__version__]
        assert f'"kaldi-compat=={kaldi_compat.__version__}"' in text
    for package in BESIDE:
        assert f'"{package.replace("_", "-")}=={kaldi_compat.__version__}"' in PYPROJECT


def test_wheels_are_tested_in_a_folder_without_the_sources() -> None:
    assert "{project}" not in PYPROJECT, "pytest would import the sources of the project, without C, and not the wheel"
    [copied] = found(r"^test-sources = \[(.*)\]$", PYPROJECT)
    assert not re.search(r"io_ark|kaldi_compat", copied)


def test_changelog_has_a_section_for_the_next_release() -> None:
    assert "\n## Unreleased\n" in (ROOT / "CHANGELOG.md").read_text()


def test_nothing_names_a_package_index_as_if_the_project_were_on_it() -> None:
    pages = [*ROOT.glob("*.md"), *(path for path in (ROOT / "docs").rglob("*.md") if "generated" not in path.parts)]
    wrong = re.compile(r"pip install (?:--?\S+ )*['\"]?kaldi[-_]compat")
    assert [
        str(path) for path in [*pages, *sources()] if "_build" not in path.parts and wrong.search(path.read_text())
    ] == []


def test_files_that_the_guides_of_the_project_name_exist() -> None:
    text = "".join((ROOT / name).read_text() for name in ("CONTRIBUTING.md", "packaging/RELEASING.md"))
    named = found(r"(?<![\w/])((?:tests|docs|kaldi_compat|io_ark|reference_data|benchmarks)/[\w/.-]+)", text)
    paths = [name.rstrip(".") for name in named]
    assert [
        path for path in paths if not (ROOT / path).exists() and not path.endswith(("_", "/frontends/", "_build/html"))
    ] == []
    for name, pattern in re.findall(r"pytest (\S+\.py) -k (\w+)", text):
        assert re.search(rf"def test\w*{pattern}", (ROOT / name).read_text())


def test_packages_that_make_installs_are_pinned() -> None:
    wanted = found(
        r'"([\w-]+)(?:\[[^]]*\])?>=',
        PYPROJECT.partition("\ndocs = [")[2].partition("\n[")[0],
    )
    pinned = found(r"^([\w-]+)==", (ROOT / "constraints.txt").read_text())
    assert len(wanted) > 30 and set(wanted) <= set(pinned)


def test_classes_of_a_package_have_names_of_their_own() -> None:
    places: dict[tuple[str, str], list[str]] = {}
    for path in sources():
        place = path.relative_to(ROOT).as_posix()
        # The classes for arrays have the names of the classes for tensors, each program calls its options Options, and
        # several of the libraries that the stand-ins replace have classes of one name.
        if place.startswith(("kaldi_compat/programs/", "packages/standins/")) or place.endswith(
            ("/numpy.py", "/online_cmvn.py")
        ):
            continue
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                places.setdefault((place.partition("/")[0], node.name), []).append(place)
    assert {name: found for (_, name), found in places.items() if len(found) > 1} == {}


def test_costly_tests_are_skipped_on_demand_and_listed_for_later(tmp_path: Path) -> None:
    module = "tests/kaldi_compat/cli/test_info.py"
    options = ["--skip-costly", f"--list-skipped={tmp_path / 'skipped'}", "-k", "shell", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", module, *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and "1 skipped" in done.stdout, done.stdout
    listed = (tmp_path / "skipped").read_text("utf-8").split()
    assert listed == [f"{module}::test_programs_that_a_shell_would_run_are_named"]
