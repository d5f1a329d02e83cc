"""The files that a dump writes, which are compared with those that it reads before anything is written."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from pathlib import Path

from io_ark.data_dir.stage import DATA_FILES
from io_ark.specifier import Rspecifier, name_of, parse_rspecifier
from io_ark.streams.unfinished import clear_directory, remove_unfinished
from io_ark.tables.overwriting import refuse_equal_files, refuse_replacing
from kaldi_compat.dump.configuration import conf_texts
from kaldi_compat.dump.errors import OutputError
from kaldi_compat.dump.files import check_place, in_bytes
from kaldi_compat.dump.inputs import SCRIPT, input_paths
from kaldi_compat.dump.options import BY_SPEAKER, FORMATS, OVERALL, PROCESS_CONF, Job, Layout
from kaldi_compat.dump.plan import DumpPlan
from kaldi_compat.dump.speed_perturb import split_speed
from kaldi_compat.dump.write import DURATIONS, FRAMES

BACKUP, CONF = ".backup", "conf"
FRAME_SHIFT, CMVN_SCRIPT, CMVN_ARCHIVE = "frame_shift", "cmvn.scp", "cmvn.ark"


def check_outputs(job: Job, plan: DumpPlan) -> None:
    """Raise an error if a file that the dump writes is one that it reads, or is written twice.

    Raises:
        ArkError: two files are one.
        OutputError: a file cannot be written, or a folder holds other files than this dump would write to it.
    """
    numbers = [shard.number for shard in plan.part(*job.options.part)]
    tables = list(tables_of_archives(job.layout, plan, numbers))
    written = [*tables, *outputs_in_log(job.layout, numbers), *outputs_in_data(job, plan)]
    # Other files of the directory, and the modules that an extractor has imported, are no less needed than inputs.
    kept = [name_of(path) for name in DATA_FILES if (path := job.layout.in_data(name)) not in written]
    kept += map(name_of, map(Path, plan.trial.files.values()))
    written += [Path(job.options.report)] if job.options.report else []
    refuse_equal_files(map(name_of, written))
    # A part of a job looks at fewer files, since every part does so for all lines.
    confs = plan.settings["confs"]
    same = {path for name, text in kept_confs(confs).items() if has_text(path := conf_path(job, name), text)}
    replaced = [name_of(path) for path in written if path not in same]
    refuse_replacing(replaced, [*_inputs(job, confs), *kept], every_line=not job.options.shard)
    for path in tables:
        check_place(path)
    _check_folders(job, plan, written)


def check_speed_outputs(job: Job, changed: Job) -> None:
    """Raise an error if the data directory of changed speeds, or its dump, would replace a file that the source needs.

    Args:
        job: the job on the source.
        changed: the job on the directory of changed speeds, which need not exist yet.
    """
    layout = changed.layout
    written = [*map(layout.in_data, (*DATA_FILES, *(f"{BACKUP}/{name}" for name in DATA_FILES)))]
    for folder, start in (layout.archives, f"raw_{layout.feature}_"), (layout.log, layout.log_stem):
        written += [path for path in folder.iterdir() if path.name.startswith(start)] if folder.is_dir() else []
    written += [Path(job.options.report)] if job.options.report else []
    refuse_replacing(map(name_of, written), _inputs(job, conf_texts(job)), every_line=not job.options.shard)


def tables_of_archives(layout: Layout, plan: DumpPlan, numbers: Iterable[int]) -> Iterator[Path]:
    """Yield the archives of these numbers and their script files."""
    for number, output in product(numbers, plan.trial.outputs):
        yield layout.archive(number, output)
        yield layout.script(number, output)


def outputs_in_log(layout: Layout, numbers: Iterable[int]) -> Iterator[Path]:
    """Yield the files that a dump writes to its directory of logs."""
    yield from (layout.plan, layout.lock, layout.failures)
    for number, name in product(numbers, ("json", "log", FRAMES, DURATIONS)):
        yield layout.of_archive(number, name)


def outputs_in_data(job: Job, plan: DumpPlan) -> Iterator[Path]:
    """Yield the files that a dump writes to the data directory, and tables of speakers."""
    layout, options, trial = job.layout, job.options, plan.trial
    for output in trial.outputs:
        yield layout.in_data(f"{output}.scp")
        yield layout.in_data(BACKUP) / f"{output}.scp"
        if options.format in FORMATS and not FORMATS[options.format].endswith("/") and FORMATS[options.format]:
            yield converted_path(layout, output, options.format)
    by_speaker = [f"spk_{output}" for output in trial.vectors if options.per_speaker]
    by_speaker += ["cmvn"] if BY_SPEAKER in options.cmvn_levels else []
    for name in by_speaker:
        yield layout.in_data(f"{name}.scp")
        yield from (layout.speaker_archive(name), layout.speaker_archive(name).with_suffix(".scp"))
    names = {
        FRAMES: options.write_utt2num_frames and trial.framed,
        DURATIONS: options.write_utt2dur,
        FRAME_SHIFT: True,
        CMVN_ARCHIVE: OVERALL in options.cmvn_levels,
    }
    yield from (layout.in_data(name) for name, is_written in names.items() if is_written)
    yield from (conf_path(job, name) for name in kept_confs(plan.settings["confs"]))


def kept_confs(confs: Mapping[str, str]) -> dict[str, str]:
    """Return the texts of the configuration that a dump keeps a copy of: those that Kaldi's scripts keep."""
    return {name: text for name, text in confs.items() if name != PROCESS_CONF}


