"""The directive `pippin-commands`: every command with its arguments and options, from the command line itself."""

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import typer
from docutils import nodes
from sphinx.util.docutils import SphinxDirective
from sphinx.util.rst import escape

KINDS = {int: "NUMBER", float: "NUMBER", str: "TEXT", Path: "PATH"}


class Commands(SphinxDirective):
    """A section for each command, with an entry for each option that others can link to."""

    def run(self) -> list[nodes.Node]:
        from pippin.cli import app

        lines = [
            line for path, command in commands(typer.main.get_command(app), "pippin") for line in told(path, command)
        ]
        return self.parse_text_to_nodes("\n".join(lines), allow_section_headings=True)


def commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    """A command and all below it, each with what is typed to call it."""
    yield path, command
    for name, below in getattr(command, "commands", {}).items():
        yield from commands(below, f"{path} {name}")


def told(path: str, command: Any) -> list[str]:
    """The section of one command."""
    shown = [each for each in command.params if not getattr(each, "hidden", False)]
    arguments = [each for each in shown if not each.opts[0].startswith("-")]
    below = list(getattr(command, "commands", {}))
    words = ["COMMAND"] if below else [name_of(each) for each in arguments]
    lines = [path, "-" * len(path), "", *map(escape, inspect.cleandoc(command.help or "").splitlines()), ""]
    lines += ["::", "", f"   {' '.join([path, *words, *(['[OPTIONS]'] if shown else [])])}", ""]
    lines += [f".. program:: {path}", ""]
    for each in shown:
        lines += option(each, command.callback)
    example = (command.epilog or "").removeprefix("Example: ").removeprefix("Start with: ")
    return lines + (["For example::", "", f"   {example}", ""] if example else [])


def option(each: Any, callback: Any) -> list[str]:
    """One argument or option: how it is written, what it does, what it is if it is not given."""
    if each.opts[0].startswith("-"):
        spelled = ", ".join([*each.opts, *each.secondary_opts]) + (
            "" if each.is_flag else f" {kind_of(each, callback)}"
        )
    else:
        spelled = name_of(each)
    more = [f"Default: ``{each.default}``."] if shows_default(each) else []
    if each.required and each.opts[0].startswith("-"):
        more = ["It must be given."]
    help_text = " ".join((each.help or "").split())
    return [f".. option:: {spelled}", "", f"   {' '.join([escape(help_text), *more])}", ""]


def name_of(argument: Any) -> str:
    """An argument as it stands in the line."""
    name = (argument.metavar or argument.name).strip("{}[].").upper()
    return f"{name}{'...' if argument.nargs == -1 else ''}" if argument.required else f"[{name}]"


def kind_of(each: Any, callback: Any) -> str:
    """What an option takes."""
    hint = inspect.signature(callback).parameters[each.name].annotation
    kinds = [kind for kind in KINDS if kind in (hint, *get_args(hint), *get_args(next(iter(get_args(hint)), None)))]
    return each.metavar or (KINDS[kinds[0]] if kinds else "TEXT")


def shows_default(each: Any) -> bool:
    return bool(each.show_default) and each.default is not None and each.default is not False and each.default != ""


def setup(app: Any) -> dict[str, bool]:
    app.add_directive("pippin-commands", Commands)
    return {"parallel_read_safe": True}
