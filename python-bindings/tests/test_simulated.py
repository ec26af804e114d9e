"""The compiler's timeline of a Program is that of its simulation. `make bench-simulate` has more models and plans."""

import json
import re
import subprocess

import matrix
import pytest
import tandem
from tandem.session.compile import compile_module
from tandem.verify.reference import find_tool

CASES = [
    ("mlp", "data=4", {"plan": "zero", "micro": 2}),
    ("mlp", "data=2,model=2", {"search": "tandem"}),
    ("bert_moe switch", "data=4", {"plan": "expert-parallel", "micro": 2}),
    ("llama", "pipe=2,data=2", {"plan": "pipeline", "accumulate": 2}),
]

NETWORK = "{latency: 20 us, bandwidth: 1 GB/s, per: node}"
UNEVEN = "- {count: 1, devices: {core: 3}}\n  - {count: 1, devices: {core: 1}}"


def simulate(program, path, cluster):
    path.write_bytes(program)
    numbers = path.with_suffix(".json")
    command = [find_tool("tandem-run"), path, "--device", "sim", f"--cluster={cluster}"]
    subprocess.run([*command, "--json", numbers], check=True, capture_output=True)
    return json.loads(numbers.read_text())["seconds"]


LAPTOP = matrix.ROOT / "examples/clusters/laptop.yaml"


def check_agreement(variant, folder, **given):
    """Seconds of the step, and the Program's file."""
    module = matrix.subject_of(matrix.Case(variant, dtype="float32")).module
    remarks = "\n".join(compile_module(module, timeline=True, **given).remarks)
    told = float(re.search(r"timeline (\S+) s \(planned: cluster 'laptop'\)", remarks)[1])
    program = compile_module(module, device="sim", **given).bytes
    path = folder / "step.tdm"
    assert simulate(program, path, given["cluster"]) == pytest.approx(told, rel=0.01)
    return told, path


@pytest.mark.sample(2)
@pytest.mark.parametrize("variant,mesh,options", CASES, ids=lambda value: str(value)[:16])
def test_the_compiler_says_what_is_simulated(variant, mesh, options, tmp_path):
    check_agreement(variant, tmp_path, mesh=mesh, cluster=LAPTOP, **options)


@pytest.mark.sample(1)
@pytest.mark.parametrize("per,copy", [("device", 1.5), ("node", 1), ("2", 1.5)])
def test_copies_from_the_host_take_what_was_said(per, copy, tmp_path):
    """Of the compiler, the simulator, and a table of prices; on nodes of three devices and of one."""
    link = f"host: {{latency: 2 us, bandwidth: {{to: 0.5 GB/s, from: 1 GB/s}}, per: {per}}}"
    text = re.sub(r"host: \{.*", f"network: {NETWORK}\n  {link}", LAPTOP.read_text())
    text = text.replace("- {count: 1, devices: {core: 4}}", UNEVEN)
    cluster = tmp_path / "uneven.yaml"
    cluster.write_text(text.replace("collective: 1.2", f"collective: 1.2, copy: {copy}"))
    pins = [tandem.pin("exp_avg*", "host")]
    how = dict(mesh="data=4", plan="zero", micro=2, pins=pins, cluster=cluster)
    told, path = check_agreement("gpt", tmp_path, **how)
    table, timeline = tmp_path / "table.json", tmp_path / "predicted.json"
    priced = [find_tool("tandem-profile"), "--price", path, "--cluster", cluster, "-o", table]
    subprocess.run(priced, check=True)
    predicted = [find_tool("tandem-trace"), "predict", path, "--times", table, "-o", timeline]
    subprocess.run(predicted, check=True, capture_output=True)
    events = json.loads(timeline.read_text())["traceEvents"]
    ends = [event["ts"] + event["dur"] for event in events if event["ph"] == "X"]
    assert max(ends) * 1e-6 == pytest.approx(told, rel=0.01)
