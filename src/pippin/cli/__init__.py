"""The command line: one file per command; each parses, calls one function, and prints."""

import sys

import typer

from pippin.cli.example import example
from pippin.cli.toy import toy

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Prediction sets that contain the true class with a chosen probability.",
)
app.command()(example)
app.command()(toy)


def main() -> None:
    """Runs a command; wrong input is one sentence on standard error and exit code 2."""
    try:
        app()
    except (ValueError, OSError) as error:
        print(f"pippin: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
