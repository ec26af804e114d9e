"""Training steps of Tandem: compiled here, run on the hosts of a test bed by tandem-run."""

import json
import re
import statistics
import subprocess
from dataclasses import dataclass
from pathlib import Path

from harness import BUILD, ROOT, fail
from testbed import launch
from testbed.cores import sample_quietly

from . import cluster

# A sample: so many steps behind one that warms up.
STEPS = 7
SEARCH_SECONDS = 6
SIZES = {
    "gpt": dict(layers=4, width=256, heads=4, seq=64, batch=16, dropout=0.0),
    "bert_moe": dict(
        layers=4, width=256, heads=4, hidden=512, experts=4, seq=64, batch=16, dropout=0.0
    ),
}


class Model:
    """An example of the given sizes, captured."""

    def __init__(self, name, folder, **sizes):
        from tandem import export
        from tandem.capture.model_file import load_model_file

        self.name, self.sizes = name, SIZES.get(name, {}) | sizes
        file = load_model_file(ROOT / f"examples/{name}.py", None, self.sizes, "float32")
        model, batches = self.prepare(file.make_model()), file.batches(STEPS + 1)
        self.module = export(model, file.loss, file.make_optimizer(model), batches[0])
        self.data = folder / f"{name}-{self.sizes['layers']}x{self.sizes['width']}.safetensors"
        self.module.save_values(self.data, batches, 0)

    def prepare(self, model):
        """What is captured."""
        return model


@dataclass
class Compiled:
    """A Program with what the compiler says of it; `plan` is a preset, or `searched`."""

    model: Model
    plan: str
    micro: int
    program: Path
    cost: float  # seconds of a step, simulated: the timeline of the Program


@dataclass
class Measured:
    """Medians over the steps of a sample; seconds. P and C are sums of computation and of communication, means over
    ranks; bytes are those of the rank that sends most.
    """

    seconds: float
    computation: float
    communication: float
    hidden: float
    sent: float
    planned: float
    report: dict
    all_seconds: list

    @property
    def hidden_of_smaller(self):
        return self.hidden / min(self.computation, self.communication)


class Bed:
    """A network with the tools that run on it, and a folder for what they leave."""

    # Threads of the one process of a host.
    ranks_per_host = 1

    def __init__(self, network, folder):
        self.network, self.folder, self._profiles = network, folder, {}
        folder.mkdir(parents=True, exist_ok=True)

    def run(self, command, prompt=True, timeout=300):
        """On each host; what each printed."""
        hosts = range(self.network.hosts)
        processes = [
            launch.start(
                self.network,
                host,
                command,
                launch.job_environment(self.network, host),
                prompt=prompt,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for host in hosts
        ]
        try:
            texts = [process.communicate(timeout=timeout)[0] for process in processes]
        finally:
            for process in processes:
                launch.end(process)
        for host, process in enumerate(processes):
            if process.returncode:
                lines = texts[host].strip().splitlines() or ["no output"]
                fail(f"host {host}: {Path(command[0]).name}: {lines[-1]}")
        return texts

    def profile(self, scale=1.0):
        """The cluster file of this bed at its rate, with devices so many times as slow."""
        hosts, rate = self.network.hosts, round(self.network.rate / 1e6)
        path = self.folder / f"cluster-{hosts}-{rate}.yaml"
        if path not in self._profiles:
            devices = cluster.write_devices(self.folder / "devices.yaml", hosts)
            tool = [BUILD / "bin/tandem-profile", "--ranks", hosts, "--computation", devices]
            sample_quietly(lambda: self.run([*tool, "--name", f"hosts{hosts}", "-o", path]))
            self._profiles[path] = True
        scaled = self.folder / f"cluster-{hosts}-{rate}-{scale:.4f}.yaml"
        return cluster.write_scaled(path, scaled, scale)

    def compile(self, model, plan, micro, scale=1.0):
        from tandem.session.compile import compile_module

        how = {"search": "tandem", "search_time_limit": SEARCH_SECONDS}
        compiled = compile_module(
            model.module,
            "step.mlir",
            mesh=f"data={self.network.hosts}",
            micro=micro,
            cluster=self.profile(scale),
            timeline=True,
            **(how if plan == "searched" else {"plan": plan}),
        )
        name = f"{model.name}-{model.sizes['layers']}-{plan}-{micro}-{self.network.hosts}"
        program = self.folder / f"{name}.tdm"
        program.write_bytes(compiled.bytes)
        (self.folder / f"{name}.plan").write_text(compiled.plan)
        cost = re.search(r"timeline ([\d.e-]+) s", "\n".join(compiled.remarks))
        if not cost:
            fail(f"{name}: found no timeline in the compiler's remarks")
        return Compiled(model, plan, micro, program, float(cost[1]))

    def price(self, compiled, scale=1.0):
        """The times that its computing commands take: a table for tandem-run."""
        table = compiled.program.with_suffix(".times.json")
        tool = [BUILD / "bin/tandem-profile", "--price", compiled.program]
        done = subprocess.run(
            list(map(str, [*tool, "--cluster", self.profile(scale), "-o", table])),
            capture_output=True,
            text=True,
        )
        if done.returncode:
            fail(done.stderr.strip())
        return table

    def measure(self, compiled, scale=1.0, one_queue=False, timed=True):
        """A quiet sample."""
        options = ["--steps", STEPS + 1]
        options += (
            ["--times", self.price(compiled, scale)] if timed else ["--data", compiled.model.data]
        )
        options += ["--one-queue"] if one_queue else []
        name = compiled.program.with_suffix("").name + ("-one-queue" if one_queue else "")
        trace, stats = self.folder / f"{name}.trace.json", self.folder / f"{name}.stats.json"
        command = [BUILD / "bin/tandem-run", compiled.program, *options]
        return sample_quietly(
            lambda: self._sample(
                [*command, "--trace", trace, "--stats", stats], trace, stats, prompt=timed
            )
        )

    def _sample(self, command, trace, stats, prompt):
        self.run(command, prompt)
        # A file per process, by its first rank.
        hosts = range(1, self.network.hosts)
        others = [stats.with_suffix(f".{host * self.ranks_per_host}.json") for host in hosts]
        first, *_ = every = [json.loads(path.read_text()) for path in (stats, *others)]
        report = read_report(trace)
        total, seconds = report["total"], [step["seconds"] for step in first["steps"][1:]]
        return Measured(
            statistics.median(seconds),
            total["computation"],
            total["communication"],
            total["hidden"],
            max(
                statistics.median(step["bytes_sent"] for step in steps["steps"][1:])
                for steps in every
            ),
            max(steps["bytes_planned"] for steps in every),
            report,
            seconds,
        )


def read_report(trace, skip=1):
    """What tandem-trace finds in a timeline, without the step that warms up."""
    tool = [BUILD / "bin/tandem-trace", "report", trace, "--json", "--skip", skip]
    done = subprocess.run(list(map(str, tool)), capture_output=True, text=True)
    if done.returncode:
        fail(done.stderr.strip())
    return json.loads(done.stdout)


def draw(trace, picture):
    """The timeline of a step with its strands."""
    subprocess.run(
        [BUILD / "bin/tandem-trace", "picture", trace, "-o", picture],
        check=True,
        capture_output=True,
    )
