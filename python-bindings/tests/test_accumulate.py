"""`accumulate=N`: a loop over parts of the batch gives what eager gives on the whole batch."""

import math
import re

import pytest
import tandem
import torch
from tandem.errors import CompileError, TandemError
from torch.nn import functional

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
    gradients = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
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


def perceptron(width=WIDTH):
    torch.manual_seed(1)
    layers = [torch.nn.Linear(width, 16), torch.nn.GELU(), torch.nn.Linear(16, CLASSES)]
    return torch.nn.Sequential(*layers).double()


def halves(model, batch):
    """Chosen and rejected rows in one forward pass, as preference losses have them."""
    x, y = batch
    scores = model(torch.cat([x, x.flip(1)])).log_softmax(-1)
    places = torch.cat([y, y]).clamp(min=0)[:, None]
    chosen, rejected = scores.gather(1, places).squeeze(1).split(len(x))
    return -functional.logsigmoid(0.1 * (chosen - rejected)).mean()


def thirds(model, batch):
    x, _ = batch
    found = model(torch.cat([x, 2 * x, x.sin()]))
    anchor, other = found[: len(x)], found[2 * len(x) :]
    return functional.triplet_margin_loss(anchor, found[len(x) : 2 * len(x)], other)


def dropped_twice(model, batch):
    """R-Drop: each row under two masks."""
    x, y = batch
    found = model(torch.cat([x, x]))
    one, two = found.chunk(2)
    between = functional.kl_div(one.log_softmax(-1), two.softmax(-1), reduction="batchmean")
    return functional.cross_entropy(found, torch.cat([y, y])) + between


def crops(model, batch):
    """Unlike numbers of rows, one behind the other: a row has one place in front, and two behind."""
    x, _ = batch
    small = x.unflatten(1, (2, -1)).repeat(1, 1, 2).flatten(0, 1)
    found = model(torch.cat([x, small]))
    return found[: len(x)].square().mean() + found[len(x) :].abs().mean()


def twice(model, batch):
    found = model(batch[0].repeat_interleave(2, 0))
    return found[::2].square().mean() + found[1::2].abs().sum()


def sequence_first(model, batch):
    """(sequence, batch, width), merged for the layer and for the loss."""
    x, y = batch
    steps = x.unflatten(1, (4, 2)).transpose(0, 1).repeat(1, 1, 4)
    found = model(steps.flatten(0, 1)).view(4, len(x), CLASSES)
    labels = torch.stack([y, y.clamp(min=0), y, y])
    return functional.cross_entropy(found.reshape(-1, CLASSES), labels.reshape(-1))


class Queries(torch.nn.Module):
    """Learned queries, repeated for each row behind their own dimension, attend to one another first."""

    def __init__(self):
        super().__init__()
        self.queries = torch.nn.Parameter(torch.randn(3, 8))
        self.layer = torch.nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0)
        self.last = torch.nn.Linear(8, CLASSES)

    def forward(self, x):
        memory = x.unflatten(1, (2, 4)).repeat(1, 1, 2).transpose(0, 1)
        queries = self.queries[:, None].repeat(1, len(x), 1)
        return self.last(self.layer(queries, memory)).mean(0)


class Scaled(torch.nn.Module):
    """A block of a U-Net: normalised groups, scaled and shifted by a time."""

    def __init__(self):
        super().__init__()
        self.time = torch.nn.Linear(WIDTH, 8)
        self.first, self.second = torch.nn.Conv2d(1, 4, 3), torch.nn.Conv2d(4, 2, 1)
        self.norm = torch.nn.GroupNorm(2, 4)

    def forward(self, x):
        scale, shift = self.time(x)[:, :, None, None].chunk(2, 1)
        found = self.first((x[:, :, None] * x[:, None]).unsqueeze(1))
        found = self.second((self.norm(found) * (1 + scale) + shift).relu())
        rows = found.flatten(2).softmax(-1).reshape(2 * len(x), -1)
        return rows.view(len(x), 2, -1)[..., :CLASSES].sum(1)


FOLLOWED = [
    (halves, perceptron),
    (thirds, perceptron),
    (crops, perceptron),
    (twice, perceptron),
    (sequence_first, perceptron),
    (masked_loss, Queries),
    (masked_loss, Scaled),
]


def count_products(program):
    """(those in loops, others)."""
    counts = [0, 0]
    for command in program.rank_programs[0].commands:
        inner = command.operation.body if command.kind == "repeat" else [command]
        products = sum(c.kind == "gemm" for c in inner)
        counts[command.kind != "repeat"] += products
    return tuple(counts)


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    "options", [dict(accumulate=4), dict(accumulate=2, mesh="data=2", micro=2)], ids=str
)
@pytest.mark.parametrize(("loss_fn", "make"), FOLLOWED, ids=lambda own: own.__name__)
def test_rows_are_followed(loss_fn, make, options):
    """Behind dimensions that were merged with them, and in pieces: no product is of the whole batch."""

    def make_seeded():
        torch.manual_seed(1)
        return make().double()

    step = assert_equals_eager(loss_fn, batches(2), make_seeded, **options)
    inside, outside = count_products(step.program)
    assert inside and not outside


def test_masks_of_two_halves_are_the_same_for_every_number():
    def dropped():
        return torch.nn.Sequential(perceptron(), torch.nn.Dropout(0.5))

    data = batches()
    losses = []
    for count in (1, 4):
        step = compile_step(dropped_twice, data[0], dropped, accumulate=count, seed=3)
        losses.append([float(step(batch)) for batch in data])
    assert losses[1] == pytest.approx(losses[0], rel=1e-12)


def compared(model, batch):
    """Each row with each: logits of a contrastive loss."""
    scores = model(batch[0])
    return functional.cross_entropy(scores @ scores.T, torch.arange(len(scores)))


def compared_halves(model, batch):
    scores = model(torch.cat([batch[0], batch[0].sin()]))
    return (scores @ scores.T).tanh().mean()


def mirrored(model, batch):
    scores = model(batch[0])
    return (scores * scores.flip(0)).square().mean()


def shifted(model, batch):
    scores = model(torch.cat([batch[0], batch[0]]))
    return (scores[: len(batch[0])] * scores[1 : len(batch[0]) + 1]).square().mean()


def split_elsewhere(model, batch):
    """Parts that are no batches: 3 of 4 rows, and the rest of both."""
    scores = model(torch.cat([batch[0], batch[0].sin()]))
    at = len(batch[0]) * 3 // 4
    return scores[:at].square().mean() + scores[at:].abs().mean()


@pytest.mark.parametrize("loss_fn", [compared, compared_halves, mirrored, shifted, split_elsewhere])
def test_rows_that_meet_others_are_refused_or_right(loss_fn):
    """Never another number."""
    try:
        assert_equals_eager(loss_fn, batches(2), perceptron, accumulate=4)
    except CompileError as error:
        assert re.search(
            r"^test_accumulate\.py:\d+: accumulate=4: 'nn\.\w+' joins the batch",
            str(error).split("/")[-1],
        )
        assert "its rows of all of them" in str(error)


def test_what_is_computed_on_the_whole_batch_is_said():
    def one_by_one(model, batch):
        return functional.cross_entropy(torch.stack([model(x) for x in batch[0]]), batch[1])

    with pytest.warns(
        match=r"\.py:\d+: warning: accumulate=4: 'nn\.\w+' runs on the whole batch, with \d+ products"
    ):
        assert_equals_eager(one_by_one, batches(2), perceptron, accumulate=4)


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
