"""What decides an extractor's numbers is in the plan: files beside the model, helper modules, anything in reach."""

from __future__ import annotations

import io
import json
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zipfile import ZipFile, ZipInfo

import numpy as np
import pytest
import torch

import kaldi_compat
from kaldi_compat.dump import cli as command
from kaldi_compat.dump import sources
from kaldi_compat.dump.errors import DumpError
from kaldi_compat.dump.model import DeviceExtractor
from kaldi_compat.dump.options import SCOPES, SOURCES, DumpOptions, Job, Layout
from kaldi_compat.dump.sources import (
    ExtractorSource,
    convert_to_array,
    get_source_class,
    make_source,
    split_by_utterance,
)
from kaldi_compat.errors import OptionError
from tests.support.dump_data import audio, keys_of, results, write_wav
from tests.support.extractors import arrays, module_data, waves


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    before = set(sys.modules)
    yield module_data(tmp_path, 4)
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def said(*arguments: str, status: int = 0) -> str:
    with redirect_stderr(io.StringIO()) as stderr:
        assert command.main(["dump", *arguments, "--nj=1"]) == status, stderr.getvalue()
    return stderr.getvalue()


def refused(*arguments: str, status: int = 255) -> str:
    line = said(*arguments, status=status)
    assert line.startswith("kaldi-compat: ") and len(line.splitlines()) == 1 and "internal" not in line, line
    return line


def test_every_source_is_a_class_in_the_file_of_its_option() -> None:
    fields = DumpOptions.__dataclass_fields__
    for name in SOURCES:
        assert (
            name in fields and get_source_class(name).option == name and not get_source_class(name).__abstractmethods__
        )


def test_source_without_files_or_digests_cannot_be_made() -> None:
    class Half(ExtractorSource):
        def open(self, device: str, threads: int) -> Any:
            raise NotImplementedError

    assert Half.__abstractmethods__ == {"list_files", "compute_digests"}
    with pytest.raises(TypeError, match="abstract"):
        Half(Job(Layout.from_paths(".", "x")))  # type: ignore[abstract]


def save_external(path: Path, scale: float, place: str = "graph") -> list[str]:
    """Save an ONNX model whose weights are in another file; return the names of the files outside."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    make, kind = onnx.helper, onnx.TensorProto.FLOAT
    weights = onnx.numpy_helper.from_array(np.full((1, 1), scale, np.float32), "w")
    node = make.make_node("ReduceMean", ["x"], ["mean"], axes=[1], keepdims=1)
    opset = [make.make_opsetid("", 13)]
    if place == "graph":
        nodes, initializers, functions = [node, make.make_node("Mul", ["mean", "w"], ["y"])], [weights], []
    elif place == "branch":
        inner = make.make_graph([make.make_node("Mul", ["mean", "w"], ["z"])], "b", [],
                                [make.make_tensor_value_info("z", kind, None)], [weights])  # fmt: skip
        condition = make.make_node(
            "Constant", [], ["c"], value=make.make_tensor("c", onnx.TensorProto.BOOL, [], [True])
        )
        nodes = [node, condition, make.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)]
        initializers, functions = [], []
    else:
        nodes = [
            node,
            make.make_node("Constant", [], ["w"], value=weights),
            make.make_node("Mul", ["mean", "w"], ["y"]),
        ]
        initializers, functions = [], []
    graph = make.make_graph(nodes, "g", [make.make_tensor_value_info("x", kind, ["B", "T"])],
                            [make.make_tensor_value_info("y", kind, ["B", 1])], initializers)  # fmt: skip
    model = make.make_model(graph, opset_imports=opset, ir_version=8, functions=functions)
    name = f"{path.name}.data" if place == "graph" else "weights.bin"
    for tensor in onnx.external_data_helper._get_all_tensors(model):
        if tensor.name == "w" and tensor.HasField("raw_data"):
            onnx.external_data_helper.set_external_data(tensor, name)
    onnx.save(model, path)
    return [name]


@pytest.mark.parametrize("place", ["graph", "branch", "constant"])
def test_resume_refuses_other_weights_beside_an_onnx_graph(data: Path, tmp_path: Path, place: str) -> None:
    (name,) = save_external(tmp_path / "e.onnx", 1.0, place)
    graph = (tmp_path / "e.onnx").read_bytes()
    job = Job(Layout.from_paths(data, "e"), DumpOptions(onnx="e.onnx"))
    source = make_source(job)
    assert source and source.list_files() == {"--onnx": Path("e.onnx"), f"--onnx/{name}": Path(name)}
    if place == "constant":
        return  # onnxruntime reads no external tensor from an attribute
    said("--onnx=e.onnx", str(data), "--shard-utterances=2")
    before = results(data)
    assert "nothing was left" in said("--onnx=e.onnx", str(data), "--resume")
    (tmp_path / name).write_bytes(np.full(1, 3, np.float32).tobytes())
    assert (tmp_path / "e.onnx").read_bytes() == graph
    (data / "log" / "dump_e_train.1.json").unlink()
    for more in (["--resume"], ["--shard=1/2"]):
        assert f"--onnx/{name} changed since the plan" in refused("--onnx=e.onnx", str(data), *more)
    assert results(data) == before
    (tmp_path / name).unlink()
    assert f"{name} is missing" in refused("--onnx=e.onnx", str(data))


def test_weights_that_change_during_the_job_end_it(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (name,) = save_external(tmp_path / "e.onnx", 1.0)
    runner = command._choose_runner

    def disturbed(job: Any) -> Any:
        def run(*arguments: Any) -> None:
            runner(job)(*arguments)
            (tmp_path / name).write_bytes(np.full(1, 3, np.float32).tobytes())

        return run

    monkeypatch.setattr(command, "_choose_runner", disturbed)
    assert f"{name} changed while it was being used" in said("--onnx=e.onnx", str(data), status=255)
    assert not (data / "feats.scp").exists()


@pytest.mark.parametrize(
    "content", [b"\x3a", b"\x3a\xff\xff\xff\xff\x0f", b"\xff" * 40, b"\x0b" * 9, b"\x3a\x02\x2a" * 50]
)
def test_damaged_graph_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.onnx"
    path.write_bytes(content)
    source = make_source(Job(Layout.from_paths(tmp_path, "x"), DumpOptions(onnx=str(path))))
    assert source
    with pytest.raises(DumpError, match=r"bad\.onnx .* it is not a valid ONNX model .*: export or copy the model"):
        source.list_files()


@pytest.mark.parametrize("name", ["mine.json", ".json", "./mine", "presets/mine.preset"])
def test_preset_of_the_user_is_compared_whatever_its_name(data: Path, tmp_path: Path, name: str) -> None:
    """Every name that the reader of presets takes for a file is one."""
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    description = {"name": "mine", "feature": "fbank", "options": {"num_mel_bins": 20}}
    path.write_text(json.dumps(description))
    arguments = (f"--preset={name}", str(data), "--shard-utterances=2")
    said(*arguments)
    assert "nothing was left" in said(*arguments, "--resume")
    path.write_text(json.dumps(description | {"options": {"num_mel_bins": 20, "low_freq": 60.0}}))
    assert "--preset changed since the plan" in refused(*arguments, "--resume")  # All archives are complete.
    next((data / "log").glob("*.2.json")).unlink()
    assert "--preset changed since the plan" in refused(*arguments, "--resume")


def test_warnings_of_a_source_are_printed_whatever_filters_the_caller_has(data: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert "normalizes by statistics" in said("--preset=wenet", str(data))


def test_onnx_output_without_a_batch_is_one_line(data: Path, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    make, kind = onnx.helper, onnx.TensorProto.FLOAT
    for axes, keep, shape in (([0, 1], 0, "()"), ([0], 0, "(4960,)")):
        node = make.make_node("ReduceMean", ["x"], ["y"], axes=axes, keepdims=keep)
        graph = make.make_graph([node], "g", [make.make_tensor_value_info("x", kind, ["B", "T"])],
                                [make.make_tensor_value_info("y", kind, None)])  # fmt: skip
        onnx.save(make.make_model(graph, opset_imports=[make.make_opsetid("", 13)], ir_version=8), tmp_path / "s.onnx")
        assert "the output y has the shape (" in refused("--onnx=s.onnx", str(data)), shape


OBJECT = """
import torch, numpy as np
import helper


