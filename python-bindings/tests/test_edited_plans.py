"""Lines of a plan file that were changed by hand: read alike by whoever follows and whoever prices them."""

import re

import matrix
import pytest
from tandem.errors import CompileError

PRICED = {"cluster": matrix.SLOW_CORES, "timeline": True}
# The loss counts its rows on all axes at once, so that truth values are made whole.
COUNTS_WHOLE = "nn.sum#143:data=full,model=full,micro=full"


@pytest.fixture(scope="module")
def module():
    return matrix.subject_of(matrix.Case("gpt", dtype="float32")).module


@pytest.fixture(scope="module")
def found(module):
    return matrix.compile_module(
        module,
        mesh="data=2,model=2",
        micro=2,
        search="presets",
        cluster=matrix.SLOW_CORES,
        pins=[COUNTS_WHOLE],
    )


def _make_editor(found, tmp_path, matches):
    """Writes the plan with a change of the first of its lines that `matches`."""
    lines = found.plan.splitlines()
    number = next(i for i, text in enumerate(lines) if matches(text))

    def write(change):
        changed = change(lines[number]).split("\n")
        changed = [*lines[:number], *changed, *lines[number + 1 : -1]]
        path = tmp_path / "plan.txt"
        path.write_text("\n".join([*changed, f"end {len(changed) - 1}", ""]))
        return str(path), number + 1

    write.line = lines[number]
    return write


@pytest.fixture
def edit(found, tmp_path):
    """A line `wait` of three collectives."""
    return _make_editor(found, tmp_path, lambda text: text.count(" then ") == 2)


@pytest.fixture
def edit_copy(found, tmp_path):
    """A line `copy` of three changes on the way to `full, full, full`."""
    return _make_editor(found, tmp_path, lambda text: re.match("copy .* forward (.*->){3}", text))


def without_slots(text):
    return re.sub("(?m)^(wait .*?) in .*", r"\1", text)


def check_schedule(module, path):
    schedule, cost, _ = matrix.price_schedule(module, plan=path, cluster=matrix.SLOW_CORES)
    assert 0 < schedule <= cost * (1 + 1e-9)


@pytest.mark.parametrize("leaves", ["one", "all"])
def test_slots_left_out_are_those_of_the_cost(module, found, edit, leaves, tmp_path):
    path, _ = edit(without_slots)
    if leaves == "all":
        (tmp_path / "plan.txt").write_text(without_slots(found.plan))
    again = matrix.compile_module(module, plan=path, **PRICED)
    assert again.bytes == found.bytes
    check_schedule(module, path)
    # Without a cluster those of a laptop, which is said.
    remarks = matrix.compile_module(module, plan=path).remarks
    assert any("cost" in text and "on laptop" in text for text in remarks)


def test_slots_given_are_followed_without_prices(module, found, edit):
    last = (
        without_slots(edit.line) + " in " + " then ".join([_get_last_slot(found.plan) + " 1"] * 3)
    )
    path, number = edit(lambda _: last)
    followed = matrix.compile_module(module, plan=path)
    assert followed.bytes != found.bytes and not followed.remarks
    assert last in followed.plan
    # The cost counts a queue: what is costed is sent so, and the line that is not followed is named.
    costed = matrix.compile_module(module, plan=path, **PRICED)
    assert costed.bytes == found.bytes and edit.line in costed.plan
    check_schedule(module, path)
    assert any(
        f"line {number}: 'operator " in text and "as its cost" in text for text in costed.remarks
    )


def _get_last_slot(plan):
    """The latest one: behind what waits longest."""
    slots = re.findall(r"(\d+)/(\d+) ", " ".join(re.findall("(?m)^wait .* in (.*)", plan)))
    return "/".join(max(slots, key=lambda slot: tuple(map(int, slot))))


