"""Device `cuda` on the emulated GPU, beside the CPU: the same losses, and clear errors."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from forked import free_port
from safetensors.torch import load_file
from tandem.__main__ import main

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("TANDEM_BUILD", ROOT / "build"))
EMULATOR = BUILD / "emulator"

pytestmark = pytest.mark.skipif(
    not (EMULATOR / "libcuda.so.1").exists(), reason="built without TANDEM_CUDA"
)


# The emulated GPU, which the ranks of a process may share.
EMULATED = {"TANDEM_CUDA_LIBRARIES": str(EMULATOR), "TANDEM_SHARE_GPU": "1"}


def tool(name, *arguments, **variables):
    environment = os.environ | EMULATED | variables
    command = [str(BUILD / "bin" / name), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)


def compiled(step, *arguments, device="cuda", architecture="emulated", **variables):
    program = step.with_name(f"{device}-{architecture}.tdm")
    chosen = ["--device", device] + (["--arch", architecture] if device == "cuda" else [])
    done = tool("tandem-compile", step, *chosen, *arguments, "-o", program, **variables)
    assert done.returncode == 0, done.stderr
    return program


def losses(program, step, *more, steps=3, **variables):
    values = step.with_suffix(".safetensors")
    done = tool("tandem-run", program, "--data", values, "--steps", steps, *more, **variables)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith("step ")]
    assert len(lines) == steps
    return [float(line[-1]) for line in lines]


def exported(tmp_path, model, *arguments):
    step = tmp_path / "step.mlir"
    source = ROOT / "examples" / f"{model}.py"
    assert main(["export", str(source), *arguments, "--batches", "3", "-o", str(step)]) == 0
    return step


CASES = {
    "mlp": ("mlp", []),
    "mlp-4": ("mlp", ["--mesh", "data=4"]),
    "gpt": ("gpt", []),
    "gpt-pipeline": (
        "gpt",
        ["--mesh", "pipe=2,data=2", "--accumulate", "4", "--order", "interleaved"],
    ),
    "gpt-4-zero-duplex": ("gpt", ["--mesh", "data=4", "--plan", "zero", "--micro", "2"]),
    "gpt-values-on-the-host": ("gpt", ["--pin", "layers.*:host"]),
    "gpt-2-all-on-the-host": ("gpt", ["--mesh", "data=2", "--micro", "2", "--pin", "*:host"]),
    "gpt-pipeline-values-on-the-host": (
        "gpt",
        [
            "--mesh",
            "pipe=2,data=2",
            "--accumulate",
            "4",
            "--order",
            "1f1b",
            "--pin",
            "layers.*:host",
        ],
    ),
    "gpt-2x2-tensor-parallel": ("gpt", ["--mesh", "data=2,model=2", "--plan", "tensor-parallel"]),
}


@pytest.mark.sample(4)
@pytest.mark.parametrize("case", CASES)
def test_losses_are_those_of_the_cpu(case, tmp_path):
    model, arguments = CASES[case]
    step = exported(tmp_path, model, "--dtype", "float64")
    expected = losses(compiled(step, *arguments, device="cpu"), step)
    program = compiled(step, *arguments)
    for seed in ("0", "1"):
        found = losses(program, step, TANDEM_EMULATED_SEED=seed)
        assert found == pytest.approx(expected, rel=1e-9), seed


STORED = {
    "one": ["--accumulate", "2"],
    "zero": ["--mesh", "data=2", "--plan", "zero", "--micro", "2"],
    "pipeline": ["--mesh", "pipe=2", "--sections", "2", "--accumulate", "2"],
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("case", STORED)
def test_what_lies_on_the_host_has_the_values_of_the_device(case, tmp_path):
    """Parameters and both moments after three steps: to the bit those of a GPU that holds them, and the CPU's."""
    step, options = exported(tmp_path, "gpt", "--dtype", "float64"), STORED[case]
    pins = ["--pin", "parameter:layers.*:host", "--pin", "exp_avg*:host"]
    values = []
    for device, own in (("cuda", pins), ("cuda", []), ("cpu", pins)):
        program, file = compiled(step, *options, *own, device=device), tmp_path / "values"
        losses(program, step, "--save", file, TANDEM_EMULATED_SEED="1")
        values.append(load_file(file))
    found, held, of_cpu = values
    assert set(found) == set(held) == set(of_cpu)
    assert any("exp_avg_sq" in name for name in found)
    for name, value in found.items():
        assert torch.equal(value, held[name]), name
        torch.testing.assert_close(value, of_cpu[name], rtol=1e-9, atol=1e-12)


