"""Change the speed, volume or sampling rate of the audio of a data directory by commands in ``wav.scp``."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from io_ark.data_dir.audio_commands import OFFSET, are_lines_plain, parse_audio_entry, quote_name
from io_ark.data_dir.awk_numbers import is_number, parse_column, parse_number, replace_values
from io_ark.data_dir.directories import (
    Renaming,
    combine_directories,
    copy_directory,
    map_utterances_to_themselves,
    refuse_same_directory,
    write_spk2utt,
)
from io_ark.data_dir.durations import get_reco2dur, get_utt2dur
from io_ark.data_dir.fix import fix_directory, fix_stage
from io_ark.data_dir.line_chunks import number_chunks, read_chunks, read_lines, split_lines
from io_ark.data_dir.line_fields import get_column, has_single_spaces
from io_ark.data_dir.line_order import sort_lines
from io_ark.data_dir.lists import make_refusal
from io_ark.data_dir.segment_times import is_to_the_end
from io_ark.data_dir.speaker_lists import convert_to_spk2utt
from io_ark.data_dir.stage import (
    DATA_FILES,
    DataDirError,
    DataFiles,
    Printer,
    Stage,
    make_temporary_directories,
    refuse_target,
    set_status,
)
from io_ark.data_dir.validate import validate_directory
from io_ark.streams.unfinished import is_replaceable

MIN_SEGMENT_SECONDS = 0.01
# Files of the source that are used to make a directory with several speeds. Features are not used, because the audio
# differs.
USED_FILES = "reco2dur reco2file_and_channel segments spk2gender text utt2dur utt2lang utt2spk utt2uniq wav.scp"
_FREQUENCY = re.compile(r"0*[1-9][0-9]*(?:\.[0-9]+)?k?", re.ASCII)
_QUOTED = re.compile(rb"'[^']*'")


def add_speed_command(key: bytes, entry: bytes, factor: bytes) -> bytes:
    """Return a line of wav.scp with a command that changes the speed of the recording ``key`` by ``factor``.

    Raise ValueError for an ``entry`` that :func:`parse_audio_entry` refuses.
    """
    audio = parse_audio_entry(entry)
    if audio.command:
        return b"%b %b sox -t wav - -t wav - speed %b |\n" % (key, audio.command, factor)
    if not audio.is_wav:
        return b"%b sox %b -b 16 -t wav - speed %b |\n" % (key, audio.file, factor)
    file = b" " + audio.file if audio.file else b""
    return b"%b sox -t wav%b -t wav - speed %b |\n" % (key, file, factor)


def change_speed_in_wav_scp(path: str, chunks: Iterable[bytes], factor: bytes) -> Iterator[bytes]:
    """Yield chunks of wav.scp with commands that change the speed by ``factor``, such as b"0.9".

    In ``chunks``, a single space must follow each key, and a newline each line. ``path`` is the name of the file for
    errors. Raise DataDirError for an entry that :func:`parse_audio_entry` refuses.
    """
    ending = b" -t wav - speed %b |\n" % factor
    for lines_before, chunk in number_chunks(chunks):
        after_command = b" | sox -t wav -" + ending
        if changed_chunk := add_commands(chunk, after_command, before_file=b" sox -t wav ", after_file=ending):
            yield changed_chunk
            continue
        changed_lines = []
        for line_number, line in enumerate(chunk.split(b"\n")[:-1], lines_before + 1):
            key, _, name = line.partition(b" ")
            try:
                changed_lines.append(add_speed_command(key, name, factor))
            except ValueError as error:
                raise DataDirError(str(error), path, line_number, key) from None
        yield b"".join(changed_lines)


def add_commands(chunk: bytes, after_command: bytes, before_file: bytes, after_file: bytes) -> bytes:
    """Return a chunk of wav.scp with a command added to all lines, or b"" if the lines must be changed one by one.

    The lines can be changed together if all lines have commands with single spaces between words, or all lines have
    names of WAV files that need no quotes and do not begin with "-".

    Args:
        after_command: bytes that replace the final " |" and the newline of a line with a command.
        before_file: bytes before the name of a file, including the space after the key.
        after_file: bytes after the name of a file, including the newline.
    """
    line_count = chunk.count(b"\n")
    if chunk.count(b" |\n") == line_count:
        return chunk.replace(b" |\n", after_command) if has_single_spaces(chunk) else b""
    if chunk.count(b".wav\n") != line_count or chunk.count(b" ") != line_count or not chunk.endswith(b"\n"):
        return b""
    if b" -" in chunk or not are_lines_plain(chunk) or b"" in get_column(chunk, 2):
        return b""
    return chunk.replace(b" ", before_file).replace(b"\n", after_file)


def scale_durations(chunks: Iterable[bytes], speed: float) -> Iterator[bytes]:
    """Return an iterator over chunks of utt2dur or reco2dur with the durations divided by ``speed``."""
    return (replace_values(chunk, [seconds / speed for seconds in parse_column(chunk, 2)]) for chunk in chunks)


def scale_segments(chunks: Iterable[bytes], speed: float) -> Iterator[bytes]:
    """Yield chunks of segments with the times divided by ``speed``. In ``chunks``, single spaces must separate fields.

    Times have two decimals, and fields after the end are removed. Segments with a new duration of
    :data:`MIN_SEGMENT_SECONDS` or less are omitted. An end of -1, which stands for the end of the recording, does not
    change.
    """
    for chunk in chunks:
        lines = []
        for line in chunk.split(b"\n")[:-1]:
            key, recording, start, end, *_ = line.split(b" ") + [b""] * 3
            new_start, new_end = parse_number(start) / speed, parse_number(end) / speed
            if new_end > new_start + MIN_SEGMENT_SECONDS:
                lines.append(b"%b %b %.2f %.2f\n" % (key, recording, new_start, new_end))
            elif is_to_the_end(end):
                lines.append(b"%b %b %.2f -1\n" % (key, recording, new_start))
        yield b"".join(lines)


def _find_sox(say: Printer, message: str) -> str:
    """Return the path of sox. If sox is missing, print Kaldi's ``message``, and raise DataDirError."""
    import shutil

    path = shutil.which("sox")
    if not path:
        say.write(message)
        raise say.fail("", "sox is missing, and the commands in wav.scp will call it: install sox")
    return path


