"""scripts/check-includes finds what a room may not include."""

import importlib.machinery
import importlib.util
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def rules():
    path = str(ROOT / "scripts" / "check-includes")
    loader = importlib.machinery.SourceFileLoader("check_includes", path)
    module = importlib.util.module_from_spec(
        importlib.util.spec_from_loader("check_includes", loader)
    )
    loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "check,path,target,why",
    [
        ("compiler", "lib/Search/X.cpp", "mlir/IR/Value.h", "sees no IR"),
        ("compiler", "lib/Explain/X.cpp", "llvm/ADT/STLExtras.h", "sees no IR"),
        ("compiler", "lib/Explain/X.cpp", "tandem/Search/Search.h", None),
        ("compiler", "lib/Explain/X.cpp", "../Search/DescentPrices.h", "public headers"),
        ("compiler", "lib/Search/Ilp/X.cpp", "../DescentPrices.h", None),
        ("compiler", "lib/Search/X.cpp", "tandem/Explain/Explain.h", "downwards only"),
        ("compiler", "lib/Support/X.cpp", "llvm/ADT/STLExtras.h", "sees no IR"),
        ("compiler", "lib/Support/X.cpp", "tandem/Cost/Cost.h", "downwards only"),
        ("compiler", "lib/Reference/X.cpp", "tandem/Support/TextFile.h", None),
        ("compiler", "lib/Transforms/Plan/X.cpp", "tandem/Support/TextFile.h", None),
        ("compiler", "lib/Transforms/Shard/X.cpp", "tandem/Cost/Cost.h", "only Transforms/Plan"),
        ("compiler", "lib/Reference/X.cpp", "tandem_rt/program.h", "include the runtime"),
        (
            "compiler",
            "lib/Search/Tandem/Problem/X.h",
            "Tandem/Relaxation/Factors.h",
            "downwards only",
        ),
        ("compiler", "lib/Search/Tandem/Stages/X.h", "Tandem/Sums/Sum.h", "downwards only"),
        ("compiler", "lib/Search/Tandem/Phases/X.cpp", "Tandem/Driver.h", "downwards only"),
        ("compiler", "lib/Search/Tandem/Phases/X.cpp", "Tandem/Phases/Context.h", None),
        ("compiler", "lib/Search/Tandem/Problem/X.cpp", "Tandem/Limits.h", None),
        ("compiler", "lib/Search/Tandem/Driver.h", "Tandem/Phases/Bound.h", None),
        ("runtime", "runtime/comm/gloo/x.cpp", "comm/local/group.h", "another one"),
        ("runtime", "runtime/comm/local/x.cpp", "comm/local/group.h", None),
        ("runtime", "runtime/comm/local/x.cpp", "cpu/memory.h", "includes no backend"),
        ("runtime", "runtime/core/x.cpp", "comm/local/group.h", "core header"),
        ("tool", "tools/tandem-run/x.cpp", "tandem/Cost/Cost.h", "may not include Cost"),
        ("tool", "tools/tandem-plan/x.cpp", "llvm/ADT/STLExtras.h", "no MLIR in its process"),
        ("tool", "tools/tandem-opt/x.cpp", "tandem_rt/program.h", "does not include the runtime"),
        ("tool", "tools/tandem-opt/x.cpp", "../tandem-run/values.h", "no other tool"),
        ("tool", "tools/tandem-run/x.cpp", "../common/arguments.h", None),
        ("tool", "tools/tandem-opt/x.cpp", "tandem/Pipelines/Pipelines.h", None),
        ("bindings", "python-bindings/src/x.cpp", "mlir/IR/Value.h", "see no IR"),
        ("bindings", "python-bindings/src/x.cpp", "tandem/Cost/Cost.h", "include Execution"),
        ("bindings", "python-bindings/src/x.cpp", "tandem/Execution/Compile.h", None),
    ],
)
def test_breaches_are_found(rules, check, path, target, why):
    found = getattr(rules, f"check_{check}")(ROOT / path, target)
    assert found is None if why is None else why in (found or "")


def test_the_suite_is_built_without_the_cpu_device(rules):
    text = '#ifdef TANDEM_CPU\n#include "cpu/crew.h"\n#endif\n#include "cpu/ways.h"\n'
    left = list(rules.includes(rules.without_cpu(text)))
    assert left == [(4, "cpu/ways.h")]
    assert "TANDEM_CPU" in rules.check_suite(None, "cpu/ways.h")
    assert rules.check_suite(None, "cts/support.h") is None
    assert "threads_test.cpp" in rules.tests_of_cpu()
    assert "gemm_test.cpp" not in rules.tests_of_cpu()


def test_the_repository_has_none(rules):
    assert rules.main() == 0
