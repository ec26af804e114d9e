"""Layers on different points of a mesh give what eager gives on one device."""

import functools

import pytest
import tandem
import torch
from tandem.errors import CompileError
from test_accumulate import (
    assert_equals_eager,
    batches,
    compile_step,
    masked_loss,
    train_eager,
)

PINS = [tandem.pin("0.*", pipe="at(0)"), tandem.pin("2.*,3.*", pipe="at(1)")]
# The first and the last layer have one weight.
TIED_PINS = [tandem.pin("first.*", pipe="at(0)"), tandem.pin("middle.*", pipe="at(1)")]


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.middle = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

    def forward(self, x):
        return torch.nn.functional.linear(
            self.middle(self.first(x).tanh()).tanh(), self.first.weight
        )


def tied():
    torch.manual_seed(1)
    return Tied().double()


@pytest.mark.parametrize(
    "options",
    [
        dict(mesh={"pipe": 2}),
        dict(mesh={"pipe": 2}, accumulate=4),
        dict(mesh={"data": 2, "pipe": 2}, accumulate=4, clip_grad_norm=0.1),
        dict(mesh={"pipe": 2, "data": 2}, accumulate=2, plan="zero"),
        dict(mesh={"pipe": 2, "model": 2}, accumulate=2, plan="tensor-parallel"),
        dict(mesh={"pipe": 2, "data": 2}, accumulate=2, search="tandem"),
    ],
)
def test_is_what_one_device_gives(options):
    if "clip_grad_norm" not in options:
        assert_equals_eager(masked_loss, batches(), pins=PINS, **options)
        return
    # Eager's own clipping is tested without a pipeline.
    data, found = batches(), []
    for own in (options, {"clip_grad_norm": options["clip_grad_norm"]}):
        pins = PINS if own is options else ()
        step = compile_step(masked_loss, data[0], pins=pins, **own)
        found.append(([float(step(batch)) for batch in data], step.state_dict()))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-12)
    torch.testing.assert_close(found[0][1], found[1][1], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("mesh", [{"pipe": 2}, {"data": 2, "pipe": 2}])
@pytest.mark.parametrize("plan", [None, "zero"])
def test_tied_weights(mesh, plan):
    options = dict(mesh=mesh, accumulate=4, plan=plan if "data" in mesh else None)
    assert_equals_eager(masked_loss, batches(), tied, pins=TIED_PINS, **options)


@pytest.mark.parametrize("sections", [[["0"], ["2", "3.weight"]], ["0", "[23]"], 2, None])
def test_sections(sections):
    options = {} if sections is None else dict(sections=sections)
    assert_equals_eager(
        masked_loss, batches(), mesh={"pipe": 2, "data": 2}, accumulate=2, **options
    )


def test_a_plan_makes_the_pipeline_again(tmp_path):
    mesh, data = {"pipe": 2, "data": 2}, batches()
    step = compile_step(masked_loss, data[0], mesh=mesh, accumulate=2, sections=2, order="gpipe")
    path = tmp_path / "plan.txt"
    path.write_text(step.compiled.plan)
    other = compile_step(masked_loss, data[0], mesh=mesh, accumulate=2, plan=path)
    assert other.bytes == step.bytes


def test_a_loss_that_is_not_finite_changes_no_point():
    data = batches()
    losses, _, _ = train_eager(masked_loss, data)
    step = compile_step(masked_loss, data[0], mesh={"pipe": 2}, accumulate=4, pins=PINS)
    found = [float(step(data[0]))]
    for name in ("0.weight", "2.weight"):
        before = step.state_dict()
        broken = before | {name: torch.full_like(before[name], torch.nan)}
        step.load_state_dict(broken)
        with pytest.raises(tandem.NonFiniteLossError, match="loss is nan"):
            step(data[1])
        torch.testing.assert_close(step.state_dict(), broken, rtol=0, atol=0, equal_nan=True)
        step.load_state_dict(before)
    found += [float(step(batch)) for batch in data[1:]]
    assert found == pytest.approx(losses, rel=1e-12)


class Stored(torch.nn.Module):
    """Buffers that it writes and then reads, or that keep what others were."""

    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(8, 8), torch.nn.Linear(8, 6)
        self.norm = torch.nn.BatchNorm1d(8, momentum=None)
        for name, value in (("count", torch.zeros(())), ("bias", torch.zeros(8))):
            self.register_buffer(name, value)
        self.register_buffer("before", torch.zeros(8))

    def forward(self, x):
        with torch.no_grad():
            self.count += 1
            self.before.copy_(self.bias)
            self.bias.copy_(self.first.bias)
        y = self.norm(self.first(x)) * (1 - 0.9**self.count)
        return self.last(y.tanh() + self.before)


class Adaptive(torch.optim.Optimizer):
    """Numbers of a group and of a sum over all parameters, read in the step that writes them."""

    def __init__(self, parameters):
        super().__init__(parameters, dict(lr=1e-2, count=0, scale=1.0, sum=0.0))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            group["count"] += 1
            product = sum((p.grad * p).sum() for p in group["params"]).abs().item()
            group["sum"] = product
            group["scale"] = max(group["scale"] * 0.95, group["sum"])
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["kept"], state["slow"] = torch.zeros_like(p), torch.ones_like(p)
                kept = state["kept"].clone()
                state["kept"].copy_(state["slow"])
                state["slow"].copy_(kept)
                p.sub_(p.grad * group["lr"] * group["scale"] / group["count"] * (1 + kept))


@pytest.mark.parametrize(
    "options",
    [
        dict(mesh={"pipe": 2}),
        dict(mesh={"pipe": 2, "data": 2}, accumulate=2, order="gpipe", plan="zero"),
    ],
)
def test_what_is_stored_is_read_before(options):
    """It is stored behind the verdict of all points, which have read what was there."""

    def loss_fn(model, batch):
        return {"loss": masked_loss(model, batch), "bias": model.first.bias.detach()}

    def make():
        torch.manual_seed(1)
        model = Stored().double()
        return model, Adaptive(model.parameters())

    data = batches()
    model, optimizer = make()
    other, others = make()
    step = tandem.compile(other, loss_fn, others, data[0], **options)
    for batch in data:
        expected, found = loss_fn(model, batch), step(batch)
        for name in expected:
            torch.testing.assert_close(found[name], expected[name].detach(), rtol=1e-9, atol=1e-12)
        optimizer.zero_grad()
        expected["loss"].backward()
        optimizer.step()
    for name, value in model.state_dict().items():
        torch.testing.assert_close(step.state_dict()[name], value, rtol=1e-9, atol=1e-12)


def test_a_rank_holds_its_own_parameters():
    step = compile_step(masked_loss, batches()[0], mesh={"pipe": 2}, accumulate=2, pins=PINS)
    points = {
        a.name: [p.point for p in a.form.at]
        for a in step.program.arguments
        if a.role == "parameter"
    }
    assert points == {
        "0.weight": [0],
        "0.bias": [0],
        "2.weight": [1],
        "2.bias": [1],
        "3.weight": [1],
        "3.bias": [1],
    }


def test_checkpoint_loads_under_another_mesh(tmp_path):
    data = batches(4)
    step = compile_step(masked_loss, data[0], mesh={"pipe": 2}, accumulate=4, pins=PINS)
    for batch in data[:2]:
        step(batch)
    step.save(tmp_path / "saved")
    other = compile_step(masked_loss, data[0], mesh={"data": 2})
    other.load(tmp_path / "saved")
    for batch in data[2:]:
        assert float(step(batch)) == pytest.approx(float(other(batch)), rel=1e-12)


def deep(frozen=()):
    torch.manual_seed(2)
    layers = [torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh()) for _ in range(4)]
    model = torch.nn.Sequential(*layers).double()
    for number in frozen:
        model[number].requires_grad_(False)
    return model


