"""What a plan file says to be proven is believed of the problem of which it was proven only."""

import re
import subprocess

import matrix
import pytest
from tandem.verify.reference import find_tool

MESH = ("--mesh", "data=4")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A step, and a plan that is proven under a pin which makes it dearer."""
    folder = tmp_path_factory.mktemp("proofs")
    (folder / "step.mlir").write_text(matrix.subject_of(matrix.Case("mlp")).module.mlir)
    found = compile_step(
        folder, *MESH, "--search", "tandem", "--pin", "1.weight:data=gather(0)", "-o", "plan"
    )
    assert found.endswith(", optimal under its pins\n")
    return folder


def compile_step(folder, *options, cluster=matrix.SLOW_CORES):
    """What is remarked of a plan."""
    command = [find_tool("tandem-compile"), "step.mlir", "--cluster", cluster, "--plan-only"]
    run = subprocess.run([*command, *options], cwd=folder, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return next(text + "\n" for text in run.stderr.splitlines() if ": cost " in text)


def test_another_problem(folder):
    """Without the pin a cheaper plan is proven."""
    assert compile_step(folder, "--replan", "plan").endswith(", optimal under its pins\n")
    text = (folder / "plan").read_text()
    lines = re.sub("(?m)^pins .*\n", "", text).splitlines()
    (folder / "unpinned").write_text("\n".join([*lines[:-1], f"end {len(lines) - 2}", ""]))
    assert compile_step(folder, "--replan", "unpinned").endswith(", without a proven bound\n")
    free = compile_step(folder, *MESH, "--search", "tandem", "-o", "free")
    assert free.endswith(", optimal\n")
    assert compile_step(folder, "--replan", "free").endswith(", optimal\n")


def test_a_plan_that_obeys_its_pins_no_more(folder):
    text = (folder / "plan").read_text()
    changed = re.sub(r"(?m)^(argument \d+ \w+ \S*1\.weight: data=gather)\(0\)", r"\1(1)", text)
    assert changed != text
    # Other forms want other stages.
    lines = re.sub("(?m)^(stage|copy|wait) .*\n", "", changed).splitlines()
    (folder / "changed").write_text("\n".join([*lines[:-1], f"end {len(lines) - 2}", ""]))
    assert compile_step(folder, "--replan", "changed").endswith(", without a proven bound\n")


def test_other_memory_of_a_cluster_of_that_name(folder, tmp_path):
    compile_step(folder, *MESH, "--search", "tandem", "-o", "free")
    cluster = tmp_path / "cluster.yaml"
    text, count = re.subn("size: .*?iB", "size: 1 GiB", matrix.SLOW_CORES.read_text())
    assert count == 1
    cluster.write_text(text)
    remark = compile_step(folder, "--replan", "free", cluster=cluster)
    assert remark.endswith(", without a proven bound\n")


def test_a_bound_that_was_changed(folder):
    compile_step(folder, *MESH, "--search", "tandem", "-o", "free")
    text = (folder / "free").read_text()
    (folder / "changed").write_text(re.sub("(?m)^bound [0-9]", "bound 0", text))
    assert compile_step(folder, "--replan", "changed").endswith(", without a proven bound\n")
    (folder / "bare").write_text(re.sub("(?m)^(bound .*) proof .*", r"\1", text))
    assert compile_step(folder, "--replan", "bare").endswith(", without a proven bound\n")


def test_an_explanation_of_a_plan_of_another_problem(folder):
    """`tandem-plan` verifies a plan that was proven where there was less memory, and claims nothing."""
    tool = find_tool("tandem-plan")
    compile_step(folder, *MESH, "--search", "presets", "--problem-out", "wide", "-o", "preset")
    subprocess.run([tool, "wide", "-o", "free.plan"], cwd=folder, check=True, capture_output=True)
    text = re.sub("(?m)^memory .*", "memory 999999999 B", (folder / "wide").read_text())
    (folder / "small").write_text(text)

    def explain(problem):
        command = [tool, problem, "--check", "free.plan", "--explain"]
        run = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
        return re.search("(?m)^ *proven bound +(.*)$", run.stdout)[1]

    assert explain("wide").endswith("optimal") and explain("small") == "none"
