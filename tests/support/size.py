"""Print the code lines of each part of src/pippin: lines that are neither blank, comment nor docstring."""

import ast
import io
import tokenize
from collections import Counter
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "pippin"
NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def code_lines(text: str) -> int:
    """Count the lines of a module that hold code.

    >>> code_lines("def f():\\n    \'Docstring.\'\\n\\n    # comment\\n    return 1\\n")
    2
    """
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            docstring = node.body[0]
            lines.difference_update(range(docstring.lineno, (docstring.end_lineno or docstring.lineno) + 1))
    return len(lines)


def main() -> None:
    """Print a line per part, the largest first, and the total."""
    lines, files = Counter[str](), Counter[str]()
    for path in SOURCE.rglob("*.py"):
        part = path.relative_to(SOURCE).parts[0]
        lines[part] += code_lines(path.read_text(encoding="utf-8"))
        files[part] += 1
    for part, count in lines.most_common():
        print(f"{part:<16}{count:>8,} code lines{files[part]:>6} files")
    print(f"{'total':<16}{lines.total():>8,} code lines{files.total():>6} files")


if __name__ == "__main__":
    main()