def test_four_points_load_as_two(tmp_path):
    data = batches(4)
    step = compile_step(masked_loss, data[0], deep, mesh={"pipe": 4}, accumulate=4)
    for batch in data[:2]:
        step(batch)
    step.save(tmp_path / "saved")
    options = dict(mesh={"data": 2, "pipe": 2}, accumulate=2, plan="zero")
    other = compile_step(masked_loss, data[0], deep, **options)
    other.load(tmp_path / "saved")
    for batch in data[2:]:
        assert float(step(batch)) == pytest.approx(float(other(batch)), rel=1e-12)


@pytest.mark.parametrize("frozen", [[0], [1, 2]])
def test_frozen_layers(frozen):
    make = functools.partial(deep, frozen)
    assert_equals_eager(masked_loss, batches(), make, mesh={"pipe": 4}, accumulate=2)


def test_zero_2_in_pieces():
    """Parameters are whole, gradients and states split: what is summed for them goes in pieces, with the same bits."""
    pins = [tandem.pin("exp_avg*", data="gather(0)")]
    options = dict(plan="data-parallel", mesh={"pipe": 2, "data": 2}, accumulate=2, pins=pins)
    whole, cut = (
        assert_equals_eager(
            masked_loss, batches(), deep, sections=4, order="aiao", sum_piece=piece, **options
        )
        for piece in (0, 200)
    )
    torch.testing.assert_close(cut.state_dict(), whole.state_dict(), rtol=0, atol=0)
    rows = {
        a.name: a.form.dims[0].axes
        for a in cut.program.arguments
        if a.name.endswith("0.weight") and a.form.dims
    }
    assert {len(axes) for name, axes in rows.items() if not name.startswith("exp")} == {0}
    assert {len(axes) for name, axes in rows.items() if name.startswith("exp")} == {1}
    names = [command.name for command in cut.program.rank_programs[0].commands]
    assert "2S reduce_scatter 4/4" in names and "0S reduce_scatter" in names


