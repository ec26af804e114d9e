"""Seeded mistakes: each is refused by a verifier, or makes the comparison with eager fail."""

from dataclasses import replace

import matrix
import pytest
from matrix import Case
from tandem import _tandem
from tandem.errors import TandemError

CASE = Case("mlp", "data-parallel", "data=2,model=2", 2)
PASSED, FAILED, REFUSED = "passed", "failed", "refused"


@pytest.fixture(scope="module")
def subject():
    return matrix.subject_of(CASE, steps=2)


@pytest.fixture(scope="module")
def good(subject):
    return matrix.compile_case(CASE, subject).bytes


@pytest.fixture
def program(good):
    return _tandem.Program.load(good)


@pytest.fixture
def outcome(subject):
    """What becomes of a Program that was changed: the runtime's verifier first, then the judge."""

    def find(program):
        try:
            rows = matrix.judge_program(subject, program.serialize())
        except TandemError:
            return REFUSED
        return PASSED if all(row.passed for row in rows) else FAILED

    return find


def commands_of(program):
    return program.rank_programs[0].commands


def of_kind(program, kind):
    return [i for i, command in enumerate(commands_of(program)) if command.kind == kind]


def test_unchanged_program_passes(program, outcome):
    assert outcome(program) == PASSED


def test_missing_collective(good, outcome):
    """Every all-reduce in turn gives its own term as if it were the sum."""
    places = of_kind(_tandem.Program.load(good), "all_reduce")
    assert places
    for place in places:
        program = _tandem.Program.load(good)
        command = commands_of(program)[place]
        command.operation = _tandem.Copy(command.operation.source, command.operation.destination)
        assert outcome(program) != PASSED, command.name


def test_wrong_group(program, outcome):
    for place in of_kind(program, "all_reduce"):
        commands_of(program)[place].operation.axes = [1]
    assert outcome(program) != PASSED


def test_every_product_scaled(good, outcome):
    """Also those that only make gradients: 1.001 is beyond any tolerance."""
    places = of_kind(_tandem.Program.load(good), "gemm")
    assert len(places) >= 6
    for place in places:
        program = _tandem.Program.load(good)
        gemm = commands_of(program)[place].operation
        gemm.alpha *= 1.001
        assert outcome(program) == FAILED, commands_of(program)[place].name


def test_every_gradient_scaled_in_float32():
    """There a scaled product of the forward pass may be below the tolerance in all that follows from it;
    one that only makes gradients may not.
    """
    subject = matrix.subject_of(replace(CASE, dtype="float32"), steps=1)
    good = matrix.compile_case(CASE, subject).bytes

    def judge(program):
        rows = matrix.judge_program(subject, program.serialize())
        return rows[0].absolute, all(row.passed for row in rows)

    loss, passed = judge(_tandem.Program.load(good))
    assert passed
    tried = 0
    for place in of_kind(_tandem.Program.load(good), "gemm"):
        program = _tandem.Program.load(good)
        commands_of(program)[place].operation.alpha *= 1.001
        loss_then, passed = judge(program)
        if loss_then == loss:
            tried += 1
            assert not passed, commands_of(program)[place].name
    assert tried >= 6


def parameters(program):
    return {i for i, argument in enumerate(program.arguments) if argument.role == "parameter"}


def test_update_done_twice(program, outcome):
    updated = parameters(program)
    commands = commands_of(program)

    def writes_parameter(command):
        places = command.operation.outputs if command.kind == "launch" else []
        return any(ref.space == _tandem.Space.argument and ref.index in updated for ref in places)

    places = [i for i, command in enumerate(commands) if writes_parameter(command)]
    assert places
    again = _tandem.Command(commands[places[-1]])
    again.id = max(command.id for command in commands) + 1
    commands.insert(places[-1] + 1, again)
    assert outcome(program) != PASSED


def buffers(command):
    """(is it written, reference) of all that a command touches."""
    operation = command.operation
    if command.kind == "launch":
        return [(False, ref) for ref in operation.inputs] + [
            (True, ref) for ref in operation.outputs
        ]
    if command.kind == "gemm":
        return [(False, operation.a), (False, operation.b), (True, operation.c)]
    if hasattr(operation, "source") and hasattr(operation, "destination"):
        return [(False, operation.source), (True, operation.destination)]
    return []


def test_swapped_microbatch(program, outcome):
    """The strands take each other's half of one input, but not of the other one."""
    (images, *_) = [i for i, argument in enumerate(program.arguments) if argument.role == "input"]
    reads = [
        ref
        for command in commands_of(program)
        for written, ref in buffers(command)
        if ref.space == _tandem.Space.argument and ref.index == images and not written
    ]
    offsets = sorted({ref.offset.base for ref in reads})
    assert len(offsets) == 2, "each strand reads its half"
    for ref in reads:
        ref.offset = _tandem.Affine(offsets[1 - offsets.index(ref.offset.base)])
    assert outcome(program) != PASSED


def _range(ref):
    return ref.index, ref.offset.base, ref.bytes


def test_buffer_reused_too_early(good, outcome):
    """A command writes where another one's result still waits for its reader."""
    tried = 0
    whole = _tandem.Program.load(good)
    for victim, (first, last) in _lifetimes(whole).items():
        thief = _something_written_between(whole, victim, first, last)
        if thief is None:
            continue
        program = _tandem.Program.load(good)
        _move(program, thief, victim)
        assert outcome(program) != PASSED, (victim, thief)
        tried += 1
        if tried == 3:
            return
    assert tried


def _lifetimes(program):
    """{range of the arena: (place of its writer, place of its last reader)}, where written once."""
    written, read = {}, {}
    for place, command in enumerate(commands_of(program)):
        for writes, ref in buffers(command):
            if ref.space == _tandem.Space.arena:
                (written if writes else read).setdefault(_range(ref), []).append(place)
    return {
        key: (places[0], max(read[key]))
        for key, places in written.items()
        if len(places) == 1 and key in read and max(read[key]) > places[0] + 1
    }


def _something_written_between(program, victim, first, last):
    """The range of a gemm's or kernel's result, no longer than the victim's, written while that waits."""
    for command in list(commands_of(program))[first + 1 : last]:
        for writes, ref in buffers(command):
            small = ref.space == _tandem.Space.arena and ref.bytes <= victim[2]
            if writes and small and command.kind in ("gemm", "launch") and _range(ref) != victim:
                return _range(ref)
    return None


def _move(program, source, target):
    for command in commands_of(program):
        for _, ref in buffers(command):
            if ref.space == _tandem.Space.arena and _range(ref) == source:
                ref.offset = _tandem.Affine(target[1])
