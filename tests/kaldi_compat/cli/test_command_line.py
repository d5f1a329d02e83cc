"""The command line, configuration files, log lines and exit statuses of the programs."""

from __future__ import annotations

import dataclasses
import importlib
import json
import math
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kaldi_compat.cli.command_line import (
    StandardOptions,
    format_shell_line,
    format_usage,
    parse_command_line,
    rewrite_script_style,
)
from kaldi_compat.cli.log import log_as_kaldi, log_verbose, logger
from kaldi_compat.cli.program import program
from kaldi_compat.dump import cli as dump
from kaldi_compat.errors import OptionError
from kaldi_compat.options import config
from kaldi_compat.options.base import BaseOptions
from kaldi_compat.options.config import get_flags, load_options
from kaldi_compat.options.declaration import option
from kaldi_compat.options.pitch import PitchOptions
from kaldi_compat.options.spectral import FbankOptions
from tests.support.processes import output_of
from tests.support.programs import main_of, run

ROOT = Path(__file__).parents[3]
CASES = json.loads((ROOT / "reference_data" / "cases.json").read_text())


class Options(BaseOptions):
    """One option of each type."""

    flag: bool = option(False, "a boolean")
    num_things: int = option(3, "an integer")
    scale: float = option(0.5, "a number")
    name: str = option("x", "a text")
    odd_name: int = option(1, "spelled with an underscore", flag="odd_name")


def values(*argv: str) -> dict[str, object]:
    return dict(parse_command_line(argv, Options, StandardOptions).values)


def test_values_of_each_type() -> None:
    given = values("--flag=true", "--num-things=-7", "--scale=1e-3", "--name=a b", "--odd_name=2")
    assert given == {"flag": True, "num_things": -7, "scale": 1e-3, "name": "a b", "odd_name": 2}


@pytest.mark.parametrize("spelling", ["--num-things=4", "--num_things=4", "--Num-Things=4", "--NUM_THINGS= 4 "])
def test_names_of_options_ignore_case_and_underscores(spelling: str) -> None:
    assert values(spelling) == {"num_things": 4}


def test_only_ascii_white_space_is_trimmed() -> None:
    assert values("--name= a\u3000b\u00a0 ") == {"name": "a\u3000b\u00a0"}
    with pytest.raises(OptionError):
        values("--num-things=\u30003")


@pytest.mark.parametrize(("text", "value"), [("", True), ("=t", True), ("=1", True), ("=TRUE", True), ("=F", False)])
def test_booleans_are_read_as_by_kaldi(text: str, value: bool) -> None:
    assert values(f"--flag{text}") == {"flag": value}


@pytest.mark.parametrize(
    "wrong",
    [
        "--flag=",
        "--flag=maybe",
        "--flag=yes",
        "--num-things=3.5",
        "--num-things=",
        "--num-things",
        "--num-things=1_000",
        "--num-things=3000000000",
        "--scale=abc",
        "--scale=",
        "--scale=1e",
        "--scale=0x10",
        "--scale=1_0",
        "--name",
        "--=3",
        "--no-such=1",
    ],
)
def test_wrong_values_are_refused_in_one_line(wrong: str) -> None:
    with pytest.raises(OptionError) as caught:
        values(wrong)
    assert "\n" not in str(caught.value)


def test_unknown_option_names_the_nearest() -> None:
    with pytest.raises(OptionError, match="did you mean --num-things"):
        values("--num-thing=1")


@pytest.mark.parametrize("name", ["num-things", "scale", "name"])
def test_a_value_after_a_space_is_shown_the_equals_sign(name: str, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=f"--{name} needs its value after an =, without a space"):
        values(f"--{name}", "7")
    conf = tmp_path / "a.conf"
    for line in (f"--{name} 7", f"--{name} = 7"):
        conf.write_text(f"{line}  # seven\n")
        with pytest.raises(OptionError, match=rf"a\.conf, line 1: .* as in --{name}=7, not '{line}'"):
            values(f"--config={conf}")


