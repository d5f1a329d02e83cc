"""Finalize a dump: write the files that Kaldi's make_*.sh scripts leave in the data directory."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import islice, pairwise, product
from pathlib import Path
from typing import Any

import numpy as np

import io_ark
from io_ark.codecs import codec
from io_ark.data_dir import decode_key
from io_ark.text import escape, format_count
from kaldi_compat.dump.errors import DumpError
from kaldi_compat.dump.files import encode_name, make_directory, open_whole_file, read_in_chunks, write_whole_file
from kaldi_compat.dump.inputs import UTT2SPK
from kaldi_compat.dump.model import MATRIX, Trial
from kaldi_compat.dump.options import BY_SPEAKER, FORMATS, OVERALL, Job, Layout
from kaldi_compat.dump.outputs import (
    BACKUP,
    CMVN_ARCHIVE,
    CONF,
    FRAME_SHIFT,
    get_conf_path,
    get_converted_path,
    has_text,
    select_copied_confs,
)
from kaldi_compat.dump.plan import DumpPlan
from kaldi_compat.dump.speakers import KEYS_PER_LOOKUP, read_values
from kaldi_compat.dump.user_code import end_fork
from kaldi_compat.dump.write import DURATIONS, FRAMES, Manifest, read_manifest
from kaldi_compat.errors import INTERRUPTED_STATUS
from kaldi_compat.exact.arrays import Doubles
from kaldi_compat.functional.block_cmvn import compute_statistics

_FRAME_SHIFT_FLAG = re.compile(r"^--frame[-_]shift=([^\s#]+)", re.M | re.I)
DEFAULT_FRAME_SHIFT = "0.01"


@dataclass(frozen=True)
class Outcome:
    """The result of a dump.

    Attributes:
        utterances: number of utterances with features.
        wanted: number of utterances in the data directory that should have features.
        failures: key and reason of each failed utterance.
        seconds: duration of the audio in seconds.
        work: busy seconds of each stage, seconds of "wall" time, and numbers of "uncompressed" and "empty" matrices,
            summed over the archives; the maximum of figures whose name starts with "peak".
        warnings: lines about the results for the user.
        statistics: CMVN statistics (2, dim + 1) of all utterances. None unless ``cmvn.ark`` or the report needs them.
        incomplete: files and folders of ``--format`` that could not be written, or lack entries.
    """

    utterances: int
    wanted: int
    failures: tuple[tuple[str, str], ...]
    seconds: float
    work: dict[str, float]
    warnings: tuple[str, ...] = ()
    statistics: Doubles | None = None
    incomplete: tuple[str, ...] = ()

    @property
    def good_enough(self) -> bool:
        """True if at most 5% of the utterances, rounded down as in Kaldi's scripts, lack features."""
        return self.utterances >= self.wanted - self.wanted // 20

    @property
    def bound(self) -> str:
        """The stage that was busy for the longest time: "read", "compute" or "write"."""
        return max(("read", "compute", "write"), key=lambda stage: self.work.get(stage, 0.0))


def prepare_directories(layout: Layout, plan: DumpPlan) -> None:
    """Prepare the directories for new archives.

    Delete the manifests, logs, lists of failures, and lists of lengths that older dumps of the same feature and data
    directory have left. Move the script files of the outputs into the backup folder of the data directory.
    """
    make_directory(layout.log)
    for output in plan.trial.outputs:
        if (script := layout.data / f"{output}.scp").is_file():
            make_directory(layout.data / BACKUP)
            script.replace(layout.data / BACKUP / script.name)
    file_of_archive = re.compile(rf"{re.escape(layout.log_stem)}\.([0-9]+\.(json|log|{FRAMES}|{DURATIONS})|failures)")
    for path in layout.log.iterdir():
        if file_of_archive.fullmatch(path.name) and not (path.is_dir() and not path.is_symlink()):
            path.unlink()
    prepare_archives(layout, plan.trial, [shard.number for shard in plan.shards])


def prepare_archives(layout: Layout, trial: Trial, shard_numbers: Iterable[int]) -> None:
    """Create the directory of the archives. If it contains ``storage``, link the archives of the shards there."""
    make_directory(layout.archives)
    storage = layout.archives / "storage"
    if storage.is_dir():
        for number, output in product(shard_numbers, trial.outputs):
            link_to_storage(layout.get_archive(number, output), storage)


