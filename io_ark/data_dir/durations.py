"""Compute the durations of utterances and recordings from segments, audio files or features.

Audio is read in this process. The only programs that run are the commands in ``wav.scp``.
"""

from __future__ import annotations

import math
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from io_ark.data_dir.audio_commands import OFFSET, read_head
from io_ark.data_dir.awk_numbers import format_number, parse_column, parse_number, replace_values
from io_ark.data_dir.line_chunks import read_chunks, read_lines
from io_ark.data_dir.line_fields import get_column, split_fields
from io_ark.data_dir.segment_times import compute_segment_durations
from io_ark.data_dir.split import split_directory
from io_ark.data_dir.stage import DataDirError, DataFiles, Printer, Stage, decode_key, lock_directories
from io_ark.errors import ArkError
from io_ark.specifier import FileName, Rspecifier
from io_ark.text import parse_integer

if TYPE_CHECKING:
    from io_ark.codecs.wave import WaveInfo, WaveInfoCodec

SPEED_COMMAND = re.compile(rb"sox.*speed")
# Numbers have at most 18 digits, since no file has 10**18 samples.
_SPHERE = {name: re.compile(rb"%b -i ([0-9]{1,18})(?![0-9])" % name) for name in (b"sample_rate", b"sample_count")}
MAX_HEADER_LINES = 31  # Number of lines of a SPHERE header that Kaldi's script reads.
MAX_HEADER_BYTES = 1 << 14  # Bytes read for a SPHERE header, whose size is a multiple of 1024, and rarely above 1024.


def read_sphere_durations(wav_scp: str) -> list[bytes] | None:
    """Return lines with the key and the duration in seconds of each recording, from the headers of SPHERE files.

    No command is run. Return None unless every entry is a command ``sph2pipe -f wav FILE |``, and every file is a
    regular file whose header has the sampling rate and the number of samples.
    """
    lines = []
    for line in read_lines(wav_scp):
        fields = re.sub(rb"\|\s*$", b" |", line).split()
        if len(fields) != 6:
            return None
        key, program, option, audio_format, file, pipe = fields
        if not program.endswith(b"sph2pipe") or (option, audio_format, pipe) != (b"-f", b"wav", b"|"):
            return None
        header = b"\n".join(read_head(file, MAX_HEADER_BYTES).split(b"\n")[:MAX_HEADER_LINES])
        rates, counts = (pattern.findall(header) for pattern in _SPHERE.values())
        # As in Kaldi's script, a later line of the header overrides an earlier line.
        sample_count, frequency = (parse_integer(numbers[-1]) if numbers else 0 for numbers in (counts, rates))
        if not counts or not frequency:
            return None
        lines.append(b"%b %.15g\n" % (key, sample_count / frequency))
    return lines


def read_audio_durations(wav_scp: str, read_entire_file: bool) -> Iterator[bytes]:
    """Yield a line with the key and the duration in seconds of each recording, in the format of wav-to-duration.

    With ``read_entire_file``, all samples are counted. Otherwise, only the headers are read. Raise ArkError if a
    recording cannot be read, or its header lacks the number of samples.
    """
    import io_ark

    refuse_endless_entries(wav_scp)
    with io_ark.SequentialReader(
        Rspecifier("scp", FileName(wav_scp)), kind=_make_wave_info_codec(read_entire_file)
    ) as audio:
        for key, wave in audio:
            yield f"{key} {compute_duration(wave, wav_scp, key):.7g} \n".encode("utf-8", "surrogateescape")


def refuse_endless_entries(scp: str, names: set[bytes] | None = None) -> None:
    """Raise DataDirError if an entry of a script file names a file that is not regular, because a FIFO might never end.

    Commands, standard input and missing files are accepted. With ``names``, only the entries with these keys are
    checked.
    """
    for _, error in find_endless_entries(scp, names):
        raise error


def find_endless_entries(scp: str, names: set[bytes] | None = None) -> Iterator[tuple[bytes, DataDirError]]:
    """Yield the key and the error for each entry of a script file that :func:`refuse_endless_entries` refuses."""
    previous_file, is_endless = b"", False
    for line_number, line in enumerate(read_lines(scp), 1):
        key, entry = [*line.split(None, 1), b"", b""][:2]
        # Remove a range of rows, such as [0:9], and an offset.
        file = OFFSET.sub(b"", re.sub(rb"\[[^\[\]]*\]$", b"", entry.strip()))
        if file == b"-" or file.endswith(b"|") or (names is not None and key not in names):
            continue
        if file != previous_file:
            previous_file = file
            try:
                is_endless = not stat.S_ISREG(os.stat(file).st_mode)
            except (OSError, ValueError):  # A missing file is not endless. Reading it reports the error.
                is_endless = False
        if is_endless:
            problem = f"{os.fsdecode(file)!r} is not a regular file"
            advice = "name a file, or a command that ends, such as 'cat FILE |'"
            yield key, DataDirError(f"{problem}: {advice}", scp, line_number, key)


