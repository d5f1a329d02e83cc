"""Report about a dump (``--report``): one self-contained HTML file."""

from __future__ import annotations

import base64
import html
import struct
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import io_ark
from io_ark.errors import ArkError
from io_ark.text import printable
from kaldi_compat.dump.failures import by_reason
from kaldi_compat.dump.files import write_whole
from kaldi_compat.dump.finalize import Outcome, summed
from kaldi_compat.dump.options import Job
from kaldi_compat.dump.plan import Plan
from kaldi_compat.dump.progress import HOUR, Monitor
from kaldi_compat.dump.write import read_manifest, read_stats
from kaldi_compat.functional.cmvn import mean_and_variance

__all__ = ["bars", "curve", "histogram", "image", "pictures", "png", "sections", "table", "total_stats", "write_report"]

Floats = npt.NDArray[Any]

WIDTH, HEIGHT, MARGIN = 640, 220, 48
PICTURES = 4
BINS = 30
MAX_FAILURES = 1000
MAX_FRAMES = 1200

PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; color: #222; }}
h1 {{ font-size: 1.5em; }} h2 {{ font-size: 1.15em; margin-top: 2em; }}
table {{ border-collapse: collapse; }} td, th {{ padding: .2em .8em .2em 0; text-align: left; vertical-align: top; }}
pre {{ background: #f4f4f4; padding: .8em; overflow-x: auto; }}
svg text {{ font-size: 11px; fill: #555; }} figure {{ margin: 1em 0; }} figcaption {{ color: #555; }}
img {{ width: 100%; height: 160px; image-rendering: pixelated; }}
</style></head><body>
<h1>{title}</h1>
{body}
</body></html>
"""


def write_report(job: Job, plan: Plan, outcome: Outcome, monitor: Monitor) -> None:
    """Write the page of ``--report``."""
    title = f"{job.feature} features of {job.layout.name}"
    body = "\n".join(
        f"<h2>{html.escape(name)}</h2>\n{content}" for name, content in sections(job, plan, outcome, monitor) if content
    )
    write_whole(Path(job.options.report), PAGE.format(title=html.escape(title), body=body))


def sections(job: Job, plan: Plan, outcome: Outcome, monitor: Monitor) -> Iterable[tuple[str, str]]:
    """Yield the headings and contents of the page."""
    yield (
        "Result",
        table(
            [
                ("utterances with features", f"{outcome.utterances} of {outcome.wanted}"),
                ("hours of audio", f"{outcome.seconds / HOUR:.2f}"),
                ("failures", str(len(outcome.failures))),
                ("archives", str(len(plan.shards))),
                ("this run", f"{monitor.elapsed:.1f} s, {monitor.speed:.0f} times real time"),
                ("bound by", outcome.bound),
            ]
        ),
    )
    yield (
        "Busy seconds of each stage, over all archives",
        bars([(stage, outcome.work.get(stage, 0.0)) for stage in ("read", "compute", "write", "wall")]),
    )
    if len(monitor.samples) > 2:
        times, seconds = np.array(monitor.samples).T
        speeds = np.diff(seconds) / np.maximum(np.diff(times), 1e-9)
        yield "Throughput: times real time, over the seconds of this run", curve(times[1:], [speeds])
    durations = np.array([seconds for _, seconds in _frames_and_seconds(job, plan)])
    if len(durations):
        counts, edges = np.histogram(durations, BINS)
        yield "Durations in seconds", histogram(counts, edges)
    if (stats := total_stats(job, plan)) is not None and np.isfinite(stats).all():
        mean, variance = mean_and_variance(stats)
        dims = np.arange(len(mean))
        yield (
            "Mean of each dimension, and one standard deviation on either side",
            curve(dims, [mean, mean - np.sqrt(variance), mean + np.sqrt(variance)]),
        )
    yield "Some utterances: time to the right, dimensions upwards", "\n".join(pictures(job))
    shown = outcome.failures[:MAX_FAILURES]
    more = f"<p>and {len(outcome.failures) - len(shown)} more</p>" if len(shown) < len(outcome.failures) else ""
    yield (
        "Failures by reason",
        table((str(count), f"{text} (first: {key})") for count, text, key in by_reason(outcome.failures)),
    )
    yield "Failures", table(shown) + more if shown else ""
    yield "Options", table([(name, str(value)) for name, value in vars(job.options).items()])
    for name, text in plan.settings["confs"].items():
        yield name, f"<pre>{html.escape(text)}</pre>"


def _frames_and_seconds(job: Job, plan: Plan) -> Iterable[tuple[int, float]]:
    for shard in plan.shards:
        manifest = read_manifest(job.layout, shard.number)
        for _, frames, seconds in manifest.utterances if manifest else ():
            yield frames, seconds


def total_stats(job: Job, plan: Plan) -> npt.NDArray[np.float64] | None:
    """Return the CMVN statistics over all archives that have them; None if none has."""
    return summed(stats for _, stats in read_stats(job.layout, (shard.number for shard in plan.shards)))


def pictures(job: Job) -> Iterable[str]:
    """Draw the features of some utterances, evenly spread over the list."""
    try:
        features = io_ark.load_scp(str(job.layout.in_data("feats.scp")))
        keys = list(features)
        for key in [keys[i] for i in np.linspace(0, len(keys) - 1, min(PICTURES, len(keys))).astype(int)]:
            matrix = np.asarray(features[key])[:MAX_FRAMES]
            if matrix.size:
                yield f"<figure>{image(matrix.T[::-1])}<figcaption>{_escaped(key)}</figcaption></figure>"
    except ArkError as error:
        yield f"<p>{html.escape(str(error))}</p>"


def table(rows: Iterable[tuple[str, str]]) -> str:
    """Draw two columns of text; "" for no rows."""
    cells = "".join(f"<tr><td>{_escaped(a)}</td><td>{_escaped(b)}</td></tr>" for a, b in rows)
    return f"<table>{cells}</table>" if cells else ""


def _escaped(text: str) -> str:
    return html.escape(printable(text))


def image(values: Floats) -> str:
    """Draw a matrix as a picture, from dark for its least finite value to light for its greatest."""
    finite = np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)
    least, greatest = float(finite.min()), float(finite.max())
    levels = ((finite - least) / ((greatest - least) or 1.0) * 255).astype(np.uint8)
    data = base64.b64encode(png(levels)).decode()
    return f'<img alt="features" src="data:image/png;base64,{data}">'


def png(levels: npt.NDArray[np.uint8]) -> bytes:
    """Encode 8-bit grey levels (rows, columns) as a PNG file."""
    rows, columns = levels.shape
    scanlines = np.zeros((rows, columns + 1), np.uint8)  # each begins with the number of its filter: 0, none
    scanlines[:, 1:] = levels

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", columns, rows, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(scanlines.tobytes()))
        + chunk(b"IEND", b"")
    )


def _svg(content: str, low: float, high: float, left: str, right: str) -> str:
    """Draw a chart with its axes and the ends of their scales."""
    bottom = HEIGHT - MARGIN / 2
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" role="img">'
        f'<path d="M{MARGIN} 8V{bottom}H{WIDTH - 8}" fill="none" stroke="#999"/>{content}'
        f'<text x="{MARGIN - 4}" y="16" text-anchor="end">{high:.4g}</text>'
        f'<text x="{MARGIN - 4}" y="{bottom}" text-anchor="end">{low:.4g}</text>'
        f'<text x="{MARGIN}" y="{HEIGHT - 8}">{left}</text>'
        f'<text x="{WIDTH - 8}" y="{HEIGHT - 8}" text-anchor="end">{right}</text></svg>'
    )


def _scaled(values: Floats, low: float, high: float, start: float, stop: float) -> Floats:
    scaled: Floats = start + (values - low) / ((high - low) or 1.0) * (stop - start)
    return scaled


def curve(x: Floats, lines: Sequence[Floats]) -> str:
    """Draw lines over a common axis; those after the first are pale."""
    low = min(0.0, *(float(line.min()) for line in lines))
    high = max(float(line.max()) for line in lines)
    across = _scaled(x, float(x[0]), float(x[-1]), MARGIN, WIDTH - 8)
    drawn = []
    for number, line in enumerate(lines):
        up = _scaled(line, low, high, HEIGHT - MARGIN / 2, 8)
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(across, up, strict=True))
        colour = "#1f6fb2" if number == 0 else "#b9d4ea"
        drawn.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
    return _svg("".join(reversed(drawn)), low, high, f"{x[0]:.4g}", f"{x[-1]:.4g}")


def histogram(counts: Floats, edges: Floats) -> str:
    """Draw bars side by side."""
    across = _scaled(edges, float(edges[0]), float(edges[-1]), MARGIN, WIDTH - 8)
    bottom = HEIGHT - MARGIN / 2
    tops = _scaled(counts, 0.0, float(counts.max()), bottom, 8)
    rectangles = "".join(
        f'<rect x="{a:.1f}" y="{top:.1f}" width="{max(b - a - 1, 1):.1f}" height="{bottom - top:.1f}" fill="#1f6fb2"/>'
        for a, b, top in zip(across, across[1:], tops, strict=False)
    )
    return _svg(rectangles, 0.0, float(counts.max()), f"{edges[0]:.4g}", f"{edges[-1]:.4g}")


def bars(rows: Sequence[tuple[str, float]]) -> str:
    """Draw a bar for each named value."""
    most = max((value for _, value in rows), default=0.0) or 1.0
    cells = "".join(
        f'<tr><td>{html.escape(name)}</td><td><svg width="400" height="12"><rect width="{400 * value / most:.0f}" '
        f'height="12" fill="#1f6fb2"/></svg></td><td>{value:.1f}</td></tr>'
        for name, value in rows
    )
    return f"<table>{cells}</table>"
