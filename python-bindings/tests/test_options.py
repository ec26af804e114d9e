"""One row of the table makes a keyword, an argument and a text that processes compare."""

import argparse
import inspect
from types import SimpleNamespace

import pytest
import tandem
from tandem.base import options
from tandem.commands import verify
from tandem.commands._planner import add_planner_arguments, planner_options
from tandem.errors import CompileError, TandemError


class _Row:
    """A row as the compiled module gives it."""

    name, type, flag, value = "added_option", "count", "--added-option", "N"
    default, reader, initial, most = 7, "plan", "", 9
    has_member = is_step = is_command = is_python = is_flag = is_compared = True
    is_path = False
    help, python, expected = "A row that a test adds.", "", ""


@pytest.fixture
def added(monkeypatch):
    rows = (*options.rows(), _Row())
    monkeypatch.setattr(options, "rows", lambda: rows)
    record = SimpleNamespace(CompileOptions=SimpleNamespace)
    monkeypatch.setattr(options, "native", lambda: record)


def _compile(model, **given):
    """Compiles.

    {keywords}
    """


def test_a_row_is_a_keyword(added):
    found = options.documented(_compile)
    assert inspect.signature(found).parameters["added_option"].default == 7
    assert "added_option (default 7): A row that a test adds." in found.__doc__


def test_a_row_reaches_the_record_of_the_compiler(added):
    assert options.make_options().added_option == 7
    assert options.make_options(added_option=3).added_option == 3


def test_a_row_is_checked(added):
    with pytest.raises(CompileError, match="added_option is 10, expected an integer from 1 to 9"):
        options.make_options(added_option=10)


def test_a_row_is_an_argument_of_commands(added):
    parser = argparse.ArgumentParser()
    add_planner_arguments(parser)
    assert planner_options(parser.parse_args(["--added-option", "5"]))["added_option"] == 5
    assert planner_options(parser.parse_args([]))["added_option"] == 7


def test_processes_compare_a_row(added):
    values = options.with_defaults(options.step_rows(), {"added_option": 4}, "compile")
    assert options.texts_of(values)["added_option"] == "4"


def test_bytes_may_have_a_unit():
    texts = set()
    for given in (24 * 2**30, "24GiB", "24 GiB", str(24 * 2**30)):
        assert options.make_options(memory=given).memory == 24 * 2**30
        values = options.with_defaults(options.step_rows(), {"memory": given}, "compile")
        texts.add(options.texts_of(values)["memory"])
    assert len(texts) == 1  # processes that write it otherwise agree
    assert options.make_options().memory == -1


def test_processes_compare_what_is_empty_as_it_is():
    values = options.with_defaults(options.step_rows(), {"mesh": "", "search": ""}, "compile")
    texts = options.texts_of(values)
    assert (texts["mesh"], texts["search"]) == ("of one rank", "")
    assert texts["search_time_limit"] == "0"


def test_without_the_compiled_module_a_call_says_so(monkeypatch):
    def absent():
        raise TandemError("the compiled module cannot be loaded")

    options.rows.cache_clear()
    monkeypatch.setattr(options, "native", absent)
    assert options.documented(_compile) is _compile
    with pytest.raises(TandemError, match="cannot be loaded"):
        tandem.compile(None, None, None, None, mesh={"data": 2})
    options.rows.cache_clear()


def test_keywords_are_those_of_the_table():
    keywords = inspect.signature(tandem.compile).parameters
    assert list(keywords)[:4] == ["model", "loss_fn", "optimizer", "example_batch"]
    assert keywords["micro"].default == 1 and keywords["search"].default is None
    for name in list(keywords)[4:]:
        assert f"{name} (default" in tandem.compile.__doc__


def test_a_keyword_that_is_none_is_a_type_error():
    with pytest.raises(TypeError, match="compile.. got an unexpected keyword argument 'macro'"):
        tandem.compile(None, None, None, None, macro=2)


@pytest.mark.parametrize(
    "given, text",
    [
        (
            {"fail_on_replicate": -1},
            "fail_on_replicate is -1, expected bytes, or None for no limit",
        ),
        ({"memory": "24gb"}, "memory is '24gb', expected bytes, such as '24GiB', or None for the"),
        ({"memory": True}, "memory is True, expected bytes, such as '24GiB'"),
        ({"memory": 1.5e9}, "memory is 1500000000.0, expected bytes, such as '24GiB'"),
        ({"presets": 1}, "presets is 1, expected True or False"),
        ({"cluster": 3}, "cluster is 3, expected the path of a file"),
        ({"search": 3}, "search is 3, expected the name of an algorithm, such as 'tandem'"),
        ({"accumulate": 2**20 + 1}, "expected an integer from 1 to 1048576"),
    ],
)
def test_a_value_of_another_type(given, text):
    with pytest.raises(CompileError, match=text):
        options.make_options(**given)


def test_a_plan_is_a_preset_or_a_file(tmp_path):
    assert options.make_options(plan="zero").preset == "zero"
    path = tmp_path / "plan.txt"
    assert options.make_options(plan=path).plan_file == str(path)


def test_names_of_devices_come_from_the_descriptions():
    (row,) = options.named_command_rows("device")
    assert row.choices == ["cpu", "cuda", "sim"]
    assert row.help == "Device to compile for: cpu or cuda or sim. Default: cpu."
    text = "device is 3, expected the name of a device: 'cpu' or 'cuda' or 'sim'"
    with pytest.raises(CompileError, match=text):
        options.make_options(device=3)


def test_code_is_emulated_where_its_libraries_are_named(monkeypatch):
    def architecture(**given):
        return options.make_options(**given).architecture

    monkeypatch.delenv("TANDEM_CUDA_LIBRARIES", raising=False)
    assert architecture(device="cuda") == ""
    monkeypatch.setenv("TANDEM_CUDA_LIBRARIES", "/a/folder")
    assert architecture(device="cuda") == "emulated"
    assert architecture(device="cuda", architecture="sm_90") == "sm_90"
    assert architecture() == architecture(device="cpu") == architecture(device="tpu") == ""


def test_how_a_plan_splits_a_batch():
    kinds = options.native().PresetBatch
    assert options.default_preset() == "data-parallel"
    assert options.preset_of_batch(kinds.WHOLE) == "replicate"
    assert {name: options.batch_of_plan(name) for name in options.preset_names()} == {
        "replicate": kinds.WHOLE,
        "data-parallel": kinds.DATA,
        "zero": kinds.DATA,
        "zero2": kinds.DATA,
        "tensor-parallel": kinds.DATA_OF_SEVERAL,
        "expert-parallel": kinds.ALL,
        "pipeline": kinds.DATA,
    }
    assert options.batch_of_plan(None) == options.batch_of_plan("a/plan.txt") == kinds.DATA


def test_arguments_of_verify_come_from_the_table(capsys):
    parser = argparse.ArgumentParser()
    verify.add_arguments(parser)
    given = parser.parse_args(["model.py", "--seed", "-3", "--threads", "2", "--device", "cuda"])
    assert (given.seed, given.threads, given.device) == (-3, 2, "cuda")
    given = parser.parse_args(["model.py", "--gradient-sums", "bf16", "--precision", "bf16"])
    assert (given.seed, given.threads, given.device) == (0, 1, None)
    assert (given.gradient_sums, given.precision) == ("bf16", "bf16")
    with pytest.raises(SystemExit):
        parser.parse_args(["model.py", "--device", "tpu"])
    error = capsys.readouterr().err
    assert "invalid choice: 'tpu' (choose from 'cpu', 'cuda', 'sim', 'reference')" in error