@pytest.mark.parametrize("options", [{}, PRICED], ids=["followed", "priced"])
@pytest.mark.parametrize(
    "slots,words",
    [
        ("hello", "found 'in hello', expected 'in STAGE/STRAND SHARE"),
        ("{0}/0 nan, {0}/0 1 then {0}/0 1 then {0}/0 1", "shares that rise to 1"),
        ("{0}/0 -0.5, {0}/0 1 then {0}/0 1 then {0}/0 1", "shares that rise to 1"),
        ("{0}/0 2 then {0}/0 1 then {0}/0 1", "shares that rise to 1"),
        ("{0}/0 0.5 then {0}/0 1 then {0}/0 1", "shares that rise to 1"),
        ("{0}/1 1 then {0}/0 1 then {0}/0 1", "slots that do not go back"),
        ("{0}/0 1", "found slots of 1, divided by 'then', expected those of 3"),
        ("{0}/5 1 then {0}/5 1 then {0}/5 1", "sent in strand 5 of stage"),
        ("0/0 1 then {0}/0 1 then {0}/0 1", "sent in stage 0, expected one behind stage"),
        ("{0}/0 1 then {0}/0 1 then 9999/0 1", "sent in stage 9999, expected one behind stage"),
    ],
)
def test_bad_slots(module, found, edit, slots, words, options):
    stage = re.search(r" in (\d+)/", edit.line)[1]
    path, number = edit(lambda line: without_slots(line) + " in " + slots.format(stage))
    with pytest.raises(CompileError) as error:
        matrix.compile_module(module, plan=path, **options)
    assert words in str(error.value) and f"plan.txt', line {number}: " in str(error.value)
    assert "; leave out 'in ...' to have the slots chosen" in str(error.value)


@pytest.mark.parametrize("options", [{}, PRICED], ids=["followed", "priced"])
@pytest.mark.parametrize(
    "change,words",
    [
        (lambda line: line.replace("full, full, full", "full, full"), "expected 'RESULT FORMS [in"),
        (lambda line: line.replace("full, full, full", "gather(0), full, full"), "no update takes"),
        (
            lambda line: re.sub("operator [0-9]+: .", "operator 0: 0", line),
            "does not wait, expected a gradient",
        ),
        (lambda line: re.sub("operator [0-9]+: .", "argument 0: 0", line), "does not wait"),
        (lambda line: "wait operator 9999: 0 full, full, full", "the step has no 'operator 9999'"),
    ],
)
def test_bad_waits(module, edit, change, words, options):
    path, number = edit(change)
    with pytest.raises(CompileError) as error:
        matrix.compile_module(module, plan=path, **options)
    assert words in str(error.value) and f"plan.txt', line {number}: " in str(error.value)


@pytest.mark.parametrize("options", [{}, PRICED], ids=["followed", "priced"])
@pytest.mark.parametrize(
    "old,new,words",
    [
        (": 0 ", ": 5 ", "has no result '5'"),
        (": 0 ", ": -1 ", "has no result '-1'"),
        ("operator [0-9]*", "operator 9223372036854775807", "the step has no 'operator 9223372"),
        ("operator [0-9]*", "result 1", "'result 1' has no result '0'"),
        ("forward", "sideways", "expected 'RESULT PASS [kept] FORMS -> ... -> FORMS'"),
        ("full", "replicate", "expected 'RESULT PASS [kept] FORMS -> ... -> FORMS'"),
        ("full, full, full", "full, full", "with a form for each axis of mesh data=2,model=2"),
        (" -> .*", "", "expected 'RESULT PASS [kept] FORMS -> ... -> FORMS'"),
        ("0 forward ", "0 forward gather(7), full, full -> ", "splits dimension 7, but the tensor"),
        ("$", " -> full, gather(9), full", "splits dimension 9, but the tensor has rank"),
        ("->.*->", "->", "changes the axes 'data' and 'model', expected one axis"),
        ("$", " -> reduce, full, full", "truth values (i1) are 'reduce' on axis 'data'"),
        ("$", " -> full, full, gather(0)", "by nothing in the forward pass, expected forms that"),
        ("forward", "update", "by nothing in the update pass, expected forms that"),
        (
            "forward.*gather",
            "forward full, full, gather",
            "is not there as 'full, full, gather(0)'",
        ),
        (".*", r"\g<0>\n\g<0>", "in the forward pass twice, expected one line"),
    ],
)
def test_bad_copies(module, edit_copy, old, new, words, options):
    path, number = edit_copy(lambda line: re.sub(old, new, line, count=1))
    number += words.endswith("twice, expected one line")
    with pytest.raises(CompileError) as error:
        matrix.compile_module(module, plan=path, **options)
    assert words in str(error.value) and f"plan.txt', line {number}: " in str(error.value)


