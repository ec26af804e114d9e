"""Shared parts of the benchmarks: measured processes, exports, tables with conditions."""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(os.environ.get("TANDEM_BUILD", ROOT / "build"))
TOOL = BUILD / "bin/tandem-plan"


def fail(message):
    sys.exit(f"{pathlib.Path(sys.argv[0]).name}: error: {message}")


def get_cpu_name():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return "unknown CPU"


def measure_process(command, environment=None, refused=None):
    """Wall and CPU seconds, the largest resident memory, and what it printed.

    Ends this process if that one fails, but for what the pattern `refused` finds in its answer: then None.
    """
    with tempfile.TemporaryFile("w+") as output:
        start = time.perf_counter()
        try:
            process = subprocess.Popen(
                list(map(str, command)), stdout=output, stderr=subprocess.STDOUT, env=environment
            )
        except OSError as error:
            fail(f"{command[0]}: {error.strerror}")
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read()
    if process.returncode != 0:
        if refused and refused.search(text):
            return None
        reason = text.strip().splitlines() or [f"exit status {process.returncode}"]
        fail(f"{pathlib.Path(command[0]).name}: {reason[-1]}")
    return {
        "process_s": wall,
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "memory_B": usage.ru_maxrss * 1024,
        "text": text,
    }


def simulate(program, cluster, *options):
    """What the process took, and the numbers of --json."""
    numbers = program.with_suffix(".numbers.json")
    row = measure_process(
        [BUILD / "bin/tandem-run", program, "--device=sim", f"--cluster={cluster}"]
        + ["--json", numbers, *options]
    )
    return row, json.loads(numbers.read_text())


def simulate_seconds(program, cluster, *options):
    """Of a step."""
    return simulate(program, cluster, *options)[1]["seconds"]


def export(model, step, *options):
    """Of a model file, on the meta device; what the process took."""
    environment = dict(os.environ, PYTHONPATH=str(BUILD / "python"))
    return measure_process(
        [sys.executable, "-m", "tandem", "export", model, "--meta", "-o", step, *options],
        environment,
    )


def plan(step, *options, output=os.devnull, refused=None):
    """What a process of tandem-compile takes from the step to a plan, its cost, and how far it may be from the best.

    None if it fails with what the pattern `refused` finds.
    """
    row = measure_process(
        [BUILD / "bin/tandem-compile", step, *options, "--plan-only", "-o", output],
        refused=refused,
    )
    if row is None:
        return None
    text = row.pop("text")
    cost = re.search(r"cost ([\d.e-]+) s", text)
    if not cost:
        fail(f"{step}: found no cost in the answer of tandem-compile: {text.strip()}")
    gap = re.search(r"at most ([\d.]+) % above", text)
    proven = 0.0 if ", optimal" in text else None
    return row | {"cost_s": float(cost[1]), "gap": float(gap[1]) / 100 if gap else proven}


def write_cluster(path, name, pattern, replacement):
    """A shipped cluster with one entry changed."""
    text = (ROOT / f"examples/clusters/{name}.yaml").read_text()
    changed, count = re.subn(pattern, replacement, text)
    if count != 1:
        fail(f"examples/clusters/{name}.yaml: found '{pattern}' {count} times, expected it once")
    path.write_text(changed)
    return path


def get_indices(line, key):
    """The numbers behind a key, in a line of a problem's text."""
    words = line.split()
    text = words[words.index(key) + 1]
    return [] if text == "-" else [int(number) for number in text.split(",")]


def take_medians(rows):
    """None where a row has no number, as the gaps of hidup's plans, which have no bound."""
    columns = {key: [row[key] for row in rows] for key in rows[0]}
    return {
        key: None if None in values else statistics.median(values)
        for key, values in columns.items()
    }


def print_gap(gap):
    return "-" if gap is None else f"{gap:.2%}"


def make_parser(description):
    """Its first line, and the whole as it stands; with the options that `Report` takes."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="fail if something does not hold")
    parser.add_argument("--json", type=pathlib.Path, help="write the tables there as well")
    return parser


def add_tool(parser):
    parser.add_argument("--tool", default=TOOL, help="tandem-plan")


class Report:
    """The tables of a benchmark, by their titles, each with the claims that it is held to."""

    def __init__(self):
        self.tables, self.failures = {}, []

    def add(self, title, rows):
        """A table; the claims that follow are about it."""
        self.tables[title] = {"claims": [], "rows": rows}

    def claim(self, text, holds, **numbers):
        title = next(reversed(self.tables))
        self.tables[title]["claims"].append({"claim": text, "holds": holds} | numbers)
        print(f"  {'holds' if holds else 'DOES NOT HOLD'}: {text}", flush=True)
        if not holds:
            self.failures.append(f"{title}: {text}")

    def limit(self, what, found, limit, unit):
        """`found` is at most `limit`."""
        holds = found is not None and found <= limit
        shown = "unknown" if found is None else f"{found:.4g} {unit}"
        self.claim(f"{what}: {shown}, at most {limit:g} {unit}", holds, found=found, limit=limit)

    def finish(self, options):
        """Writes the tables, beside those of other benchmarks in the file, and ends the process."""
        if options.json:
            write_tables(options.json, self.tables)
        failed = options.check and self.failures
        sys.exit("does not hold: " + "; ".join(self.failures) if failed else 0)


def write_tables(path, tables):
    """One line per row."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = (json.loads(path.read_text()) if path.exists() else {}) | tables

    def join(entries, brackets, indent):
        lines = f",\n{indent} ".join(entries)
        return f"{brackets[0]}\n{indent} {lines}\n{indent}{brackets[1]}" if lines else brackets

    def format_part(name, rows):
        return f"{json.dumps(name)}: {join(map(json.dumps, rows), '[]', '  ')}"

    def format_table(title, table):
        parts = [format_part(*part) for part in table.items()]
        return f"{json.dumps(title)}: {join(parts, '{}', ' ')}"

    path.write_text(join([format_table(*table) for table in data.items()], "{}", "") + "\n")
