"""`accumulate=N`: a loop over parts of the batch gives what eager gives on the whole batch."""

import math

import pytest
import tandem
import torch
from tandem.errors import CompileError, TandemError

ROWS, WIDTH, CLASSES = 16, 8, 6


def network():
    torch.manual_seed(1)
    layers = [torch.nn.Linear(WIDTH, 16), torch.nn.GELU(), torch.nn.LayerNorm(16)]
    return torch.nn.Sequential(*layers, torch.nn.Linear(16, CLASSES)).double()


def batches(count=3, rows=ROWS):
    """Labels of which some do not count: another number in each part of a batch."""
    generator = torch.Generator().manual_seed(7)
    made = []
    for _ in range(count):
        x = torch.randn(rows, WIDTH, dtype=torch.float64, generator=generator)
        y = torch.randint(0, CLASSES, (rows,), generator=generator)
        y[: rows // 3] = -100
        made.append((x, y))
    return made


def masked_loss(model, batch):
    x, y = batch
    return torch.nn.functional.cross_entropy(model(x), y, ignore_index=-100)


def train_eager(loss_fn, data, make=network):
    model = make()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for batch in data:
        optimizer.zero_grad()
        loss = loss_fn(model, batch)
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    gradients = {name: p.grad for name, p in model.named_parameters()}
    return losses, gradients, model.state_dict()


def compile_step(loss_fn, example, make=network, **options):
    model = make()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    return tandem.compile(model, loss_fn, optimizer, example, gradients=True, **options)


def assert_equals_eager(loss_fn, data, make=network, **options):
    losses, gradients, values = train_eager(loss_fn, data, make)
    step = compile_step(loss_fn, data[0], make, **options)
    found = [float(step(batch)) for batch in data]
    assert found == pytest.approx(losses, rel=1e-12)
    for name, gradient in gradients.items():
        torch.testing.assert_close(step.gradients()[name], gradient, rtol=1e-9, atol=1e-12)
    for name, value in values.items():
        torch.testing.assert_close(step.state_dict()[name], value, rtol=1e-9, atol=1e-10)
    return step


def assert_gathers_no_rows(step):
    """But numbers of the loss."""
    for command, _ in list_commands(step.program):
        if command.kind in ("all_gather", "all_to_all"):
            assert math.prod(command.operation.shape) < ROWS


PLANS = [
    {},
    {"mesh": {"data": 2}},
    {"mesh": {"data": 2}, "plan": "zero"},
    {"mesh": {"data": 2}, "plan": "zero", "micro": 2},
    {"mesh": {"data": 2}, "micro": 2},
    {"mesh": {"model": 2}, "plan": "tensor-parallel"},
    {"mesh": {"data": 2}, "search": "tandem"},
]


@pytest.mark.parametrize("options", PLANS, ids=str)
def test_the_whole_batch_counts(options):
    """A mean over labels that count needs their number before the backward pass: a loop before the loop."""
    accumulate = 2 if "micro" in options else 4
    step = assert_equals_eager(masked_loss, batches(), accumulate=accumulate, **options)
    assert step.program.micro == options.get("micro", 1)


def test_dropout_is_the_same_for_every_number():
    def dropped():
        return torch.nn.Sequential(network(), torch.nn.Dropout(0.5))

    data = batches()
    losses = [
        [float(step(batch)) for batch in data]
        for step in (
            compile_step(masked_loss, data[0], dropped, accumulate=count, seed=3)
            for count in (1, 2, 4)
        )
    ]
    assert losses[1] == pytest.approx(losses[0], rel=1e-12)
    assert losses[2] == pytest.approx(losses[0], rel=1e-12)


def test_metrics_are_those_of_the_whole_batch():
    def loss_fn(model, batch):
        x, y = batch
        logits = model(x)
        loss = torch.nn.functional.cross_entropy(logits, y, ignore_index=-100)
        return {"loss": loss, "logits": logits, "right": (logits.argmax(-1) == y).double().mean()}

    data = batches()
    once, often = (
        compile_step(loss_fn, data[0], accumulate=count, mesh={"data": 2}) for count in (1, 4)
    )
    for batch in data:
        expected, found = once(batch), often(batch)
        assert found["logits"].shape == (ROWS, CLASSES)
        for name, value in expected.items():
            torch.testing.assert_close(found[name], value, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("options", PLANS[1:6:2], ids=str)
def test_what_is_returned_may_be_of_all_rows(options, whole):
    """Numbers of the whole batch that nothing else reads, beside the rows that they are of."""

    def loss_fn(model, batch):
        x, y = batch
        logits = model(x)
        loss = torch.nn.functional.cross_entropy(logits, y, ignore_index=-100)
        rows = {
            "max": logits.max(),
            "row": logits.argmax(0),
            "std": logits.std(),
            "over": logits.softmax(0),
        }
        rest = (logits - logits.mean(0)).square().sum()
        return loss, rows, 1 - x.square().sum() / rest, logits if whole else None

    data = batches(1)[0]
    accumulate = 2 if "micro" in options else 4
    found = compile_step(loss_fn, data, accumulate=accumulate, **options)(data)
    expected = loss_fn(network(), data)
    for own, eager in zip(*map(torch.utils._pytree.tree_leaves, (found, expected)), strict=True):
        if eager is not None:
            torch.testing.assert_close(own, eager.detach(), rtol=1e-12, atol=1e-12)


class Attending(torch.nn.Module):
    """Takes its weights as well, which is what a layer of PyTorch gives unless told otherwise."""

    def __init__(self):
        super().__init__()
        self.attention = torch.nn.MultiheadAttention(WIDTH, 2, batch_first=True)
        self.head = torch.nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        rows = x.unflatten(-1, (1, -1)) * torch.arange(1, 4).reshape(-1, 1)
        mixed, weights = self.attention(rows, rows, rows)
        return self.head(mixed).mean(1) + weights.diagonal(dim1=1, dim2=2).sum(-1, keepdim=True)


@pytest.mark.parametrize("options", PLANS[:5], ids=str)
def test_attention_with_its_weights_is_of_rows(options):
    """Its layer merges rows in front of the batch."""

    def make():
        torch.manual_seed(1)
        return Attending().double()

    accumulate = 2 if "micro" in options else 4
    step = assert_equals_eager(masked_loss, batches(), make, accumulate=accumulate, **options)
    if options.get("plan") != "zero":
        assert_gathers_no_rows(step)


def written_loss(model, batch):
    """Places come twice in a row, and of what is written there the last stays."""
    x, y = batch
    places = (y.clamp(min=0)[:, None] * torch.tensor([1, 2, 1]) + torch.tensor([0, 1, 3])) % CLASSES
    scores, rows = model(x), torch.arange(len(x))[:, None]
    written = scores.clone()
    written[rows, places] = scores[rows, places.flip(1)] * x[:, :3]
    pairs = torch.stack([scores, scores.sin()], -1)
    pairs[rows, places] = x[:, :6].unflatten(1, (3, 2))
    pairs[rows[:, 0], places[:, 0]] = scores[:, :2]
    flags = torch.zeros(len(x), CLASSES, dtype=x.dtype)
    flags[rows, places] = 1.0
    return (written.tanh() + pairs.cos().prod(-1) + flags * scores.exp()).sum(1).square().mean()


@pytest.mark.parametrize("options", [PLANS[0], PLANS[3]], ids=str)
def test_what_is_written_within_rows_is_of_rows(options):
    assert_equals_eager(written_loss, batches(), accumulate=2, **options)


class Filled(torch.nn.Module):
    """A learned token in places of some rows, as masked autoencoders have it, and all of them in another order."""

    def __init__(self):
        super().__init__()
        self.one, self.other = torch.nn.Linear(2, 4), torch.nn.Linear(4, 4)
        self.token = torch.nn.Parameter(torch.zeros(1, 1, 4))
        self.last = torch.nn.Linear(16, CLASSES)

    def forward(self, x):
        rows, order = len(x), x[:, :4].argsort(1)
        seen = self.other(self.one(x.unflatten(1, (4, 2)))[:, :2])
        filled = torch.cat([seen, self.token.repeat(rows, 2, 1)], 1)
        return self.last(filled.gather(1, order[..., None].expand(-1, -1, 4)).flatten(1))


@pytest.mark.parametrize("options", [{}, dict(mesh="data=2", micro=2)], ids=str)
def test_a_token_that_is_repeated_is_of_rows(options):
    """It was computed whole behind the token, for all rows on each rank."""

    def make():
        torch.manual_seed(1)
        return Filled().double()

    step = assert_equals_eager(masked_loss, batches(), make, accumulate=2, **options)
    assert_gathers_no_rows(step)


class LastState(torch.nn.Module):
    """Of sequences of two numbers that are packed, as their first number says how long they are."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(2, 4)
        self.layer = torch.nn.LSTM(4, 4, batch_first=True, bidirectional=True)
        self.last = torch.nn.Linear(8, CLASSES)

    def forward(self, x):
        lengths = (x[:, 0] > 0) + 2 * (x[:, 1] > 0) + 1
        packed = torch.nn.utils.rnn.pack_padded_sequence(
            self.first(x.unflatten(1, (4, 2))), lengths, True, enforce_sorted=False
        )
        return self.last(torch.cat([*self.layer(packed)[1][0]], 1))


@pytest.mark.parametrize("options", [{}, dict(mesh="data=2", micro=2)], ids=str)
def test_last_states_of_packed_sequences_are_of_rows(options):
    """Time and batch were one dimension where the rows of sequences that have ended are replaced."""

    def make():
        torch.manual_seed(1)
        return LastState().double()

    assert_gathers_no_rows(
        assert_equals_eager(masked_loss, batches(), make, accumulate=2, **options)
    )


def test_what_joins_the_batch_is_refused():
    """Batch normalization while training, behind a product: operator and line."""

    def normalized():
        torch.manual_seed(0)
        layers = [torch.nn.Linear(WIDTH, 16), torch.nn.BatchNorm1d(16)]
        return torch.nn.Sequential(*layers, torch.nn.Linear(16, CLASSES)).double()

    with pytest.raises(CompileError, match=r"\.py:\d+: accumulate=4: 'nn\.\w+' joins the batch"):
        compile_step(masked_loss, batches()[0], normalized, accumulate=4)


def test_bad_numbers_are_refused():
    with pytest.raises(CompileError, match=r"does not divide into 5 equal parts \(accumulate=5\)"):
        compile_step(masked_loss, batches()[0], accumulate=5)
    with pytest.raises(CompileError, match="accumulate is 0, expected an integer from 1"):
        compile_step(masked_loss, batches()[0], accumulate=0)
    step = compile_step(masked_loss, batches()[0], accumulate=4)
    with pytest.raises(TandemError, match=r"4 equal parts \(accumulate=4\)"):
        step(batches(1, rows=6)[0])


def list_commands(program, repeated=1):
    """(command, how often it runs) of a rank, but for events."""
    listed = []
    for command in program.rank_programs[0].commands:
        if command.kind == "repeat":
            listed += [(inner, command.operation.count) for inner in command.operation.body]
        else:
            listed.append((command, 1))
    return [(c, n) for c, n in listed if c.kind not in ("record_event", "wait_event")]


@pytest.mark.parametrize("plan", ["data-parallel", "zero"])
def test_memory_and_commands_do_not_grow(plan):
    """An iteration of 32 has the batch of the step of 1. Gradients are reduced once."""

    def deep():
        layers = (torch.nn.Linear(WIDTH, WIDTH) for _ in range(4))
        return torch.nn.Sequential(*layers, network()).double()

    options = {"mesh": {"data": 2}, "plan": plan}
    one = compile_step(masked_loss, batches(1, rows=4)[0], deep, **options).program
    many = compile_step(masked_loss, batches(1, rows=128)[0], deep, accumulate=32, **options)
    many = many.program
    gradients = sum(p.numel() * 8 + 64 for p in deep().parameters())
    # The sums, beside an iteration, or once more where small ones are sent as one.
    arenas = [program.rank_programs[0].arenas[0].bytes for program in (one, many)]
    assert arenas[1] <= gradients + max(arenas[0], gradients)
    assert len(list_commands(many)) <= 1.2 * len(list_commands(one))
    for command, count in list_commands(many):
        if command.kind in ("all_reduce", "reduce_scatter") and count > 1:
            assert math.prod(command.operation.shape) == 1  # the number of labels


def test_a_checkpoint_loads_under_another_number(tmp_path):
    data = batches(4)
    whole = compile_step(masked_loss, data[0], accumulate=4, mesh={"data": 2}, plan="zero")
    for batch in data[:2]:
        whole(batch)
    whole.save(tmp_path / "saved")
    expected = [float(whole(batch)) for batch in data[2:]]
    other = compile_step(masked_loss, data[0], accumulate=2)
    other.load(tmp_path / "saved")
    assert [float(other(batch)) for batch in data[2:]] == pytest.approx(expected, rel=1e-12)
    assert float(other.evaluate(data[0])) == pytest.approx(float(whole.evaluate(data[0])), rel=1e-9)


def test_clipping_sees_the_whole_gradient():
    data = batches()
    norms = []
    for count in (1, 4):
        step = compile_step(masked_loss, data[0], accumulate=count, clip_grad_norm=0.1)
        for batch in data:
            step(batch)
        norms.append(float(step.grad_norm()))
    assert norms[1] == pytest.approx(norms[0], rel=1e-9)


def mixture():
    from transformers import MixtralConfig, MixtralForCausalLM

    torch.manual_seed(0)
    sizes = dict(vocab_size=64, hidden_size=16, intermediate_size=24, num_hidden_layers=2)
    experts = dict(num_local_experts=4, num_experts_per_tok=2)
    heads = dict(num_attention_heads=4, num_key_value_heads=2)
    return MixtralForCausalLM(MixtralConfig(**sizes, **experts, **heads))


def texts(count):
    generator = torch.Generator().manual_seed(5)
    made = []
    for _ in range(count):
        ids = torch.randint(0, 64, (8, 12), generator=generator)
        kept = torch.rand(8, 12, generator=generator) < 0.7
        made.append({"input_ids": ids, "labels": torch.where(kept, ids, -100)})
    return made


@pytest.mark.parametrize("options", [{}, {"mesh": {"data": 2}, "plan": "zero"}], ids=str)
def test_experts_take_tokens_one_by_one(options):
    """`transformers` sorts the tokens of a whole batch by their expert; captured, each is computed by itself."""

    def loss(model, batch):
        return model(**batch).loss

    data = texts(3)
    losses, gradients, values = train_eager(loss, data, mixture)
    step = compile_step(loss, data[0], mixture, accumulate=4, **options)
    assert [float(step(batch)) for batch in data] == pytest.approx(losses, rel=1e-5)
    largest = max(float(g.abs().max()) for g in gradients.values())
    for name, gradient in gradients.items():
        torch.testing.assert_close(step.gradients()[name], gradient, rtol=1e-3, atol=1e-4 * largest)
    moved = {name: (step.state_dict()[name] - value).abs().max() for name, value in values.items()}
    assert max(moved.values()) < 1e-2  # Adam's rate: elements whose gradients are rounding


class Chosen(torch.nn.Module):
    """Returns the numbers of the experts it chose, which take more bytes than what chose them."""

    def __init__(self):
        super().__init__()
        self.gate = torch.nn.Linear(WIDTH, 4)
        self.experts = torch.nn.ModuleList(torch.nn.Linear(WIDTH, CLASSES) for _ in range(4))

    def forward(self, x):
        weights, chosen = torch.softmax(self.gate(x), -1).topk(2)
        made = 0
        for number, expert in enumerate(self.experts):
            made = made + expert(x) * (weights * (chosen == number)).sum(-1, keepdim=True)
        return made, chosen


@pytest.mark.parametrize("type", [torch.float64, torch.bfloat16], ids=str)
def test_what_rows_chose_is_returned_whole(type):
    def make():
        torch.manual_seed(1)
        return Chosen().to(type)

    def loss(model, batch):
        x, y = batch
        made, chosen = model(x.to(type))
        return torch.nn.functional.cross_entropy(made.double(), y), {"chosen": chosen}

    data = batches(1)[0]
    expected, returned = loss(make(), data)
    found = compile_step(loss, data, make, accumulate=4)(data)
    assert float(found[0]) == pytest.approx(
        float(expected), rel=1e-12 if type.itemsize > 2 else 1e-2
    )
    assert torch.equal(found[1]["chosen"], returned["chosen"])


def test_a_loss_over_all_experts_of_a_batch_is_refused():
    def loss(model, batch):
        return model(**batch, output_router_logits=True).loss

    with pytest.raises(
        CompileError, match=r"modeling_mixtral\.py:\d+: accumulate=4: .*joins the batch"
    ):
        compile_step(loss, texts(1)[0], mixture, accumulate=4)
