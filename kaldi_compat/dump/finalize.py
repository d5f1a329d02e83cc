"""Finalize a dump: leave the files in the data directory that Kaldi's make_*.sh scripts leave."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import islice, pairwise, product
from pathlib import Path
from typing import Any

import numpy as np

import io_ark
from io_ark.codecs import codec
from io_ark.tables.overwriting import refuse_overwriting
from kaldi_compat.dump.errors import DumpError
from kaldi_compat.dump.files import (
    chunks_of,
    clear_directory,
    in_bytes,
    make_directory,
    remove_unfinished,
    whole_file,
    write_whole,
)
from kaldi_compat.dump.inputs import SCRIPT, UTT2SPK, input_paths
from kaldi_compat.dump.model import MATRIX, Trial
from kaldi_compat.dump.options import BY_SPEAKER, FORMATS, OVERALL, PROCESS_CONF, Job, Layout
from kaldi_compat.dump.plan import DumpPlan
from kaldi_compat.dump.speakers import KEYS_AT_ONCE, speakers_of
from kaldi_compat.dump.write import DURATIONS, FRAMES, Manifest, read_manifest
from kaldi_compat.exact.arrays import Doubles
from kaldi_compat.functional.block_cmvn import statistics

FRAME_SHIFT = re.compile(r"^--frame[-_]shift=([^\s#]+)", re.M | re.I)
DEFAULT_FRAME_SHIFT = "0.01"
# Files that are written to the data directory, besides those in conf.
IN_DATA = ("feats.scp", FRAMES, DURATIONS, "frame_shift", "cmvn.scp", "cmvn.ark")


@dataclass(frozen=True)
class Outcome:
    """The result of a dump.

    Attributes:
        utterances: number of utterances with features.
        wanted: number of utterances that should have them.
        failures: key and reason of those that failed.
        seconds: of audio.
        work: busy seconds of each stage, "wall" and "uncompressed" matrices, summed over the archives; peaks are the
            largest.
        warnings: lines about the results that the user should know.
        statistics: CMVN statistics of all utterances, (2, dim + 1), if ``cmvn.ark`` or the report needs them.
    """

    utterances: int
    wanted: int
    failures: tuple[tuple[str, str], ...]
    seconds: float
    work: dict[str, float]
    warnings: tuple[str, ...] = ()
    statistics: Doubles | None = None

    @property
    def good_enough(self) -> bool:
        """True if at least 95% have features, counted as Kaldi's scripts count."""
        return self.utterances >= self.wanted - self.wanted // 20

    @property
    def bound(self) -> str:
        """The stage that was busy for the greatest share of the time."""
        return max(("read", "compute", "write"), key=lambda stage: self.work.get(stage, 0.0))


def clear_all_unfinished(job: Job) -> None:
    """Remove the temporary files that killed dumps left beside this dump's files, whatever they were doing."""
    layout = job.layout
    for directory in (layout.log, layout.data, layout.archives, *layout.archives.glob("storage/*")):
        clear_directory(directory)
    for name in IN_DATA:  # which may be links to other places
        remove_unfinished(layout.in_data(name))
    for name in job.conf_paths():
        remove_unfinished(layout.in_data("conf") / name)
    if job.options.report:
        remove_unfinished(Path(job.options.report))


def check_outputs(job: Job, confs: Mapping[str, str]) -> None:
    """Raise :class:`ArkError` if a file that the dump writes is one that it reads.

    Args:
        job: the job.
        confs: texts of the configuration, which are written to the data directory.
    """
    layout = job.layout
    inputs = [str(path) for path in input_paths(job, confs).values()]
    inputs += [str(path) for path in job.conf_paths().values() if path]
    outputs = [layout.in_data(name) for name in IN_DATA]
    outputs += [path for name, text in confs.items() if not _holds(path := layout.in_data("conf") / name, text)]
    outputs += [Path(job.options.report)] if job.options.report else []
    for path in outputs:
        refuse_overwriting(str(path), [f"scp:{layout.in_data(SCRIPT)}", *inputs])