def run_processes(program, step, file):
    """Two processes of `tandem-run`, over sockets, or NCCL."""
    port, children = free_port(), []
    for rank in range(2):
        job = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
        job |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "TANDEM_EMULATED_GPUS": "2"}
        command = [BUILD / "bin" / "tandem-run", program, "--steps", "3", "--save", file]
        command += ["--data", step.with_suffix(".safetensors")]
        children.append(subprocess.Popen(command, env=os.environ | EMULATED | job))
    try:
        assert [child.wait(timeout=300) for child in children] == [0, 0]
    finally:
        for child in children:
            child.kill()  # of one that has ended it is nothing


# Orders with a name of each partition of two points.
PARTITIONS = {
    "2": ("gpipe", "1f1b", "zb-h1", "zb-h2"),
    "4@0,1,0,1": ("interleaved", "aiao", "interleaved-zb"),
    "4@0,1,1,0": ("zb-v", "dualpipe-v"),
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("sections", PARTITIONS)
def test_orders_of_a_pipeline_have_equal_bits(sections, tmp_path):
    """On each device, with masks: as threads and as processes, on GPUs in other orders of streams; as on the CPU."""
    sizes = "layers=4,width=16,seq=8,dropout=0.1"
    step = exported(tmp_path, "gpt", "--dtype", "float64", "--set", sizes)
    options = ["--mesh", "pipe=2", "--accumulate", "4", "--sections", sections]
    saved = {"cpu": [], "cuda": []}
    for order in PARTITIONS[sections]:
        for device, seeds in (("cpu", "0"), ("cuda", "01")):
            program = compiled(step, *options, "--order", order, device=device)
            for seed in seeds:
                file = tmp_path / f"{device}-{order}-{seed}"
                losses(program, step, "--save", file, TANDEM_EMULATED_SEED=seed)
                saved[device].append(file)
            run_processes(program, step, tmp_path / f"{device}-{order}-processes")
            saved[device].append(tmp_path / f"{device}-{order}-processes")
    for files in saved.values():
        assert len({file.read_bytes() for file in files}) == 1
    found, expected = load_file(saved["cuda"][0]), load_file(saved["cpu"][0])
    for name, value in found.items():
        torch.testing.assert_close(value, expected[name], rtol=1e-9, atol=1e-12)


def test_compile_and_step_from_python(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        f"""
import sys
sys.path[:0] = {[str(BUILD / "python"), str(ROOT / "examples")]!r}
import copy, tandem, torch, mlp
torch.manual_seed(0)
sizes = mlp.PRESETS["tiny"]
model = mlp.model(**sizes, dropout=0.0)
batches = [b for b, _ in zip(mlp.batches(**sizes), range(3))]
step = tandem.compile(
    model, mlp.loss, mlp.optimizer(model), batches[0], mesh={{"data": 4}}, device="cuda"
)
eager = copy.deepcopy(model)
optimizer = mlp.optimizer(eager)
for batch in batches:
    optimizer.zero_grad()
    loss = mlp.loss(eager, batch)
    loss.backward()
    optimizer.step()
    found = step(batch)
    assert abs(float(found) - loss.item()) < 1e-5, (found, loss)
for name, value in step.state_dict().items():
    assert torch.allclose(value, eager.state_dict()[name], atol=1e-6), name
print("done")
"""
    )
    done = run_python(script)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "done"


def run_python(script, *before, **variables):
    """In a process of its own, as the libraries are chosen once."""
    return subprocess.run(
        [sys.executable, *before, str(script)],
        capture_output=True,
        text=True,
        env=os.environ | EMULATED | variables,
        timeout=300,
    )


REFUSED = """
import sys
sys.path[:0] = [{build!r}, {examples!r}]
import tandem, torch, mlp
torch.manual_seed(0)
sizes = mlp.PRESETS["tiny"]
model = mlp.model(**sizes, dropout=0.0)
batch = next(iter(mlp.batches(**sizes)))
optimizer = mlp.optimizer(model)
step = tandem.compile(
    model, mlp.loss, optimizer, batch, mesh={{"data": 2}}, plan="zero", device="cuda", graph={graph}
)
def values():
    return step.state_dict() | {{
        f"{{i}} {{key}}": value
        for i, state in step.optimizer_state_dict()["state"].items()
        for key, value in state.items()
        if isinstance(value, torch.Tensor)
    }}
step(batch)
good = values()
name = next(name for name, value in good.items() if value.dim() == 1)
poisoned = step.state_dict()
poisoned[name] = torch.full_like(poisoned[name], float("nan"))
step.load_state_dict(poisoned)
before = values()
for _ in range(2):
    try:
        step(batch)
        sys.exit("not refused")
    except tandem.NonFiniteLossError as error:
        print(error)
after = values()
for key, value in before.items():
    a, b = value.reshape(-1), after[key].reshape(-1)
    assert a.view(torch.uint8).equal(b.view(torch.uint8)), key
step.load_state_dict({{name: good[name] for name in poisoned}})
print(float(step(batch)))
"""


def test_a_refused_step_writes_nothing(tmp_path):
    """The host looks once, behind the step: what updates values has looked for itself. The same with
    the step as a graph, and what follows it."""
    texts = []
    for graph in (True, False):
        script = tmp_path / f"refused-{graph}.py"
        places = {"build": str(BUILD / "python"), "examples": str(ROOT / "examples")}
        script.write_text(REFUSED.format(graph=graph, **places))
        done = run_python(script)
        assert done.returncode == 0, done.stderr[-2000:]
        assert done.stdout.count("is nan, expected a finite value") == 2
        texts.append(done.stdout)
    assert texts[0] == texts[1]


@pytest.mark.parametrize("ranks", [2, 4])
def test_two_processes_have_a_gpu_each(ranks, tmp_path):
    """Under torchrun, with one rank each and with two: the losses of one process with all ranks, to the bit."""
    script = tmp_path / "train.py"
    script.write_text(
        f"""
import sys
sys.path[:0] = {[str(BUILD / "python"), str(ROOT / "examples")]!r}
import tandem, torch, mlp
torch.manual_seed(0)
sizes = mlp.PRESETS["tiny"]
model = mlp.model(**sizes, dropout=0.0)
batches = [b for b, _ in zip(mlp.batches(**sizes), range(3))]
step = tandem.compile(
    model, mlp.loss, mlp.optimizer(model), batches[0],
    mesh={{"data": {ranks}}}, plan="zero", micro=2, device="cuda", batch="global",
)
losses = [float(step(batch)) for batch in batches]
sums = sum(value.double().abs().sum().item() for value in step.state_dict().values())
import os
if os.environ.get("RANK", "0") == "0":
    print(losses, sums)
"""
    )
    alone = run_python(script)
    assert alone.returncode == 0, alone.stderr[-2000:]
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node=2"]
    launcher.append(f"--master-port={free_port()}")
    shares = str(int(ranks > 2))
    both = run_python(script, *launcher, TANDEM_EMULATED_GPUS="2", TANDEM_SHARE_GPU=shares)
    assert both.returncode == 0, both.stderr[-2000:]
    assert both.stdout == alone.stdout
    assert alone.stdout.startswith("[")


def test_ranks_share_a_gpu_only_if_asked(tmp_path):
    program = compiled(exported(tmp_path, "mlp"), "--mesh", "data=4")
    done = tool("tandem-run", program, "--steps", "1", TANDEM_SHARE_GPU="0")
    assert done.returncode == 1
    assert "4 ranks and one GPU in this process" in done.stderr and done.stderr.count("\n") == 1


def test_without_a_graph_all_is_the_same(tmp_path):
    step = exported(tmp_path, "mlp")
    program = compiled(step, "--mesh", "data=2")
    assert losses(program, step) == losses(program, step, "--no-graph")


@pytest.mark.parametrize("model", ["gpt", "llama"])
def test_ptx_for_both_architectures(model, tmp_path):
    """A Program for a GPU is made where none is, and where nothing of CUDA is: no libdevice."""
    step = exported(tmp_path, model)
    variables = {"TANDEM_LIBDEVICE": "/nowhere", "TANDEM_CACHE_DIR": str(tmp_path)}
    for architecture in ("sm_80", "sm_90"):
        program = compiled(step, architecture=architecture, **variables)
        content = program.read_bytes()
        assert f".target {architecture}".encode() in content
        assert content.count(b".version") == 1
        listing = tool("tandem-run", program, "--print").stdout
        launched = set(re.findall(r" (tandem_\w+) of kernels ", listing))
        assert content.count(b".visible .entry") == len(launched) >= 20
        assert b".extern .func" not in content


MISSING = [
    ({"TANDEM_EMULATED_GPUS": "0"}, "the driver finds no GPU, expected one"),
    ({"TANDEM_EMULATED_DRIVER": "12040"}, "the driver is of CUDA 12.4, expected 13.0 or later"),
]
TOO_SMALL = (
    {"TANDEM_EMULATED_MEMORY": "4000"},
    "bytes on the emulated GPU: 4000 of 4000 are free",
)


@pytest.mark.parametrize(
    "variables,expected",
    [
        *MISSING,
        TOO_SMALL,
        ({"TANDEM_CUDA_LIBRARIES": "/nowhere"}, "cannot load libcuda.so.1"),
        (
            {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "3"},
            "process 3 of this host has no GPU of its own, found 1",
        ),
    ],
)
def test_what_is_missing_is_said(variables, expected, tmp_path):
    program = compiled(exported(tmp_path, "mlp"))
    done = tool("tandem-run", program, "--steps", "1", **variables)
    assert done.returncode == 1
    assert expected in done.stderr and done.stderr.count("\n") == 1


def test_what_cannot_be_pinned_is_said(tmp_path):
    program = compiled(exported(tmp_path, "gpt"), "--pin", "layers.*:host")
    done = tool("tandem-run", program, "--steps", "1", TANDEM_EMULATED_PINNED="1000")
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "bytes of the host" in done.stderr and "ulimit -l" in done.stderr


TRAIN = """
import os, sys
sys.path[:0] = {places!r}
import tandem, torch, mlp
if os.environ.get("RANK") == "1":
    os.environ |= {of_process_1!r}
torch.manual_seed(0)
sizes = mlp.PRESETS["tiny"]
model = mlp.model(**sizes, dropout=0.0)
batches = [batch for batch, _ in zip(mlp.batches(**sizes), range(3))]
def loss(model, batch):
    print("captured", flush=True)
    return mlp.loss(model, batch)
step = tandem.compile(
    model, loss, mlp.optimizer(model), batches[0], mesh={{"data": 2}}, batch="global",
    device="cuda", architecture=os.environ.get("ARCHITECTURE"),
)
for batch in batches:
    print(float(step(batch)), flush=True)
"""


def training(tmp_path, **of_process_1):
    script = tmp_path / "train.py"
    places = [str(BUILD / "python"), str(ROOT / "examples")]
    script.write_text(TRAIN.format(places=places, of_process_1=of_process_1))
    return script


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "variables,expected",
    [
        *MISSING,
        ({"TANDEM_SHARE_GPU": "0"}, "device 'cuda' has 2 ranks and one GPU in this process"),
        (
            {"TANDEM_EMULATED_CAPABILITY": "80", "ARCHITECTURE": "sm_90"},
            "program is for sm_90, but the emulated GPU is sm_80",
        ),
        ({"ARCHITECTURE": "sm_90"}, "program is for sm_90, expected the emulated GPU"),
        TOO_SMALL,
    ],
)
def test_what_is_missing_is_said_in_python(variables, expected, tmp_path):
    """Before the capture, but for memory, of which only the Program says how much it needs."""
    done = run_python(training(tmp_path), **variables)
    assert done.returncode == 1
    assert ("captured" in done.stdout) == ((variables, expected) == TOO_SMALL)
    *_, last = done.stderr.splitlines()
    assert last.startswith("tandem.errors.ProgramError: ") and expected in last


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "variables,of_process_1,stage,expected",
    [
        (
            {"TANDEM_EMULATED_NCCL": "21703"},
            {},
            "before",
            "NCCL is of version 2.17.3, expected 2.18.0",
        ),
        (
            {"TANDEM_EMULATED_GPUS": "1"},
            {},
            "before",
            "process 1 of this host has no GPU of its own",
        ),
        ({}, {"LOCAL_RANK": "0"}, "captured", "ranks 0 and 1 have one GPU, expected one for each"),
        (
            {"TANDEM_TIMEOUT": "5"},
            {"TANDEM_EMULATED_NCCL_HANGS": "2"},
            "captured",
            ": not done within 5000 ms",
        ),
    ],
)
def test_what_processes_lack_is_said(variables, of_process_1, stage, expected, tmp_path):
    """By each of two that is not ended by torchrun before, in one line."""
    # Read apart (`--tee`), their tracebacks do not mix within a line.
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node=2", "--tee=3"]
    launcher.append(f"--master-port={free_port()}")
    variables = {"TANDEM_EMULATED_GPUS": "2", "TANDEM_SHARE_GPU": "0"} | variables
    done = run_python(training(tmp_path, **of_process_1), *launcher, **variables)
    assert done.returncode == 1
    assert ("captured" in done.stdout) == (stage == "captured")
    told = [
        line.split("tandem.errors.")[-1]
        for line in done.stderr.splitlines()
        if "tandem.errors." in line
    ]
    assert told and all(expected in line for line in told), done.stderr[-3000:]


