"""Make data directories from other data directories: subset, combine, copy, divide speakers, remove repetitions."""

from __future__ import annotations

import inspect
import itertools
import operator
import os
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator

from io_ark.data_dir.awk_numbers import is_number, parse_number
from io_ark.data_dir.durations import count_feature_frames, generate_segments, get_utt2dur
from io_ark.data_dir.fix import fix_directory, fix_stage, write_filtered_lines
from io_ark.data_dir.line_chunks import number_chunks, read_chunks, read_lines, split_lines
from io_ark.data_dir.line_fields import (
    get_column,
    get_field,
    has_single_spaces,
    require_two_fields,
    sort_unique_values,
    split_fields,
    split_script_line,
)
from io_ark.data_dir.line_order import get_sort_key, is_sorted, sort_lines
from io_ark.data_dir.line_selection import read_keys
from io_ark.data_dir.lists import DIED, choose_lines, make_refusal, parse_positive_integer, read_id_list, shuffle_lines
from io_ark.data_dir.speaker_lists import convert_to_spk2utt, convert_to_utt2spk
from io_ark.data_dir.split import FILES_BY_SPEAKER
from io_ark.data_dir.stage import DataDirError, DataFiles, Printer, Stage, decode_key, refuse_target, set_status, warn
from io_ark.data_dir.validate import validate_directory

FILES_BY_UTTERANCE = "feats.scp vad.scp utt2lang utt2dur utt2num_frames utt2uniq wav.scp utt2warp text"
COMBINED_FILES = (
    "utt2spk utt2lang utt2dur utt2num_frames reco2dur feats.scp text cmvn.scp vad.scp reco2file_and_channel wav.scp "
    "spk2gender"
)
# Files of a copy, grouped by the names in their first fields. Recordings are renamed only if there are no segments.
COPIED_BY_UTTERANCE = "feats.scp vad.scp utt2lang segments text utt2dur utt2num_frames"
COPIED_BY_RECORDING = "wav.scp reco2dur"
COPIED_BY_SPEAKER = "spk2gender cmvn.scp"
COPIED_UNCHANGED = "reco2file_and_channel frame_shift stm glm ctm"
# Constants of the random numbers of remove_dup_utts.sh, which are state / MODULUS for successive states
# state = (state + INCREMENT) % MODULUS.
REPETITION_INCREMENT, REPETITION_MODULUS = 103349, 71147
IdList = str | Container[bytes]


def refuse_same_directory(source: str, target: str, message: str, say: Printer) -> None:
    """Raise DataDirError with Kaldi's ``message`` if the paths are equal, or if :func:`refuse_target` refuses the target."""
    if source == target:
        raise say.fail(message)
    refuse_target(target, source)


def write_spk2utt(stage: Stage) -> None:
    """Write the file spk2utt of a stage from its file utt2spk.

    Raise DataDirError for a line without exactly two fields.
    """
    path = stage.find("utt2spk")
    refuse_line = make_refusal("Invalid line in utt2spk file", path, DIED)
    stage.write("spk2utt", convert_to_spk2utt(read_chunks(path), refuse_line))


