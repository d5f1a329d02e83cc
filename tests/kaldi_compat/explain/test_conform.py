"""What conform says of implementations: ours, a port with and without mistakes, and programs that fail."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kaldi_compat import FeatureError, OptionError
from kaldi_compat.explain import conform_command
from kaldi_compat.explain.causes import WrongResult, causes
from kaldi_compat.explain.conform import CHECKOUT, Vector, conform, vectors
from kaldi_compat.numpy import Fbank, Mfcc, Plp, Spectrogram
from tests.support.port import MISTAKES, PAGE, port_with, row

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
    assert row(mistake, card) in PAGE.read_text(encoding="utf-8"), "python -m tests.support.port writes it"


QUICK = ("hamming window", "triangles in Hz", "preemphasis of the recording")


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
    asked = {"num_mel_bins": 40, "high_freq": -400.0, "energy_floor": 2.0}  # without use_energy
    options = {"program": "compute-fbank-feats", "sample_frequency": 16000.0, "subtract_mean": False, **asked}
    expected, result = Fbank(**asked, dither=0.0)(samples), Fbank(dither=0.0)(samples)
    [cause] = causes([WrongResult("a", options, samples, result, expected, 1e-3)])
    assert cause.name == "high_freq, num_mel_bins ignored"


def test_difference_of_post_processing_is_named() -> None:
    wrong = [
        WrongResult(each.id, each.options, each.given, each.expected + 20.7944, each.expected, 1e-3)
        for each in vectors(4)[:2]
    ]
    assert "add-deltas: plus 20.79 = 2 ln 32768" in str(causes(wrong)[0])


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


@pytest.mark.parametrize("form", [["{audio}", "{options.json}", "{out.npy}"], ["{list.json}"]])
def test_program_is_run(form: list[str], kit: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "first.npy", np.ones((2, 2)))
    (tmp_path / "program.py").write_text(PROGRAM % str(tmp_path / "first.npy"))
    given = ["--kit", str(kit), "--level", "1,4,7", "--json", str(tmp_path / "card.json"), "--"]
    assert conform_command.main([*given, sys.executable, str(tmp_path / "program.py"), *form]) == 1
    card = json.loads((tmp_path / "card.json").read_text())
    assert card["levels"]["1"] == {"bits": 0, "1e-5": 0, "1e-3": 0, "wrong": 3, "failed": 0, "not supported": 0}
    assert card["levels"]["4"]["not supported"] == card["levels"]["7"]["not supported"] == 3
    assert card["causes"][0]["name"] == "not explained, compute-fbank-feats"
    assert capsys.readouterr().out.startswith("level ")


@pytest.mark.parametrize("command, words", [
    (["sh", "-c", "echo no such option >&2; exit 3", "{out.npy}"], "exit status 3: no such option"),
    (["sh", "-c", "echo 1 2 3 > $0", "{out.npy}"], "it wrote no NumPy file"),
    (["true", "{out.npy}"], "it wrote no NumPy file"),
    (["sleep", "9{out.npy}"], "exit status 1"),
    (["sh", "-c", "sleep 9", "{list.json}"], "it ran longer than 0.1 s"),
])  # fmt: skip
def test_program_that_fails(command: list[str], words: str, kit: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert conform_command.main(["--kit", str(kit), "--level", "1", "--timeout", "0.1", "--", *command]) == 1
    assert f"failed: 1-0001: {words}" in capsys.readouterr().out


@pytest.mark.parametrize("argv, status, words", [
    (["--level", "9", "--", "x", "{out.npy}"], 2, "level=9 does not exist: the kit has the levels 1 to 8"),
    (["--level", "a", "--", "x", "{out.npy}"], 2, "'a' is not a list of numbers"),
    (["--", "x"], 2, "the command has no {out.npy}"),
    ([], 2, "the command has no {out.npy}"),
    (["--timeout", "0", "--", "x", "{out.npy}"], 2, "--timeout=0 must be a positive number"),
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
    with pytest.raises(FeatureError, match="is not a conformance kit"):
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