def _make_wave_info_codec(read_entire_file: bool) -> WaveInfoCodec:
    """Return a codec that reads the headers of audio, and also counts the samples if ``read_entire_file`` is true."""
    from io_ark.codecs.wave import WaveInfoCodec

    return WaveInfoCodec(counts_samples=read_entire_file)


def compute_duration(info: WaveInfo, wav_scp: str, key: str) -> float:
    """Return the duration of a recording in seconds. As in Kaldi, the division is in single precision.

    Raise DataDirError if the header of the audio, ``info``, lacks the number of samples. The error names ``wav_scp``
    and ``key``.
    """
    import numpy as np

    if info.sample_count is None:
        remedy = "check the file, write the duration to reco2dur, or pass --read-entire-file true to get_utt2dur.sh"
        raise DataDirError(f"the header of the audio has no duration: {remedy}", wav_scp, key=key)
    return float(np.float32(info.sample_count) / np.float32(info.sample_frequency))


def count_feature_frames(feats_scp: str) -> Iterator[bytes]:
    """Yield a line with the key and the number of frames of each utterance, in the format of feat-to-len.

    Raise ArkError if features cannot be read.
    """
    import io_ark
    from io_ark.codecs import InfoCodec

    refuse_endless_entries(feats_scp)
    with io_ark.SequentialReader(Rspecifier("scp", FileName(feats_scp)), kind=InfoCodec("matrix")) as features:
        for key, info in features:
            yield f"{key} {info.shape[0]} \n".encode("utf-8", "surrogateescape")


def compute_file_in_parts(
    say: Printer, stage: Stage, name: str, parts: int, source: str, compute: Callable[[str], Iterable[bytes]]
) -> None:
    """Divide the directory of ``stage`` into ``parts`` parts, compute the file ``name`` of each part, and join these files.

    The function ``compute`` takes the path of the file ``source`` in a part, such as ``wav.scp``, and returns the lines
    of the file ``name``. Raise DataDirError if the directory cannot be divided, or a file cannot be computed.
    """
    split_directory(say.with_name("utils/data/split_data.sh"), stage.folder, str(parts), per_utt=True)
    bases = [f"split{parts}utt/{part}" for part in range(1, parts + 1)]
    for base in bases:
        write_durations(say, stage, f"{base}/{name}", compute(f"{stage.folder}/{base}/{source}"))
    stage.write(name, (chunk for base in bases for chunk in read_chunks(stage.find(f"{base}/{name}"))))


def write_durations(say: Printer, stage: Stage, name: str, lines: Iterable[bytes]) -> None:
    """Write the file ``name`` with durations or numbers of frames. The lines may be computed while they are written.

    Print Kaldi's message and raise DataDirError if the lines cannot be computed or written.
    """
    try:
        stage.write(name, lines)
    except (ArkError, OSError) as error:
        raise say.fail("there was a problem getting the durations", str(error)) from None


