"""Mutation tests: plants single mistakes and prints the test that catches each; exit status 1 if one survives.

usage: mutants [--only NAME ...] [--suites PART ...] [--reuse] [--keep] [--check] [--jobs N]

The mistakes are data: test/mutants/*.toml (docs/testing.md, *Mutants*). All are compiled at once into a copy of the
repository, build-mutants/tree; TANDEM_MUTANT selects one at run time, so a mistake needs no build. One run of every
suite without a mistake finds its time and the places that it reaches. Each mistake then runs the suites that reach it,
quick and specific ones first, until a test fails.
"""

import argparse
import ast
import concurrent.futures
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLES = ROOT / "test" / "mutants"
FOLDER = ROOT / "build-mutants"
TREE = FOLDER / "tree"
BUILD = TREE / "build"
# A suite that takes so many times longer than without a mistake hangs.
HANGS = 10
LEAST_SECONDS = 120

HEADER = """#pragma once
#include <atomic>
#include <cstdio>
#include <cstdlib>
namespace tandem_mutants {
inline void note(int number) {
  static std::atomic<bool> noted[1024];
  static const char *path = std::getenv("TANDEM_MUTANT_LOG");
  if (!path || noted[number].exchange(true))
    return;
  if (FILE *file = std::fopen(path, "a")) {
    std::fprintf(file, "%d\\n", number);
    std::fclose(file);
  }
}
inline bool is(int number) {
  static const char *text = std::getenv("TANDEM_MUTANT");
  static const int chosen = text ? std::atoi(text) : 0;
  note(number);
  return number == chosen;
}
} // namespace tandem_mutants
"""
MODULE = """import os

_CHOSEN, _LOG = int(os.environ.get("TANDEM_MUTANT") or 0), os.environ.get("TANDEM_MUTANT_LOG")
_noted = set()


def is_mutant(number):
    if _LOG and number not in _noted:
        _noted.add(number)
        with open(_LOG, "a") as file:
            file.write(f"{number}\\n")
    return number == _CHOSEN
"""


class MutantError(Exception):
    pass


@dataclass
class Mutant:
    """`old` becomes `new`: both expressions, or in C++ both statements. `after` is text that comes somewhere
    before `old`, where that occurs more than once.
    """

    number: int
    room: str
    name: str
    file: str
    what: str
    old: str
    new: str
    after: str = ""

    def find(self, text):
        """Where `old` is: (begin, end). White space may be any."""
        start = 0
        if self.after:
            anchors = [m.end() for m in _pattern(self.after).finditer(text)]
            if not anchors:
                raise MutantError(f"mutant {self.name}: no '{self.after}' in {self.file}")
            start = anchors[0]
        found = [m.span() for m in _pattern(self.old).finditer(text, start)]
        if not found or (len(found) > 1 and not self.after):
            raise MutantError(
                f"mutant {self.name}: found '{self.old}' {len(found)} times in {self.file}, expected once"
            )
        return found[0]

    def guarded(self, old):
        if self.file.endswith(".py"):
            return f"(({self.new}) if is_mutant({self.number}) else ({old}))"
        if re.match(r"(if|for|while|return)\b", self.old) and not self.old.rstrip().endswith(
            (";", "}")
        ):
            raise MutantError(
                f"mutant {self.name}: '{self.old}' is neither expression nor statement"
            )
        question = f"::tandem_mutants::is({self.number})"
        if self.old.rstrip().endswith((";", "}")):
            return f"{{ if ({question}) {{ {self.new} }} else {{ {old} }} }}"
        return f"({question} ? ({self.new}) : ({old}))"


def _pattern(text):
    return re.compile(r"\s*".join(map(re.escape, re.findall(r"\w+|[^\w\s]", text))))


def read_tables():
    mutants = []
    for path in sorted(TABLES.glob("*.toml")):
        for entry in tomllib.loads(path.read_text())["mutant"]:
            mutants.append(Mutant(len(mutants) + 1, path.stem, **entry))
    names = [mutant.name for mutant in mutants]
    if twice := {name for name in names if names.count(name) > 1}:
        raise MutantError(f"mutants of one name: {', '.join(sorted(twice))}")
    return mutants


