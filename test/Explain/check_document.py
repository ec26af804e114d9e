"""Runs the commands of a document's section in a folder, and compares what they print.

    check_document.py DOCUMENT SECTION FOLDER

A block of code that begins with `# FILE` is written to FILE; one that begins with `$ COMMAND` is run and
has to print the lines below it. Seconds that a search takes are not compared.
"""

import pathlib
import re
import subprocess
import sys


def blocks_of(document, section):
    text = pathlib.Path(document).read_text()
    parts = re.split(r"^## ", text, flags=re.MULTILINE)
    found = [part for part in parts if part.splitlines()[0] == section]
    if len(found) != 1:
        sys.exit(f"error: {document}: found {len(found)} sections '{section}', expected one")
    return re.findall(r"^```\n(.*?)^```$", found[0], flags=re.MULTILINE | re.DOTALL)


def comparable(text):
    text = re.sub(r"^search .*", "search", text, flags=re.MULTILINE)
    return [line.rstrip() for line in text.splitlines()]


def run(command, expected, folder):
    result = subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True)
    printed = result.stdout + result.stderr
    if comparable(printed) == comparable(expected):
        return True
    print(f"$ {command}\nexpected:\n{expected}\nfound:\n{printed}")
    return False


def main():
    document, section, folder = sys.argv[1:]
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    count, passed = 0, True
    for block in blocks_of(document, section):
        first, _, rest = block.partition("\n")
        if first.startswith("# "):
            (folder / first[2:]).write_text(rest)
        elif first.startswith("$ "):
            count += 1
            passed &= run(first[2:], rest, folder)
    print(f"{count} commands")
    sys.exit(0 if passed and count else 1)


main()
