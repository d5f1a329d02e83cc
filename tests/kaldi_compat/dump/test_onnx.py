"""ONNX models: every place of a graph that may name a file of weights, the settings of onnxruntime, and short audio."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import kaldi_compat
from kaldi_compat.dump.cli import main
from kaldi_compat.dump.errors import DumpError
from kaldi_compat.dump.options import DumpOptions, Job, Layout
from kaldi_compat.dump.sources import ExtractorSource, make_source
from tests.support.dump_data import audio, failures, keys_of, make_data, write_wav

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")


def source(path: Path, **options: Any) -> ExtractorSource:
    found = make_source(Job(Layout.from_paths(path.parent, "x"), DumpOptions(onnx=str(path), **options)))
    assert found
    return found


def ways(message: Any, passed: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the names of the fields that lead from a message of onnx.proto to a tensor; a graph may have one inside."""
    if message.full_name == "onnx.TensorProto":
        yield ()
        return
    if passed.count(message.full_name) > (message.name == "GraphProto"):
        return
    for field in message.fields:
        if field.message_type:
            for way in ways(field.message_type, (*passed, message.full_name)):
                yield (field.name, *way)


WAYS = sorted(ways(onnx.ModelProto.DESCRIPTOR))


def with_weights_at(way: tuple[str, ...], name: str) -> bytes:
    """Return a model with one tensor, in the file of this name; numbers of all kinds of widths are before it."""
    model = onnx.ModelProto(ir_version=8)
    message: Any = model
    for field in way:
        if message.DESCRIPTOR.name == "AttributeProto":
            message.f, message.i = 0.5, -1
        part = getattr(message, field)
        message = part.add() if hasattr(part, "add") else part
    message.data_location = onnx.TensorProto.EXTERNAL
    message.external_data.add(key="offset", value="0")
    message.external_data.add(key="location", value=name)
    content: bytes = model.SerializeToString()
    return content


def test_ways_to_tensors_are_those_of_onnx() -> None:
    assert len(WAYS) >= 20 and ("graph", "node", "attribute", "tensors") in WAYS


@pytest.mark.parametrize("way", WAYS, ids=".".join)
def test_weights_outside_are_known_wherever_they_are(tmp_path: Path, way: tuple[str, ...]) -> None:
    (tmp_path / "m.onnx").write_bytes(with_weights_at(way, "weights.bin"))
    files = source(tmp_path / "m.onnx").list_files()
    assert files == {"--onnx": tmp_path / "m.onnx", "--onnx/weights.bin": tmp_path / "weights.bin"}


def test_files_of_the_preset_before_a_graph_are_known(tmp_path: Path) -> None:
    for name in ("m.onnx", "mine.json", "cmvn"):
        (tmp_path / name).touch()
    more = {"preset": str(tmp_path / "mine.json"), "statistics": str(tmp_path / "cmvn")}
    files = {"--onnx": "m.onnx", "--preset": "mine.json", "--statistics": "cmvn"}
    assert source(tmp_path / "m.onnx", **more).list_files() == {
        option: tmp_path / name for option, name in files.items()
    }
    more["preset"] = "wenet"  # which is a part of this program
    assert source(tmp_path / "m.onnx", **more).list_files().keys() == {"--onnx", "--statistics"}


def test_numbers_of_a_fixed_width_are_passed_over(tmp_path: Path) -> None:
    unknown = b"\xfd\x07" + bytes(4) + b"\xf9\x07" + bytes(8)  # fields 127, of 32 and of 64 bits
    (tmp_path / "m.onnx").write_bytes(unknown + with_weights_at(("graph", "initializer"), "w"))
    assert "--onnx/w" in source(tmp_path / "m.onnx").list_files()


def test_graph_that_is_rewritten_in_place_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    for at, name in enumerate(("a.bin", "b.bin")):
        with open(path, "r+b" if at else "xb") as file:
            file.write(with_weights_at(("graph", "initializer"), name))
        os.utime(path, (1e9 + at, 1e9 + at))
        assert list(source(path).list_files()) == ["--onnx", f"--onnx/{name}"]


def field(number: int, content: bytes) -> bytes:
    """Return a field of a message that has bytes or a message as its value."""
    size, length = b"", len(content)
    while length > 127:
        size, length = size + bytes([length & 127 | 128]), length >> 7
    return bytes([number << 3 | 2]) + size + bytes([length]) + content


EXTERNAL = bytes([14 << 3, onnx.TensorProto.EXTERNAL])  # The field data_location.