@pytest.mark.parametrize(
    "model,kind,expected",
    [
        ("gpt", "attention", "calls of attention (of float64, or of rows above 128 elements)"),
        ("resnet", "conv", "convolutions"),
    ],
)
def test_what_plain_kernels_do_is_said(model, kind, expected, tmp_path):
    program = compiled(exported(tmp_path, model, "--dtype", "float64"))
    listed = tool("tandem-run", program, "--print").stdout
    count = len(re.findall(rf" {kind}\w* '", listed))
    done = tool("tandem-run", program, "--steps", 0)
    assert done.returncode == 0, done.stderr
    assert f" {count} {expected} run by plain kernels" in done.stderr and count
    assert done.stderr.count("\n") == 1


NOTICES = """
import warnings
import torch
import tandem

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3)

    def forward(self, x):
        return self.conv(x).square().mean()

model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batch = {"x": torch.randn(4, 3, 8, 8)}
step = tandem.compile(model, lambda model, batch: model(batch["x"]), optimizer, batch, device="cuda")  # first
step(batch)
step({"x": torch.randn(2, 3, 8, 8)})  # another size
step.evaluate(batch)  # without gradients
"""


def test_what_plain_kernels_do_is_said_in_python_too(tmp_path):
    """Of every Program, at the line that asked for it."""
    script = tmp_path / "notices.py"
    script.write_text(NOTICES)
    command = [sys.executable, "-W", "always", str(script)]
    done = subprocess.run(
        command, capture_output=True, text=True, env=os.environ | EMULATED, timeout=300
    )
    assert done.returncode == 0, done.stderr
    pattern = r"notices\.py:(\d+): UserWarning: (\d) convolutions run by plain kernels"
    lines = NOTICES.splitlines()
    said = [
        (lines[int(at) - 1].split("# ")[-1], count)
        for at, count in re.findall(pattern, done.stderr)
    ]
    assert said == [("first", "2"), ("another size", "2"), ("without gradients", "1")]


