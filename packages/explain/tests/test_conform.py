"""Scorecards of conform: our features, a port with and without mistakes, and programs that fail."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kaldi_compat import FeatureError, OptionError
from kaldi_compat.frontends.numpy import Frontend
from kaldi_compat.numpy import Fbank, Mfcc, Plp, Spectrogram
from kaldi_explain import conform_command
from kaldi_explain.causes import WrongResult, find_causes
from kaldi_explain.grading import CHECKOUT, Result, Scorecard, Vector, conform, vectors
from packages.explain.tests.port import MISTAKES, filters, port_with, window_of

Array = np.ndarray[Any, Any]
OURS: dict[str, Any] = {
    "compute-fbank-feats": Fbank, "compute-mfcc-feats": Mfcc, "compute-plp-feats": Plp,
    "compute-spectrogram-feats": Spectrogram,
}  # fmt: skip


def ours(samples: Array, options: dict[str, Any]) -> Array:
    """Compute spectral features by this package, chunk by chunk if there are chunks."""
    program = options.pop("program")
    if program not in OURS or options["allow_downsample"] or options["allow_upsample"] or options.pop("subtract_mean"):
        raise NotImplementedError
    warp = options.pop("vtln_warp", 1.0)
    chunks, output = options.pop("chunks", None), options.pop("output", "features")
    feature = OURS[program](**options)
    if chunks is None:
        return feature(samples, vtln_warp=warp)
    stream, parts = feature.stream(), np.split(samples, np.cumsum(chunks)[:-1])
    made = [stream(part, final=number == len(parts) - 1) for number, part in enumerate(parts)]
    return np.concatenate(made) if output == "features" else np.cumsum([len(each) for each in made])


@pytest.mark.parametrize("level", [1, 2, 3, 5, 6, 8])
def test_our_features_hold_every_bit(level: int) -> None:
    card = conform(ours, level=level)
    assert {result.grade for result in card.results} <= {"bits", "not supported"}
    assert card.passed


def test_port_without_mistakes_passes() -> None:
    card = conform(port_with(), level=[1, 3])
    assert card.passed
    assert card.counts()[3]["1e-3"] > 50


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistake_of_a_port_is_caught(mistake: str) -> None:
    options, _ = MISTAKES[mistake]
    card = conform(port_with(**options), level=1, explain=False)
    assert not card.passed
    assert card.counts()[1]["wrong"] > 8


QUICK = ("hamming window", "triangles in Hz")


@pytest.mark.parametrize(
    "mistake", [pytest.param(each, marks=() if each in QUICK else pytest.mark.slow) for each in MISTAKES]
)
def test_cause_is_named_and_its_vectors_are_counted_together(mistake: str) -> None:
    options, words = MISTAKES[mistake]
    card = conform(port_with(**options), level=1)
    assert any(word in card.causes[0].name for word in words), str(card)
    assert len(card.causes[0].vectors) > card.counts()[1]["wrong"] / 2, str(card)


def test_ignored_option_is_named() -> None:
    card = conform(lambda samples, options: ours(samples, options | {"num_mel_bins": 23, "high_freq": 0.0}), level=3)
    names = {cause.name: len(cause.vectors) for cause in card.causes}
    assert names["num_mel_bins ignored"] > 80
    assert any("high_freq" in name and "ignored" in name for name in names)
    assert [*names.values()] == sorted(names.values(), reverse=True)


def test_option_that_does_not_matter_is_not_called_ignored() -> None:
    samples = vectors(1)[0].given
    asked = {"num_mel_bins": 40, "high_freq": -400.0, "energy_floor": 2.0}  # The floor is unused without use_energy.
    options = {"program": "compute-fbank-feats", "sample_frequency": 16000.0, "subtract_mean": False, **asked}
    expected, result = Fbank(**asked, dither=0.0)(samples), Fbank(dither=0.0)(samples)
    [cause] = find_causes([WrongResult("a", options, samples, result, expected, 1e-3)])
    assert cause.name == "high_freq, num_mel_bins ignored"


def with_frames(change: str, port: Any) -> Any:
    """Return a port that gives another number of frames: "n // hop", "one less", "first missing", "one before"."""

    def compute(samples: Array, options: dict[str, Any]) -> Array:
        features = port(samples, options)
        count = len(samples) // int(options["sample_frequency"] * options["frame_shift"] / 1000)
        more = np.repeat(features[-1:], max(count - len(features), 0), axis=0)
        changed = {"n // hop": np.concatenate([features, more])[:count], "one less": features[:-1],
                   "first missing": features[1:], "one before": np.concatenate([features[:1], features])}  # fmt: skip
        return changed[change]

    return compute


PLANTED: dict[str, tuple[Any, list[str]]] = {
    "n // hop": (with_frames("n // hop", port_with()), ["2 frames too many at the end: 30, not 28"]),
    "one less": (with_frames("one less", port_with()), ["1 frame left out at the end: 27, not 28"]),
    "first missing": (with_frames("first missing", port_with()), ["1 frame left out at the start: 27, not 28"]),
    "one before": (with_frames("one before", port_with()), ["1 frame too many at the start: 29, not 28"]),
    "centered": (port_with(edges="reflect"), ["frames centered by padding (reflect)"]),
    "snip_edges": (port_with(edges="kaldi"), ["snip_edges=False"]),
    "two": (with_frames("n // hop", port_with(window="hamming")),
            ["window_type='hamming'", "2 frames too many at the end: 30, not 28"]),
    "scale, one less": (with_frames("one less", port_with(scale=1 / 32768)),
                        ["samples times 3.05176e-05", "1 frame left out at the end: 27, not 28"]),
    "three, one less": (with_frames("one less", port_with(window="hamming", preemphasis=0.95, low=0.0)),
                        ["low_freq=0.0, window_type='hamming', preemphasis_coefficient=0.95",
                         "1 frame left out at the end: 27, not 28"]),
    "four": (port_with(window="hamming", filter_kind="hertz", preemphasis=0.0, edges="kaldi"),
             ["snip_edges=False, window_type='hamming', preemphasis_coefficient=0.0, "
              "triangles in Hz between mel edges"]),
}  # fmt: skip


SLOW = ("three, one less", "four")  # These causes take seconds.


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=pytest.mark.slow if each in SLOW else ()) for each in PLANTED]
)
def test_planted_mistakes_are_all_named_and_nothing_else(name: str) -> None:
    implementation, names = PLANTED[name]
    card = conform(implementation, level=1)
    assert sorted(",".join(sorted(each.name.split(", "))) for each in card.causes) == sorted(
        ",".join(sorted(each.split(", "))) for each in names
    ), str(card)
    assert all(len(cause.vectors) == 16 for cause in card.causes), str(card)


def _with_nan(features: Array) -> Array:
    features = features.copy()
    features[3, 4] = np.nan
    return features


CHANGED: dict[str, Any] = {
    "all frames are 1 frame earlier than they should be": lambda made, samples: np.roll(made(samples), -1, 0),
    "all frames are 2 frames later than they should be": lambda made, samples: np.roll(made(samples), 2, 0),
    "NaN in some values": lambda made, samples: _with_nan(made(samples)),
    "NaN in all values": lambda made, samples: made(samples) * np.nan,
    "infinity in all values": lambda made, samples: made(samples) * 0 - np.inf,
    "the columns in reverse order": lambda made, samples: made(samples)[:, ::-1],
    "the frames in reverse order": lambda made, samples: made(samples)[::-1],
    "absolute values of the samples": lambda made, samples: made(np.abs(samples.astype(np.float32))),
    "the bytes of the samples swapped": lambda made, samples: made(samples.byteswap()),
}  # fmt: skip


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("name", CHANGED)
def test_simple_mistake_is_named_for_every_vector(name: str) -> None:
    def compute(samples: Array, options: dict[str, Any]) -> Any:
        return CHANGED[name](Fbank(dither=0.0, sample_frequency=options["sample_frequency"]), samples)

    card = conform(compute, level=1)
    assert [(cause.name, len(cause.vectors)) for cause in card.causes] == [(name, 16)], str(card)


@pytest.mark.filterwarnings("ignore:the preset 'wekws' normalizes")
def test_reason_is_not_the_name_of_a_preset() -> None:
    given = vectors(1)[0]
    result = Frontend.from_preset("wekws")(given.given / 32768, sampling_rate=16000)
    wrong = WrongResult("a", {**given.options, "dither": 0.0}, given.given, np.asarray(result), given.expected, 1e-3)
    [cause] = find_causes([wrong])
    assert "preset" not in cause.name and "num_mel_bins" in cause.name, cause


def test_program_that_writes_nothing_is_said_to(kit: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["sh", "-c", "echo Error: no model >&2", "{list.json}"]
    assert conform_command.main(["--kit", str(kit), "--level", "1", "--", *command]) == 1
    assert "not supported: the program wrote no file (it said: Error: no model)" in capsys.readouterr().out


def test_scorecard_survives_a_result_without_frames() -> None:
    """Level 6 has audio shorter than a frame, which Kaldi gives frames of with snip_edges=False only."""
    card = conform(lambda samples, options: ours(samples, options | {"snip_edges": True}), level=6)
    assert card.counts()[6]["wrong"]
    assert "wrong: " in str(card)
    assert any("snip_edges" in cause.name for cause in card.causes), str(card)


def test_mistake_in_finding_mistakes_does_not_lose_the_scorecard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WrongResult, "align", lambda *_: 1 / 0)
    card = conform(lambda samples, options: port_with(window="hamming")(samples, options), level=1)
    assert "not explained, compute-fbank-feats: 16 vectors" in str(card)


@pytest.mark.parametrize("change, words", [
    (lambda features: features.T, "the shape is (23, 28), not (28, 23), as if transposed"),
    (lambda features: features[:, :-1], "the shape is (28, 22), not (28, 23)"),
    (lambda features: features.ravel(), "the shape is (644,), not (28, 23)"),
    (lambda features: None, "elements of type object are not numbers"),
    (lambda features: features.astype(str), "are not numbers"),
])  # fmt: skip
def test_wrong_type_or_shape_is_one_line(change: Any, words: str) -> None:
    card = conform(lambda samples, options: change(port_with()(samples, options)), level=1)
    lines = [line for line in str(card).splitlines() if line.startswith("wrong: ")]
    assert len(lines) <= 2 and words in lines[0], str(card)


def test_scalar_result_is_named_as_a_cause() -> None:
    card = conform(lambda samples, options: port_with()(samples, options).sum(), level=1)
    names = [cause.name for cause in card.causes]
    assert "the shape is (), not (28, 23)" in names and not any("not explained" in name for name in names), str(card)


def test_scalar_instead_of_a_vector_is_wrong() -> None:
    expected, scalar = np.arange(5, dtype=np.float32), np.asarray(np.float32(1.0))
    vector = Vector("a", 1, {}, None, np.zeros(9, np.int16), expected)
    assert vector.grade(scalar) == ("wrong", "the shape is (), not (5,)")
    assert vector.grade(expected[1:]) == ("wrong", "the shape is (4,), not (5,)")
    matrix = Vector("b", 1, {}, None, np.zeros(9, np.int16), np.zeros((3, 2), np.float32))
    assert matrix.grade(np.zeros((1, 2))) == ("wrong", "1 frame, not 3")
    assert "1 vector, such as b" in str(Scorecard([Result(matrix, *matrix.grade([None]), np.array([None]))]))
    _, aligned, frames = WrongResult("a", {}, vector.given, scalar, expected, 1e-3).align(expected)
    assert aligned == scalar and frames == ""


@pytest.mark.slow
def test_preemphasis_in_place_is_named() -> None:
    def compute(samples: Array, options: dict[str, Any]) -> Array:
        frames = np.lib.stride_tricks.sliding_window_view(samples.astype(np.float64), 400)[::160]
        frames = frames - frames.mean(1, keepdims=True)
        for n in range(1, 400):
            frames[:, n] -= 0.97 * frames[:, n - 1]
        power = np.abs(np.fft.rfft(frames * window_of("povey", 400), 512)) ** 2
        return np.log(np.maximum(power @ filters("mel", 23, 512, 16000, 20, 8000).T, 1.19e-7))

    given = vectors(1)[0]
    found = find_causes([WrongResult("a", given.options, given.given, compute(given.given, {}), given.expected, 1e-3)])
    assert "preemphasis in place" in found[0].name, found


def test_difference_of_post_processing_is_named() -> None:
    wrong = [
        WrongResult(each.id, each.options, each.given, each.expected + 20.7944, each.expected, 1e-3)
        for each in vectors(4)[:2]
    ]
    assert "add-deltas: plus 20.79 = 2 ln 32768" in str(find_causes(wrong)[0])


def test_rounding_errors_are_counted_as_a_cause() -> None:
    wrong = []
    for vector in vectors(1)[:2]:
        result = vector.expected.copy()
        result[7, 3] *= 1.002  # The difference is twice the tolerance.
        wrong.append(WrongResult(vector.id, vector.options, vector.given, result, vector.expected, 1e-3))
    [cause] = find_causes(wrong)
    assert str(cause) == "rounding errors in a few values: 2 vectors, such as 1-0001"


def test_compression_methods_are_different_causes() -> None:
    wrong = [
        WrongResult(vector.id, vector.options, vector.given, vector.expected[::-1], vector.expected, 1e-3)
        for vector in vectors(7)
        if vector.options.get("compression_method") in (1, 2)
    ]
    names = {cause.name: len(cause.vectors) for cause in find_causes(wrong)}
    form = "write-archive of float-matrix, compression_method={}: the result differs from Kaldi's"
    assert names == {form.format(1): 8, form.format(2): 8}


@pytest.mark.parametrize("expected, result, grade", [
    ([1.0, 2.0], [1.0, 2.0], "bits"), ([1.0, np.nan], [1.0, np.nan], "bits"), ([1.0, 2.0], [1.0, 2.00001], "1e-5"),
    ([1.0, 200.0], [1.0, 200.1], "1e-3"), ([1.0, 2.0], [1.0, 2.01], "wrong"), ([1.0, 2.0], [1.0, np.nan], "wrong"),
    ([1.0, np.inf], [1.0, np.inf], "bits"), ([1.0, np.inf], [1.0, 1e30], "wrong"), ([1.0], [[1.0]], "wrong"),
    (np.zeros((0, 0)), np.zeros((0, 23)), "bits"), ([], [1.0], "wrong"), ([1.0], ["a"], "wrong"),
])  # fmt: skip
def test_grade_of_a_difference(expected: Any, result: Any, grade: str) -> None:
    vector = Vector("1-0001", 1, {"program": "p"}, None, np.zeros(1), np.array(expected, np.float32))
    assert vector.grade(result)[0] == grade
    if grade == "wrong":
        with pytest.raises(AssertionError, match="vector 1-0001, p: "):
            vector.check(result)
    else:
        vector.check(result)


def test_integers_that_differ_at_all_are_graded_wrong() -> None:
    vector = Vector("7-0001", 7, {"program": "p"}, None, np.zeros(1), np.array([100, 200], np.int32))
    assert vector.grade([100, 200])[0] == "bits"
    assert vector.grade(np.array([100.0, 200.0]))[0] == "bits"
    assert vector.grade([100, 201])[0] == "wrong"
    assert vector.grade(np.array([100.0, 200.5]))[0] == "wrong"


def test_rounding_of_kaldis_own_widens_the_tolerance() -> None:
    vector = Vector("1-0001", 1, {}, None, np.zeros(1), np.ones(3, np.float32), rounding=0.01)
    assert vector.grade(np.ones(3) + 0.02)[0] == "1e-3"


def test_exception_is_a_failure() -> None:
    card = conform(lambda *_: np.zeros(3) / np.zeros((2, 0)), level=1)
    assert card.counts()[1]["failed"] == 16
    assert "failed: 1-0001: ValueError: operands" in str(card)
    assert "failed: 11 more" in str(card)


@pytest.fixture
def kit(tmp_path: Path) -> Path:
    """Return a kit whose levels have three vectors each."""
    folder = tmp_path / "kit"
    folder.mkdir()
    for path in CHECKOUT.iterdir():
        if path.name.startswith("level-") and path.suffix == ".json":
            values = json.loads(path.read_text())
            (folder / path.name).write_text(json.dumps(values | {"vectors": values["vectors"][:3]}))
        elif path.name == "audio" or path.suffix == ".npy":
            (folder / path.name).symlink_to(path)
    return folder


PROGRAM = """
import json, sys
import numpy as np
for place in json.load(open(sys.argv[1])) if sys.argv[1].endswith("list.json") else [
        {"audio": sys.argv[1], "options": json.load(open(sys.argv[2])), "out": sys.argv[3]}]:
    if place["options"]["program"] != "compute-fbank-feats":
        assert place["options"]["program"] in ("read-archive", "add-deltas"), place
        assert open(place["audio"], "rb").read(1) == (b"\\x93" if place["audio"].endswith(".npy") else b"m")
        if len(sys.argv) > 2: sys.exit(77)
        continue
    assert open(place["audio"], "rb").read(4) == b"RIFF"
    np.save(place["out"], np.load(%r))
