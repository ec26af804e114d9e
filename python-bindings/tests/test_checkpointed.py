"""What `torch.utils.checkpoint` runs again is computed again: less is held, and the numbers are eager's.

test_checkpoint.py has the random numbers of the second run.
"""

import copy
import json
import os
import re
import subprocess
import sys
import warnings
from functools import partial
from pathlib import Path

import pytest
import tandem
import torch
import torch.nn.functional as F
from forked import Forks
from tandem.verify.reference import find_tool
from torch import nn
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    checkpoint_sequential,
    create_selective_checkpoint_contexts,
)

BUILD = Path(os.environ.get("TANDEM_BUILD", Path(__file__).resolve().parents[2] / "build"))
WIDTH, LENGTH, VOCABULARY = 8, 16, 11


class Block(nn.Module):
    """Of a gpt."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def attend(self, x):
        qkv = self.qkv(self.first(x)).unflatten(-1, (3, 2, WIDTH // 2))
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + F.dropout(self.out(y.transpose(1, 2).flatten(2)), 0.1)

    def forward(self, x):
        x = self.attend(x)
        return x + F.dropout(self.down(F.gelu(self.up(self.second(x)))), 0.1)


class Gpt(nn.Module):
    def __init__(self, run, depth=3):
        super().__init__()
        self.run = run
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(depth))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        return self.head(self.run(self.blocks, self.embedding(tokens)))


def plain(blocks, x):
    for block in blocks:
        x = block(x)
    return x


def each(blocks, x, **options):
    for block in blocks:
        x = checkpoint(block, x, **options)
    return x


def nested(blocks, x):
    """A region of all blocks around one for each."""
    return checkpoint(partial(each, blocks, use_reentrant=False), x, use_reentrant=False)


def by_policy(policy):
    contexts = partial(create_selective_checkpoint_contexts, policy)
    return partial(each, use_reentrant=False, context_fn=contexts)


def products(saved, others):
    def policy(context, operator, *args, **kwargs):
        is_product = operator in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default)
        return saved if is_product else others

    return policy


FORMS = {
    "not reentrant": partial(each, use_reentrant=False),
    "reentrant": partial(each, use_reentrant=True),
    "nested": nested,
    "sequential": lambda blocks, x: checkpoint_sequential(list(blocks), 2, x, use_reentrant=True),
    "saved": by_policy(products(CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_RECOMPUTE)),
    "preferred": by_policy(products(CheckpointPolicy.PREFER_SAVE, CheckpointPolicy.MUST_RECOMPUTE)),
    "all again": by_policy(lambda *_, **__: CheckpointPolicy.MUST_RECOMPUTE),
}


def loss_fn(model, batch):
    tokens, labels = batch
    return F.cross_entropy(model(tokens).flatten(0, 1), labels.flatten())


def batches(count):
    generator = torch.Generator().manual_seed(2)
    draw = partial(torch.randint, VOCABULARY, (8, LENGTH), generator=generator)
    return [(draw(), draw()) for _ in range(count)]


def adam(model):
    return torch.optim.AdamW(model.parameters(), lr=0.01)


def check_training(model, loss_fn, batches, optimizer=adam, **options):
    """Three steps beside eager, with the model's own checkpoints."""
    twin = copy.deepcopy(model)
    step = tandem.compile(
        model, loss_fn, optimizer(model), batches[0], gradients=True, seed=7, **options
    )
    own = optimizer(twin)
    for number, batch in enumerate(batches):
        own.zero_grad()
        with tandem.random.replay(7, number):
            loss = loss_fn(twin, batch)
            loss.backward()
        own.step()
        assert abs(step(batch).item() - loss.item()) < 1e-9 * abs(loss.item())
        for name, gradient in step.gradients().items():
            expected = twin.get_parameter(name).grad
            torch.testing.assert_close(gradient, expected, atol=1e-11, rtol=1e-9)
    for name, value in step.state_dict().items():
        torch.testing.assert_close(value, twin.state_dict()[name], atol=1e-9, rtol=1e-9)
    return step


def held_of(model, **options):
    """Bytes of the arenas of a rank."""
    step = tandem.compile(model, loss_fn, adam(model), batches(1)[0], **options)
    return sum(arena.bytes for arena in step.program.rank_programs[0].arenas)


@pytest.fixture(scope="module")
def held_without():
    return held_of(Gpt(plain))