def get_utt2dur(
    say: Printer, folder: str, *, frame_shift: str = "0.01", nj: int = 4, read_entire_file: bool = False, cmd: str = ""
) -> int:
    """Write utt2dur with the duration of each utterance in seconds (Kaldi: get_utt2dur.sh), and return the exit status 0.

    If utt2dur has as many lines as utt2spk, it is not changed. The durations come from the first of these sources that
    exists: segments, utt2num_frames together with frame_shift, the audio in wav.scp, and feats.scp.

    Args:
        frame_shift: frame shift in seconds, for durations from features. The directory's file frame_shift takes
            precedence.
        nj: number of parts of the audio, which are measured one after another.
        read_entire_file: count all samples instead of reading the headers, as is always done if a command changes the
            speed.
        cmd: has no effect. Kaldi's script runs its jobs with this command.

    Raises:
        DataDirError: there are no recordings or features, a recording cannot be read, less than half of the utterances
            have a duration, or the frame shift is invalid.
        ArkError: the features cannot be read, or a duration is not finite.
    """
    target = f"{folder}/utt2dur"
    with Stage(folder, say) as stage:
        if stage.has_lines("utt2dur") and stage.count_lines("utt2spk") == stage.count_lines("utt2dur"):
            say(f"{target} already exists with the expected length.  We won't recompute it.")
            return 0
        has_shift = stage.has_lines("frame_shift")
        shift = (b"".join(read_chunks(f"{folder}/frame_shift")) if has_shift else frame_shift.encode()).strip()
        wav, feats, segments = (f"{folder}/{name}" for name in ("wav.scp", "feats.scp", "segments"))

        def format_duration(key: bytes, frame_count: bytes) -> bytes:
            """Return ``key seconds`` for an utterance of ``frame_count`` frames.

            Raise DataDirError for an invalid frame shift.
            """
            if parse_number(shift) <= 0:
                file = f"{folder}/frame_shift" if has_shift else ""
                problem = f"expected a frame shift in seconds, not {os.fsdecode(shift)!r}: write a number above 0"
                raise DataDirError(problem, file)
            # Add the part of the last frame beyond its shift, which Kaldi assumes to be (25 ms - 10 ms) / 10 ms = 1.5
            # shifts.
            return b"%b %b" % (key, format_number((parse_number(frame_count) + 1.5) * parse_number(shift)))

        if stage.has_lines("segments"):
            say(f"working out {target} from {segments}")
            counts_samples = read_entire_file or _has_speed_command(wav)
            stage.write("utt2dur", _measure_segments(say, stage, segments, counts_samples))
        elif has_shift and stage.find("utt2num_frames"):
            say(f"computing {target} from {folder}/{{frame_shift,utt2num_frames}}.")
            rows = (split_fields(line, awk=True) for line in read_lines(stage.find("utt2num_frames")))
            full_rows = (
                row if len(row) > 1 else [*row, b"", b""][:2] for row in rows
            )  # A missing field becomes empty.
            lines = (b" ".join([format_duration(key, count), *others]) for key, count, *others in full_rows)
            stage.write("utt2dur", (line + b"\n" for line in lines))
        elif stage.find("wav.scp"):
            say("segments file does not exist so getting durations from wave files")
            if not write_durations_from_headers(say, stage, "utt2dur", "utterance"):
                has_speed_command = _must_read_entire_files(say, wav, "utt2dur")
                counts_samples = read_entire_file or has_speed_command
                parts = min(nj, stage.count_lines("utt2spk"))
                compute_file_in_parts(
                    say, stage, "utt2dur", parts, "wav.scp", lambda path: read_audio_durations(path, counts_samples)
                )
        elif stage.find("feats.scp"):
            say("wave file does not exist so getting durations from feats files")
            if has_shift:
                say(f"using frame_shift={os.fsdecode(shift)} from file {folder}/frame_shift")
            stage.write("utt2dur", (format_duration(*line.split()) + b"\n" for line in count_feature_frames(feats)))
        else:
            raise say.fail(f"Expected {wav}, {segments} or {feats} to exist")
        check_completeness(say, stage, "utt2dur", "utt2spk", "utterances")
    say(f"computed {target}")
    return 0


def _measure_segments(say: Printer, src: DataFiles, segments: str, counts_samples: bool) -> Iterator[bytes]:
    """Yield chunks of utt2dur with the durations of the segments in the file ``segments`` of the directory ``src``.

    Audio is read only for segments that last to the end of a recording. For ``counts_samples``, see
    :func:`measure_recordings`.
    """

    def measure_or_fail(names: set[bytes]) -> Mapping[bytes, float]:
        """Map recordings to durations in seconds. Print Kaldi's message and raise DataDirError for an error."""
        try:
            return measure_recordings(src, names, counts_samples)
        except (ArkError, OSError) as error:
            raise say.fail("there was a problem getting the durations", str(error)) from None

    for chunk, seconds in compute_segment_durations(segments, measure_or_fail):
        yield replace_values(chunk, seconds)


def write_durations_from_headers(say: Printer, stage: Stage, name: str, unit: str) -> bool:
    """Write durations from the headers of SPHERE files to the file ``name``, and return True.

    Return False if an entry of wav.scp is not a command ``sph2pipe -f wav FILE |``, or a header lacks the sampling rate
    or the number of samples. ``unit`` is "utterance" or "recording", for messages.
    """
    lines = read_sphere_durations(stage.find("wav.scp"))
    if lines is None:
        say(f"could not get {unit} lengths from sphere-file headers, using wav-to-duration")
        return False
    stage.write(name, lines)
    say(f"successfully obtained {unit} lengths from sphere-file headers")
    return True