def subset_directory(
    say: Printer,
    source: str,
    *arguments: str,
    speakers: bool = False,
    shortest: bool = False,
    first: bool = False,
    last: bool = False,
    per_spk: bool = False,
    spk_list: IdList = "",
    utt_list: IdList = "",
) -> int:
    """Make a directory with some of the utterances of ``source`` (Kaldi: subset_data_dir.sh). Return the exit status 0.

    By default, the chosen utterances are evenly spread. ``spk_list`` and ``utt_list`` may also be sets of names as
    bytes.

    Args:
        source: path of the directory.
        arguments: the number of utterances, unless ``spk_list`` or ``utt_list`` is passed, and the path of the new
            directory. If several of the following options are passed, spk_list takes precedence, then utt_list, then
            the first of the others.
        speakers: choose all utterances of random speakers, until the number of utterances is reached or exceeded.
        shortest: choose the shortest utterances.
        first: choose the first utterances.
        last: choose the last utterances.
        per_spk: choose the given number of utterances from each speaker, or all utterances of a speaker who has fewer.
        spk_list: path of a file with the name of a speaker on each line.
        utt_list: path of a file with the name of an utterance on each line.

    Raise DataDirError if the number is invalid or larger than the number of utterances, the source lacks utt2spk or a
    file that an option needs, the new directory is the source, or a file or directory cannot be read or written.
    """
    src, target, number = DataFiles(source), arguments[-1], "".join(arguments[:-1])
    options = {"--speakers": speakers, "--shortest": shortest, "--first": first, "--last": last, "--per-spk": per_spk}
    option = next((name for name, is_set in options.items() if is_set), "")
    src.require(say)
    utterance_count, subset_size = src.count_lines("utt2spk"), parse_positive_integer(number)
    if subset_size > utterance_count:
        raise say.fail("cannot subset to more utterances than you originally had.")
    if option == "--shortest" and not src.find("feats.scp"):
        raise say.fail("you selected --shortest but no feats.scp exist.")
    refuse_same_directory(source, target, "<srcdir> and <destdir> must be different.", say)
    if not (subset_size or spk_list or utt_list):
        raise DataDirError(f"expected the number of utterances, a whole number of 1 or more, not {number!r}")
    with Stage(target, say, sources=[source]) as stage, set_status(1):
        _choose_utterances(say, src, stage, subset_size, option, spk_list, utt_list)

        def write_files(names: str, keys: Container[bytes]) -> None:
            """Write each file of ``names`` (separated by spaces) that the source has, with the lines whose keys are in ``keys``."""
            for name in names.split():
                if path := src.find(name):
                    write_filtered_lines(stage, path, name, keys, may_end_blank=True)

        segments = src.find("segments")
        names = FILES_BY_UTTERANCE.replace("wav.scp", "segments") if segments else FILES_BY_UTTERANCE
        write_files(names, read_id_list(stage.find("utt2spk")))
        write_files(FILES_BY_SPEAKER, read_id_list(stage.find("spk2utt")))
        if segments:  # Split fields like Perl, because Kaldi's script reads recordings with filter_scp.pl.
            recordings = set(sort_unique_values(stage.find("segments"), 2, awk=False))
        else:
            recordings = set(read_keys(*filter(None, [stage.find("wav.scp")])))
        write_files(
            "reco2file_and_channel reco2dur wav.scp" if segments else "reco2file_and_channel reco2dur", recordings
        )
        if stm := src.find("stm"):
            comments = (line for line in read_lines(stm) if line.startswith(b";;"))
            write_filtered_lines(stage, stm, "stm", recordings, comments)
        stage.write_files_from(src, "frame_shift")
        remaining_count = stage.count_lines("utt2spk")
    say(f"reducing #utt from {utterance_count} to {remaining_count}")
    return 0


def _choose_utterances(
    say: Printer, src: DataFiles, stage: Stage, size: int, option: str, spk_list: IdList, utt_list: IdList
) -> None:
    """Write utt2spk and spk2utt of a subset of the directory ``src`` to the stage of the new directory.

    The subset has the speakers in ``spk_list`` if passed, otherwise the utterances in ``utt_list``. Without lists,
    ``option``, such as "--first", chooses ``size`` utterances, or with "--per-spk" up to ``size`` of each speaker. ""
    spreads them evenly.
    """
    utt2spk, spk2utt = src.find("utt2spk"), src.find("spk2utt")
    is_by_speaker = spk_list or option in ("--speakers", "--per-spk")
    if is_by_speaker:
        src.require(say, "spk2utt")
    if spk_list:
        write_filtered_lines(stage, spk2utt, "spk2utt", _read_ids(spk_list))
    elif utt_list:
        write_filtered_lines(stage, utt2spk, "utt2spk", _read_ids(utt_list))
    elif option == "--speakers":
        chosen_lines, utterance_count = [], 0
        for line in shuffle_lines(read_chunks(spk2utt)):
            if utterance_count < size:
                chosen_lines.append(line if line.endswith(b"\n") else line + b"\n")
            utterance_count += len(split_fields(line, awk=True)) - 1
        stage.write("spk2utt", sorted(chosen_lines))
    elif option == "--per-spk":
        rows = (split_fields(line, awk=True) for line in read_lines(spk2utt))
        stage.write("spk2utt", (_spread_utterances(fields, size) for fields in rows))
    elif option == "--shortest":
        path = src.find("utt2num_frames")
        if path and is_sorted(path):
            lines = list(read_lines(path))
        else:
            lines = sort_lines([read_chunks(path) if path else count_feature_frames(src.find("feats.scp"))])
        write_filtered_lines(stage, utt2spk, "utt2spk", _find_shortest_utterances(lines, size))
    else:
        stage.write("utt2spk", choose_lines(utt2spk, size, option))
    if is_by_speaker:
        path = stage.find("spk2utt")
        refuse_line = make_refusal("Invalid line in spk2utt file", path, DIED)
        stage.write("utt2spk", convert_to_utt2spk(read_chunks(path), refuse_line))
    else:
        write_spk2utt(stage)