def change_speed_of_files(
    src: DataFiles, factor: str, speakers: Renaming, utterances: Renaming, recordings: Renaming
) -> dict[str, Iterator[bytes]]:
    """Return the new files of a directory that has the audio of ``src`` at a different speed, as chunks by file name.

    The result has the files that Kaldi's script converts, except spk2utt, utt2dur and reco2dur, which the caller
    writes. ``factor`` is the speed, such as "0.9". ``speakers``, ``utterances`` and ``recordings`` rename the keys in
    these files. Without segments, ``utterances`` also renames the keys of wav.scp.
    """
    utt2spk, segments = src.find("utt2spk"), src.find("segments")
    files = {
        "utt2uniq": utterances.pair_names(src.find("utt2uniq")),
        "utt2spk": speakers.rename_lines(utt2spk, 2, utterances.rename_lines(utt2spk)),
    }
    if segments:
        chunks = recordings.rename_lines(segments, 2, utterances.rename_lines(segments))
        files["segments"] = scale_segments(chunks, parse_number(factor.encode()))
        if path := src.find("reco2file_and_channel"):
            files["reco2file_and_channel"] = recordings.rename_lines(path)
    if path := src.find("wav.scp"):
        chunks = (recordings if segments else utterances).rename_lines(path)
        files["wav.scp"] = change_speed_in_wav_scp(path, chunks, factor.encode())
    for name, renaming in (("text", utterances), ("spk2gender", speakers), ("utt2lang", utterances)):
        if path := src.find(name):
            files[name] = renaming.rename_lines(path)
    return files


