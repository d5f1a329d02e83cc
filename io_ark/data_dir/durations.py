"""Durations of utterances and recordings, from segments, headers of audio files or features.

Audio is read in this process: no program is called but the commands of ``wav.scp``.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator

from io_ark.data_dir import lines
from io_ark.data_dir.lines import awk_number, chunks, lines_of, number_of, words
from io_ark.data_dir.split import count_lines, split
from io_ark.data_dir.stage import DataDirError, Say, Stage, locked
from io_ark.errors import ArkError

SPEED_COMMAND = re.compile(rb"sox.*speed")
_SPHERE = {name: re.compile(rb"%b -i ([0-9]+)" % name) for name in (b"sample_rate", b"sample_count")}
HEADER_LINES = 31


def has_content(path: str) -> bool:
    """True if the file exists and is not empty."""
    return os.path.isfile(path) and os.path.getsize(path) > 0


def sphere_durations(wav_scp: str) -> list[bytes] | None:
    """Return the lines of durations if all audio comes from sph2pipe and the headers of its files can be read."""
    found = []
    for line in lines_of(wav_scp):
        command = re.sub(rb"\|\s*$", b" |", line).split()
        if (
            len(command) != 6
            or not command[1].endswith(b"sph2pipe")
            or command[2:4] != [b"-f", b"wav"]
            or command[5] != b"|"
        ):
            return None
        try:
            with open(command[4], "rb") as file:
                header = b"".join(file.readline() for _ in range(HEADER_LINES))
        except OSError:
            return None
        rate, count = (pattern.findall(header) for pattern in _SPHERE.values())
        if not rate or not count:
            return None
        found.append(b"%b %.15g\n" % (command[0], int(count[-1]) / int(rate[-1])))
    return found


def audio_durations(wav_scp: str, read_entire_file: bool) -> Iterator[bytes]:
    """Yield lines of durations as wav-to-duration writes them, from headers or from all samples."""
    import numpy as np

    import io_ark

    with io_ark.SequentialReader(f"scp:{wav_scp}", kind="wave" if read_entire_file else "wave-info") as audio:
        for key, wave in audio:
            count = wave.samples.shape[1] if isinstance(wave, io_ark.Wave) else wave.sample_count
            if count is None:
                raise DataDirError(
                    "its header has no duration: check the file, or pass --read-entire-file true", file=wav_scp, key=key
                )
            seconds = np.float32(count) / np.float32(wave.sample_frequency)
            yield f"{key} {float(seconds):.7g} \n".encode("utf-8", "surrogateescape")


def lengths_of_features(feats_scp: str) -> list[bytes]:
    """Return lines of the numbers of frames, as feat-to-len writes them."""
    import io_ark
    from io_ark.codecs import InfoCodec

    with io_ark.SequentialReader(f"scp:{feats_scp}", kind=InfoCodec("matrix")) as found:
        return [f"{key} {info.shape[0]} \n".encode("utf-8", "surrogateescape") for key, info in found]


def in_parts(
    say: Say, folder: str, stage: Stage, name: str, parts: int, source: str, compute: Callable[[str], Iterable[bytes]]
) -> None:
    """Compute a file in parts, as Kaldi's scripts do for their jobs, and join these."""
    split(say.called("utils/data/split_data.sh"), folder, str(parts), per_utt=True)
    made = []
    for part in range(1, parts + 1):
        base = f"split{parts}utt/{part}"
        try:
            stage.write(f"{base}/{name}", compute(os.path.join(folder, base, source)))
        except (ArkError, OSError) as error:
            say("there was a problem getting the durations")
            raise DataDirError(str(error), partly=True) from None
        made.append(stage.path(f"{base}/{name}"))
    stage.write(name, (chunk for path in made for chunk in chunks(path)))


def get_utt2dur(
    say: Say, folder: str, *, frame_shift: str = "0.01", nj: int = 4, read_entire_file: bool = False, cmd: str = ""
) -> int:
    """Write utt2dur, unless it is there with all utterances. ``cmd`` is Kaldi's option, and not called."""
    utt2spk, target = f"{folder}/utt2spk", f"{folder}/utt2dur"
    with Stage(folder, say) as stage:
        if has_content(target) and count_lines(utt2spk) == count_lines(target):
            say(f"{target} already exists with the expected length.  We won't recompute it.")
            return 0
        shift = _content(f"{folder}/frame_shift") or frame_shift
        wav, feats, segments = (f"{folder}/{name}" for name in ("wav.scp", "feats.scp", "segments"))
        if has_content(segments):
            say(f"working out {target} from {segments}")
            stage.write(
                "utt2dur", _each(segments, lambda f: b"%b %b\n" % (f[0], awk_number(number_of(f[3]) - number_of(f[2]))))
            )
        elif has_content(f"{folder}/frame_shift") and os.path.isfile(f"{folder}/utt2num_frames"):
            say(f"computing {target} from {folder}/{{frame_shift,utt2num_frames}}.")
            scale = number_of(shift.encode())
            stage.write(
                "utt2dur",
                (
                    b" ".join([found[0], awk_number((number_of(found[1]) + 1.5) * scale), *found[2:]]) + b"\n"
                    for found in (words(line, awk=True) + [b""] * 2 for line in lines_of(f"{folder}/utt2num_frames"))
                    for found in [found[:-2] if len(found) > 3 else found[:2]]
                ),
            )
        elif os.path.isfile(wav):
            say("segments file does not exist so getting durations from wave files")
            found = sphere_durations(wav)
            if found is not None:
                stage.write("utt2dur", found)
                say("successfully obtained utterance lengths from sphere-file headers")
            else:
                say("could not get utterance lengths from sphere-file headers, using wav-to-duration")
                entire = _reads_entire(say, wav, "utt2dur") or read_entire_file
                parts = min(nj, count_lines(utt2spk))
                in_parts(say, folder, stage, "utt2dur", parts, "wav.scp", lambda path: audio_durations(path, entire))
        elif os.path.isfile(feats):
            say("wave file does not exist so getting durations from feats files")
            if has_content(f"{folder}/frame_shift"):
                say(f"using frame_shift={shift} from file {folder}/frame_shift")
            scale = number_of(shift.encode())
            lengths = (line.split() for line in lengths_of_features(feats))
            stage.write(
                "utt2dur",
                (b"%b %b\n" % (key, awk_number((number_of(frames) + 1.5) * scale)) for key, frames in lengths),
            )
        else:
            raise say.fails(f"Expected {wav}, {segments} or {feats} to exist")
        check_complete(say, stage, "utt2dur", utt2spk, "utterances")
    say(f"computed {target}")
    return 0


