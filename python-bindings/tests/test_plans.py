"""The plans are what they are called: collectives by kind, number and bytes, and bytes per rank, read
from the Program."""

import ast
import functools
import math
import re

import matrix
import pytest
from tandem import _tandem, export
from tandem.capture.model_file import load_model_file
from tandem.session.compile import compile_module

SIZES = {"f64": 8, "f32": 4, "bf16": 2, "i64": 8, "i32": 4, "i8": 1, "i1": 1}
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
SCALAR_BYTES = 8


@functools.cache
def module_of(variant):
    name, preset, sizes = matrix.VARIANTS[variant]
    file = load_model_file(matrix.EXAMPLES / f"{name}.py", preset, sizes, "float32")
    model = file.make_model()
    return export(model, file.loss, file.make_optimizer(model), file.batches(1)[0]), file.sizes


@functools.cache
def compiled(variant, plan, mesh, micro):
    """(Program, plan table, sizes)."""
    module, sizes = module_of(variant)
    result = compile_module(module, variant, mesh=mesh, plan=plan, micro=micro)
    return _tandem.Program.load(result.bytes), result.plan_table, sizes


def bytes_of(tensor, shape):
    return SIZES[tensor.type] * math.prod(shape)


def collectives(program):
    """[(kind, axes, bytes that a rank gives)]"""
    names = [axis.name for axis in program.mesh]
    found = []
    for command in program.rank_programs[0].commands:
        if command.kind in COLLECTIVES:
            operation = command.operation
            axes = ",".join(names[axis] for axis in operation.axes)
            found.append((command.kind, axes, bytes_of(operation, operation.shape)))
    return found


def arguments(program, *roles):
    return [argument for argument in program.arguments if argument.role in roles]


def local_share(argument):
    whole = bytes_of(argument, argument.global_shape)
    return bytes_of(argument, argument.local_shape) / whole if whole else 1.0


def trained_bytes(program):
    return sorted(
        bytes_of(a, a.global_shape) for a in arguments(program, "parameter") if a.updated_by >= 0
    )


@pytest.mark.parametrize("micro", [1, 2])
@pytest.mark.parametrize("variant", ["mlp", "gpt", "llama", "bert_moe sgmoe", "hf bert"])
def test_data_parallel_reduces_gradients_and_scalars_only(variant, micro):
    program, _, _ = compiled(variant, "data-parallel", "data=4", micro)
    found = collectives(program)
    assert {kind for kind, _, _ in found} == {"all_reduce"}
    # Small ones share a collective (--tandem-combine-waiting).
    gradients = sorted(size for _, _, size in found if size > SCALAR_BYTES)
    assert sum(gradients) == sum(trained_bytes(program))
    assert len(gradients) <= len(trained_bytes(program))
    assert all(local_share(a) == 1 for a in arguments(program, "parameter", "state"))
    assert all(local_share(a) == 0.25 for a in arguments(program, "input"))


@pytest.mark.parametrize("micro", [1, 2])
@pytest.mark.parametrize("variant", ["gpt", "llama", "bert_moe sgmoe"])
def test_zero_splits_parameters_and_state(variant, micro):
    program, _, _ = compiled(variant, "zero", "data=4", micro)
    stored = arguments(program, "parameter", "state")
    divisible = [a for a in stored if any(size % 4 == 0 for size in a.global_shape)]
    whole = sum(bytes_of(a, a.global_shape) for a in divisible)
    split = sum(bytes_of(a, a.global_shape) for a in divisible if local_share(a) == 0.25)
    assert split >= 0.95 * whole
    assert sum(bytes_of(a, a.local_shape) for a in stored) <= 0.3 * sum(
        bytes_of(a, a.global_shape) for a in stored
    )


@pytest.mark.parametrize("micro", [1, 2])
@pytest.mark.parametrize("variant", ["gpt", "llama"])
def test_zero_gathers_a_parameter_once_per_pass(variant, micro):
    """The strands share the gathered parameter; a gradient is scattered once per step."""
    program, _, _ = compiled(variant, "zero", "data=4", micro)
    split = sorted(
        bytes_of(a, a.local_shape) for a in arguments(program, "parameter") if local_share(a) < 1
    )
    found = collectives(program)
    gathered = [size for kind, _, size in found if kind == "all_gather"]
    assert all(gathered.count(size) <= 2 * split.count(size) for size in gathered)
    assert len(gathered) >= len(split)
    scattered = sorted(size for kind, _, size in found if kind == "reduce_scatter")
    # Small ones share a collective (--tandem-combine-waiting).
    assert sum(scattered) == sum(4 * size for size in split) and len(scattered) <= len(split)
    assert {kind for kind, _, _ in found} <= {"all_gather", "reduce_scatter", "all_reduce"}


@pytest.mark.parametrize("micro", [1, 2])
@pytest.mark.parametrize("variant", ["gpt", "llama"])
def test_zero2_gathers_a_parameter_once_per_step(variant, micro):
    """All else is as in zero."""

    def sizes(plan, wanted):
        program, _, _ = compiled(variant, plan, "data=4", micro)
        return sorted(size for kind, _, size in collectives(program) if kind == wanted)

    program, _, _ = compiled(variant, "zero2", "data=4", micro)
    stored = arguments(program, "parameter")
    split = [bytes_of(a, a.local_shape) for a in stored if local_share(a) < 1]
    assert sizes("zero2", "all_gather") == sorted(split)
    assert len(sizes("zero", "all_gather")) > len(split)
    assert sum(sizes("zero2", "reduce_scatter")) == sum(sizes("zero", "reduce_scatter"))