def write_files_at_speeds(say: Printer, stage: Stage, src: DataFiles, factors: Sequence[str]) -> None:
    """Write to ``stage`` the files of a data directory that has every utterance of ``src`` at every speed in ``factors``.

    The files are sorted, and fixed by :func:`fix_stage`. Utterances, speakers and recordings get a prefix such as
    ``sp0.9-``, except for a factor of 1. Sox is not needed, no audio is read, and the source may lack durations and
    spk2utt. Raise DataDirError if the source lacks utt2spk or wav.scp, or if a file is invalid.
    """
    utt2spk, wav_scp = src.require(say), src.require(say, "wav.scp")
    refuse_line = make_refusal("expected an utterance and its speaker", utt2spk)
    stage.write("spk2utt", convert_to_spk2utt(read_chunks(utt2spk), refuse_line))
    files_by_speed: list[dict[str, Iterator[bytes]]] = []
    for factor in factors:
        speed, listings = parse_number(factor.encode()), (stage.find("spk2utt"), utt2spk, wav_scp)
        if speed == 1:
            files_by_speed.append({name: read_chunks(path) for name in USED_FILES.split() if (path := src.find(name))})
            continue
        speakers, utterances, recordings = (Renaming(listing, f"sp{factor}-") for listing in listings)
        files_by_speed.append(change_speed_of_files(src, factor, speakers, utterances, recordings))
        for name, renaming in (("utt2dur", utterances), ("reco2dur", recordings)):
            if path := src.find(name):
                files_by_speed[-1][name] = scale_durations(renaming.rename_lines(path), speed)
    if any("utt2uniq" in files for files in files_by_speed):
        for files in files_by_speed:
            files.setdefault("utt2uniq", map_utterances_to_themselves(src))
    for name in files_by_speed[0]:
        if all(name in files for files in files_by_speed):
            stage.write(name, sort_lines([files[name] for files in files_by_speed]))
    write_spk2utt(stage)
    fix_stage(say, stage)


def perturb_speed(say: Printer, factor: str, source: str, target: str, *, include_spk_prefix: bool = True) -> int:
    """Make a directory with sox commands that change the speed (Kaldi: perturb_data_dir_speed.sh).

    If the source lacks utt2dur or reco2dur, the file is written there first. Return the exit status of
    :func:`validate_directory`.

    Args:
        factor: speed factor, such as 0.9.
        source, target: path of the directory, path of the new directory.
        include_spk_prefix: add the prefix sp<factor>- to the names of utterances, recordings and speakers. If false,
            utterances and recordings get the suffix -sp<factor>, and speakers keep their names.

    Raise DataDirError if the factor is not a number above 0, sox or a file is missing, or a directory is invalid or
    cannot be read or written.
    """
    speed = parse_number(factor.encode())
    if speed <= 0 or not is_number(factor.encode()):
        raise DataDirError(f"the warping factor must be a number above 0, such as 0.9, not {factor!r}")
    _find_sox(say, "sox: command not found")
    src = DataFiles(source)
    utt2spk = src.require(say)
    refuse_same_directory(source, target, "this script requires <srcdir> and <destdir> to be different.", say)
    affixes = (f"sp{factor}-", "") if include_spk_prefix else ("", f"-sp{factor}")
    with Stage(target, say, sources=[source], changes_sources=True) as stage:
        speakers = Renaming(src.require(say, "spk2utt"), *affixes)
        utterances, recordings = Renaming(utt2spk, *affixes), Renaming(src.require(say, "wav.scp"), *affixes)
        if not include_spk_prefix:
            speakers.suffix = b""
        for name, chunks in change_speed_of_files(src, factor, speakers, utterances, recordings).items():
            stage.write(name, chunks)
            if name == "utt2spk":
                write_spk2utt(stage)
        for name, make_file, renaming in (("utt2dur", get_utt2dur, utterances), ("reco2dur", get_reco2dur, recordings)):
            if not src.find(name):
                make_file(say.with_name(f"utils/data/get_{name}.sh"), source)
            stage.write(name, scale_durations(renaming.rename_lines(src.find(name)), speed))
        say(f"generated speed-perturbed version of data in {source}, in {target}")
        fix_stage(say.with_name("utils/fix_data_dir.sh"), stage)
    return validate_directory(say.with_name("utils/validate_data_dir.sh"), target, no_feats=True, no_text=True)


