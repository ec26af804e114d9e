"""A limit of memory, a pin or a flag lets the backward pass make values again: the numbers are eager's."""

import re

import pytest
import tandem
import torch
import torch.nn.functional as F
from tandem.errors import CompileError
from tandem.session.compile import compile_module
from test_checkpointed import Gpt, adam, batches, check_training, loss_fn, plain
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential


def gpt():
    return Gpt(plain, 2).double()


def compiled(optimizer=adam, **options):
    model = gpt()
    return tandem.compile(model, loss_fn, optimizer(model), batches(1)[0], **options)


def peak_of(step):
    return int(re.search(r"(?m)^peak (\d+) B$", step.compiled.plan)[1])


def held_by(step):
    """Bytes of the arenas of a rank."""
    return sum(arena.bytes for arena in step.program.rank_programs[0].arenas)


def choices_of(step):
    return len(re.findall(r"nn\.either: again", step.compiled.plan))


# How a plan is found, and in which share of the memory of one without choices.
WAYS = {
    "search": (dict(mesh="data=1", search="tandem"), 0.85),
    "preset": (dict(mesh="data=1", plan="data-parallel"), 0.85),
    "strands": (dict(mesh="data=2", search="tandem", micro=2, recompute=True), 0.31),
    "accumulate": (dict(mesh="data=1", search="tandem", accumulate=2), 0.85),
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("way", WAYS)
def test_training_in_less_memory_is_that_of_eager(way):
    options, share = WAYS[way]
    free = compiled(memory="1GB", **options)
    assert choices_of(free) == 0
    memory = int(share * peak_of(free))
    step = check_training(gpt(), loss_fn, batches(3), memory=memory, **options)
    assert choices_of(step) > 0
    assert peak_of(step) <= memory and held_by(step) < held_by(free)


class Layers(torch.nn.Module):
    def __init__(self, own):
        super().__init__()
        self.own = own

    def run(self, layer, *args):
        return checkpoint(layer, *args, use_reentrant=False) if self.own else layer(*args)


class Chain(Layers):
    """Layers without residuals, which hold least with a checkpoint per square root of them."""

    activation = nn.SiLU

    def __init__(self, own):
        super().__init__(own)
        layers = [nn.Sequential(nn.Linear(8, 8), self.activation()) for _ in range(16)]
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        if self.own:
            return checkpoint_sequential(self.layers, 4, x, use_reentrant=False)
        return self.layers(x)


class Masks(Chain):
    """The gradient of its activation reads the result."""

    activation = nn.ReLU


class Hourglass(Chain):
    """The second half reads what the first one made, the last first."""

    def forward(self, x):
        skips = []
        for layer in self.layers[:8]:
            x = self.run(layer, x)
            skips.append(x)
        for layer in self.layers[8:]:
            x = self.run(layer, x + skips.pop())
        return x


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.read = nn.LayerNorm(8), nn.Linear(8, 8)
        self.up, self.down = nn.Linear(8, 32), nn.Linear(32, 8)

    def forward(self, x, memory=None):
        if memory is not None:
            x = x + self.read(memory)
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Decoder(Layers):
    """All of its blocks read what an encoder made, whose first block reads the batch."""

    def __init__(self, own):
        super().__init__(own)
        self.encoder = nn.ModuleList(Block() for _ in range(4))
        self.blocks = nn.ModuleList(Block() for _ in range(4))

    def forward(self, x):
        memory = y = x
        for block in self.encoder:
            memory = self.run(block, memory)
        for block in self.blocks:
            y = self.run(block, y, memory)
        return y


def squares(model, x):
    return model(x).square().mean()


@pytest.mark.parametrize("kind", [Chain, Masks, Hourglass, Decoder])
def test_a_model_fits_where_its_own_checkpoints_do(kind):
    def compiled(own, **options):
        torch.manual_seed(0)
        model = kind(own).double()
        sgd = torch.optim.SGD(model.parameters(), lr=0.1)
        return tandem.compile(model, squares, sgd, x, mesh="data=1", search="tandem", **options)

    x = torch.randn(256, 8, dtype=torch.float64)
    own = compiled(True)
    step = compiled(False, memory=peak_of(own))
    assert peak_of(step) <= peak_of(own) < 0.7 * peak_of(compiled(False))
    assert float(step(x)) == pytest.approx(float(own(x)), rel=1e-12)
    for name, value in own.state_dict().items():
        torch.testing.assert_close(step.state_dict()[name], value, rtol=1e-9, atol=1e-12)


def test_pins_ask_for_what_is_made_again():
    free = compiled(mesh="data=1", plan="data-parallel")
    pins = [tandem.pin("blocks.*", "again")]
    step = check_training(
        gpt(), loss_fn, batches(3), mesh="data=1", plan="data-parallel", pins=pins
    )
    assert choices_of(step) > 0 and held_by(step) < 0.8 * held_by(free)


@pytest.mark.parametrize(
    "glob, message",
    [
        (
            "nn.nothing#*",
            "pin 'nn.nothing#*' matches nothing that the forward pass makes; close names",
        ),
        ("none.*", "pin 'none.*' matches no parameter; close names are"),
        ("0", "pin '0' names input '0', which no operator makes: expected"),
        ("nn.add@*py:6", "pin"),
    ],
)
def test_what_cannot_be_made_again_is_refused(glob, message):
    with pytest.raises(CompileError) as caught:
        compiled(mesh="data=1", plan="data-parallel", pins=[tandem.pin(glob, "again")])
    (line,) = str(caught.value).splitlines()
    assert message in line


def test_two_sources_of_one_value_are_refused():
    pins = [tandem.pin("blocks.*", "again"), tandem.pin("blocks.0.*", "host")]
    with pytest.raises(CompileError) as caught:
        compiled(mesh="data=1", plan="data-parallel", pins=pins)
    (line,) = str(caught.value).splitlines()
    assert re.search(
        r"pin 'blocks\.0\.\*' asks for 'nn\.\w+#\d+' on the host, but a pin before it asks for it again: ",
        line,
    )


@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_preset_holds_less_than_it_does(accumulate):
    """The search for sources begins with the preset, whose updates finish sums of ranks."""
    model = gpt()
    module = tandem.export(model, loss_fn, adam(model), batches(1)[0])
    options = dict(mesh="model=2", plan="tensor-parallel", accumulate=accumulate)
    options |= dict(pins=[tandem.pin("blocks.*", "again")], stop_after="plan")

    def find_peak(memory):
        plan = compile_module(module, memory=memory, **options).plan
        return int(re.search(r"(?m)^peak (\d+) B$", plan)[1])

    limit = int(0.9 * find_peak("1GB"))
    assert find_peak(limit) <= limit


def test_a_limit_that_holds_all_cuts_no_kernels():
    options = dict(mesh="data=1", search="tandem")
    free = compiled(**options)
    step = compiled(memory=int(1.05 * peak_of(free)), **options)
    plans = [each.compiled.plan for each in (free, step)]
    stages = [len(re.findall(r"(?m)^stage ", plan)) for plan in plans]
    assert choices_of(step) == 0 and stages[0] == stages[1]


def test_what_is_made_again_competes_where_all_that_is_saved_fits():
    """On two ranks a plan may hold all by other forms, which take longer than to make some again."""
    options = dict(mesh="data=2", search="tandem")
    free = compiled(**options)
    memory = int(0.8 * free.program.held_bytes(0))
    step = compiled(memory=memory, **options)
    said = "\n".join(step.compiled.remarks)
    assert "plans that hold all that is saved are slower" in said
    assert choices_of(free) == 0 < choices_of(step)
    assert step.program.held_bytes(0) <= memory


def test_without_a_limit_the_flag_makes_nothing_slower():
    free, step = (
        compiled(mesh="data=1", search="tandem", recompute=flag) for flag in (False, True)
    )
    costs = [float(re.search(r"(?m)^cost (\S+)", s.compiled.plan)[1]) for s in (free, step)]
    assert costs[1] <= costs[0]


class Norms(torch.nn.Module):
    """4 x (convolution, group norm, SiLU): the norm's backward pass reshapes what it reads."""

    def __init__(self):
        super().__init__()
        parts = [
            torch.nn.Sequential(
                torch.nn.Conv2d(8, 8, 3, padding=1), torch.nn.GroupNorm(4, 8), torch.nn.SiLU()
            )
            for _ in range(4)
        ]
        self.layers = torch.nn.Sequential(*parts).double()

    def forward(self, x):
        return self.layers(x)


def test_a_plan_that_takes_nothing_of_the_offer_is_the_one_without_it():
    x, plans = torch.randn(8, 8, 16, 16, dtype=torch.float64), []
    for offer in (False, True):
        model = Norms()
        sgd = torch.optim.SGD(model.parameters(), lr=0.1)
        step = tandem.compile(
            model, squares, sgd, x, mesh="data=1", search="tandem", recompute=offer
        )
        cost = float(re.search(r"(?m)^cost (\S+)", step.compiled.plan)[1])
        plans.append((cost, peak_of(step), held_by(step)))
        assert choices_of(step) == 0 and step.program.held_bytes(0) <= peak_of(step)
    assert plans[1] == pytest.approx(plans[0], rel=1e-3)


def test_less_than_parameters_need_is_refused():
    with pytest.raises(CompileError) as caught:
        compiled(mesh="data=1", search="tandem", memory="10kB")
    (line,) = str(caught.value).splitlines()
    assert "no plan: every plan holds at least" in line


def cost_of(path):
    return float(re.search(r"(?m)^cost (\S+)", path.read_text())[1])


def test_plans_with_and_without_choices_start_each_other(tmp_path):
    """What is found for more memory costs no more, and a plan in which all is saved is a start for less."""
    model = gpt()
    module = tandem.export(model, loss_fn, adam(model), batches(1)[0])

    def plan(name, **options):
        path = tmp_path / name
        options = dict(mesh="data=1", search="tandem", stop_after="plan") | options
        path.write_text(compile_module(module, **options).plan)
        return path

    free = plan("free")
    peak = int(re.search(r"(?m)^peak (\d+) B$", free.read_text())[1])
    small = plan("small", start=free, memory=int(0.7 * peak))
    assert "nn.either: again" in small.read_text() and "nn.either" not in free.read_text()
    large = plan("large", start=small, memory=int(0.8 * peak))
    assert cost_of(large) <= cost_of(small) * (1 + 1e-12)
    alone = plan("alone", memory=int(0.8 * peak))
    assert cost_of(alone) <= cost_of(small)


def test_the_cheapest_preset_makes_values_again():
    model = gpt()
    module = tandem.export(model, loss_fn, adam(model), batches(1)[0])
    options = dict(mesh="data=1", search="presets", stop_after="plan")
    peak = int(re.search(r"(?m)^peak (\d+) B$", compile_module(module, **options).plan)[1])
    limited = compile_module(module, memory=int(0.85 * peak), **options).plan
    assert "nn.either: again" in limited
    assert int(re.search(r"(?m)^peak (\d+) B$", limited)[1]) <= 0.85 * peak


def test_meshes_are_searched_with_choices(root):
    """The small mesh holds more than the limit, so that its values are made again."""
    model = gpt()
    module = tandem.export(model, loss_fn, adam(model), batches(1)[0])
    laptop = root / "examples" / "clusters" / "laptop.yaml"
    options = dict(mesh="auto", cluster=laptop, stop_after="plan")
    free = compile_module(module, **options).plan
    peak = int(re.search(r"(?m)^peak (\d+) B$", free)[1])
    limited = compile_module(module, memory=int(0.6 * peak), recompute=True, **options)
    assert "nn.either: again" in limited.plan
    assert int(re.search(r"(?m)^peak (\d+) B$", limited.plan)[1]) <= 0.6 * peak
