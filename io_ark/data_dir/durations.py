"""Durations of utterances and recordings, from segments, headers of audio files or features.

Audio is read in this process: no program is called but the commands of ``wav.scp``.
"""

from __future__ import annotations

import math
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from io_ark.data_dir import lines
from io_ark.data_dir.audio_commands import OFFSET, head_of
from io_ark.data_dir.lines import awk_number, chunks, columns, lines_of, number_of, numbers_in, with_numbers, words
from io_ark.data_dir.segment_times import durations_of_segments
from io_ark.data_dir.split import split
from io_ark.data_dir.stage import DataDirError, Say, SourceDir, Stage, locked, shown
from io_ark.errors import ArkError
from io_ark.specifier import FileName, Rspecifier
from io_ark.text import parse_integer

if TYPE_CHECKING:
    from io_ark.codecs.wave import WaveInfo, WaveInfoCodec

SPEED_COMMAND = re.compile(rb"sox.*speed")
# At most 18 digits: more than any file has.
_SPHERE = {name: re.compile(rb"%b -i ([0-9]{1,18})(?![0-9])" % name) for name in (b"sample_rate", b"sample_count")}
HEADER_LINES = 31
HEADER_BYTES = 1 << 14  # A header of SPHERE has a multiple of 1024 bytes, and rarely more than 1024.


def sphere_durations(wav_scp: str) -> list[bytes] | None:
    """Return the lines of durations if all audio comes from sph2pipe and the headers of its files can be read.

    The commands are not run, and of each file only the first bytes are read, if it is a regular file.
    """
    found = []
    for line in lines_of(wav_scp):
        key, program, *rest = [*re.sub(rb"\|\s*$", b" |", line).split(), b"", b""]
        if not program.endswith(b"sph2pipe") or rest[:2] + rest[3:] != [b"-f", b"wav", b"|", b"", b""]:
            return None
        header = b"\n".join(head_of(rest[2], HEADER_BYTES).split(b"\n")[:HEADER_LINES])
        rate, count = (pattern.findall(header) for pattern in _SPHERE.values())
        samples, frequency = (parse_integer(numbers[-1]) if numbers else 0 for numbers in (count, rate))
        if not count or not frequency:
            return None
        found.append(b"%b %.15g\n" % (key, samples / frequency))
    return found


def audio_durations(wav_scp: str, read_entire_file: bool) -> Iterator[bytes]:
    """Yield lines of durations as wav-to-duration writes them, from headers or from all samples."""
    import io_ark

    refuse_endless_entries(wav_scp)
    with io_ark.SequentialReader(Rspecifier("scp", FileName(wav_scp)), kind=_codec(read_entire_file)) as audio:
        for key, wave in audio:
            yield f"{key} {seconds_of(wave, wav_scp, key):.7g} \n".encode("utf-8", "surrogateescape")


def refuse_endless_entries(scp: str, names: set[bytes] | None = None) -> None:
    """Raise an error if an entry of a script file is a FIFO or a device, which may block, or deliver bytes, without end.

    Args:
        scp: the script file.
        names: the keys of the entries to check; all by default.
    """
    last = b""
    for number, line in enumerate(lines_of(scp), 1):
        key, entry = [*line.split(None, 1), b"", b""][:2]
        file = OFFSET.sub(b"", re.sub(rb"\[[^\[\]]*\]$", b"", entry.strip()))
        if file == last or file == b"-" or file.endswith(b"|") or (names is not None and key not in names):
            continue
        last = file
        try:
            mode = os.stat(file).st_mode
        except (OSError, ValueError):  # The reader says so.
            continue
        if not stat.S_ISREG(mode):
            raise DataDirError(
                "is not a regular file: write a command that ends, such as: cat FILE |", scp, number, key
            )


def _codec(read_entire_file: bool) -> WaveInfoCodec:
    from io_ark.codecs.wave import WaveInfoCodec

    return WaveInfoCodec(counts_samples=read_entire_file)


def seconds_of(audio: WaveInfo, wav_scp: str, key: str) -> float:
    """Return the duration of a recording, in single precision as Kaldi computes it."""
    import numpy as np

    if audio.sample_count is None:
        text = "its header has no duration: check the file, or pass --read-entire-file true"
        raise DataDirError(text, wav_scp, key=key)
    return float(np.float32(audio.sample_count) / np.float32(audio.sample_frequency))


def lengths_of_features(feats_scp: str) -> list[bytes]:
    """Return lines of the numbers of frames, as feat-to-len writes them."""
    import io_ark
    from io_ark.codecs import InfoCodec

    refuse_endless_entries(feats_scp)
    with io_ark.SequentialReader(Rspecifier("scp", FileName(feats_scp)), kind=InfoCodec("matrix")) as found:
        return [f"{key} {info.shape[0]} \n".encode("utf-8", "surrogateescape") for key, info in found]


