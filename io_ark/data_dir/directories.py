"""Make data directories from others: subset, combine, copy, change speakers, remove repetitions."""

from __future__ import annotations

import itertools
import os
from array import array
from collections.abc import Callable, Iterable, Iterator

from io_ark.data_dir import lines
from io_ark.data_dir.durations import get_utt2dur, lengths_of_features, segments_of
from io_ark.data_dir.fix import filtered, fix, fix_new
from io_ark.data_dir.lines import EACH_KEY, Fields, Keys, chunks, columns, field, lines_of, rows, words
from io_ark.data_dir.lists import DIED, bad_line, keys_of, shuffled, subset_lines, whole_number
from io_ark.data_dir.split import BY_SPEAKER
from io_ark.data_dir.stage import (
    SCRATCH,
    DataDirError,
    Say,
    SourceDir,
    Stage,
    exits_with,
    refuse_target,
    shown,
    warn,
)
from io_ark.data_dir.validate import validate

HASH_BITS = 24  # of the numbers of transcripts that are counted in an array
BY_UTTERANCE = "feats.scp vad.scp utt2lang utt2dur utt2num_frames utt2uniq wav.scp utt2warp text"
COMBINED = "utt2spk utt2lang utt2dur utt2num_frames reco2dur feats.scp text cmvn.scp vad.scp reco2file_and_channel wav.scp spk2gender"
# Files that a copy has: with new names of utterances, of speakers, or as they are; of recordings if there are segments.
COPIED = (
    "feats.scp:u vad.scp:u utt2lang:u segments:u wav.scp:r reco2file_and_channel:c text:u utt2dur:u utt2num_frames:u reco2dur:r "
    "spk2gender:s cmvn.scp:s frame_shift:c stm:c glm:c ctm:c"
)


def refuse_same(source: str, target: str, text: str, say: Say) -> None:
    """Refuse a target that is, or contains, what is read: by its name as Kaldi's scripts do, and by :func:`refuse_target`."""
    if source == target:
        raise say.fails(text)
    refuse_target(target, source)


def make_spk2utt(stage: Stage) -> None:
    """Make spk2utt from utt2spk."""
    path = stage.path("utt2spk")
    stage.write("spk2utt", lines.spk2utt(chunks(path), bad_line("Invalid line in utt2spk file", path, DIED)))


def make_utt2spk(stage: Stage) -> None:
    """Make utt2spk from spk2utt."""
    path = stage.path("spk2utt")
    stage.write("utt2spk", lines.utt2spk(chunks(path), bad_line("Invalid line in spk2utt file", path, DIED)))


def subset(
    say: Say,
    source: str,
    *arguments: str,
    speakers: bool = False,
    shortest: bool = False,
    first: bool = False,
    last: bool = False,
    per_spk: bool = False,
    spk_list: str | Keys = "",
    utt_list: str | Keys = "",
) -> int:
    """Make a directory with some of the utterances; by default they are evenly spread.

    Args:
        source: the directory.
        *arguments: number of utterances (of each speaker with ``per_spk``) without ``spk_list`` or ``utt_list``; the new directory.
        speakers, shortest, first, last, per_spk: how they are chosen.
        spk_list, utt_list: the speakers or utterances to keep, or a file of them, instead of a number.
    """
    src, target, number = SourceDir(source), arguments[-1], "".join(arguments[:-1])
    given = {"--speakers": speakers, "--shortest": shortest, "--first": first, "--last": last, "--per-spk": per_spk}
    which = next((name for name, value in given.items() if value), "")
    src.need(say)
    count = src.count("utt2spk")
    wanted = whole_number(number)
    if wanted > count:
        raise say.fails("cannot subset to more utterances than you originally had.")
    if which == "--shortest" and not src.path("feats.scp"):
        raise say.fails("you selected --shortest but no feats.scp exist.")
    refuse_same(source, target, "<srcdir> and <destdir> must be different.", say)
    if not (wanted or spk_list or utt_list):
        raise DataDirError(f"expected a number of utterances of 1 or more, not {number!r}")
    with Stage(target, say, sources=[source]) as stage, exits_with(1):
        _choose(say, src, stage, wanted, which, spk_list, utt_list)
        segments = src.path("segments")

        def keep(names: str, keys: Keys) -> None:
            for name in names.split():
                if src.path(name):
                    filtered(stage, src.path(name), name, keys, may_end_blank=True)

        keep(BY_UTTERANCE.replace("wav.scp", "segments" if segments else "wav.scp"), keys_of(stage.path("utt2spk")))
        keep(BY_SPEAKER, keys_of(stage.path("spk2utt")))
        if segments:
            named = lines.distinct(stage.path("segments"), 2, awk=False)  # as filter_scp.pl reads them
            recordings = Keys(lambda: [named])
        else:
            recordings = Keys.of(*filter(None, [stage.path("wav.scp")]))
        keep("reco2file_and_channel reco2dur wav.scp" if segments else "reco2file_and_channel reco2dur", recordings)
        if stm := src.path("stm"):
            filtered(stage, stm, "stm", recordings, (line for line in lines_of(stm) if line.startswith(b";;")))
        stage.each(src, "frame_shift")
        left = stage.count("utt2spk")
    say(f"reducing #utt from {count} to {left}")
    return 0