def test_last_value_wins() -> None:
    assert values("--scale=1", "--scale=2") == {"scale": 2.0}


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("num_mel_bins", "80.0", 80.0), ("num_mel_bins", "x", "80"), ("num_mel_bins", "4294967296", 2**32),
        ("num_mel_bins", "true", True), ("dither", "a", "a"), ("dither", "true", True), ("snip_edges", "no", "false"),
        ("snip_edges", "2", 1), ("num_mel_bins", "", None), ("waveform_scale", "0", 0),
        ("waveform_scale", "nan", math.nan), ("window_type", "x", 3),
    ],
)  # fmt: skip
def test_values_pass_the_checks_that_flags_pass(name: str, text: str, value: object) -> None:
    flag = get_flags(FbankOptions)[name.replace("_", "-")]
    with pytest.raises(OptionError, match=name.replace("_", "[-_]")):
        FbankOptions(**{name: flag.parse(text)})  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=f"^{name} must be"):
        FbankOptions(**{name: value})  # type: ignore[arg-type]


def test_numbers_of_numpy_are_numbers() -> None:
    given = FbankOptions(num_mel_bins=np.int64(80), dither=np.float32(0.5), sample_frequency=8000, use_energy=np.True_)  # type: ignore[arg-type]
    assert given == FbankOptions(num_mel_bins=80, dither=0.5, sample_frequency=8000.0, use_energy=True)
    kinds = [type(getattr(given, field.name)) is type(field.default) for field in dataclasses.fields(given)]
    assert all(kinds)


def test_options_end_at_the_first_argument() -> None:
    line = parse_command_line(["--flag", "ark:a", "--scale=2"], Options, StandardOptions)
    assert line.values == {"flag": True}
    assert line.arguments == ("ark:a", "--scale=2")


def test_a_lone_double_hyphen_ends_the_options() -> None:
    assert parse_command_line(["--flag", "--", "--scale=2", "--"], Options, StandardOptions).arguments == (
        "--scale=2",
        "--",
    )
    assert parse_command_line(["a", "--", "b"], Options, StandardOptions).arguments == ("a", "b")


def test_help_comes_before_mistakes() -> None:
    assert parse_command_line(["--no-such=1", "--help"], Options, StandardOptions).standard.help


def test_help_and_config_count_after_arguments_too(tmp_path: Path) -> None:
    # Kaldi's first pass goes over all that stands before a lone "--"; what stands there is an argument none the less.
    assert parse_command_line(["ark:a", "ark:b", "--help"], Options, StandardOptions).standard.help
    assert not parse_command_line(["ark:a", "--", "--help"], Options, StandardOptions).standard.help
    conf = tmp_path / "a.conf"
    conf.write_text("--num-things=9\n--scale=2\n")
    line = parse_command_line(["--scale=3", "ark:a", f"--config={conf}"], Options, StandardOptions)
    assert (line.values, line.arguments) == ({"num_things": 9, "scale": 3.0}, ("ark:a", f"--config={conf}"))
    assert parse_command_line(["--", f"--config={conf}"], Options, StandardOptions).values == {}


def test_config_file(tmp_path: Path) -> None:
    conf = tmp_path / "a.conf"
    conf.write_text("# comment\n\n--num_things=9 # nine\n--flag\n  --scale= 2\n")
    assert values(f"--config={conf}") == {"num_things": 9, "flag": True, "scale": 2.0}
    assert values("--num-things=1", f"--config={conf}")["num_things"] == 1


@pytest.mark.parametrize("line", ["num-things=3", "--no-such=3", "--num-things=x", "--=2"])
def test_bad_line_of_a_config_file_is_named(tmp_path: Path, line: str) -> None:
    conf = tmp_path / "a.conf"
    conf.write_text(f"--flag=true\n{line}\n")
    with pytest.raises(OptionError, match=r"a\.conf, line 2"):
        values(f"--config={conf}")


def test_missing_config_file() -> None:
    with pytest.raises(OptionError, match=r"no/such\.conf"):
        values("--config=no/such.conf")
    with pytest.raises(OptionError, match="configuration file has no name"):
        values("--config=")