def link_to_storage(archive: Path, storage: Path) -> None:
    """Replace an archive with a link to a file on the disk that ``utils/create_data_link.pl`` would choose.

    The disks are the directories 1, 2, 3 and so on in ``storage``. Without such directories, do nothing.

    Raises:
        DumpError: the directories in ``storage`` are not numbered from 1 without gaps.
    """
    disk_count = sum(entry.name.isdigit() for entry in storage.iterdir())
    for number in range(1, disk_count + 1):
        if not (storage / str(number)).is_dir():
            raise DumpError(
                f"{storage / str(number)} is missing: number the directories of {storage} from 1 without gaps"
            )
    if disk_count == 0:
        return
    # As in Kaldi's script, the numbers in the archive's name select the disk, with factors coprime to the disk count.
    factors = [factor for factor in range(1, disk_count + 1) if np.gcd(factor, disk_count) == 1]
    numbers = [int(digits) for digits in re.findall(r"[0-9]+", archive.name)]
    disk = sum(number * factors[i % len(factors)] for i, number in enumerate(numbers)) % disk_count + 1
    archive.unlink(missing_ok=True)
    archive.symlink_to(Path("storage") / str(disk) / archive.name)


def finalize_dump(job: Job, plan: DumpPlan) -> Outcome:
    """Write the files of the data directory from the complete archives, and return the outcome of the dump.

    A repeated call writes the same files again.

    Raises:
        DumpError: an archive is not complete, or a file cannot be written.
    """
    end_fork()  # A fork of this process in the user's code must not write the files.
    layout, trial = job.layout, plan.trial
    for output in trial.outputs:
        scripts = [layout.get_script(shard.number, output) for shard in plan.shards]
        _join_files(scripts, layout.data / f"{output}.scp")
    with_frames = job.options.write_utt2num_frames and bool(trial.framed)
    for name, is_requested in ((FRAMES, with_frames), (DURATIONS, job.options.write_utt2dur)):
        if is_requested:
            _join_files([layout.get_file_of_archive(shard.number, name) for shard in plan.shards], layout.data / name)
    if shift := get_frame_shift(plan):
        write_whole_file(layout.data / FRAME_SHIFT, shift + "\n")
    warnings = write_confs(job, plan)
    needs_total = OVERALL in job.options.cmvn_levels or (job.options.report and trial.outputs[trial.first][0] == MATRIX)
    every_matrix = io_ark.load_scp(f"{layout.data / trial.first}.scp").values() if needs_total else ()
    total: Doubles | None = reduce(add_frames, every_matrix, None)
    warnings += write_cmvn(job, trial.first, total)
    if job.options.per_speaker:
        for output in trial.vectors:
            write_speaker_means(job, output)
    formats = trial.outputs if job.options.format != "ark" else ()
    incomplete = [path for output in formats if (path := convert_output(layout, output, job.options.format))]
    outcome = compute_outcome(job, plan)
    if outcome.wanted > plan.count:
        speakers, listing = layout.data / UTT2SPK, layout.data / plan.listing
        warnings.append(
            f"{speakers} lists {outcome.wanted} utterances, but {listing} lists {plan.count}: add the missing "
            f"utterances to {listing}, or remove them from {UTT2SPK}"
        )
    outcome = replace(outcome, warnings=tuple(warnings), statistics=total, incomplete=tuple(incomplete))
    write_whole_file(layout.failures, "".join(f"{escape(key)} {reason}\n" for key, reason in outcome.failures))
    return outcome


def write_confs(job: Job, plan: DumpPlan) -> list[str]:
    """Copy the configuration files that :func:`select_copied_confs` selects to ``<data>/conf``.

    A file in ``<data>/conf`` that this dump has read is not replaced. If options of the command line change its text,
    the new text is written to the log directory.

    Returns:
        a warning for each text that is written to the log directory.
    """
    warnings = []
    for name, text in select_copied_confs(plan.settings["confs"]).items():
        path, path_in_data = get_conf_path(job, name), job.layout.data / CONF / name
        if path != path_in_data and has_text(path_in_data, text):
            continue
        if path != path_in_data:
            reason = f"{path_in_data} was read, so it is not replaced"
            warnings.append(f"{reason}: the configuration of this dump is in {path}")
        if not has_text(path, text):
            make_directory(path.parent)
            write_whole_file(path, text)
    return warnings