def in_parts(
    say: Say, stage: Stage, name: str, parts: int, source: str, compute: Callable[[str], Iterable[bytes]]
) -> None:
    """Compute a file in parts, as Kaldi's scripts do for their jobs, and join these."""
    split(say.called("utils/data/split_data.sh"), stage.folder, str(parts), per_utt=True)
    bases = [f"split{parts}utt/{part}" for part in range(1, parts + 1)]
    for base in bases:
        measure(say, stage, f"{base}/{name}", lambda base=base: compute(f"{stage.folder}/{base}/{source}"))  # type: ignore[misc]
    stage.write(name, (chunk for base in bases for chunk in chunks(stage.path(f"{base}/{name}"))))


def measure(say: Say, stage: Stage, name: str, compute: Callable[[], Iterable[bytes]]) -> None:
    """Write a file of durations."""
    try:
        stage.write(name, compute())
    except (ArkError, OSError) as error:
        raise say.fails("there was a problem getting the durations", str(error)) from None


def get_utt2dur(
    say: Say, folder: str, *, frame_shift: str = "0.01", nj: int = 4, read_entire_file: bool = False, cmd: str = ""
) -> int:
    """Write utt2dur, unless it is there with all utterances. ``cmd`` is Kaldi's option, and not called."""
    target = f"{folder}/utt2dur"
    with Stage(folder, say) as stage:
        if stage.has("utt2dur") and stage.count("utt2spk") == stage.count("utt2dur"):
            say(f"{target} already exists with the expected length.  We won't recompute it.")
            return 0
        has_shift = stage.has("frame_shift")
        shift = (b"".join(chunks(f"{folder}/frame_shift")) if has_shift else frame_shift.encode()).strip()
        wav, feats, segments = (f"{folder}/{name}" for name in ("wav.scp", "feats.scp", "segments"))

        def seconds(key: bytes, frames: bytes) -> bytes:
            if number_of(shift) <= 0:
                where = f"{folder}/frame_shift" if has_shift else ""
                raise DataDirError(f"expected a frame shift in seconds, not {os.fsdecode(shift)!r}", where)
            return b"%b %b" % (key, awk_number((number_of(frames) + 1.5) * number_of(shift)))

        if stage.has("segments"):
            say(f"working out {target} from {segments}")
            entire = read_entire_file or _has_speed_command(wav)

            def of_recordings(names: set[bytes]) -> Mapping[bytes, float]:
                try:
                    return recording_durations(stage, names, entire)
                except (ArkError, OSError) as error:
                    raise say.fails("there was a problem getting the durations", str(error)) from None

            times = durations_of_segments(segments, of_recordings)
            stage.write("utt2dur", (with_numbers(part, seconds) for part, seconds in times))
        elif has_shift and stage.path("utt2num_frames"):
            say(f"computing {target} from {folder}/{{frame_shift,utt2num_frames}}.")
            found = (words(line, awk=True) for line in lines_of(stage.path("utt2num_frames")))
            stage.write("utt2dur", (b" ".join([seconds(*[*each, b"", b""][:2]), *each[2:]]) + b"\n" for each in found))
        elif stage.path("wav.scp"):
            say("segments file does not exist so getting durations from wave files")
            if not from_headers(say, stage, "utt2dur", "utterance"):
                entire = read_entire_file | _reads_entire(say, wav, "utt2dur")
                parts = min(nj, stage.count("utt2spk"))
                in_parts(say, stage, "utt2dur", parts, "wav.scp", lambda path: audio_durations(path, entire))
        elif stage.path("feats.scp"):
            say("wave file does not exist so getting durations from feats files")
            if has_shift:
                say(f"using frame_shift={os.fsdecode(shift)} from file {folder}/frame_shift")
            stage.write("utt2dur", (seconds(*line.split()) + b"\n" for line in lengths_of_features(feats)))
        else:
            raise say.fails(f"Expected {wav}, {segments} or {feats} to exist")
        check_complete(say, stage, "utt2dur", "utt2spk", "utterances")
    say(f"computed {target}")
    return 0


def from_headers(say: Say, stage: Stage, name: str, what: str) -> bool:
    """Write durations from the headers of sphere files if all audio is in these."""
    found = sphere_durations(stage.path("wav.scp"))
    if found is None:
        say(f"could not get {what} lengths from sphere-file headers, using wav-to-duration")
        return False
    stage.write(name, found)
    say(f"successfully obtained {what} lengths from sphere-file headers")
    return True


def check_complete(say: Say, stage: Stage, name: str, listing: str, what: str) -> None:
    """Warn if some durations are missing, and fail if most are."""
    wanted, made = stage.count(listing), stage.count(name)
    if wanted != made:
        say(f"warning: length of {name} does not equal that of {listing}, {made} != {wanted}")
        if wanted > 2 * made:
            raise say.fails(f"less than half of {what} got a duration: failing.")