# Planting


def _first_statement(text):
    """The line, from 0, before which a module may import."""
    for node in ast.parse(text).body:
        is_doc = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not is_doc and not (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
            return node.lineno - 1
    return len(text.splitlines())


def plant(text, mutants):
    """The text of a file with all its mutants, each behind its question."""
    places = {}
    for mutant in mutants:
        places.setdefault(mutant.find(text), []).append(mutant)
    spans = sorted(places)
    for one, other in itertools.pairwise(spans):
        if other[0] < one[1]:
            names = places[one][0].name, places[other][0].name
            raise MutantError(f"mutants {' and '.join(names)} overlap")
    for begin, end in reversed(spans):
        piece = text[begin:end]
        for mutant in places[begin, end]:
            piece = mutant.guarded(piece)
        text = text[:begin] + piece + text[end:]
    if mutants[0].file.endswith(".py"):
        lines = text.splitlines(keepends=True)
        try:
            lines.insert(_first_statement(text), "from tandem_mutants import is_mutant\n")
        except SyntaxError as error:
            names = ", ".join(mutant.name for mutant in mutants)
            raise MutantError(f"mutants {names}: {mutants[0].file}: {error}") from error
        return "".join(lines)
    return f'#include "{FOLDER}/tandem_mutants.h"\n' + text


def _write(path, content):
    """Leaves what is so already, so that a build has less to do."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_bytes() != content:
        path.write_bytes(content)


def plant_all(mutants):
    """By file, its text with its mutants."""
    by_file = {}
    for mutant in mutants:
        if not (ROOT / mutant.file).exists():
            raise MutantError(f"mutant {mutant.name}: no file {mutant.file}")
        by_file.setdefault(mutant.file, []).append(mutant)
    return {file: plant((ROOT / file).read_text(), found) for file, found in by_file.items()}


def make_tree(mutants):
    """The copy of what git has here, with the mutants."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    files = subprocess.check_output(listed, cwd=ROOT, text=True).split()
    files = [file for file in files if (ROOT / file).exists()]
    planted = {file: text.encode() for file, text in plant_all(mutants).items()}
    for file in files:
        target = TREE / file
        _write(target, planted[file] if file in planted else (ROOT / file).read_bytes())
        shutil.copymode(ROOT / file, target)
    for path in [p for p in TREE.rglob("*") if p.is_file() and not p.is_symlink()]:
        inside = str(path.relative_to(TREE))
        if not inside.startswith(("build/", ".venv/", ".")) and inside not in files:
            path.unlink()
    _write(FOLDER / "tandem_mutants.h", HEADER.encode())


def make_environment():
    """The copy's .venv: the packages of ours, without its path to our build."""
    site = (
        Path("lib") / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    )
    own, ours = TREE / ".venv", ROOT / ".venv"
    if not (own / "bin" / "python").exists():
        command = [sys.executable, "-m", "venv", "--without-pip", "--symlinks", own]
        subprocess.check_call(command)
    for entry in (ours / site).iterdir():
        link = own / site / entry.name
        if entry.name != "tandem.pth" and not link.exists():
            link.symlink_to(entry)
    for tool in ("lit",):
        link = own / "bin" / tool
        if not link.exists():
            link.symlink_to(ours / "bin" / tool)


def build(jobs):
    subprocess.check_call(["scripts/build", "build", str(jobs)], cwd=TREE)
    for folder in (BUILD / "python", TREE / "python-bindings"):
        _write(folder / "tandem_mutants.py", MODULE.encode())


# Suites


@dataclass
class Suite:
    name: str
    command: list
    failed: str  # a pattern of the line that names the test that fails
    seconds: float = 0.0
    reached: list = field(default_factory=list)  # numbers of mutants
    # lit's tests write to files of their own beside the build: one run of a folder at once.
    turn: threading.Lock = field(default_factory=threading.Lock)


def all_suites():
    python = str(TREE / ".venv" / "bin" / "python")
    suites = []
    given = programs_of_ctest()
    programs = [*sorted((BUILD / "bin").glob("*Test*")), BUILD / "bin" / "tandem_rt_cts"]
    for path in filter(Path.exists, programs):
        if all(map(is_emulated, given.get(str(path), [{}]))):
            continue  # a GPU's alone
        command = [str(path), "--gtest_fail_fast", "--gtest_brief=1"]
        suites.append(Suite(path.name, command, r"\[  FAILED  \] (\S+?),? "))
    suites += emulated_suites()
    lit = [python, "-c", "import sys; from lit.main import main; main()"]
    lit += ["-v", "-j1", "--max-failures=1"]
    for folder in sorted(TREE.glob("test/*/")):
        if folder.name not in ("fuzz", "mutants", "unit"):
            at = BUILD / "test" / folder.name
            at.mkdir(exist_ok=True)
            suites.append(Suite(f"lit {folder.name}", [*lit, str(at)], r"^FAIL: (.*?) \("))
    pytest = [python, "-m", "pytest", "-q", "-x", "-rf", "--show-capture=no"]
    pytest += ["-p", "no:cacheprovider"]
    for path in sorted(TREE.glob("python-bindings/tests/test_*.py")):
        suites.append(Suite(path.name, [*pytest, str(path)], r"^(?:FAILED|ERROR) (\S+)"))
    return suites


def tests_of_ctest():
    """[(name, command, {variable: value})]"""
    listing = ["ctest", "--test-dir", BUILD, "--show-only=json-v1"]
    for test in json.loads(subprocess.check_output(listing))["tests"]:
        given = {p["name"]: p["value"] for p in test["properties"]}.get("ENVIRONMENT", [])
        yield test["name"], test["command"], dict(pair.split("=", 1) for pair in given)


def is_emulated(variables):
    return "TANDEM_CUDA_LIBRARIES" in variables


def programs_of_ctest():
    """{program: [the variables of each test that runs it]}"""
    given = {}
    for _, command, variables in tests_of_ctest():
        given.setdefault(command[0], []).append(variables)
    return given


def emulated_suites():
    """Those that CMake runs on the emulated GPU, with the variables that it gives them."""
    suites = []
    for name, command, variables in tests_of_ctest():
        if is_emulated(variables):
            given = [f"{key}={value}" for key, value in variables.items()]
            command = ["env", *given, *command, "--gtest_fail_fast", "--gtest_brief=1"]
            suites.append(Suite(name, command, r"\[  FAILED  \] (\S+?),? "))
    return suites


def run_suite(suite, cache, mutant=0, log="", limit=None):
    """(exit status or None if it hangs, output)"""
    environment = os.environ | {
        "TANDEM_BUILD": str(BUILD),
        "TANDEM_CACHE_DIR": str(cache),
        "TANDEM_TEST_CACHE_DIR": str(cache),
        "TANDEM_MUTANT": str(mutant),
        "TANDEM_MUTANT_LOG": str(log),
        "PYTHONPATH": str(BUILD / "python"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    try:
        done = subprocess.run(
            suite.command,
            cwd=TREE,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=limit,
        )
    except subprocess.TimeoutExpired:
        return None, ""
    return done.returncode, done.stdout


def record(suites, known):
    """Runs every suite that is not known without a mistake; those that pass may catch one. Returns how many fail."""
    failures = 0
    for suite in suites:
        if suite.name in known:
            suite.seconds, suite.reached = known[suite.name]
            continue
        log = FOLDER / "reached.log"
        log.write_text("")
        start = time.monotonic()
        status, output = run_suite(suite, FOLDER / "cache", log=log)
        suite.seconds = time.monotonic() - start
        if status != 0:
            failure = name_of_failure(suite, status, output)
            print(f"left out, fails without a mistake: {failure}", flush=True)
            failures += 1
            continue
        suite.reached = sorted({int(line) for line in log.read_text().split()})
        print(f"  {suite.seconds:6.1f} s  {suite.name}: reaches {len(suite.reached)}", flush=True)
        facts = recalled() | {suite.name: [suite.seconds, suite.reached]}
        (FOLDER / "reached.json").write_text(json.dumps(facts))
    return failures


def recalled():
    """What earlier runs noted, by suite."""
    path = FOLDER / "reached.json"
    return json.loads(path.read_text()) if path.exists() else {}


def name_of_failure(suite, status, output):
    if status is None:
        return f"{suite.name}: hangs"
    found = re.search(suite.failed, output, re.MULTILINE)
    if found:
        return f"{suite.name}: {found[1]}"
    return f"{suite.name}: ends with status {status}"


def try_mutant(mutant, suites):
    """(the test that fails or None, number of suites tried, seconds)"""
    cache = FOLDER / f"cache-{mutant.number}"
    shutil.rmtree(cache, ignore_errors=True)
    # Kernels are found by what they compute: those of a mistake in how they do it are made anew.
    if not mutant.file.startswith("lib/Conversion/") and (FOLDER / "cache").exists():
        # Of kernels alone: what was captured or compiled without the mistake would hide it.
        others = shutil.ignore_patterns("*.program", "*.capture")
        shutil.copytree(FOLDER / "cache", cache, ignore=others, copy_function=os.link)
    start, tried, failure = time.monotonic(), 0, None
    for suite in sorted(suites, key=lambda suite: suite.seconds * len(suite.reached)):
        if mutant.number not in suite.reached:
            continue
        tried += 1
        limit = max(LEAST_SECONDS, HANGS * suite.seconds)
        with suite.turn:
            status, output = run_suite(suite, cache, mutant.number, limit=limit)
        if status != 0:
            failure = name_of_failure(suite, status, output)
            break
    shutil.rmtree(cache, ignore_errors=True)
    return failure, tried, time.monotonic() - start


def try_all(mutants, suites, jobs):
    """Prints a line for each as it ends; returns how many survive."""
    survivors = 0
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        tries = {pool.submit(try_mutant, mutant, suites): mutant for mutant in mutants}
        for done in concurrent.futures.as_completed(tries):
            mutant, (failure, tried, seconds) = tries[done], done.result()
            word = "caught" if failure else ("SURVIVES" if tried else "NOT REACHED")
            print(f"{word:11} {mutant.room:9} {mutant.name}: {mutant.what}")
            print(f"            {failure or f'{tried} suites pass'} ({seconds:.0f} s)", flush=True)
            survivors += failure is None
    return survivors


def main():
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these mutants only")
    parser.add_argument("--suites", nargs="+", default=[""], metavar="PART", help="of these names")
    parser.add_argument("--reuse", action="store_true", help="take what earlier runs noted")
    parser.add_argument(
        "--keep", action="store_true", help="take the copy that an earlier run built"
    )
    parser.add_argument("--check", action="store_true", help="only find the place of every mutant")
    parser.add_argument("--jobs", type=int, default=1, help="mutants at once (default 1)")
    options = parser.parse_args()
    mutants = read_tables()
    if options.check:
        plant_all(mutants)
        print(f"mutants: {len(mutants)} have their place")
        return 0
    if unknown := set(options.only) - {mutant.name for mutant in mutants}:
        raise MutantError(f"no mutant {', '.join(sorted(unknown))}")
    if not options.keep:
        make_tree(mutants)
        make_environment()
        build(os.cpu_count())
    suites = [s for s in all_suites() if any(part in s.name for part in options.suites)]
    failures = record(suites, recalled() if options.reuse else {})
    chosen = [m for m in mutants if not options.only or m.name in options.only]
    survivors = try_all(chosen, suites, options.jobs)
    print(f"mutants: {len(chosen) - survivors} of {len(chosen)} caught")
    return 1 if survivors or failures else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (MutantError, OSError) as error:
        sys.exit(f"error: {error}")