def compute_outcome(job: Job, plan: DumpPlan) -> Outcome:
    """Return the outcome from the manifests of all archives, without warnings, statistics and incomplete files."""
    utterances, seconds = 0, 0.0
    failures: list[tuple[str, str]] = []
    work: dict[str, float] = {}
    for manifest in _read_manifests(job.layout, plan):
        utterances, seconds = utterances + manifest.utterances, seconds + manifest.seconds
        failures += [(key, reason) for key, reason in manifest.failures]
        for name, value in manifest.work.items():
            work[name] = max(work.get(name, 0.0), value) if name.startswith("peak") else work.get(name, 0.0) + value
    return Outcome(utterances, _count_utterances(job, plan), failures=tuple(failures), seconds=seconds, work=work)


def _count_utterances(job: Job, plan: DumpPlan) -> int:
    """Return how many utterances should have features: the number in the plan or in utt2spk, whichever is larger."""
    path = job.layout.data / UTT2SPK
    if not path.is_file():
        return plan.count
    # Kaldi's scripts count the lines of utt2spk, which utils/validate_data_dir.sh has compared with wav.scp before.
    with open(path, "rb") as file:
        return max(plan.count, sum(1 for line in file if not line.isspace()))


def format_frame_shift(conf: str) -> str:
    """Return the frame shift, in seconds, of the configuration file with the text ``conf``: "0.0125" for 12.5 ms.

    If the file does not set it, return Kaldi's default. Kaldi's scripts would cut off fractions of a millisecond.
    """
    values = _FRAME_SHIFT_FLAG.findall(conf)
    if not values:
        return DEFAULT_FRAME_SHIFT
    milliseconds = float(values[-1])
    return f"{0.001 * milliseconds:.3f}" if milliseconds.is_integer() else f"{0.001 * milliseconds:g}"


def get_frame_shift(plan: DumpPlan) -> str:
    """Return the frame shift in seconds, as text, or "" if the outputs have no frames or no constant frame shift."""
    if confs := list(plan.settings["confs"].values()):  # Extractors have no configuration files.
        return format_frame_shift(confs[0])  # The first file is the main configuration.
    return f"{plan.trial.frame_shift:g}" if plan.trial.framed and plan.trial.frame_shift else ""


def write_speaker_means(job: Job, output: str) -> None:
    """Write the mean vector of each speaker in an output to an archive, which ``<data>/spk_<output>.scp`` lists."""

    def add_vector(total: Doubles | None, vector: Any) -> Doubles:
        """Add a vector (dim,) to ``total`` (dim + 1,), whose last element counts the vectors. None means zero."""
        summand = np.append(np.asarray(vector, np.float64), 1.0)
        return summand if total is None else total + summand

    means = (
        (speaker, (total[:-1] / total[-1]).astype(np.float32))
        for speaker, total in sum_by_speaker(job, output, add_vector)
    )
    _write_table(job.layout, f"spk_{output}", "vector", means)


def _write_table(layout: Layout, name: str, codec_name: str, entries: Iterable[tuple[str, Any]]) -> None:
    """Write ``entries``, pairs of speaker and value, to an archive, and its script file to ``<data>/<name>.scp``."""
    archive, codec_of_value = layout.get_speaker_archive(name), codec(codec_name)
    script = archive.with_suffix(".scp")
    with open_whole_file(script) as lines, open_whole_file(archive) as file:
        for speaker, value in entries:
            file.write(encode_name(f"{speaker} "))
            lines.write(encode_name(f"{speaker} {archive}:{file.tell()}\n"))
            codec_of_value.write(file, value, binary=True)
    _join_files([script], layout.data / f"{name}.scp")


def convert_output(layout: Layout, output: str, format_name: str) -> str:
    """Convert an output to the format ``format_name`` with ``ark convert``, unless it has no entries.

    Return the name of the target if it is incomplete, otherwise "". Raise KeyboardInterrupt after an interruption.
    """
    from io_ark.cli.ark import main

    script, path = layout.data / f"{output}.scp", get_converted_path(layout, output, format_name)
    target = f"{path}/" if FORMATS[format_name].endswith("/") else str(path)
    status = main(["convert", str(script), target]) if script.stat().st_size else 0
    if status == INTERRUPTED_STATUS:
        raise KeyboardInterrupt
    return target if status else ""