def test_ways_are_followed_without_prices(module, found, edit_copy):
    way = edit_copy.line.replace("gather(0), full, gather(0)", "full, gather(0), gather(0)")
    way = way.replace(
        "gather(0) -> full, gather(0), gather(0)",
        "gather(0) -> gather(0), full, gather(0) -> full, full, gather(0) -> gather(0), full, gather(0)",
    )
    path, number = edit_copy(lambda _: way)
    followed = matrix.compile_module(module, plan=path)
    assert followed.bytes != found.bytes and not followed.remarks and way in followed.plan
    costed = matrix.compile_module(module, plan=path, **PRICED)
    assert costed.bytes == found.bytes and edit_copy.line in costed.plan
    assert any(
        f"line {number}: 'operator " in text and "is copied by gather(0), " in text
        for text in costed.remarks
    )


@pytest.mark.parametrize(
    "old,new,words",
    [
        ("update ", "update kept ", "is kept, expected a later pass"),
        ("$", " -> reduce, full, full", "makes 'reduce' of 'full', which no collective does"),
    ],
)
def test_bad_copies_for_updates(module, found, tmp_path, old, new, words):
    edit = _make_editor(found, tmp_path, lambda text: re.match("copy .* update ", text))
    path, number = edit(lambda line: re.sub(old, new, line))
    with pytest.raises(CompileError, match=f"line {number}: .* {words}"):
        matrix.compile_module(module, plan=path)


@pytest.mark.parametrize("kind", ["argument", "operator", "wait"])
def test_one_line_for_each(module, found, tmp_path, kind):
    edit = _make_editor(found, tmp_path, lambda text: text.startswith(kind + " "))
    path, number = edit(lambda line: f"{line}\n{line}")
    with pytest.raises(CompileError, match=f"line {number + 1}: .*, expected one"):
        matrix.compile_module(module, plan=path)


@pytest.mark.parametrize("old,new", [("(0)", "(0),"), ("(0)", "(9223372036854775807)")])
def test_bad_signatures(module, found, tmp_path, old, new):
    edit = _make_editor(found, tmp_path, lambda text: text.startswith("operator "))
    path, number = edit(lambda line: line.replace(old, new, 1))
    with pytest.raises(CompileError, match=f"line {number}: .* no signature "):
        matrix.compile_module(module, plan=path)


def test_bad_mesh(module, found, tmp_path):
    edit = _make_editor(found, tmp_path, lambda text: text.startswith("mesh "))
    path, _ = edit(lambda _: "mesh data=2,model=-2")
    with pytest.raises(CompileError, match="plan file '.*plan.txt': mesh 'data=2,model=-2': expe"):
        matrix.compile_module(module, plan=path)


@pytest.mark.parametrize("options", [{}, PRICED], ids=["followed", "priced"])
@pytest.mark.parametrize(
    "without,words", [("stage ", "is copied"), (("stage ", "copy "), "waits")], ids=["copy", "wait"]
)
def test_needs_stages(module, found, tmp_path, without, words, options):
    lines = [line for line in found.plan.splitlines() if not line.startswith(without)]
    lines[-1] = f"end {len(lines) - 2}"
    (tmp_path / "plan.txt").write_text("\n".join([*lines, ""]))
    with pytest.raises(CompileError, match=f"line [0-9]+: .* {words} in a plan of one stage"):
        matrix.compile_module(module, plan=str(tmp_path / "plan.txt"), **options)


def test_names_the_lines_that_can_be(module, edit):
    path, number = edit(lambda _: "weight 3: full")
    with pytest.raises(
        CompileError,
        match=f"line {number}: 'weight 3: full', .*'stage ...', 'copy ...', 'wait ...'",
    ):
        matrix.compile_module(module, plan=path)
