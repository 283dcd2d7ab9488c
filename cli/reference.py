"""A command and its flags to read: as --help, and as a page of Markdown."""

import importlib
import pkgutil
import re
import shutil
import textwrap
from typing import TYPE_CHECKING

from bert_keras.cli.flags import Flag, Group

from absl import flags

if TYPE_CHECKING:
    from bert_keras.cli.command import Command

_commands = importlib.import_module("bert_keras.commands")
COMMANDS = sorted(m.name for m in pkgutil.iter_modules(_commands.__path__))

MAX_WIDTH = 100  # of --help, in characters
NAME_WIDTH = 30
# --help's way to what a command has of absl
OTHERS = (
    "--flagfile=FILE reads flags from a file, --version prints the version, "
    "--helpfull shows the flags of the log, too."
)


def usage(command: "Command") -> str:
    """run_pretraining --input_file=FILE --output_dir=DIR [flags]"""
    words = [
        f"--{flag.name}={flag.name.rpartition('_')[2].upper()}"
        for flag in command.flags.table
        if flag.group is Group.REQUIRED
    ]
    arguments = [command.arguments] if command.arguments else []
    return " ".join([command.name, *words, "[flags]", *arguments])


def help_text(command: "Command", full: bool = False) -> str:
    """What --help prints, as wide as the terminal if that is narrow.

    Args:
        full: with the flags of absl's log.
    """
    columns = shutil.get_terminal_size((MAX_WIDTH, 0)).columns
    width = min(MAX_WIDTH, max(columns, 2 * NAME_WIDTH))
    parts = [
        textwrap.fill(
            f"Usage: {usage(command)}",
            width,
            subsequent_indent="  ",
            break_on_hyphens=False,
        )
    ]
    for paragraph in command.description.strip().split("\n\n"):
        parts.append(textwrap.fill(paragraph, width))
    for group, table in command.flags.groups():
        lines = [f"{group.value}:"]
        for flag in table:
            default = flag.shown_default and f"default: {flag.shown_default}"
            facts = "; ".join(filter(None, [default, flag.bounds]))
            text = flag.help + (f" ({facts})" if facts else "")
            for words in ("default: ", "at least "):  # each on one line
                text = text.replace(words, words.replace(" ", "\xa0"))
            wrapped = [
                line.replace("\xa0", " ")
                for line in textwrap.wrap(
                    text, width - NAME_WIDTH, break_on_hyphens=False
                )
            ]
            name = f"  {_shown(flag)}"
            if len(name) < NAME_WIDTH - 1:
                name = name.ljust(NAME_WIDTH) + wrapped.pop(0)
            lines += [name, *(" " * NAME_WIDTH + line for line in wrapped)]
        parts.append("\n".join(lines))
    parts.append(f"Examples:\n{textwrap.indent(command.examples, '  ')}")
    parts.append(textwrap.fill(OTHERS, width))
    if full:
        parts.append(flags.FLAGS.module_help("absl.logging"))
    return "\n\n".join(parts)


def _shown(flag: Flag) -> str:
    return f"--{'[no]' * (flag.kind is bool)}{flag.name}"


def command_page(name: str) -> str:
    """A command's page of the reference, in Markdown.

    Args:
        name: one of COMMANDS.
    """
    command = importlib.import_module(f"bert_keras.commands.{name}").cli
    parts = [
        f"# {name}",
        _markdown(command.description.strip()),
        f"```text\n{usage(command)}\n```",
    ]
    for group, table in command.flags.groups():
        rows = ["| flag | default | meaning |", "|---|---|---|"]
        for flag in table:
            default = f"`{flag.shown_default}`" if flag.shown_default else ""
            bounds = (
                flag.bounds and f" {flag.bounds[0].upper()}{flag.bounds[1:]}."
            )
            meaning = _markdown(flag.help + bounds)
            rows.append(f"| `{_shown(flag)}` | {default} | {meaning} |")
        parts += [f"## {group.value}", "\n".join(rows)]
    parts.append(f"## Examples\n\n```bash\n{command.examples}\n```")
    return "\n\n".join(parts) + "\n"


def _markdown(text: str) -> str:
    """The text with flags as code and without accidental markup."""
    text = re.sub(r"([\\|*<])", r"\\\1", text)
    return re.sub(r"--\w+(?:=[\w:/]+)?", r"`\g<0>`", text)