def wide(layers=4):
    """Its activations take most, and can be made again."""
    torch.manual_seed(2)
    layers = [
        torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.GELU(), torch.nn.Linear(32, 8))
        for _ in range(layers)
    ]
    return torch.nn.Sequential(*layers).double()


def count_held(step):
    return max(map(step.program.held_bytes, range(step.program.num_ranks)))


@pytest.mark.parametrize("options", [{"search": "tandem"}, {}])
def test_points_fit_into_their_memory(options):
    """By plans that make values again."""
    options = dict(options, mesh={"pipe": 2}, accumulate=4)
    data = batches(rows=512)

    held = count_held(compile_step(masked_loss, data[0], wide, **options))
    limit = int(0.9 * held)
    step = assert_equals_eager(masked_loss, data, wide, memory=limit, **options)
    assert count_held(step) <= limit


def test_a_full_point_holds_no_more_for_its_sends():
    """With the same plan: what was sent lives on only where the limit leaves room."""
    options = dict(mesh={"pipe": 2}, accumulate=4)
    data = batches(rows=512)

    free = compile_step(masked_loss, data[0], wide, memory="1GB", **options)
    limit = count_held(free) - 1
    step = assert_equals_eager(masked_loss, data, wide, memory=limit, **options)
    assert count_held(step) <= limit
    assert step.compiled.plan == free.compiled.plan


def join_points(step, points, path):
    """The plan of a step, whose points run the backward pass of a microbatch as one action."""
    *lines, end = step.compiled.plan.splitlines()
    lines.insert(lines.index("accumulate 4") + 1, f"joined {points}")
    path.write_text("\n".join([*lines, f"end {int(end.split()[1]) + 1}", ""]))
    return str(path)


class Branches(torch.nn.Module):
    """Its first section makes two values for the last one."""

    def __init__(self):
        super().__init__()
        self.first, self.second = (
            torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 8))
            for _ in range(2)
        )
        self.last = torch.nn.Linear(8, 8)

    def forward(self, x):
        return self.last(self.first(x)) * self.second(x)


def branches():
    torch.manual_seed(3)
    return Branches().double()


def test_a_full_point_sends_all_of_an_action_before_it_waits():
    data = batches(rows=512)
    options = dict(mesh={"pipe": 2}, accumulate=4, sections=[["first", "second"], ["last"]])
    free = compile_step(masked_loss, data[0], branches, memory="1GB", **options)
    limit = count_held(free) - 1
    step = assert_equals_eager(masked_loss, data, branches, memory=limit, **options)
    commands = step.program.rank_programs[0].commands
    sends = [i for i, command in enumerate(commands) if command.name == "send"]
    compute = commands[0].queue
    waits = {i for i, c in enumerate(commands) if c.kind == "wait_event" and c.queue == compute}
    assert not any(waits & set(range(*pair)) for pair in zip(sends[::2], sends[1::2], strict=True))
    assert any({last + 2, last + 3} <= waits for last in sends[1::2])


