"""Speed perturbation: data directories like those of ``utils/perturb_data_dir_speed.sh``, and the audio itself.

The script leaves the work to ``sox ... speed``. We resample by Kaldi's windowed sinc instead: audio of rate r is
treated as audio of rate r * factor, resampled to r, and rounded to 16 bits. So the samples differ from those of sox,
which uses another filter and adds dithering noise.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from operator import itemgetter
from pathlib import Path

import numpy as np

import io_ark
from io_ark.text import split_words
from kaldi_compat.dump.errors import DumpError
from kaldi_compat.dump.files import in_bytes, make_directory, write_whole
from kaldi_compat.dump.options import is_speed
from kaldi_compat.exact.resample import resample_waveform
from kaldi_compat.options.config import parse_real

_FROM_COMMAND = re.compile(r"(.*\|) sox -t wav - -t wav - speed (\S+) \|")
_FROM_FILE = re.compile(r"sox (?:-t wav )?(.*?\S)(?: -b 16)? -t wav - speed (\S+) \|")
# Files that sox does not take for WAV, and writes with 16 bits only if told so.
_NOT_WAV = re.compile(r".*\.(flac|ogg|oga|opus|mp3|aiff?|au|snd|caf|sph|w64)", re.IGNORECASE)
_WAV_COPY = re.compile(r"wav-copy (\S+:[0-9]+) - \|")
_OFFSET = re.compile(r".*:[0-9]+")
UNCHANGED = ("1", "1.0")
# Below this, Kaldi's script drops a segment.
SHORTEST_SEGMENT = 0.01
# Least number of words in a line of a file, where it is not two.
WORDS = {"text": 1, "segments": 4}
# Files whose lines are renamed, and which fields are names of utterances, recordings or speakers.
RENAMED = ("text", "utt2lang", "spk2gender", "reco2file_and_channel", "wav.scp", "utt2uniq")
NAMES = {"utt2spk": (0, 1), "segments": (0, 1), **dict.fromkeys(RENAMED, (0,))}


def split_speed(rxfilename: str) -> tuple[str, str | None]:
    """Split a command of ``utils/perturb_data_dir_speed.sh`` into its input and factor, None for other commands.

    >>> split_speed("sox -t wav a.wav -t wav - speed 0.9 |")
    ('a.wav', '0.9')
    >>> split_speed("flac -dcs a.flac | sox -t wav - -t wav - speed 1.1 |")
    ('flac -dcs a.flac |', '1.1')
    """
    found = _FROM_COMMAND.fullmatch(rxfilename) or _FROM_FILE.fullmatch(rxfilename)
    # Other notations of sox for speeds, such as cents (50c), are left to sox.
    if not found or not is_speed(found[2]):
        return rxfilename, None
    copied = _WAV_COPY.fullmatch(found[1])
    return (copied or found)[1], found[2]


def with_speed(rxfilename: str, factor: str) -> str:
    """Return the command with which Kaldi's script changes the speed of ``rxfilename``.

    >>> with_speed("wavs.ark:17", "0.9")
    'wav-copy wavs.ark:17 - | sox -t wav - -t wav - speed 0.9 |'

    The script takes any file for WAV, which sox refuses:

    >>> with_speed("a.flac", "0.9")
    'sox a.flac -b 16 -t wav - speed 0.9 |'
    """
    text = re.sub(r"\|$", " |", " ".join(split_words(rxfilename)))
    text = " ".join(split_words(text))
    if text.endswith("|"):
        return f"{text} sox -t wav - -t wav - speed {factor} |"
    if _OFFSET.fullmatch(text):
        return f"wav-copy {text} - | sox -t wav - -t wav - speed {factor} |"
    if _NOT_WAV.fullmatch(text):
        return f"sox {text} -b 16 -t wav - speed {factor} |"
    return f"sox -t wav {text} -t wav - speed {factor} |"


def at_speed(wave: io_ark.Wave, factor: str) -> io_ark.Wave:
    """Return the audio played faster (factor above 1) or slower at the same sampling rate; its pitch changes too."""
    rate = round(wave.sample_frequency)
    played = round(rate * float(factor))
    if wave.samples.shape[1] == 0:
        return wave
    channels = [resample_waveform(channel.astype(np.float32), played, rate) for channel in wave.samples]
    samples = np.array(channels).round().clip(-32768, 32767).astype(np.int16)
    return io_ark.Wave(wave.sample_frequency, samples)


def make_speed_directory(source: Path, target: Path, factors: Iterable[str]) -> None:
    """Make a data directory with the source's utterances at these speeds.

    The result is that of ``utils/perturb_data_dir_speed_3way.sh``: names get the prefix ``sp<factor>-``, except for
    factor 1.0; commands in ``wav.scp`` make the audio.

    Raises:
        DumpError: source and target are the same, or the source lacks a file.
    """
    if source.resolve() == target.resolve():
        raise DumpError(f"speed_dir must be another directory than {source}")
    for name in ("wav.scp", "utt2spk"):
        if not (source / name).is_file():
            raise DumpError(f"{source / name} is missing: speed perturbation needs it")
    if (target / "feats.scp").exists():
        raise DumpError(f"{target} has features already: delete {target / 'feats.scp'} to make the directory again")
    make_directory(target)
    made = [_perturbed(source, factor) for factor in factors]
    for name in sorted(set().union(*made)):
        keyed = [(in_bytes(_key(line)), line) for files in made for line in files.get(name, ())]
        lines = [line for _, line in sorted(keyed, key=itemgetter(0))]
        write_whole(target / name, "".join(line + "\n" for line in lines))


def _perturbed(source: Path, factor: str) -> dict[str, list[str]]:
    """Return the lines of each file of a data directory at one speed."""
    prefix = "" if factor in UNCHANGED else f"sp{factor}-"

    def renamed(name: str, fields: Iterable[int] = (0,)) -> list[str]:
        return [_renamed(line, prefix, fields) for line in _lines(source / name)]

    files = {name: renamed(name, fields) for name, fields in NAMES.items()}
    if not files["utt2uniq"]:
        files["utt2uniq"] = [f"{prefix}{key} {key}" for key in map(_key, _lines(source / "utt2spk"))]
    if prefix:
        files["text"] = [" ".join(split_words(line)) for line in files["text"]]
        pairs = (split_words(line, 1) for line in files["wav.scp"])
        files["wav.scp"] = [f"{key} {with_speed(text, factor)}" for key, text in pairs]
        slower = (_slower(line, float(factor), source / "segments") for line in files["segments"])
        files["segments"] = [line for line in slower if line]
    for name in ("utt2dur", "reco2dur"):
        durations = [(_key(line), _seconds(split_words(line, 1)[1], source / name)) for line in renamed(name)]
        files[name] = [f"{key} {seconds / float(factor):g}" for key, seconds in durations]
    return {name: lines for name, lines in _consistent(files).items() if lines}


def _consistent(files: dict[str, list[str]]) -> dict[str, list[str]]:
    """Keep only utterances with audio, their recordings and speakers, as ``utils/fix_data_dir.sh`` does."""
    utterances = set(map(_key, files["segments"] or files["wav.scp"])) & set(map(_key, files["utt2spk"]))
    recordings = {split_words(line)[1] for line in files["segments"] if _key(line) in utterances} or utterances
    files["utt2spk"] = [line for line in files["utt2spk"] if _key(line) in utterances]
    speakers: dict[str, list[str]] = {}
    for line in files["utt2spk"]:
        utterance, speaker = split_words(line)[:2]
        speakers.setdefault(speaker, []).append(utterance)
    kept = {"wav.scp": recordings, "reco2dur": recordings, "reco2file_and_channel": recordings, "spk2gender": speakers}
    for name, lines in files.items():
        files[name] = [line for line in lines if _key(line) in kept.get(name, utterances)]
    files["spk2utt"] = [f"{speaker} {' '.join(members)}" for speaker, members in speakers.items()]
    return files


def _key(line: str) -> str:
    return split_words(line, 1)[0]


def _lines(path: Path) -> list[str]:
    if not path.is_file():
        return []
    text = path.read_text(encoding="utf-8", errors="surrogateescape")
    lines = [line for line in text.split("\n") if split_words(line)]
    least = WORDS.get(path.name, 2)
    for line in lines:
        if len(split_words(line)) < least:
            raise DumpError(f"{path}: expected {least} words or more in a line, not {line!r}")
    return lines


def _renamed(line: str, prefix: str, fields: Iterable[int]) -> str:
    parts = split_words(line, max(fields) + 1)
    for number in fields:
        parts[number] = prefix + parts[number]
    return " ".join(parts)


def _seconds(text: str, path: Path) -> float:
    seconds = parse_real(text)
    if seconds is None:
        raise DumpError(f"{path}: {text!r} is not a time in seconds")
    return seconds


def _slower(line: str, factor: float, path: Path) -> str:
    """Return a line of segments at another speed; empty if Kaldi's script drops it."""
    name, recording, *times = split_words(line)
    start, end = (_seconds(time, path) / factor for time in times[:2])
    return f"{name} {recording} {start:.2f} {end:.2f}" if end > start + SHORTEST_SEGMENT else ""
