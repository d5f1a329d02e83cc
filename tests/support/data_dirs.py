"""Small data directories with faults, made from a seed, and commands of Kaldi's scripts to run on them."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path

Lines = list[bytes]
Files = dict[str, Lines]

WORDS = ["yes", "no", "one", "two", "größe", "水", "<unk>", "uh-huh"]
OPTIONAL = (
    "text",
    "feats.scp",
    "cmvn.scp",
    "vad.scp",
    "spk2gender",
    "utt2lang",
    "utt2uniq",
    "utt2dur",
    "utt2num_frames",
    "reco2dur",
    "reco2file_and_channel",
    "spk2warp",
    "utt2warp",
    "frame_shift",
    "stm",
    "glm",
)


def wave(samples: int) -> bytes:
    """Return a wave file of silence."""
    data = bytes(2 * samples)
    return (
        b"RIFF"
        + struct.pack(
            "<I4s4sIHHIIHH4sI", 36 + len(data), b"WAVE", b"fmt ", 16, 1, 1, 8000, 16000, 2, 16, b"data", len(data)
        )
        + data
    )


def features(rows: int) -> bytes:
    """Return a matrix as in an archive."""
    return b"\0BFM " + struct.pack("<BiBi", 4, rows, 4, 2) + bytes(8 * rows)


def write_inputs(folder: Path) -> None:
    """Write the audio and features that the directories name."""
    folder.joinpath("in").mkdir(parents=True)
    for samples in (800, 1234, 4001):
        folder.joinpath(f"in/{samples}.wav").write_bytes(wave(samples))
        header = f"NIST_1A\n   1024\nsample_rate -i 8000\nsample_count -i {samples}\nend_head\n".encode()
        folder.joinpath(f"in/{samples}.sph").write_bytes(header.ljust(1024) + bytes(2 * samples))
    archive = b""
    for rows in (3, 17):
        archive += b"k "
        folder.joinpath(f"in/{rows}.place").write_text(str(len(archive)))
        archive += features(rows)
    folder.joinpath("in/feats.ark").write_bytes(archive)
    folder.joinpath("path.sh").write_text("")


def directory(rng: random.Random) -> Files:
    """Return a valid data directory."""
    speakers = sorted({f"s{rng.randrange(30):02d}" for _ in range(rng.choice((1, 3, 5)))})
    utterances = [
        (f"{speaker}-{rng.randrange(100):02d}{at}", speaker)
        for speaker in speakers
        for at in range(rng.choice((1, 2, 4)))
    ]
    utterances = sorted(dict(utterances).items())
    segmented, sphere = rng.random() < 0.4, rng.random() < 0.2
    keys = [key for key, _ in utterances]
    recordings = sorted({f"r{rng.randrange(50):02d}" for _ in range(3)}) if segmented else keys
    files: dict[str, list[str]] = {
        name: [] for name in OPTIONAL if rng.random() < (0.7 if name in ("text", "feats.scp") else 0.3)
    }
    files["utt2spk"] = [f"{key} {speaker}" for key, speaker in utterances]
    files["spk2utt"] = [
        f"{name} {' '.join(key for key, speaker in utterances if speaker == name)}" for name in speakers
    ]

    def audio() -> str:
        size = rng.choice((800, 1234, 4001))
        if sphere:
            return f"/x/sph2pipe -f wav in/{size}.sph |"
        return rng.choice(
            (f"in/{size}.wav", f"in/{size}.wav", f"cat in/{size}.wav |", f"cat in/{size}.wav|", f"in/{size}.ark:17")
        )

    if rng.random() < 0.9:
        files["wav.scp"] = [f"{key} {audio()}" for key in recordings]
    if segmented:
        used = [*recordings, *(rng.choice(recordings) for _ in keys)][: len(keys)]
        starts = [rng.choice((0, 0.05, 0.013, 1.5)) for _ in keys]
        files["segments"] = [
            f"{key} {name} {start:g} {start + rng.choice((0.04, 0.2, 0.333, 12.5)):.3f}"
            for key, name, start in zip(keys, used, starts, strict=True)
        ]
        if "wav.scp" in files:
            files["wav.scp"] = [line for line in files["wav.scp"] if line.split()[0] in used]
            recordings = [name for name in recordings if name in used]
    values: dict[str, Callable[[str], str]] = {
        "text": lambda key: " ".join(rng.choices(WORDS, k=rng.choice((0, 1, 1, 3)))),
        "feats.scp": lambda key: f"in/feats.ark:{rng.choice((2, 2 + 15 + 24 + 2))}",
        "vad.scp": lambda key: f"vad.ark:{rng.randrange(99)}",
        "utt2lang": lambda key: rng.choice(["en", "de"]),
        "utt2uniq": lambda key: "u" + key,
        "utt2dur": lambda key: f"{rng.uniform(0.1, 30):g}",
        "utt2num_frames": lambda key: str(rng.randrange(1, 300)),
        "utt2warp": lambda key: f"{rng.uniform(0.8, 1.2):.2f}",
    }
    by_speaker: dict[str, Callable[[], str]] = {
        "cmvn.scp": lambda: f"cmvn.ark:{rng.randrange(99)}",
        "spk2gender": lambda: rng.choice("mf"),
        "spk2warp": lambda: f"{rng.uniform(0.8, 1.2):.2f}",
    }
    by_recording: dict[str, Callable[[str], str]] = {
        "reco2dur": lambda name: f"{rng.uniform(1, 99):g}",
        "reco2file_and_channel": lambda name: f"{name} {rng.choice('AB1')}",
        "stm": lambda name: f"1 spk 0 1 {rng.choice(WORDS)}",
    }
    for name in files:
        if name in values:
            files[name] = [f"{key} {values[name](key)}".rstrip() for key in keys]
        elif name in by_speaker:
            files[name] = [f"{key} {by_speaker[name]()}" for key in speakers]
        elif name in by_recording:
            files[name] = [f"{key} {by_recording[name](key)}" for key in recordings]
    if "stm" in files:
        files["stm"].insert(0, ";; a comment")
    if "frame_shift" in files:
        files["frame_shift"] = ["0.01"]
    if "glm" in files:
        files["glm"] = [";; glm"]
    return {name: [line.encode() + b"\n" for line in lines] for name, lines in files.items()}


def _line(rng: random.Random, lines: Lines) -> int:
    return rng.randrange(len(lines))


def _key(line: bytes) -> bytes:
    return (line.split() or [b"x"])[0]


def _unsorted(rng: random.Random, lines: Lines) -> None:
    rng.shuffle(lines)


def _same_twice(rng: random.Random, lines: Lines) -> None:
    lines.insert(_line(rng, lines), rng.choice(lines))


def _two_values(rng: random.Random, lines: Lines) -> None:
    line = rng.choice(lines)
    lines.insert(lines.index(line) + 1, _key(line) + b" another\n")


def _no_newline(rng: random.Random, lines: Lines) -> None:
    lines[-1] = lines[-1][:-1]


def _carriage_return(rng: random.Random, lines: Lines) -> None:
    at = _line(rng, lines)
    lines[at] = lines[at][:-1] + b"\r\n"


def _byte_order_mark(rng: random.Random, lines: Lines) -> None:
    lines[0] = b"\xef\xbb\xbf" + lines[0]


def _latin1(rng: random.Random, lines: Lines) -> None:
    at = _line(rng, lines)
    lines[at] = lines[at][:-1] + b" gr\xfc\xdfe\n"


def _blank(rng: random.Random, lines: Lines) -> None:
    lines.insert(_line(rng, lines), rng.choice((b"\n", b"  \n")))


def _missing(rng: random.Random, lines: Lines) -> None:
    del lines[_line(rng, lines)]


def _added(rng: random.Random, lines: Lines) -> None:
    at = _line(rng, lines)
    key, _, fields = lines[at].partition(b" ")
    lines.insert(at + 1, key + b"0 " + fields)


def _emptied(rng: random.Random, lines: Lines) -> None:
    lines.clear()


def _one_field(rng: random.Random, lines: Lines) -> None:
    at = _line(rng, lines)
    lines[at] = _key(lines[at]) + b"\n"


def _more_fields(rng: random.Random, lines: Lines) -> None:
    at = _line(rng, lines)
    lines[at] = lines[at][:-1] + b" more\n"


def _spaces(rng: random.Random, lines: Lines) -> None:
    at = _line(rng, lines)
    lines[at] = rng.choice(
        (lines[at].replace(b" ", b"  ", 1), lines[at].replace(b" ", b"\t", 1), lines[at][:-1] + b" \n")
    )


def _indented(rng: random.Random, lines: Lines) -> None:
    at = _line(rng, lines)
    lines[at] = b" " + lines[at]


def _odd_value(rng: random.Random, lines: Lines) -> None:
    at = _line(rng, lines)
    values = (b"0", b"-1", b"abc", b"1e3", b"1.5", b"~/x.wav", b"<s>", b"#0 x", b"a\x01b", b"a\xc2\xa0b", b"0.4", b"f")
    lines[at] = _key(lines[at]) + b" " + rng.choice(values) + b"\n"


def _other_speaker(rng: random.Random, lines: Lines) -> None:
    at = _line(rng, lines)
    lines[at] = b"a" + lines[at]


FAULTS: tuple[Callable[[random.Random, Lines], None], ...] = (
    _unsorted,
    _same_twice,
    _two_values,
    _no_newline,
    _carriage_return,
    _byte_order_mark,
    _latin1,
    _blank,
    _missing,
    _added,
    _emptied,
    _one_field,
    _more_fields,
    _spaces,
    _indented,
    _odd_value,
    _other_speaker,
)


def faulty(rng: random.Random, files: Files) -> str:
    """Add faults to a directory, and return their names."""
    told = []
    for _ in range(rng.choice((0, 1, 1, 1, 2))):
        name = rng.choice(sorted(files))
        if rng.random() < 0.07 and len(files) > 2:
            del files[name]
            told.append(f"{name} deleted")
        elif files[name]:
            fault = rng.choice(FAULTS)
            fault(rng, files[name])
            told.append(f"{name}{fault.__name__}")
    return ", ".join(told)


def write(folder: Path, files: Files) -> None:
    """Write a directory."""
    folder.mkdir(parents=True)
    for name, lines in files.items():
        folder.joinpath(name).write_bytes(b"".join(lines))


COMMANDS = tuple(
    """
