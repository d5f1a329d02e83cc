"""File names that a shell, sox or a script file could take for something else, with audio in six formats."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import numpy as np

import io_ark

RATE = 8000
FORMATS = ("wav", "flac", "ogg", "sph", "offset", "pipe")
TOUCH = "touch PWNED"
# The extension of the format follows each name.
NAMES = (
    "plain",
    "http:plain",
    "HTTPS:$(touch PWNED)",
    "ftp:`touch PWNED`",
    "folder/plain",
    "a b",
    "a  b",
    "a\tb",
    "it's",
    "'",
    '"',
    'say "yes"',
    "' '",
    f"x;{TOUCH};y",
    f"x&{TOUCH}&y",
    f"x&&{TOUCH}",
    f"$({TOUCH})",
    f"'$({TOUCH})'",
    f'"$({TOUCH})"',
    f"`{TOUCH}`",
    f"';{TOUCH};'",
    f"\\';{TOUCH};\\'",
    "$HOME",
    "${HOME}",
    "(x)",
    "x (1)",
    "x[1]",
    "x1",
    "x*",
    "x2",
    "x?",
    "{x1,x2}",
    "x~",
    "folder/~root",
    "#x",
    "x #y",
    "!x",
    "-t",
    "-",
    "--help",
    "-n x",
    "x\\y",
    "x\ry",
    "x\vy",
    "x\fy",
    "x\u2028y",
    "x\x85y",
    "größe",
    "x\udcff\udcfey",
    "x\x1b[31my",
    "%s%d",
    "x:y",
    "x=y",
    "a>PWNED",
    "a<b",
    "^x",
    "ark x",
    "x,y",
    "@x",
    "x\x7f",
    "scp,p y",
)


def samples_of(number: int) -> int:
    """Return the number of samples in the audio of a name, which is different for each."""
    return 1600 + 40 * number


def write_audio(name: str, number: int, kind: str) -> str:
    """Write audio into the working directory, and return its entry for wav.scp."""
    samples = (8000 * np.sin(np.arange(samples_of(number)) / 3)).astype(np.int16)[None]
    wave = io_ark.Wave(RATE, samples)
    suffix = {"pipe": "p.wav", "offset": "ark"}.get(kind, kind)
    path = Path(f"{name}.{suffix}")
    path.parent.mkdir(exist_ok=True)
    if kind in ("wav", "pipe"):
        io_ark.save(path, wave)
        return str(path) if kind == "wav" else f"cat {shlex.quote(f'./{path}')} |"
    if kind == "offset":
        with open(path, "wb") as file:
            file.write(b"x ")
        with open("one.wav", "wb") as file:
            pass
        io_ark.save(Path("one.wav"), wave)
        with open(path, "ab") as file:
            file.write(Path("one.wav").read_bytes())
        os.unlink("one.wav")
        return f"{path}:2"
    import soundfile

    formats = {"flac": "FLAC", "ogg": "OGG", "sph": "NIST"}
    with open(path, "wb") as file:
        soundfile.write(file, samples[0], RATE, format=formats[kind])
    return str(path)


def write_directory(folder: Path, pairs: list[tuple[int, str]]) -> dict[str, int]:
    """Write a data directory of some names, by number, each in a format; return the number of samples of each key."""
    folder.mkdir()
    entries = {f"u{number:02d}{kind}": write_audio(NAMES[number], number, kind) for number, kind in pairs}
    listing = {key: entries[key] for key in sorted(entries)}
    with open(folder / "wav.scp", "w", errors="surrogateescape", newline="\n") as file:
        file.writelines(f"{key} {entry}\n" for key, entry in listing.items())
    (folder / "utt2spk").write_text("".join(f"{key} {key}\n" for key in listing))
    (folder / "spk2utt").write_text("".join(f"{key} {key}\n" for key in listing))
    return {f"u{number:02d}{kind}": samples_of(number) for number, kind in pairs}


ALL = [(number, kind) for number in range(len(NAMES)) for kind in FORMATS]