def perturb_speed_3way(
    say: Printer, source: str, target: str, *, always_include_prefix: bool = False, include_spk_prefix: bool = True
) -> int:
    """Make a directory with the audio at speeds 0.9, 1.0 and 1.1 (Kaldi: perturb_data_dir_speed_3way.sh).

    The source is fixed first, and gets utt2dur and reco2dur if they are missing. Return the exit status of
    :func:`validate_directory`.

    Args:
        source, target: path of the directory, path of the new directory.
        always_include_prefix: add the prefix sp1.0- to the names at speed 1.0 as well.
        include_spk_prefix: add prefixes, such as sp0.9-, to all names at speeds 0.9 and 1.1. If false, utterances
            and recordings get suffixes, and speakers keep their names.

    Raise DataDirError if sox, ``wav.scp`` or ``spk2utt`` is missing, the target has features or is the source, a
    temporary directory such as <target>_speed0.9 exists, or a directory is invalid or cannot be read or written.
    """
    src = DataFiles(source)
    if not src.find("wav.scp"):
        raise say.fail(f"expected {source}/wav.scp to exist")
    feats = f"{target}/feats.scp"
    if os.path.isfile(feats):
        raise say.fail(f"{feats} already exists: refusing to run this (please delete {feats} if you want this to run)")
    refuse_same_directory(source, target, "<srcdir> and <destdir> must be different.", say)
    factors = ("0.9", "1.1", "1.0") if always_include_prefix else ("0.9", "1.1")
    folders = [f"{target.rstrip('/')}_speed{factor}" for factor in factors]
    for folder in folders:
        refuse_target(folder, source)
    with make_temporary_directories(*folders, beside=[source, target]):
        _make_and_combine_speeds(say, src, target, folders, include_spk_prefix=include_spk_prefix)
    say(f"generated 3-way speed-perturbed version of data in {source}, in {target}")
    try:
        return validate_directory(say.with_name("utils/validate_data_dir.sh"), target, no_feats=True, no_text=True)
    except DataDirError as error:
        say("Validation failed.  If it is a sorting issue, try the option '--always-include-prefix true'.")
        error.status = 1  # Kaldi's script exits with 1 for every status of validate_data_dir.sh.
        raise


def _make_and_combine_speeds(
    say: Printer, src: DataFiles, target: str, folders: list[str], *, include_spk_prefix: bool
) -> None:
    """Make directories at speeds 0.9 and 1.1 in ``folders``, and combine them with the source in ``target``.

    The source is fixed first, and gets utt2dur and reco2dur if they are missing. If ``folders`` has a third folder, a
    copy of the source is written there, with the prefix sp1.0- before all names, and is combined instead of the source.
    """
    source = src.folder
    with set_status(1):
        fix_directory(say.with_name("utils/fix_data_dir.sh"), source)
    say("making sure the utt2dur and the reco2dur files are present")
    say.write(f"... in {source}, because obtaining it after speed-perturbing")
    say.write("... would be very slow, and you might need them.")
    get_utt2dur(say.with_name("utils/data/get_utt2dur.sh"), source)
    get_reco2dur(say.with_name("utils/data/get_reco2dur.sh"), source)
    say_speed = say.with_name("utils/data/perturb_data_dir_speed.sh")
    with set_status(1):
        for factor, folder in zip(("0.9", "1.1"), folders, strict=False):
            perturb_speed(say_speed, factor, source, folder, include_spk_prefix=include_spk_prefix)
    unchanged = folders[2] if len(folders) > 2 else source
    if unchanged != source:
        try:
            copy_directory(
                say.with_name("utils/copy_data_dir.sh"), source, unchanged, spk_prefix="sp1.0-", utt_prefix="sp1.0-"
            )
        except DataDirError:  # The copy may be invalid, since fix_data_dir.sh has not fixed it yet.
            if not os.path.isfile(f"{unchanged}/utt2spk"):
                raise
        with Stage(unchanged, say) as stage:
            utterances = Renaming(src.find("utt2spk"), "sp1.0-")
            stage.write("utt2uniq", utterances.pair_names(src.find("utt2uniq")))
    say_combine = say.with_name("utils/data/combine_data.sh")
    say_combine.write(f"{say_combine.name} {' '.join([target, unchanged, *folders[:2]])}")
    combine_directories(say_combine, target, unchanged, *folders[:2])