def check_completeness(say: Printer, stage: Stage, name: str, listing: str, units: str) -> None:
    """Warn if the numbers of lines of the files ``name`` and ``listing`` differ.

    Raise DataDirError if ``name`` has less than half as many lines as ``listing``. ``units``, such as "utterances", is
    for the message.
    """
    expected_count, count = stage.count_lines(listing), stage.count_lines(name)
    if expected_count != count:
        say(f"warning: length of {name} does not equal that of {listing}, {count} != {expected_count}")
        if expected_count > 2 * count:
            raise say.fail(f"less than half of {units} got a duration: failing.")


def measure_recordings(
    src: DataFiles, names: set[bytes], counts_samples: bool = False, errors: dict[bytes, ArkError] | None = None
) -> dict[bytes, float]:
    """Return the durations of recordings in seconds, from ``reco2dur`` or else from their audio.

    Args:
        names: keys of the recordings. Recordings that are in neither ``reco2dur`` nor ``wav.scp`` are omitted.
        counts_samples: True to count samples instead of reading headers.
        errors: receives the errors of recordings by key. These recordings are omitted from the result. None to raise
            the first error.

    Raises:
        DataDirError: ``errors`` is None, and a recording is a FIFO or a device, or its header lacks the number of
            samples.
        ArkError: ``wav.scp`` is invalid, or ``errors`` is None and the audio of a recording cannot be read.
    """
    durations = read_durations(src, names)
    if (missing_names := names.difference(durations)) and (path := src.find("wav.scp")):
        from io_ark.api import load_scp

        endless_errors = dict(find_endless_entries(path, missing_names))
        if errors is None and endless_errors:
            raise next(iter(endless_errors.values()))
        codec: Any = _make_wave_info_codec(counts_samples)  # load_scp declares only names of codecs.
        recordings = load_scp(FileName(path), kind=codec)
        for name in sorted(missing_names):
            if (key := decode_key(name)) not in recordings:
                continue
            try:
                if name in endless_errors:
                    raise endless_errors[name]
                durations[name] = compute_duration(recordings[key], path, key)
            except ArkError as error:
                if errors is None:
                    raise
                errors[name] = error
    return durations


def read_durations(src: DataFiles, names: set[bytes], file: str = "reco2dur") -> dict[bytes, float]:
    """Return the durations, in seconds, of the recordings or utterances ``names`` from the file ``file`` of a directory.

    Names that the file lacks are omitted, and so are durations of 0 or less. The file may be missing.
    """
    durations: dict[bytes, float] = {}
    path = src.find(file)
    chunks: Iterable[bytes] = read_chunks(path) if path else ()
    for chunk in chunks:
        pairs = zip(get_column(chunk, awk=True), parse_column(chunk, 2), strict=True)
        durations.update((key, seconds) for key, seconds in pairs if key in names and seconds > 0)
    return durations


def _has_speed_command(wav_scp: str) -> bool:
    """Return True if a sox command in the file ``wav_scp`` changes the speed of a recording, or False if the file is missing."""
    return os.path.isfile(wav_scp) and any(SPEED_COMMAND.search(chunk) for chunk in read_chunks(wav_scp))


def _must_read_entire_files(say: Printer, wav: str, name: str) -> bool:
    """Return True, and print Kaldi's message, if a command in the file ``wav`` changes the speed.

    The header of such a command's output may be wrong. ``name`` is the file to compute, such as "utt2dur", for the
    message.
    """
    if not _has_speed_command(wav):
        return False
    say(
        "reading from the entire wav file to fix the problem caused by sox commands with speed perturbation. It is going to be slow."
    )
    say.write(
        f"... It is much faster if you call get_{name}.sh *before* doing the speed perturbation via e.g. perturb_data_dir_speed.sh or "
    )
    say.write("... perturb_data_dir_speed_3way.sh.")
    return True


