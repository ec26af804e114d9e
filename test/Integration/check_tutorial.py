"""Runs the commands of a page in a folder, in order, and compares what they print with the page.

    check_tutorial.py PAGE FOLDER

The page's block of Python is written to model.py. A block that begins with `$ COMMAND` is run; the
lines below it must stand in the output, one behind the other. `...` at the end of a line stands for any
text, and within a line for text without `%`, as are attributes and types. Spaces and breaks are equal.
"""

import os
import pathlib
import re
import subprocess
import sys

FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def patterns_of(expected):
    """Lists of patterns, one per line, of lines that stand together; spaces are single."""
    parts = [[]]
    for line in expected.splitlines():
        words = re.escape(" ".join(line.removesuffix("...").split())).replace(r"\.\.\.", "[^%]*?")
        if words:
            parts[-1].append(re.compile(words + "(?: |$)?"))
        if line.endswith("..."):
            parts.append([])
    return [part for part in parts if part]


def end_of(part, text, begin):
    """Where the lines of a part end that stand together behind `begin`, or None."""
    for first in part[0].finditer(text, begin):
        end = first.end()
        for pattern in part[1:]:
            found = pattern.match(text, end)
            if not found:
                break
            end = found.end()
        else:
            return end
    return None


def is_in(expected, printed):
    text, end = " ".join(printed.split()), 0
    for part in patterns_of(expected):
        end = end_of(part, text, end)
        if end is None:
            return False
    return True


def run(command, expected, folder):
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    done = subprocess.run(
        command,
        shell=True,
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
    )
    printed = done.stdout + done.stderr
    if is_in(expected, printed):
        return True
    print(f"$ {command}\nexpected:\n{expected}\nfound:\n{printed}")
    return False


def main(page, folder):
    folder.mkdir(parents=True, exist_ok=True)
    count, passed = 0, True
    for language, block in FENCED.findall(page.read_text()):
        first, _, rest = block.partition("\n")
        if language == "python":
            (folder / "model.py").write_text(block)
        elif first.startswith("$ "):
            count += 1
            passed = run(first[2:], rest, folder) and passed
    print(f"{count} commands")
    return 0 if passed and count else 1


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])))
