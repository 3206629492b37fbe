"""The directive `pippin-commands`: every command with its arguments and options, from the command line itself."""

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import typer
from docutils import nodes
from sphinx.util.docutils import SphinxDirective
from sphinx.util.rst import escape

KINDS = {int: "NUMBER", float: "NUMBER", str: "TEXT", Path: "PATH"}


class Commands(SphinxDirective):
    """A section for each command, with an entry for each option that pages can link to."""

    def run(self) -> list[nodes.Node]:
        from pippin.cli import app

        found = commands(typer.main.get_command(app), "pippin")
        lines = [line for path, command in found for line in section(path, command)]
        return self.parse_text_to_nodes("\n".join(lines), allow_section_headings=True)


def commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Iterate over a command and its subcommands, each with the words that call it."""
    yield path, command
    for name, below in getattr(command, "commands", {}).items():
        yield from commands(below, f"{path} {name}")


def section(path: str, command: Any) -> list[str]:
    """Write the section of one command."""
    shown = [each for each in command.params if not getattr(each, "hidden", False)]
    arguments = [each for each in shown if not each.opts[0].startswith("-")]
    words = ["COMMAND"] if getattr(command, "commands", {}) else [name_of(each) for each in arguments]
    lines = [path, "-" * len(path), "", *map(escape, inspect.cleandoc(command.help or "").splitlines()), ""]
    lines += ["::", "", f"   {' '.join([path, *words, *(['[OPTIONS]'] if shown else [])])}", ""]
    lines += [f".. program:: {path}", ""]
    for each in shown:
        lines += option(each, command.callback)
    example = (command.epilog or "").removeprefix("Example: ").removeprefix("Start with: ")
    return lines + (["For example::", "", f"   {example}", ""] if example else [])


def option(each: Any, callback: Any) -> list[str]:
    """Write one argument or option: its spelling, its help and its default."""
    spelling, more = name_of(each), [f"Default: ``{each.default}``."] if shows_default(each) else []
    if each.opts[0].startswith("-"):
        value = "" if each.is_flag else f" {value_of(each, callback)}"
        spelling = ", ".join([*each.opts, *each.secondary_opts]) + value
        more = ["It must be given."] if each.required else more
    help_text = " ".join((each.help or "").split())
    return [f".. option:: {spelling}", "", f"   {' '.join([escape(help_text), *more])}", ""]


def name_of(argument: Any) -> str:
    """Return the name of an argument, in brackets if it is optional."""
    name = (argument.metavar or argument.name).strip("{}[].").upper()
    return f"{name}{'...' if argument.nargs == -1 else ''}" if argument.required else f"[{name}]"


def value_of(each: Any, callback: Any) -> str:
    """Return the placeholder of an option's value, or its choices."""
    hint = inspect.signature(callback).parameters[each.name].annotation
    hints = (hint, *get_args(hint), *get_args(next(iter(get_args(hint)), None)))
    if choices := [get_args(one) for one in hints if get_origin(one) is Literal]:
        return "|".join(choices[0])
    return each.metavar or next((KINDS[kind] for kind in KINDS if kind in hints), "TEXT")


def shows_default(each: Any) -> bool:
    return bool(each.show_default) and each.default is not None and each.default is not False and each.default != ""


def setup(app: Any) -> dict[str, bool]:
    app.add_directive("pippin-commands", Commands)
    return {"parallel_read_safe": True}
