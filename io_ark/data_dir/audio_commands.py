"""Build shell commands that read the audio of an entry of ``wav.scp``, and read the file name back from such a command.

Quoting for the shell is not enough for sox, which expands wildcards, runs a name that starts with ``|``, puts a URL
into a command, and runs commands that a playlist names. ``wav-copy`` reads such names and further formats with this
package.
"""

from __future__ import annotations

import os
import re
import stat
from typing import NamedTuple

from io_ark.specifier import is_table_rspecifier

HEAD_BYTES = 64  # Number of bytes to read from a file. The signature of any audio format is shorter.
OFFSET = re.compile(rb":[0-9]+$")
_PLAIN_BYTES = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz@%+=:,./-" + bytes(range(128, 256))
_PLAIN_FILE = _PLAIN_BYTES.replace(b":", b"")
_PLAIN_LINES = _PLAIN_FILE + b" \n"
# Matches names that sox expands like a shell, or treats as a URL, even without slashes or in upper case.
_EXPANDED_BY_SOX = re.compile(rb"[*?\[\]{}~\\]|://|^(?:https?|ftp):", re.IGNORECASE)
_EFFECT = re.compile(rb"[a-z]+")  # sox may mistake a name of such letters, as in "speed" or "vol", for an effect.
# File name extensions in lower case. sox reads the first group without additional packages. Only wav-copy reads the
# second group, and neither program reads the last group.
_READ_BY_SOX = (b".flac", b".aif", b".aiff", b".au", b".snd", b".sph")
_READ_BY_WAV_COPY = (b".mp3", b".ogg", b".oga", b".opus", b".caf", b".w64", b".rf64")
_PLAYLISTS = (b".m3u", b".pls")  # sox reads such a file as a playlist, even if an option gives the format.
_UNREADABLE = (b".m4a", b".mp4", b".aac", b".wma", b".webm", b".amr", b".mkv", b".3gp", b".ape", b".wv")
_NEEDS_COMMAND = "neither sox nor wav-copy reads {}: write a command, such as: ffmpeg -v 16 -i FILE -f wav - |"
# Matches a word of a shell command that stands for one file name, without shell syntax except quotes.
_WORD = r"""((?:[\w@%+=:,./-]|[^\0-\x7f]|'[^']*'|"[^"$`\\]*")+)"""
_WAV_COPY = re.compile(rf"wav-copy {_WORD} - \|")
_SPEED_OF_COMMAND = re.compile(r"(.*\|) sox -t wav - -t wav - speed (\S+) \|", re.DOTALL)
_SPEED_OF_WAV = re.compile(rf"sox -t wav {_WORD} -t wav - speed (\S+) \|")
_SPEED_OF_FILE = re.compile(rf"sox {_WORD} -b 16 -t wav - speed (\S+) \|")


class AudioInput(NamedTuple):
    """Input of a sox command."""

    command: bytes  # A command that writes a WAV file and ends in ``|``, or b"" if sox reads the file itself.
    file: bytes = b""  # The file name as a word of a shell command, or b"" for standard input.
    is_wav: bool = True  # True to read the file as WAV. If False, its extension determines the format.


