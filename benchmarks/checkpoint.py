#!/usr/bin/env python3
"""Time of step.save() against `dd` on the same disk.

    benchmarks/checkpoint.py [--folder FOLDER] [--megabytes 1024] [--runs 5] [--check] [--json FILE]

Saves a linear model with Adam's state in float32, of the given size. `dd` copies from memory
(`if=/dev/zero bs=1M conv=fsync`). Both end with an fsync and take turns, so that they see the same disk. Also measures
step.load() with all hashes checked, from the page cache. Prints medians of the runs.
"""

import pathlib
import shutil
import statistics
import subprocess
import tempfile
import time

from harness import ROOT, Report, make_parser

# Of the rate of dd.
TARGET = 0.7
WIDTH = 4096  # of the model's layers: 4 * WIDTH^2 bytes are one weight, with two averages of Adam beside it


def make_step(megabytes):
    import tandem
    import torch

    layers = max(1, round(megabytes * 2**20 / (3 * 4 * WIDTH**2)))
    model = torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(layers)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    batch = torch.ones(1, WIDTH)
    return tandem.compile(model, lambda m, x: m(x).square().mean(), optimizer, batch)


def seconds_of(call):
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def write_with_dd(path, megabytes):
    subprocess.run(
        ["dd", "if=/dev/zero", f"of={path}", "bs=1M", f"count={megabytes}", "conv=fsync"],
        check=True,
        capture_output=True,
    )


def measure(step, folder):
    """One row: megabytes per second (of 2^20 bytes) of each."""
    saved = folder / "saved"
    shutil.rmtree(saved, ignore_errors=True)
    save = seconds_of(lambda: step.save(saved))
    count = sum(file.stat().st_size for file in saved.iterdir())
    megabytes = round(count / 2**20)
    load = seconds_of(lambda: step.load(saved))
    shutil.rmtree(saved)
    path = folder / "dd"
    dd = seconds_of(lambda: write_with_dd(path, megabytes))
    path.unlink()
    row = {
        "MB": megabytes,
        "save": megabytes / save,
        "dd": megabytes / dd,
        "load": megabytes / load,
    }
    return row | {"share": row["save"] / row["dd"]}


def main():
    parser = make_parser(__doc__)
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT, help="on the disk that counts")
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    report = Report()
    step = make_step(options.megabytes)
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="checkpoint-") as name:
        measure(step, pathlib.Path(name))  # the first run finds cold caches
        rows = [measure(step, pathlib.Path(name)) for _ in range(options.runs)]
    title = f"a checkpoint of {rows[0]['MB']} MB with fsync: MB/s"
    print(title)
    for row in rows:
        print(
            f"  save {row['save']:7.0f}   dd {row['dd']:7.0f}   share {row['share']:6.1%}   load {row['load']:7.0f}"
        )
    report.add(title, rows)
    share = statistics.median(row["share"] for row in rows)
    report.claim(
        f"save, the median: {share:.1%} of dd, at least {TARGET:.0%}", share >= TARGET, found=share
    )
    report.finish(options)


if __name__ == "__main__":
    main()