def check_complete(say: Say, stage: Stage, name: str, listing: str, what: str) -> None:
    """Warn if some durations are missing, and fail if most are."""
    wanted, made = count_lines(listing), count_lines(stage.path(name))
    if wanted != made:
        say(f"warning: length of {name} does not equal that of {os.path.basename(listing)}, {made} != {wanted}")
        if wanted > 2 * made:
            raise say.fails(f"less than half of {what} got a duration: failing.")


def _content(path: str) -> str:
    return b"".join(chunks(path)).decode("utf-8", "surrogateescape").rstrip("\n") if has_content(path) else ""


def _each(path: str, make: Callable[[list[bytes]], bytes]) -> Iterator[bytes]:
    for chunk in chunks(path):
        yield b"".join([make(words(line, awk=True) + [b""] * 4) for line in lines.split_lines(chunk)])


def _reads_entire(say: Say, wav: str, name: str) -> bool:
    if not any(SPEED_COMMAND.search(chunk) for chunk in chunks(wav)):
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
        if has_content(target) and count_lines(wav) == count_lines(target):
            say(f"{target} already exists with the expected length.  We won't recompute it.")
            return 0
        by_utterance = has_content(f"{folder}/utt2dur") and not has_content(f"{folder}/segments")
        if by_utterance and count_lines(f"{folder}/utt2spk") == count_lines(f"{folder}/utt2dur"):
            say(f"{wav} indexed by utt-id; copying utt2dur to reco2dur")
            stage.copy(f"{folder}/utt2dur", "reco2dur")
            return 0
        if not os.path.isfile(wav):
            raise say.fails(f"Expected {wav} to exist")
        say("obtaining durations from recordings")
        found = sphere_durations(wav)
        if found is not None:
            stage.write("reco2dur", found)
            say("successfully obtained recording lengths from sphere-file headers")
        else:
            say("could not get recording lengths from sphere-file headers, using wav-to-duration")
            try:
                stage.write("reco2dur", audio_durations(wav, _reads_entire(say, wav, "reco2dur")))
            except (ArkError, OSError) as error:
                say("there was a problem getting the durations")
                raise DataDirError(str(error), partly=True) from None
        check_complete(say, stage, "reco2dur", wav, "recordings")
    say(f"computed {target}")
    return 0


def get_utt2num_frames(
    say: Say, folder: str, *, nj: int = 4, frame_shift: float = 0.01, frame_overlap: float = 0.015, cmd: str = ""
) -> int:
    """Write utt2num_frames, from the features or, without them, from the durations."""
    if has_content(f"{folder}/utt2num_frames"):
        say(f"{folder}/utt2num_frames already present!")
        return 0
    with Stage(folder, say) as stage:
        if not os.path.isfile(f"{folder}/feats.scp"):
            get_utt2dur(say.called("utils/data/get_utt2dur.sh"), folder, nj=nj)
            stage.write(
                "utt2num_frames",
                _each(
                    f"{folder}/utt2dur",
                    lambda f: (
                        b"%b %b\n" % (f[0], awk_number(float(int((number_of(f[1]) - frame_overlap) / frame_shift))))
                    ),
                ),
            )
            return 0
        in_parts(say, folder, stage, "utt2num_frames", nj, "feats.scp", lengths_of_features)
    say(f"Computed and wrote {folder}/utt2num_frames")
    return 0


def segments_of(say: Say, folder: str) -> Iterator[bytes]:
    """Return lines of segments that are whole recordings."""
    if not has_content(f"{folder}/utt2dur"):
        get_utt2dur(say, folder)
    for chunk in chunks(f"{folder}/utt2dur"):
        keys, values = (lines.Fields(chunk, at, awk=True).joined.split(b"\n")[:-1] for at in (1, 2))
        yield b"".join([b"%b %b 0 %b\n" % each for each in zip(keys, keys, values, strict=True)])


def get_segments_for_data(say: Say, folder: str) -> int:
    """Print segments that are whole recordings."""
    helper = say.to_stderr().called("utils/data/get_utt2dur.sh")
    with locked(folder):
        sys.stdout.buffer.writelines(segments_of(helper, folder))
    return 0
