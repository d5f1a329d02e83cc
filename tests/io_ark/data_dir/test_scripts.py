"""The scripts as programs: launchers, ``kaldi-compat data``, two processes at once, a disk that is full."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from io_ark.data_dir import DataDir, DataDirError, directories, lists, scripts, stage
from io_ark.data_dir.scripts import SCRIPTS, install_launchers, run_data_command
from io_ark.data_dir.stage import Printer, Stage


def directory(folder: Path, count: int = 3) -> Path:
    folder.mkdir(parents=True)
    keys = [f"u{at:04d}" for at in range(count)]
    for name, value in (("utt2spk", "s"), ("text", "x y"), ("wav.scp", "a.wav")):
        (folder / name).write_text("".join(f"{key} {value}\n" for key in keys))
    (folder / "spk2utt").write_text(f"s {' '.join(keys)}\n")
    return folder


def test_launchers_do_not_run_or_replace_other_programs(tmp_path: Path) -> None:
    utils = tmp_path / "the utils"
    assert len(install_launchers(str(utils))) == len(SCRIPTS) + sum(name.endswith(".sh") for name in SCRIPTS)
    assert len(install_launchers(str(utils))) > len(SCRIPTS)  # over our own
    data = directory(tmp_path / "the data")
    for name in ("validate_data_dir.sh", "data/validate_data_dir.sh"):
        done = subprocess.run([utils / name, "--no-feats", data], capture_output=True, text=True, env={"LC_ALL": "xx"})
        assert (done.returncode, done.stderr) == (0, "") and f"validated data-directory {data}" in done.stdout
    command = [utils / "filter_scp.pl", data / "utt2spk"]
    piped = subprocess.run(command, input=b"u0001 \xff\nx y\n", capture_output=True)
    assert (piped.returncode, piped.stdout) == (0, b"u0001 \xff\n")
    (utils / "copy_data_dir.sh").write_text("another program")
    with pytest.raises(DataDirError, match=r"copy_data_dir\.sh: is another program"):
        install_launchers(str(utils))
    assert (utils / "copy_data_dir.sh").read_text() == "another program"


def test_launcher_with_a_long_path_is_not_a_program(tmp_path: Path) -> None:
    text = scripts.format_launcher("validate_data_dir.sh", "/a b/'python'", "/root").decode()
    assert text.startswith("#!/bin/sh\n") and "exec '/a b/'\"'\"'python'\"'\"'' -I" in text
    compile(text, "launcher", "exec")


def test_directory_as_standard_input_is_a_crash(tmp_path: Path) -> None:
    install_launchers(str(tmp_path / "utils"))
    (tmp_path / "map").write_text("a b\n")
    folder = os.open(tmp_path, os.O_RDONLY)
    for command in (["apply_map.pl", "map"], ["utt2spk_to_spk2utt.pl"], ["filter_scp.pl", "map"], ["shuffle_list.pl"]):
        words = [tmp_path / "utils" / command[0], *command[1:]]
        done = subprocess.run(words, stdin=folder, capture_output=True, text=True, cwd=tmp_path)
        said = f"{command[0]}: standard input is a directory: give a file\n"
        assert (done.returncode, done.stdout, done.stderr) == (1, "", said)
    data = directory(tmp_path / "data")
    words = [tmp_path / "utils/validate_data_dir.sh", "--no-feats", str(data)]  # which reads no standard input
    assert subprocess.run(words, stdin=folder, capture_output=True).returncode == 0
    os.close(folder)


@pytest.mark.parametrize("name", ["utt2spk_to_spk2utt.pl", "filter_scp.pl map", "shuffle_list.pl", "apply_map.pl"])
def test_directory_as_a_list_has_a_number_of_the_system(tmp_path: Path, capsys: Any, name: str) -> None:
    (tmp_path / "map").write_text("a b\n")
    script, *words = name.replace("map", str(tmp_path / "map") if " map" in name else "map").split()
    assert (
        scripts.run_protected(
            Printer("x"), lambda: scripts.call_script(SCRIPTS[script], Printer("x"), [*words, str(tmp_path)])
        )
        > 0
    )
    error = capsys.readouterr().err
    assert "Is a directory" in error and "Errno" not in error and error.count("\n") == 1


@pytest.mark.parametrize("force", [True, False])
@pytest.mark.parametrize(
    "target", ["utils", "utils/own", "recipe/utils", "{}/recipe/utils", "linked", "utils/../linked/x"]
)
def test_scripts_are_installed_behind_a_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, target: str, force: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("kaldi/utils/data", "recipe", "linked"):
        Path(folder).mkdir(parents=True)
    Path("kaldi/utils/copy_data_dir.sh").write_text("Kaldi's\n")
    Path("utils").symlink_to("kaldi/utils")
    Path("recipe/utils").symlink_to("../kaldi/utils")
    Path("linked/data").symlink_to("../kaldi/utils/data")
    if "/x" in target:
        Path("linked/x").symlink_to("data")
    before = {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")}
    assert run_data_command(["install", target.format(tmp_path), *["--force"] * force]) == 1
    assert {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")} == before
    error = capsys.readouterr().err
    assert "is a link to" in error and "choose a folder of this recipe" in error and error.count("\n") == 1


def test_launchers_are_installed_into_a_folder_behind_a_link_or_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real/recipe").mkdir(parents=True)
    (tmp_path / "disk").symlink_to("real")  # above the recipe, so it is the same for all that is in it
    monkeypatch.chdir(tmp_path / "disk/recipe")
    (tmp_path / "real/recipe/utils").mkdir()
    left = tmp_path / "real/recipe/utils" / f".copy_data_dir.sh.{stage._MACHINE}.1.1.tmp"
    left.write_text("x")
    for target in ("utils", str(tmp_path / "disk/recipe/utils"), "./utils/", "../recipe/utils"):
        install_launchers(target)
    os.chmod("utils/fix_data_dir.sh", 0o644)
    install_launchers("utils")
    assert os.access("utils/fix_data_dir.sh", os.X_OK) and not left.exists()
    assert not list((tmp_path / "real").rglob("*.tmp"))


@pytest.mark.parametrize("number", ["\u00b2", "\u0663", "9" * 5000, "0", "1.0", "+2", " 2", "2\n", ""])
@pytest.mark.parametrize(
    "command", ["split data {}", "subset data {} out", "subset --per-spk data {} out", "remove-repetitions {} data out"]
)
def test_number_in_other_digits_is_a_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, command: str, number: str
) -> None:
    monkeypatch.chdir(tmp_path)
    data = directory(tmp_path / "data")
    before = {path.name: path.read_bytes() for path in data.iterdir()}
    words = command.split()
    if number == "0" and "subset" in command:
        number = "00"
    assert run_data_command([word.format(number) for word in words]) > 0
    error = capsys.readouterr().err
    assert "Traceback" not in error and "exceeds" not in error
    assert {path.name: path.read_bytes() for path in data.iterdir()} == before and not Path("out").exists()


@pytest.mark.parametrize(
    ("count", "has_text", "message"),
    [
        ("300", False, "in/text: is missing: repeated transcripts are removed, so the directory needs this file"),
        ("1", True, "the number of repetitions must be a whole number of 2 or more, not '1'"),
    ],
)
def test_missing_transcripts_and_a_wrong_number_of_repetitions_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], count: str, has_text: bool, message: str
) -> None:
    data = directory(tmp_path / "in")
    if not has_text:
        (data / "text").unlink()
    assert run_data_command(["remove-repetitions", count, str(data), str(tmp_path / "out")]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "command", ["subset_scp.pl {} list", "shuffle_list.pl --srand {} list", "apply_map.pl -f {} list"]
)
def test_number_of_thousands_of_digits_is_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("list").write_text("a 1\n")
    with open("list", "rb") as file:
        for number in ("9" * 5000, f"{'9' * 5000}-{'9' * 5000}", "\u00b2"):
            monkeypatch.setattr(lists, "STDIN", os.open("list", os.O_RDONLY))
            script, *words = (word.format(number) for word in command.split())
            scripts.run_protected(Printer("x"), lambda: scripts.call_script(SCRIPTS[script], Printer("x"), words))  # noqa: B023
            error = capsys.readouterr().err
            assert "Traceback" not in error and "integer string" not in error
    file.close()


@pytest.mark.parametrize("name", [name for name, script in SCRIPTS.items() if script.style is not scripts.Style.OWN])
def test_options_of_a_script_are_not_those_of_its_function(name: str, capsys: Any) -> None:
    script = SCRIPTS[name]
    for option, value in script.get_options(with_extra_options=True).items():
        assert isinstance(value, str | int | float | bool), option
    assert run_data_command([script.command, "--help"]) == 0
    shown = capsys.readouterr().out
    assert "``" not in shown
    assert script.usage in shown and all(
        scripts.format_flag(option) in shown for option in script.get_options(with_extra_options=True)
    )
    explained = re.findall(r"^  --[a-z0-9-]+ +(\w.*) \(default: ", shown, re.MULTILINE)
    assert len(explained) == len(script.get_options(with_extra_options=True))


def test_every_command_has_help(capfd: Any) -> None:
    for script in SCRIPTS.values():
        if script.command:
            assert run_data_command([script.command, "--help"]) == 0
            assert capfd.readouterr().out.startswith(f"Usage: kaldi-compat data {script.command} {script.usage}")


def test_launcher_of_a_newer_version_has_one_line(capfd: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["utils/new_script.sh"])
    assert scripts.main("new_script.sh") == 1
    error = capfd.readouterr().err
    assert error.count("\n") == 1 and "has no new_script.sh: upgrade it" in error


def test_folder_that_cannot_be_made_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("mine")
    for name, said in (
        ("file", "^file: is not a directory: choose another name, or move it away$"),
        ("file/utils", "^file/utils: Not a directory: nothing was changed$"),
    ):
        with pytest.raises(DataDirError, match=said):
            install_launchers(name)
    assert Path("file").read_text() == "mine" and os.listdir() == ["file"]


def test_install_counts_scripts(tmp_path: Path, capfd: Any) -> None:
    assert run_data_command(["install", str(tmp_path / "utils")]) == 0
    assert f"wrote {len(SCRIPTS)} scripts into " in capfd.readouterr().out


def test_scripts_are_not_installed_at_a_url(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_data_command(["install", "s3://bucket/utils"]) != 0
    assert "s3://bucket/utils: is a URL: choose a local directory" in capfd.readouterr().err
    assert not list(tmp_path.iterdir())


def test_advice_of_validate_can_be_followed(tmp_path: Path) -> None:
    data = directory(tmp_path / "data")
    (data / "segments").write_text("u0000 r1 0 1\nu0001 r1 1 2\nu0002 r1 2 3\n")
    (data / "wav.scp").write_text("r1 a.wav\nr2 b.wav\n")
    with pytest.raises(
        DataDirError, match=r"r2: is missing, .*add a line such as `r2 r2 0 -1` \(the whole recording\)"
    ):
        DataDir(data).validate()
    (data / "wav.scp").write_text("r2 b.wav\nr1 a.wav\n")
    with pytest.raises(
        DataDirError,
        match=rf"wav\.scp:2: r1: follows r2: sort the file .*, or run kaldi-compat data fix {re.escape(str(data))}",
    ):
        DataDir(data).validate()
    (data / "wav.scp").write_text("\ufeffr1 a.wav\nr2 b.wav\n")
    with pytest.raises(
        DataDirError, match=r"wav\.scp:2: r2: the first line starts with a byte-order mark, .*: remove it"
    ):
        DataDir(data).validate()
    (data / "wav.scp").write_text("r1 a.wav\nr1 a.wav\n")
    with pytest.raises(DataDirError, match=r"wav\.scp:2: r1: is a duplicate key: remove one of the lines"):
        DataDir(data).validate()


@pytest.mark.parametrize(
    ("argv", "status", "said"),
    [
        ([], 2, ""),
        (["nope"], 2, "there is no command 'nope'"),
        (["validate", "--no-feats", "--no-such", "data"], 2, "unknown option --no-such: choose from --no-feats"),
        (["validate", "none"], 1, "no such directory none"),
        (["split", "data", "x"], 1, "must be a whole number"),
        (["modify-speakers", "--utts-per-spk-max=x", "data", "out"], 1, "max needs a whole number, not 'x'"),
        (["combine", "--skip-fix=maybe", "out", "data"], 1, 'expected "true" or "false": --skip-fix maybe'),
        (["fix"], 2, ""),
        (["install", "data", "more"], 2, "install"),
    ],
)
def test_mistake_in_a_command_is_not_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, argv: list[str], status: int, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    directory(tmp_path / "data")
    assert run_data_command(argv) == status
    error = capsys.readouterr().err
    assert said in error and "Traceback" not in error and error.count("\n") <= 1


def test_commands_for_people_take_options_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    directory(tmp_path / "data")
    assert run_data_command(["copy", "data", "--utt-prefix=a-", "out", "--spk-prefix", "a-"]) == 0
    assert (tmp_path / "out/utt2spk").read_text().startswith("a-u0000 a-s\n")
    assert run_data_command(["subset", "data", "--first", "2", "part"]) == 0
    assert run_data_command(["info", "part"]) == 0 and "2 utterances" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "status", "said"),
    [
        ("subset_data_dir.sh --speakers data 2 out", 1, "no such file data/spk2utt"),
        ("subset_data_dir.sh --per-spk data 2 out", 1, "no such file data/spk2utt"),
        ("subset_data_dir.sh --per-spk data 0 out", 1, "the number of utterances, a whole number of 1 or more"),
        ("subset_data_dir.sh --speakers data 2.5 out", 1, "the number of utterances, a whole number of 1 or more"),
        ("subset_data_dir.sh --first data -1 out", 1, "the number of utterances, a whole number of 1 or more"),
        ("subset_data_dir.sh --last data --2 out", 1, "the number of utterances, a whole number of 1 or more"),
        ("subset_data_dir.sh --spk-list list data out", 1, "no such file data/spk2utt"),
        (
            "copy_data_dir.sh --validate-opts --no-such part out",
            1,
            "--validate-opts has the unknown options --no-such: choose from --no-feats",
        ),
        ("filter_scp.pl data list", 21, "data: Is a directory"),
        ("filter_scp.pl --exclude data list", 21, "data: Is a directory"),
        ("subset_data_dir.sh data 2 out", 1, "data/wav.scp:2: Bad line without a key"),
        ("resample_data_dir.sh 8000 data", 1, "data/wav.scp:2: is a blank line"),
    ],
)
def test_script_loses_data_with_kaldis_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any, command: str, status: int, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("shutil.which", lambda name: name)
    data = directory(tmp_path / "data")
    directory(tmp_path / "part")
    (data / "spk2utt").unlink()
    (data / "wav.scp").write_text("u0000 a.wav\n\nu0001 a.wav\nu0002 a.wav\n")
    (data / "utt2dur").write_text("u0000 1\n")
    (tmp_path / "list").write_text("s\n")
    before = {path.name: path.read_bytes() for path in data.iterdir()}
    name, *argv = command.split()
    say = Printer(name)
    assert scripts.run_protected(say, lambda: scripts.call_script(SCRIPTS[name], say, argv)) == status
    out, error = capfd.readouterr()
    assert said in out + error and "Traceback" not in error
    assert {path.name: path.read_bytes() for path in data.iterdir()} == before


@pytest.mark.parametrize("command", ["subset_data_dir.sh data 2 out", "resample_data_dir.sh 8000 data"])
def test_blank_lines_at_the_end_stop_a_script_that_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("shutil.which", lambda name: name)
    data = directory(tmp_path / "data")
    (data / "wav.scp").write_text("u0000 a.wav\nu0001 a.wav\nu0002 a.wav\n\n \n")
    (data / "utt2dur").write_text("u0000 1\n")
    name, *argv = command.split()
    assert scripts.run_protected(Printer(name), lambda: scripts.call_script(SCRIPTS[name], Printer(name), argv)) == 0
    assert len((tmp_path / argv[-1] / "wav.scp").read_text().splitlines()) == (2 if argv[-1] == "out" else 3)


# Scripts in the order in which they run, with what they print and their status.
TOLD: dict[str, tuple[str, int]] = {
    "modify_speaker_info.sh data out": (
        "modify_speaker_info.sh: one or both of the --utts-per-spk-max or --seconds-per-spk-max options "
        "must be provided.\n"
        "modify_speaker_info.sh: moving out/cmvn.scp to out/.backup/cmvn.scp\n"
        "modify_speaker_info.sh: file utt2lang exists in dest out but not in src data.  Moving it to\n"
        " ... out/.backup/utt2lang\n"
        "modify_speaker_info.sh: file utt2dur exists in dest out but is not written by this job.  Moving it to\n"
        " ... out/.backup/utt2dur\n"
        "modify_speaker_info.sh: copied data from data to out, number of speakers changed from 1 to 1\n"
        "utils/validate_data_dir.sh: WARNING: you have only one speaker.  This probably a bad idea.\n"
        "   Search for the word 'bold' in http://kaldi-asr.org/doc/data_prep.html\n"
        "   for more information.\n"
        "utils/validate_data_dir.sh: Successfully validated data-directory out\n", 0,
    ),
    "get_utt2dur.sh data": (
        "get_utt2dur.sh: data/utt2dur already exists with the expected length.  We won't recompute it.\n", 0,
    ),
    "get_utt2dur.sh frames": (
        "get_utt2dur.sh: computing frames/utt2dur from frames/{frame_shift,utt2num_frames}.\n"
        "get_utt2dur.sh: computed frames/utt2dur\n", 0,
    ),
    "get_reco2dur.sh data": (
        "get_reco2dur.sh: data/wav.scp indexed by utt-id; copying utt2dur to reco2dur\n", 0,
    ),
    "get_reco2dur.sh --nj 2 data": (
        "get_reco2dur.sh: data/reco2dur already exists with the expected length.  We won't recompute it.\n", 0,
    ),
    "get_utt2num_frames.sh data": (
        "utils/data/get_utt2dur.sh: data/utt2dur already exists with the expected length.  We won't recompute it.\n", 0,
    ),
    "get_utt2num_frames.sh --nj 2 data": ("get_utt2num_frames.sh: data/utt2num_frames already present!\n", 0),
    "subset_data_dir.sh --first data 2 part": ("subset_data_dir.sh: reducing #utt from 3 to 2\n", 0),
    "remove_dup_utts.sh 2 data rest": (
        "Reduced number of utterances from 3 to 2\nUsing fix_data_dir.sh to reconcile the other files.\n"
        "fix_data_dir.sh: kept 2 utterances out of 3\nfix_data_dir.sh: old files are kept in rest/.backup\n", 0,
    ),
    "remove_dup_utts.sh 2 none rest": ("remove_dup_utts.sh: Invalid input directory none\n", 1),
    "remove_dup_utts.sh 1 data rest": ("remove_dup_utts.sh: invalid max-count '1'\n", 1),
    "split_data.sh data 1": ("", 0),
    "split_data.sh ./data 1": ("", 0),
    "split_data.sh uneven 1": (
        "** split_data.sh: warning, #lines is (utt2spk,feats.scp) is (3,1); you can \n"
        "**  use utils/fix_data_dir.sh uneven to fix this.\n"
        "** split_data.sh: warning, #lines is (utt2spk,text) is (3,1); you can \n"
        "** use utils/fix_data_dir.sh to fix this.\n", 0,
    ),
    "get_utt2num_frames.sh none": (
        "utils/data/get_utt2dur.sh: Expected none/wav.scp, none/segments or none/feats.scp to exist\n", 1,
    ),
    "get_utt2dur.sh uneven": (
        "get_utt2dur.sh: segments file does not exist so getting durations from wave files\n"
        "get_utt2dur.sh: could not get utterance lengths from sphere-file headers, using wav-to-duration\n"
        "** split_data.sh: warning, #lines is (utt2spk,feats.scp) is (3,1); you can \n"
        "**  use utils/fix_data_dir.sh uneven to fix this.\n"
        "** split_data.sh: warning, #lines is (utt2spk,text) is (3,1); you can \n"
        "** use utils/fix_data_dir.sh to fix this.\n"
        "get_utt2dur.sh: there was a problem getting the durations\n", 1,
    ),
    "get_reco2dur.sh uneven": (
        "get_reco2dur.sh: obtaining durations from recordings\n"
        "get_reco2dur.sh: could not get recording lengths from sphere-file headers, using wav-to-duration\n"
        "get_reco2dur.sh: there was a problem getting the durations\n", 1,
    ),
    "fix_data_dir.sh empty": (
        "Empty list of recordings (bad file empty/segments)?\n", 1,
    ),
    "perturb_data_dir_volume.sh uneven": (
        "perturb_data_dir_volume.sh: uneven/feats.scp exists; moving it to uneven/.backup/ "
        "as it wouldn't be valid any more.\n"
        "perturb_data_dir_volume.sh: added volume perturbation to the data in uneven\n", 0,
    ),
    "perturb_data_dir_volume.sh --scale-low 1 uneven": (
        "perturb_data_dir_volume.sh: It looks like the data was already volume perturbed.  Not doing anything.\n", 0,
    ),
    "validate_data_dir.sh --help": ("validate_data_dir.sh: no such directory --help\n", 1),
    "subset_data_dir.sh --help": ("subset_data_dir.sh: invalid option '--help'\n", 1),
    "combine_data.sh --skip-fix=true out data": (
        "combine_data.sh --skip-fix=true out data\n"
        "combine_data.sh: options to scripts must be of the form --name value, got '--skip-fix=true'\n", 1,
    ),
    "combine_data.sh all data part": (
        "combine_data.sh all data part\n"
        "combine_data.sh [info]: not combining utt2uniq as it does not exist\n"
        "combine_data.sh [info]: not combining segments as it does not exist\n"
        "combine_data.sh: combined utt2spk\n"
        "combine_data.sh [info]: not combining utt2lang as it does not exist\n"
        "combine_data.sh: combined utt2dur\n"
        "combine_data.sh [info]: **not combining utt2num_frames as it does not exist everywhere**\n", 0,
    ),
    "shuffle_list.pl --help": (
        "Usage: shuffle_list.pl [--srand N] [input file]  > output\nrandomizes the order of lines of input.\n", 1,
    ),
    "shuffle_list.pl data/text data/text": (
        "Usage: shuffle_list.pl [--srand N] [input file]  > output\nrandomizes the order of lines of input.\n", 1,
    ),
    "validate_text.pl data/text": ("", 0),
}  # fmt: skip


def test_scripts_say_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    monkeypatch.chdir(tmp_path)
    for name, count in ("data", 3), ("out", 1), ("uneven", 3), ("empty", 1), ("frames", 1):
        directory(tmp_path / name, count)
    for name, text in (
        ("data/utt2dur", "u0000 1\nu0001 1\nu0002 1\n"),
        ("frames/utt2num_frames", "u0000 100\n"), ("frames/frame_shift", "0.01\n"),
        ("out/utt2lang", "u0000 x\n"), ("out/utt2dur", "u0000 1\n"),
        ("out/cmvn.scp", "s x\n"), ("uneven/feats.scp", "u0000 x\n"), ("uneven/text", "u0000 x\n"),
        ("empty/segments", ""),
    ):  # fmt: skip
        Path(name).write_text(text)
    found = {}
    for command, (text, _) in TOLD.items():
        name, *argv = command.split()
        say = Printer(name)
        status = scripts.run_protected(say, lambda: scripts.call_script(SCRIPTS[name], say, argv))  # noqa: B023
        found[command] = capfd.readouterr().out, status
        if command == "get_reco2dur.sh data":
            assert Path("data/reco2dur").read_bytes() == Path("data/utt2dur").read_bytes()
        if command == "subset_data_dir.sh --first data 2 part":
            Path("part/utt2num_frames").unlink()
        if command.startswith("combine_data.sh all"):  # The rest is in other tests.
            found[command] = found[command][0][: len(text)], status
    assert found == TOLD


def test_missing_directory_is_made(tmp_path: Path) -> None:
    with pytest.raises(DataDirError):
        scripts.call_script(SCRIPTS["get_utt2dur.sh"], Printer("get_utt2dur.sh"), [str(tmp_path / "none")])
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("shift", "said"), [(" 0.02\n", ""), ("x\n", "data/frame_shift: expected a frame shift in seconds")]
)
def test_durations_are_zero_by_a_frame_shift_that_is_no_number(
    tmp_path: Path, capfd: Any, shift: str, said: str
) -> None:
    data = directory(tmp_path / "data")
    (data / "utt2num_frames").write_text("u0000 10\nu0001 20\nu0002 30\n")
    (data / "frame_shift").write_text(shift)
    script, say = SCRIPTS["get_utt2dur.sh"], Printer("get_utt2dur.sh")
    assert scripts.run_protected(say, lambda: scripts.call_script(script, say, [str(data)])) == bool(said)
    assert said in capfd.readouterr().err
    assert said or (data / "utt2dur").read_text() == "u0000 0.23\nu0001 0.43\nu0002 0.63\n"


def test_seed_that_is_no_number_gives_an_order(tmp_path: Path, capfd: Any) -> None:
    (tmp_path / "list").write_text("a\nb\nc\n")
    script, say = SCRIPTS["shuffle_list.pl"], Printer("shuffle_list.pl")
    argv = ["--srand", "3x", str(tmp_path / "list")]
    assert scripts.run_protected(say, lambda: scripts.call_script(script, say, argv)) == 255
    assert capfd.readouterr().out == ""


@pytest.mark.skipif(sys.platform == "win32", reason="shell scripts")
@pytest.mark.parametrize(
    ("command", "passed", "status"),
    [
        ("fix_data_dir.sh --utt-extra-files extra data", "--utt-extra-files extra data", 3),
        ("validate_data_dir.sh --no-wav data --no-feats", "--no-feats data", 3),
        ("combine_data.sh --extra-files images.scp out data", "out", 1),
        ("remove_dup_utts.sh 2 data out", "out", 0),
        ("copy_data_dir.sh data out", "", 0),
    ],
)
def test_recipes_script_for_images_is_not_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, passed: str, status: int
) -> None:
    monkeypatch.chdir(tmp_path)
    data = directory(tmp_path / "data")
    (data / "images.scp").write_text("u0000 x.png\n")
    (tmp_path / "image").mkdir()
    name, *argv = command.split()
    for script in ("fix_data_dir.sh", "validate_data_dir.sh"):
        (tmp_path / "image" / script).write_text(f"#!/bin/sh\necho {script} $@ > called\nexit 3\n")
        (tmp_path / "image" / script).chmod(0o755)
    assert (
        scripts.run_protected(Printer(name), lambda: scripts.call_script(SCRIPTS[name], Printer(name), argv)) == status
    )
    assert (tmp_path / "called").exists() == bool(passed)
    assert not passed or passed in (tmp_path / "called").read_text()


@pytest.mark.skipif(sys.platform == "win32", reason="shell scripts")
@pytest.mark.parametrize(("text", "status"), [(None, 127), ("kill -9 $$\n", 137), ("exit 4\n", 4)])
def test_recipes_script_for_images_has_another_status_than_in_a_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any, text: str | None, status: int
) -> None:
    monkeypatch.chdir(tmp_path)
    (directory(tmp_path / "data") / "images.scp").write_text("u0000 x.png\n")
    (tmp_path / "image").mkdir()
    if text:
        (tmp_path / "image/fix_data_dir.sh").write_text(text)
        (tmp_path / "image/fix_data_dir.sh").chmod(0o755)
    say = Printer("fix_data_dir.sh")
    assert scripts.run_protected(say, lambda: scripts.call_script(SCRIPTS["fix_data_dir.sh"], say, ["data"])) == status


def test_order_of_speakers_is_not_what_is_wrong_first(tmp_path: Path, capsys: Any) -> None:
    data = directory(tmp_path / "data")
    (data / "utt2spk").write_text("u0000 b\nu0001 a\nu0002 a\n")
    (data / "spk2utt").write_text("b u0000\na u0001 u0002\n")
    for options, said in (
        ([], "utt2spk is not in sorted order when sorted first"),
        (["--no-spk-sort"], "spk2utt is not"),
    ):
        with pytest.raises(DataDirError):
            scripts.call_script(SCRIPTS["validate_data_dir.sh"], Printer("validate_data_dir.sh"), [*options, str(data)])
        assert said in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "text", "said", "error"),
    [
        ("cmvn.scp", "", "filtered speakers from 1 to 0 lines based on filter ", "data/cmvn.scp: is empty"),
        ("spk2gender", "x m\n", "filtered speakers from 1 to 0 lines", "data/spk2gender: has none of the"),
        ("text", "x y\n", "fix_data_dir.sh: no utterances remained", "data/text: has none of the utterances"),
    ],
)
def test_file_that_leaves_no_utterances_is_not_named(
    tmp_path: Path, capsys: Any, name: str, text: str, said: str, error: str
) -> None:
    data = directory(tmp_path / "data")
    (data / name).write_text(text)
    with pytest.raises(DataDirError, match=error):
        scripts.call_script(SCRIPTS["fix_data_dir.sh"], Printer("fix_data_dir.sh"), [str(data)])
    assert said in capsys.readouterr().out


def test_carriage_return_after_a_speaker_hides_it(tmp_path: Path) -> None:
    data = directory(tmp_path / "data")
    (data / "spk2utt").write_bytes(b"s\r u0000 u0001 u0002\n")
    argv = ["--spk-prefix", "a-", str(data), str(tmp_path / "out")]
    assert scripts.call_script(SCRIPTS["copy_data_dir.sh"], Printer("copy_data_dir.sh"), argv) == 0
    assert (tmp_path / "out/spk2utt").read_bytes() == b"a-s u0000 u0001 u0002\n"


def test_file_of_an_unknown_speaker_is_not_named(tmp_path: Path) -> None:
    data = directory(tmp_path / "data")
    (data / "spk2utt").write_text("another u0000\n")
    with pytest.raises(DataDirError, match=r"data/utt2spk:1: s: is not in .*data/spk2utt"):
        scripts.call_script(
            SCRIPTS["copy_data_dir.sh"], Printer("copy_data_dir.sh"), [str(data), str(tmp_path / "out")]
        )


@pytest.mark.parametrize("as_script", [True, False])
def test_lines_before_an_unknown_utterance_are_renamed(tmp_path: Path, as_script: bool) -> None:
    data = directory(tmp_path / "data")
    (data / "utt2lang").write_text("u0000 x\nu0001 y\nu9 z\nu0002 x\n")
    say = Printer("copy_data_dir.sh", as_script=as_script)
    with pytest.raises(DataDirError, match=r"data/utt2lang:3: u9: is not in .*data/utt2spk: add the name") as error:
        directories.copy_directory(say, str(data), str(tmp_path / "out"), utt_prefix="a-")
    assert error.value.status == 255
    assert (tmp_path / "out").exists() == as_script
    assert not as_script or (tmp_path / "out/utt2lang").read_text() == "a-u0000 x\na-u0001 y\n"


@pytest.mark.parametrize("chunk", [10, 1 << 20])
def test_utterance_without_a_speaker_is_not_divided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, chunk: int
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("io_ark.data_dir.line_chunks.CHUNK_BYTES", chunk)
    (tmp_path / "utt2spk").write_text("a s\nb s\nc t\n")
    for text, said in (
        ("a x\nb x\nd x\n", "text:3: split_scp.pl: No utterance d in utt2spk file utt2spk: correct this line"),
        ("a x\n \nb x\n", "text:2: split_scp.pl: Empty or space-only line in scp file: correct this line"),
    ):
        (tmp_path / "text").write_text(text)
        with pytest.raises(DataDirError, match=f"^{re.escape(said)}$"):
            scripts.call_script(
                SCRIPTS["split_scp.pl"], Printer("split_scp.pl"), ["--utt2spk=utt2spk", "text", "one", "two"]
            )
    (tmp_path / "utt2spk").write_text("a s\nb s\nc\n")
    with pytest.raises(
        DataDirError, match=r"^utt2spk:3: split_scp.pl: Bad line in utt2spk file: 'c'; correct this line$"
    ):
        scripts.call_script(
            SCRIPTS["split_scp.pl"], Printer("split_scp.pl"), ["--utt2spk=utt2spk", "text", "one", "two"]
        )


def test_invalid_perturbed_directory_has_another_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("shutil.which", lambda name: name)
    data = directory(tmp_path / "data")
    for name in ("utt2dur", "reco2dur"):
        (data / name).write_text("u0000 1\nu0001 1\nu0002 1\n")
    for name in ("utt2spk", "spk2utt"):
        (data / name).write_text("u0000 u0000\nu0001 u0001\nu0002 u0002\n")
    (data / "wav.scp").write_text("u0000 a.wav\nu0001 ~/a.wav\nu0002 a.wav\n")
    say = Printer("perturb_data_dir_speed_3way.sh")
    with pytest.raises(DataDirError, match=r"out/wav\.scp: u0001: starts a path with ~") as error:
        scripts.call_script(SCRIPTS[say.name], say, ["data", "out"])
    assert error.value.status == 1
    assert capsys.readouterr().out.splitlines()[-3:] == [
        "perturb_data_dir_speed_3way.sh: generated 3-way speed-perturbed version of data in data, in out",
        "utils/validate_data_dir.sh: Please do not use tilde (~) in your wav.scp.",
        "perturb_data_dir_speed_3way.sh: Validation failed.  If it is a sorting issue, try the option "
        "'--always-include-prefix true'.",
    ]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux")
def test_output_to_a_full_disk_is_complete(monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    for run in (lambda: print("x") or 0, lambda: print("x" * 99999) or 0):
        with open(os.open("/dev/full", os.O_WRONLY), "w", closefd=False) as full:
            monkeypatch.setattr(sys, "stdout", full)
            assert scripts.run_protected(Printer("x.sh"), run) == 1
            assert capfd.readouterr().err == "x.sh: No space left on device\n"
            os.dup2(os.open(os.devnull, os.O_WRONLY), full.fileno())  # for what is still in the buffer


def test_command_of_combine_is_not_printed_with_its_usage(capsys: Any) -> None:
    script, say = SCRIPTS["combine_data.sh"], Printer("combine_data.sh")
    assert scripts.run_protected(say, lambda: scripts.call_script(script, say, ["--skip-fix", "true", "out"])) == 1
    assert capsys.readouterr().out.startswith("combine_data.sh --skip-fix true out\nUsage: ")


@pytest.mark.parametrize(
    ("command", "piped", "status", "out"),
    [
        ("filter_scp.pl - file", "c\na 7\n", 0, "a 1\nc 3\n"),
        ("filter_scp.pl --exclude - file", "", 0, "a 1\nb 2\nc 3\n"),
        ("filter_scp.pl - file", "a\n\n", 255, ""),
        ("subset_scp.pl --last 2 -", "x\ny\nz\n", 0, "y\nz\n"),
        ("apply_map.pl -", "x y\n", 0, ""),
        ("split_scp.pl - o1 o2", "x\ny\n", 2, ""),
    ],
)
def test_list_is_not_read_from_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any, command: str, piped: str, status: int, out: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("a 1\nb 2\nc 3\n")
    (tmp_path / "piped").write_text(piped)
    name, *argv = command.split()
    with open("piped", "rb") as file:
        monkeypatch.setattr(lists, "STDIN", file.fileno())
        assert (
            scripts.run_protected(Printer(name), lambda: scripts.call_script(SCRIPTS[name], Printer(name), argv))
            == status
        )
    found, error = capfd.readouterr()
    assert found == out and bool(error) == bool(status)


def test_config_file_of_a_recipe_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    directory(tmp_path / "data")
    Path("copy.conf").write_text("# names\nutt_prefix='c d-'  # two words\nspk_prefix=c\nof_another=script\n")
    script, say = SCRIPTS["copy_data_dir.sh"], Printer("copy_data_dir.sh")
    assert scripts.read_shell_options(
        say, script.get_options(with_extra_options=False), ["--config", "copy.conf", "a", "b"]
    ) == (
        {"utt_prefix": "c d-", "spk_prefix": "c"},
        ["a", "b"],
    )
    for name, text in ("none", "missing config 'none'"), ("data", "cannot read the configuration data: Is a directory"):
        with pytest.raises(DataDirError, match=text):
            scripts.read_shell_options(say, script.get_options(with_extra_options=False), ["--config", name, "a", "b"])
    Path("copy.conf").write_text("nonsense\n")
    with pytest.raises(DataDirError, match=r"copy\.conf:1: should be name=value"):
        scripts.read_shell_options(say, script.get_options(with_extra_options=False), ["--config", "copy.conf"])
    for line in ('utt_prefix="c', "utt_prefix='c", "utt_prefix=c\\"):
        Path("copy.conf").write_text(f"spk_prefix=c\n{line}")
        with pytest.raises(DataDirError, match=r"copy\.conf:2: should be name=value, with paired quotes: correct"):
            scripts.read_shell_options(say, script.get_options(with_extra_options=False), ["--config", "copy.conf"])
    with pytest.raises(DataDirError, match="invalid option --strip-cr"):
        scripts.call_script(SCRIPTS["fix_data_dir.sh"], say, ["--strip-cr", "true", "data"])


def test_full_disk_leaves_another_directory(tmp_path: Path, capsys: Any) -> None:
    resource = pytest.importorskip("resource")
    data = directory(tmp_path / "data", 300)
    (data / "text").write_text("".join(f"u{at:04d} long enough a text to fail\n" for at in reversed(range(300))))
    before = {path.name: path.read_bytes() for path in data.iterdir()}
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8000, limits[1]))
    try:
        assert run_data_command(["fix", str(data)]) == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    error = capsys.readouterr().err
    assert "File too large: nothing was changed" in error and error.count("\n") == 1
    assert {path.name: path.read_bytes() for path in data.iterdir() if path.is_file()} == before


def test_interrupted_change_leaves_a_part(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), Stage(str(tmp_path), Printer("x")) as changed:
        changed.write("a", [b"new\n"])
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_two_processes_mix_their_files(tmp_path: Path) -> None:
    data = directory(tmp_path / "data", 500)
    code = "import sys; from io_ark.data_dir.scripts import run_data_command; sys.exit(run_data_command(sys.argv[1:]))"
    commands = (["fix", data], ["split", data, "1"], ["perturb-volume", data], ["fix", data])
    running = [
        subprocess.Popen([sys.executable, "-c", code, *map(str, command)], stdout=subprocess.DEVNULL)
        for command in commands
    ]
    assert [process.wait(60) for process in running] == [0, 0, 0, 0]
    assert len((data / "utt2spk").read_text().splitlines()) == 500
    assert (data / "wav.scp").read_text().count("sox --vol") == 500
    assert not list(data.rglob("*.tmp"))


@pytest.mark.parametrize("words", ["", "list text more", "-f 2", "--exclude", "-f"])
def test_filter_takes_a_list_and_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("list", "text", "more"):
        Path(name).write_text("a 1\n")
    with pytest.raises(DataDirError, match=r"Usage: filter_scp\.pl"):
        scripts.call_script(SCRIPTS["filter_scp.pl"], Printer("filter_scp.pl"), words.split())


@pytest.mark.parametrize(
    ("options", "chosen"),
    [
        ("", "a 1 x\n"),
        ("-f 2", "c a y\n"),
        ("-f 0", "b 2 a\n"),
        ("-f -1", "c a y\n"),
        ("--exclude -f 0", "a 1 x\nc a y\n"),
        ("-f -3", ""),
        ("--exclude -f -3", "a 1 x\nb 2 a\nc a y\n"),
    ],
)
def test_filter_counts_fields_from_1_and_from_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: Any, options: str, chosen: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("list").write_text("a\n")
    Path("text").write_text("a 1 x\nb 2 a\nc a y\n")
    call = [*options.split(), "list", "text"]
    assert scripts.call_script(SCRIPTS["filter_scp.pl"], Printer("filter_scp.pl"), call) == 0
    sys.stdout.flush()
    assert capfdbinary.readouterr().out.decode() == chosen


@pytest.mark.parametrize("options", [[], ["--exclude"], ["-f", "1"]])
def test_filter_refuses_a_line_without_the_field(tmp_path: Path, options: list[str]) -> None:
    (tmp_path / "list").write_text("a\n")
    (tmp_path / "text").write_text("a 1\n\n")
    call = [*options, str(tmp_path / "list"), str(tmp_path / "text")]
    with pytest.raises(DataDirError, match="Bad line, could not get first field"):
        scripts.call_script(SCRIPTS["filter_scp.pl"], Printer("filter_scp.pl"), call)


def test_filter_by_a_field_from_the_end_refuses_a_blank_line(tmp_path: Path) -> None:
    (tmp_path / "list").write_text("a\n")
    (tmp_path / "text").write_text("1 a\n\n")
    call = ["-f", "0", str(tmp_path / "list"), str(tmp_path / "text")]
    with pytest.raises(DataDirError, match=r"text:2: Invalid scp file line without field 0: correct this line"):
        scripts.call_script(SCRIPTS["filter_scp.pl"], Printer("filter_scp.pl"), call)


@pytest.mark.parametrize("chunk", [8, 1 << 20])
@pytest.mark.parametrize(
    ("text", "said", "place"),
    [
        ("u0 yes\nu1 n\ro\nu2 no\n", "The line for utterance u1 contains CR (0x0D) character", "text:2: u1: "),
        ("u0 ja\nu1 größe\u00a0x\nu2 no\n", "for utterance u1 contains disallowed Unicode whitespaces", "text:2: u1: "),
        ("u0 yes\nu1 no", "The current line (nr. 1) has invalid newline", "text:2: "),
        ("u0 yes\nu1 no\nu2 größe\u3000\n", "for utterance u2 contains disallowed Unicode whitespaces", "text:3: u2: "),
    ],
)
def test_line_of_a_transcript_with_odd_white_space_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, text: str, said: str, place: str, chunk: int
) -> None:
    monkeypatch.setattr("io_ark.data_dir.line_chunks.CHUNK_BYTES", chunk)
    (tmp_path / "text").write_bytes(text.encode())
    remedy = "add a newline at its end" if "newline" in said else "replace them"
    with pytest.raises(DataDirError, match=rf"{place}.*contains disallowed UTF-8 whitespace character\(s\): {remedy}"):
        scripts.call_script(SCRIPTS["validate_text.pl"], Printer("validate_text.pl"), [str(tmp_path / "text")])
    assert said in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="shell scripts")
@pytest.mark.parametrize("options", [[], ["--no-text"], ["--no-feats", "--no-spk-sort", "--non-print"]])
def test_options_of_a_directory_with_images_are_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any, options: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (directory(tmp_path / "data") / "images.scp").write_text("u0000 x.png\n")
    (tmp_path / "image").mkdir()
    (tmp_path / "image/validate_data_dir.sh").write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / "image/validate_data_dir.sh").chmod(0o755)
    say = Printer("validate_data_dir.sh")
    assert scripts.call_script(SCRIPTS["validate_data_dir.sh"], say, [*options, "data"]) == 0
    assert sorted(capfd.readouterr().out.split()) == sorted([*options, "data"])


@pytest.mark.parametrize("chunk", [5, 1 << 20])
@pytest.mark.parametrize("blank", [" ", "  "])
def test_values_of_a_map_are_replaced_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any, chunk: int, blank: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("io_ark.data_dir.line_chunks.CHUNK_BYTES", chunk)
    Path("map").write_text(f"a{blank}1\nb{blank}2{blank}3\na{blank}1\na{blank}4\nc\n")
    assert lists.read_map("map") == {b"a": b"4", b"b": b"2 3", b"c": b""}
    said = "map:4: a: apply_map.pl: warning! the key has several values: the last value is used\n"
    assert capfd.readouterr().err == said
    Path("in").write_text(f"a{blank}b c\nb d\n")
    script, say = SCRIPTS["apply_map.pl"], Printer("apply_map.pl")

    def apply(*options: str) -> tuple[int, str, str]:
        with open("in", "rb") as file:
            monkeypatch.setattr(lists, "STDIN", file.fileno())
            return (
                scripts.run_protected(say, lambda: scripts.call_script(script, say, [*options, "map"])),
                *capfd.readouterr(),
            )

    missing = "apply_map.pl: warning! missing key d in map\n"
    assert apply("--permissive") == (0, "4 2 3 \n2 3 d\n", said + missing)
    assert (
        apply("-f", "2-", "--permissive") == apply("--permissive", "-f", "2-") == (0, "a 2 3 \nb d\n", said + missing)
    )
    assert apply("-f", "1") == (0, "4 b c\n2 3 d\n", said)
    assert apply() == (255, "4 2 3 \n", f"{said}apply_map.pl: undefined key d in map\n")
    for options in (["-f", "1"] * 3, ["-f", "2", "--permissive"] * 2 + ["-f", "1"]):
        assert apply(*options)[:2] == (0, "4 b c\n2 3 d\n")
    assert apply(*["-f", "1"] * 4)[:2] == (1, "")  # Kaldi's script reads three options.
    Path("map").write_text(f"a{blank}1\nb{blank}2\n\nc{blank}3\n")
    with pytest.raises(DataDirError, match=r"^map:3: apply_map\.pl: empty line: correct this line$"):
        lists.read_map("map")


@pytest.mark.parametrize(
    "options",
    ["-j 2 1", "--one-based -j 2 2", "-j 2 2 --one-based", "--utt2spk=pairs --one-based -j 2 2",
     "-j 2 2 --utt2spk=pairs --one-based", "--one-based -j 2 2 --utt2spk=pairs",
     "--one-based --utt2spk=pairs -j 2 2"],
)  # fmt: skip
def test_options_of_a_part_stand_in_any_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: Any, options: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text").write_text("a 1\nb 2\nc 3\nd 4\n")
    Path("pairs").write_text("a s\nb s\nc t\nd t\n")
    say = Printer("split_scp.pl")
    assert scripts.call_script(SCRIPTS[say.name], say, [*options.split(), "text", "part"]) == 0
    assert Path("part").read_text() == "c 3\nd 4\n"
    assert scripts.call_script(SCRIPTS[say.name], say, [*options.split(), "text"]) == 0
    sys.stdout.flush()
    assert capfdbinary.readouterr() == (b"c 3\nd 4\n", b"")
    for words in ("-j 2 1", "-j 2 1 text part more", "text", ""):
        with pytest.raises(DataDirError, match=r"^Usage: split_scp\.pl "):
            scripts.call_script(SCRIPTS[say.name], say, words.split())


@pytest.mark.parametrize("spec", ["x", "-", ":", "", "a2", "-x"])
def test_fields_to_map_are_numbers(tmp_path: Path, spec: str) -> None:
    (tmp_path / "map").write_text("a b\n")
    with pytest.raises(DataDirError, match=f"Bad argument to -f option: {spec}"):
        scripts.call_script(SCRIPTS["apply_map.pl"], Printer("apply_map.pl"), ["-f", spec, str(tmp_path / "map")])


def test_help_lists_the_commands_and_no_other_script(capfd: Any) -> None:
    assert run_data_command(["--help"]) == 0
    listed = [line.split()[0] for line in capfd.readouterr().out.splitlines() if line.startswith("  ")]
    assert sorted(listed) == sorted(
        [*(script.command for script in SCRIPTS.values() if script.command), "info", "install"]
    )
    for name in ("", "none"):
        assert run_data_command([name]) == 2
        error = capfd.readouterr().err
        assert f"there is no command {name!r}: choose from " in error and "install" in error
        assert error.count("\n") == 1 and ", ," not in error


def test_help_has_the_default_of_each_option(capfd: Any) -> None:
    assert run_data_command(["utt2dur", "--help"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["--frame-shift", "--nj", "--read-entire-file", "--cmd"]
    assert [line.rpartition(" (default: ")[2] for line in lines[1:]] == ["'0.01')", "4)", "false)", "'')"]


def test_help_is_printed_on_the_stream_of_the_program(capfd: Any) -> None:
    for flag in ("--help", "-h"):
        assert run_data_command(["copy", flag]) == 0
        usage, error = capfd.readouterr()
        assert usage.startswith("Usage: kaldi-compat data copy ") and not error
        # Kaldi's scripts print their help on standard error.
        assert scripts.call_script(SCRIPTS["copy_data_dir.sh"], Printer("copy_data_dir.sh"), [flag]) == 0
        output, usage = capfd.readouterr()
        assert usage.startswith("Usage: copy_data_dir.sh ") and not output


@pytest.mark.parametrize(("name", "usage"), [("info", "<data-dir>"), ("install", "[--force] <utils-dir>")])
def test_commands_beside_the_scripts_have_help_and_usage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any, name: str, usage: str
) -> None:
    """``install --help`` has written launchers into a folder ``--help``."""
    monkeypatch.chdir(tmp_path)
    line = f"Usage: kaldi-compat data {name} {usage}\n"
    for flag in ("--help", "-h"):
        assert run_data_command([name, flag]) == 0
        assert capfd.readouterr() == (line, "")
    for arguments in ([], ["a", "b"]):
        assert run_data_command([name, *arguments]) == 2
        assert capfd.readouterr() == ("", line)
    assert run_data_command([name, "--no-such", "data"]) == 2
    advice = {"info": "this command has no options", "install": "choose from --force"}[name]
    assert capfd.readouterr().err == f"kaldi-compat data {name}: unknown option --no-such: {advice}\n"
    assert not list(tmp_path.iterdir())


def test_command_for_a_directory_with_images_runs_no_script_of_the_recipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    (directory(tmp_path / "data") / "images.scp").write_text("u0000 x.png\n")
    (tmp_path / "image").mkdir()
    for name in ("fix", "validate"):
        (tmp_path / f"image/{name}_data_dir.sh").write_text("#!/bin/sh\ntouch was_run\n")
        (tmp_path / f"image/{name}_data_dir.sh").chmod(0o755)
    assert run_data_command(["fix", "data"]) == run_data_command(["validate", "--no-feats", "data"]) == 0
    assert not (tmp_path / "was_run").exists() and "validated data-directory data" in capfd.readouterr().out