def test_endless_config_file_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "MAX_CHARACTERS", 1 << 10)
    with pytest.raises(OptionError, match="/dev/zero has more than 1024 characters: name a configuration file"):
        values("--config=/dev/zero")


def test_a_long_line_is_not_repeated_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    long, source, data = tmp_path / "long", tmp_path / "a.ark", tmp_path / "data"
    long.write_text("x" * 1_000_000 + "\n")
    source.write_text("u [ 1 2 ]\n")
    data.mkdir()
    main_of("copy-feats")([f"--config={long}", f"ark:{source}", "ark:/dev/null"])
    main_of("compute-cmvn-stats")([f"--spk2utt=ark,t:{long}", f"ark:{source}", "ark:/dev/null"])
    dump.main(["fbank", str(data), f"--conf={long}"])
    assert len(capsys.readouterr().err) < 10_000


def test_load_options_is_the_same_as_flags(tmp_path: Path) -> None:
    conf = tmp_path / "fbank.conf"
    conf.write_text("--num-mel-bins=80\n--window-type=hamming\n--use-energy\n")
    flags = parse_command_line([f"--config={conf}", "--dither=0"], FbankOptions, StandardOptions).values
    assert load_options(FbankOptions, conf, dither=0.0) == FbankOptions(**flags)  # type: ignore[arg-type]


def test_load_options_checks_values(tmp_path: Path) -> None:
    conf = tmp_path / "fbank.conf"
    conf.write_text("--window-type=round\n")
    with pytest.raises(OptionError, match="window_type"):
        load_options(FbankOptions, conf)


@pytest.mark.parametrize(
    ("word", "quoted"),
    [
        ("ark:a,b", "ark:a,b"),
        ("", "''"),
        ("a b", "'a b'"),
        ("it's", '"it\'s"'),
        ("it's $x", "'it'\\''s $x'"),
        ("a|b", "'a|b'"),
        ("[0:1]", "[0:1]"),
        ("é", "'é'"),
    ],
)
def test_quoting_of_the_printed_command_line(word: str, quoted: str) -> None:
    assert format_shell_line(["x", word]) == f"x {quoted}"
    given_back = subprocess.run(["bash", "-c", f"printf %s {quoted}"], capture_output=True, check=True)
    assert given_back.stdout.decode() == word


def test_usage_lists_every_option_as_kaldi_does() -> None:
    text = format_usage("Does it.", Options)
    assert "  --num-things                : an integer (int, default = 3)\n" in text
    assert '  --name                      : a text (string, default = "x")\n' in text
    assert "  --odd_name                  : spelled with an underscore (int, default = 1)\n" in text
    assert "  --verbose " in text
    listed = re.findall(r"^  --(\S+)", text, re.M)
    assert listed[:5] == sorted(listed[:5])


def test_flag_table_of_fbank_has_kaldis_defaults() -> None:
    kaldi = {case["id"]: case["options"] for case in CASES if case["group"] == "flags"}["compute-fbank-feats"]
    flags = get_flags(FbankOptions)
    compared = [(flags[name].kind, flags[name].shown_default) for name, _, _ in kaldi if name in flags]
    assert compared == [(kind, default) for name, kind, default in kaldi if name in flags]
    assert len(compared) > 20


@program("try-it", "Tries it.", Options)
def try_it(options: Options, first: str, second: str = "") -> int:
    """Options of the program that the tests below run."""
    logger.info("Done %s", first)
    log_verbose(2, "more")
    if first == "wrong":
        raise OptionError("it is\nwrong")
    if first == "fault":
        raise ZeroDivisionError("by zero")
    if first == "pipe":
        raise OSError("outer") from BrokenPipeError(32, "Broken pipe")
    if first == "interrupt":
        raise KeyboardInterrupt
    return int(options.num_things)