@pytest.mark.parametrize("types", [["--dtype", "float32"], ["--precision", "bf16"]])
def test_products_apply_gelu_and_sum_the_gradients_of_biases(types, tmp_path):
    """Two layers: GELU behind a product, its gradient, and gradients of biases beside those of weights."""
    step = exported(tmp_path, "gpt", *types)

    def commands(program):
        lines = tool("tandem-run", program, "--print").stdout.splitlines()
        return [line for line in lines if re.search(r" (gemm|launch) '", line)]

    def count(lines, *words):
        return sum(all(word in line for word in words) for line in lines)

    program = compiled(step)
    listed = commands(program)
    assert count(listed, " gelu_tanh ", " pre-activation ") == 2
    assert count(listed, " gelu_tanh_gradient ", " pre-activation ") == 2
    assert count(listed, "matmul+sum", " sums of ") >= 4
    assert count(listed, "launch", "gelu") == 0
    on_cpu = compiled(step, device="cpu")
    assert count(commands(on_cpu), "pre-activation") == count(commands(on_cpu), "sums of") == 0
    done = tool("tandem-run", program, "--steps", 0)
    assert done.stderr == ""  # the library does them
    precision = 1e-5 if "float32" in types else 1e-2
    assert losses(program, step) == pytest.approx(losses(on_cpu, step), rel=precision)
    case = [str(ROOT / "examples" / "gpt.py"), "--device", "cuda", *types]
    command = [sys.executable, "-m", "tandem", "verify", *case]
    environment = os.environ | EMULATED
    checked = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert checked.returncode == 0, checked.stdout[-3000:] + checked.stderr[-2000:]