def get_reco2dur(say: Printer, folder: str, *, nj: int = 4, cmd: str = "", frame_shift: str = "") -> int:
    """Write reco2dur with the duration of each recording in seconds (Kaldi: get_reco2dur.sh). Return the exit status 0.

    If reco2dur has as many lines as wav.scp, it is not changed. Without segments, utt2dur is copied if it has as many
    lines as utt2spk.

    Args:
        nj, cmd, frame_shift: options of Kaldi's script, which have no effect here.

    Raise DataDirError if ``wav.scp`` is missing, audio cannot be read, or more than half of the recordings have no
    duration.
    """
    wav, target = f"{folder}/wav.scp", f"{folder}/reco2dur"
    with Stage(folder, say) as stage:
        if stage.has_lines("reco2dur") and stage.count_lines("wav.scp") == stage.count_lines("reco2dur"):
            say(f"{target} already exists with the expected length.  We won't recompute it.")
            return 0
        if (
            stage.has_lines("utt2dur")
            and not stage.has_lines("segments")
            and stage.count_lines("utt2spk") == stage.count_lines("utt2dur")
        ):
            say(f"{wav} indexed by utt-id; copying utt2dur to reco2dur")
            stage.copy(f"{folder}/utt2dur", "reco2dur")
            return 0
        if not stage.find("wav.scp"):
            raise say.fail(f"Expected {wav} to exist")
        say("obtaining durations from recordings")
        if not write_durations_from_headers(say, stage, "reco2dur", "recording"):
            counts_samples = _must_read_entire_files(say, wav, "reco2dur")
            write_durations(say, stage, "reco2dur", read_audio_durations(wav, counts_samples))
        check_completeness(say, stage, "reco2dur", "wav.scp", "recordings")
    say(f"computed {target}")
    return 0


def get_utt2num_frames(
    say: Printer, folder: str, *, nj: int = 4, frame_shift: float = 0.01, frame_overlap: float = 0.015, cmd: str = ""
) -> int:
    """Write utt2num_frames with the number of frames of each utterance, unless the file has lines.

    Return the exit status 0. The frames of feats.scp are counted. Without feats.scp, the numbers are computed from
    utt2dur, which is written first if it is incomplete (Kaldi: get_utt2num_frames.sh).

    Args:
        nj: number of parts of the directory, which are measured one after another.
        frame_shift: time between the starts of consecutive frames in seconds, which is used only without feats.scp.
        frame_overlap: length of a frame minus the frame shift in seconds, which is used only without feats.scp.
        cmd: has no effect. Kaldi's script runs its jobs with this command.

    Raises:
        DataDirError: ``frame_shift`` or ``frame_overlap`` is invalid, or the features or durations cannot be read.
        FormatError: a duration, or a number of frames, is not finite.
    """
    if not (0 < frame_shift < math.inf and abs(frame_overlap) < math.inf):
        options = f"--frame-shift {frame_shift:g} and --frame-overlap {frame_overlap:g}"
        raise DataDirError(f"{options} must be finite numbers of seconds, the shift above 0")
    with Stage(folder, say) as stage:
        if stage.has_lines("utt2num_frames"):
            say(f"{folder}/utt2num_frames already present!")
            return 0
        if stage.find("feats.scp"):
            compute_file_in_parts(say, stage, "utt2num_frames", nj, "feats.scp", count_feature_frames)
            say(f"Computed and wrote {folder}/utt2num_frames")
            return 0
        get_utt2dur(say.with_name("utils/data/get_utt2dur.sh"), folder, nj=nj)

        def count_frames(seconds: float) -> float:
            """Return the number of frames in a duration in seconds, truncated toward zero as in Kaldi's script."""
            count = (seconds - frame_overlap) / frame_shift
            # Return infinity and NaN unchanged, so that replace_values raises an error that names the utterance.
            return float(math.trunc(count)) if math.isfinite(count) else count

        chunks = read_chunks(f"{folder}/utt2dur")
        lines = (replace_values(chunk, map(count_frames, parse_column(chunk, 2))) for chunk in chunks)
        stage.write("utt2num_frames", lines)
    return 0


def generate_segments(say: Printer, folder: str) -> Iterator[bytes]:
    """Yield chunks of a segments file in which each utterance is a whole recording.

    Write a missing or empty utt2dur first.
    """
    if not DataFiles(folder).has_lines("utt2dur"):
        get_utt2dur(say, folder)
    for chunk in read_chunks(f"{folder}/utt2dur"):
        pairs = zip(get_column(chunk, awk=True), get_column(chunk, 2, awk=True), strict=True)
        yield b"".join([b"%b %b 0 %b\n" % (key, key, seconds) for key, seconds in pairs])


def get_segments_for_data(say: Printer, folder: str) -> int:
    """Print a segments file in which each utterance is a whole recording (Kaldi: get_segments_for_data.sh).

    A missing or empty utt2dur is written first. Return the exit status 0. Raise DataDirError if this is not possible.
    """
    say_durations = say.to_stderr().with_name("utils/data/get_utt2dur.sh")
    with lock_directories(folder):
        sys.stdout.buffer.writelines(generate_segments(say_durations, folder))
    return 0