@pytest.mark.parametrize(
    "form, share",
    [("not reentrant", 0.6), ("reentrant", 0.6), ("sequential", 0.8), ("nested", 0.8)],
)
def test_less_is_held(form, share, held_without):
    assert held_of(Gpt(FORMS[form])) < share * held_without


def test_policies_say_what_is_made_again():
    def count(form):
        model = Gpt(form, 2)
        mlir = tandem.export(model, loss_fn, adam(model), batches(1)[0]).mlir
        return {name: mlir.count(f'"nn.{name}"') for name in ("matmul", "gelu", "attention")}

    without = count(plain)
    # Of a block's four products the last one is not needed again.
    again = {name: number + 2 for name, number in without.items()}
    assert count(FORMS["all again"]) == again | {"matmul": without["matmul"] + 2 * 3}
    assert count(FORMS["saved"]) == again | {"matmul": without["matmul"]}
    attention = torch.ops.aten._scaled_dot_product_efficient_attention.default
    kept = count(by_policy([attention, torch.ops.aten.gelu.default]))
    assert kept == without | {"matmul": without["matmul"] + 2 * 3}


@pytest.mark.sample(4)
@pytest.mark.parametrize("form", FORMS)
def test_training_is_that_of_eager(form):
    options = {"accumulate": 2} if form in ("nested", "saved") else {}
    check_training(
        Gpt(FORMS[form], 2).double(), loss_fn, batches(3), mesh="data=2", micro=2, **options
    )


@pytest.mark.parametrize("micro", [1, 2])
def test_what_ranks_sum_is_not_made_again(micro):
    """Four all-reduces per block and strand, two of each pass: a region begins behind them."""
    options = {"mesh": "model=2", "plan": "tensor-parallel", "micro": micro}
    model = Gpt(FORMS["not reentrant"], 2).double()
    step = check_training(model, loss_fn, batches(2), **options)
    kinds = [command.kind for command in step.program.rank_programs[0].commands]
    assert kinds.count("all_reduce") == 4 * 2 * micro
    # The other products are.
    assert "nn.either: again 1" in step.compiled.plan


def test_sums_of_bf16_are_not_made_again_either():
    """What is made again is rounded as in the forward pass: its sums are the forward pass's."""
    options = {"mesh": "model=2", "plan": "tensor-parallel", "precision": "bf16", "seed": 7}
    losses = {}
    for form, run in ("plain", plain), ("checkpoint", FORMS["not reentrant"]):
        torch.manual_seed(0)
        model = Gpt(run, 2)
        step = tandem.compile(model, loss_fn, adam(model), batches(1)[0], **options)
        kinds = [command.kind for command in step.program.rank_programs[0].commands]
        assert kinds.count("all_reduce") == 4 * 2, form
        losses[form] = [float(step(batch)) for batch in batches(3)]
    assert losses["plain"] == pytest.approx(losses["checkpoint"], rel=1e-3)


def test_a_wrong_stage_that_runs_ahead_is_said(tmp_path):
    model, options = Gpt(FORMS["not reentrant"], 2), {"mesh": "model=2", "search": "tandem"}
    plan = tandem.compile(model, loss_fn, adam(model), batches(1)[0], **options).compiled.plan
    path = tmp_path / "plan.txt"
    lines = plan.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("stage operator"))
    lines[first] = lines[first].split(":")[0] + ": ahead"
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(tandem.CompileError, match=rf"plan.txt', line {first + 1}: the stage that"):
        tandem.compile(model, loss_fn, adam(model), batches(1)[0], plan=str(path))


@pytest.mark.parametrize("mesh", ["model=2", "data=2,model=2"])
@pytest.mark.parametrize("micro", [1, 2])
def test_four_sums_per_layer_beside_another_axis(mesh, micro, tmp_path):
    model, path = Gpt(FORMS["not reentrant"], 2), tmp_path / "step.mlir"
    path.write_text(tandem.export(model, loss_fn, adam(model), batches(1)[0]).mlir)
    options = ["--mesh", mesh, "--plan", "tensor-parallel", "--micro", str(micro)]
    command = [find_tool("tandem-compile"), path, *options, "--stop-after", "schedule"]
    ir = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert len(re.findall(r'spmd\.all_reduce .* over \["model"\]', ir)) == 4 * 2 * micro


