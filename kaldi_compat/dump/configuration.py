"""Read the configuration of the features from Kaldi's files, and from the command line, which takes precedence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any

from kaldi_compat.cli.compute import make_program_options
from kaldi_compat.dump.errors import DumpError
from kaldi_compat.dump.options import PITCH, PITCH_CONF, PROCESS_CONF, DumpOptions, Job, get_spectral_part
from kaldi_compat.errors import OptionError
from kaldi_compat.options.base import require
from kaldi_compat.options.config import Flag, get_flags, normalize, parse_config, spell_as_flags
from kaldi_compat.options.declaration import Scalar
from kaldi_compat.options.pitch import PitchOptions, ProcessPitchOptions
from kaldi_compat.options.registry import SPECTRAL_FEATURES

# Options of the feature programs that have no effect in a dump, so that a value other than the default is an error.
# Each option maps to the reason, which follows "has no effect in a dump, " in the message.
NOT_IN_CONF = {
    "output_format": "which writes only Kaldi's format",
    "write_utt2dur": "which writes utt2dur to the data directory itself",
    "device": "which has its own --device",
    "engine": "which has its own --engine",
}
OWN_FLAGS = get_flags(DumpOptions)


@cache
def get_options_class(conf: str) -> type[Any]:
    """Return the class of the options that the configuration file named ``conf``, such as "fbank.conf", may set."""
    classes = {PITCH_CONF: PitchOptions, PROCESS_CONF: ProcessPitchOptions}
    return classes[conf] if conf in classes else make_program_options(SPECTRAL_FEATURES[conf.removesuffix(".conf")])


@cache
def get_conf_flags(conf: str) -> dict[str, Flag]:
    """Return the flags, by name, that the configuration file named ``conf``, such as "fbank.conf", may set."""
    return get_flags(get_options_class(conf))


@cache
def get_feature_flags(feature: str) -> dict[str, Flag]:
    """Return the flags that a command line accepts for a feature, by name. For ``fbank_pitch``, they are fbank's flags.

    Flags that have no effect in a dump, and flags with the name of one of the dump's own flags, are left out.
    """
    table = get_conf_flags(f"{get_spectral_part(feature) or PITCH}.conf")
    return {name: flag for name, flag in table.items() if flag.field not in NOT_IN_CONF and name not in OWN_FLAGS}


def format_value(value: Scalar) -> str:
    """Format the value of an option for a configuration file. A float has enough digits to be read back exactly."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.17g}" if isinstance(value, float) else str(value)


def read_confs(job: Job) -> dict[str, str]:
    """Return the texts of the feature's configuration files by name. For an extractor, the dictionary is empty.

    A default file that does not exist has an empty text. Options on the command line that change a value are appended
    to the text of the main configuration file.

    Raises:
        DumpError: a file cannot be read.
        OptionError: a file or the command line contains an invalid option.
    """
    texts: dict[str, str] = {}
    if job.source:
        return texts
    for name, path in job.conf_paths.items():
        try:
            texts[name] = path.read_text(encoding="utf-8", errors="surrogateescape") if path else ""
        except OSError as error:
            raise DumpError(f"{path}: {error.strerror}; check the name of the configuration file") from None
    main_text = texts[job.main_conf]
    values = parse_values(job, job.main_conf, main_text)
    overrides = parse_config("\n".join(job.overrides), "the command line", get_conf_flags(job.main_conf))
    lines = [f"--{flag.name}={format_value(value)}\n" for flag, value in overrides if values.get(flag.name) != value]
    separator = "" if not main_text or main_text.endswith("\n") or not lines else "\n"
    texts[job.main_conf] = main_text + separator + "".join(lines)
    return texts


def parse_values(job: Job, conf: str, text: str) -> dict[str, Scalar]:
    """Parse ``text``, the content of the configuration file ``conf``, and return the values by flag name."""
    path = job.conf_paths.get(conf)
    return {flag.name: value for flag, value in parse_config(text, str(path or conf), get_conf_flags(conf))}


def compare_values(job: Job, conf: str, old_text: str, new_text: str) -> dict[str, tuple[Scalar, Scalar]]:
    """Return (old value, new value), by name, of the flags that differ between two texts of the file ``conf``."""
    defaults = {flag.name: flag.default for flag in get_conf_flags(conf).values()}
    old, new = (defaults | parse_values(job, conf, text) for text in (old_text, new_text))
    return {name: (old[name], new[name]) for name in defaults if old[name] != new[name]}


def parse_confs(job: Job, texts: Mapping[str, str]) -> dict[str, Any]:
    """Parse the texts of configuration files, the result of :func:`read_confs`, into options of Kaldi's programs.

    Returns:
        options by feature. The key of process-kaldi-pitch-feats is "pitch_postprocess".

    Raises:
        OptionError: an option is invalid, or has no effect in a dump.
    """
    options_by_feature: dict[str, Any] = {}
    if job.spectral:
        conf = f"{job.spectral}.conf"
        options = options_by_feature[job.spectral] = _parse_options(job, conf, texts)
        defaults = {field.name: field.default for field in fields(options)}
        for name, reason in NOT_IN_CONF.items():
            flag = f"--{normalize(name)}={getattr(options, name)}"
            file = job.conf_paths[conf] or conf
            fault = f"{file}: {flag} has no effect in a dump, {reason}: remove the option"
            require(getattr(options, name) == defaults[name], fault)
    if job.with_pitch:
        options_by_feature[PITCH] = _parse_options(job, PITCH_CONF, texts)
        options_by_feature["pitch_postprocess"] = _parse_options(job, PROCESS_CONF, texts)
    return options_by_feature


def _parse_options(job: Job, conf: str, texts: Mapping[str, str]) -> Any:
    """Return the options that the text of the file ``conf`` sets. An OptionError names the file or the user's flag."""
    options_class, flags = get_options_class(conf), get_conf_flags(conf)
    values = parse_values(job, conf, texts.get(conf, ""))
    try:
        return options_class(**{flags[normalize(name)].field: value for name, value in values.items()})
    except OptionError as error:
        message = spell_as_flags(str(error), options_class)
        overridden_flags = [line.partition("=")[0] for line in job.overrides] if conf == job.main_conf else []
        prefix = "" if any(flag in message for flag in overridden_flags) else f"{job.conf_paths.get(conf) or conf}: "
        raise OptionError(f"{prefix}{message}") from None