# The last point holds most.
UNEVEN = [["0"], ["1", "2", "3"]]


@pytest.mark.parametrize("order", ["1f1b", "zb-h1", "gpipe"])
def test_full_points_join_backward_passes(order, tmp_path):
    """Those that are full alone: a joined pass holds less, and its gradient leaves later."""
    data = batches(rows=512)
    options = dict(mesh={"pipe": 2}, accumulate=4)
    free = compile_step(masked_loss, data[0], wide, sections=UNEVEN, order=order, **options)
    plan = join_points(free, "1", tmp_path / "plan.txt")
    joined = compile_step(masked_loss, data[0], wide, plan=plan, **options)
    limit = count_held(joined)
    assert limit < free.program.held_bytes(1)
    options |= dict(sections=UNEVEN, order=order)
    step = assert_equals_eager(masked_loss, data, wide, memory=limit, **options)
    assert "\njoined 1\n" in step.compiled.plan
    assert step.bytes == joined.bytes


def test_the_faster_of_two_ways_into_memory_is_taken():
    """Where gradients that leave later cost more than values that are made again."""
    data = batches(rows=512)
    make = functools.partial(wide, 8)
    options = dict(mesh={"pipe": 4}, accumulate=4, sections=4, order="zb-h1")
    held = count_held(compile_step(masked_loss, data[0], make, **options))
    for share, joined in ((0.97, False), (0.95, True)):
        step = compile_step(masked_loss, data[0], make, memory=int(share * held), **options)
        assert ("\njoined " in step.compiled.plan) == joined
        assert ("again" in step.compiled.plan) != joined
        assert count_held(step) <= share * held


def test_joined_points_of_a_plan_exist(tmp_path):
    options, data = dict(mesh={"pipe": 2}, accumulate=4), batches()
    free = compile_step(masked_loss, data[0], **options)
    for points, message in (
        ("0,2", "joined has point 2, but axis 'pipe' has 2"),
        ("a", "joined is 'a', expected points, such as '0,2'"),
    ):
        plan = join_points(free, points, tmp_path / "plan.txt")
        with pytest.raises(CompileError, match=message):
            compile_step(masked_loss, data[0], plan=plan, **options)


def test_an_order_places_sections(tmp_path):
    """In a V; the plan alone makes it again."""
    path, plan = tmp_path / "v.csv", tmp_path / "plan.txt"
    path.write_text("0F0,0F1,3F0,3B0,3F1,3B1,0B0,0B1\n1F0,2F0,1F1,2F1,2B0,1B0,2B1,1B1\n")
    options = dict(mesh={"pipe": 2}, accumulate=2)
    step = assert_equals_eager(masked_loss, batches(), deep, sections=4, order=path, **options)
    points = {a.name: a.form.at[0].point for a in step.program.arguments if a.role == "parameter"}
    assert [points[f"{layer}.0.weight"] for layer in range(4)] == [0, 1, 1, 0]
    plan.write_text(step.compiled.plan)
    data = [*batches(1), *batches(1, rows=8)]  # another size has the order of the file, too
    again = assert_equals_eager(masked_loss, data, deep, plan=plan, **options)
    assert again.bytes == step.bytes


def test_says_what_is_wrong():
    def refuses(message, **options):
        with pytest.raises(CompileError, match=message):
            compile_step(masked_loss, batches()[0], **options)

    refuses("point 1 of axis 'pipe' has no section", mesh={"pipe": 2}, pins=PINS[:1])
    refuses("but the mesh is 'data=2'", mesh={"data": 2}, pins=PINS)
    refuses("'1': no parameter or module has this name", mesh={"pipe": 2}, sections=["0", "1"])
    refuses("sections has 0, expected a number of sections, or a list", sections=0)
    refuses("sections has \\[\\], expected", sections=[["0"], []])
    refuses("sections has {'0': '2'}, expected", sections={"0": "2"})
    refuses("but the mesh is 'data=2'", mesh={"data": 2}, sections=["0", "2"])
    backwards = [tandem.pin("2.*,3.*", pipe="at(0)"), tandem.pin("0.*", pipe="at(1)")]
    refuses("expected sections in the order of the data", mesh={"pipe": 2}, pins=backwards)