def _choose(
    say: Say, src: SourceDir, stage: Stage, wanted: int, which: str, spk_list: str | Keys, utt_list: str | Keys
) -> None:
    """Write utt2spk and spk2utt of a subset."""
    utt2spk, spk2utt = src.path("utt2spk"), src.path("spk2utt")
    by_speaker = spk_list or which in ("--speakers", "--per-spk")
    if by_speaker:
        src.need(say, "spk2utt")
    if spk_list:
        filtered(stage, spk2utt, "spk2utt", _id_list(spk_list))
    elif utt_list:
        filtered(stage, utt2spk, "utt2spk", _id_list(utt_list))
    elif which == "--speakers":
        kept, total = [], 0
        for line in shuffled(chunks(spk2utt)):
            if total < wanted:
                kept.append(line if line.endswith(b"\n") else line + b"\n")
            total += len(words(line, awk=True)) - 1
        stage.write("spk2utt", sorted(kept))
    elif which == "--per-spk":
        stage.write("spk2utt", (_some_of(words(line, awk=True), wanted) for line in lines_of(spk2utt)))
    elif which == "--shortest":
        frames = src.path("utt2num_frames")
        if not frames or not lines.is_sorted(frames):
            lengths = chunks(frames) if frames else lengths_of_features(src.path("feats.scp"))
            stage.write(SCRATCH, lines.sort_lines([lengths]))
            frames = stage.path(SCRATCH)
        shortest = b"".join(_shortest(frames, wanted))
        filtered(stage, utt2spk, "utt2spk", Keys(lambda: [shortest]))
    else:
        stage.write("utt2spk", subset_lines(utt2spk, wanted, which))
    (make_utt2spk if by_speaker else make_spk2utt)(stage)


def _shortest(lengths: str, wanted: int) -> Iterator[bytes]:
    """Yield the keys of so many utterances in a sorted file, the shortest ones; of two that are as long, the first."""
    counts: dict[float, int] = {}
    for chunk in chunks(lengths):
        for number in lines.numbers_in(chunk, 2):
            counts[number] = counts.get(number, 0) + 1
    limit, left = -1.0, 0
    for number in sorted(counts):
        if wanted > 0:
            limit, left = number, wanted
        wanted -= counts[number]
    for chunk in chunks(lengths):
        (keys,) = columns(chunk, 1)
        pairs = zip(keys, lines.numbers_in(chunk, 2), strict=True)
        yield b"".join([key + b"\n" for key, n in pairs if n < limit or (n == limit and (left := left - 1) >= 0)])


def _id_list(file: str | Keys) -> Keys:
    return file if isinstance(file, Keys) else keys_of(file)