# The words of a command line, the exit status, and a pattern of all that is written to standard error.
SAID: dict[str, tuple[list[str], int, str]] = {
    "a line of the log": (["a"], 3, r"LOG \(try-it\[[0-9.a-z]+\]:try_it\(\):test_command_line\.py:\d+\) Done a\n"),
    "the command line": (["--print-args", "--num-things=0", "a b"], 0, r"try-it .*--num-things=0 'a b' \nLOG .*"),
    "VLOG of this level": (["--verbose=2", "a"], 3, r"LOG .*\nVLOG\[2\] \(try-it.*"),
    "no VLOG of a higher level": (["--verbose=1", "a"], 3, r"LOG [^\n]*\n"),
    "LOG lines below level 0, as in Kaldi": (["--verbose=-1", "a"], 3, r"LOG [^\n]*\n"),
    "nothing of an interrupt": (["interrupt"], 130, r"LOG [^\n]*\n"),
    "the usage and the number of arguments": ([], 1, r".*Tries it\..*\ntry-it: expected 1 to 2 arguments, not 0\n"),
    "the usage for too many arguments": (["a", "b", "c"], 1, r".*Tries it\..*"),
    "a mistake in one line": (
        ["wrong"],
        255,
        r"LOG .*\nERROR \(try-it\[.*\]:try_it\(\):test_\w+\.py:\d+\) it is wrong\n",
    ),
    "a fault of ours in one line": (["fault"], 255, r"LOG [^\n]*\n[^\n]*ZeroDivisionError: by zero[^\n]*\n"),
    # Kaldi's programs print their usage here, and recipes' logs are compared with theirs.
    "the usage and an unknown option": (["--num-thing=1", "a"], 255, r".*Tries it\..*: did you mean --num-things\?\n"),
    **{f"{wrong} in one line": ([wrong, "a"], 255, r"[^\n]*\n") for wrong in ("--num-things=x", "--scale=", "--name")},
    "--flag= in one line": (["--flag=", "a"], 255, r"[^\n]*\n"),
}


@pytest.mark.parametrize("said", SAID)
def test_exit_status_and_what_is_said(said: str) -> None:
    words, status, pattern = SAID[said]
    found, log = run(try_it, *words)
    assert found == status
    assert re.fullmatch(pattern, log, re.S), log


def script(name: str) -> list[str]:
    """The command that runs a program as its console script does."""
    module = "kaldi_compat.programs." + name.replace("-", "_")
    return [sys.executable, "-c", f"import sys; from {module} import main; sys.exit(main())"]


def test_programs_run_in_a_thread_of_a_process_that_an_interrupt_ends() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(run, main_of("copy-feats"), "ark:/dev/null", "ark:/dev/null").result()[0] == 1
        assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="reads ahead on two cores only")
