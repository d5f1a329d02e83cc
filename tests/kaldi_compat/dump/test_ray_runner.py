"""A dump on a Ray cluster of several nodes, one of which dies during the job."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kaldi_compat.dump.cli import main
from kaldi_compat.dump.errors import DumpError
from kaldi_compat.dump.ray_runner import _get_result
from tests.kaldi_compat.dump.test_kill import slow_data
from tests.support.dump_data import archive_bytes, dump, make_data, said_by
from tests.support.extractors import module_data


@pytest.fixture
def cluster() -> Iterator[Any]:
    cluster_utils = pytest.importorskip("ray.cluster_utils")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    made = cluster_utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    yield made
    made.shutdown()


@pytest.mark.slow
def test_death_of_a_node_loses_nothing(tmp_path: Path, cluster: Any) -> None:
    data = slow_data(tmp_path, 0.15, utterances=32)
    nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
    dead = threading.Event()

    def kill_a_node() -> None:
        while len(list((data / "log").glob("*.json"))) < 3:
            time.sleep(0.02)
        cluster.remove_node(nodes[0], allow_graceful=False)
        dead.set()

    threading.Thread(target=kill_a_node, daemon=True).start()
    started = time.monotonic()
    assert dump(data, "--shard-utterances=2", "--runner=ray", f"--address={cluster.address}") == 0
    assert dead.is_set(), f"the job was over after {time.monotonic() - started:.1f} s, before a node died"
    on_cluster = archive_bytes(data)
    script = (data / "feats.scp").read_bytes()
    assert dump(data, "--shard-utterances=2") == 0
    assert archive_bytes(data) == on_cluster
    assert (data / "feats.scp").read_bytes() == script


# Runs a task when its result is asked for, in this process.
RAY_OF_THIS_PROCESS = SimpleNamespace(
    __spec__=ModuleSpec("ray", None),
    is_initialized=lambda: True,
    remote=lambda **_: lambda task: SimpleNamespace(remote=partial(partial, task)),
    wait=lambda waiting, timeout: (waiting, []),
    get=lambda reference: reference(),
    cancel=lambda reference, force: None,
    exceptions=SimpleNamespace(RayError=RuntimeError),
)


def test_progress_and_failures_of_a_cluster_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", RAY_OF_THIS_PROCESS)  # type: ignore[arg-type]
    data = make_data(tmp_path, 4)
    options = "--shard-utterances=2", "--runner=ray", "--address=local"
    assert "4 of 4 utterances" in said_by(data, *options)
    next((data / "wav").glob("*.wav")).write_bytes(b"RIFF")
    said = said_by(data, *options, "--max-failures=0", status=255)
    assert "1 utterance failed, and --max-failures is 0" in said


def test_extractor_on_a_cluster_gives_the_bytes_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", RAY_OF_THIS_PROCESS)  # type: ignore[arg-type]
    monkeypatch.chdir(tmp_path)
    data = module_data(tmp_path, 6)
    arguments = ["dump", "--module=extract.py:Mean", str(data), "--shard-utterances=2", "--nj=1"]
    assert main([*arguments, "--runner=ray", "--address=local"]) == 0
    on_cluster = archive_bytes(data)
    assert main(arguments) == 0
    assert archive_bytes(data) == on_cluster and len(on_cluster) == 12


def test_complete_job_on_a_cluster_refuses_other_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ray", RAY_OF_THIS_PROCESS)  # type: ignore[arg-type]
    monkeypatch.chdir(tmp_path)
    data = module_data(tmp_path, 2)
    (tmp_path / "scaled.py").write_text(
        "import numpy as np\n\n\nclass Scaled:\n    def __init__(self):\n        self.scale = np.load('w.npy')\n\n"
        "    def __call__(self, audio):\n        return [x[:3] * self.scale for x in audio]\n"
    )
    np.save("w.npy", np.ones(1))
    arguments = ["dump", "--module=scaled.py:Scaled", str(data), "--nj=1", "--runner=ray", "--address=local"]
    assert main(arguments) == 0
    np.save("w.npy", np.full(1, 5.0))
    assert main([*arguments, "--resume"]) == 255
    assert "scale of Scaled differs from the plan" in capsys.readouterr().err


@pytest.mark.parametrize("error", [KeyError("of Ray"), ConnectionResetError("the node has ended")])
def test_result_that_cannot_be_fetched_is_one_line(error: Exception) -> None:
    def get(reference: object) -> str:
        raise error

    error.args = (f"{error.args[0]} {'x' * 400}",)
    ray = SimpleNamespace(get=get, exceptions=SimpleNamespace(RayError=KeyError))
    with pytest.raises(DumpError, match=r"^archive 3 was not written: .{300}: run the job again with --resume$"):
        _get_result(ray, None, "archive 3 was not written")