def _holds(path: Path, text: str) -> bool:
    return path.is_file() and path.read_bytes() == in_bytes(text)


def start_over(layout: Layout, plan: DumpPlan) -> None:
    """Prepare the directories for new archives: remove traces of older dumps, keep the old ``feats.scp`` as backup."""
    make_directory(layout.log)
    for output in plan.trial.outputs:
        if (script := layout.in_data(f"{output}.scp")).is_file():
            make_directory(layout.in_data(".backup"))
            script.replace(layout.in_data(".backup") / script.name)
    stem = layout.log_stem
    kinds = ("json", "log", FRAMES, DURATIONS)
    for pattern in (*(f"{stem}.*.{kind}" for kind in kinds), f"{stem}.failures"):
        for old in layout.log.glob(pattern):
            old.unlink()
    prepare_archives(layout, plan.trial, [shard.number for shard in plan.shards])


def prepare_archives(layout: Layout, trial: Trial, numbers: Iterable[int]) -> None:
    """Make the directory of the archives, and link these archives, which are to be made, to its ``storage``."""
    make_directory(layout.archives)
    storage = layout.archives / "storage"
    if storage.is_dir():
        for number, output in product(numbers, trial.outputs):
            link_to_storage(layout.archive(number, output), storage)


def link_to_storage(archive: Path, storage: Path) -> None:
    """Link an archive to one of the disks in ``storage``, chosen as ``utils/create_data_link.pl`` does."""
    disks = sum(entry.name.isdigit() for entry in storage.iterdir())
    for number in range(1, disks + 1):
        if not (storage / str(number)).is_dir():
            raise DumpError(f"{storage / str(number)} is missing: the directories of {storage} are numbered from 1")
    if disks == 0:
        return
    factors = [n for n in range(1, disks + 1) if np.gcd(n, disks) == 1]
    numbers = [int(digits) for digits in re.findall(r"[0-9]+", archive.name)]
    chosen = sum(number * factors[i % len(factors)] for i, number in enumerate(numbers)) % disks + 1
    archive.unlink(missing_ok=True)
    archive.symlink_to(Path("storage") / str(chosen) / archive.name)


def finalize(job: Job, plan: DumpPlan) -> Outcome:
    """Write the files of the data directory from the archives' manifests. Repeating it does no harm.

    Raises:
        DumpError: an archive is not complete.
    """
    layout, trial = job.layout, plan.trial
    for output in trial.outputs:
        scripts = [layout.script(shard.number, output) for shard in plan.shards]
        _concatenate(scripts, layout.in_data(f"{output}.scp"))
    with_frames = job.options.write_utt2num_frames and bool(trial.framed)
    for name, is_wanted in ((FRAMES, with_frames), (DURATIONS, job.options.write_utt2dur)):
        if is_wanted:
            _concatenate([layout.of_archive(shard.number, name) for shard in plan.shards], layout.in_data(name))
    confs = plan.settings["confs"]
    if shift := shift_of(plan):
        write_whole(layout.in_data("frame_shift"), shift + "\n")
    if confs:
        make_directory(layout.in_data("conf"))
    # The script keeps no copy of how pitch is processed.
    for name in [name for name in confs if name != PROCESS_CONF]:
        target = layout.in_data("conf") / name
        if not _holds(target, confs[name]):
            write_whole(target, confs[name])
    needs_total = OVERALL in job.options.cmvn_levels or (job.options.report and trial.outputs[trial.first][0] == MATRIX)
    total = statistics_of_all(job, trial.first) if needs_total else None
    warnings = write_cmvn(job, trial.first, total)
    if job.options.per_speaker:
        for output in trial.vectors:
            write_speaker_means(job, output)
    incomplete = [converted(layout, output, job.options.format)
                  for output in (trial.outputs if job.options.format != "ark" else ())]  # fmt: skip
    outcome = outcome_of(job, plan)
    if outcome.wanted > plan.count:
        speakers, listing = layout.in_data(UTT2SPK), layout.in_data(plan.listing)
        warnings.append(
            f"{speakers} lists {outcome.wanted} utterances, but {listing} {plan.count}: add the others there, or "
            f"remove them from {UTT2SPK}"
        )
    outcome = replace(outcome, warnings=tuple(warnings), statistics=total)
    write_whole(layout.failures, "".join(f"{key} {reason}\n" for key, reason in outcome.failures))
    if targets := [target for target in incomplete if target]:
        raise DumpError(f"{targets[0]} is not complete: see above; all other files of the dump are")
    return outcome


