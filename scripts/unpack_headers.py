"""unpack_headers WHEEL FOLDER: unpacks only the headers of a Python package."""

import sys
import zipfile
from pathlib import Path


def main():
    wheel, folder = zipfile.ZipFile(sys.argv[1]), Path(sys.argv[2])
    for name in wheel.namelist():
        _, found, place = name.partition("/include/")
        if found and not name.endswith("/"):
            target = folder / place
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(wheel.read(name))


main()