def test_what_libdevice_has_is_said(tmp_path):
    """Double precision is for proofs: its functions are the toolkit's."""
    step = exported(tmp_path, "gpt", "--dtype", "float64")
    chosen = ["--device", "cuda", "--arch", "sm_90", "-o", tmp_path / "step.tdm"]
    variables = {"TANDEM_LIBDEVICE": "/nowhere", "TANDEM_CACHE_DIR": str(tmp_path)}
    done = tool("tandem-compile", step, *chosen, **variables)
    assert done.returncode == 1
    assert "which is of libdevice, expected the CUDA toolkit" in done.stderr


def test_code_for_a_gpu_is_not_for_the_emulated_one(tmp_path):
    program = compiled(exported(tmp_path, "mlp"), architecture="sm_90")
    done = tool("tandem-run", program, "--steps", "1")
    assert done.returncode == 1
    assert "is for sm_90, expected the emulated GPU, which is here" in done.stderr


def test_an_index_out_of_range_names_its_line(tmp_path):
    from safetensors.torch import load_file, save_file

    step = exported(tmp_path, "gpt")
    values = step.with_suffix(".safetensors")
    tensors = load_file(values)
    tokens = next(name for name in tensors if name.startswith("batch.0/") and "target" not in name)
    tensors[tokens] = torch.full_like(tensors[tokens], 1000)
    save_file(tensors, values)
    program = compiled(step)
    done = tool("tandem-run", program, "--data", values, "--steps", "1")
    assert done.returncode == 1
    assert "index 1000 is out of range, expected 0 to 255" in done.stderr
    assert "embedding" in done.stderr and "gpt.py:" in done.stderr


