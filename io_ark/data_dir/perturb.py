"""Data directories of audio at another speed, volume or sampling rate: new commands in ``wav.scp``."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator

from io_ark.data_dir.directories import Renaming, combine, copy, make_spk2utt, refuse_same
from io_ark.data_dir.durations import get_reco2dur, get_utt2dur, has_content
from io_ark.data_dir.fix import fix
from io_ark.data_dir.lines import awk_number, lines_of, number_of
from io_ark.data_dir.split import SourceDir
from io_ark.data_dir.stage import DataDirError, Say, Stage, exits_with, locked, remove_tree
from io_ark.data_dir.validate import validate

SHORTEST = 0.01
_OFFSET = re.compile(rb":[0-9]+$")


def with_speed(line: bytes, factor: bytes) -> bytes:
    """Return a line of wav.scp, with single spaces, with the command that changes the speed.

    >>> with_speed(b"a a.wav", b"0.9")
    b'a sox -t wav a.wav -t wav - speed 0.9 |\\n'
    """
    key, space, path = line.partition(b" ")
    if path.endswith(b"|"):
        path = (path[:-1].rstrip() + b" |").lstrip()
        return b"%b %b sox -t wav - -t wav - speed %b |\n" % (key, path, factor)
    if _OFFSET.search(path):
        return b"%b wav-copy %b - | sox -t wav - -t wav - speed %b |\n" % (key, path, factor)
    return b"%b sox -t wav%b%b -t wav - speed %b |\n" % (key, space, path, factor)


def each_line(made: Iterable[bytes], change: Callable[[bytes], bytes]) -> Iterator[bytes]:
    """Return chunks with each line, without its newline, changed."""
    return (b"".join(map(change, chunk.split(b"\n")[:-1])) for chunk in made)


def perturb_speed(say: Say, factor: str, source: str, target: str, *, include_spk_prefix: bool = True) -> int:
    """Make a directory of the audio played at another speed."""
    prefix, suffix = (f"sp{factor}-", "") if include_spk_prefix else ("", f"-sp{factor}")
    if not shutil.which("sox"):
        say.write("sox: command not found")
        raise DataDirError("install sox: wav.scp will call it", partly=True)
    src = SourceDir(source)
    src.need(say)
    refuse_same(source, target, "this script requires <srcdir> and <destdir> to be different.", say)
    speed = number_of(factor.encode())
    if speed <= 0:
        raise DataDirError(f"the warping factor must be a number above 0, not {factor!r}")

    def faster(line: bytes) -> bytes:
        return with_speed(line, factor.encode())

    def shorter(line: bytes) -> bytes:
        key, value, *_ = [*line.split(b" "), b""]
        return b"%b %b\n" % (key, awk_number(number_of(value) / speed))

    def slower(line: bytes) -> bytes:
        found = line.split(b" ") + [b""] * 3
        start, end = number_of(found[2]) / speed, number_of(found[3]) / speed
        return b"%b %b %.2f %.2f\n" % (found[0], found[1], start, end) if end > start + SHORTEST else b""

    with Stage(target, say) as stage, locked(source):
        speakers = Renaming(src.need(say, "spk2utt"), prefix)
        utterances = Renaming(src.path("utt2spk"), prefix, suffix)
        recordings = Renaming(src.need(say, "wav.scp"), prefix, suffix)
        if not include_spk_prefix:
            speakers.prefix = b""
        stage.write("utt2uniq", utterances.pairs(src.path("utt2uniq")))
        stage.write("utt2spk", speakers.lines(utterances.lines(src.path("utt2spk")), 2))
        make_spk2utt(stage)
        segments = src.path("segments")
        if segments:
            stage.write("segments", each_line(recordings.lines(utterances.lines(segments), 2), slower))
        for name in ("wav.scp", *(["reco2file_and_channel"] if segments else [])):
            names = recordings if segments else utterances
            if src.path(name):
                made = names.lines(src.path(name))
                stage.write(name, each_line(made, faster) if name == "wav.scp" else made)
        for name, names in (("text", utterances), ("spk2gender", speakers), ("utt2lang", utterances)):
            if src.path(name):
                stage.write(name, names.lines(src.path(name)))
        for name, make, names in (("utt2dur", get_utt2dur, utterances), ("reco2dur", get_reco2dur, recordings)):
            if not src.path(name):
                make(say.called(f"utils/data/get_{name}.sh"), source)
            stage.write(name, each_line(names.lines(src.path(name)), shorter))
    say(f"generated speed-perturbed version of data in {source}, in {target}")
    fix(say.called("utils/fix_data_dir.sh"), target)
    return validate(say.called("utils/validate_data_dir.sh"), target, no_feats=True, no_text=True)


def perturb_speed_3way(
    say: Say, source: str, target: str, *, always_include_prefix: bool = False, include_spk_prefix: bool = True
) -> int:
    """Make a directory of the audio at speeds 0.9, 1.0 and 1.1."""
    src = SourceDir(source)
    if not src.path("wav.scp"):
        raise say.fails(f"expected {source}/wav.scp to exist")
    if os.path.isfile(f"{target}/feats.scp"):
        raise say.fails(
            f"{target}/feats.scp already exists: refusing to run this (please delete {target}/feats.scp if you want this to run)"
        )
    refuse_same(source, target, "<srcdir> and <destdir> must be different.", say)
    with exits_with(1):
        fix(say.called("utils/fix_data_dir.sh"), source)
    say("making sure the utt2dur and the reco2dur files are present")
    say.write(f"... in {source}, because obtaining it after speed-perturbing")
    say.write("... would be very slow, and you might need them.")
    get_utt2dur(say.called("utils/data/get_utt2dur.sh"), source)
    get_reco2dur(say.called("utils/data/get_reco2dur.sh"), source)
    made = [f"{target}_speed0.9", f"{target}_speed1.1"]
    helper = say.called("utils/data/perturb_data_dir_speed.sh")
    with exits_with(1):
        for factor, folder in zip(("0.9", "1.1"), made, strict=True):
            perturb_speed(helper, factor, source, folder, include_spk_prefix=include_spk_prefix)
    first = source
    if always_include_prefix:
        first = f"{target}_speed1.0"
        made.append(first)
        try:
            copy(say.called("utils/copy_data_dir.sh"), source, first, spk_prefix="sp1.0-", utt_prefix="sp1.0-")
        except DataDirError:  # the copy is checked before names of recordings are changed by fix_data_dir.sh
            if not os.path.isfile(f"{first}/utt2spk"):
                raise
        with Stage(first, say) as stage:
            names = Renaming(src.path("utt2spk"), "sp1.0-")
            stage.write("utt2uniq", names.pairs(src.path("utt2uniq")))
    helper = say.called("utils/data/combine_data.sh")
    helper.write(f"{helper.name} {' '.join([target, first, *made[:2]])}")
    combine(helper, target, first, *made[:2])
    for folder in made:
        remove_tree(folder)
    say(f"generated 3-way speed-perturbed version of data in {source}, in {target}")
    try:
        return validate(say.called("utils/validate_data_dir.sh"), target, no_feats=True, no_text=True)
    except DataDirError as error:
        say("Validation failed.  If it is a sorting issue, try the option '--always-include-prefix true'.")
        error.status = 1  # whatever that of the check is
        raise


def perturb_volume(
    say: Say,
    folder: str,
    *,
    reco2vol: str = "",
    write_reco2vol: str = "",
    scale_low: float = 0.125,
    scale_high: float = 2.0,
) -> int:
    """Change the volume of each recording by a factor, from a file or at random."""
    import random

    path = f"{folder}/wav.scp"
    if not os.path.isfile(path):
        raise say.fails(f"Expected {path} to exist")
    if _has_volume(path):
        say("It looks like the data was already volume perturbed.  Not doing anything.")
        return 0
    given = {}
    for number, line in enumerate(lines_of(reco2vol), 1) if reco2vol else ():
        pair = line.split()
        if pair and len(pair) != 2:
            raise DataDirError("write: recording volume", file=reco2vol, line=number, key=pair[0])
        if pair:
            given[pair[0]] = float(pair[1])
    generator = random.Random(0)
    out, volumes = [], []
    width, random_number = scale_high - scale_low, generator.random
    for number, line in enumerate(lines_of(path), 1):
        key, *rest = line.split() or [b""]
        if not key:
            raise DataDirError(
                "error detected: number of lines changed: remove this blank line", file=path, line=number
            )
        volume = scale_low + width * random_number()
        if reco2vol:
            if key not in given:
                raise DataDirError(f"has no volume in {reco2vol}", file=path, line=number, key=key)
            volume = given[key]
        scale, name = b"%a" % volume, b" ".join(rest)
        last = (rest or [key])[-1]
        if last.endswith(b"|"):
            out.append(b"%b sox --vol %b -t wav - -t wav - |\n" % (line.strip(), scale))
        elif _OFFSET.search(last):
            out.append(b"%b wav-copy %b - | sox --vol %b -t wav - -t wav - |\n" % (key, name, scale))
        else:
            out.append(b"%b sox --vol %b -t wav %b -t wav - |\n" % (key, scale, name))
        if write_reco2vol:
            volumes.append(b"%b %b\n" % (key, scale))
    with Stage(folder, say) as stage:
        stage.write("wav.scp", out)
        if stage.path("feats.scp"):
            say(f"{folder}/feats.scp exists; moving it to {folder}/.backup/ as it wouldn't be valid any more.")
            stage.move_to_backup("feats.scp")
        if write_reco2vol:
            with open(write_reco2vol, "wb") as file:
                file.writelines(volumes)
    say(f"added volume perturbation to the data in {folder}")
    return 0


def _has_volume(path: str) -> bool:
    """True if one of the first lines of wav.scp changes the volume of a whole recording."""
    for number, line in enumerate(lines_of(path)):
        found = line.split()
        if number == 100:
            break
        if found and found[-1].endswith(b"|"):
            if b"sox --vol" in b" ".join(found[-11:]):
                return True
        elif found and not _OFFSET.search(line.strip()) and b" ".join(found[1:3]) == b"sox --vol":
            return True
    return False


def resample(say: Say, frequency: str, folder: str) -> int:
    """Change the sampling rate of all recordings."""
    sox = shutil.which("sox")
    if not sox:
        say.write("Could not find sox in PATH")
        raise DataDirError("install sox: wav.scp will call it", partly=True)
    if not os.path.isfile(f"{folder}/wav.scp"):
        raise DataDirError("is missing", file=f"{folder}/wav.scp")
    with Stage(folder, say) as stage:
        if stage.path("feats.scp"):
            for name in ("feats.scp", "cmvn.scp"):
                if stage.path(name):
                    stage.move_to_backup(name)
            say(f"feats.scp already exists. Moving it to {folder}/.backup")
    if not has_content(f"{folder}/utt2dur"):
        get_utt2dur(say.to_stderr().called("utils/data/get_utt2dur.sh"), folder)
    with Stage(folder, say) as stage:
        end = f" | {sox} -t wav - -c 1 -b 16 -t wav - rate {frequency} |\n".encode()
        out = []
        for number, line in enumerate(lines_of(stage.path("wav.scp")), 1):
            key, *rest = line.split() or [b""]
            if not key:
                raise DataDirError("is blank: remove it", file=f"{folder}/wav.scp", line=number)
            out.append(
                line.strip() + end[2:] if line.rstrip().endswith(b"|") else b"%b cat %b%b" % (key, b" ".join(rest), end)
            )
        stage.write("wav.scp", out)
    return 0