@pytest.mark.parametrize("location", ["DEFAULT", None])
def test_entries_of_a_tensor_with_its_own_data_name_no_file(tmp_path: Path, location: str | None) -> None:
    """onnxruntime ignores such entries, too."""
    runtime = pytest.importorskip("onnxruntime")
    helper, path = onnx.helper, tmp_path / "m.onnx"
    weights = helper.make_tensor("w", onnx.TensorProto.FLOAT, [1], [2.0])
    weights.external_data.add(key="location", value="missing.bin")
    if location:
        weights.data_location = onnx.TensorProto.DataLocation.Value(location)
    shape = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, None])
    result = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, None])
    graph = helper.make_graph([helper.make_node("Mul", ["x", "w"], ["y"])], "g", [shape], [result], [weights])
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    path.write_bytes(model.SerializeToString())
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    assert session.run(None, {"x": np.ones((1, 2), np.float32)})[0].tolist() == [[2.0, 2.0]]
    assert list(source(path).list_files()) == ["--onnx"]


def test_weights_of_a_graph_that_is_nested_without_end_are_known(tmp_path: Path) -> None:
    weights = field(5, field(13, field(1, b"location") + field(2, b"w")) + EXTERNAL)
    for depth in (20, 600):
        graph = weights
        for _ in range(depth):
            graph = field(1, field(5, field(6, graph)))  # a node, its attribute, and the graph of that
        (tmp_path / f"{depth}.onnx").write_bytes(field(7, graph))
        assert list(source(tmp_path / f"{depth}.onnx").list_files()) == ["--onnx", "--onnx/w"]


ENTRIES = {
    "value first": field(2, b"w") + field(1, b"location"),
    "another field between": field(1, b"location") + field(9, b"?") + field(2, b"w"),
    "key twice": field(1, b"offset") + field(2, b"w") + field(1, b"location"),
    "value twice": field(2, b"0") + field(1, b"location") + field(2, b"w"),
    "a long form of the lengths": b"\x8a\x00\x88\x00location\x92\x80\x00\x81\x80\x00w",
}


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)
def test_entry_of_external_data_is_read_in_every_form(tmp_path: Path, entry: bytes) -> None:
    content = field(7, field(5, EXTERNAL + field(13, field(1, b"offset") + field(2, b"0")) + field(13, entry)))
    assert onnx.ModelProto.FromString(content).graph.initializer[0].external_data[1].value == "w"
    (tmp_path / "m.onnx").write_bytes(content)
    assert list(source(tmp_path / "m.onnx").list_files()) == ["--onnx", "--onnx/w"]


def test_other_content_that_has_the_bytes_of_an_entry_names_no_file(tmp_path: Path) -> None:
    entry = field(13, field(1, b"location") + field(2, b"\xff\0" * 99))
    text = onnx.helper.make_tensor("text", onnx.TensorProto.STRING, [1], [entry])
    raw = onnx.helper.make_tensor("raw", onnx.TensorProto.UINT8, [len(entry)], entry, raw=True)
    graph = onnx.helper.make_graph([], "g", [], [], [text, raw], doc_string="j\x0d\n\x08location\x12\x01w")
    onnx.save(onnx.helper.make_model(graph), tmp_path / "m.onnx")
    assert list(source(tmp_path / "m.onnx").list_files()) == ["--onnx"]


def test_names_of_external_files_keep_their_bytes(tmp_path: Path) -> None:
    for name in ("../w", "/w", "\u00fc/\u65e5", "w" * 200, "a b"):
        (tmp_path / "m.onnx").write_bytes(with_weights_at(("graph", "initializer"), name))
        assert source(tmp_path / "m.onnx").list_files()[f"--onnx/{name}"] == tmp_path / name
        (tmp_path / "m.onnx").unlink()


def test_error_about_a_name_with_a_newline_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = make_data(tmp_path, 1)
    (tmp_path / "m.onnx").write_bytes(with_weights_at(("graph", "initializer"), "a\nb"))
    assert main(["dump", f"--onnx={tmp_path}/m.onnx", str(data), "--nj=1"]) == 255
    [line] = capsys.readouterr().err.splitlines()
    assert "a\\nb" in line