def _find_shortest_utterances(lines: list[bytes], size: int) -> set[bytes]:
    """Return the keys of the ``size`` shortest utterances from lines of utt2num_frames. In a tie, earlier lines win."""
    pairs = [(parse_number(get_field(line, 2, awk=True)), get_field(line, awk=True)) for line in lines]
    return {key for _, key in sorted(pairs, key=operator.itemgetter(0))[:size]}


def _read_ids(ids: IdList) -> Container[bytes]:
    return read_id_list(ids) if isinstance(ids, str) else ids


def _spread_utterances(fields: list[bytes], size: int) -> bytes:
    """Return a line of spk2utt with at most ``size`` evenly spread utterances.

    ``fields`` has the fields of the full line.
    """
    step = max((len(fields) - 1) // size, 1)
    return b" ".join([*fields[:1], *fields[1 : size * step + 1 : step], b"\n"])  # As in Kaldi, a space ends the line.


def combine_directories(say: Printer, target: str, *sources: str, extra_files: str = "", skip_fix: bool = False) -> int:
    """Make a directory with the utterances of several directories (Kaldi: combine_data.sh), and return the exit status.

    The new directory has only the files of :data:`COMBINED_FILES`, ``extra_files``, spk2utt, frame_shift, utt2uniq and
    segments. A file that any source lacks is left out, except utt2uniq and segments, which are generated for a source
    that lacks them if another source has them. Generating segments writes a missing utt2dur into the source.

    If fixing the new directory raises an error, the target does not change. If ``say.as_script``, a directory with
    images.scp is fixed only after it is in place, and the exit status is 1 if this fails. Otherwise, the exit status is
    0.

    Args:
        target: path of the new directory.
        sources: paths of the directories.
        extra_files: names of further files that are combined, separated by spaces.
        skip_fix: do not run fix_data_dir.sh on the new directory.

    Raise DataDirError if there are no sources, their frame shifts differ, or a directory cannot be read or written.
    """
    if not sources:
        raise DataDirError("there is no source to combine: give one source or more", target)
    srcs = [DataFiles(folder) for folder in sources]
    info = f"{say.name} [info]:"
    with Stage(target, say, sources=sources, changes_sources=True) as stage, set_status(1):
        for src in srcs:
            src.require(say)
        frame_shift = _find_common_frame_shift(say, srcs)
        say_durations = say.to_stderr().with_name("utils/data/get_utt2dur.sh")
        generators: dict[str, Callable[[DataFiles], Iterable[bytes]]] = {
            "utt2uniq": map_utterances_to_themselves,
            "segments": lambda src: generate_segments(say_durations, src.folder),
        }
        for name in (*generators, *COMBINED_FILES.split(), *extra_files.replace("utt2uniq", "").split()):
            exists = [bool(src.find(name)) for src in srcs]
            if not any(exists):
                say.write(f"{info} not combining {name} as it does not exist")
            elif not all(exists) and name not in generators:
                say.write(f"{info} **not combining {name} as it does not exist everywhere**")
            else:
                for src in srcs:
                    if name == "segments" and not src.find(name):
                        warn(f"{info} will generate missing segments for {src.folder}")
                contents = [read_chunks(src.find(name)) if src.find(name) else generators[name](src) for src in srcs]
                stage.write(name, sort_lines(contents))
                say(f"combined {name}")
        write_spk2utt(stage)
        if frame_shift:
            stage.copy(frame_shift, "frame_shift")
        has_images = say.as_script and stage.find("images.scp")
        if not skip_fix and not has_images:
            fix_stage(say.with_name("utils/fix_data_dir.sh"), stage)
    if skip_fix or not has_images:
        return 0
    # The recipe's script for images can only fix a directory that is in place.
    return min(1, fix_directory(say.with_name("utils/fix_data_dir.sh"), target))


def _find_common_frame_shift(say: Printer, srcs: list[DataFiles]) -> str:
    """Return the path of the last file frame_shift in the directories that have feats.scp, or "" if there is no such file.

    Raise DataDirError if two of these files differ.
    """
    last_src: DataFiles | None = None
    last_shift = b""
    for src in srcs:
        if src.find("feats.scp") and (path := src.find("frame_shift")):
            shift = b"".join(read_chunks(path))
            if last_src and last_shift != shift:
                message = f"different frame_shift in directories {src.folder} and  {last_src.folder}. Cannot combine features."
                raise say.with_name(f"{say.name}:error").fail(message)
            last_src, last_shift = src, shift
    return last_src.find("frame_shift") if last_src else ""


def map_utterances_to_themselves(src: DataFiles) -> Iterator[bytes]:
    """Yield chunks of a file utt2uniq for utterances that were never renamed: each utterance in utt2spk is mapped to itself."""
    for chunk in read_chunks(src.find("utt2spk")):
        yield b"".join([b"%b %b\n" % (key, key) for key in get_column(chunk, awk=True)])


class Renaming:
    """Renames keys by adding a prefix and a suffix.

    Args:
        listing: path of a file with all keys in its first field. Without a prefix and a suffix, a blank line raises
            DataDirError.
        prefix, suffix: strings that are added before and after a key.
    """

    def __init__(self, listing: str, prefix: str, suffix: str = "") -> None:
        self.listing = listing
        self.prefix, self.suffix = (affix.encode("utf-8", "surrogateescape") for affix in (prefix, suffix))
        if prefix or suffix:
            self.keys = set(read_keys(listing))
        else:  # Kaldi's script turns an empty line of the listing into a blank line of its map, which apply_map.pl refuses.
            self.keys = read_id_list(listing, "apply_map.pl: empty line,")

    def rename_lines(self, path: str, number: int = 1, chunks: Iterable[bytes] | None = None) -> Iterator[bytes]:
        """Yield chunks of the file ``path`` with renamed keys, and with single spaces between fields.

        The keys are in field ``number`` of each line, counted from 1. Lines with fewer fields are not renamed. In a
        script file, spaces within a file name or a quoted command are preserved. If ``chunks`` is passed, these chunks
        are renamed instead of the content of the file, and ``path`` only names the file in errors and tells whether it
        is a script file.

        Raise DataDirError if a key is not in the listing, after the lines before this key have been yielded.
        """
        for lines_before, chunk in number_chunks(chunks or read_chunks(path)):
            fields = get_column(chunk, number)
            unknown_index = next((i for i, field in enumerate(fields) if field and field not in self.keys), None)
            if unknown_index is not None:
                yield self._rename_chunk(b"".join(split_lines(chunk)[:unknown_index]), number, path)
                warn(f"apply_map.pl: undefined key {decode_key(fields[unknown_index])}")
                advice = f"is not in {self.listing}: add the name, or run fix_data_dir.sh first"
                line = lines_before + unknown_index + 1
                raise DataDirError(advice, path, line, fields[unknown_index], status=DIED, partly=True)
            yield self._rename_chunk(chunk, number, path)

    def _rename_chunk(self, chunk: bytes, number: int, path: str) -> bytes:
        """Return a chunk of the file ``path`` with renamed keys and single spaces, as :meth:`rename_lines` describes."""
        prefix, suffix = self.prefix, self.suffix
        if number == 1 and not suffix and has_single_spaces(chunk):
            return prefix + chunk[:-1].replace(b"\n", b"\n" + prefix) + b"\n"  # Add the prefix to all lines at once.
        renamed_lines = []
        for line in split_lines(chunk):
            fields = split_script_line(line) if path.endswith(".scp") else line.split()
            if len(fields) >= number:
                fields[number - 1] = prefix + fields[number - 1] + suffix
            renamed_lines.append(b" ".join(fields) + b"\n")
        return b"".join(renamed_lines)

    def pair_names(self, utt2uniq: str = "") -> Iterator[bytes]:
        """Yield chunks of a new utt2uniq, which maps each new name to the old name.

        If the path of an old ``utt2uniq`` is passed, each new name is mapped to the value of the old name in this file
        instead.
        """
        for chunk in read_chunks(utt2uniq or self.listing):
            keys, values = get_column(chunk, awk=True), get_column(chunk, 2 if utt2uniq else 1, awk=True)
            pairs = zip(keys, values, strict=True)
            yield b"".join([b"%b%b%b %b\n" % (self.prefix, key, self.suffix, value) for key, value in pairs])


def copy_directory(
    say: Printer,
    source: str,
    target: str,
    *,
    spk_prefix: str = "",
    utt_prefix: str = "",
    spk_suffix: str = "",
    utt_suffix: str = "",
    validate_opts: str = "",
) -> int:
    """Copy a directory, and add prefixes and suffixes to its keys (Kaldi: copy_data_dir.sh).

    Return the result of :func:`validate_directory` for the copy.

    Args:
        source, target: path of the directory, path of the copy.
        spk_prefix: string that is added before the names of speakers.
        utt_prefix: string that is added before the names of utterances.
        spk_suffix: string that is added after the names of speakers.
        utt_suffix: string that is added after the names of utterances.
        validate_opts: options of ``validate_data_dir.sh`` for the copy, separated by spaces.

    Raise DataDirError if the source is the target, or lacks utt2spk, spk2utt or the wav.scp of its segments, a key of a
    file is not in utt2spk or spk2utt, ``validate_opts`` has an unknown option, or the copy is invalid.
    """
    src = DataFiles(source)
    src.require(say.with_name("copy_data_dir.sh"))
    refuse_same_directory(source, target, "this script requires <srcdir> and <destdir> to be different.", say)
    with Stage(target, say, sources=[source]) as stage:
        utterances = Renaming(src.find("utt2spk"), utt_prefix, utt_suffix)
        with set_status(DIED):
            spk2utt = src.require(say, "spk2utt")
        speakers = Renaming(spk2utt, spk_prefix, spk_suffix)
        # If the source has no utt2uniq, Kaldi's script writes a new utt2uniq and then moves it into .backup. If the
        # target has an utt2uniq of an earlier job, do not write a new one, so that .backup contains the earlier file,
        # which cannot be recreated.
        has_earlier_file = not src.find("utt2uniq") and bool(DataFiles(target).find("utt2uniq"))
        if src.find("utt2uniq") or ((utt_prefix or utt_suffix) and not has_earlier_file):
            stage.write("utt2uniq", utterances.pair_names(src.find("utt2uniq")))
        utt2spk = src.find("utt2spk")
        stage.write("utt2spk", speakers.rename_lines(utt2spk, 2, utterances.rename_lines(utt2spk)))
        write_spk2utt(stage)
        has_segments = bool(src.find("segments"))
        if has_segments and not src.find("wav.scp"):
            raise say.fail("", f"is missing, but {source} has segments: add the file", f"{source}/wav.scp")
        stage.write_files_from(src, COPIED_BY_UTTERANCE, utterances.rename_lines)
        stage.write_files_from(src, COPIED_BY_RECORDING, None if has_segments else utterances.rename_lines)
        stage.write_files_from(src, COPIED_BY_SPEAKER, speakers.rename_lines)
        stage.write_files_from(src, COPIED_UNCHANGED)
        say(f"copied data from {source} to {target}")
        if not src.find("utt2uniq") and not has_earlier_file and stage.find("utt2uniq"):
            say(f"file utt2uniq exists in dest {target} but not in src {source}.  Moving it to")
            say.write(f" ... {target}/.backup/utt2uniq")
            stage.move_to_backup("utt2uniq")
    return _validate_like_source(say, src, target, validate_opts)


def _validate_like_source(say: Printer, src: DataFiles, target: str, options: str, *optional_files: str) -> int:
    """Validate the directory ``target``, which was made from ``src``, and return the result of :func:`validate_directory`.

    feats.scp, text and the ``optional_files`` may be missing from the target if ``src`` lacks them. ``options`` has
    further options of validate_data_dir.sh, separated by spaces. Raise DataDirError if an option is unknown, or the
    target is invalid.
    """
    parameters = inspect.signature(validate_directory).parameters.values()
    parameter_names = {
        "--" + parameter.name.replace("_", "-"): parameter.name
        for parameter in parameters
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }
    missing_names = [name for name in ("feats.scp", "text", *optional_files) if not src.find(name)]
    chosen_options = {*(f"--no-{name.partition('.')[0]}" for name in missing_names), *options.split()}
    if unknown := chosen_options.difference(parameter_names):
        unknown_options, all_options = " ".join(sorted(unknown)), " ".join(parameter_names)
        message = f"--validate-opts has the unknown options {unknown_options}: choose from {all_options}"
        raise DataDirError(message, partly=True)
    say = say.with_name("utils/validate_data_dir.sh")
    values = {name: option in chosen_options for option, name in parameter_names.items()}
    return validate_directory(say, target, **values)


def divide_speakers(
    say: Printer,
    source: str,
    target: str,
    *,
    utts_per_spk_max: int = -1,
    seconds_per_spk_max: float = -1.0,
    respect_speaker_info: bool = True,
) -> int:
    """Copy a directory, and divide its speakers into speakers with fewer utterances (Kaldi: modify_speaker_info.sh).

    The new speakers are ``<speaker>-1``, ``<speaker>-2`` and so on, with leading zeros if there are 10 or more. If both
    limits have their defaults, each speaker is only renamed, and Kaldi's message that a limit is missing is printed. A
    cmvn.scp in the target is moved into ``.backup``. Return the exit status of :func:`validate_directory` for the copy.

    Args:
        source, target: path of the directory, path of the copy.
        utts_per_spk_max: maximum number of utterances of a speaker. 0 or less means no limit.
        seconds_per_spk_max: maximum total duration of a speaker's utterances in seconds. A longer utterance gets its
            own speaker. 0 or less means no limit. For any value but -1, a missing utt2dur is written into the source.
        respect_speaker_info: keep the utterances of different speakers apart. If false, divide all utterances as if
            they belonged to one speaker named "speaker".

    Raise DataDirError if the target is the source, or a directory is invalid or cannot be read or written.
    """
    refuse_same_directory(source, target, "<srcdir> must be different from <destdir>.", say)
    if seconds_per_spk_max == -1 and utts_per_spk_max <= 0:
        say("one or both of the --utts-per-spk-max or --seconds-per-spk-max options must be provided.")
    src = DataFiles(source)
    utt2spk = src.require(say)
    with Stage(target, say, sources=[source], changes_sources=True) as stage:
        if seconds_per_spk_max != -1:
            get_utt2dur(say.with_name("utils/data/get_utt2dur.sh"), source)
        durations = _read_durations(src.find("utt2dur")) if seconds_per_spk_max > 0 else None
        refuse = make_refusal("bad utt2spk line, expected two fields", utt2spk, 1)
        spk2utt = convert_to_spk2utt(read_chunks(utt2spk), refuse)
        speakers = [line.split() for line in sorted(spk2utt, key=get_sort_key)]
        if not respect_speaker_info:
            speakers = [[b"speaker", *sorted(itertools.chain.from_iterable(fields[1:] for fields in speakers))]]
        lines = (
            line
            for speaker, *names in speakers
            for line in _divide_speaker(speaker, names, utts_per_spk_max, seconds_per_spk_max, durations)
        )
        stage.write("utt2spk", lines)
        write_spk2utt(stage)
        if DataFiles(target).find("cmvn.scp"):
            stage.move_to_backup("cmvn.scp")
            say(f"moving {target}/cmvn.scp to {target}/.backup/cmvn.scp")
        stage.write_files_from(src, "feats.scp segments wav.scp reco2file_and_channel text stm glm ctm")
        old_count, new_count = src.count_lines("spk2utt"), stage.count_lines("spk2utt")
    say(f"copied data from {source} to {target}, number of speakers changed from {old_count} to {new_count}")
    return _validate_like_source(say, src, target, "", "wav.scp")


class _Durations(dict[bytes, float]):
    """Maps utterances to durations in seconds. The attribute ``path`` is the path of the file of durations."""

    path = ""

    def __missing__(self, key: bytes) -> float:
        """Raise DataDirError for an utterance without a duration."""
        advice = "has no duration: delete utt2dur to create it again"
        raise DataDirError(advice, self.path, key=key, partly=True)


def _read_durations(path: str) -> _Durations:
    """Map utterances to their durations in seconds from the utt2dur file at ``path``.

    Raise DataDirError for an invalid line.
    """
    durations = _Durations()
    durations.path = path
    for chunk in require_two_fields(read_chunks(path), make_refusal("bad utt2dur line, expected two fields", path, 1)):
        for key, value in zip(get_column(chunk), get_column(chunk, 2), strict=True):
            if not is_number(value):
                raise DataDirError("expected an utterance and its duration in seconds: correct the line", path, key=key)
            durations[key] = parse_number(value)
    return durations


def _divide_speaker(
    speaker: bytes, names: list[bytes], max_count: int, max_seconds: float, durations: _Durations | None
) -> list[bytes]:
    """Return lines of utt2spk in which the utterances ``names`` of a speaker belong to new speakers ``<speaker>-<number>``.

    A new speaker has at most ``max_count`` utterances (0 or less means no limit). If ``durations`` is not None, the
    utterances of a new speaker last at most ``max_seconds`` in total. A longer utterance gets its own speaker.
    """
    groups: list[list[bytes]] = []
    seconds = 0.0
    for name in names:
        duration = durations[name] if durations is not None else 0.0
        is_full = bool(groups) and len(groups[-1]) == max_count
        if not groups or is_full or (durations is not None and seconds + duration > max_seconds):
            groups.append([])
            seconds = 0.0
        groups[-1].append(name)
        seconds += duration
    width = len(str(len(groups)))
    return [
        b"%b %b-%0*d\n" % (name, speaker, width, group_number)
        for group_number, group in enumerate(groups, 1)
        for name in group
    ]


def _thin_out_repetitions(file: str, max_count: int) -> Iterator[bytes]:
    """Yield chunks of a file ``text`` without some of its lines, so that about ``max_count`` lines of each transcript remain.

    If a transcript occurs ``count >= max_count`` times, each of its lines is kept with the probability ``max_count /
    count``. The pseudo-random numbers are the same as in Kaldi's remove_dup_utts.sh.
    """
    counts = Counter(transcript for chunk in read_chunks(file) for transcript in _get_transcripts(chunk))
    state = 0
    for chunk in read_chunks(file):
        lines = []
        for line, transcript in zip(split_lines(chunk), _get_transcripts(chunk), strict=True):
            count = counts[transcript]
            if count >= max_count:
                state = (state + REPETITION_INCREMENT) % REPETITION_MODULUS
                if not state / REPETITION_MODULUS < max_count / count:
                    continue
            lines.append(line)
        yield b"".join(lines)


def _get_transcripts(chunk: bytes) -> list[bytes]:
    """Return the transcript of each line of a chunk of ``text``, with single spaces between words."""
    if has_single_spaces(chunk):
        return [line.partition(b" ")[2] for line in chunk[:-1].split(b"\n")]
    return [b" ".join(line.split()[1:]) for line in split_lines(chunk)]


def remove_repetitions(say: Printer, max_count: str, source: str, target: str) -> int:
    """Copy a directory without some of its utterances, so that about ``max_count`` utterances of each transcript remain (Kaldi: remove_dup_utts.sh).

    Return the exit status 0. Raise DataDirError if the string ``max_count`` is not a whole number above 1, the source
    has no file ``text``, the target is the source, or a directory is invalid or cannot be read or written.
    """
    src = DataFiles(source)
    if not src.find("text"):
        detail = "is missing: repeated transcripts are removed, so the directory needs this file"
        raise say.fail(f"Invalid input directory {source}", detail, f"{source}/text")
    if parse_positive_integer(max_count) <= 1:
        detail = f"the number of repetitions must be a whole number of 2 or more, not {max_count!r}"
        raise say.fail(f"invalid max-count '{max_count}'", detail)
    refuse_same_directory(source, target, "<src-data-dir> and <dest-data-dir> must be different.", say)
    with Stage(target, say, sources=[source]) as stage:
        for name in sorted(os.listdir(source)):
            if src.find(name) and not name.startswith("."):
                stage.copy(src.find(name), name)
        stage.write("text", _thin_out_repetitions(src.find("text"), parse_positive_integer(max_count)))
        say.write(f"Reduced number of utterances from {src.count_lines('text')} to {stage.count_lines('text')}")
        say.write("Using fix_data_dir.sh to reconcile the other files.")
        stage.require(say)
        has_images = say.as_script and stage.find("images.scp")
        if not has_images:
            try:
                fix_stage(say.with_name("utils/fix_data_dir.sh"), stage)
            except DataDirError as error:
                # Kaldi's fix_data_dir.sh stops without wav.scp, and remove_dup_utts.sh ignores that. The message is
                # empty because the script's own message was already printed. All other errors have a message.
                if error.message:
                    raise
            stage.discard_backup()
    if has_images:  # The recipe's script for images can only fix a directory that is in place.
        fix_directory(say.with_name("utils/fix_data_dir.sh"), target)
    return 0