def perturb_volume(
    say: Printer,
    folder: str,
    *,
    reco2vol: str = "",
    write_reco2vol: str = "",
    scale_low: float = 0.125,
    scale_high: float = 2.0,
) -> int:
    """Change the volume of the recordings in place (Kaldi: perturb_data_dir_volume.sh). Return the exit status 0.

    A sox command is added to each entry of wav.scp, and feats.scp is moved into ``.backup``. If one of the first 100
    entries already has such a command, nothing is changed.

    Args:
        reco2vol: path of a file with a factor for each recording, or "" for random factors, which are the same in every
            run.
        write_reco2vol: path to which the factors are written, or "" to write no file.
        scale_low: minimum of the random factors.
        scale_high: maximum of the random factors.

    Raise DataDirError if wav.scp is missing, a line of wav.scp or ``reco2vol`` is invalid, a recording has no factor,
    or ``write_reco2vol`` is an input, a folder or a device, or cannot be written.
    """
    import random

    path = f"{folder}/wav.scp"
    if not os.path.isfile(path):
        raise say.fail(f"Expected {path} to exist")
    input_paths = [reco2vol, *(os.path.join(folder, name) for name in DATA_FILES)]
    for input_path in filter(os.path.exists, input_paths):
        if os.path.exists(write_reco2vol) and os.path.samefile(input_path, write_reco2vol):
            raise DataDirError("is read by this job: write the volumes to another file", write_reco2vol)
    if os.path.isdir(write_reco2vol) or not is_replaceable(Path(write_reco2vol)):
        raise DataDirError("is not a regular file: write the volumes to another file", write_reco2vol)
    known_volumes = _read_volumes(reco2vol) if reco2vol else None
    width, draw_number = scale_high - scale_low, random.Random(0).random
    volume_lines: list[bytes] = []

    def change_volume(number: int, line: bytes, key: bytes, entry: bytes) -> bytes:
        """Return line ``number`` of wav.scp with a command, and store the factor.

        Raise DataDirError for a missing factor, ValueError for an invalid entry.
        """
        volume = scale_low + width * draw_number()
        if known_volumes is not None:
            if key not in known_volumes:
                raise DataDirError(f"has no volume in {reco2vol}: add a line for the key", path, number, key)
            volume = known_volumes[key]
        scale, audio = b"%a" % volume, parse_audio_entry(entry)
        if write_reco2vol:
            volume_lines.append(b"%b %b\n" % (key, scale))
        if entry.endswith(b"|"):
            return b"%b sox --vol %b -t wav - -t wav - |\n" % (line.strip(), scale)
        if audio.command:
            return b"%b %b sox --vol %b -t wav - -t wav - |\n" % (key, audio.command, scale)
        if not audio.is_wav:
            return b"%b sox --vol %b %b -b 16 -t wav - |\n" % (key, scale, audio.file)
        return b"%b sox --vol %b -t wav %b -t wav - |\n" % (key, scale, audio.file)

    # Check the volume after the stage is opened, because opening finishes a killed job, which may have changed the
    # volume.
    with contextlib.ExitStack() as after_commit, Stage(folder, say) as stage:
        if _has_volume(path):
            say("It looks like the data was already volume perturbed.  Not doing anything.")
            return 0
        stage.write("wav.scp", change_recordings(path, change_volume))
        if stage.find("feats.scp"):
            say(f"{folder}/feats.scp exists; moving it to {folder}/.backup/ as it wouldn't be valid any more.")
            stage.move_to_backup("feats.scp")
        if write_reco2vol:
            after_commit.enter_context(_replace_after_block(write_reco2vol, volume_lines))
    say(f"added volume perturbation to the data in {folder}")
    return 0


@contextlib.contextmanager
def _replace_after_block(path: str, lines: Iterable[bytes]) -> Iterator[None]:
    """Write lines to a temporary file, which replaces the file ``path`` if the ``with`` block ends without an error.

    Raise DataDirError if the temporary file cannot be written.
    """
    temporary_path = f"{path}.{os.getpid()}.tmp"
    try:
        try:
            with open(temporary_path, "wb") as file:
                file.writelines(lines)
        except OSError as error:
            raise DataDirError(f"{error.strerror}: nothing was changed; write to another file", path) from None
        yield
        os.replace(temporary_path, path)
    finally:
        with contextlib.suppress(OSError):  # The file was renamed, or was never created.
            os.unlink(temporary_path)


def change_recordings(
    path: str,
    change_line: Callable[[int, bytes, bytes, bytes], bytes],
    change_chunk: Callable[[bytes], bytes] = lambda chunk: b"",
    *,
    may_end_blank: bool = False,
) -> Iterator[bytes]:
    """Yield the changed content of wav.scp at ``path``: chunks from ``change_chunk``, or single lines from ``change_line``.

    Args:
        change_line: takes the number of a line, the line, its key and the entry after the key; returns the changed
            line, or raises ValueError for an entry that cannot be changed.
        change_chunk: takes a chunk; returns its changed lines, or b"" if ``change_line`` has to change them one by one.
        may_end_blank: True to accept blank lines at the end of the file.

    Raise DataDirError if ``change_line`` raises ValueError, or a line is blank and ``may_end_blank`` does not apply.
    """
    first_blank = 0  # Number of the first blank line, or 0 if there was none so far.
    for lines_before, chunk in number_chunks(read_chunks(path)):
        if not first_blank and (changed_chunk := change_chunk(chunk)):
            yield changed_chunk
            continue
        for line_number, line in enumerate(split_lines(chunk), lines_before + 1):
            parts = line.split(None, 1)
            key, entry = parts if len(parts) == 2 else (b"".join(parts), b"")
            if not key:
                first_blank = first_blank or line_number
            if first_blank and (key or not may_end_blank):
                raise DataDirError("is a blank line, which has no recording: remove the line", path, first_blank)
            if key:
                try:
                    changed_line = change_line(line_number, line, key, entry.rstrip())
                except ValueError as error:
                    raise DataDirError(str(error), path, line_number, key) from None
                yield changed_line