def recording_durations(src: SourceDir, names: set[bytes], entire: bool = False) -> dict[bytes, float]:
    """Return the durations of recordings in seconds, from ``reco2dur`` or else from their audio.

    Args:
        src: the directory.
        names: the recordings. One that is in neither ``reco2dur`` nor ``wav.scp`` is left out.
        entire: count samples instead of reading headers.
    """
    found = listed_durations(src, names)
    if (missing := names.difference(found)) and (path := src.path("wav.scp")):
        from io_ark.api import load_scp

        refuse_endless_entries(path, missing)
        codec: Any = _codec(entire)  # Not one of the names that the signature lists.
        recordings = load_scp(FileName(path), kind=codec)
        for name in sorted(missing):
            if (key := shown(name)) in recordings:
                found[name] = seconds_of(recordings[key], path, key)
    return found


def listed_durations(src: SourceDir, names: set[bytes]) -> dict[bytes, float]:
    """Return the durations of those recordings that are in ``reco2dur``."""
    found: dict[bytes, float] = {}
    for chunk in chunks(path) if (path := src.path("reco2dur")) else ():
        (keys,) = columns(chunk, 1)
        pairs = zip(keys, numbers_in(chunk, 2), strict=True)
        found.update((key, seconds) for key, seconds in pairs if key in names and seconds > 0)
    return found


def _has_speed_command(wav_scp: str) -> bool:
    return os.path.isfile(wav_scp) and any(SPEED_COMMAND.search(chunk) for chunk in chunks(wav_scp))


def _reads_entire(say: Say, wav: str, name: str) -> bool:
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


def get_reco2dur(say: Say, folder: str, *, nj: int = 4, cmd: str = "", frame_shift: str = "") -> int:
    """Write reco2dur, unless it is there with all recordings. Kaldi's options, of which none changes the result."""
    wav, target = f"{folder}/wav.scp", f"{folder}/reco2dur"
    with Stage(folder, say) as stage:
        if stage.has("reco2dur") and stage.count("wav.scp") == stage.count("reco2dur"):
            say(f"{target} already exists with the expected length.  We won't recompute it.")
            return 0
        if stage.has("utt2dur") and not stage.has("segments") and stage.count("utt2spk") == stage.count("utt2dur"):
            say(f"{wav} indexed by utt-id; copying utt2dur to reco2dur")
            stage.copy(f"{folder}/utt2dur", "reco2dur")
            return 0
        if not stage.path("wav.scp"):
            raise say.fails(f"Expected {wav} to exist")
        say("obtaining durations from recordings")
        if not from_headers(say, stage, "reco2dur", "recording"):
            entire = _reads_entire(say, wav, "reco2dur")
            measure(say, stage, "reco2dur", lambda: audio_durations(wav, entire))
        check_complete(say, stage, "reco2dur", "wav.scp", "recordings")
    say(f"computed {target}")
    return 0


def get_utt2num_frames(
    say: Say, folder: str, *, nj: int = 4, frame_shift: float = 0.01, frame_overlap: float = 0.015, cmd: str = ""
) -> int:
    """Write utt2num_frames, from the features or, without them, from the durations."""
    if not (0 < frame_shift < math.inf and abs(frame_overlap) < math.inf):
        raise DataDirError(f"--frame-shift {frame_shift:g} and --frame-overlap {frame_overlap:g}: expected seconds")
    with Stage(folder, say) as stage:
        if stage.has("utt2num_frames"):
            say(f"{folder}/utt2num_frames already present!")
            return 0
        if stage.path("feats.scp"):
            in_parts(say, stage, "utt2num_frames", nj, "feats.scp", lengths_of_features)
            say(f"Computed and wrote {folder}/utt2num_frames")
            return 0
        get_utt2dur(say.called("utils/data/get_utt2dur.sh"), folder, nj=nj)
        parts = ((part, numbers_in(part, 2)) for part in chunks(f"{folder}/utt2dur"))
        made = (
            with_numbers(part, [_toward_zero((each - frame_overlap) / frame_shift) for each in seconds])
            for part, seconds in parts
        )
        stage.write("utt2num_frames", made)
    return 0


def _toward_zero(value: float) -> float:
    return float(math.trunc(value)) if math.isfinite(value) else value


def segments_of(say: Say, folder: str) -> Iterator[bytes]:
    """Return lines of segments that are whole recordings."""
    if not SourceDir(folder).has("utt2dur"):
        get_utt2dur(say, folder)
    for chunk in chunks(f"{folder}/utt2dur"):
        keys, seconds = lines.columns(chunk, 1, 2)
        yield lines.rows(b"%b %b 0 %b\n", keys, keys, seconds, count=len(keys))


def get_segments_for_data(say: Say, folder: str) -> int:
    """Print segments that are whole recordings."""
    helper = say.to_stderr().called("utils/data/get_utt2dur.sh")
    with locked(folder):
        sys.stdout.buffer.writelines(segments_of(helper, folder))
    return 0
