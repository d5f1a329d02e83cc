"""Configuration of all tests, and the table of supported properties."""

from __future__ import annotations

import os
import re
import signal
import sysconfig
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from tests.emulator import ptx_emulator
from tests.support import supported

try:
    import torch
except ModuleNotFoundError:
    HAS_TORCH = HAS_GPU = False
else:
    HAS_TORCH, HAS_GPU = True, torch.cuda.is_available()

# How long an example takes says nothing on a loaded machine.
hypothesis.settings.register_profile("project", deadline=None)
hypothesis.settings.load_profile("project")

# A shell starts what it puts into the background with ^C ignored, which the processes that tests start would inherit.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# `nohup` does the same to the signal of a closed terminal.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

STARTED_IN = os.getcwd()
# Tests run the programs of this environment, whether it is activated or not.
os.environ["PATH"] = os.pathsep.join((sysconfig.get_path("scripts"), os.environ["PATH"]))
COSTLY = "The test is costly."  # Reason of the tests that --skip-costly skips.
OUTCOMES = pytest.StashKey[supported.Outcomes]()


@pytest.fixture(autouse=True)
def leaves_no_files() -> Iterator[None]:
    """Fail a test that writes to the folder where pytest was started, in place of a folder of its own."""
    before = set(os.listdir(STARTED_IN))
    yield
    left = [name for name in sorted(set(os.listdir(STARTED_IN)) - before) if not name.startswith(".")]
    assert not left, f"left in {STARTED_IN}: {left}"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--machine",
        choices=ptx_emulator.MACHINES,
        default=ptx_emulator.MACHINES[0],
        help="what runs Triton's kernels without a GPU: its interpreter, or an emulator of code compiled for a card",
    )
    parser.addoption(
        "--write-supported", action="store_true", help="write what the tests of this run verified to docs/supported.md"
    )
    parser.addoption("--skip-costly", action="store_true", help="skip the tests that are marked as costly")
    parser.addoption(
        "--list-skipped", metavar="FILE", help="write the tests that are costly or lack a library to FILE, for @FILE"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "supported(property): verifies a property of a feature; a cell of the table")
    config.stash[OUTCOMES] = {}
    # Without a GPU. Triton's interpreter must be chosen before Triton is imported.
    if (machine := config.getoption("--machine")) != "interpreter":
        ptx_emulator.install(machine, config.cache.mkdir(machine))
    elif not HAS_GPU:
        os.environ.setdefault("TRITON_INTERPRET", "1")


class TorchlessModule(pytest.Module):
    """A test module that is skipped if it cannot be imported without PyTorch."""

    def collect(self) -> Any:
        try:
            return super().collect()
        except self.CollectError as error:
            if "torch" not in str(error):
                raise
            pytest.skip("PyTorch is not installed", allow_module_level=True)


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    return None if HAS_TORCH else TorchlessModule.from_parent(parent, path=module_path)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    reasons = {"gpu": None if HAS_GPU else "This machine has no GPU."}
    reasons["costly"] = COSTLY if config.getoption("--skip-costly") else None
    for item in items:
        for marker, reason in reasons.items():
            if reason and item.get_closest_marker(marker):
                item.add_marker(pytest.mark.skip(reason=reason))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if (machine := config.getoption("--machine")) != "interpreter":
        terminalreporter.write_line(f"{machine}: {ptx_emulator.summary()}")
    if target := config.getoption("--list-skipped"):
        missing = re.compile(f"could not import|not installed|{COSTLY}")
        reports = terminalreporter.stats.get("skipped", [])
        names = {report.nodeid for report in reports if missing.search(str(report.longrepr))}
        Path(target).write_text("".join(f"{name}\n" for name in sorted(names)), "utf-8")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Generator[None, Any, Any]:
    report = yield
    cell = supported.cell_of(item)
    if cell is not None and (report.when == "call" or report.skipped):
        item.config.stash[OUTCOMES][cell] = supported.outcome_of(report)
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.config.getoption("--write-supported"):
        supported.write(session.config.stash[OUTCOMES])