@pytest.mark.parametrize(
    "arguments,expected",
    [
        (
            ["--device", "cuda", "--arch", "sm_20"],
            "unknown device 'cuda.sm_20', expected one of cpu",
        ),
        (["--device", "cpu", "--arch", "sm_90"], "unknown device 'cpu.sm_90', expected one of cpu"),
        (["--device", "tpu"], "unknown device 'tpu', expected one of cpu, cuda"),
    ],
)
def test_what_is_unknown_is_said(arguments, expected, tmp_path):
    step = exported(tmp_path, "mlp")
    done = tool("tandem-compile", step, *arguments)
    assert done.returncode == 1
    assert expected in done.stderr and done.stderr.count("\n") == 1


def test_a_package_is_checked_against_the_cpu(tmp_path, monkeypatch):
    """All but the package's own build, which takes minutes: here that of the tests stands for it."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    import gpu_check
    import gpu_package
    from safetensors.torch import load_file, save_file

    output = tmp_path / "package.tar.xz"
    arguments = ["gpu-package", "-o", str(output), "--arch", "emulated", "--only", "mlp zero"]
    monkeypatch.setattr("sys.argv", arguments)
    assert gpu_package.main() == 0
    folder = tmp_path / "gpu-package"
    contents = json.loads((folder / "contents.json").read_text())
    assert [case["name"] for case in contents["cases"]] == ["mlp zero"]
    assert {path.name for path in (folder / "prebuilt").iterdir()} == {
        "program_generated.h",
        "attention.ptx",
        "attention_bf16.ptx",
        "attention_f32.ptx",
        "attention_tf32.ptx",
        "kernels.ptx",
    }
    monkeypatch.setattr(gpu_check, "HERE", folder)
    monkeypatch.setattr(gpu_check, "BUILD", BUILD)
    for name, value in EMULATED.items():
        monkeypatch.setenv(name, value)
    (case,) = contents["cases"]
    assert gpu_check.run_case(case, contents["steps"]).startswith("losses")
    expected = folder / "cases" / case["folder"] / "expected.safetensors"
    tensors = load_file(expected)
    name = next(name for name in tensors if name.startswith("parameter"))
    tensors[name] = tensors[name] + 1e-6
    save_file(tensors, expected)
    with pytest.raises(RuntimeError, match=f"'{name}' by 1.0e-06, expected at most 1e-09"):
        gpu_check.run_case(case, contents["steps"])
    copies = gpu_check.measure_copies()
    assert copies > 0
    (row,) = contents["benchmarks"]
    found = gpu_check.time_program(row["name"], copies, steps=3)
    assert found["milliseconds"] > 0
    text = tool("tandem-run", folder / f"{row['name']}.tdm", "--print").stdout
    for kind in ("launch", "gemm", "attention"):
        lines = [line for line in text.splitlines() if f" {kind} '" in line]
        rows = [row for row in found["commands"] if row["kind"] == kind]
        assert sum(row["launches"] for row in rows) == len(lines) > 0
        expected = sum(
            int(line.split(" bytes ")[1].split()[0]) for line in lines if " bytes " in line
        )
        assert sum(row["bytes"] for row in rows) == expected > 0
        assert all(row["seconds"] > 0 and row["of a copy"] >= 0 for row in rows)
    text = gpu_check.tell_kernels(found["commands"])
    assert " kernels take " in text and "nan" not in text


ON_GPU = """
import ctypes, os, sys
sys.path[:0] = {places!r}
import tandem, torch
from tandem.session import gpu

