"""Speed perturbation: data directories like those of ``utils/perturb_data_dir_speed.sh``, and the audio itself.

The script writes commands of ``sox ... speed``. A dump resamples by Kaldi's windowed sinc instead. It treats audio of
rate r as audio of rate r * factor, resamples the audio to rate r, and rounds it to 16 bits. The samples differ from the
output of sox, which uses another filter and adds dithering noise.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import io_ark
from io_ark import data_dir
from io_ark.data_dir.perturb import write_files_at_speeds
from io_ark.data_dir.stage import BACKUP, DataFiles, Printer, Stage, list_known_files, refuse_target
from io_ark.text import split_words
from kaldi_compat.dump.errors import DumpError
from kaldi_compat.dump.options import is_speed
from kaldi_compat.exact.resample import resample_waveform
from kaldi_compat.options.config import parse_real


def split_speed(rxfilename: str) -> tuple[str, str | None]:
    """Split a command of ``utils/perturb_data_dir_speed.sh``, such as "sox ... speed 0.9 |", into its input and factor.

    For any other rxfilename, or a factor that is not a number from 0.01 to 100, return ``rxfilename`` and None.
    """
    split = data_dir.split_speed(rxfilename)
    # Sox also accepts other notations of speeds, such as cents (50c). Such commands are left to sox.
    return split if split and is_speed(split[1]) else (rxfilename, None)


def change_speed(wave: io_ark.Wave, factor: str) -> io_ark.Wave:
    """Return audio that plays faster (factor above 1) or slower at the same sampling rate, so its pitch changes.

    The result has int16 samples. Empty audio is returned unchanged. The sampling rate times ``factor`` is rounded to a
    whole number of hertz.
    """
    rate = round(wave.sample_frequency)
    played_rate = round(rate * float(factor))
    if wave.samples.shape[1] == 0:
        return wave
    channels = [resample_waveform(channel.astype(np.float32), played_rate, rate) for channel in wave.samples]
    samples = np.array(channels).round().clip(-32768, 32767).astype(np.int16)
    return io_ark.Wave(wave.sample_frequency, samples)


def make_speed_directory(source: Path, target: Path, factors: Sequence[str]) -> None:
    """Make the data directory ``target`` with a copy of each utterance of ``source`` at each speed.

    ``factors`` are decimal numbers as strings, such as "0.9", because they become part of names. As with
    ``utils/perturb_data_dir_speed_3way.sh``, utterances, speakers and recordings get the prefix ``sp<factor>-``, except
    for a factor of 1, and commands in ``wav.scp`` change the audio. Data files of the target that are replaced are
    first copied into its ``.backup``. Warnings about lost utterances are printed to standard error.

    Raises:
        DumpError: ``source`` and ``target`` are the same directory, ``target`` has a ``feats.scp``, ``source`` lacks
            ``wav.scp`` or ``utt2spk``, or a line of ``source`` has too few words or an invalid time.
        DataDirError: ``target`` contains ``source``, or a file of ``source`` has a line that is invalid in another way.
    """
    if source.resolve() == target.resolve():
        raise DumpError(f"--speed-dir must differ from the source directory {source}: choose a different directory")
    for name in ("wav.scp", "utt2spk"):
        if not (source / name).is_file():
            raise DumpError(f"{source / name} is missing: create the file, which speed perturbation needs")
    if (target / "feats.scp").exists():
        raise DumpError(f"{target} already has features: delete {target / 'feats.scp'} to make the directory again")
    printer = Printer("speeds", _warn_of_loss, as_script=False)
    refuse_target(str(target), str(source))
    _check_lines(source)
    with Stage(str(target), printer, sources=[str(source)]) as stage:
        write_files_at_speeds(printer, stage, DataFiles(str(source)), factors)
        stage.discard_backup()
        for name in filter(stage.has_changed, list_known_files(str(target))):
            stage.copy(str(target / name), f"{BACKUP}/{name}")


def _check_lines(source: Path) -> None:
    """Raise DumpError for a line that Kaldi's script misreads: it has too few words, or an invalid time such as 1_0."""
    # Name of a file, its minimum number of words per line, and the index of the first word that is a time.
    for name, word_count, first_time in (("wav.scp", 2, 2), ("segments", 4, 2), ("utt2dur", 2, 1), ("reco2dur", 2, 1)):
        data = (source / name).read_bytes() if (source / name).is_file() else b""
        content = data.decode("utf-8", "surrogateescape")  # A carriage return may be a part of a name.
        for line_number, fields in enumerate(map(split_words, content.split("\n")), 1):
            if fields and (len(fields) < word_count or None in map(parse_real, fields[first_time:word_count])):
                expected = f"{word_count} words or more" if len(fields) < word_count else "times in seconds"
                actual = repr(" ".join(fields))
                raise DumpError(f"{source / name}:{line_number}: expected {expected}, not {actual}: correct the line")


def _warn_of_loss(text: str) -> None:
    """Print ``text``, a message of fix_data_dir.sh, as a warning if it is about lost utterances."""
    if " utterances out of " in text:  # fix_data_dir.sh also prints a line if it kept all utterances.
        print(f"WARNING: {text}", file=sys.stderr)
