"""Parse the command line of ``kaldi-compat``: options of :class:`DumpOptions` and of the feature; ``programs``."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Any

from io_ark.specifier import is_url
from kaldi_compat.cli.command_line import (
    CommonOptions,
    format_usage,
    format_version,
    parse_command_line,
    rewrite_script_style,
)
from kaldi_compat.cli.info import describe_installation
from kaldi_compat.dump.configuration import OWN_FLAGS, format_value, get_conf_flags, get_feature_flags
from kaldi_compat.dump.inputs import SCRIPT
from kaldi_compat.dump.options import (
    FEATURES,
    PITCH,
    PITCH_CONF,
    PROCESS_CONF,
    SCOPES,
    SPECTRAL,
    DumpOptions,
    Job,
    Layout,
    get_spectral_part,
)
from kaldi_compat.dump.sources import get_extractor_name, get_source_class
from kaldi_compat.errors import OptionError
from kaldi_compat.options.base import find_nearest_name
from kaldi_compat.options.config import Flag, UsageError, get_flags, normalize, spell_as_flags

PROGRAM_USAGE = """\
Kaldi's features and archives without Kaldi.

Usage: kaldi-compat dump [options] <feature> <data> [<log> [<archives>]]
       kaldi-compat dump --help         compute the features of a whole data directory
       kaldi-compat data --help         check, fix, split, combine ... data directories; install Kaldi's scripts
       kaldi-compat explain FEATS WAV   find the front end that computed features
       kaldi-compat conform -- PROGRAM  test an implementation of Kaldi's features
       kaldi-compat frontend list       list front ends of published models; also show, check, export
       kaldi-compat info                show which engines are available here, and why
       kaldi-compat programs            list the programs that replace Kaldi's, each with --help
       kaldi-compat --version

See also:
  compute-fbank-feats --help            one of Kaldi's programs, with Kaldi's flags
  ark --help                            inspect archives: list, show, compare, convert
  python -c 'import kaldi_compat, io_ark; help(kaldi_compat.Fbank); help(io_ark)'
"""
DUMP_USAGE = f"""\
Computes the features of a Kaldi data directory, and writes the same files as steps/make_<feature>.sh.

Usage: kaldi-compat dump [options] <feature> <data> [<log> [<archives>]]
       kaldi-compat dump [options] --preset | --module | --transformers | --onnx ... <data> [<log> [<archives>]]

  <feature>   {", ".join(FEATURES[:5])},
              {", ".join(FEATURES[5:])}
  <data>      data directory with wav.scp, and optionally segments
  <log>       directory of plan and logs (default: <data>/log)
  <archives>  directory of archives (default: <data>/data)

e.g.:  kaldi-compat dump fbank data/train --conf conf/fbank.conf --nj 8
       kaldi-compat dump fbank data/train --num-mel-bins=80 --dither=0 --nj 8
       kaldi-compat dump fbank data/train --conf conf/fbank.conf --nj 8 --resume      after an interruption
       kaldi-compat dump mfcc_pitch data/train exp/make_mfcc mfcc --nj 8 --cmvn speaker
       kaldi-compat dump fbank data/train --device cuda --shard-utterances 5000
       kaldi-compat dump --preset paraformer --statistics am.mvn data/train
       kaldi-compat dump --transformers wavlm-large --layers 9,12 data/train --device cuda
       kaldi-compat dump --onnx campplus.onnx --preset campplus data/train --per-speaker
       kaldi-compat dump --module my_model.py:Embedding data/train

Options can be before, after or between the arguments: --nj 8 or --nj=8; --resume, --resume=true or --resume true;
--no-compress or --compress=false. The feature's own options, such as --num-mel-bins=80 of fbank (see
compute-fbank-feats --help), are also accepted, and take precedence over the configuration file.

