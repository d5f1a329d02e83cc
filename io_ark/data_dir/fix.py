"""Sort the files of a data directory and make them agree, as Kaldi's ``fix_data_dir.sh`` does."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Container, Iterable
from itertools import chain, groupby, islice

from io_ark.data_dir.line_chunks import number_chunks, read_chunks, read_lines, split_lines
from io_ark.data_dir.line_fields import get_column, get_field, has_single_spaces, sort_unique_values, split_fields
from io_ark.data_dir.line_order import get_sort_key, is_sorted, sort_lines
from io_ark.data_dir.line_selection import read_keys, select_lines
from io_ark.data_dir.lists import make_refusal, read_id_list
from io_ark.data_dir.segment_times import find_open_ended_segments
from io_ark.data_dir.speaker_lists import convert_to_spk2utt, convert_to_utt2spk
from io_ark.data_dir.stage import (
    BACKUP,
    SORTED_FILES,
    DataDirError,
    Printer,
    Stage,
    have_same_bytes,
    refuse_byte_order_mark,
    warn,
)
from io_ark.data_dir.validate import advise_speaker_order, find_bad_lines, has_positive_value, run_image_script

FILES_BY_UTTERANCE = "utt2spk utt2uniq feats.scp vad.scp text segments utt2lang utt2dur utt2num_frames"
# Files with durations or numbers of frames. An utterance with a value of 0 or less is removed.
MEASURED_FILES = ("utt2dur", "utt2num_frames")
# Files that can be computed from other files, so that a key with two values causes only a warning.
DERIVED_FILES = ("spk2utt", "cmvn.scp")
_PRINTABLE = bytes([10, *range(32, 256)])
_LINE_END_RETURN = re.compile(rb"(?<!\r)\r+(?=\n|\Z)")  # A line ends at a newline or at the end of the file.
_RETURN = "ends with a carriage return: remove the carriage returns (kaldi-compat data fix --strip-cr DIR, or sed -i 's/\\r$//')"
_CHANNEL = "has a fifth field, a channel, which would be lost: put each channel into a separate recording"
_EMPTY = "is empty: remove the file, or make the file again"
_NEGATIVE = "is not above 0, because the segment ends at -1: delete utt2dur and utt2num_frames, and make them again"
_NONE_LEFT = "has none of the utterances that the other files have: compare the names of utterances in these files"
_SPEAKER_ORDER = "utt2spk is not in sorted order when sorted first on speaker-id \n(fix this by making speaker-ids prefixes of utt-ids)"
# Checks of the order in Kaldi's script: a file, True to check the order of its speakers instead of its lines, and the
# message.
_ORDERS = [
    ("utt2spk", False, "utt2spk is not in sorted order (fix this yourself)"),
    ("utt2spk", True, _SPEAKER_ORDER),
    ("spk2utt", False, "spk2utt is not in sorted order (fix this yourself)"),
    ("utt2uniq", False, "utt2uniq is not in sorted order (fix this yourself)"),
]


def fix_directory(
    say: Printer, folder: str, *, utt_extra_files: str = "", spk_extra_files: str = "", strip_cr: bool = False
) -> int:
    """Sort the files of a data directory in place, remove utterances that one of the files lacks, and return the exit status.

    The exit status is 0, unless the recipe's own script fixes the directory. As with Kaldi's fix_data_dir.sh, most
    files in ``.backup`` are sorted versions of the old files.

    Args:
        say: prints Kaldi's messages. If ``say.as_script``, a directory with images.scp is left to the recipe's own
            script.
        utt_extra_files: names of additional files with a line for each utterance, separated by spaces.
        spk_extra_files: names of additional files with a line for each speaker, separated by spaces.
        strip_cr: remove carriage returns at the ends of lines, which are an error otherwise.

    Raise DataDirError if the directory or a required file is missing, no utterance would remain, or data would be lost
    silently, because of a key with two values, a carriage return, a byte-order mark, or a fifth field in segments.
    """
    if not os.path.isdir(folder):
        raise say.fail(f"no such directory {folder}")
    if say.as_script and os.path.isfile(f"{folder}/images.scp"):
        options = {"--utt-extra-files": utt_extra_files, "--spk-extra-files": spk_extra_files}
        passed_options = [(name, value) for name, value in options.items() if value]
        return run_image_script("fix_data_dir.sh", *chain.from_iterable(passed_options), folder)
    with Stage(folder, say) as stage:
        stage.require(say)
        _Fix(say, stage, utt_extra_files.split(), spk_extra_files.split(), strip_cr=strip_cr).run()
    say.write(f"fix_data_dir.sh: old files are kept in {folder}/.backup")
    return 0


def fix_stage(say: Printer, stage: Stage) -> None:
    """Run the steps of fix_data_dir.sh on the new files of a stage, before the commit.

    After an error, the stage discards all of them.
    """
    try:
        _Fix(say, stage).run()
    except DataDirError as error:
        error.partly = False  # Otherwise, the stage would keep the files that were fixed before the error.
        raise
    say.write(f"fix_data_dir.sh: old files are kept in {stage.folder}/.backup")


class _Fix:
    """Carries out the steps of ``fix_data_dir.sh`` on the files of a stage.

    ``utterance_files`` and ``speaker_files`` are additional files. For ``strip_cr``, see :func:`fix_directory`.
    """

    def __init__(
        self,
        say: Printer,
        stage: Stage,
        utterance_files: Collection[str] = (),
        speaker_files: Collection[str] = (),
        *,
        strip_cr: bool = False,
    ) -> None:
        self.say, self.stage, self.folder, self.strip_cr = say, stage, stage.folder, strip_cr
        self.utterance_files, self.speaker_files = utterance_files, speaker_files
        # If no utterances remain, the error names the last file that removed utterances, and says whether the file was
        # empty.
        self.emptying_file, self.was_empty = "utt2spk", False

    def run(self) -> None:
        """Sort all files, and remove lines whose recording, speaker or utterance is missing in another file."""
        for name in dict.fromkeys((*SORTED_FILES, *self.utterance_files, *self.speaker_files)):
            if self.stage.find(name):
                self.stage.back_up(name)
                self.check_file(name)
                self.sort_file(name)
        self.filter_recordings()
        self.filter_speakers()
        old_paths = self.stage.find("utt2spk"), self.stage.find("segments")
        self.filter_utterances()
        # A file that was written again has a new temporary path.
        if old_paths != (self.stage.find("utt2spk"), self.stage.find("segments")):
            self.filter_speakers()
            self.filter_recordings()

    def check_file(self, name: str) -> None:
        """Raise DataDirError for a carriage return at the end of a line, a byte-order mark, or a fifth field in segments.

        If ``self.strip_cr`` is true, carriage returns at the ends of lines are removed instead.
        """
        path = self.stage.find(name)
        refuse_byte_order_mark(path)
        removed_count = 0
        for lines_before, chunk in number_chunks(read_chunks(path)):
            has_return = b"\r" in chunk and not self.strip_cr
            has_channel = name == "segments" and any(get_column(chunk, 5, awk=True))
            lines = split_lines(chunk) if has_return or has_channel else []
            for line_number, line in enumerate(lines, lines_before + 1):
                if has_return and line.endswith((b"\r\n", b"\r")):
                    raise DataDirError(_RETURN, path, line_number, get_field(line))
                if has_channel and len(split_fields(line)) > 4:
                    raise DataDirError(_CHANNEL, path, line_number, get_field(line))
            removed_count += sum(map(len, _LINE_END_RETURN.findall(chunk))) if self.strip_cr else 0
        if removed_count:
            self.stage.write(name, (_LINE_END_RETURN.sub(b"", chunk) for chunk in read_chunks(path)))
            self.say(f"removed {removed_count} carriage return{'s' * (removed_count > 1)} from {self.folder}/{name}")

    def sort_file(self, name: str) -> None:
        """Sort the file ``name`` by its keys if it is not sorted, and keep only the first line of each key.

        If a key has two values, raise DataDirError, or only warn for a file in DERIVED_FILES. Values of spk2utt are not
        compared.
        """
        path = self.stage.find(name)
        if is_sorted(path):
            return
        unique_lines = []
        for key, group in groupby(sort_lines([read_chunks(path)], get_sort_key), get_sort_key):
            first_line, *repetitions = group
            unique_lines.append(first_line)
            if name != "spk2utt" and any(line.split() != first_line.split() for line in repetitions):
                self.refuse_two_values(name, path, key)
        self.stage.write(name, unique_lines)
        if not have_same_bytes(self.stage.find(os.path.join(BACKUP, name)), self.stage.find(name)):
            self.say(f"file {self.folder}/{name} is not in sorted order or not unique, sorting it")

    def refuse_two_values(self, name: str, path: str, key: bytes) -> None:
        """Raise DataDirError for a key with two values in the file at ``path``, or only warn if ``name`` is in DERIVED_FILES."""
        numbered_lines = [
            (line_number, line.split())
            for line_number, line in enumerate(read_lines(path), 1)
            if get_sort_key(line) == key
        ]
        first_number, first_line = numbered_lines[0]
        line_number = next(line_number for line_number, line in numbered_lines if line != first_line)
        problem = f"differs from line {first_number}, which has the same key, and only one would be kept: "
        file, advice = os.path.join(self.folder, name), "remove one line, or rename a key"
        error = DataDirError(problem + advice, file, line_number, key)
        if name not in DERIVED_FILES:
            raise error
        error.message = problem + "the first is kept; compute the file again"
        warn(f"{self.say.name}: warning: {error}")

    def filter_file(self, keys: Container[bytes], name: str, reason: str = "") -> None:
        """Keep only the lines of the file ``name`` whose key is in ``keys``. Raise DataDirError for a blank line.

        If lines are removed and ``reason`` is not empty, print the old and the new number of lines and the reason, as
        Kaldi does.
        """
        path = self.stage.find(name)
        blank_lines: list[int] = []
        selected_count, line_count = select_lines(keys, path, None, refuse=blank_lines.append)
        if blank_lines or selected_count != line_count:
            write_filtered_lines(self.stage, path, name, keys)
        if reason and selected_count != line_count:
            counts = f"from {line_count} to {selected_count} lines"
            self.say(f"filtered {self.folder}/{name} {counts} based on filter {reason}.")

    def filter_recordings(self) -> None:
        """Remove segments whose recording is not in wav.scp, and recordings that have no segment.

        Recordings are removed from wav.scp, reco2file_and_channel and reco2dur. Lines of segments are cut to four
        fields. Without segments, nothing changes. Raise DataDirError if wav.scp is missing, segments is empty, or a
        line of segments has no recording.
        """
        stage, path = self.stage, self.stage.find("segments")
        if not path:
            return
        if not stage.find("wav.scp"):
            raise self.say.fail(f"{self.folder}/segments exists but not {self.folder}/wav.scp")
        if not stage.has_lines("segments"):
            self.say.write(f"Empty list of recordings (bad file {self.folder}/segments)?")
            raise self.say.fail("", _EMPTY, path)
        recordings = read_id_list(stage.find("wav.scp"))
        segments = [line for chunk in read_chunks(path) for line in _cut_lines_to_four_fields(chunk)]
        used_segments = []
        for line_number, line in enumerate(segments, 1):
            recording = get_field(line, 2)
            if not recording:
                make_refusal("Bad line without a recording", path)(line_number)
            if recording in recordings:
                used_segments.append(line)
        stage.write("segments", used_segments)
        if len(used_segments) != len(segments):
            counts = f"from {len(segments)} to {len(used_segments)} lines"
            self.say(f"filtered {self.folder}/segments {counts} based on filter recordings.")
        # Split fields like Perl and not like awk, because Kaldi's script reads these recordings with filter_scp.pl.
        recordings = set(sort_unique_values(stage.find("segments"), 2, awk=False))
        for name in ("wav.scp", "reco2file_and_channel", "reco2dur"):
            if stage.find(name):
                self.filter_file(recordings, name, "recordings")

    def make_spk2utt(self) -> list[bytes]:
        """Write spk2utt from utt2spk.

        Return the speakers in the order of their first lines. Raise DataDirError for a line without two fields.
        """
        refuse = make_refusal("Invalid line in utt2spk file", f"{self.folder}/utt2spk")
        self.stage.write("spk2utt", convert_to_spk2utt(read_chunks(self.stage.find("utt2spk")), refuse))
        return read_keys(self.stage.find("spk2utt"), awk=True)

    def filter_speakers(self) -> None:
        """Keep only the speakers that are listed in utt2spk and, if these files exist, in cmvn.scp and spk2gender.

        Write spk2utt, rewrite utt2spk in its order, and remove other speakers from every file that is keyed by speaker.
        """
        speakers = self.make_spk2utt()
        for name in ("cmvn.scp", "spk2gender"):
            if self.stage.find(name):
                listed_speakers = read_id_list(self.stage.find(name))
                common_speakers = [speaker for speaker in speakers if speaker in listed_speakers]
                if len(common_speakers) != len(speakers):
                    counts = f"filtered speakers from {len(speakers)} to {len(common_speakers)} lines"
                    self.say(f"{counts} based on filter {self.folder}/{name}.")
                    if not common_speakers:
                        self.emptying_file, self.was_empty = name, not self.stage.has_lines(name)
                speakers = common_speakers
        remaining_speakers = set(speakers)
        self.filter_file(remaining_speakers, "spk2utt", "speakers")
        refuse = make_refusal("Invalid line in spk2utt file", f"{self.folder}/spk2utt")
        self.stage.write("utt2spk", convert_to_utt2spk(read_chunks(self.stage.find("spk2utt")), refuse))
        for name in ("cmvn.scp", "spk2gender", *self.speaker_files):
            if self.stage.find(name):
                self.filter_file(remaining_speakers, name, "speakers")

    def filter_utterances(self) -> None:
        """Keep the utterances that are in all of utt2spk, feats.scp, text, segments, utt2lang, utt2dur and utt2num_frames.

        Files that do not exist are ignored. In utt2dur and utt2num_frames, the value must be above 0. Without segments,
        the utterances must also be in wav.scp. Other utterances are removed from every file that is keyed by utterance.

        Raise DataDirError if no utterance would be left, if a file is not sorted, or if the duration or number of
        frames of a segment that ends at -1 is not above 0.
        """
        stage = self.stage
        for name, by_speaker, message in _ORDERS:
            if stage.find(name):
                self.check_order(name, message, by_speaker=by_speaker)
        audio_files = [] if stage.find("segments") else ["wav.scp"]
        duration_files = ["reco2dur"] if stage.has_lines("reco2dur") and not stage.find("segments") else []
        utterances = read_keys(stage.find("utt2spk"), awk=True)
        count = len(utterances)
        for name in ("feats.scp", "text", "segments", "utt2lang", *audio_files, *MEASURED_FILES):
            path = stage.find(name)
            if path and utterances:
                self.emptying_file, self.was_empty = name, not stage.has_lines(name)
                self.check_open_ended_segments(name)
                listed = _read_keys_with_positive_values(path) if name in MEASURED_FILES else read_id_list(path)
                utterances = [utterance for utterance in utterances if utterance in listed]
        if not utterances:
            self.say.write("fix_data_dir.sh: no utterances remained: not proceeding further.")
            reason = _EMPTY if self.was_empty else _NONE_LEFT
            raise self.say.fail("", reason, f"{self.folder}/{self.emptying_file}")
        summary = (
            f"all {count} utterances." if len(utterances) == count else f"{len(utterances)} utterances out of {count}"
        )
        self.say.write(f"fix_data_dir.sh: kept {summary}")
        remaining = set(utterances)
        for name in (*FILES_BY_UTTERANCE.split(), *audio_files, *duration_files, *self.utterance_files):
            if stage.find(name):
                stage.back_up(name)
                self.filter_file(remaining, name)

    def check_open_ended_segments(self, name: str) -> None:
        """Raise DataDirError if the file ``name``, one of MEASURED_FILES, has no value above 0 for a segment that ends at -1."""
        path, segments = self.stage.find(name), self.stage.find("segments")
        bad_lines = list(find_bad_lines(path, has_positive_value)) if segments and name in MEASURED_FILES else []
        open_ended = find_open_ended_segments(segments) if bad_lines else set()
        for line_number, line in bad_lines:
            if get_field(line) in open_ended:
                raise DataDirError(_NEGATIVE, os.path.join(self.folder, name), line_number, get_field(line))

    def check_order(self, name: str, message: str, *, by_speaker: bool) -> None:
        """Check that the lines of the file ``name``, or with ``by_speaker`` the second fields of its lines, are sorted.

        If the order is wrong, print Kaldi's ``message``, and raise DataDirError.
        """
        path, previous = self.stage.find(name), b""
        for lines_before, chunk in number_chunks(read_chunks(path)):
            if by_speaker:
                values = get_column(chunk, 2)
            elif has_single_spaces(chunk) and not chunk.translate(None, _PRINTABLE) and is_sorted(path):
                return  # With printable text and single spaces, sorted keys imply sorted lines.
            else:
                values = chunk.removesuffix(b"\n").split(b"\n")
            pairs = zip([previous, *values], values, strict=False)
            for line_number, (value_before, value) in enumerate(pairs, lines_before + 1):
                if value < value_before:
                    for line_of_message in message.split("\n"):
                        self.say.write(line_of_message)
                    line = next(islice(read_lines(path), line_number - 1, None))
                    key, advice = get_field(line), "rename the utterance or its speaker"
                    if name == "utt2spk":
                        advice = advise_speaker_order(key, get_field(line, 2))
                    problem = f"is not in sorted order: {advice}"
                    raise self.say.fail("", problem, f"{self.folder}/{name}", key=key)
            previous = values[-1]


def _cut_lines_to_four_fields(chunk: bytes) -> list[bytes]:
    """Return the lines of a chunk of segments, cut to four fields with single spaces.

    Missing fields may become empty fields.
    """
    if has_single_spaces(chunk) and not any(get_column(chunk, 5)):
        return split_lines(chunk)
    return [b" ".join((split_fields(line, awk=True) + [b""] * 4)[:4]) + b"\n" for line in split_lines(chunk)]


def _read_keys_with_positive_values(path: str) -> set[bytes]:
    """Return the keys of the lines of a file that have two fields, a key and a value above 0."""
    bad_numbers = {line_number for line_number, _ in find_bad_lines(path, has_positive_value)}
    return {get_field(line) for line_number, line in enumerate(read_lines(path), 1) if line_number not in bad_numbers}


def write_filtered_lines(
    stage: Stage,
    source: str,
    name: str,
    keys: Container[bytes],
    first_lines: Iterable[bytes] = (),
    *,
    may_end_blank: bool = False,
) -> None:
    """Write the file ``name`` of a stage: ``first_lines``, then the lines of the file ``source`` whose key is in ``keys``.

    Raise DataDirError for a blank line in ``source``. With ``may_end_blank``, blank lines at its end only cause a
    warning.
    """

    def refuse_blank_line(number: int) -> None:
        """Raise DataDirError for line ``number``. With ``may_end_blank``, only warn if all later lines are blank."""
        if may_end_blank and not any(map(bytes.strip, islice(read_lines(source), number, None))):
            warn(f"{source}:{number}: blank lines at the end: remove them")
        else:
            make_refusal("Bad line without a key", source)(number)

    with stage.open_writer(name) as write:
        for line in first_lines:
            write(line)
        select_lines(keys, source, write, refuse=refuse_blank_line)