class Model:
    def __init__(self):
        torch.manual_seed(0)
        self.parts = {"a": [torch.nn.Sequential(torch.nn.Linear(1, 2), torch.nn.Dropout(0.5))]}
        self.inner = helper.Inner()

    def __call__(self, audio):
        found = [torch.tensor([[float(abs(samples).mean())]]) for samples in audio]
        return [self.parts["a"][0](each)[0] * float(self.inner.table["w"][0]) * helper.SCALE for each in found]
"""
HELPER = """
import numpy as np

SCALE = 2


class Inner:
    def __init__(self):
        self.table = {"w": np.load("w.npy")}
"""


def test_resume_refuses_what_a_module_reaches(data: Path, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(OBJECT)
    (tmp_path / "helper.py").write_text(HELPER)
    np.save("w.npy", np.ones(1))
    arguments = ("--module=model:Model", str(data), "--shard-utterances=2")

    def forget() -> None:
        for name in ("model", "helper"):
            sys.modules.pop(name, None)

    said(*arguments)
    torch.manual_seed(0)
    linear = torch.nn.Linear(1, 2)
    for key, (samples, _) in waves(data).items():
        expected = 2 * linear(torch.tensor([[float(abs(samples).mean())]]))[0].detach().numpy()
        np.testing.assert_allclose(arrays(data / "xvector.scp")[key], expected, rtol=1e-5)  # without dropout
    before = results(data)
    forget()
    assert "nothing was left" in said(*arguments, "--resume")
    np.save("w.npy", np.full(1, 5.0))
    forget()
    assert "inner of Model differs from the plan" in said(*arguments, "--resume", status=255)  # All is complete.
    (data / "log" / "dump_Model_train.1.json").unlink()
    forget()
    assert "inner of Model differs from the plan" in said(*arguments, "--resume", status=255)
    np.save("w.npy", np.ones(1))
    (tmp_path / "helper.py").write_text(HELPER.replace("SCALE = 2", "SCALE = 3"))
    forget()
    assert "--module helper changed since the plan" in refused(*arguments, "--resume")
    (tmp_path / "helper.py").write_text(HELPER)
    forget()
    said(*arguments, "--resume")
    assert results(data) == before


def test_weights_that_differ_between_processes_are_named_as_such(data: Path, tmp_path: Path) -> None:
    (tmp_path / "unseeded.py").write_text(
        "import os\n\n\nclass Unseeded:\n    def __init__(self):\n        self.n = os.urandom(4)\n\n"
        "    def __call__(self, audio):\n        return [x[:3] for x in audio]\n"
    )
    arguments = ["dump", "--module=unseeded:Unseeded", str(data), "--shard-utterances=2", "--nj=2"]
    for more, status in ([], 255), (["--trust-extractor"], 0):
        with redirect_stderr(io.StringIO()) as stderr:
            assert command.main([*arguments, *more]) == status
        assert ("n of Unseeded differs from process to process: load" in stderr.getvalue()) == bool(status)
        assert "--resume" not in stderr.getvalue().splitlines()[-1]


PACKAGE = {
    "outer/__init__.py": "from outer import patch\n",
    "outer/patch.py": "FACTOR = [2]\n",
    "outer/inner/model.py": "def f(audio):\n    return [x[:3] for x in audio]\n",  # Without a file inner/__init__.py.
}


@pytest.fixture
def package(data: Path, tmp_path: Path) -> list[str]:
    """Write a module in a package, which imports another module of the package, and return arguments of a dump."""
    (tmp_path / "outer" / "inner").mkdir(parents=True)
    for name, text in PACKAGE.items():
        (tmp_path / name).write_text(text)
    return ["--module=outer.inner.model:f", str(data), "--shard-utterances=2"]


@pytest.mark.parametrize("name", PACKAGE)
def test_packages_around_a_module_are_compared(package: list[str], data: Path, tmp_path: Path, name: str) -> None:
    """A package can change what its modules compute although the object does not refer to it."""
    said(*package)
    forget_modules("outer")
    assert "nothing was left" in said(*package, "--resume")
    (tmp_path / name).write_text(PACKAGE[name] + "\nimport numpy\n")
    for manifest in (data / "log" / "dump_f_train.9.json", data / "log" / "dump_f_train.2.json"):
        manifest.unlink(missing_ok=True)  # At first, all archives are complete.
        forget_modules("outer")
        assert re.search(r"^kaldi-compat: --module\S* ?\S* changed since the plan", refused(*package, "--resume"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import sys\nsys.exit(3)\n", "SystemExit: 3"),
        ("raise RuntimeError('no licence')\n", "RuntimeError: no licence"),
        ("1 +\n", "SyntaxError: "),
    ],
)
def test_package_that_cannot_be_imported_is_reported_like_a_module(
    package: list[str], tmp_path: Path, text: str, reason: str
) -> None:
    (tmp_path / "outer" / "__init__.py").write_text(text)
    assert f"--module=outer.inner.model:f cannot be created: {reason}" in refused(*package)


def test_listing_the_files_of_a_module_imports_nothing(package: list[str], tmp_path: Path) -> None:
    def list_files(module: str) -> dict[str, Path]:
        source = make_source(Job(Layout.from_paths(tmp_path, "x"), DumpOptions(module=module)))
        assert source
        return source.list_files()

    files = {"--module": "outer/inner/model.py", "--module outer": "outer/__init__.py"}
    assert list_files("outer.inner.model:f") == {name: tmp_path / path for name, path in files.items()}
    for missing in ("outer.none:f", "outer.patch.deeper:f", "none.outer:f", "..outer:f", ":f", "os.path:join"):
        assert "--module" not in list_files(missing), missing
    assert "outer" not in sys.modules


def test_module_of_an_editable_installation_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The installation of a package as editable adds a finder."""
    path = tmp_path / "elsewhere.py"

    def find_spec(name: str, folders: object, target: object = None) -> ModuleSpec | None:
        return spec_from_file_location(name, path) if name == "editable" else None

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, SimpleNamespace(find_spec=find_spec)])
    source = make_source(Job(Layout.from_paths(tmp_path, "x"), DumpOptions(module="editable:f")))
    assert source and source.list_files() == {"--module": path}