def conf_path(job: Job, name: str) -> Path:
    """Return where a configuration file of the dump is kept: ``<data>/conf``, unless it was read from there."""
    path, source = job.layout.in_data(CONF) / name, job.conf_paths().get(name)
    if source is not None and path.exists() and source.exists() and path.samefile(source):
        return job.layout.log / f"{job.layout.log_stem}.{name}"
    return path


def has_text(path: Path, text: str) -> bool:
    """Return True if a file holds this text."""
    return path.is_file() and path.read_bytes() == in_bytes(text)


def converted_path(layout: Layout, output: str, wanted: str) -> Path:
    """Return the file or folder of an output in another format."""
    return Path(f"{layout.in_data(output)}{FORMATS[wanted]}")


def _inputs(job: Job, confs: Mapping[str, str]) -> Iterator[str | Rspecifier]:
    """Yield what a dump reads."""
    script = job.layout.in_data(SCRIPT)
    yield parse_rspecifier("scp:-")._replace(rxfilename=name_of(script))
    yield from map(name_of, input_paths(job, confs).values())
    yield from (name_of(path) for path in job.conf_paths().values() if path)
    with open(script, "rb") as lines:  # commands that change the speed are not run: their audio is read here
        for line in lines:
            if b" speed " in line:
                file, factor = split_speed(os.fsdecode(b"".join(line.split(None, 1)[1:]).strip()))
                if factor is not None:
                    yield file


def _check_folders(job: Job, plan: DumpPlan, written: Iterable[Path]) -> None:
    """Raise :class:`OutputError` if the folder of an output in another format is used for something else."""
    if not FORMATS[job.options.format].endswith("/"):
        return
    layout = job.layout
    others = [layout.log, layout.archives, layout.in_data(CONF), layout.in_data(BACKUP), *written]
    occupied = {os.path.realpath(place): place for other in others for place in (other, other.parent)}
    for output in plan.trial.outputs:
        folder = converted_path(layout, output, job.options.format)
        if place := occupied.get(os.path.realpath(folder)):
            raise OutputError(f"{folder}: the dump writes other files to {place}: choose another name than {output}")
        if folder.exists() and not folder.is_dir():
            raise OutputError(f"{folder} is not a folder: move it out of the way")
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            if path.suffix != ".npy" or (path.is_dir() and not path.is_symlink()):
                raise OutputError(f"{folder} holds {path.name}, which a dump does not write: move it out of the way")


def clear_all_unfinished(job: Job) -> int:
    """Remove the temporary files that killed dumps left beside this dump's files; return their number."""
    layout = job.layout
    folders = (layout.data, layout.log, layout.archives, *layout.archives.glob("storage/*"))
    places = {os.path.realpath(folder): folder for folder in folders}
    removed = sum(map(clear_directory, places.values()))
    removed += sum(remove_unfinished(layout.in_data(CONF) / name) for name in job.conf_paths())
    return removed + (remove_unfinished(Path(job.options.report)) if job.options.report else 0)
