"""Jobs that make a directory, onto targets of all kinds: a listing with digests differs only in the files that the job names."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from io_ark import DataDir, DataDirError
from io_ark.data_dir import stage
from io_ark.data_dir.scripts import SCRIPTS, call_script, run_data_command
from io_ark.data_dir.stage import BACKUP, DATA_FILES, Printer, refuse_target

A, B = "data/a", "data/b"
ROOT = Path("project")
OWN = re.compile(rf"({BACKUP}/|split[0-9]+(utt)?/[0-9]+/)?({'|'.join(map(re.escape, DATA_FILES))})")


def script(*words: str) -> None:
    say = Printer(words[0], lambda line: None)
    assert call_script(SCRIPTS[words[0]], say, list(words[1:])) == 0


def command(*words: str) -> None:
    if run_data_command(list(words)):
        raise DataDirError("status")


JOBS: dict[str, Callable[[str], Any]] = {
    "combine_data.sh": lambda target: script("combine_data.sh", target, A, B),
    "copy_data_dir.sh": lambda target: script("copy_data_dir.sh", A, target),
    "subset_data_dir.sh": lambda target: script("subset_data_dir.sh", A, "3", target),
    "subset_data_dir.sh --spk-list": lambda target: script("subset_data_dir.sh", "--spk-list", "list", A, target),
    "perturb_data_dir_speed.sh": lambda target: script("perturb_data_dir_speed.sh", "0.9", A, target),
    "perturb_data_dir_speed_3way.sh": lambda target: script("perturb_data_dir_speed_3way.sh", A, target),
    "modify_speaker_info.sh": lambda target: script("modify_speaker_info.sh", "--utts-per-spk-max", "1", A, target),
    "remove_dup_utts.sh": lambda target: script("remove_dup_utts.sh", "2", A, target),
    "data combine": lambda target: command("combine", "--skip-fix", target, B, A),
    "data copy": lambda target: command("copy", A, target, "--utt-prefix=s-", "--spk-prefix=s-"),
    "data subset": lambda target: command("subset", "--first", A, "2", target),
    "data modify-speakers": lambda target: command("modify-speakers", A, target, "--seconds-per-spk-max=2"),
    "data perturb-speed-3way": lambda target: command("perturb-speed-3way", "--always-include-prefix", A, target),
    "combine": lambda target: DataDir.combine(target, A, B),
    "copy": lambda target: DataDir(A).copy(target),
    "subset": lambda target: DataDir(A).subset(target, durations=(0.5, 1.5)),
    "perturb_speed": lambda target: DataDir(A).perturb_speed(target, 1.1),
    "to_whole_recordings": lambda target: DataDir(B).to_whole_recordings(target),
}


def data(folder: Path, name: str, *, segments: bool) -> None:
    folder.mkdir(parents=True)
    keys = [f"{name}-{at}" for at in range(4)]
    recordings = [f"{name}-r"] if segments else keys
    files = {
        "utt2spk": [f"{key} {name}" for key in keys],
        "spk2utt": [f"{name} {' '.join(keys)}"],
        "text": [f"{key} yes" for key in keys],
        "wav.scp": [f"{key} recordings/{key}.wav" for key in recordings],
        "reco2dur": [f"{key} 4" for key in recordings],
        "utt2dur": [f"{key} 1" for key in keys],
    }
    if segments:
        files["segments"] = [f"{key} {name}-r {at} {at + 1}" for at, key in enumerate(keys)]
    for file, text in files.items():
        (folder / file).write_text("".join(f"{line}\n" for line in text))
    DataDir(folder).fix().split(1)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Return a function that makes a project, with sources, recordings and programs, and goes there."""
    monkeypatch.setattr("shutil.which", lambda name: name)

    def make(name: str) -> Path:
        root = tmp_path / name / ROOT
        data(root / A, "a", segments=False)
        data(root / B, "b", segments=True)
        for file in (
            "run.sh",
            "list",
            "recordings/a.wav",
            f"{A}/notes",
            f"{A}/sub/notes",
            f"{A}/split1/log/1.log",
            "file",
        ):
            (root / file).parent.mkdir(parents=True, exist_ok=True)
            (root / file).write_text("a\n")
        monkeypatch.chdir(root)
        return root

    return make