def test_module_in_a_zip_file_is_compared(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path / "models.zip"))
    arguments = ("--module=zipped.model:f", str(data))
    for comment, answer in ("", ""), ("", "nothing was left"), ("# Changed.\n", "--module, --module zipped changed"):
        with ZipFile("models.zip", "w") as file:
            file.writestr(ZipInfo("zipped/__init__.py"), "")
            file.writestr(ZipInfo("zipped/model.py"), "def f(audio):\n    return [x[:3] for x in audio]\n" + comment)
        forget_modules("zipped")
        assert answer in said(*arguments, *["--resume"] * bool(answer), status=255 * bool(comment))


def forget_modules(package: str) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        del sys.modules[name]


def test_module_that_a_call_imports_by_a_computed_name_is_compared(data: Path, tmp_path: Path) -> None:
    (tmp_path / "dynamic.py").write_text(
        "import importlib\n\n\ndef f(audio):\n"
        "    scale = importlib.import_module('_'.join(['dynamic', 'helper'])).SCALE\n"
        "    return [x[:3] * scale for x in audio]\n"
    )
    (tmp_path / "dynamic_helper.py").write_text("SCALE = 2\n")
    said("--module=dynamic:f", str(data))
    assert trial_of(data)["files"] == {"--module dynamic_helper": str(tmp_path / "dynamic_helper.py")}
    (tmp_path / "dynamic_helper.py").write_text("SCALE = 3\n")
    assert "--module dynamic_helper changed since the plan" in refused("--module=dynamic:f", str(data), "--resume")