def _some_of(found: list[bytes], wanted: int) -> bytes:
    """Return a line of spk2utt with at most so many of its utterances, as Kaldi's awk writes it."""
    step = max((len(found) - 1) // wanted, 1)
    return b" ".join([*found[:1], *found[1 : wanted * step + 1 : step], b"\n"])


def combine(say: Say, target: str, *sources: str, extra_files: str = "", skip_fix: bool = False) -> int:
    """Make a directory with the utterances of several others."""
    if not sources:
        raise DataDirError("give one source or more", target)
    srcs = [SourceDir(folder) for folder in sources]
    info = f"{say.name} [info]:"
    with Stage(target, say, sources=sources, changes_sources=True) as stage, exits_with(1):
        for src in srcs:
            src.need(say)
        shift = _common_frame_shift(say, srcs)
        helper = say.to_stderr().called("utils/data/get_utt2dur.sh")
        made: dict[str, Callable[[SourceDir], Iterable[bytes]]] = {
            "utt2uniq": _themselves,
            "segments": lambda src: segments_of(helper, src.folder),
        }
        for name in (*made, *COMBINED.split(), *extra_files.replace("utt2uniq", "").split()):
            there = [bool(src.path(name)) for src in srcs]
            if not any(there):
                say.write(f"{info} not combining {name} as it does not exist")
            elif not all(there) and name not in made:
                say.write(f"{info} **not combining {name} as it does not exist everywhere**")
            else:
                for src in srcs if name == "segments" else ():
                    if not src.path(name):
                        warn(f"{info} will generate missing segments for {src.folder}")
                parts = [chunks(src.path(name)) if src.path(name) else made[name](src) for src in srcs]
                stage.write(name, lines.sort_lines(parts))
                say(f"combined {name}")
        make_spk2utt(stage)
        if shift:
            stage.copy(shift, "frame_shift")
        if not skip_fix:
            fix_new(say.called("utils/fix_data_dir.sh"), stage)
    return 0


def _common_frame_shift(say: Say, srcs: list[SourceDir]) -> str:
    """Return the path of a directory's frame_shift, of which all have the same; empty if there is none."""
    found: tuple[SourceDir, bytes] | None = None
    for src in srcs:
        if src.path("feats.scp") and (path := src.path("frame_shift")):
            value = b"".join(chunks(path))
            if found and found[1] != value:
                text = f"different frame_shift in directories {src.folder} and  {found[0].folder}. Cannot combine features."
                raise say.called(f"{say.name}:error").fails(text)
            found = src, value
    return found[0].path("frame_shift") if found else ""


def _themselves(src: SourceDir) -> Iterator[bytes]:
    for chunk in chunks(src.path("utt2spk")):
        (keys,) = columns(chunk, 1)
        yield rows(b"%b %b\n", keys, keys, count=len(keys))


class Renaming:
    """New names: a prefix and a suffix for all that a list has.

    Args:
        listing: the file whose first fields are the names.
    """

    def __init__(self, listing: str, prefix: str, suffix: str = "") -> None:
        self.listing = listing
        self.prefix, self.suffix = (text.encode("utf-8", "surrogateescape") for text in (prefix, suffix))
        self.keys = Keys.of(listing) if prefix or suffix else keys_of(listing, "apply_map.pl: empty line,")

    def lines(self, path: str, number: int = 1, made: Iterable[bytes] | None = None) -> Iterator[bytes]:
        """Return chunks of a file, or what was made of them, with a field renamed, and single spaces between words.

        A file name in a script file keeps its blanks.

        Raises:
            DataDirError: a name is not in the list.
        """
        for before, chunk in lines.numbered(made or chunks(path)):
            runs, *_ = self.keys.runs(chunk, number)
            if -1 in runs[2::4]:
                start = runs[4 * runs[2::4].index(-1)]
                done = chunk[:start].count(b"\n")
                key = field(lines.split_lines(chunk)[done], number)
                if key:
                    yield self._renamed(chunk[:start], number, path)
                    warn(f"apply_map.pl: undefined key {shown(key)}")
                    advice = f"is not in {self.listing}: add it, or run fix_data_dir.sh first"
                    raise DataDirError(advice, path, before + done + 1, key, status=DIED, partly=True)
            yield self._renamed(chunk, number, path)

    def _renamed(self, chunk: bytes, number: int, path: str) -> bytes:
        prefix, suffix = self.prefix, self.suffix
        if lines.is_plain(chunk):
            if number == 1 and not suffix:
                return prefix + chunk[:-1].replace(b"\n", b"\n" + prefix) + b"\n"
            if number == 2 and not (Fields(chunk, 2).lacking or Fields(chunk, 3).joined.strip(b"\n")):
                return chunk.replace(b" ", b" " + prefix).replace(b"\n", suffix + b"\n")
        out = []
        for line in lines.split_lines(chunk):
            found = lines.words_of_script(line) if path.endswith(".scp") else line.split()
            if len(found) >= number:
                found[number - 1] = prefix + found[number - 1] + suffix
            out.append(b" ".join(found) + b"\n")
        return b"".join(out)

    def pairs(self, second: str = "") -> Iterator[bytes]:
        """Return lines with new and old names, or new names and what utt2uniq has for the old ones."""
        prefix, suffix = (affix.replace(b"%", b"%%") for affix in (self.prefix, self.suffix))
        for chunk in chunks(second or self.listing):
            keys, values = columns(chunk, 1, 2 if second else 1)
            yield rows(prefix + b"%b" + suffix + b" %b\n", keys, values, count=len(keys))


def rename(stage: Stage, src: SourceDir, utterances: Renaming, speakers: Renaming, *, uniq: bool) -> None:
    """Write utt2uniq, utt2spk and spk2utt with new names."""
    if src.path("utt2uniq") or uniq:
        stage.write("utt2uniq", utterances.pairs(src.path("utt2uniq")))
    path = src.path("utt2spk")
    stage.write("utt2spk", speakers.lines(path, 2, utterances.lines(path)))
    make_spk2utt(stage)


def copy(
    say: Say,
    source: str,
    target: str,
    *,
    spk_prefix: str = "",
    utt_prefix: str = "",
    spk_suffix: str = "",
    utt_suffix: str = "",
    validate_opts: str = "",
) -> int:
    """Copy a directory, with prefixes and suffixes for the names of utterances and speakers."""
    src = SourceDir(source)
    src.need(say.called("copy_data_dir.sh"))
    refuse_same(source, target, "this script requires <srcdir> and <destdir> to be different.", say)
    with Stage(target, say, sources=[source]) as stage:
        utterances = Renaming(src.path("utt2spk"), utt_prefix, utt_suffix)
        with exits_with(DIED):
            spk2utt = src.need(say, "spk2utt")
        speakers = Renaming(spk2utt, spk_prefix, spk_suffix)
        rename(stage, src, utterances, speakers, uniq=bool(utt_prefix or utt_suffix))
        segments = src.path("segments")
        if segments and not src.path("wav.scp"):
            raise say.fails("", f"is missing, but {source} has segments", f"{source}/wav.scp")
        recordings = None if segments else utterances.lines
        makers = {"u": utterances.lines, "s": speakers.lines, "r": recordings, "c": None}
        for name, by in (each.split(":") for each in COPIED.split()):
            stage.each(src, name, makers[by])
        say(f"copied data from {source} to {target}")
    return _validated(say, src, target, validate_opts)


def _validated(say: Say, src: SourceDir, target: str, options: str, *names: str) -> int:
    """Check a directory, without the files that its source lacks."""
    known = {"--" + name.replace("_", "-"): name for name in validate.__kwdefaults__ or ()}
    lacks = [f"--no-{name.partition('.')[0]}" for name in ("feats.scp", "text", *names) if not src.path(name)]
    given = {*lacks, *options.split()}
    if unknown := given.difference(known):
        raise DataDirError(f"--validate-opts: {' '.join(sorted(unknown))}: known are {' '.join(known)}", partly=True)
    say = say.called("utils/validate_data_dir.sh")
    return validate(say, target, **{name: option in given for option, name in known.items()})


def modify_speakers(
    say: Say,
    source: str,
    target: str,
    *,
    utts_per_spk_max: int = -1,
    seconds_per_spk_max: float = -1.0,
    respect_speaker_info: bool = True,
) -> int:
    """Copy a directory with new speakers: consecutive utterances, of a limited number or duration."""
    refuse_same(source, target, "<srcdir> must be different from <destdir>.", say)
    if seconds_per_spk_max == -1 and utts_per_spk_max <= 0:
        say("one or both of the --utts-per-spk-max or --seconds-per-spk-max options must be provided.")
    src = SourceDir(source)
    utt2spk = src.need(say)
    with Stage(target, say, sources=[source], changes_sources=True) as stage:
        if seconds_per_spk_max != -1:
            get_utt2dur(say.called("utils/data/get_utt2dur.sh"), source)
        durations = _Durations(src.path("utt2dur")) if seconds_per_spk_max > 0 else None
        bad = bad_line("bad utt2spk line, expected two fields", utt2spk, 1)
        stage.write(SCRATCH, lines.spk2utt(chunks(utt2spk), bad))
        stage.write(SCRATCH, lines.utt2spk(lines.sort_lines([chunks(stage.path(SCRATCH))], lines.sort_key), bad))
        if not respect_speaker_info:
            keys = lines.sort_lines([(Fields(chunk).joined for chunk in chunks(stage.path(SCRATCH)))])
            stage.write(SCRATCH, (b"%b speaker\n" % key[:-1] for key, _ in itertools.groupby(keys)))
        stage.write("utt2spk", _divided(stage.path(SCRATCH), utts_per_spk_max, seconds_per_spk_max, durations))
        make_spk2utt(stage)
        if SourceDir(target).path("cmvn.scp"):
            stage.move_to_backup("cmvn.scp")
            say(f"moving {target}/cmvn.scp to {target}/.backup/cmvn.scp")
        stage.each(src, "feats.scp segments wav.scp reco2file_and_channel text stm glm ctm")
        before, now = src.count("spk2utt"), stage.count("spk2utt")
    say(f"copied data from {source} to {target}, number of speakers changed from {before} to {now}")
    return _validated(say, src, target, "", "wav.scp")


class _Durations:
    """The durations in a file."""

    def __init__(self, path: str) -> None:
        self.path, self.seconds = path, array("d")
        bad = bad_line("bad utt2dur line, expected two fields", path, 1)
        for chunk in lines.of_two_words(chunks(path), bad):
            values = Fields(chunk, 2).joined
            numbers = lines.decimals(values)
            for key, value in zip(Fields(chunk).joined.split(), values.split(), strict=True) if not numbers else ():
                if not lines.is_number(value):
                    raise DataDirError("write: utterance seconds", path, key=key)
            self.seconds.extend(numbers or lines.numbers_of(values))
        self.keys = Keys.of(path)

    def of(self, file: str) -> Iterator[float]:
        """Yield the durations of the utterances in the lines of a file."""
        for chunk in chunks(file):
            runs, *_ = self.keys.runs(chunk, bounds=EACH_KEY)
            numbers = [number for number, count in zip(runs[2::4], runs[3::4], strict=True) for _ in range(count)]
            if -1 in numbers:
                advice = "has no duration: delete utt2dur, which is then made again"
                key = field(lines.split_lines(chunk)[numbers.index(-1)])
                raise DataDirError(advice, self.path, key=key, partly=True)
            yield from map(self.seconds.__getitem__, numbers)


def _divided(pairs: str, most: int, seconds: float, durations: _Durations | None) -> Iterator[bytes]:
    """Return utt2spk with new speakers, of limited number and duration, for one in which speakers are not apart."""
    counts, sizes = array("q"), array("q")  # of new speakers for an old one, of their utterances
    lengths = durations.of(pairs) if durations else iter(())
    for _, total in lines.speakers(chunks(pairs)):
        found = _sizes(total, most, seconds, lengths)
        counts.append(len(found))
        sizes.extend(found)

    def names() -> Iterator[Iterator[bytes]]:
        supply = iter(sizes)
        for (speaker, _), count in zip(lines.speakers(chunks(pairs)), counts, strict=True):
            width = len(str(count))
            for at, size in enumerate(itertools.islice(supply, count), 1):
                yield itertools.repeat(b"%b-%0*d" % (speaker, width, at), size)

    each = itertools.chain.from_iterable(names())
    for chunk in chunks(pairs):
        (keys,) = columns(chunk, 1)
        yield rows(b"%b %b\n", keys, itertools.islice(each, len(keys)), count=len(keys))


def _sizes(total: int, most: int, seconds: float, lengths: Iterator[float]) -> list[int]:
    """Divide a number of utterances into groups of limited number and duration, and return their sizes."""
    if seconds <= 0:
        size = most if most > 0 else total
        return [min(size, total - at) for at in range(0, total, size)]
    found: list[int] = []
    duration = 0.0
    for length in itertools.islice(lengths, total):
        if not found or found[-1] == most or duration + length > seconds:
            found.append(0)
            duration = 0.0
        found[-1] += 1
        duration += length
    return found


def _with_fewer_repetitions(file: str, size: int, most: int) -> Iterator[bytes]:
    """Yield the lines of a file of transcripts without most of those that are there often."""
    counts, state = _repeated(file, size, most), 0
    for chunk in chunks(file):
        kept = []
        for line, text in zip(lines.split_lines(chunk), _texts(chunk), strict=True):
            count = counts.get(text, 0)
            if count >= most:
                state = (state + 103349) % 71147
                if not state / 71147 < most / count:
                    continue
            kept.append(line)
        yield b"".join(kept)


def _repeated(file: str, size: int, most: int) -> dict[bytes, int]:
    """Return how often each transcript is in a file, of those that are there so often, and of some others.

    Hash values are counted first, in an array: almost none of the other transcripts is held.
    """
    limit, buckets = min(most, 255), bytearray(8 << min(size.bit_length(), HASH_BITS))
    mask = len(buckets) - 1
    for chunk in chunks(file):
        for text in _texts(chunk):
            if buckets[place := hash(text) & mask] < limit:
                buckets[place] += 1
    counts: dict[bytes, int] = {}
    for chunk in chunks(file):
        for text in _texts(chunk):
            if buckets[hash(text) & mask] == limit:
                counts[text] = counts.get(text, 0) + 1
    return counts


def _texts(chunk: bytes) -> list[bytes]:
    """Return the transcripts of lines, with single spaces."""
    if lines.is_plain(chunk):
        return [line.partition(b" ")[2] for line in chunk[:-1].split(b"\n")]
    return [b" ".join(line.split()[1:]) for line in lines.split_lines(chunk)]


def remove_repetitions(say: Say, most: str, source: str, target: str) -> int:
    """Copy a directory without most of the utterances whose transcript is that of many others."""
    src = SourceDir(source)
    if not src.path("text"):
        raise say.fails(f"Invalid input directory {source}")
    if whole_number(most) <= 1:
        raise say.fails(f"invalid max-count '{most}'")
    refuse_same(source, target, "<src-data-dir> and <dest-data-dir> must be different.", say)
    with Stage(target, say, sources=[source]) as stage:
        for name in sorted(os.listdir(source)):
            if src.path(name) and not name.startswith("."):
                stage.copy(src.path(name), name)
        stage.write("text", _with_fewer_repetitions(src.path("text"), src.count("text"), whole_number(most)))
        say.write(f"Reduced number of utterances from {src.count('text')} to {stage.count('text')}")
        say.write("Using fix_data_dir.sh to reconcile the other files.")
        stage.need(say)
        has_images = say.as_script and stage.path("images.scp")
        if not has_images:
            fix_new(say.called("utils/fix_data_dir.sh"), stage)
            stage.discard_backup()
    if has_images:  # which a script of the recipe fixes
        fix(say.called("utils/fix_data_dir.sh"), target)
    return 0
