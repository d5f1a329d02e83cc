"""The command line of ``kaldi-compat``."""

from __future__ import annotations

from pathlib import Path

import pytest

from kaldi_compat.dump.arguments import parse_arguments
from kaldi_compat.dump.cli import main
from kaldi_compat.dump.options import DumpOptions, Job, Layout
from kaldi_compat.errors import OptionError
from kaldi_compat.options.config import UsageError
from kaldi_compat.options.declaration import get_infos


@pytest.mark.parametrize(
    "argv",
    [
        ["fbank", "data", "--nj", "8", "--compress", "false", "--resume"],
        ["--nj=8", "--no-compress", "fbank", "--resume=true", "data"],
        ["--resume", "true", "--compress=false", "--NJ", "8", "fbank", "--", "data"],
    ],
)
def test_options_stand_anywhere_and_take_values_after_a_space(argv: list[str]) -> None:
    given = parse_arguments(["dump", *argv])
    assert given == Job(Layout.from_paths("data", "fbank"), DumpOptions(nj=8, compress=False, resume=True))


def test_option_has_the_type_of_another_feature_that_has_it() -> None:
    given = parse_arguments(["dump", "mfcc", "data", "--cepstral-lifter", "22.5", "--no-use-energy", "--nj", "2"])
    assert isinstance(given, Job) and given.options == DumpOptions(nj=2)
    assert sorted(given.overrides) == ["--cepstral-lifter=22.5", "--use-energy=false"]
    with pytest.raises(OptionError, match=r"--cepstral-lifter=22.5: expected an integer"):
        parse_arguments(["dump", "plp", "data", "--cepstral-lifter=22.5"])