def test_working_directory_is_searched_first(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "library").mkdir()
    for place, factor in ((tmp_path, 2), (tmp_path / "library", 3)):
        (place / "loud_here.py").write_text(f"def f(audio):\n    return [x[:3] * {factor} for x in audio]\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "library"), *filter(None, sys.path)])
    said("--module=loud_here:f", str(data))
    for key, (samples, _) in waves(data).items():
        np.testing.assert_array_equal(arrays(data / "xvector.scp")[key], 2 * samples[:3])


class Holder:
    """Returns the loudness, times the first value of something in its reach."""

    def __init__(self, held: Any, value: Callable[[Any], float]) -> None:
        self.held, self.value = held, value

    def __call__(self, samples: Sequence[np.ndarray]) -> list[np.ndarray]:
        return [np.abs(each).mean(keepdims=True) * np.float32(self.value(self.held)) for each in samples]


class Outside(Holder):
    """Holds an iterator, whose state cannot be compared."""

    def __init__(self) -> None:
        super().__init__(iter([1]), lambda _: 1.0)


def test_what_cannot_be_compared_is_said_and_refused(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kaldi_compat.dump(data, Outside(), nj=1, shard_utterances=2)
    assert "held (list_iterator) of Outside cannot be compared, so resume=True is refused" in capsys.readouterr().err
    with pytest.raises(
        DumpError, match=r"^held \(list_iterator\) of Outside cannot be compared .* trust_extractor=True"
    ):
        kaldi_compat.dump(data, Outside(), nj=1, resume=True)
    assert kaldi_compat.dump(data, Outside(), nj=1, resume=True, trust_extractor=True).utterances == 4


@pytest.mark.parametrize("is_complete", [True, False])
def test_trusted_extractor_may_differ_in_values_but_not_in_files(
    data: Path, tmp_path: Path, *, is_complete: bool
) -> None:
    """A complete dump is treated like an incomplete one."""
    text = (
        "import numpy as np\n\n\nclass M:\n"
        "    def __init__(self):\n        self.held, self.w = iter([1]), np.load('w.npy')\n\n"
        "    def __call__(self, audio):\n        return [x[:3] * self.w for x in audio]\n"
    )
    (tmp_path / "trusted.py").write_text(text)
    np.save("w.npy", np.float32(2))
    arguments = ("--module=trusted.py:M", str(data), "--shard-utterances=2")
    said(*arguments)
    before = results(data)
    np.save("w.npy", np.float32(3))
    if not is_complete:
        (data / "log" / "dump_M_train.2.json").unlink()
    assert "held (list_iterator) of M cannot be compared" in refused(*arguments, "--resume")
    said(*arguments, "--resume", "--trust-extractor")
    assert (results(data) == before) is is_complete
    (tmp_path / "trusted.py").write_text(text + "\n# A comment.\n")
    if not is_complete:
        (data / "log" / "dump_M_train.2.json").unlink()
    assert "--module changed since the plan" in refused(*arguments, "--resume", "--trust-extractor")


def test_version_of_an_object_vouches_for_it(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = Outside()
    made.version = "1"  # type: ignore[attr-defined]
    kaldi_compat.dump(data, made, nj=1, shard_utterances=2)
    assert "cannot be compared" not in capsys.readouterr().err
    assert kaldi_compat.dump(data, made, nj=1, resume=True).utterances == 4
    (data / "log" / "dump_Outside_train.1.json").unlink()
    made.version = "2"  # type: ignore[attr-defined]
    with pytest.raises(DumpError, match=r"^version of Outside differs from the plan"):
        kaldi_compat.dump(data, made, nj=1, resume=True)


class Summing:
    """Multiplies by the sum of its attributes."""

    def __init__(self, **attributes: float) -> None:
        vars(self).update(attributes)

    def __call__(self, samples: Sequence[np.ndarray]) -> list[np.ndarray]:
        return [each[:3] * np.float32(sum(vars(self).values())) for each in samples]


@pytest.mark.parametrize(("before", "now"), [({"a": 1.0}, {"a": 1.0, "b": 2.0}), ({"a": 1.0, "b": 2.0}, {"a": 1.0})])
def test_attribute_that_appears_or_is_gone_is_another_extractor(
    data: Path, before: dict[str, float], now: dict[str, float]
) -> None:
    kaldi_compat.dump(data, Summing(**before), nj=1, shard_utterances=2)
    (data / "log" / "dump_Summing_train.1.json").unlink()
    with pytest.raises(DumpError, match=r"^b of Summing differs from the plan"):
        kaldi_compat.dump(data, Summing(**now), nj=1, resume=True)
    assert kaldi_compat.dump(data, Summing(**before), nj=1, resume=True).utterances == 4


class Late:
    """Makes its weights in its first call, and counts its calls."""

    def __init__(self) -> None:
        self.weights: Any = None
        self.calls = 0

    def __call__(self, samples: Sequence[np.ndarray]) -> list[np.ndarray]:
        self.calls += 1
        self.weights = np.ones(1, np.float32)
        return [np.abs(each).mean() * self.weights for each in samples]


class Counting(Late):
    """Counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = np.ones(1, np.float32)


class Random(Late):
    """Makes weights that differ from process to process in its first call."""

    def __call__(self, samples: Sequence[np.ndarray]) -> list[np.ndarray]:
        self.weights = np.random.default_rng().random(1, np.float32) if self.weights is None else self.weights
        return [np.abs(each).mean() * self.weights for each in samples]


class Caching:
    """Keeps tables by length."""

    def __init__(self) -> None:
        self.tables: dict[int, Any] = {}

    def __call__(self, samples: Sequence[np.ndarray]) -> list[np.ndarray]:
        for each in samples:
            self.tables.setdefault(len(each), np.ones(len(each), np.float32))
        return [(np.abs(each) @ self.tables[len(each)])[None] for each in samples]


@pytest.mark.parametrize("kind", [Late, Counting, Caching])
def test_tables_of_the_first_call_and_caches_are_no_false_alarm(
    data: Path, capsys: pytest.CaptureFixture[str], kind: type
) -> None:
    made = kind()
    kaldi_compat.dump(data, made, nj=1, shard_utterances=2)
    assert "cannot be compared" not in capsys.readouterr().err
    before = results(data)
    for again in (made, kind()):
        (data / "log" / f"dump_{kind.__name__}_train.1.json").unlink()
        assert kaldi_compat.dump(data, again, nj=1, resume=True).utterances == 4 and results(data) == before


def test_resume_refuses_other_weights_of_the_first_call(data: Path) -> None:
    kaldi_compat.dump(data, Random(), nj=1, shard_utterances=2)
    (data / "log" / "dump_Random_train.1.json").unlink()
    with pytest.raises(DumpError, match=r"^weights of Random differs from the plan"):
        kaldi_compat.dump(data, Random(), nj=1, resume=True)


READING = {
    "array": ("np.load('w.npy')[0]", "--module {root}/w.npy changed since the plan"),
    "memory map": ("np.load('w.npy', mmap_mode='r')[0]", "--module {root}/w.npy changed since the plan"),
    "file": ("float(open('w.npy', 'rb').read()[-1])", "--module {root}/w.npy changed since the plan"),
    "descriptor": ("float(os.pread(os.open('w.npy', os.O_RDONLY), 1, 135)[0])", "--module {root}/w.npy changed since"),
    "environment": ("float(os.environ['GAIN'])", "environment variable GAIN of Reader differs from the plan"),
    "getenv": ("float(os.getenv('GAIN', '1'))", "environment variable GAIN of Reader differs from the plan"),
}
READER = """
import numpy as np, os


class Reader:
    def __call__(self, audio):
        gain = np.float32({})
        return [gain * np.abs(samples).mean(keepdims=True) for samples in audio]
"""


@pytest.mark.parametrize("kind", READING)
def test_resume_refuses_other_data_that_calls_read(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    code, message = READING[kind]
    (tmp_path / "reader.py").write_text(READER.format(code))
    np.save("w.npy", np.ones(1))
    monkeypatch.setenv("GAIN", "1")
    arguments = ("--module=reader.py:Reader", str(data), "--shard-utterances=2")
    assert "cannot be compared" not in said(*arguments)
    (data / "log" / "dump_Reader_train.1.json").unlink()
    said(*arguments, "--resume")
    (data / "log" / "dump_Reader_train.1.json").unlink()
    np.save("w.npy", np.full(1, 3.0))
    monkeypatch.setenv("GAIN", "3")
    assert message.format(root=tmp_path) in said(*arguments, "--resume", status=255)


def test_files_that_calls_write_and_library_files_are_not_compared(data: Path, tmp_path: Path) -> None:
    (tmp_path / "reader.py").write_text(
        READER.format("(open('log.txt', 'a').write('x'), len(open('log.txt').read()) > 0)[1]")
    )
    arguments = ("--module=reader.py:Reader", str(data), "--shard-utterances=2")
    said(*arguments)
    (data / "log" / "dump_Reader_train.1.json").unlink()
    said(*arguments, "--resume")


def test_resume_refuses_a_new_file_that_calls_looked_for(data: Path, tmp_path: Path) -> None:
    (tmp_path / "reader.py").write_text(
        """
import contextlib, numpy as np


class Reader:
    def __call__(self, audio):
        gain = np.float32(1)
        with contextlib.suppress(FileNotFoundError):
            gain = np.load("gain.npy")
        return [gain * np.abs(samples).mean(keepdims=True) for samples in audio]
"""
    )
    arguments = ("--module=reader.py:Reader", str(data), "--shard-utterances=2")
    said(*arguments)
    (data / "log" / "dump_Reader_train.1.json").unlink()
    said(*arguments, "--resume")
    np.save("gain.npy", np.float32(3))
    assert f"--module {tmp_path}/gain.npy changed since the plan" in said(*arguments, "--resume", status=255)


EXTERNAL = {
    "subprocess.run(['true']).returncode + 1": "a program that its calls run",
    "os.system('true') + 1": "a program that its calls run",
    "len(sqlite3.connect('d.db').execute('select 1').fetchall())": "a database that its calls open",
    "np.memmap('m', np.float32, 'r+')[0]": "a file that its calls open for reading and writing",
    "socket.socket().connect_ex(('127.0.0.1', 9)) * 0 + 1": "a network connection of its calls",
}


@pytest.mark.parametrize("code", EXTERNAL)
def test_data_from_outside_that_calls_use_cannot_be_compared(data: Path, tmp_path: Path, code: str) -> None:
    np.ones(1, np.float32).tofile("m")
    (tmp_path / "reader.py").write_text("import subprocess, socket, sqlite3\n" + READER.format(code))
    arguments = ("--module=reader.py:Reader", str(data), "--shard-utterances=2")
    assert f"({EXTERNAL[code]}) of Reader cannot be compared" in said(*arguments)
    assert "cannot be compared with the extractor of the plan" in refused(*arguments, "--resume")


LAZY = """
import torch, numpy as np


class Model:
    net = None

    def __call__(self, audio):
        if self.net is None or {late}:
            self.net = torch.nn.Sequential(torch.nn.Identity(), torch.nn.Dropout(0.5))
        return [self.net(torch.full((9,), float(abs(samples).mean()))) for samples in audio]
"""


def test_module_that_the_first_call_creates_is_set_to_evaluation_mode(data: Path, tmp_path: Path) -> None:
    (tmp_path / "lazy.py").write_text(LAZY.format(late="False"))
    assert "one by one" not in said("--module=lazy.py:Model", str(data))
    for key, (samples, _) in waves(data).items():
        expected = np.full(9, np.abs(samples).mean())
        np.testing.assert_allclose(arrays(data / "xvector.scp")[key], expected, rtol=1e-5)


def test_module_that_a_later_call_creates_in_training_mode_is_refused(data: Path, tmp_path: Path) -> None:
    (tmp_path / "lazy.py").write_text(LAZY.format(late="len(audio) > 1"))
    assert "creates the module Sequential in training mode in a call after the first" in said(
        "--module=lazy.py:Model", str(data), status=255
    )


def test_index_of_divided_weights_names_files(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("config.json", "sub/a.safetensors", "b.safetensors", "notes.txt"):
        (tmp_path / name).touch()
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"x": "sub/a.safetensors", "y": "b.safetensors"}}))
    source = make_source(Job(Layout.from_paths(tmp_path, "x"), DumpOptions(transformers=str(tmp_path))))
    names = {"config.json", "sub/a.safetensors", "b.safetensors", index.name}
    assert source and source.list_files() == {f"--transformers/{name}": tmp_path / name for name in names}
    index.write_text("[" * 10_000)
    assert source.list_files().keys() == {f"--transformers/{name}" for name in names - {"sub/a.safetensors"}}


def test_weights_of_every_kind_are_compared(tmp_path: Path) -> None:
    names = ["config.json", "model.safetensors", "pytorch_model-00001-of-00002.bin", "pytorch_model.bin"]
    for name in (*names, "README.md", "model.bin.lock", "training_args.pt"):
        (tmp_path / name).touch()
    source = make_source(Job(Layout.from_paths(tmp_path, "x"), DumpOptions(transformers=str(tmp_path))))
    assert source and list(source.list_files()) == [f"--transformers/{name}" for name in names]


CENTROIDS: dict[str, tuple[Callable[[Path], object], str]] = {
    "NaN": (lambda path: np.save(path, np.full((3, 4), np.nan)), "has NaN or infinities"),
    "infinity": (lambda path: np.save(path, np.full((3, 4), np.inf)), "has NaN or infinities"),
    "another dimension": (
        lambda path: np.save(path, np.ones((3, 5))),
        "4 columns, but the centroids of --kmeans have 5",
    ),
    "one axis": (lambda path: np.save(path, np.ones(3)), "of shape (clusters, dim), not float64 of shape (3,)"),
    "integers": (lambda path: np.save(path, np.ones((3, 4), int)), "of shape (clusters, dim), not int64"),
    "nothing": (lambda path: np.save(path, np.ones((0, 4))), "of shape (clusters, dim)"),
    "objects": (
        lambda path: np.save(path, np.array([[{}]]), allow_pickle=True),
        "it has Python objects instead of numbers",
    ),
    "text": (lambda path: path.write_text("0 0 0 0\n"), "cannot be read as a .npy array"),
    "zip file": (lambda path: path.write_bytes(b"PK\3\4" + bytes(30)), "cannot be read as a .npy array"),
    "emptiness": (lambda path: path.write_bytes(b""), "cannot be read as a .npy array"),
    "petabytes": (lambda path: path.write_bytes(_header("(1000000000000, 1000)")), "bytes after the header"),
    "no Python": (lambda path: path.write_bytes(_header("(3, 4")), "cannot be read as a .npy array"),
    "cut off": (lambda path: path.write_bytes(_header("(3, 4)") + bytes(8)), "bytes after the header"),
}


def _header(shape: str) -> bytes:
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


@pytest.mark.parametrize("kind", CENTROIDS)
def test_bad_centroids_are_one_line(data: Path, tmp_path: Path, kind: str) -> None:
    write, message = CENTROIDS[kind]
    write(tmp_path / "c.npy")
    assert message in refused("--module=extract.py:Mean", "--kmeans=c.npy", str(data))
    assert not (data / "log").exists()


@pytest.mark.parametrize("option", ["--kmeans=c.npy", "--pool=mean"])
def test_reducing_vectors_is_refused(data: Path, tmp_path: Path, option: str) -> None:
    np.save("c.npy", np.ones((2, 1), np.float32))
    (tmp_path / "loud.py").write_text("def f(audio):\n    return [abs(x).mean(keepdims=True) for x in audio]\n")
    assert "needs matrices of floats, but f returns xvector of type vector: leave out" in refused(
        "--module=loud.py:f", option, str(data)
    )


def test_layer_that_is_named_twice_is_refused(data: Path) -> None:
    with pytest.raises(OptionError, match="names a layer twice"):
        DumpOptions(transformers="x", layers="1,01")
    assert "names a layer twice" in refused("--transformers=x", "--layers=1,1", str(data), status=2)
    assert "layers must be numbers" in refused("--transformers=x", f"--layers={'9' * 5000}", str(data), status=2)


def test_centroids_label_one_layer_only(data: Path) -> None:
    several = refused("--transformers=x", "--layers=1,2", "--kmeans=c.npy", str(data), status=2)
    assert "--kmeans=... has the centroids of one layer, but --layers=1,2 names several: name one layer" in several


def test_code_of_a_folder_neither_runs_nor_asks(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers", minversion="5")
    folder = tmp_path / "remote"
    folder.mkdir()
    code = f"open({str(tmp_path / 'ran')!r}, 'w')\nclass A: pass\n"
    (folder / "code.py").write_text(code)
    auto = {"auto_map": {"AutoConfig": "code.A", "AutoModel": "code.A", "AutoFeatureExtractor": "code.A"}}
    (folder / "config.json").write_text(json.dumps({"model_type": "unknown", **auto}))
    (folder / "preprocessor_config.json").write_text(json.dumps({"feature_extractor_type": "Unknown", **auto}))
    (folder / "model.safetensors").touch()
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("asks"))
    assert "transformers cannot open" in refused(f"--transformers={folder}", str(data))
    assert not (tmp_path / "ran").exists()


def test_attention_is_our_choice_and_not_the_folders(tmp_path: Path) -> None:
    pytest.importorskip("transformers", minversion="5")
    from kaldi_compat.torch.extractors import open_pretrained
    from tests.support.tiny_models import save_tiny

    folder = save_tiny("hubert", tmp_path / "m")
    config = json.loads((folder / "config.json").read_text())
    kernel = {"_attn_implementation": "somebody/kernel", "attn_implementation": "flash_attention_2"}
    (folder / "config.json").write_text(json.dumps(config | kernel))
    made = open_pretrained(DumpOptions(transformers=str(folder)), "cpu")
    assert made.model.config._attn_implementation == "sdpa"
    (folder / "adapter_config.json").write_text("{}")
    with pytest.raises(OptionError, match="is an adapter for the weights of a base model"):
        open_pretrained(DumpOptions(transformers=str(folder)), "cpu")


def test_an_adapter_without_a_model_is_recognized(tmp_path: Path) -> None:
    """PEFT saves no config.json, and old versions saved pickled weights."""
    pytest.importorskip("transformers", minversion="5")
    from kaldi_compat.torch.extractors import open_pretrained

    for name in "adapter_config.json", "adapter_model.bin":
        (tmp_path / name).write_text("{}")
    with pytest.raises(OptionError, match="is an adapter for the weights of a base model"):
        open_pretrained(DumpOptions(transformers=str(tmp_path)), "cpu")


@pytest.mark.parametrize("count", [0, 1, 3])
def test_number_of_results_is_the_number_of_utterances(count: int) -> None:
    for output in ([np.ones(2)] * count, np.ones((count, 2))):
        with pytest.raises(ValueError, match=f"returned {count} results? for a batch of 2"):
            split_by_utterance(output, 2)
    with pytest.raises(ValueError, match=f"returned {count} lengths? for a batch of 2: return one per utterance"):
        split_by_utterance((np.ones((2, 2)), np.ones(count, int)), 2)
    with pytest.raises(ValueError, match=f"returned {count} results? for a batch of 2"):
        split_by_utterance({"a": [np.ones(2)] * 2, "b": [np.ones(2)] * count}, 2)


@pytest.mark.parametrize("lengths", [np.array(3), np.array([[2], [3]]), np.array([2.0, 3.0])])
def test_lengths_other_than_a_vector_of_integers_are_refused(lengths: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"^returned lengths of type .* and shape .*: return 2 integers$"):
        split_by_utterance((np.ones((2, 3, 1)), lengths), 2)


@pytest.mark.parametrize("lengths", [[-1, 2], [2, 4]])
def test_lengths_are_those_of_the_rows(lengths: list[int]) -> None:
    with pytest.raises(ValueError, match=r"returned 3 rows for an utterance with a length of"):
        split_by_utterance((np.ones((2, 3, 1)), np.array(lengths)), 2)
    first, second = split_by_utterance((np.ones((2, 3, 1)), np.array([0, 3])), 2)
    assert len(first) == 0 and len(second) == 3


@pytest.mark.parametrize("kind", [np.int64, np.uint32, np.uint64, torch.int64])
@pytest.mark.parametrize("value", [2**31, 2**31 + 5, 2**32 - 1, -(2**31) - 1])
def test_integers_that_do_not_fit_are_refused(value: int, kind: Any) -> None:
    if value < 0 and kind in (np.uint32, np.uint64):
        return
    made = torch.tensor([value, 0]) if kind is torch.int64 else np.array([value, 0], kind)
    with pytest.raises(ValueError, match="do not fit into 32 bits"):
        convert_to_array(made)


def test_integers_at_the_limits_keep_their_value() -> None:
    limits = np.array([2**31 - 1, -(2**31)], np.int64)
    assert convert_to_array(limits).dtype == np.int32 and convert_to_array(limits).tolist() == limits.tolist()
    assert convert_to_array(np.zeros(0, np.int64)).shape == (0,)


def test_masked_array_is_refused_and_other_arrays_are_copied() -> None:
    with pytest.raises(ValueError, match="returned a MaskedArray: expected an array or a tensor"):
        convert_to_array(np.ma.MaskedArray(np.ones(2), mask=[True, False]))
    for made in (np.ones(2, np.float32), np.ones(2, np.int32), np.ones(2).view(np.recarray), torch.ones(2)):
        assert type(convert_to_array(made)) is np.ndarray and not np.shares_memory(
            convert_to_array(made), np.asarray(made)
        )


class Poisoned:
    """Returns NaN for audio that is padded."""

    takes = "padded"

    def __call__(self, samples: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        poison = torch.where(lengths == samples.shape[1], 0.0, torch.nan)
        mask = torch.arange(samples.shape[1]) < lengths[:, None]
        return (samples.abs() * mask).sum(1, keepdim=True) / lengths[:, None] + poison[:, None]


class ByLength:
    """Divides by the padded length, so that audio of other lengths must not share a batch."""

    takes = "padded"

    def __init__(self) -> None:
        self.seen: set[tuple[int, ...]] = set()

    def __call__(self, samples: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        self.seen.add(tuple(lengths.tolist()))
        return samples.abs().mean(1, keepdim=True)


class Short(Poisoned):
    """Returns other numbers for padded audio that is shorter than half a second."""

    def __call__(self, samples: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        mask = torch.arange(samples.shape[1]) < lengths[:, None]
        means = (samples.abs() * mask).sum(1, keepdim=True) / lengths[:, None]
        return means * torch.where((lengths < 8000) & (lengths < samples.shape[1]), 2.0, 1.0)[:, None]


def trial_of(data: Path) -> Any:
    header = next((data / "log").glob("*.plan.jsonl")).read_text().splitlines()[0]
    return json.loads(header)["trial"]


def test_padding_that_gives_nan_is_found_by_the_trial(data: Path) -> None:
    kaldi_compat.dump(data, Poisoned(), nj=1)
    assert trial_of(data)["batching"] == "equal"


def test_lengths_that_differ_by_one_sample_share_no_batch(data: Path) -> None:
    for i, key in enumerate(keys_of(data / "wav.scp")):
        write_wav(data / "wav" / f"{key}.wav", audio(6000 + i // 2, seed=i))
    made = ByLength()
    kaldi_compat.dump(data, made, nj=1)
    assert trial_of(data)["batching"] == "equal"
    assert {(6000, 6000), (6001, 6001)} <= made.seen and (6000, 6000, 6001, 6001) not in made.seen


def test_audio_shorter_than_the_trial_shows_is_computed_alone(data: Path) -> None:
    for i, key in enumerate(keys_of(data / "wav.scp")):
        write_wav(data / "wav" / f"{key}.wav", audio((6000, 7000, 20000, 30000)[i], seed=i))
    kaldi_compat.dump(data, Short(), nj=1)
    assert trial_of(data)["batching"] == "padded" and trial_of(data)["shortest"] == 16000
    for key, (samples, _) in waves(data).items():
        np.testing.assert_allclose(arrays(data / "xvector.scp")[key], [np.abs(samples).mean()], rtol=1e-5)


def test_extractor_that_needs_a_second_is_opened(data: Path) -> None:
    def long_only(samples: Sequence[np.ndarray]) -> list[np.ndarray]:
        return [np.abs(each[8000:]).max(keepdims=True) for each in samples]

    assert kaldi_compat.dump(data, long_only, nj=1).utterances == 3
    assert trial_of(data)["shortest"] == 16000


@pytest.mark.parametrize("call", [1, 4, 5, 7])
def test_error_of_a_lost_device_in_the_trial_is_no_property_of_the_extractor(
    data: Path, monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    """The calls are those of an utterance, of the shortest audio, of a batch, and of an utterance of equal length."""
    calls: list[int] = []

    def failing(samples: Sequence[np.ndarray]) -> list[np.ndarray]:
        calls.append(len(samples))
        if len(calls) == call + 1:  # behind the first call, which prepares the extractor
            raise RuntimeError("the device is lost")
        return [each[:3] * len(samples) for each in samples]

    monkeypatch.setattr(DeviceExtractor, "is_lost", lambda self: len(calls) == call + 1)
    with pytest.raises(DumpError, match=r"failing fails in a trial call.*: RuntimeError: the device is lost"):
        kaldi_compat.dump(data, failing, nj=1)
    assert len(calls) == call + 1


def test_incomplete_files_of_another_format_are_an_error(data: Path) -> None:
    (data / "xvector").mkdir()
    np.save(data / "xvector" / "foreign.npy", np.ones(2))
    Path("loud.py").write_text("def f(audio):\n    return [abs(x).mean(keepdims=True) for x in audio]\n")
    assert "xvector/ is not complete" in said("--module=loud.py:f", "--format=npy", str(data), status=255)
    assert len(arrays(data / "xvector.scp")) == 4


def test_only_the_class_of_a_source_depends_on_its_type() -> None:
    for path in Path(sources.__file__).parents[1].glob("*.py"):
        assert not re.search(r"\.source (==|!=|in|not in) ", path.read_text()), path


@pytest.mark.parametrize("option", SOURCES)
def test_source_names_the_options_that_it_uses(option: str) -> None:
    source = sources.get_source_class(option)
    assert {*source.used_options} <= {name for scope in SCOPES for name in scope.options}
    assert ("trust_extractor" in source.used_options) is not source.is_decided_by_files
