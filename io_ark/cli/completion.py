"""Scripts that complete command lines in bash, zsh and fish."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Flag:
    """An option of a program."""

    name: str  # name with the leading hyphens
    about: str = ""  # one line
    takes_value: bool = False  # True if a value follows
    choices: tuple[str, ...] = ()  # the values, if they are few


@dataclass(frozen=True)
class Command:
    """A program, or a command of one."""

    name: str  # as typed
    about: str = ""  # one line
    flags: tuple[Flag, ...] = ()  # its options
    commands: tuple[Command, ...] = ()  # its commands
    words: tuple[str, ...] = ()  # what its first argument can be, besides files
    equals: bool = False  # True if an option and its value are joined by `=`, as in Kaldi's programs


def of_parser(parser: argparse.ArgumentParser, name: str, about: str = "") -> Command:
    """Return the command that an argparse parser parses."""
    flags, commands = [], []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            texts = {each.dest: each.help or "" for each in action._choices_actions}
            commands = [of_parser(each, key, texts.get(key, "")) for key, each in action.choices.items()]
        elif action.option_strings:
            takes_value = action.nargs != 0
            choices = tuple(map(str, action.choices or ()))
            flags += [Flag(each, action.help or "", takes_value, choices) for each in action.option_strings]
    positional = [each for each in parser._actions if not each.option_strings and each.choices and not commands]
    words = tuple(str(choice) for each in positional for choice in each.choices or ())
    return Command(name, about, tuple(flags), tuple(commands), words)


def script(shell: str, programs: Sequence[Command]) -> str:
    """Return the script that completes the command lines of programs."""
    return SHELLS[shell](programs)


def _words_of(flag: Flag, equals: bool) -> list[str]:
    """Return what to offer for an option: with its values if these are joined to it and few."""
    if not equals or not flag.takes_value:
        return [flag.name]
    return [f"{flag.name}={choice}" for choice in flag.choices] or [f"{flag.name}="]


def _offers(command: Command) -> str:
    offered = [each for flag in command.flags for each in _words_of(flag, command.equals)]
    return " ".join([*(each.name for each in command.commands), *command.words, *offered])


def _bash(programs: Sequence[Command]) -> str:
    cases = []
    for program in programs:
        choices = [*((command.name, _offers(command)) for command in program.commands), ("*", _offers(program))]
        inner = "".join(f"            {name}) words={_quote(offers)} ;;\n" for name, offers in choices)
        cases.append(f'    {program.name})\n        case "$command" in\n{inner}        esac ;;')
    names = " ".join(program.name for program in programs)
    return f"""\
# Completion of kaldi-compat's programs in bash: eval "$(... completion bash)"
_kaldi_compat() {{
    local command="" words="" word index current
    # The words of the line, split at white space only: bash splits at = and : too.
    local -a line
    read -ra line <<< "${{COMP_LINE:0:COMP_POINT}}"
    [[ "${{COMP_LINE:0:COMP_POINT}}" == *" " ]] && line+=("")
    current="${{line[-1]}}"
    for ((index = 1; index < ${{#line[@]}} - 1; index++)); do
        word="${{line[index]}}"
        [[ "$word" != -* ]] && {{ command="$word"; break; }}
    done
    case "${{1##*/}}" in
{chr(10).join(cases)}
    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
    # Offer files for arguments, and for the values of options.
    if [[ "$current" == *=* && ${{#COMPREPLY[@]}} -eq 0 ]]; then
        COMPREPLY=($(compgen -f -- "${{current#*=}}"))
    elif [[ "$current" != -* ]]; then
        COMPREPLY+=($(compgen -f -- "$current"))
    elif [[ "$current" == *=* ]]; then
        COMPREPLY=("${{COMPREPLY[@]#*=}}")
    fi
    [[ ${{#COMPREPLY[@]}} -eq 1 && ("${{COMPREPLY[0]}}" == *= || -d "${{COMPREPLY[0]}}") ]] && compopt -o nospace
    [[ ${{#COMPREPLY[@]}} -eq 1 && -d "${{COMPREPLY[0]}}" ]] && COMPREPLY[0]+="/"
    return 0
}}
complete -F _kaldi_compat {names}
"""


def _quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _zsh(programs: Sequence[Command]) -> str:
    cases = []
    for program in programs:
        lines = [f"            {command.name}) {_zsh_offers(command)} ;;" for command in program.commands]
        cases.append(
            f'        {program.name})\n            case "$command" in\n'
            + "".join(f"    {line}\n" for line in lines)
            + f"                *) {_zsh_offers(program)} ;;\n            esac ;;"
        )
    names = " ".join(program.name for program in programs)
    return f"""\
#compdef {names}
# Completion of kaldi-compat's programs in zsh: eval "$(... completion zsh)"
_kaldi_compat() {{
    local command="" word
    local -a offers
    for word in "${{(@)words[2,CURRENT-1]}}"; do
        [[ "$word" != -* ]] && {{ command="$word"; break; }}
    done
    case "${{words[1]:t}}" in
{chr(10).join(cases)}
    esac
    _describe -o 'option' offers -S ''
    [[ "$PREFIX" != -* ]] && _files
    return 0
}}
compdef _kaldi_compat {names}
"""


def _zsh_offers(command: Command) -> str:
    entries = [(each.name, each.about) for each in command.commands] + [(word, "") for word in command.words]
    for flag in command.flags:
        entries += [(spelled, flag.about) for spelled in _words_of(flag, command.equals)]
    quoted = (_quote(name.replace(":", "\\:") + (f":{about}" if about else "")) for name, about in entries)
    return f"offers=({' '.join(quoted)})"


def _fish(programs: Sequence[Command]) -> str:
    lines = ["# Completion of kaldi-compat's programs in fish: ... completion fish | source"]
    for program in programs:
        known = " ".join(command.name for command in program.commands)
        alone = f"not __fish_seen_subcommand_from {known}" if known else ""
        lines += _fish_lines(program, program, alone)
        for command in program.commands:
            lines.append(f"complete -c {program.name} -n {_quote(alone)} -a {command.name} -d {_quote(command.about)}")
            lines += _fish_lines(program, command, f"__fish_seen_subcommand_from {command.name}")
    return "\n".join(lines) + "\n"


def _fish_lines(program: Command, command: Command, condition: str) -> list[str]:
    start = f"complete -c {program.name}" + (f" -n {_quote(condition)}" if condition else "")
    lines = [f"{start} -a {word}" for word in command.words]
    for flag in command.flags:
        kind = "-l" if flag.name.startswith("--") else "-s"
        value = f" -r{f' -a {_quote(chr(32).join(flag.choices))}' if flag.choices else ''}" if flag.takes_value else ""
        lines.append(f"{start} {kind} {flag.name.lstrip('-')}{value} -d {_quote(flag.about)}")
    return lines


SHELLS = {"bash": _bash, "zsh": _zsh, "fish": _fish}