def test_options_are_read_from_a_configuration_file(tmp_path: Path) -> None:
    conf = tmp_path / "dump.conf"
    conf.write_text("--nj=8\n--seed=3\n")
    given = parse_arguments(["dump", "--config", str(conf), "--nj", "2", "fbank", "data"])
    assert isinstance(given, Job) and given.options == DumpOptions(nj=2, seed=3)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (
            ["dump", "fbank", "data", "--max-failure=3"],
            "there is no option --max-failure: did you mean --max-failures?",
        ),
        (["dump", "fbank", "data", "--nj"], "--nj needs a value: write --nj=VALUE"),
        (["dump", "fbank", "data", "--report", "--compress"], "--report needs a value: write --report=VALUE"),
        (["dump", "fbank", "data", "--dither", "--compress"], "--dither needs a value: write --dither=VALUE"),
        (["dump", "fbnk", "data"], "there is no feature 'fbnk': did you mean fbank?"),
        (["dump", "fbank"], "expected <feature> <data> [<log> [<archives>]], but 1 argument was given"),
        (["dump", "a", "b", "c", "d", "e"], "but 5 arguments were given"),
        (["dump", "fbank", "s3://bucket/data"], "s3://bucket/data is a URL, but a dump needs local folders:"),
        (
            ["dump", "fbank", "data", "--speeds=0.9", "--speed-dir=gs://b/a"],
            "gs://b/a is a URL, but a dump needs local",
        ),
        (["dump", "fbank", "data", "log", "gs://b/a"], "gs://b/a is a URL, but a dump needs local folders:"),
        (["dmp"], "conform, data, dump, explain, frontend, info or programs, not 'dmp': kaldi-compat"),
        ([], "expected the command conform, data, dump, explain, frontend, info or programs, but none was given:"),
        (["programs", "bash"], "programs takes no arguments, not 'bash'"),
        (
            ["dump", "fbank", "data", "--runner=ray", "--device=cuda:1"],
            "--device=cuda:1 names GPUs of this machine, but Ray assigns the GPUs: pass --device=cuda",
        ),
        (["dump", "vad", "data"], "there is no feature 'vad': the program compute-vad decides"),
        (["dump", "cmvn", "data"], "there is no feature 'cmvn': add --cmvn=speaker"),
        (["dump", "--module=a:b", "fbank", "data"], "fbank is a feature, but --module names what to compute: remove"),
        (["dump", "mfcc", "data", "--mfcc_config", "a"], "--mfcc-config of Kaldi's scripts is --conf here"),
        (["dump", "plp", "data", "--plp-config=a"], "--plp-config of Kaldi's scripts is --conf here"),
        (["dump", "mfcc_pitch", "data", "--pitch-config=a"], "--pitch-config of Kaldi's scripts is --pitch-conf here"),
        (["dump", "--cmd", "run.pl --mem 4G", "fbank", "data"], "--cmd of Kaldi's scripts is not needed: leave it out"),
        (
            ["dump", "vad", "data", "--vad-config", "a"],
            "--vad-config of Kaldi's scripts is not an option of the dump: the",
        ),
        (
            ["dump", "mfcc", "data", "--two-channel"],
            "not an option of the dump: run compute-cmvn-stats-two-channel after",
        ),
        (
            ["dump", "mfcc", "data", "--fake_dims=1:2"],
            "not an option of the dump: run modify-cmvn-stats after the dump",
        ),
        (["dump", "mfcc", "data", "--fake"], "--fake of Kaldi's scripts is not needed: leave out --cmvn"),
        (
            ["dump", "mfcc_pitch", "data", "--online-pitch-config=a"],
            "between --pitch-conf and --pitch-postprocess-conf",
        ),
        (
            ["dump", "mfcc_pitch", "data", "--delta-pitch=0.01"],
            "--delta-pitch is not an option of mfcc: write it to a file, and pass --pitch-conf=FILE",
        ),
        *[
            (
                ["dump", feature, "data", "--delta-pitch-noise-stddev=0"],
                f"--delta-pitch-noise-stddev is not an option of {program}: write it to a file, and pass "
                "--pitch-postprocess-conf=FILE",
            )
            for feature, program in (("mfcc_pitch", "mfcc"), ("pitch", "pitch"))
        ],
        (["dump", "mfcc", "data", "--delta_pitch_noise_stddev=0"], "is not an option of mfcc: remove the option"),
        (["dump", "--no-nj", "fbank", "data"], "there is no option --no-nj: --help lists all options"),
        *[
            (["dump", "fbank", "data", option], message)
            for option, message in (
                ("--num-mel-bin=30", "did you mean --num-mel-bins?"),
                ("--resum", "did you mean --resume?"),
                ("--num-ceps=12", "--num-ceps is not an option of fbank"),
                ("--num-mel-bins=many", "--num-mel-bins=many: expected an integer"),
                ("--num-mel-bins", "--num-mel-bins needs a value"),
                ("--output-format=htk", "--output-format"),
                ("--readers=1_0", "--readers=1_0: expected an integer of 32 bits"),
                ("--readers=ten", "--readers=ten: expected an integer of 32 bits"),
                ("--readers=1.5", "--readers=1.5: expected an integer of 32 bits"),
                ("--readers=", "--readers=: expected an integer of 32 bits"),
                ("--max-failures=-2", "--max-failures must be at least -1, not -2"),
            )
        ],
    ],
)
def test_mistakes_are_one_line_without_usage(argv: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(OptionError):
        parse_arguments(argv)
    assert main(argv) == 2
    error = capsys.readouterr().err
    assert error.startswith("kaldi-compat: ")
    assert error.count("\n") == 1
    assert message in error


@pytest.mark.parametrize(
    ("job", "options"),
    [
        (
            "fbank",
            "--pitch-conf=p --pitch-postprocess-conf=p --paste-length-tolerance=3 --pool=mean --kmeans=c.npy "
            "--dtype=float16 --compile --allow-pickle --trust-extractor --max-device-memory=2 --address=local "
            "--no-verify",
        ),
        ("fbank --no-compress", "--compression-method=2"),
        ("fbank --no-pipes", "--command-timeout=5"),
        ("pitch", "--paste-length-tolerance=3 --engine=torch"),
        ("pitch --pitch-conf=p", "--conf=p"),
        (
            "--preset=wenet",
            "--conf=p --pitch-conf=p --pitch-postprocess-conf=p --seed=2 --compression-method=2 "
            "--compile --allow-pickle --trust-extractor --max-device-memory=2",
        ),
        ("--preset=wenet --engine=exact", "--dtype=float16"),
        ("--preset=wenet", "--dtype=bfloat16"),
        ("--onnx=x.onnx --preset=wenet", "--conf=p --engine=torch --dtype=float16 --compile --trust-extractor"),
        ("--onnx=x.onnx --preset=wenet --device=cuda", "--dtype=float16"),
        ("--transformers=x", "--conf=p --engine=torch --seed=2 --trust-extractor"),
        ("--module=a:b", "--conf=p --engine=torch --seed=2 --allow-pickle"),
    ],
)
def test_option_without_effect_is_refused(job: str, options: str) -> None:
    for option in options.split():
        name = option.partition("=")[0].replace("--no-", "--")
        with pytest.raises(
            UsageError, match=f"^{name}=.* has no effect here: it applies only to .*; remove the option"
        ):
            parse_arguments(["dump", *job.split(), "data", option])


@pytest.mark.parametrize(
    "command",
    [
        "fbank_pitch data --pitch-conf=p --pitch-postprocess-conf=p --paste-length-tolerance=3 --conf=p --engine=exact",
        "fbank data --compression-method=2 --seed=2 --device=cuda --max-device-memory=2 --runner=ray --address=local",
        "--preset=wenet data --engine=torch --pool=mean --compress --compression-method=2 --dtype=bfloat16",
        "--preset=wenet data --device=cuda --dtype=float16",
        "--onnx=x.onnx data --kmeans=c.npy",
        "--module=a:b data --dtype=float16 --compile --trust-extractor --resume --no-verify",
        "--transformers=a data --dtype=float16 --compile --allow-pickle --shard=1/2 --no-verify",
    ],
)
def test_option_with_an_effect_is_accepted(command: str) -> None:
    assert isinstance(parse_arguments(["dump", *command.split()]), Job)


@pytest.mark.parametrize("argv", [["dump", "--help"], ["dump", "-h"], ["dump", "fbank", "--help"]])
def test_help_goes_to_standard_output(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 0
    out = capsys.readouterr().out
    assert "mfcc_pitch" in out
    assert "  --window-utterances         : read at most this many utterances ahead" in out


@pytest.mark.parametrize("argv", [["--version"], ["dump", "--version"]])
def test_version(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 0
    assert capsys.readouterr().out.startswith("kaldi-compat (kaldi-compat) ")


def test_units_of_options_are_spelled_alike() -> None:
    assert {info.unit for info in get_infos(DumpOptions).values()} == {"", "seconds", "GiB"}
    assert get_infos(DumpOptions)["max_device_memory"].unit == "GiB"
