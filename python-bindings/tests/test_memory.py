"""What a rank holds fits into the memory that its plan was limited to, also what could be made early."""

import re
from math import prod

import matrix
import pytest
from tandem import _tandem, export
from tandem.model_file import load_model_file

LIMIT = 700000


def count_bytes(argument):
    bits = int(re.search(r"\d+", argument.type)[0])
    return max(bits // 8, 1) * prod(argument.local_shape)


def count_held(compiled):
    """Bytes of the largest arenas of a rank, and of its arguments."""
    program = _tandem.Program.load(compiled.bytes)
    arenas = max(sum(arena.bytes for arena in rank.arenas) for rank in program.rank_programs)
    return arenas + sum(map(count_bytes, program.arguments))


@pytest.fixture(scope="module")
def module():
    file = load_model_file(matrix.EXAMPLES / "bert_moe.py", None, "", "float32")
    model = file.make_model(meta=True)
    return export(model, file.loss, file.make_optimizer(model), file.batches(1)[0])


@pytest.fixture(scope="module")
def limited(module, tmp_path_factory):
    """A step with little memory on a laptop, whose links are slow: it pays to begin early."""
    path = tmp_path_factory.mktemp("memory") / "laptop.yaml"
    laptop = matrix.ROOT / "examples" / "clusters" / "laptop.yaml"
    path.write_text(laptop.read_text().replace("size: 3 GiB", f"size: {LIMIT} B"))
    return matrix.compile_module(
        module, mesh="data=4", micro=2, search="tandem", cluster=path, timeline=True
    )


def test_collectives_take_turns_where_memory_is_full(module, limited, tmp_path):
    peak = int(re.search(r"(?m)^peak (\d+) B$", limited.plan)[1])
    assert count_held(limited) <= peak <= LIMIT
    assert not any("the Program holds" in text for text in limited.remarks)
    early, count = re.subn("(?m)^(stage .*): in turn$", r"\1", limited.plan)
    assert count > 0
    (tmp_path / "plan.txt").write_text(early)
    begun = matrix.compile_module(module, plan=str(tmp_path / "plan.txt"))
    assert count_held(begun) > LIMIT


def test_turns_are_part_of_the_plan(module, limited, tmp_path):
    (tmp_path / "plan.txt").write_text(limited.plan)
    again = matrix.compile_module(module, plan=str(tmp_path / "plan.txt"))
    assert again.bytes == limited.bytes


def test_turns_cost_what_the_plan_says(limited):
    remark = next(text for text in limited.remarks if "timeline " in text)
    timeline, cost = re.search(r"timeline (\S+) s, cost of the plan (\S+) s", remark).groups()
    assert 0 < float(timeline) <= float(cost) * (1 + 1e-9)