def _read_manifests(layout: Layout, plan: DumpPlan) -> Iterator[Manifest]:
    """Yield the manifests of all archives of a plan. Raise :class:`DumpError` for an archive that is not complete."""
    for shard in plan.shards:
        manifest = read_manifest(layout, shard.number)
        if manifest is None:
            raise DumpError(f"{layout.get_archive(shard.number)} is not complete: run the job again with --resume")
        yield manifest


def _join_files(sources: Sequence[Path], target: Path) -> None:
    """Write the contents of the files ``sources``, one after another, to the file ``target``."""
    with open_whole_file(target) as out:
        for source in sources:
            for chunk in read_in_chunks(source):
                out.write(chunk)


def write_cmvn(job: Job, output: str, total: Doubles | None) -> list[str]:
    """Write the requested CMVN statistics of an output, as compute-cmvn-stats writes them, and return warnings.

    ``total`` has the CMVN statistics (2, dim + 1) of all utterances. It is None if they are not needed, or if no
    utterance has a frame.
    """
    nonfinite_speakers: list[str] = []

    def sum_speakers() -> Iterator[tuple[str, Doubles]]:
        """Yield the statistics of each speaker, and note the speakers whose statistics are not finite."""
        for speaker, sums in sum_by_speaker(job, output, add_frames):
            if not np.isfinite(sums).all():
                nonfinite_speakers.append(speaker)
            yield speaker, sums

    if BY_SPEAKER in job.options.cmvn_levels:
        _write_table(job.layout, "cmvn", "double-matrix", sum_speakers())
    warnings = []
    if nonfinite_speakers:
        speakers = format_count(len(nonfinite_speakers), "speaker")
        warnings.append(f"the CMVN statistics of {speakers} have NaN or infinities (first: {nonfinite_speakers[0]})")
    if OVERALL in job.options.cmvn_levels and total is not None:
        with open_whole_file(job.layout.data / CMVN_ARCHIVE) as file:
            codec("matrix").write(file, total.astype(np.float32), binary=True)
        if not np.isfinite(total).all():
            warnings.append("the global CMVN statistics have NaN or infinities, because some features have them")
    return warnings


def add_frames(total: Doubles | None, features: Any) -> Doubles | None:
    """Accumulate features (frames, dim), frame by frame as in Kaldi, onto the CMVN statistics ``total`` (2, dim + 1).

    ``total`` is None before the first frame. Return the new statistics, or None if there is still no frame.
    """
    if not len(features):
        return total
    onto = np.zeros((2, features.shape[1] + 1)) if total is None else total
    frames = np.ascontiguousarray(features, np.float32)
    sums: Doubles = compute_statistics(frames, np.array([0, len(frames)]), onto=onto[None])[0]
    return sums


def sum_by_speaker(
    job: Job, output: str, add: Callable[[Doubles | None, Any], Doubles | None]
) -> Iterator[tuple[str, Doubles]]:
    """Yield each speaker and the sum of the speaker's arrays in an output, in the order of ``LC_ALL=C sort``.

    ``add`` adds an array to a sum and returns the new sum. None stands for the sum before the first array. Speakers
    whose sum remains None are left out. If the utterances are sorted by speaker, one sum is in memory at a time.
    Otherwise, the sums of all speakers are in memory.
    """
    table = io_ark.load_scp(f"{job.layout.data / output}.scp")

    def find_speakers() -> Iterator[tuple[str, str]]:
        """Yield the speaker and the key of each utterance, in the order of the script file."""
        keys = iter(table)
        while chunk := list(islice(keys, KEYS_PER_LOOKUP)):
            speakers = read_values(job.layout.data / UTT2SPK, map(encode_name, chunk))
            yield from ((decode_key(speakers[encode_name(key)]), key) for key in chunk)

    pairs = pairwise(find_speakers())
    is_sorted = all(encode_name(speaker) <= encode_name(next_speaker) for (speaker, _), (next_speaker, _) in pairs)
    totals: dict[str, Doubles] = {}
    for speaker, key in find_speakers():
        if is_sorted and speaker not in totals:
            yield from totals.items()
            totals = {}
        if (total := add(totals.get(speaker), table[key])) is not None:
            totals[speaker] = total
    yield from sorted(totals.items(), key=lambda item: encode_name(item[0]))
