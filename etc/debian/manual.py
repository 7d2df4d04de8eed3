"""Writes a man page for each command of `smqpd`, from its help: `manual.py DIR`.

click-man sets the pages. It finds no options by itself, since typer has a click of its own.
"""

import re
import sys
from inspect import cleandoc
from pathlib import Path

from click_man.man import ManPage

from daemon.cli.command_tree import tree
from daemon.system.version import VERSION


def write(command, context, folder: Path) -> None:
    page = ManPage(context.command_path)
    page.version = VERSION
    text = cleandoc(command.help or "")
    page.short_help = _escaped(re.split(r"(?<=[.;])\s", text, maxsplit=1)[0].rstrip(".;"))
    page.description = _escaped(text)
    page.synopsis = " ".join(command.collect_usage_pieces(context))
    shown = [parameter for parameter in command.params if not getattr(parameter, "hidden", False)]
    records = (parameter.get_help_record(context) for parameter in shown)
    page.options = [(option, _escaped(meaning)) for option, meaning in filter(None, records)]
    commands = getattr(command, "commands", {})
    page.commands = [
        (name, _escaped(each.get_short_help_str(200))) for name, each in commands.items() if not each.hidden
    ]
    (folder / (context.command_path.replace(" ", "-") + ".1")).write_text(str(page), encoding="utf-8")
    for name, each in commands.items():
        if not each.hidden:
            write(each, each.context_class(each, info_name=name, parent=context), folder)


def _escaped(text: str) -> str:
    """`text` as roff takes it literally."""
    return re.sub(r"(?m)^(?=[.'])", r"\\&", text.replace("\\", r"\e").replace("-", r"\-"))


if __name__ == "__main__":
    whole = tree()
    write(whole, whole.context_class(whole, info_name="smqpd"), Path(sys.argv[1]))
