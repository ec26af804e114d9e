"""verify-matrix: verifies every example with every plan, number of ranks and of microbatches against eager PyTorch.

With `--search`, plans are found by searches, priced for a cluster with slow cores, instead of presets.

With `--pipelines`, steps are pipelines: a set of cases that covers all pairs of model, points, microbatches, order, plan,
type, and what ranks are: threads or processes (over Gloo; of GPUs over NCCL).

With `--device cuda`, it runs on the GPU. Without a driver and without TANDEM_CUDA_LIBRARIES, it runs on the emulated GPU
(build/emulator).

Each model has one process, which captures it once per data type; `--jobs` of them run at a time. Prints a table with
the largest share of the allowed difference that a comparison used. Exits with 0 only if every case passed. `--only
TEXT` selects models by a part of their name.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from cuda_device import choose_device, count_gpus

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python-bindings" / "tests"))


def cases_of(kind, device):
    """On fewer GPUs than processes of a case its ranks are threads that share one."""
    import matrix

    cases = {
        "presets": matrix.all_cases,
        "search": matrix.all_searches,
        "pipelines": matrix.all_pipelines,
    }[kind]()
    if device == "cpu":
        return cases
    gpus = count_gpus()
    return [replace(case, processes=1) if case.processes > gpus else case for case in cases]


def work(variant, dtypes, kind, device):
    """In a process of its own: runs the cases of a model, one JSON line each."""
    import matrix
    from forked import Forks

    cases = [c for c in cases_of(kind, device) if c.variant == variant and c.dtype in dtypes]
    alone = [case for case in cases if case.processes == 1]
    for captured in dict.fromkeys((case.dtype, case.batch) for case in alone):
        subject = None
        for case in alone:
            if (case.dtype, case.batch) == captured:
                subject = subject or matrix.subject_of(case)
                print(json.dumps(matrix.run_case(case, subject, device=device)), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        forks = Forks(folder, {"OMP_NUM_THREADS": "1"})
        for case in cases:
            if case.processes > 1:
                print(json.dumps(matrix.run_job(case, forks, device=device)), flush=True)


def describe(row):
    what = f"{row['variant']:16} {row['dtype']:9} {row['search'] or row['plan']:16} {row['mesh'] or 'one rank':16} {row['micro']:5}"
    ranks = "threads" if row["processes"] == 1 else "processes"
    what += f" {row['accumulate']:3} {row['order']:11} {ranks:9}" if row["order"] else ""
    verdict = "ok" if row["passed"] else "REFUSED" if row["refused"] else "FAILED"
    worst = f"{row['used']:.0e}" if row["used"] is not None else "-"
    return f"{what}  {verdict:7} {worst:>8} {row['seconds']:6.1f} s"


def explain(row):
    if row["error"]:
        return f"    {row['error']}"
    return f"    beyond tolerance: {', '.join(row['failed'][:5])}" + (
        " ..." if len(row["failed"]) > 5 else ""
    )


def start(variant, dtypes, kind, device):
    """Runs a model's process and prints its rows as they come."""
    command = [sys.executable, __file__, "--worker", variant, "--dtypes", ",".join(dtypes)]
    command += ["--device", device]
    command += [] if kind == "presets" else [f"--{kind}"]
    rows = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if not line.startswith("{"):
                continue
            rows.append(json.loads(line))
            print(
                describe(rows[-1]) + ("" if rows[-1]["passed"] else "\n" + explain(rows[-1])),
                flush=True,
            )
    if process.returncode:
        print(f"{variant}: its process ended with status {process.returncode}", flush=True)
        return rows, False
    return rows, True


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes at a time")
    parser.add_argument("--only", default="", help="models whose name has this in it")
    parser.add_argument("--dtypes", default="float64,float32,bfloat16,bf16")
    parser.add_argument("--search", action="store_true", help="plans of searches, not presets")
    parser.add_argument("--pipelines", action="store_true", help="pipelines, in many orders")
    parser.add_argument("--list", action="store_true", help="print the cases, and run none")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    dtypes = options.dtypes.split(",")
    kind = "search" if options.search else "pipelines" if options.pipelines else "presets"
    if options.worker:
        return work(options.worker, dtypes, kind, options.device)
    if options.device == "cuda":
        print(f"on {choose_device()}", flush=True)
    cases = [case for case in cases_of(kind, options.device) if options.only in case.variant]
    if options.list:
        print("\n".join(map(str, cases)))
        return 0

    begin = time.perf_counter()
    variants = list(dict.fromkeys(case.variant for case in cases))
    with ThreadPoolExecutor(options.jobs) as pool:
        results = list(
            pool.map(lambda variant: start(variant, dtypes, kind, options.device), variants)
        )
    rows = [row for found, _ in results for row in found]
    print(f"\n{'model':16} {'dtype':9} {'plan':16} {'mesh':16} micro  result    used   time")
    for row in rows:
        print(describe(row) + ("" if row["passed"] else "\n" + explain(row)))
    failed = sum(not row["passed"] for row in rows)
    print(
        f"{len(rows) - failed} of {len(rows)} cases passed in {(time.perf_counter() - begin) / 60:.1f} minutes"
    )
    return 1 if failed or not all(whole for _, whole in results) else 0


if __name__ == "__main__":
    sys.exit(main())