Exit status: 0 if at least 95% of the utterances have features, else 1; 255 if the job failed, 2 for an invalid
command line, 130 after Ctrl-C, SIGTERM or SIGHUP. <log>/dump_<feature>_<name>.failures lists the failed utterances with
reasons.
"""
# Advice for words that users may pass as a feature, because Kaldi has scripts for them.
OTHER_PROGRAMS = {
    "vad": "the program compute-vad decides which frames have speech: compute-vad --config=conf/vad.conf "
    "scp:<data>/feats.scp ark,scp:vad.ark,<data>/vad.scp",
    "cmvn": "add --cmvn=speaker to the dump of a feature, or run compute-cmvn-stats",
}
# Maps options that only Kaldi's scripts have to advice, which ends the message about the option.
SCRIPT_OPTIONS = {
    **{f"{feature}-config": "is --conf here" for feature in SPECTRAL},
    "pitch-config": "is --pitch-conf here",
    "pitch-postprocess-config": "is --pitch-postprocess-conf here",
    "cmd": "is not needed: leave it out; --nj starts processes on this machine, and --shard divides the work among the "
    "jobs of a cluster",
    "vad-config": f"is not an option of the dump: {OTHER_PROGRAMS['vad']}",
    "two-channel": "is not an option of the dump: run compute-cmvn-stats-two-channel after the dump",
    "fake-dims": "is not an option of the dump: run modify-cmvn-stats after the dump",
    "fake": "is not needed: leave out --cmvn, since features without statistics are not normalized",
    "online-pitch-config": "is not supported: split its options between --pitch-conf and --pitch-postprocess-conf",
}
HELP = "kaldi-compat dump --help explains the command line"


def parse_arguments(argv: Sequence[str]) -> Job | str:
    """Parse ``argv``, the arguments of ``kaldi-compat`` without the name of the program.

    Returns:
        the job of ``dump``, or the text that another command or option, such as ``info`` or ``--help``, prints.

    Raises:
        OptionError: a command, feature or option is unknown, a value is invalid, two arguments exclude each other, an
            option has no effect, a path is a URL, or the number of arguments is wrong.
    """
    if not argv or argv[0] != "dump":
        return _describe_other_command(argv)
    all_flags = list_flags()
    # "--" separates the options, which come first, from the arguments. The first argument may be a feature.
    words = rewrite_script_style(argv[1:], all_flags | get_flags(CommonOptions))
    first_argument = "".join(words[words.index("--") + 1 :][:1])
    flags = all_flags | (get_feature_flags(first_argument) if first_argument in FEATURES else {})
    _refuse_script_options(words)
    line = parse_command_line(words, flags, CommonOptions)
    if line.standard.help:
        return format_usage(DUMP_USAGE, DumpOptions, CommonOptions)
    if line.standard.version:
        return format_version("kaldi-compat")
    options = _make_options({field: value for field, value in line.values.items() if normalize(field) in OWN_FLAGS})
    feature_argument = [] if options.source else ["<feature>"]
    if options.source and line.arguments[:1] and is_feature(line.arguments[0]):
        extra = line.arguments[0]
        raise UsageError(f"{extra} is a feature, but --{options.source} names what to compute: remove {extra}")
    if not len(feature_argument) < len(line.arguments) <= len(feature_argument) + 3:
        actual = "1 argument was" if len(line.arguments) == 1 else f"{len(line.arguments)} arguments were"
        expected = " ".join([*feature_argument, "<data> [<log> [<archives>]]"])
        raise UsageError(f"expected {expected}, but {actual} given: {HELP}")
    feature, *paths = [get_extractor_name(options), *line.arguments] if options.source else line.arguments
    for url in filter(is_url, (*paths, options.speed_dir)):
        raise UsageError(f"{url} is a URL, but a dump needs local folders: name a local folder")
    overridden_flags = [flag for name, flag in flags.items() if name not in OWN_FLAGS and flag.field in line.values]
    if options.source and overridden_flags:
        name = overridden_flags[0].name
        raise UsageError(
            f"--{name} is an option of Kaldi's features, which cannot be combined with --{options.source}: "
            "remove one of the two options"
        )
    if not options.source:
        _check_feature(feature, overridden_flags)
    overrides = tuple(f"--{flag.name}={format_value(line.values[flag.field])}" for flag in overridden_flags)
    job = Job(Layout.from_paths(paths[0], feature, *paths[1:]), options, overrides)
    _refuse_unused_options(job)
    return job


def _check_feature(feature: str, flags: Sequence[Flag]) -> None:
    """Raise UsageError, with advice, if there is no such ``feature``, or if it does not have one of the ``flags``."""
    if feature not in FEATURES:
        raise UsageError(f"there is no feature {feature!r}: {_suggest_feature(feature)}")
    for flag in flags:
        if normalize(flag.name) not in get_feature_flags(feature):
            program, advice = get_spectral_part(feature) or PITCH, _suggest_remedy(normalize(flag.name), feature)
            raise UsageError(f"--{flag.name} is not an option of {program}: {advice}")


def list_flags() -> dict[str, Flag]:
    """Return the flags of all features and of the dump by name. The dump's flag wins if a feature has the same name."""
    tables = [get_conf_flags(PROCESS_CONF), *map(get_feature_flags, FEATURES), OWN_FLAGS]
    return {name: flag for table in tables for name, flag in table.items()}