@pytest.mark.parametrize("micro", [1, 2])
@pytest.mark.parametrize("variant", ["gpt", "llama"])
def test_tensor_parallel_sums_twice_per_block_and_pass(variant, micro):
    program, _, sizes = compiled(variant, "tensor-parallel", "model=2", micro)
    activation = 4 * sizes["batch"] * sizes["seq"] * sizes["width"] // micro
    found = collectives(program)
    sums = [size for kind, _, size in found if kind == "all_reduce" and size > SCALAR_BYTES]
    assert sums == [activation] * (2 * 2 * sizes["layers"] * micro)
    assert {kind for kind, _, _ in found} == {"all_reduce"}
    matrices = [
        a
        for a in arguments(program, "parameter")
        if ".layers." in "." + a.name and len(a.global_shape) == 2
    ]
    assert matrices and all(local_share(a) == 0.5 for a in matrices)


def moe_layers(program):
    return len(
        {
            a.name.rpartition(".")[0]
            for a in arguments(program, "parameter")
            if "gate.weight" in a.name
        }
    )


@pytest.mark.parametrize("micro", [1, 2])
@pytest.mark.parametrize("variant", ["bert_moe sgmoe", "bert_moe switch", "vit_moe sgmoe"])
def test_expert_parallel_exchanges_tokens_twice_per_layer_pass_and_strand(variant, micro):
    program, _, sizes = compiled(variant, "expert-parallel", "data=4", micro)
    found = collectives(program)
    exchanges = [size for kind, _, size in found if kind == "all_to_all"]
    assert len(exchanges) == 2 * 2 * micro * moe_layers(program)
    assert {kind for kind, _, _ in found} <= {"all_to_all", "all_reduce", "reduce_scatter"}
    experts = [
        a
        for a in arguments(program, "parameter")
        if len(a.global_shape) == 3 and a.global_shape[0] == sizes["experts"]
    ]
    assert experts and all(local_share(a) == 0.25 for a in experts)


@pytest.mark.parametrize(
    "variant,plan,mesh", [("gpt", "data-parallel", "data=4"), ("gpt", "zero", "data=4")]
)
def test_activations_are_divided(variant, plan, mesh):
    def arena(mesh):
        return sum(a.bytes for a in compiled(variant, plan, mesh, 1)[0].rank_programs[0].arenas)

    assert arena(mesh) <= 0.6 * arena("")


def section(table, title):
    """The lines of a section of the plan table."""
    after = table.split(title, 1)
    assert len(after) == 2, f"no section {title!r}"
    return [line for line in after[1].split("\n\n")[0].splitlines()[1:] if line.strip()]


def lines_of_classes(file, *names):
    """Line numbers within classes of an example."""
    tree = ast.parse((matrix.EXAMPLES / file).read_text())
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name in names]
    assert len(classes) == len(names)
    return {line for node in classes for line in range(node.lineno, node.end_lineno + 1)}


def lines_in(texts, file):
    return {int(number) for text in texts for number in re.findall(rf"{file}:(\d+)", text)}


@pytest.mark.parametrize(
    "variant,plan,mesh,file,classes",
    [
        ("gpt", "data-parallel", "data=4", "gpt.py", ["Attention", "MLP", "Block"]),
        ("gpt", "tensor-parallel", "data=2,model=2", "gpt.py", ["Attention", "MLP", "Block"]),
        ("bert_moe sgmoe", "expert-parallel", "data=4", "moe.py", ["MoE"]),
        ("bert_moe sgmoe", "expert-parallel", "data=4", "bert_moe.py", ["Attention", "Block"]),
    ],
)
def test_strands_do_not_join_inside_blocks(variant, plan, mesh, file, classes):
    _, table, _ = compiled(variant, plan, mesh, 2)
    joins = section(table, "Operators where the strands join")
    assert not lines_in(joins, file) & lines_of_classes(file, *classes), joins


def flops_of(line):
    number, unit = re.search(r"([\d.]+) (\w?)FLOP", line).groups()
    return float(number) * {"": 1, "k": 1e3, "M": 1e6, "G": 1e9}[unit]


def test_what_is_computed_whole_is_named_with_its_flops():
    """Under tensor parallelism layer norms and the head are whole. Data parallelism leaves the updates,
    and in the blocks only the causal mask, which does not know the batch."""
    _, table, _ = compiled("gpt", "tensor-parallel", "model=2", 1)
    whole = section(table, "Computed whole on every rank of axis 'model'")
    assert any("nn.layer_norm " in line and flops_of(line) > 1e4 for line in whole)
    _, table, _ = compiled("gpt", "data-parallel", "data=4", 1)
    whole = section(table, "Computed whole on every rank of axis 'data'")
    inside = lines_of_classes("gpt.py", "Attention", "MLP", "Block")
    assert any("update" in line for line in whole)
    assert sum(flops_of(line) for line in whole if lines_in([line], "gpt.py") & inside) < 1e4
