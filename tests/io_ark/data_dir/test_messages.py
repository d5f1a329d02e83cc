"""What Kaldi's scripts print and write for small directories: their messages, errors and exit statuses."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import io_ark
from io_ark.data_dir import DataDirError, scripts
from io_ark.data_dir.scripts import SCRIPTS
from io_ark.data_dir.stage import Printer
from tests.io_ark.data_dir.test_scripts import directory

ONE_SPEAKER = """\
validate_data_dir.sh: WARNING: you have only one speaker.  This probably a bad idea.
   Search for the word 'bold' in http://kaldi-asr.org/doc/data_prep.html
   for more information.
"""


@pytest.mark.parametrize(
    ("command", "said"),
    [("perturb_data_dir_speed.sh 0.9 data out", "sox: command not found\n"),
     ("resample_data_dir.sh 8000 data", "Could not find sox in PATH\n")],
)  # fmt: skip
def test_missing_sox_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any, command: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("shutil.which", lambda name: None)
    directory(tmp_path / "data")
    name, *argv = command.split()
    say = Printer(name)
    assert scripts.run_protected(say, lambda: scripts.call_script(SCRIPTS[name], say, argv)) == 1
    advice = "sox is missing, and the commands in wav.scp will call it: install sox"
    assert capfd.readouterr() == (said, f"{name}: {advice}\n") and not Path("out").exists()


def test_carriage_returns_are_removed_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    monkeypatch.chdir(tmp_path)
    data = directory(tmp_path / "data")
    (data / "text").write_bytes(b"u0000 x\r\nu0001 a\rb\nu0002 y\r\n")
    (data / "utt2uniq").write_bytes(b"u0002 x\r\nu0001 y\r\nu0000 z\r")
    assert scripts.run_data_command(["fix", "data"]) == 1
    assert "data/text:1: u0000: ends with a carriage return: " in capfd.readouterr().err
    assert scripts.run_data_command(["fix", "--strip-cr", "data"]) == 0
    said = [line for line in capfd.readouterr().out.splitlines() if "carriage" in line]
    assert said == [
        f"kaldi-compat data fix: removed {n} carriage returns from data/{name}"
        for n, name in ((2, "text"), (3, "utt2uniq"))
    ]
    assert (data / "text").read_bytes() == b"u0000 x\nu0001 a\rb\nu0002 y\n"
    assert (data / "utt2uniq").read_bytes() == b"u0000 z\nu0001 y\nu0002 x\n"


def test_closed_standard_error_is_no_obstacle(monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    def fail() -> int:
        raise DataDirError("is bad", "file", status=3)

    monkeypatch.setattr(sys, "stderr", None)
    assert scripts.run_protected(Printer("x.sh"), fail) == 3
    assert capfd.readouterr() == ("", "")


def test_arguments_after_two_dashes_are_no_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    monkeypatch.chdir(tmp_path)
    directory(tmp_path / "--data")
    assert scripts.run_data_command(["info", "--", "--data"]) == 0
    assert capfd.readouterr().out == "<DataDir --data: 3 utterances, 1 speakers, utt2spk spk2utt text wav.scp>\n"
    assert scripts.run_data_command(["subset", "--first", "--", "--data", "2", "--part"]) == 0
    assert Path("--part/utt2spk").read_text() == "u0000 s\nu0001 s\n"


def test_closed_pipe_ends_a_script_without_a_message(monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    def write(*_: object) -> int:
        raise BrokenPipeError

    assert scripts.run_protected(Printer("x.sh"), write) == 141
    assert scripts.run_protected(Printer("x.sh"), lambda: 7) == 7
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("command", "files", "out", "error", "status", "written"),
    [
        ("fix_data_dir.sh none", {}, "fix_data_dir.sh: no such directory none\n", "", 1, ""),
        (
            "split_data.sh none 2",
            {},
            "",
            "split_data.sh: utils/split_scp.pl: Error opening input scp file none/utt2spk\n",
            1,
            "",
        ),
        (
            "split_data.sh data 2",
            {"data/utt2spk": "u0 s\nu1 s\nu2 t\nu3 u\n"},
            (
                "** split_data.sh: warning, #lines is (utt2spk,text) is (4,3); you can \n"
                "** use utils/fix_data_dir.sh to fix this.\n"
            ),
            (
                "filter_scps.pl: warning: some input lines did not get output\n"
                "filter_scps.pl: warning: some input lines did not get output\n"
            ),
            0,
            "",
        ),
        (
            "resample_data_dir.sh 8000 data",
            {"data/wav.scp": None},
            "",
            "resample_data_dir.sh: data/wav.scp: is missing, but resampling needs the file: add the file\n",
            1,
            "",
        ),
        (
            "perturb_data_dir_volume.sh data",
            {"data/wav.scp": None},
            "perturb_data_dir_volume.sh: Expected data/wav.scp to exist\n",
            "",
            1,
            "",
        ),
        (
            "perturb_data_dir_speed_3way.sh data out",
            {"data/wav.scp": None},
            "perturb_data_dir_speed_3way.sh: expected data/wav.scp to exist\n",
            "",
            1,
            "",
        ),
        (
            "perturb_data_dir_speed_3way.sh data out",
            {"out/feats.scp": "x y\n"},
            "perturb_data_dir_speed_3way.sh: out/feats.scp already exists: refusing to run this (please delete out/feats.scp if you want this to run)\n",
            "",
            1,
            "",
        ),
        (
            "perturb_data_dir_speed.sh 0.9x data out",
            {},
            "",
            "perturb_data_dir_speed.sh: the warping factor must be a number above 0, such as 0.9, not '0.9x'\n",
            1,
            "",
        ),
        (
            "validate_data_dir.sh --no-feats --no-text data",
            {"data/segments": "u0000 r 0 1\n", "data/wav.scp": None},
            ONE_SPEAKER + ("validate_data_dir.sh: in directory data, segments file exists but no wav.scp\n"),
            "",
            1,
            "",
        ),
        (
            "validate_data_dir.sh --no-feats --no-text data",
            {"data/utt2spk": "u0000 s\nu0001\nu0002 s\n"},
            "validate_data_dir.sh: data/utt2spk has wrong format.\n",
            "validate_data_dir.sh: data/utt2spk:2: u0001: write an utterance and its speaker\n",
            0,
            "",
        ),
        (
            "validate_data_dir.sh --no-feats data",
            {"data/text": "u0000 x\nu0001 \x01\nu0002 \x02\n"},
            ONE_SPEAKER + ("validate_data_dir.sh: text contains 2 lines with non-printable characters\n"),
            "validate_data_dir.sh: data/text:2: u0001: contains characters that cannot be printed: remove them, or pass --non-print\n",
            1,
            "",
        ),
        (
            "validate_data_dir.sh --no-feats data",
            {"data/segments": "u0000 r 0 1\nu0001 r 0 1\n", "data/wav.scp": "r a.wav\n"},
            ONE_SPEAKER
            + (
                "validate_data_dir.sh: Utterance list differs between data/utt2spk and data/segments \n"
                "validate_data_dir.sh: Lengths are 2 vs 3\n"
            ),
            "validate_data_dir.sh: data/segments:3: u0002: is missing, but is in data/utt2spk: add the key, or let kaldi-compat data fix remove the key\n",
            1,
            "",
        ),
        (
            "validate_data_dir.sh --no-feats data",
            {"data/text": "u0000 x\nu0001 x <s> y\nu0002 #0\n"},
            ONE_SPEAKER + ("validate_data_dir.sh: Error: in data, text contains illegal symbol <s>\n"),
            "validate_data_dir.sh: data/text: u0001: contains <s>: remove the symbol\n",
            1,
            "",
        ),
        (
            "validate_data_dir.sh --no-feats data",
            {"data/utt2spk": "u0000 s\nu0001 s\n u0002 r\n", "data/spk2utt": "r u0002\ns u0000 u0001\n"},
            (
                "validate_data_dir.sh: utt2spk is not in sorted order when sorted first on speaker-id \n"
                "(fix this by making speaker-ids prefixes of utt-ids)\n"
            ),
            "validate_data_dir.sh: data/utt2spk:3: u0002: its speaker r comes after s: begin every utterance's name with its speaker, or pass --no-spk-sort\n",
            1,
            "",
        ),
        ("utt2spk_to_spk2utt.pl a b", {}, "", "Usage: utt2spk_to_spk2utt.pl [utt2spk] > spk2utt\n", 255, ""),
        ("subset_scp.pl 2", {}, "", "Usage: subset_scp.pl [--quiet][--first|--last] N in.scp\n", 255, ""),
        (
            "subset_scp.pl 0 data/text",
            {},
            "",
            'subset_scp.pl: First command-line parameter to subset_scp.pl must be an integer, got "0"\n',
            255,
            "",
        ),
        (
            "subset_scp.pl 1.5 data/text",
            {},
            "",
            'subset_scp.pl: First command-line parameter to subset_scp.pl must be an integer, got "1.5"\n',
            255,
            "",
        ),
        (
            "subset_scp.pl 4 data/text",
            {},
            "",
            "subset_scp.pl: You requested from subset_scp.pl more elements than available: 4 > 3\n",
            255,
            "",
        ),
        ("subset_scp.pl --quiet 4 data/text", {}, ("u0000 x y\nu0001 x y\nu0002 x y\n"), "", 0, ""),
        ("subset_scp.pl --quiet --last 1 data/text", {}, "u0002 x y\n", "", 0, ""),
        ("subset_scp.pl --first 1 data/text", {}, "u0000 x y\n", "", 0, ""),
        ("subset_scp.pl -1 data/text", {}, "", "", 0, ""),
        (
            "split_scp.pl data/text o1 o2 o3 o4",
            {},
            "",
            "split_scp.pl: You are splitting into too many pieces! [reduce $nj (4) to be smaller than the number of lines (3) in data/text]\n",
            255,
            "",
        ),
        (
            "split_scp.pl empty o1",
            {"empty": ""},
            "",
            (
                "split_scp.pl: error: empty input scp file empty\n"
                "split_scp.pl: You are splitting into too many pieces! [reduce $nj (1) to be smaller than the number of lines (0) in empty]\n"
            ),
            255,
            "",
        ),
        (
            "split_scp.pl -j 4 1 --utt2spk=pairs data/text",
            {"pairs": "u0000 a\nu0001 b\nu0002 a\n"},
            "",
            "split_scp.pl: Refusing to split data because number of speakers 2 is less than the number of output .scp files 4: use fewer parts\n",
            255,
            "",
        ),
        (
            "split_scp.pl --utt2spk=pairs data/text o1 o2",
            {"pairs": "u0000 a\nu0001 a\nu0002 a\n"},
            "",
            "split_scp.pl: Refusing to split data because number of speakers 1 is less than the number of output .scp files 2: use fewer parts\n",
            255,
            "",
        ),
        (
            "split_scp.pl data/text none/o1",
            {},
            "",
            "split_scp.pl: Could not open scp file none/o1 for writing: No such file or directory\n",
            2,
            "",
        ),
        (
            "split_scp.pl none o1",
            {},
            "",
            "split_scp.pl: Error opening input scp file none: No such file or directory\n",
            2,
            "",
        ),
        (
            "filter_scp.pl none data/text",
            {},
            "",
            "filter_scp.pl: Could not open id-list file none: No such file or directory\n",
            2,
            "",
        ),
        ("filter_scp.pl data/text none", {}, "", "Can't open none: No such file or directory\n", 0, ""),
        ("apply_map.pl none", {}, "", "apply_map.pl: Error opening map file none: No such file or directory\n", 2, ""),
        ("validate_text.pl", {}, "", "Usage: validate_text.pl <text-file>\n", 255, ""),
        (
            "validate_text.pl empty",
            {"empty": ""},
            "",
            "validate_text.pl: ERROR: file 'empty' is empty or does not exist\n",
            1,
            "",
        ),
        ("validate_text.pl none", {}, "", "validate_text.pl: ERROR: failed to open none\n", 1, ""),
        ("validate_text.pl data", {}, "", "validate_text.pl: ERROR: failed to open data\n", 1, ""),
        ("validate_text.pl latin", {"latin": "u0 gr\udcf6\udcdfe\r\n"}, "", "", 0, ""),
        (
            "validate_text.pl cut",
            {"cut": "u0 x\nu1 y\x0b"},
            "",
            (
                "validate_text.pl: The current line (nr. 1) has invalid newline\n"
                "validate_text.pl: cut:2: validate_text.pl: ERROR: text file 'cut' contains disallowed UTF-8 whitespace character(s): add a newline at its end\n"
            ),
            1,
            "",
        ),
        (
            "copy_data_dir.sh --utt-prefix",
            {},
            "",
            "copy_data_dir.sh: --utt-prefix needs a value: write it after the option\n",
            1,
            "",
        ),
        ("copy_data_dir.sh --no-such x data out", {}, "", "copy_data_dir.sh: invalid option --no-such\n", 1, ""),
        (
            "get_utt2dur.sh data",
            {
                "data/wav.scp": "u0000 cat a.wav # sox speed |\nu0001 cat a.wav # sox speed |\nu0002 cat a.wav # sox speed |\n"
            },
            (
                "get_utt2dur.sh: segments file does not exist so getting durations from wave files\n"
                "get_utt2dur.sh: could not get utterance lengths from sphere-file headers, using wav-to-duration\n"
                "get_utt2dur.sh: reading from the entire wav file to fix the problem caused by sox commands with speed perturbation. It is going to be slow.\n"
                "... It is much faster if you call get_utt2dur.sh *before* doing the speed perturbation via e.g. perturb_data_dir_speed.sh or \n"
                "... perturb_data_dir_speed_3way.sh.\n"
                "get_utt2dur.sh: computed data/utt2dur\n"
            ),
            "",
            0,
            "u0000 0.25 \nu0001 0.25 \nu0002 0.25 \n",
        ),
        (
            "get_reco2dur.sh data",
            {
                "data/wav.scp": "u0000 cat a.wav # sox speed |\nu0001 cat a.wav # sox speed |\nu0002 cat a.wav # sox speed |\n"
            },
            (
                "get_reco2dur.sh: obtaining durations from recordings\n"
                "get_reco2dur.sh: could not get recording lengths from sphere-file headers, using wav-to-duration\n"
                "get_reco2dur.sh: reading from the entire wav file to fix the problem caused by sox commands with speed perturbation. It is going to be slow.\n"
                "... It is much faster if you call get_reco2dur.sh *before* doing the speed perturbation via e.g. perturb_data_dir_speed.sh or \n"
                "... perturb_data_dir_speed_3way.sh.\n"
                "get_reco2dur.sh: computed data/reco2dur\n"
            ),
            "",
            0,
            "u0000 0.25 \nu0001 0.25 \nu0002 0.25 \n",
        ),
        (
            "get_utt2dur.sh data",
            {"data/wav.scp": "u0000 cat a.wav |\nu0001 cat a.wav |\nu0002 cat a.wav |\n"},
            (
                "get_utt2dur.sh: segments file does not exist so getting durations from wave files\n"
                "get_utt2dur.sh: could not get utterance lengths from sphere-file headers, using wav-to-duration\n"
                "get_utt2dur.sh: computed data/utt2dur\n"
            ),
            "",
            0,
            "u0000 0.5 \nu0001 0.5 \nu0002 0.5 \n",
        ),
        (
            "get_utt2dur.sh --read-entire-file true data",
            {"data/wav.scp": "u0000 cat a.wav |\nu0001 cat a.wav |\nu0002 cat a.wav |\n"},
            (
                "get_utt2dur.sh: segments file does not exist so getting durations from wave files\n"
                "get_utt2dur.sh: could not get utterance lengths from sphere-file headers, using wav-to-duration\n"
                "get_utt2dur.sh: computed data/utt2dur\n"
            ),
            "",
            0,
            "u0000 0.25 \nu0001 0.25 \nu0002 0.25 \n",
        ),
        (
            "get_utt2dur.sh --frame-shift 0.02 data",
            {"data/wav.scp": None, "data/feats.scp": "u0000 m\nu0001 m\nu0002 m\n"},
            (
                "get_utt2dur.sh: wave file does not exist so getting durations from feats files\n"
                "get_utt2dur.sh: computed data/utt2dur\n"
            ),
            "",
            0,
            "u0000 0.23\nu0001 0.23\nu0002 0.23\n",
        ),
        (
            "get_utt2dur.sh data",
            {"data/wav.scp": None, "data/frame_shift": "0.02\n", "data/feats.scp": "u0000 m\nu0001 m\nu0002 m\n"},
            (
                "get_utt2dur.sh: wave file does not exist so getting durations from feats files\n"
                "get_utt2dur.sh: using frame_shift=0.02 from file data/frame_shift\n"
                "get_utt2dur.sh: computed data/utt2dur\n"
            ),
            "",
            0,
            "u0000 0.23\nu0001 0.23\nu0002 0.23\n",
        ),
        (
            "get_utt2num_frames.sh data",
            {"data/feats.scp": "u0000 m\nu0001 m\nu0002 m\n"},
            "",
            "get_utt2num_frames.sh: utils/split_scp.pl: You are splitting into too many pieces! [reduce $nj (4) to be smaller than the number of lines (3) in data/utt2spk]\n",
            1,
            "",
        ),
        (
            "get_segments_for_data.sh data",
            {"data/utt2dur": "u0000 1.50\nu0001 2\nu0002 3\n"},
            ("u0000 u0000 0 1.50\nu0001 u0001 0 2\nu0002 u0002 0 3\n"),
            "",
            0,
            "",
        ),
        (
            "subset_data_dir.sh --shortest data 1 out",
            {"data/feats.scp": "u0000 m\nu0001 m\nu0002 m\n", "data/utt2num_frames": "u0000 3\nu0001 1\nu0002 2\n"},
            "subset_data_dir.sh: reducing #utt from 3 to 1\n",
            "",
            0,
            "u0001 s\n",
        ),
        (
            "combine_data.sh out data none",
            {},
            ("combine_data.sh out data none\ncombine_data.sh: no such file none/utt2spk\n"),
            "",
            1,
            "",
        ),
        (
            "remove_dup_utts.sh x data out",
            {},
            "remove_dup_utts.sh: invalid max-count 'x'\n",
            "remove_dup_utts.sh: the number of repetitions must be a whole number of 2 or more, not 'x'\n",
            1,
            "",
        ),
        (
            "modify_speaker_info.sh --seconds-per-spk-max 2 data out",
            {"data/utt2dur": "u0000 1\nu0001 2\nu0002 1\n"},
            (
                "utils/data/get_utt2dur.sh: data/utt2dur already exists with the expected length.  We won't recompute it.\n"
                "modify_speaker_info.sh: copied data from data to out, number of speakers changed from 1 to 3\n"
                "utils/validate_data_dir.sh: Successfully validated data-directory out\n"
            ),
            "",
            0,
            "u0000 s-1\nu0001 s-2\nu0002 s-3\n",
        ),
    ],
)
def test_scripts_print_and_write_something_else(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: Any,
    command: str,
    files: dict[str, str | None],
    out: str,
    error: str,
    status: int,
    written: str,
) -> None:
    """``files`` are changes of a directory of three utterances; None removes a file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("shutil.which", lambda name: name)
    directory(tmp_path / "data")
    io_ark.save("a.wav", io_ark.Wave(8000.0, np.zeros((1, 4000), np.int16)))
    Path("a.wav").write_bytes(Path("a.wav").read_bytes()[:4044])  # half of the samples that its header announces
    io_ark.save("m", np.zeros((10, 2), np.float32))
    for name, text in files.items():
        Path(name).parent.mkdir(exist_ok=True)
        if text is None:
            Path(name).unlink()
        else:
            Path(name).write_bytes(text.encode("utf-8", "surrogateescape"))
    name, *argv = command.split()
    say = Printer(name)
    capfd.readouterr()
    assert scripts.run_protected(say, lambda: scripts.call_script(SCRIPTS[name], say, argv)) == status
    sys.stdout.flush()
    found = capfd.readouterr()
    errors = "".join(line for line in found.err.splitlines(True) if not line.endswith("Truncated file?\n"))
    assert (found.out, errors) == (out, error)
    results = [path for path in ("data/utt2dur", "data/reco2dur", "out/utt2spk") if path not in files]
    assert "".join(Path(path).read_text() for path in results if Path(path).exists()) == written