def test_a_plan_makes_again_beside_collectives(tmp_path):
    """Of its only strand, and the numbers are eager's."""
    model, options = Gpt(FORMS["not reentrant"], 2).double(), {"mesh": "model=2", "seed": 7}
    options |= {"gradients": True, "plan": "tensor-parallel"}
    preset = tandem.compile(model, loss_fn, adam(model), batches(1)[0], **options)
    lines = preset.compiled.plan.splitlines()[:-1]
    place = next(index for index, line in enumerate(lines) if line.startswith("micro "))
    lines.insert(place + 1, "search tandem")
    path = tmp_path / "plan.txt"
    path.write_text("\n".join([*lines, f"end {len(lines) - 1}"]) + "\n")
    step = check_training(model, loss_fn, batches(2), mesh="model=2", plan=str(path))
    assert len(re.findall("(?m)^stage .*: ahead", step.compiled.plan)) >= 2


def find_again(ir):
    """(stage, strand) of the steps that make values again."""
    makers = [text for text in ir.split("sched.step on ")[1:] if "nn.again" in text]
    places = [re.match(r"compute stage (\d+) strand (\d+)", text) for text in makers]
    return [(int(place[1]), int(place[2])) for place in places]


def find_spans(timeline):
    """Begin and end of each (stage, strand), of its computation and of its collectives."""
    times = {False: {}, True: {}}
    for event in json.loads(timeline.read_text())["traceEvents"]:
        if event["ph"] == "X" and event["pid"] == 0 and event["dur"] > 0:
            step = event["args"]
            of_kind = times[step["kind"] == "all_reduce"]
            of_step = of_kind.setdefault((step["stage"], step["strand"]), [])
            of_step += [event["ts"], event["ts"] + event["dur"]]
    return [{step: (min(of), max(of)) for step, of in each.items()} for each in times.values()]


def test_a_strand_is_made_again_beside_collectives_of_the_other(tmp_path):
    """In the predicted timeline of a plan."""
    model, path = Gpt(FORMS["not reentrant"]), tmp_path / "step.mlir"
    path.write_text(tandem.export(model, loss_fn, adam(model), batches(1)[0]).mlir)
    plan = [path, "--mesh", "model=2", "--plan", "tensor-parallel", "--micro", "2"]

    def run(*options):
        command = [find_tool("tandem-compile"), *plan, *options]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    again = find_again(run("--stop-after", "schedule"))
    run(f"--timeline={tmp_path / 'predicted.json'}", "-o", tmp_path / "step.tdm")
    computed, summed = find_spans(tmp_path / "predicted.json")

    def hides(step):
        begin, end = computed[step]
        return [
            other
            for other, span in summed.items()
            if other[1] != step[1] and begin - 0.01 < span[0] and span[1] < end + 0.01
        ]

    # One stage per block: no sum stands between what is made again and the gradients that read it.
    assert [step[1] for step in again] == [0, 1] * 3 and len({step[0] for step in again}) == 3
    # In front of the last block's gradients there is nothing to be summed.
    assert not hides(again[0]) and all(hides(step) for step in again[1:])


# Two strands, and two parts of the batch or of each layer.
WAYS = {
    "data": {"mesh": "data=2", "micro": 2, "accumulate": 2, "batch": "global"},
    "model": {"mesh": "model=2", "micro": 2, "plan": "tensor-parallel"},
}


def train(run, device, way):
    """Losses, gradients of the last step, parameters."""
    torch.manual_seed(3)
    model = Gpt(run, 2).double()
    first, *more = batches(3)
    step = tandem.compile(
        model, loss_fn, adam(model), first, gradients=True, seed=7, device=device, **WAYS[way]
    )
    losses = [step(batch).item() for batch in (first, *more)]
    return torch.tensor(losses), dict(step.gradients()), step.state_dict()


def work(device, way):
    found, expected = (train(run, device, way) for run in (FORMS["not reentrant"], plain))
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=1e-9)
    print("equal")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("device, processes", [("cpu", 2), ("cuda", 1)])
def test_training_is_that_of_the_step_without(device, processes, way, tmp_path):
    """Two processes over Gloo, and the emulated GPU."""
    environment = {"OMP_NUM_THREADS": "1"}
    if device == "cuda":
        if not (BUILD / "emulator/libcuda.so.1").exists():
            pytest.skip("built without TANDEM_CUDA")
        emulator = {"TANDEM_CUDA_LIBRARIES": str(BUILD / "emulator"), "TANDEM_SHARE_GPU": "1"}
        environment |= emulator
    forks, arguments = Forks(tmp_path, environment), [__file__, device, way]
    alone = processes == 1
    started = [forks.start(arguments)] if alone else forks.start_job(processes, arguments)
    ends = [child.finish() for child in started]
    assert [(code, out) for code, out, _ in ends] == [(0, "equal\n")] * processes, ends


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_training_of_transformers_is_that_of_eager(use_reentrant):
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(
        n_layer=2,
        n_embd=WIDTH,
        n_head=2,
        n_positions=LENGTH,
        vocab_size=VOCABULARY,
        use_cache=False,
    )
    model = transformers.GPT2LMHeadModel(config).double().train()
    model.gradient_checkpointing_enable({"use_reentrant": use_reentrant})

    def loss_fn(model, batch):
        # The model's own loss is of float32.
        return F.cross_entropy(model(batch[0]).logits.flatten(0, 1), batch[1].flatten())

    check_training(model, loss_fn, batches(3), mesh="data=2", accumulate=2)