def parse_audio_entry(entry: bytes) -> AudioInput:
    """Return the input of a sox command that reads an entry of ``wav.scp``.

    ``entry`` is the name of a file, ``file:offset``, a URL, a command that ends in ``|``, or ``-`` or "" for standard
    input. The file name extension determines the format. A file with an unknown extension is read as WAV, unless its
    first bytes identify another format. The input is a ``wav-copy`` command if sox cannot read the format, or would
    misread the file name.

    Raise ValueError if neither sox nor wav-copy reads files with this extension, or the file name has a NUL byte.
    """
    if entry[-4:] == b".wav" and entry[:1] != b"-" and not entry.translate(None, _PLAIN_FILE):
        return AudioInput(b"", entry)  # The following checks, which are slower, would give the same result.
    if b"\0" in entry:
        raise ValueError("the file name has a NUL byte: correct the line")
    if entry.endswith(b"|"):
        return AudioInput(entry[:-1].strip() + b" |")
    if entry in (b"", b"-"):
        return AudioInput(b"", entry)
    extension = os.path.splitext(entry)[1].lower()
    if extension in _UNREADABLE:
        raise ValueError(_NEEDS_COMMAND.format(extension.decode()))
    wav_copy_input = AudioInput(b"wav-copy %b - |" % quote_name(entry))
    if OFFSET.search(entry) or _EXPANDED_BY_SOX.search(entry) or extension in (*_READ_BY_WAV_COPY, *_PLAYLISTS):
        return wav_copy_input
    if extension in _READ_BY_SOX:
        return AudioInput(b"", quote_name(entry), is_wav=False)
    is_wav = entry.endswith(b".wav") or not _has_other_signature(entry)
    return AudioInput(b"", quote_name(entry)) if is_wav else wav_copy_input


def _has_other_signature(name: bytes) -> bool:
    """Return True if ``name`` is a regular file that begins with the signature of an audio format other than WAV."""
    if not (head := read_head(name, HEAD_BYTES)) or head.startswith(b"RIFF"):
        return False
    from io_ark.codecs.audio import detect_audio_format
    from io_ark.streams.source import BytesSource

    return bool(detect_audio_format(BytesSource(head)))


def read_head(name: bytes, count: int) -> bytes:
    """Return up to ``count`` bytes from the start of a file, or b"" if it is not a regular file or cannot be read."""
    try:
        if not stat.S_ISREG(os.stat(name).st_mode):
            return b""
        # O_NONBLOCK: do not wait for a writer if a pipe has replaced the file since the first check.
        with open(os.open(name, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb", buffering=0) as file:
            return file.read(count) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else b""
    except (OSError, ValueError):
        return b""


def are_lines_plain(lines: bytes) -> bool:
    """Return True if lines of ``wav.scp`` have neither colons nor characters that need quotes in a shell.

    Spaces are allowed.
    """
    return not lines.translate(None, _PLAIN_LINES)


def quote_name(name: bytes) -> bytes:
    """Return a file name as a word of a shell command, quoted only if necessary.

    ``-`` (standard input) does not change. A name that sox or wav-copy would mistake for an option, an effect, a
    command or a table starts with ``./`` in the result.
    """
    is_option = name[:1] in (b"-", b"|") and name != b"-"
    if is_option or _EFFECT.fullmatch(name) or is_table_rspecifier(os.fsdecode(name)):
        name = b"./" + name
    return name if not name.translate(None, _PLAIN_BYTES) else b"'%b'" % name.replace(b"'", b"'\"'\"'")


def _unquote_word(word: str) -> str:
    """Return the file name that a quoted word of a shell command stands for. A prefix ``./`` of the name is kept."""
    import shlex

    return "".join(shlex.split(word))


def split_speed(rxfilename: str) -> tuple[str, str] | None:
    """Split an entry of ``wav.scp`` from :meth:`DataDir.perturb_speed` into the input of the sox command and the speed factor.

    The input is a file name, or a command that ends in ``|``. Return None if ``rxfilename`` is not such an entry.

    >>> from io_ark.data_dir import split_speed
    >>> split_speed("flac -dcs a.flac | sox -t wav - -t wav - speed 1.1 |")
    ('flac -dcs a.flac |', '1.1')
    """
    if match := _SPEED_OF_COMMAND.fullmatch(rxfilename):
        command, factor = match.groups()
        wav_copy = _WAV_COPY.fullmatch(command)  # Group 1 is the quoted file name.
        return (_unquote_word(wav_copy[1]) if wav_copy else command), factor
    match = _SPEED_OF_WAV.fullmatch(rxfilename) or _SPEED_OF_FILE.fullmatch(rxfilename)
    return (_unquote_word(match[1]), match[2]) if match else None  # The groups are the quoted file name and the factor.