def outcome_of(job: Job, plan: DumpPlan) -> Outcome:
    """Sum up the manifests of all archives."""
    done, seconds = 0, 0.0
    failures: list[tuple[str, str]] = []
    work: dict[str, float] = {}
    for manifest in _manifests(job.layout, plan):
        done, seconds = done + manifest.utterances, seconds + manifest.seconds
        failures += [(key, reason) for key, reason in manifest.failures]
        for name, value in manifest.work.items():
            work[name] = max(work.get(name, 0.0), value) if name.startswith("peak") else work.get(name, 0.0) + value
    return Outcome(done, _wanted(job, plan), tuple(failures), seconds, work)


def _wanted(job: Job, plan: DumpPlan) -> int:
    path = job.layout.in_data(UTT2SPK)
    if not path.is_file():
        return plan.count
    # Kaldi's scripts count utt2spk, after utils/validate_data_dir.sh saw to it that it lists the same utterances.
    with open(path, "rb") as file:
        return max(plan.count, sum(1 for line in file))


def frame_shift(conf: str) -> str:
    """Return the content of ``<data>/frame_shift`` in seconds, for the text of a configuration file.

    It is what Kaldi's scripts write, except for fractions of a millisecond, which they cut off.

    >>> frame_shift("--num-mel-bins=80"), frame_shift("--frame-shift=10"), frame_shift("--frame-shift=12.5")
    ('0.01', '0.010', '0.0125')
    """
    found = FRAME_SHIFT.findall(conf)
    if not found:
        return DEFAULT_FRAME_SHIFT
    milliseconds = float(found[-1])
    return f"{0.001 * milliseconds:.3f}" if milliseconds.is_integer() else f"{0.001 * milliseconds:g}"


def shift_of(plan: DumpPlan) -> str:
    """Return the content of ``<data>/frame_shift``; "" if the outputs have no frames, or no constant shift."""
    for conf in plan.settings["confs"].values():
        return frame_shift(conf)
    return f"{plan.trial.frame_shift:g}" if plan.trial.framed and plan.trial.frame_shift else ""


def write_speaker_means(job: Job, output: str) -> None:
    """Write the mean vector of each speaker to ``spk_<output>.scp``."""

    def add(total: Doubles | None, vector: Any) -> Doubles:
        summand = np.append(np.asarray(vector, np.float64), 1.0)
        return summand if total is None else total + summand

    means = ((speaker, (total[:-1] / total[-1]).astype(np.float32)) for speaker, total in by_speaker(job, output, add))
    _write_table(job.layout, f"spk_{output}", "vector", means)


def _write_table(layout: Layout, name: str, kind: str, entries: Iterable[tuple[str, Any]]) -> None:
    """Write an archive of all speakers, and its script file to the data directory."""
    archive, writer = layout.archives / f"{name}_{layout.name}.ark", codec(kind)
    script = archive.with_suffix(".scp")
    with whole_file(script) as lines, whole_file(archive) as file:
        for speaker, value in entries:
            file.write(in_bytes(f"{speaker} "))
            lines.write(in_bytes(f"{speaker} {archive}:{file.tell()}\n"))
            writer.write(file, value, binary=True)
    _concatenate([script], layout.in_data(f"{name}.scp"))