def _refuse_script_options(words: Sequence[str]) -> None:
    """Raise UsageError, with advice, if a word before ``--`` is an option that exists only in Kaldi's scripts."""
    for word in takewhile(lambda word: word != "--", words):
        name = normalize(word[2:].partition("=")[0])
        if name in SCRIPT_OPTIONS:
            raise UsageError(f"--{name} of Kaldi's scripts {SCRIPT_OPTIONS[name]}")


def is_feature(argument: str) -> bool:
    """Return True if ``argument`` names a feature, and is not also the path of a folder that contains ``wav.scp``."""
    return argument in FEATURES and not Path(argument, SCRIPT).exists()


def _refuse_unused_options(job: Job) -> None:
    """Raise UsageError if an option of the dump that has no effect in the job differs from its default."""
    used_options = get_source_class(job.source).list_used_options(job.options) if job.source else set()
    for scope in SCOPES:
        unused = () if scope.includes(job) else set(scope.options).difference(used_options)
        for flag in (OWN_FLAGS[normalize(name)] for name in sorted(unused)):
            if (value := getattr(job.options, flag.field)) != flag.default:
                fault = f"--{flag.name}={format_value(value)} has no effect here: it applies only to {scope.text}"
                raise UsageError(f"{fault}; remove the option")


def _make_options(values: dict[str, Any]) -> DumpOptions:
    """Make the options of the dump from ``values``, by field name. Raise UsageError for invalid values.

    If ``values`` does not set ``compress``, features are compressed, but the outputs of an extractor are not.
    """
    try:
        options = DumpOptions(**values)
    except OptionError as error:
        raise UsageError(spell_as_flags(str(error), DumpOptions)) from None
    return replace(options, compress=values.get("compress", False)) if options.source else options


def _suggest_feature(feature: str) -> str:
    """Return advice for ``feature``, which is not the name of a feature."""
    from kaldi_compat.frontends.preset import list_presets

    if feature in list_presets():
        return f"it is a preset: kaldi-compat dump --preset {feature} <data>"
    if feature in OTHER_PROGRAMS:
        return OTHER_PROGRAMS[feature]
    nearest = find_nearest_name(feature, FEATURES)
    return f"did you mean {nearest}?" if nearest else f"choose from {', '.join(FEATURES)}"


def _suggest_remedy(name: str, feature: str) -> str:
    """Return advice for the option ``name``, which a command line cannot set for ``feature``."""
    for conf, option in ((PITCH_CONF, "pitch-conf"), (PROCESS_CONF, "pitch-postprocess-conf")):
        if feature.endswith(PITCH) and name in get_conf_flags(conf):
            return f"write it to a file, and pass --{option}=FILE"
    return "remove the option, or correct its name"


def _describe_other_command(argv: Sequence[str]) -> str:
    """Return the text of ``info``, ``programs``, ``--help`` or ``--version``. Raise UsageError for other arguments."""
    options = argv[1:] if argv and argv[0] in ("info", "programs") else argv
    if options and options[0] in ("--help", "-h"):
        return PROGRAM_USAGE
    if argv and argv[0] == "--version":
        return format_version("kaldi-compat")
    if argv and argv[0] in ("info", "programs") and len(argv) > 1:
        raise UsageError(f"{argv[0]} takes no arguments, not {argv[1]!r}: remove the argument")
    if argv and argv[0] == "info":
        return describe_installation()
    if argv and argv[0] == "programs":
        return format_program_list()
    commands = sorted(set(re.findall(r"kaldi-compat ([a-z]+)", PROGRAM_USAGE)))
    actual = f"not {argv[0]!r}" if argv else "but none was given"
    raise UsageError(
        f"expected the command {', '.join(commands[:-1])} or {commands[-1]}, {actual}: "
        "kaldi-compat --help describes the commands"
    )


def list_programs() -> dict[str, Any]:
    """Return the programs that replace Kaldi's, as :class:`Program` objects by name, in the order of the names."""
    scripts = importlib.metadata.distribution("kaldi-compat").entry_points
    return {
        script.name: script.load()
        for script in sorted(scripts, key=lambda script: script.name)
        if script.value.startswith("kaldi_compat.programs.")
    }


def get_first_sentence(text: str) -> str:
    """Return the first sentence of ``text``, the help of a program. The periods of "e.g." do not end a sentence."""
    description = " ".join(text.split("Usage:")[0].split())
    return re.split(r"(?<=[.])(?<!e[.]g[.]) ", description)[0]


def format_program_list() -> str:
    """Format a line for each program that replaces one of Kaldi's: its name, and the first sentence of its help."""
    # The column of names fits the longest name, compute-and-process-kaldi-pitch-feats.
    return "\n".join(f"{name:38} {get_first_sentence(program.text)}" for name, program in list_programs().items())