@pytest.mark.parametrize("content", [b"\x0b\x0c", b"\x3a\x05\x08", b"\x3a", b"\xff" * 20, b"\x0a\x01"])
def test_content_whose_external_files_cannot_be_known_is_refused(tmp_path: Path, content: bytes) -> None:
    """The first content is a group, which onnxruntime passes over; the others are damaged."""
    (tmp_path / "m.onnx").write_bytes(with_weights_at(("graph", "initializer"), "w") + content)
    with pytest.raises(DumpError, match=r"m\.onnx .* it is not a valid ONNX model .*: export or copy the model again$"):
        source(tmp_path / "m.onnx").list_files()


def test_format_of_onnxruntime_has_no_external_files(tmp_path: Path) -> None:
    (tmp_path / "m.ort").write_bytes(b"\x18\0\0\0ORTM" + bytes(16))
    assert list(source(tmp_path / "m.ort").list_files()) == ["--onnx"]


def opened(monkeypatch: pytest.MonkeyPatch, device: str, threads: int, available: list[str]) -> SimpleNamespace:
    """Return what onnxruntime is asked for."""
    asked = SimpleNamespace()

    def session(path: str, settings: Any, providers: Any) -> Any:
        asked.threads, asked.level, asked.providers = (
            settings.intra_op_num_threads,
            settings.log_severity_level,
            providers,
        )
        raise RuntimeError("no session")

    monkeypatch.setattr(onnxruntime, "InferenceSession", session)
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: available)
    with pytest.raises(DumpError, match="no session"):
        source(Path("m.onnx")).open(device, threads)
    return asked


def test_onnxruntime_has_the_threads_of_the_trial_and_the_gpu_of_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    both = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    asked = opened(monkeypatch, "cpu", 7, both)
    assert (asked.threads, asked.level, asked.providers) == (7, 3, [("CPUExecutionProvider", {})])
    for device, number in (("cuda", "0"), ("cuda:0", "0"), ("cuda:1", "1")):
        found = opened(monkeypatch, device, 7, both).providers
        assert found == [("CUDAExecutionProvider", {"device_id": number})]
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: both[1:])
    with pytest.raises(DumpError, match=r"--device=cuda:1 needs CUDAExecutionProvider"):
        source(Path("m.onnx")).open("cuda:1", 1)


def test_audio_that_is_too_short_for_a_frame_of_the_preset_fails_alone(tmp_path: Path) -> None:
    make, kind = onnx.helper, onnx.TensorProto.FLOAT
    node = make.make_node("ReduceMean", ["feats"], ["mean"], axes=[1], keepdims=0)
    graph = make.make_graph([node], "g", [make.make_tensor_value_info("feats", kind, ["B", "T", 80])],
                            [make.make_tensor_value_info("mean", kind, ["B", 80])])  # fmt: skip
    model = make.make_model(graph, opset_imports=[make.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, tmp_path / "m.onnx")
    data = make_data(tmp_path, 3)
    key = keys_of(data / "wav.scp")[1]
    write_wav(data / "wav" / f"{key}.wav", audio(100, seed=1))
    done = kaldi_compat.dump(data, onnx=tmp_path / "m.onnx", preset="wespeaker", nj=1)
    assert done.utterances == 2
    assert failures(data) == f"{key} the audio is too short for a frame: remove the utterance\n"


@pytest.mark.parametrize(("node", "shown"), [
    (("Concat", ["x", "x"], {"axis": 0}), r"has the shape \(2, \d+\)"),
    (("ReduceMean", ["x"], {"keepdims": 0}), r"has the shape \(\)"),
    (("SequenceConstruct", ["x", "x"], {}), "is a list"),
])  # fmt: skip
def test_output_whose_first_axis_is_no_batch_of_one_is_refused(
    tmp_path: Path, node: tuple[str, list[str], dict[str, int]], shown: str
) -> None:
    pytest.importorskip("onnxruntime")
    make, kind = onnx.helper, onnx.TensorProto.FLOAT
    kind_of_node, inputs, attributes = node
    shape, result = make.make_tensor_value_info("x", kind, ["B", "T"]), make.make_tensor_value_info("y", kind, None)
    if kind_of_node == "SequenceConstruct":
        result = make.make_tensor_sequence_value_info("y", kind, None)
    graph = make.make_graph([make.make_node(kind_of_node, inputs, ["y"], **attributes)], "g", [shape], [result])
    model = make.make_model(graph, opset_imports=[make.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(
        DumpError, match=f"the output y {shown}: expected an array whose first axis is a batch of one utterance"
    ):
        kaldi_compat.dump(make_data(tmp_path, 1), onnx=tmp_path / "m.onnx", nj=1)