def _read_volumes(path: str) -> dict[bytes, float]:
    """Return the volume factor of each recording in the file ``path``.

    Skip blank lines. Raise DataDirError for an invalid line.
    """
    volumes = {}
    for line_number, line in enumerate(read_lines(path), 1):
        key, *values = line.split() or [b""]
        if key and (len(values) != 1 or not is_number(values[0])):
            raise DataDirError("expected a recording and its volume: correct the line", path, line_number, key)
        if key:
            volumes[key] = float(values[0])
    return volumes


def _has_volume(path: str) -> bool:
    """Return True if Kaldi's script finds a command that changes the volume in one of the first 100 lines of wav.scp."""
    for line in itertools.islice(read_lines(path), 100):
        words = _QUOTED.sub(b"x", line).split()
        if words and words[-1].endswith(b"|"):
            if b"sox --vol" in b" ".join(words[-11:]):  # Kaldi's script searches the last 11 words of a command.
                return True
        elif words and not OFFSET.search(line.strip()) and b" ".join(words[1:3]) == b"sox --vol":
            return True
    return False


def resample_directory(say: Printer, frequency: str, folder: str) -> int:
    """Change the sampling rate of all recordings in place (Kaldi: resample_data_dir.sh). Return the exit status 0.

    A sox command is added to each entry of ``wav.scp``. When the recording is read, it resamples, mixes all channels to
    one, and converts samples to 16 bits. A missing utt2dur is written first. If feats.scp exists, feats.scp and
    cmvn.scp are moved into ``.backup``.

    Args:
        frequency: new sampling rate in Hz, or in kHz with the suffix k.
        folder: path of the directory.

    Raise DataDirError if sox or ``wav.scp`` is missing, the sampling rate is invalid, or a file cannot be read or
    written.
    """
    sox = _find_sox(say, "Could not find sox in PATH")
    if not _FREQUENCY.fullmatch(frequency):
        raise DataDirError(f"the sampling rate must be a number above 0, such as 16000 Hz or 16k, not {frequency!r}")
    if not os.path.isfile(f"{folder}/wav.scp"):
        raise DataDirError("is missing, but resampling needs the file: add the file", f"{folder}/wav.scp")
    if not DataFiles(folder).has_lines("utt2dur"):
        get_utt2dur(say.to_stderr().with_name("utils/data/get_utt2dur.sh"), folder)
    program = quote_name(os.fsencode(sox))
    ending = b" | %b -t wav - -c 1 -b 16 -t wav - rate %b |\n" % (program, frequency.encode())

    def resample_line(number: int, line: bytes, key: bytes, entry: bytes) -> bytes:
        """Return line ``number`` of wav.scp with a command that resamples the recording.

        For errors, see :func:`parse_audio_entry`.
        """
        if entry.endswith(b"|"):
            return line.strip() + ending[2:]  # The command has a pipe, so omit the pipe of `ending`.
        audio = parse_audio_entry(entry)
        if audio.command:
            return b"%b %b%b" % (key, audio.command, ending[2:])
        if not audio.is_wav:
            return b"%b %b %b -c 1 -b 16 -t wav - rate %b |\n" % (key, program, audio.file, frequency.encode())
        return b"%b cat %b%b" % (key, audio.file, ending)

    with Stage(folder, say) as stage:
        if stage.find("feats.scp"):
            for name in ("feats.scp", "cmvn.scp"):
                if stage.find(name):
                    stage.move_to_backup(name)
            say(f"feats.scp already exists. Moving it to {folder}/.backup")
        resample_chunk = functools.partial(add_commands, after_command=ending, before_file=b" cat ", after_file=ending)
        lines = change_recordings(f"{folder}/wav.scp", resample_line, resample_chunk, may_end_blank=True)
        stage.write("wav.scp", lines)
    return 0