# What stands for PyTorch on CUDA: the primary context, memory and a stream of the emulated GPU.
driver = ctypes.CDLL(os.environ["TANDEM_CUDA_LIBRARIES"] + "/libcuda.so.1")
context, stream = ctypes.c_void_p(), ctypes.c_void_p()
def call(name, *arguments):
    assert getattr(driver, name)(*arguments) == 0, name
call("cuInit", 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
call("cuCtxSetCurrent", context)
call("cuStreamCreate", ctypes.byref(stream), 1)
gpu.stream_of = lambda device: stream.value
kept, copies = [], []

class OnGpu(torch.Tensor):
    # Nothing reads what it has of the host's memory.
    is_cuda, device = True, torch.device("cuda:0")
    @staticmethod
    def __new__(cls, shape, dtype, device="cuda:0", address=None):
        tensor = torch.Tensor._make_subclass(cls, torch.zeros(shape, dtype=dtype))
        tensor.address = address or ctypes.c_uint64()
        if address:
            return tensor
        bytes = max(tensor.numel() * tensor.element_size(), 1)
        call("cuMemAlloc_v2", ctypes.byref(tensor.address), ctypes.c_size_t(bytes))
        return tensor
    def data_ptr(self):
        return self.address.value
    @classmethod
    def __torch_dispatch__(cls, operator, types, args=(), kwargs=None):
        if operator in (torch.ops.aten.detach.default, torch.ops.aten.view.default):
            return OnGpu(args[0].shape, args[0].dtype, address=args[0].address)
        if operator is torch.ops.aten.new_zeros.default:
            return torch.zeros(args[1], dtype=args[0].dtype)
        if operator is torch.ops.aten._to_copy.default:
            copies.append(tuple(args[0].shape))
            return read(args[0])
        raise NotImplementedError(operator)

gpu.empty = OnGpu

def put(tensor):
    # Done when the GPU comes to it, and then written over.
    made, data = OnGpu(tensor.shape, tensor.dtype), tensor.detach().clone().contiguous()
    kept.append(data)
    size = ctypes.c_size_t(data.numel() * data.element_size())
    call("cuMemcpyHtoDAsync_v2", made.address, ctypes.c_void_p(data.data_ptr()), size, stream)
    return made

def spoil(tensor):
    size = ctypes.c_size_t(tensor.numel() * tensor.element_size())
    call("cuMemsetD8Async", tensor.address, 0xff, size, stream)

def read(tensor):
    call("cuStreamSynchronize", stream)
    made = torch.empty(tensor.shape, dtype=tensor.dtype)
    size = ctypes.c_size_t(made.numel() * made.element_size())
    call("cuMemcpyDtoH_v2", ctypes.c_void_p(made.data_ptr()), tensor.address, size)
    return made
"""

STEPS_ON_GPU = """
import copy
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(16, 32), torch.nn.Linear(32, 16)
    def forward(self, x):
        places = torch.arange(16, device="cuda" if on_gpu else "cpu").to(x.dtype)
        if on_gpu:
            x = x.cuda()
        with torch.autocast("cuda" if on_gpu else "cpu", torch.bfloat16):
            y = self.second(torch.relu(self.first(x + 0.01 * places)))
        return y.float()

def loss_fn(model, batch):
    y = model(batch["x"])
    return ((y - batch["y"]) ** 2).mean(), y

torch.manual_seed(0)
model, on_gpu = Model(), False
eager = copy.deepcopy(model)
optimizer = torch.optim.AdamW(eager.parameters(), lr=0.01)
for module in (model.first, model.second):
    for name, value in list(module.named_parameters()):
        module._parameters[name] = put(value).requires_grad_()
        module._parameters[name]._is_param = True
batches = [{"x": torch.randn(8, 16), "y": torch.randn(8, 16)} for _ in range(3)]
on_gpu = True
first = {name: put(value) for name, value in batches[0].items()}
step = tandem.compile(
    model, loss_fn, torch.optim.AdamW(model.parameters(), lr=0.01), first,
    mesh={"data": 2}, plan="zero", device="cuda", graph=GRAPH,
)
copies.clear()
for batch in batches:
    given = {name: put(value) for name, value in batch.items()}
    loss, y = step(given)
    for tensor in given.values():
        spoil(tensor)
    assert loss.is_cuda and y.is_cuda and not copies, copies
    on_gpu = False
    expected, expected_y = loss_fn(eager, batch)
    on_gpu = True
    optimizer.zero_grad()
    expected.backward()
    optimizer.step()
    assert abs(read(loss).item() - expected.item()) < 2e-3, (read(loss), expected)
    assert torch.allclose(read(y), expected_y, atol=2e-2)
for name, value in step.state_dict().items():
    assert torch.allclose(value, eager.state_dict()[name], atol=5e-3), name
try:
    address = ctypes.c_uint64(kept[0].data_ptr())
    wrong = OnGpu((8, 16), torch.float32, address=address)
    step({"x": wrong, "y": first["y"]})
except tandem.TandemError as error:
    print(error)
"""


@pytest.mark.parametrize("graph", [True, False])
def test_tensors_on_the_gpu_stay_there(graph, tmp_path):
    """By the emulated GPU, of which a test has memory as PyTorch has of a real one: values, order, and that nothing
    is copied to the host."""
    script = tmp_path / "train.py"
    places = [str(BUILD / "python")]
    script.write_text(ON_GPU.format(places=places) + STEPS_ON_GPU.replace("GRAPH", str(graph)))
    for seed in ("0", "1"):
        done = run_python(script, TANDEM_EMULATED_SEED=seed)
        assert done.returncode == 0, done.stderr[-2000:]
        assert done.stdout.strip() == "'input/x': the tensor is in no memory of a GPU"