"""


def test_scorecard_does_not_replace_the_program(kit: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "program.py"
    program.write_text("mine")
    (tmp_path / "card.json").symlink_to(program)
    given = ["--kit", str(kit), "--level", "1", "--json", str(tmp_path / "card.json"), "--", "python", str(program)]
    assert conform_command.main(given) == 255
    assert "card.json: is read as well, and writing would destroy it" in capsys.readouterr().err
    assert program.read_text() == "mine"


@pytest.mark.parametrize("form", [["{audio}", "{options.json}", "{out.npy}"], ["{list.json}"]])
def test_program_is_run(form: list[str], kit: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "first.npy", np.ones((2, 2)))
    (tmp_path / "program.py").write_text(PROGRAM % str(tmp_path / "first.npy"))
    given = ["--kit", str(kit), "--level", "1,4,7", "--json", str(tmp_path / "card.json"), "--"]
    assert conform_command.main([*given, sys.executable, str(tmp_path / "program.py"), *form]) == 1
    card = json.loads((tmp_path / "card.json").read_text())
    assert card["levels"]["1"] == {"bits": 0, "1e-5": 0, "1e-3": 0, "wrong": 3, "failed": 0, "not supported": 0}
    assert card["levels"]["4"]["not supported"] == card["levels"]["7"]["not supported"] == 3
    assert card["causes"][0]["name"] == "the shape is (2, 2), not (28, 23)"
    assert capsys.readouterr().out.startswith("level ")


def test_batch_that_writes_some_files_gives_no_reason_for_the_others(kit: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "first.npy", np.ones((2, 2)))
    code = "import json, shutil, sys; shutil.copy(sys.argv[2], json.load(open(sys.argv[1]))[0]['out'])"
    command = [sys.executable, "-c", code, "{list.json}", str(tmp_path / "first.npy")]
    card = conform_command.conform_command(command, level=1, kit=kit)
    assert [result.grade for result in card.results] == ["wrong", "not supported", "not supported"]
    assert not any(result.why for result in card.results[1:])


def test_program_is_not_run_again_only_after_three_timeouts_in_a_row(tmp_path: Path) -> None:
    """The second run ends in time. All other runs do not, so the fifth run is the third of this kind in a row."""
    script = f"echo >> {tmp_path}/runs; [ $(wc -l < {tmp_path}/runs) = 2 ] && exit 3; sleep 9"
    card = conform_command.conform_command(["sh", "-c", script, "{out.npy}"], level=1, timeout=0.2)
    reasons = [result.why for result in card.results]
    assert reasons[:5] == ["it ran longer than 0.2 s", "exit status 3", *["it ran longer than 0.2 s"] * 3]
    assert set(reasons[5:]) == {"not run, because the program exceeded 0.2 s on the previous 3 vectors"}


@pytest.mark.parametrize("command, words", [
    (["sh", "-c", "echo no such option >&2; exit 3", "{out.npy}"], "exit status 3: no such option"),
    (["sh", "-c", "echo 1 2 3 > $0", "{out.npy}"], "its output is no NumPy file: "),
    (["true", "{out.npy}"], "it wrote no output file"),
    (["sleep", "9{out.npy}"], "exit status 1"),
    (["sh", "-c", "sleep 9", "{list.json}"], "it ran longer than 0.1 s"),
    (["sh", "-c", "sleep 99 & sleep 99", "{out.npy}"], "it ran longer than 0.1 s"),
    (["sh", "-c", "printf 'TypeError: no window\\n    at x.js:1\\n\\nNode.js v20.20.2\\n' >&2; exit 1", "{out.npy}"],
     "exit status 1: TypeError: no window"),
    (["sh", "-c", "kill -SEGV $$", "{out.npy}"], "ended by SIGSEGV"),
    (["sh", "-c", "echo 1 2 3", "{out.npy}"], "it wrote no output file (it printed to standard output)"),
])  # fmt: skip
def test_program_that_fails(command: list[str], words: str, kit: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert conform_command.main(["--kit", str(kit), "--level", "1", "--timeout", "0.1", "--", *command]) == 1
    assert f"failed: 1-0001: {words}" in capsys.readouterr().out


@pytest.mark.parametrize("argv, status, words", [
    (["--level", "9", "--", "x", "{out.npy}"], 2, "level=9 does not exist: the kit has the levels 1 to 8"),
    (["--level", "a", "--", "x", "{out.npy}"], 2, "'a' is not a list of levels"),
    (["--", "x"], 2, "the command has no {out.npy}"),
    ([], 2, "the command has no {out.npy}"),
    (["--timeout", "0", "--", "x", "{out.npy}"], 2, "--timeout=0 is not a positive number"),
    (["--level", "1", "--", "/no/such", "{out.npy}"], 255, "cannot run /no/such: No such file"),
    (["--kit", "/no/such", "--", "x", "{out.npy}"], 255, "/no/such is not a conformance kit"),
    (["--level", "1", "--json", "/no/such/a", "--", "sh", "-c", "exit 77", "{out.npy}"], 255, "No such file"),
])  # fmt: skip
def test_mistake_is_one_line(argv: list[str], status: int, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert conform_command.main(argv) == status
    captured = capsys.readouterr()
    assert words in captured.err
    assert len(captured.err.splitlines()) == 1


def test_scorecard_is_printed_where_its_file_cannot_be_written(kit: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--kit", str(kit), "--level", "1", "--json", "nosuch/card.json", "--", "true", "{out.npy}"]
    assert conform_command.main(given) == 255
    captured = capsys.readouterr()
    assert "1 defaults of fbank" in captured.out
    assert captured.err == "kaldi-compat: cannot write nosuch/card.json: No such file or directory\n"


def test_damaged_kit_is_an_error(kit: Path) -> None:
    (kit / "level-1.json").write_text('{"vectors": [{"id": "1-0001"}]}')
    with pytest.raises(FeatureError, match="is not a complete conformance kit: the entry 'input' is missing; copy or"):
        vectors(1, kit)
    with pytest.raises(OptionError, match="level=0"):
        vectors([1, 0])


def test_installed_kit_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kaldi_conformance").symlink_to(CHECKOUT)
    monkeypatch.syspath_prepend(tmp_path)
    assert str(vectors(1)[0].file).startswith(str(tmp_path))


def test_adapters_of_the_scorecard_run() -> None:
    pytest.importorskip("kaldi_native_fbank")
    from benchmarks.conformance import by_programs, implementations

    assert conform(implementations.kaldi_native_fbank, level=1).counts()[1]["1e-3"] > 0
    assert conform(by_programs.programs, level=1).counts()[1]["bits"] == 16