def test_a_region_without_anything_to_make_again_is_told():
    def loss_fn(model, batch):
        x = checkpoint(model[0], batch, use_reentrant=False)
        return checkpoint(lambda y: model[1](y.tanh()), x, use_reentrant=False).sum()

    model = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6))
    with pytest.warns(UserWarning, match="nothing of the checkpointed region") as told:
        tandem.export(model, loss_fn, adam(model), torch.ones(8, 6))
    line = loss_fn.__code__.co_firstlineno + 1
    assert [f"test_checkpointed.py:{line}: " in str(each.message) for each in told] == [True]


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_a_region_whose_inner_one_makes_all_again_is_not_told(use_reentrant):
    again = partial(checkpoint, use_reentrant=use_reentrant)

    def loss_fn(model, batch):
        def inner(x):
            return model(x).tanh().sin()

        def outer(x):
            return again(inner, x)

        return again(outer, batch.clone().requires_grad_()).sum()

    model = nn.Linear(6, 6)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*nothing of the checkpointed region")
        tandem.export(model, loss_fn, adam(model), torch.ones(8, 6))


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_statistics_are_updated_twice_as_in_eager(use_reentrant):
    model = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.Linear(6, 1)).double()

    def loss_fn(model, batch):
        hidden = model[0](batch)
        hidden = checkpoint(model[1], hidden, use_reentrant=use_reentrant)
        return model[2](hidden.tanh()).square().mean()

    draw = partial(torch.randn, 8, 6, dtype=torch.float64)
    step = check_training(model, loss_fn, [draw() for _ in range(3)], mesh="data=2", micro=2)
    assert step.state_dict()["1.num_batches_tracked"] == 6


class Counting:
    """A policy that saves every second operator that it is asked about."""

    def __init__(self):
        self.count = 0

    def __call__(self, context, operator, *args, **kwargs):
        self.count += 1
        even = self.count % 2 == 0
        return CheckpointPolicy.MUST_SAVE if even else CheckpointPolicy.PREFER_RECOMPUTE


def refused(loss_fn):
    """The message of the error, which is of one line."""
    model = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6)).double()
    model.is_deep = True
    with pytest.raises(tandem.CaptureError) as caught:
        tandem.export(model, loss_fn, adam(model), torch.ones(8, 6, dtype=torch.float64))
    (line,) = str(caught.value).splitlines()
    return line


def test_a_policy_that_changes_is_an_error():
    policy = Counting()
    contexts = partial(create_selective_checkpoint_contexts, policy)

    def part(model, x):
        return model[1](model[0](x).tanh().sin()).tanh()

    def loss_fn(model, batch):
        return checkpoint(part, model, batch, use_reentrant=False, context_fn=contexts).sum()

    at = Counting.__call__.__code__.co_firstlineno + 1
    assert re.match(
        rf".*'self.count', which .* reads at .*test_checkpointed.py:{at}", refused(loss_fn)
    )


@pytest.mark.parametrize(
    "options, reason",
    [
        ({}, "different number of tensors was saved"),
        ({"context_fn": partial(create_selective_checkpoint_contexts, [])}, "sin.default"),
    ],
)
def test_a_region_that_changes_is_an_error(options, reason):
    def part(model, x):
        y = model[0](x).tanh()
        return model[1](y.exp().tanh() if model.is_deep else y.sin())

    def loss_fn(model, batch):
        model.is_deep = True
        y = checkpoint(part, model, batch, use_reentrant=False, **options)
        model.is_deep = False
        return y.sum()

    at = loss_fn.__code__.co_firstlineno + 2
    expected = (
        rf"test_checkpointed.py:{at}: the checkpointed region computes something else .*{reason}"
    )
    assert re.search(expected, refused(loss_fn))


if __name__ == "__main__":
    work(*sys.argv[1:])
