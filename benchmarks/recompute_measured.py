"""Part `measured` of recompute.py: seconds of a gpt's step on one rank at limits of memory, predicted and measured.

The prices are this machine's: tandem-profile measures it, and the step without a limit calibrates the file. Steps with
a limit are predicted by these prices before they run.
"""

import os
import re
import sys
import tempfile
from pathlib import Path

from harness import BUILD, ROOT, measure_process, simulate_seconds
from simulate_measured import run_here, take_means

MODEL, PRESET = ROOT / "examples/gpt.py", "bench"
# Of the peak without a limit.
SHARES = (0.8, 0.7, 0.62)
CLOSE = 0.075


def profile(folder):
    """The cluster file of this machine, with one device."""
    path = folder / "here.yaml"
    profiler = [BUILD / "bin/tandem-profile", "-o", path, "--ranks", 2, "--threads", 1]
    measure_process(profiler)
    text = path.read_text()
    one = folder / "one.yaml"
    one.write_text(text.replace("devices: {rank: 2}", "devices: {rank: 1}"))
    return one


def calibrate(cluster, program, times):
    path = cluster.with_name("calibrated.yaml")
    tool = [BUILD / "bin/tandem-profile", "--calibrate", program, "--times", times]
    measure_process([*tool, "--cluster", cluster, "-o", path])
    return path


def measure(report, _):
    rows = []
    report.add("steps under limits of memory that ran", rows)
    print(f"\n{'gpt ' + PRESET:16} limit/MB  peak/MB  predicted   measured")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        step, program, cluster = folder / "gpt.mlir", folder / "gpt.tdm", profile(folder)
        tandem = [sys.executable, "-m", "tandem", "export", MODEL, "--preset", PRESET, "-o", step]
        measure_process(tandem, dict(os.environ, PYTHONPATH=str(BUILD / "python")))
        run = (program, step.with_suffix(".safetensors"), folder / "run.json", folder / "times")
        for share in (None, *SHARES):
            limit = share and int(share * rows[0]["peak"])
            command = [BUILD / "bin/tandem-compile", step, "--search", "tandem", "-o", program]
            options = ["--memory", limit] if limit else []
            printed = measure_process([*command, "--cluster", cluster, *options])["text"]
            peak = int(re.search(r"peak (\d+) B", printed)[1])
            if not limit:
                run_here(*run)
                take_means(*run[2:])
                cluster = calibrate(cluster, program, run[3])
            predicted = simulate_seconds(program, cluster)
            row = {"limit": limit, "peak": peak, "predicted_s": predicted}
            row["measured_s"] = run_here(*run)
            rows.append(row)
            shown = f"{limit / 1e6:.1f}" if limit else "-"
            error = predicted / row["measured_s"] - 1
            print(
                f"{'':16} {shown:>8} {peak / 1e6:8.1f} {predicted:9.4f} s {row['measured_s']:9.4f} s"
                f" {error:+.1%}",
                flush=True,
            )
            if limit:
                report.limit(f"gpt at {shown} MB, predicted within", abs(error), CLOSE, "")