def test_interrupt_does_not_wait_for_the_threads_that_read_and_compute(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    (tmp_path / "wav.scp").write_text(f"u touch {begun}; exec sleep 9 |\n")
    command = [*script("compute-fbank-feats"), "--print-args=false", f"scp:{tmp_path}/wav.scp", "ark:/dev/null"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True) as process:
        while not begun.exists():
            assert process.poll() is None
            time.sleep(0.02)
        time.sleep(0.1)
        before = time.monotonic()
        process.send_signal(signal.SIGINT)
        status = process.wait()
        took = time.monotonic() - before
        os.killpg(process.pid, signal.SIGKILL)
        assert process.stderr is not None
        assert (status, process.stderr.read()) == (-signal.SIGINT, b"") and took < 4  # so that shells end, too


def test_broken_pipe_ends_quietly(tmp_path: Path) -> None:
    archive = tmp_path / "a.txt"
    archive.write_text("".join(f"key{i} [\n  1 2 3\n  4 5 6 ]\n" for i in range(20000)))
    command = [*script("copy-feats"), "--print-args=false", f"ark:{archive}", "ark,t:-"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == -signal.SIGPIPE


def test_full_disk_is_reported() -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    run = subprocess.run(
        [*script("copy-feats"), "ark:-", "ark:/dev/full"], input=b"a [ 1 2 ]\n", capture_output=True, check=False
    )
    assert run.returncode == 255
    assert b"No space left" in run.stderr
    assert b"Traceback" not in run.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
@pytest.mark.parametrize("arguments", ["programs", "frontend show beats", "dump --help"])
@pytest.mark.parametrize(
    ("output", "why"), [("> /dev/full", "No space left on device"), (">&-", "it is closed"), ("| true", "")]
)
def test_text_that_nobody_gets_is_not_lost_in_silence(arguments: str, output: str, why: str) -> None:
    code = "import sys; from kaldi_compat.dump.entry_point import main; sys.exit(main())"
    command = f"{shlex.join([sys.executable, '-c', code])} {arguments} {output}; exit ${{PIPESTATUS[0]}}"
    run = subprocess.run(["bash", "-c", command], stderr=subprocess.PIPE, check=False)
    says = f"kaldi-compat: standard output cannot be written to: {why}\n" if why else ""
    assert (run.returncode, run.stderr.decode()) == (255 if why else 141, says)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
@pytest.mark.parametrize("buffered", ["", "1"])
def test_version_that_nobody_gets_is_not_lost_in_silence(buffered: str) -> None:
    with open("/dev/full", "wb") as full:
        run = subprocess.run(
            [*script("copy-feats"), "--version"], stdout=full, stderr=subprocess.PIPE, check=False,
            env=os.environ | {"PYTHONUNBUFFERED": buffered},
        )  # fmt: skip
    assert run.stderr == b"copy-feats: standard output cannot be written to: No space left on device\n"
    assert run.returncode == 255


LIGHT = [
    case["id"] for case in CASES if case["group"] == "flags" and not re.match("compute-.*-(feats|pitch)", case["id"])
]


def test_light_programs_do_not_import_torch() -> None:
    modules = [f"kaldi_compat.programs.{name.replace('-', '_')}" for name in LIGHT]
    code = "import importlib, sys\nfor m in sys.argv[1:]: importlib.import_module(m)\nassert 'torch' not in sys.modules"
    output_of(code, *modules)


def test_a_package_that_is_missing_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    @program("needy", "Usage: needy")
    def needy(options: object) -> int:
        return importlib.import_module("no_such_package").answer

    assert needy([]) == 255
    assert "no_such_package is not installed: pip install no_such_package" in capsys.readouterr().err


@pytest.mark.parametrize("kind", [FbankOptions, PitchOptions])
@pytest.mark.parametrize("name", ["sample_frequency", "frame_shift", "frame_length"])
@pytest.mark.parametrize("value", [float("inf"), float("nan"), 1e300, 0.0, -1.0])
def test_rates_and_times_can_be_counted_by(kind: Any, name: str, value: float) -> None:
    with pytest.raises(OptionError, match=name):
        kind(**{name: value})


def test_version_is_printed_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert try_it(["--version", "a", "b", "c"]) == 0
    assert re.fullmatch(r"try-it \(kaldi-compat\) \d+\.\d+\.\S+\n", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("argv", "rewritten"),
    [
        (["a", "--num-things", "3", "b"], ["--num-things=3", "--", "a", "b"]),
        (["--flag", "a"], ["--flag", "--", "a"]),
        (["--flag", "true", "--no-flag", "--", "--flag"], ["--flag=true", "--flag=false", "--", "--flag"]),
        (["--scale", "-1.5", "-h"], ["--scale=-1.5", "--help", "--"]),
        (["--unknown", "a"], ["--unknown", "--", "a"]),
    ],
)
def test_script_style_is_rewritten(argv: list[str], rewritten: list[str]) -> None:
    assert rewrite_script_style(argv, get_flags(Options)) == rewritten


def test_control_characters_do_not_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with log_as_kaldi("copy-feats", verbose=0):
        logger.warning("no statistics for %s", "\x1b[31mred\x07")
    errors = capsys.readouterr().err
    assert errors.startswith("WARNING (copy-feats[")
    assert errors.endswith("no statistics for \\x1b[31mred\\x07\n")