def listing(root: Path) -> dict[str, str]:
    """Return what every file, folder and link below a folder is."""
    found = {}
    for path in sorted(root.rglob("*")):
        what = f"link to {os.readlink(path)}" if path.is_symlink() else "folder" if path.is_dir() else "other"
        found[str(path.relative_to(root))] = (
            hashlib.sha256(path.read_bytes()).hexdigest() if what == "other" and path.is_file() else what
        )
    return found


def links(**targets: str) -> None:
    for name, target in targets.items():
        Path(name).symlink_to(target)


def odd_file(make: Callable[[Path], object], name: str) -> str:
    Path("odd", name).parent.mkdir(parents=True)
    make(Path("odd", name))
    return "odd"


# Makes what is in the way, and returns the target; and what the refusal says.
REFUSED: dict[str, tuple[Callable[[], str], str]] = {
    "the working directory": (lambda: ".", "working directory|contains the source"),
    "the working directory with a slash": (lambda: "./", "working directory|contains the source"),
    "the parent": (lambda: "..", "working directory|contains the source"),
    "the parent's parent": (lambda: "../..", "working directory|contains the source"),
    "the working directory by its name": (lambda: f"../{ROOT}", "working directory|contains the source"),
    "the working directory by its path": (os.getcwd, "working directory|contains the source"),
    "a link to the working directory": (lambda: links(here=".") or "here", "working directory|contains the source"),
    "the parent behind a folder that is missing": (lambda: "none/../..", "working directory|contains the source"),
    "the folder of the sources": (lambda: "data", "contains the source"),
    "the folder of the sources with a slash": (lambda: "data/", "contains the source"),
    "a link to the folder of the sources": (lambda: links(up="data") or "up", "contains the source"),
    "the source": (lambda: "{source}", "different|another|is a source"),
    "the source with a slash": (lambda: "{source}/", "is a source"),
    "the source with two slashes": (lambda: "{source}//", "is a source"),
    "the source by another name": (lambda: "./run.d/../{source}", "is a source"),
    "the source by its path": (lambda: os.path.abspath("{source}"), "is a source"),
    "the source behind a folder that is missing": (lambda: "none/../{source}", "is a source"),
    "a link to a source": (lambda: links(alias_a=A, alias_b=B) or "alias_{name}", "is a source"),
    "a link to a link to a source": (
        lambda: links(alias_a=A, alias_b=B, two_a="alias_a", two_b="alias_b") or "two_{name}",
        "is a source",
    ),
    "the parent of a folder behind a link": (
        lambda: links(sub_a=f"{A}/sub", sub_b=f"{B}/split1") or "sub_{name}/..",
        "is a source",
    ),
    "the source's backup": (lambda: "{source}/.backup", "belongs to the source"),
    "the source's split folder": (lambda: "{source}/split1", "belongs to the source"),
    "a part of the source": (lambda: "{source}/split1/1", "belongs to the source"),
    "a part that is not there": (lambda: "{source}/split8utt/3", "belongs to the source"),
    "a link to a part": (lambda: links(part_a=f"{A}/split1/1", part_b=f"{B}/split1/1") or "part_{name}", "belongs to"),
    "a URL": (lambda: "gs://bucket/out", "is a URL"),
    "a file": (lambda: "file", "is not a directory"),
    "a folder within a file": (lambda: "file/out", "is not a directory"),
    "a link to nothing": (lambda: links(dangling="nowhere") or "dangling", "is not a directory"),
    "a link to itself": (lambda: links(loop="loop") or "loop", "is not a directory"),
    "a directory whose utt2spk is a folder": (lambda: odd_file(Path.mkdir, "utt2spk"), "is not a regular file"),
    "a directory whose text is a pipe": (lambda: odd_file(os.mkfifo, "text"), "is not a regular file"),
    "a directory whose backup is a link": (
        lambda: odd_file(lambda path: path.symlink_to("../recordings"), ".backup"),
        "has a parent that is a link",
    ),
    "a directory whose backup is a file": (
        lambda: odd_file(Path.touch, ".backup"),
        "has a parent that is a link or a file",
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_refused_target_is_changed(kind: str, project: Any, capfd: pytest.CaptureFixture[str]) -> None:
    prepare, said = REFUSED[kind]
    root = project("one")
    (root / "run.d").mkdir()
    target = prepare()
    before = listing(root.parent)
    for name, job in JOBS.items():
        letter = "b" if name == "to_whole_recordings" else "a"
        capfd.readouterr()
        with pytest.raises(DataDirError) as error:
            job(target.format(source=f"data/{letter}", name=letter))
        told = capfd.readouterr().err
        text = str(error.value) if str(error.value) != "status" else told
        is_printed = kind == "the source" and not text  # as Kaldi's scripts do if the names are the same
        assert is_printed or re.search(said, text), (name, text)
        assert text.count("\n") <= 1 and "Traceback" not in told
        assert listing(root.parent) == before, name


def old_directory(folder: str, more: str = "") -> str:
    """Make a directory of another job, with files of others, and links."""
    base = Path(folder)
    for file in DATA_FILES:
        if file not in ("feats.scp", "images.scp"):
            (base / file).parent.mkdir(parents=True, exist_ok=True)
            (base / file).write_text(f"old {file}\n")
    for file in (
        "notes",
        "sub/text",
        "split2/1/utt2spk",
        "split2/1/mine",
        "split2/log/utt2spk",
        "split3/1/segments",
        "splits/1/text",
    ):
        (base / file).parent.mkdir(parents=True, exist_ok=True)
        (base / file).write_text("old\n")
    return folder


def with_links(folder: str, **targets: str) -> str:
    Path(folder).mkdir()
    for name, target in targets.items():
        Path(folder, name.replace("_scp", ".scp")).symlink_to(target)
    return folder


MADE: dict[str, Callable[[], str]] = {
    "a new directory": lambda: "data/out",
    "a new directory with a slash": lambda: "data/out/",
    "a new directory in new ones": lambda: "data/x/y/out",
    "an empty folder": lambda: os.mkdir("out") or "out",
    "a folder within the source": lambda: f"{A}/sub",
    "a new folder within the source": lambda: f"{A}/split",
    "a directory of another job": lambda: old_directory("out"),
    "a link to a directory elsewhere": lambda: links(out=old_directory("../elsewhere")) or "out",
    "a folder with foreign files": lambda: old_directory("out/split1/1"),
    "a sibling whose name begins with the source's": lambda: f"{A}2",
    "links to the source's files": lambda: with_links("out", utt2spk=f"../{A}/utt2spk", wav_scp=f"../{A}/wav.scp"),
    "links to files elsewhere": lambda: with_links("out", text="../file", spk2warp="../file", notes="../file"),
    "links to nothing": lambda: with_links("out", text="nowhere", segments="nowhere", glm="nowhere"),
}
WITHIN = {"a folder within the source": f"{A}/sub", "a new folder within the source": f"{A}/split"}


def files_of(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in DATA_FILES if (folder / name).is_file()}


@pytest.mark.parametrize("name", JOBS)
def test_job_changes_foreign_files_or_uses_old_ones(name: str, project: Any) -> None:
    job, made = JOBS[name], {}
    for at, (kind, prepare) in enumerate(MADE.items()):
        root = project(str(at))
        target = prepare()
        before = listing(root.parent)
        job(target)
        after = listing(root.parent)
        changed = {path for path in {*before, *after} if before.get(path) != after.get(path)}
        place = os.path.relpath(os.path.realpath(target), root.parent)
        copied = {f"{place}/notes"} if name.startswith("remove") else set[str]()  # remove_dup_utts.sh copies all files
        foreign = {path for path in changed - copied if not OWN.fullmatch(os.path.relpath(path, place))}
        # New folders, those of the old parts that are empty now, and .backup, which remove_dup_utts.sh removes if it
        # made it.
        folders = {
            path for path in foreign if "folder" in (before.get(path), after.get(path)) and not path.endswith("log")
        }
        assert not foreign - folders, (kind, foreign - folders)
        assert all(
            os.path.relpath(path, place) in ("..", "../..", ".", BACKUP, "split3", "split3/1") for path in folders
        )
        assert not any(path.is_symlink() for path in Path(target).iterdir() if path.name in DATA_FILES), kind
        made[kind] = files_of(root.parent / place)
        old = files_of(root.parent / place / BACKUP)
        if kind == "a directory of another job":
            assert all(
                old[file] == b"old %b\n" % file.encode()
                for file in DATA_FILES
                if file not in {*made[kind], "feats.scp", "images.scp"}
            )
    for kind, files in made.items():
        assert files == made["a new directory"], kind


def test_root_is_a_target(project: Any) -> None:
    project("one")
    with pytest.raises(DataDirError, match="contains the source"):
        refuse_target("/", A)
    with pytest.raises(DataDirError, match="is or contains the working directory"):
        refuse_target("/")


@pytest.mark.parametrize("kind", REFUSED)
def test_source_is_changed_before_its_target_is_refused(kind: str, project: Any) -> None:
    root = project("one")
    (root / "run.d").mkdir()
    Path(B, "utt2dur").unlink()  # these jobs make it of segments
    target = REFUSED[kind][0]().format(source=B, name="b")
    before = listing(root.parent)
    for words in (
        ("perturb_data_dir_speed_3way.sh", B, target),
        ("perturb_data_dir_speed.sh", "0.9", B, target),
        ("modify_speaker_info.sh", "--seconds-per-spk-max", "2", B, target),
        ("combine_data.sh", target, B, A),
    ):
        with pytest.raises(DataDirError):
            script(*words)
        assert listing(root.parent) == before, words
    with pytest.raises(DataDirError):
        DataDir(B).subset(target, durations=(0, 9))
    assert listing(root.parent) == before


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_folder_far_above_a_source_is_a_target(project: Any, depth: int) -> None:
    root = project("one")
    data(root / "w/x/y/z", "z", segments=False)
    before = listing(root)
    with pytest.raises(DataDirError, match="contains the source w/x/y/z"):
        DataDir("w/x/y/z").copy("w/x/y/z" + "/.." * depth)
    assert listing(root) == before


def test_source_is_known_only_by_the_name_of_its_path(project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # As with a bind mount, of which no name is that of the other.
    root = project("one")
    links(alias=A, data_alias="data")
    before = listing(root.parent)
    monkeypatch.setattr(stage.os.path, "realpath", os.path.abspath)
    for target, said in (
        ("alias", "is a source"),
        ("alias/split1", "belongs to"),
        ("data_alias", "contains the source"),
    ):
        for name in ("combine", "copy", "subset", "data subset"):
            with pytest.raises(DataDirError) as error:
                JOBS[name](target)
            assert said in str(error.value) or str(error.value) == "status"
    monkeypatch.undo()
    assert listing(root.parent) == before


def test_directory_in_the_way_of_a_speed_is_overwritten(project: Any) -> None:
    root = project("one")
    data(root / "out_speed0.9", "mine", segments=False)
    before = listing(root)
    for job in ("perturb_data_dir_speed_3way.sh", "data perturb-speed-3way"):
        with pytest.raises(DataDirError):
            JOBS[job]("out")
        assert listing(root) == before


def test_source_that_is_named_as_a_speed_is_overwritten(project: Any) -> None:
    root = project("one")
    os.rename("data/a", "data/x_speed1.1")
    before = listing(root)
    with pytest.raises(DataDirError, match="is a source"):
        script("perturb_data_dir_speed_3way.sh", "data/x_speed1.1", "data/x")
    assert listing(root) == before


def test_directories_of_speeds_stay(project: Any) -> None:
    root = project("one")
    for folder in ("out_speed0.9", "out_speed1.1/.backup"):  # of a job that was killed, and what somebody put there
        (root / folder).mkdir(parents=True)
    (root / "out_speed0.9" / stage._TEMPORARY_MARK).touch()
    (root / "out_speed0.9/utt2spk").write_text("old\n")
    (root / "out_speed0.9/notes").write_text("mine\n")
    os.rmdir("out_speed1.1/.backup")
    JOBS["perturb_data_dir_speed_3way.sh"]("out")
    assert [path.name for path in root.glob("out*")] == ["out_speed0.9", "out"] or sorted(
        path.name for path in root.glob("out*")
    ) == ["out", "out_speed0.9"]
    assert [path.name for path in (root / "out_speed0.9").iterdir()] == ["notes"]


def test_speeds_that_fail_leave_directories(project: Any) -> None:
    root = project("one")
    before = {path for path in listing(root) if not path.startswith(f"{A}/")}
    (root / A / "wav.scp").write_text("a-0 x.wav\n")
    (root / A / "reco2dur").write_text("a-0 x\n")
    (root / A / "spk2utt").unlink()
    (root / A / "utt2spk").write_text("a-0 b c\n")
    with pytest.raises(DataDirError):
        JOBS["perturb_data_dir_speed_3way.sh"]("new/out")
    assert {path for path in listing(root) if not path.startswith(f"{A}/")} - {"new"} == before


def test_backup_of_others_is_removed_with_repetitions(project: Any) -> None:
    project("one")
    Path("out/.backup").mkdir(parents=True)
    for name in ("segments", "notes", "text"):
        Path("out/.backup", name).write_text("old\n")
    JOBS["remove_dup_utts.sh"]("out")
    assert sorted(path.name for path in Path("out/.backup").iterdir()) == ["notes", "segments", "text"]
    Path("new").mkdir()
    JOBS["remove_dup_utts.sh"]("new")
    assert not Path("new/.backup").exists()


def test_backup_from_before_is_removed_with_repetitions(project: Any) -> None:
    project("one")
    Path("out/.backup").mkdir(parents=True)
    for name in ("out/spk2warp", "out/.backup/spk2warp", "out/.backup/glm", f"{A}/glm"):
        Path(name).write_text(f"{name}\n")
    Path(A, "text").write_text("a-0 yes\na-1 yes\na-2 yes\na-3 no\n")
    JOBS["remove_dup_utts.sh"]("out")
    assert sorted(path.name for path in Path("out/.backup").iterdir()) == ["glm", "spk2warp"]
    assert Path("out/.backup/glm").read_text() == "out/.backup/glm\n"


@pytest.mark.parametrize("depth", [1, 2])
def test_source_has_links_to_files_of_the_target(project: Any, depth: int) -> None:
    root = project("one")
    data(root / "raw", "raw", segments=False)
    if depth == 2:
        os.replace("raw/wav.scp", "recordings/wav.scp")
        Path("raw/wav.scp").symlink_to("../recordings/wav.scp")
    for source in (A, B):
        Path(source, "wav.scp").unlink()
        Path(source, "wav.scp").symlink_to("../../raw/wav.scp")
    before = listing(root.parent)
    for name, job in JOBS.items():
        with pytest.raises(DataDirError) as error:
            job("raw")
        assert re.search("raw/wav.scp, to which a file of the source|status", str(error.value)), name
        assert listing(root.parent) == before, name


@pytest.mark.parametrize("name", ["segments", "text", "cmvn.scp"])
def test_part_has_a_file_that_the_directory_lost(project: Any, name: str) -> None:
    root = project("one")
    Path(A, "split1/1", name).write_text("old\n")
    Path(A, "split1/1/mine").write_text("mine\n")
    Path(A, name).unlink(missing_ok=True)
    os.utime(root / A / "wav.scp", (2e9, 2e9))
    script("split_data.sh", A, "1")
    assert not Path(A, "split1/1", name).exists() and Path(A, "split1/1/mine").exists()
    assert Path(A, "split1/1/utt2spk").read_bytes() == Path(A, "utt2spk").read_bytes()


@pytest.mark.parametrize("base", [BACKUP, "split2", "split2/1"])
def test_link_within_a_directory_is_followed(project: Any, base: str) -> None:
    root = project("one")
    Path(B, "text").write_text("b-3 x\nb-1 x\n")
    place = Path(B, base)
    if base == BACKUP:
        for path in place.iterdir():
            path.unlink()
        place.rmdir()
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(root / "recordings")
    before = listing(root)
    words = ["fix_data_dir.sh", B] if base == BACKUP else ["split_data.sh", "--per-utt", B, "2"]
    words = words if base == BACKUP else ["split_data.sh", B, "2"]
    Path(B, "utt2spk").write_text("".join(f"b-{at} b-{at}\n" for at in range(4)))
    Path(B, "spk2utt").write_text("".join(f"b-{at} b-{at}\n" for at in range(4)))
    before = listing(root)
    with pytest.raises(DataDirError, match="has a parent that is a link or a file"):
        script(*words)
    assert listing(root) == before


def test_unchanged_files_of_a_target_are_written_again(project: Any) -> None:
    project("one")
    script("copy_data_dir.sh", A, "copy")
    before = {path: path.stat().st_ino for path in Path("copy").iterdir()}
    script("copy_data_dir.sh", A, "copy")
    assert before == {path: path.stat().st_ino for path in Path("copy").iterdir()}


def test_link_to_an_equal_file_is_replaced_in_place(project: Any) -> None:
    project("one")
    Path("text").write_bytes(Path(A, "text").read_bytes())
    Path(A, "text").unlink()
    Path(A, "text").symlink_to("../../text")
    os.utime("text", (1e9, 1e9))
    script("fix_data_dir.sh", A)
    assert Path(A, "text").is_symlink() and os.stat("text").st_mtime == 1e9  # as by Kaldi's script
    Path(A, "utt2spk").write_text("a-0 a\n")
    script("fix_data_dir.sh", A)
    assert not Path(A, "text").is_symlink() and Path(A, "text").read_text() == "a-0 yes\n"
    assert len(Path("text").read_text().splitlines()) == 4
