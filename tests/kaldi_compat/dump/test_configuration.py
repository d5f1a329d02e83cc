"""The configuration of a dump: texts of files with the options of the command line, and the options that they set."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kaldi_compat.dump.configuration import compare_values, get_feature_flags, parse_confs, read_confs
from kaldi_compat.dump.errors import DumpError
from kaldi_compat.dump.options import DumpOptions, Job, Layout
from kaldi_compat.errors import OptionError


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "fbank.conf"


def job_with(conf: Path, *overrides: str, feature: str = "fbank", **options: str) -> Job:
    return Job(Layout.from_paths("data", feature), DumpOptions(conf=str(conf), **options), overrides)


@pytest.mark.parametrize(
    ("text", "overrides", "expected"),
    [
        ("", [], ""),
        ("--dither=0", [], "--dither=0"),
        ("", ["--num-mel-bins=30"], "--num-mel-bins=30\n"),
        ("--dither=0", ["--num-mel-bins=30"], "--dither=0\n--num-mel-bins=30\n"),
        ("--dither=0\n", ["--num_mel_bins=30"], "--dither=0\n--num-mel-bins=30\n"),
        ("--dither=0\n# end", ["--dither=0.0"], "--dither=0\n# end"),
        ("--dither=0\n", ["--dither=1"], "--dither=0\n--dither=1\n"),
        ("", ["--use-energy"], "--use-energy=true\n"),
        ("", ["--dither=1"], "--dither=1\n"),
        ("# \udcff\n", ["--low-freq=0.1"], "# \udcff\n--low-freq=0.10000000000000001\n"),
    ],
)
def test_options_of_the_command_line_follow_the_text_of_the_file(
    conf: Path, text: str, overrides: list[str], expected: str
) -> None:
    conf.write_text(text, encoding="utf-8", errors="surrogateescape")
    assert read_confs(job_with(conf, *overrides)) == {"fbank.conf": expected}


def test_options_of_the_command_line_belong_to_the_first_of_several_files(conf: Path) -> None:
    conf.write_text("")
    (conf.parent / "pitch.conf").write_text("--min-f0=60\n")
    (conf.parent / "post.conf").write_text("--delta-window=3\n")
    more = {"pitch_conf": "pitch.conf", "pitch_postprocess_conf": "post.conf"}
    job = job_with(conf, "--num-mel-bins=30", feature="fbank_pitch", **more)
    texts = read_confs(job)
    assert texts == {
        "fbank.conf": "--num-mel-bins=30\n",
        "pitch.conf": "--min-f0=60\n",
        "pitch_postprocess.conf": "--delta-window=3\n",
    }
    options = parse_confs(job, texts)
    assert list(options) == ["fbank", "pitch", "pitch_postprocess"]
    assert options["fbank"].num_mel_bins == 30
    assert (options["pitch"].min_f0, options["pitch_postprocess"].delta_window) == (60.0, 3)
    alone = job_with(conf, "--min-f0=70", feature="pitch", pitch_conf="pitch.conf")
    assert read_confs(alone) == {"pitch.conf": "--min-f0=60\n--min-f0=70\n"}
    assert list(parse_confs(alone, read_confs(alone))) == ["pitch", "pitch_postprocess"]


def test_extractor_has_no_configuration(conf: Path) -> None:
    job = Job(Layout.from_paths("data", "x"), DumpOptions(preset="x"))
    assert read_confs(job) == {} == parse_confs(job, {})


def test_configuration_that_cannot_be_read_is_named(conf: Path) -> None:
    with pytest.raises(DumpError, match=r"fbank\.conf: No such file or directory; check the name of the configuration"):
        read_confs(job_with(conf))


@pytest.mark.parametrize("line", ["--output-format=htk", "--write-utt2dur=ark:x", "--device=cuda", "--engine=exact"])
def test_option_of_a_program_that_has_no_effect_in_a_dump_is_refused(conf: Path, line: str) -> None:
    conf.write_text(line + "\n")
    job = job_with(conf)
    with pytest.raises(OptionError, match=rf"^{conf}: {line} has no effect in a dump, which .*: remove the option$"):
        parse_confs(job, read_confs(job))


def test_flags_of_a_feature_are_those_that_a_dump_does_not_have_itself() -> None:
    flags = get_feature_flags("fbank")
    assert {"num-mel-bins", "dither", "utt2spk", "allow-downsample"} <= flags.keys()
    assert not {"device", "engine", "write-utt2dur", "output-format", "seed", "conf"} & flags.keys()
    assert get_feature_flags("fbank_pitch") == flags
    assert "min-f0" in get_feature_flags("pitch") and "num-mel-bins" not in get_feature_flags("pitch")


def test_values_that_differ_are_compared_with_the_defaults(conf: Path) -> None:
    job = job_with(conf)
    assert compare_values(job, "fbank.conf", "--dither=0\n", "--num-mel-bins=23\n") == {"dither": (0.0, 1.0)}
    assert compare_values(job, "fbank.conf", "", "--num-mel-bins=30  # more\n") == {"num-mel-bins": (23, 30)}
    assert compare_values(job, "fbank.conf", "--low-freq=20\n", "") == {}


def test_invalid_value_names_the_place_that_sets_it(conf: Path) -> None:
    conf.write_text("--num-mel-bins=1\n")
    job = job_with(conf)
    with pytest.raises(OptionError, match=rf"^{conf}: "):
        parse_confs(job, read_confs(job))
    conf.write_text("")
    job = replace(job, overrides=("--num-mel-bins=1",))
    with pytest.raises(OptionError) as raised:
        parse_confs(job, read_confs(job))
    assert str(conf) not in str(raised.value) and "--num-mel-bins" in str(raised.value)


def test_invalid_value_of_a_second_file_names_the_file_beside_options_of_the_command_line(conf: Path) -> None:
    conf.write_text("")
    (conf.parent / "pitch.conf").write_text("--sample-frequency=-1\n")
    job = job_with(conf, "--sample-frequency=8000", feature="fbank_pitch", pitch_conf="pitch.conf")
    with pytest.raises(OptionError, match=r"^pitch\.conf: --sample-frequency"):
        parse_confs(job, read_confs(job))


def test_invalid_text_of_a_plan_names_the_file_that_is_gone(conf: Path) -> None:
    job = Job(Layout.from_paths("data", "fbank"), DumpOptions())
    with pytest.raises(OptionError, match=r"^fbank\.conf, line 1: "):
        parse_confs(job, {"fbank.conf": "--none=1\n"})
