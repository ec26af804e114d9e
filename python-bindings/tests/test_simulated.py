"""The compiler's timeline of a Program is that of its simulation. `make bench-simulate` has more models and plans."""

import json
import re
import subprocess

import matrix
import pytest
from tandem.session.compile import compile_module
from tandem.verify.reference import find_tool

CASES = [
    ("mlp", "data=4", {"plan": "zero", "micro": 2}),
    ("mlp", "data=2,model=2", {"search": "tandem"}),
    ("bert_moe switch", "data=4", {"plan": "expert-parallel", "micro": 2}),
    ("llama", "pipe=2,data=2", {"plan": "pipeline", "accumulate": 2}),
]


def simulate(program, path, cluster):
    path.write_bytes(program)
    numbers = path.with_suffix(".json")
    command = [find_tool("tandem-run"), path, "--device", "sim", f"--cluster={cluster}"]
    subprocess.run([*command, "--json", numbers], check=True, capture_output=True)
    return json.loads(numbers.read_text())["seconds"]


@pytest.mark.parametrize("variant,mesh,options", CASES, ids=lambda value: str(value)[:16])
def test_the_compiler_says_what_is_simulated(variant, mesh, options, tmp_path):
    module = matrix.subject_of(matrix.Case(variant, dtype="float32")).module
    cluster = matrix.ROOT / "examples/clusters/laptop.yaml"
    given = {"mesh": mesh, "cluster": cluster, **options}
    remarks = "\n".join(compile_module(module, timeline=True, **given).remarks)
    told = float(re.search(r"timeline (\S+) s \(planned: cluster 'laptop'\)", remarks)[1])
    program = compile_module(module, device="sim", **given).bytes
    assert simulate(program, tmp_path / "step.tdm", cluster) == pytest.approx(told, rel=0.01)
