"""Report about a dump (``--report``): one self-contained HTML file, for light and dark screens of any width."""

from __future__ import annotations

import heapq
import html
import shlex
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

import io_ark
from io_ark.errors import ArkError, hide_secrets
from io_ark.text import escape_controls, format_count
from kaldi_compat import __version__
from kaldi_compat.dump.errors import group_by_reason
from kaldi_compat.dump.files import write_whole_file
from kaldi_compat.dump.finalize import Outcome, get_frame_shift
from kaldi_compat.dump.options import Job
from kaldi_compat.dump.plan import DumpPlan
from kaldi_compat.dump.progress import HOUR, Monitor
from kaldi_compat.dump.report_audio import inspect_audio
from kaldi_compat.dump.report_charts import draw_bars, draw_curve, draw_features, draw_histogram
from kaldi_compat.dump.write import DURATIONS
from kaldi_compat.functional.cmvn import compute_mean_and_variance

# Limits of the page, in this order: figures of an output, bins of a histogram, listed failures, listed anomalies,
# frames in a figure, listed longest utterances, and listed shortest utterances.
MAX_FIGURES, BINS, MAX_FAILURES, MAX_ANOMALIES, MAX_FRAMES, MAX_EXTREMES = 4, 30, 1000, 50, 1200, 3

PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>{title}</title>
<style>
:root {{ --ink: #1c1e21; --paper: #fff; --soft: #5b6168; --line: #d5d9de; --mark: #1a5fa8; --well: #f3f4f6; }}
@media (prefers-color-scheme: dark) {{
  :root {{ --ink: #e4e6e9; --paper: #15181b; --soft: #a4abb3; --line: #3a4047; --mark: #79b4f2; --well: #20252a; }}
}}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 56rem; margin: 1.5rem auto; padding: 0 1rem;
  color: var(--ink); background: var(--paper); overflow-wrap: anywhere; }}
h1 {{ font-size: 1.5rem; }} h2 {{ font-size: 1.15rem; margin-top: 2.2rem; }}
table {{ border-collapse: collapse; width: 100%; }}
td, th {{ padding: .25rem .8rem .25rem 0; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--line); }}
td.number {{ text-align: right; white-space: nowrap; }} td.wide {{ width: 60%; vertical-align: middle; }}
div.bar {{ height: .8rem; min-width: 1px; background: var(--mark); }}
pre {{ background: var(--well); padding: .8rem; overflow-x: auto; }}
svg {{ width: 100%; height: auto; display: block; }}
svg text {{ font-size: 12px; fill: var(--soft); }} svg text.name {{ font-size: 13px; fill: var(--ink); }}
svg .grid {{ stroke: var(--line); stroke-width: 1; }} svg .axis {{ fill: none; stroke: var(--soft); }}
svg .line {{ fill: none; stroke: var(--mark); stroke-width: 2; }} svg rect.bar {{ fill: var(--mark); }}
.legend span {{ display: inline-block; margin-right: 1.5rem; color: var(--soft); }}
svg.key {{ width: 30px; height: 8px; display: inline-block; vertical-align: middle; }}
figure {{ margin: 1rem 0; }} figcaption, .note {{ color: var(--soft); }} details {{ margin: .4rem 0; }}
summary {{ cursor: pointer; }}
@media (max-width: 40rem) {{
  svg text {{ font-size: 19px; }} svg text.name {{ font-size: 20px; }} td.wide {{ width: 35%; }}
}}
</style></head><body>
<h1>{title}</h1>
{body}
</body></html>
"""


def write_report(job: Job, plan: DumpPlan, outcome: Outcome, monitor: Monitor) -> None:
    """Write the HTML page of a finished dump to the file ``--report``."""
    title = f"{job.feature} features of {job.layout.name}"
    body = "\n".join(
        f"<h2>{html.escape(name)}</h2>\n{content}"
        for name, content in draw_sections(job, plan, outcome, monitor)
        if content
    )
    page = PAGE.format(title=html.escape(title), body=body)
    write_whole_file(Path(job.options.report), escape_controls(page.replace("\t", " ")), follow=True)


def draw_sections(job: Job, plan: DumpPlan, outcome: Outcome, monitor: Monitor) -> Iterable[tuple[str, str]]:
    """Yield the heading and the HTML of each section of the page. The HTML of a section without content is ""."""
    results = [
        ("utterances with features", f"{outcome.utterances} of {outcome.wanted}"),
        ("hours of audio", f"{outcome.seconds / HOUR:.2f}"),
        ("failures", str(len(outcome.failures))),
        ("archives", f"{len(plan.shards)}, {_describe_sizes(job, plan)}"),
        ("this run", monitor.summarize(outcome.bound)),
        ("made", f"{time.strftime('%Y-%m-%d %H:%M:%S %z')} by kaldi-compat {__version__}"),
        ("command line", hide_secrets(shlex.join(sys.argv))),
    ]
    yield "Result", draw_table([*results, *(("warning", warning) for warning in outcome.warnings)])
    yield "Failures by reason", draw_failure_groups(outcome.failures)
    yield from _draw_audio_sections(job)
    stages = [(stage, outcome.work.get(stage, 0.0)) for stage in ("read", "compute", "write")]
    yield "Busy time of each stage, summed over all archives", draw_bars(stages, "s")
    if len(monitor.speed_points) > 2:
        times, seconds = np.array(monitor.speed_points).T
        speeds = np.diff(seconds) / np.maximum(np.diff(times), 1e-9)
        yield "Throughput", draw_curve(times[1:], [("", speeds)], ("seconds of this run", "times real time"))
    durations = np.fromiter((seconds for _, seconds in _read_durations(job, plan)), np.float32)
    if len(durations):
        counts, edges = np.histogram(durations, BINS)
        yield "Durations", draw_histogram(counts, edges, ("duration in seconds", "utterances"))
        yield "Longest and shortest utterances", _draw_extreme_durations(job, plan)
    statistics = outcome.statistics
    if statistics is not None and np.isfinite(statistics).all():
        mean, variance = compute_mean_and_variance(statistics)
        deviation = np.sqrt(variance)
        lines = [("mean", mean), ("mean + deviation", mean + deviation), ("mean - deviation", mean - deviation)]
        chart = draw_curve(np.arange(len(mean)), lines, ("dimension", "value of the feature"))
        yield "Mean and standard deviation of each dimension", chart
    yield "Some utterances", "\n".join(draw_figures(job, plan))
    conf_files = {name: str(path) for name, path in job.conf_paths.items() if path}
    yield "Options", draw_table([(name, str(value)) for name, value in (asdict(job.options) | conf_files).items()])
    for name, text in plan.settings["confs"].items():
        yield name, f"<pre>{html.escape(text)}</pre>"


def _describe_sizes(job: Job, plan: DumpPlan) -> str:
    """Describe the total size of the archives of each output, such as "feats: 1.5 MiB"."""
    numbers = [shard.number for shard in plan.shards]
    sizes = {name: sum(job.layout.get_archive(number, name).stat().st_size for number in numbers)
             for name in plan.trial.outputs}  # fmt: skip
    return ", ".join(f"{name}: {size / 2**20:.1f} MiB" for name, size in sizes.items())


def draw_failure_groups(failures: Iterable[tuple[str, str]]) -> str:
    """Return HTML that groups failures (key, reason) by reason, with the number of utterances of each group.

    At most MAX_FAILURES failures are listed, but at least one for each reason.
    """
    groups = []
    remaining_count = MAX_FAILURES
    for reason, group in group_by_reason(failures):
        visible = group[: max(remaining_count, 1)]
        remaining_count -= len(visible)
        count = format_count(len(group), "utterance")
        groups.append(
            f"<details><summary><b>{count}</b>: {_escape(reason)} (first: {_escape(group[0][0])})</summary>"
            f"{draw_table(visible)}{_describe_rest(len(group) - len(visible))}</details>"
        )
    return "\n".join(groups)


def _draw_audio_sections(job: Job) -> Iterable[tuple[str, str]]:
    """Yield the sections about audio anomalies and slow files, or nothing if no utterance could be inspected."""
    sample = inspect_audio(job)
    if not sample.inspected_count:
        return
    utterances = format_count(sample.inspected_count, "utterance")
    note = f'<p class="note">Among {utterances}, evenly spread over the list.</p>'
    anomalies = draw_table(sample.anomalies[:MAX_ANOMALIES]) + _describe_rest(len(sample.anomalies) - MAX_ANOMALIES)
    yield "Odd audio: silence, clipping, offset, rates", note + (anomalies or "<p>None was found.</p>")
    yield "Slowest to read", note + draw_bars([(key, 1000 * seconds) for key, seconds in sample.slowest], "ms")


def _draw_extreme_durations(job: Job, plan: DumpPlan) -> str:
    """Return an HTML table of the MAX_EXTREMES longest and the MAX_EXTREMES shortest utterances, longest first."""
    longest = heapq.nlargest(MAX_EXTREMES, _read_durations(job, plan), key=itemgetter(1))
    shortest = heapq.nsmallest(MAX_EXTREMES, _read_durations(job, plan), key=itemgetter(1))
    return draw_table((key, f"{seconds:.2f} s") for key, seconds in [*longest, *reversed(shortest)])


def _read_durations(job: Job, plan: DumpPlan) -> Iterable[tuple[str, float]]:
    """Yield the key, and the duration of the audio in seconds, of each utterance with features."""
    for shard in plan.shards:
        with open(job.layout.get_file_of_archive(shard.number, DURATIONS), "rb") as lines:
            for line in lines:
                key, seconds = line.split()
                yield key.decode("utf-8", "surrogateescape"), float(seconds)


def draw_figures(job: Job, plan: DumpPlan) -> Iterable[str]:
    """Yield HTML figures of up to MAX_FIGURES utterances of each output. A matrix is an image, and a vector a curve."""
    for output in plan.trial.outputs:
        yield from _draw_output(job, output, float(get_frame_shift(plan) or 0.0))


def _draw_output(job: Job, output: str, shift: float) -> Iterable[str]:
    """Yield figures of up to MAX_FIGURES arrays, evenly spread over the output. Empty matrices have no figure.

    If an array cannot be read, yield the error and end. ``shift`` is the frame shift in seconds; 0 if unknown.
    """
    try:
        features: Any = io_ark.load_scp(str(job.layout.data / f"{output}.scp"))
        keys = list(features)
        positions = np.linspace(0, len(keys) - 1, min(MAX_FIGURES, len(keys))).astype(int)
        for key in (keys[position] for position in positions):
            array = np.asarray(features[key])
            if array.ndim == 1:
                chart = draw_curve(np.arange(len(array)), [("", array)], ("index", f"value of {output}"))
                caption = f"{_escape(key)}: {output}, {format_count(len(array), 'number')}"
                yield f"<figure>{chart}<figcaption>{caption}</figcaption></figure>"
            elif array.size:
                chart = draw_features(array[:MAX_FRAMES], shift, "dimension", f"features of {escape_controls(key)}")
                limit = f", the first {MAX_FRAMES} frames" if len(array) > MAX_FRAMES else ""
                caption = f"{_escape(key)}: {format_count(array.shape[0], 'frame')} x {array.shape[1]}{limit}"
                yield f"<figure>{chart}<figcaption>{caption}</figcaption></figure>"
    except ArkError as error:
        yield f"<p>{html.escape(str(error))}</p>"


def draw_table(rows: Iterable[tuple[str, str]]) -> str:
    """Return an HTML table with two columns of text, or "" if there are no rows."""
    cells = "".join(f"<tr><td>{_escape(first)}</td><td>{_escape(second)}</td></tr>" for first, second in rows)
    return f"<table>{cells}</table>" if cells else ""


def _describe_rest(count: int) -> str:
    return f'<p class="note">and {count} more</p>' if count > 0 else ""


def _escape(text: str) -> str:
    return html.escape(escape_controls(text))