validate_data_dir.sh data/a
validate_data_dir.sh --no-feats --no-text data/a
validate_data_dir.sh --no-feats data/a
validate_data_dir.sh data/a --no-wav --no-feats --non-print --no-spk-sort
validate_data_dir.sh --no-text data/none
validate_data_dir.sh --no-feats --non-print data/a
validate_data_dir.sh data/a data/b
validate_data_dir.sh
fix_data_dir.sh data/a
fix_data_dir.sh data/a
fix_data_dir.sh data/a
fix_data_dir.sh
fix_data_dir.sh --utt-extra-files utt2warp --spk-extra-files spk2warp data/a
fix_data_dir.sh --no-such x data/a
subset_data_dir.sh data/a 2 data/out
subset_data_dir.sh --first data/a 2 data/out
subset_data_dir.sh data/a 99 data/out
subset_data_dir.sh --last data/a 3 data/out
subset_data_dir.sh --per-spk data/a 1 data/out
subset_data_dir.sh --per-spk data/a 2 data/out
subset_data_dir.sh --speakers data/a 3 data/out
subset_data_dir.sh --shortest data/a 2 data/out
subset_data_dir.sh --spk-list lists/spk data/a data/out
subset_data_dir.sh --utt-list lists/utt data/a data/out
subset_data_dir.sh --no-such data/a 2 data/out
subset_data_dir.sh data/a 0 data/out
subset_data_dir.sh data/none 1 data/out
split_data.sh data/a 2
split_data.sh --per-utt data/a 2
split_data.sh data/a 3
split_data.sh --per-utt data/a 30
split_data.sh data/a x
split_data.sh --per-utt data/a 1
combine_data.sh data/out data/a data/b
combine_data.sh --skip-fix true data/out data/a data/b
combine_data.sh --extra-files utt2warp data/out data/b data/a
combine_data.sh data/out data/a
copy_data_dir.sh data/a data/out
copy_data_dir.sh --utt-prefix p- --spk-prefix p- data/a data/out
copy_data_dir.sh --utt-suffix -x --spk-suffix -y data/a data/out
copy_data_dir.sh data/a data/a
copy_data_dir.sh --validate-opts --no-wav --utt-prefix s data/a data/out
copy_data_dir.sh --utt-prefix=p data/a data/out
perturb_data_dir_speed.sh 0.9 data/a data/out
perturb_data_dir_speed.sh --include-spk-prefix false 1.1 data/a data/out
data/perturb_data_dir_speed_3way.sh data/a data/out
data/perturb_data_dir_speed_3way.sh --always-include-prefix true data/a data/out
data/perturb_data_dir_speed_3way.sh --include-spk-prefix false data/a data/out
data/perturb_data_dir_volume.sh data/a
data/perturb_data_dir_volume.sh --scale-low 0.5 --scale-high 1 data/a
data/perturb_data_dir_volume.sh --write-reco2vol vol data/a
data/perturb_data_dir_volume.sh --reco2vol lists/vol data/a
data/resample_data_dir.sh 8000 data/a
utt2spk_to_spk2utt.pl data/a/utt2spk
spk2utt_to_utt2spk.pl data/a/spk2utt
utt2spk_to_spk2utt.pl data/a/none
filter_scp.pl lists/utt data/a/wav.scp
filter_scp.pl --exclude lists/utt data/a/text
filter_scp.pl -f 2 lists/spk data/a/utt2spk
filter_scp.pl --exclude -f 2 lists/spk data/a/segments
filter_scp.pl data/a/text data/a/utt2spk
filter_scp.pl none data/a/text
split_scp.pl data/a/utt2spk out.1 out.2
split_scp.pl --utt2spk=data/a/utt2spk data/a/text out.1 out.2
split_scp.pl -j 3 1 data/a/text
split_scp.pl -j 2 2 --one-based --utt2spk=data/a/utt2spk data/a/utt2spk
split_scp.pl --utt2spk=data/a/utt2spk data/a/utt2spk out.1 out.2 out.3
subset_scp.pl 3 data/a/utt2spk
subset_scp.pl --first 2 data/a/text
subset_scp.pl --last 2 data/a/text
subset_scp.pl --quiet 40 data/a/text
subset_scp.pl --quiet --last 1 data/a/wav.scp
subset_scp.pl 40 data/a/text
shuffle_list.pl data/a/text
shuffle_list.pl --srand 777 data/a/utt2spk
apply_map.pl lists/map < data/a/text
apply_map.pl -f 2 lists/map < data/a/utt2spk
apply_map.pl -f 2- --permissive lists/map < data/a/text
apply_map.pl --permissive data/a/text < data/a/utt2spk
data/get_utt2dur.sh data/a
data/get_utt2dur.sh --nj 2 --frame-shift 0.02 data/a
data/get_utt2dur.sh --read-entire-file true data/a
data/get_reco2dur.sh data/a
data/get_reco2dur.sh --nj 1 data/a
data/get_utt2num_frames.sh --nj 1 data/a
data/get_utt2num_frames.sh data/a
data/get_segments_for_data.sh data/a
data/get_utt2num_frames.sh --frame-shift 0.02 --frame-overlap 0.02 --nj 2 data/a
data/remove_dup_utts.sh 2 data/a data/out
data/remove_dup_utts.sh 1 data/a data/out
data/modify_speaker_info.sh --utts-per-spk-max 2 data/a data/out
data/modify_speaker_info.sh --seconds-per-spk-max 1 data/a data/out
data/modify_speaker_info.sh --utts-per-spk-max 2 --respect-speaker-info false data/a data/out
data/modify_speaker_info.sh data/a data/out
validate_text.pl data/a/text
validate_text.pl data/a/none
""".strip().split("\n")
)
COMMANDS_OF_A_CASE = 8


def case(seed: int, folder: Path) -> tuple[str, list[str]]:
    """Write the directories of a seed, and return its faults and the commands to run, each on a new copy."""
    rng = random.Random(f"data directory {seed}")
    write_inputs(folder)
    files, others = directory(rng), directory(rng)
    told = faulty(rng, files)
    write(folder / "data/a", files)
    if rng.random() < 0.5:
        others = {name: [b"z" + line for line in lines] for name, lines in others.items()}
    write(folder / "data/b", others)
    keys = [line.split()[0] for line in files.get("utt2spk", []) if line.split()]
    chosen = sorted(rng.sample(keys, len(keys) // 2)) if keys else []
    speakers = sorted({line.split()[-1] for line in files.get("utt2spk", []) if line.split()})
    folder.joinpath("lists").mkdir()
    folder.joinpath("lists/utt").write_bytes(b"".join(key + b" x\n" for key in [*chosen, b"unknown"]))
    folder.joinpath("lists/spk").write_bytes(b"".join(key + b"\n" for key in speakers[::2]))
    folder.joinpath("lists/map").write_bytes(
        b"yes ja\nno\nuh-huh m m\n" + b"".join(key + b" new-" + key + b"\n" for key in speakers)
    )
    names = [line.split()[0] for line in files.get("wav.scp", []) if line.split()]
    folder.joinpath("lists/vol").write_bytes(b"".join(b"%b 0.%d\n" % (name, at + 1) for at, name in enumerate(names)))
    start = seed * COMMANDS_OF_A_CASE
    return told, [COMMANDS[(start + at) % len(COMMANDS)] for at in range(COMMANDS_OF_A_CASE)]


def tree(folder: Path) -> dict[str, bytes]:
    """Return the files below a directory, without logs and inputs."""
    contents = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and not name.startswith(("in/", "lists/", "utils/")) and "/log/" not in name:
            contents[name] = path.read_bytes()
    return contents
