"""Messages about missing packages name extras that exist."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from io_ark.extras import EXTRA_OF, MissingExtraError, format_missing_package, import_extra

ROOT = Path(__file__).resolve().parents[2]


def declared_extras() -> dict[str, str]:
    text = (ROOT / "pyproject.toml").read_text()
    section = text.partition("[project.optional-dependencies]\n")[2].partition("\n[")[0]
    return dict(re.findall(r"^(\w+) = \[(.*?)\]$", section, flags=re.M | re.S))


@pytest.mark.parametrize("package", sorted(EXTRA_OF))
def test_package_is_in_the_extra_that_the_message_names(package: str) -> None:
    assert f'"{package}' in declared_extras()[EXTRA_OF[package]]
    assert f"'.[{EXTRA_OF[package]}]'" in format_missing_package(package)


def test_missing_package_gives_one_line_that_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(MissingExtraError, match=r"HDF5 files need h5py, .*pip install h5py .*'\.\[convert\]'") as info:
        import_extra("h5py", "HDF5 files")
    assert info.value.name == "h5py"


def test_package_for_another_numpy_gives_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "newer_extra.py").write_text("raise ImportError('newer_extra needs NumPy 9, found 1.26.4\\nmore')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(MissingExtraError) as info:
        import_extra("newer_extra", "HDF5 files")
    reason = "newer_extra cannot be imported: newer_extra needs NumPy 9, found 1.26.4"
    assert str(info.value) == f"HDF5 files: {reason}; install a version that works here"


def test_error_inside_an_installed_package_is_not_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_extra.py").write_text("import no_such_module_at_all\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="no_such_module_at_all") as info:
        import_extra("broken_extra")
    assert not isinstance(info.value, MissingExtraError)