def converted(layout: Layout, output: str, wanted: str) -> str:
    """Write an output in another format as well, as ``ark convert`` does; return the target if it is not complete."""
    from io_ark.cli.ark import main

    source, target = layout.in_data(f"{output}.scp"), f"{layout.in_data(output)}{FORMATS[wanted]}"
    if source.stat().st_size and main(["convert", str(source), target]):
        return target
    return ""


def _manifests(layout: Layout, plan: DumpPlan) -> Iterator[Manifest]:
    for shard in plan.shards:
        manifest = read_manifest(layout, shard.number)
        if manifest is None:
            raise DumpError(f"{layout.archive(shard.number)} is not complete: finish it with --resume")
        yield manifest


def _concatenate(sources: Sequence[Path], target: Path) -> None:
    with whole_file(target) as out:
        for source in sources:
            for chunk in chunks_of(source):
                out.write(chunk)


def write_cmvn(job: Job, output: str, total: Doubles | None) -> list[str]:
    """Write what compute-cmvn-stats makes of an output: cmvn.scp by speaker, and cmvn.ark over all.

    Args:
        job: the job, whose options say which of them.
        output: name of the output.
        total: its statistics over all; None if there are no frames.

    Returns:
        warnings.
    """
    spoilt: list[str] = []

    def speakers() -> Iterator[tuple[str, Doubles]]:
        for speaker, sums in by_speaker(job, output, with_frames):
            spoilt.extend([] if np.isfinite(sums).all() else [speaker])
            yield speaker, sums

    if BY_SPEAKER in job.options.cmvn_levels:
        _write_table(job.layout, "cmvn", "double-matrix", speakers())
    warnings = [f"the CMVN statistics of {len(spoilt)} speakers have NaN or infinities: {spoilt[0]}"] if spoilt else []
    if OVERALL in job.options.cmvn_levels and total is not None:
        with whole_file(job.layout.in_data("cmvn.ark")) as file:
            codec("matrix").write(file, total.astype(np.float32), binary=True)
        if not np.isfinite(total).all():
            warnings.append("the global CMVN statistics have NaN or infinities, as features do")
    return warnings


def with_frames(total: Doubles | None, features: Any) -> Doubles | None:
    """Add CMVN statistics of features (frames, dim) frame by frame, as Kaldi does."""
    if not len(features):
        return total
    onto = np.zeros((2, features.shape[1] + 1)) if total is None else total
    frames = np.ascontiguousarray(features, np.float32)
    found: Doubles = statistics(frames, np.array([0, len(frames)]), onto=onto[None])[0]
    return found


def statistics_of_all(job: Job, output: str) -> Doubles | None:
    """Return the CMVN statistics of all utterances of an output; None if there are no frames."""
    return reduce(with_frames, io_ark.load_scp(f"{job.layout.in_data(output)}.scp").values(), None)


def by_speaker(
    job: Job, output: str, add: Callable[[Doubles | None, Any], Doubles | None]
) -> Iterator[tuple[str, Doubles]]:
    """Yield each speaker's sum over the arrays of an output, in the order of ``LC_ALL=C sort``.

    If the utterances come in that order, as those of sorted lists do, one sum is held at a time; otherwise one per
    speaker.

    Args:
        job: the job.
        output: name of the output.
        add: returns a sum with an array added; the sum is None before the first one.
    """
    table = io_ark.load_scp(f"{job.layout.in_data(output)}.scp")

    def entries() -> Iterator[tuple[str, str]]:
        keys = iter(table)
        while chunk := list(islice(keys, KEYS_AT_ONCE)):
            speakers = speakers_of(job, map(in_bytes, chunk))
            yield from ((speakers[key], key) for key in chunk)

    in_order = all(in_bytes(one) <= in_bytes(following) for (one, _), (following, _) in pairwise(entries()))
    totals: dict[str, Doubles] = {}
    for speaker, key in entries():
        if in_order and speaker not in totals:
            yield from totals.items()
            totals = {}
        if (total := add(totals.get(speaker), table[key])) is not None:
            totals[speaker] = total
    yield from sorted(totals.items(), key=lambda each: in_bytes(each[0]))
