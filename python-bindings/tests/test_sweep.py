"""`python -m tandem sweep`: rows, the table as JSON, the page, and bad input."""

import json
import re
from pathlib import Path

import pytest
from tandem.__main__ import main
from tandem.commands._sweep import Row, candidates

ROOT = Path(__file__).resolve().parents[2]
CLUSTER = """name: pair
kinds:
  A: {rates: {f32: 10 TFLOP/s}, memory: {size: 2 GiB, bandwidth: 500 GB/s}, overhead: 5 us, price: 2 USD/h}
nodes:
  - {count: 1, devices: {A: 2}}
link:
  node: {latency: 5 us, bandwidth: 100 GB/s, per: device}
  network: {latency: 10 us, bandwidth: 10 Gbit/s, per: node}
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "cluster.yaml").write_text(CLUSTER)
    step = folder / "step.mlir"
    assert (
        main(
            [
                "export",
                str(ROOT / "examples" / "gpt.py"),
                "--preset",
                "tiny",
                "--meta",
                "-o",
                str(step),
            ]
        )
        == 0
    )
    return folder


def sweep(folder, *words):
    return main(["sweep", f"{folder}/step.mlir", "--cluster", f"{folder}/cluster.yaml", *words])


def test_a_sweep_has_a_row_for_each_point(files, capsys):
    table, page = files / "sweep.json", files / "sweep.html"
    words = ["--devices=2..4", "--bandwidth=1.0,10Gbit", "--plans=zero,pipeline"]
    assert sweep(files, *words, f"--json={table}", f"--html={page}") == 0
    rows = json.loads(table.read_text())["rows"]
    points = [(row["devices"], row["bandwidth"]) for row in rows if row["plan"] == "zero"]
    assert points == [(2, ""), (4, "1.0 Gbit/s"), (4, "10 Gbit/s")]
    assert len(rows) == 2 * len(points)
    slow, fast = (row for row in rows if row["plan"] == "zero" and row["devices"] == 4)
    assert slow["seconds"] > fast["seconds"] > 0
    for row in rows:
        assert row["cost"] == pytest.approx(row["seconds"] * row["devices"] * 2 / 3600)
        assert row["rate"] == pytest.approx(16 * 16 / row["seconds"])
        assert row["items"] == "tokens" and row["fits"] and row["peak"] > 0
    assert page.read_text().startswith("<!DOCTYPE html>") and "pipe=2" in page.read_text()
    assert len(capsys.readouterr().out.splitlines()) == 1 + len(rows)


def test_a_bandwidth_is_that_of_the_nodes_own_link(files, tmp_path):
    """Rows are those of a file in which the link is that of all nodes."""
    network = "  network: {latency: 10 us, bandwidth: 10 Gbit/s, per: node}\n"
    nodes = "  - {count: 1, devices: {A: 2}}\n"
    named = nodes.replace("}}", "}, link: {" + network.strip() + "}}")
    found = []
    for text in (
        CLUSTER,
        CLUSTER.replace(nodes, named).replace(network, ""),
        CLUSTER.replace(nodes, named),
    ):
        cluster, table = tmp_path / "own.yaml", tmp_path / "own.json"
        cluster.write_text(text)
        words = ["--devices=4", "--bandwidth=1,10Gbit", "--plans=zero", f"--json={table}"]
        assert sweep(files, *words, f"--cluster={cluster}") == 0
        found.append([row["seconds"] for row in json.loads(table.read_text())["rows"]])
    assert found[0] == found[1] == found[2] and found[0][0] > found[0][1]


def test_measured_times_of_a_network_hold_for_one_bandwidth(files, tmp_path, capsys):
    cluster = tmp_path / "measured.yaml"
    times = "{collective: all-reduce, link: network, ranks: 4, bytes: 1 MiB, time: 1 ms}"
    cluster.write_text(CLUSTER + f"measured:\n  collectives:\n    - {times}\n")
    words = ["--devices=4", "--plans=zero", f"--cluster={cluster}"]
    assert sweep(files, *words, "--bandwidth=1Gbit") == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "measured collectives of the network" in line
    assert sweep(files, *words) == 0


def test_a_search_is_no_worse_than_the_other_rows(files):
    table = files / "searched.json"
    words = ["--devices=2..8", "--bandwidth=1,10Gbit", "--search-time-limit=1", f"--json={table}"]
    assert sweep(files, *words) == 0
    rows = json.loads(table.read_text())["rows"]
    searched = [row for row in rows if row["plan"] == "search"]
    assert len(searched) == 5
    for row in searched:
        others = [
            other["seconds"]
            for other in rows
            if (other["devices"], other["bandwidth"]) == (row["devices"], row["bandwidth"])
            and other["fits"]
        ]
        assert row["fits"] and row["seconds"] == min(others)


def test_a_search_takes_a_row_that_is_better():
    def row(plan, seconds, fits=True, why=""):
        return Row(8, "", plan, f"mesh of {plan}", seconds=seconds, fits=fits, peak=1, why=why)

    own = row("search", 2)
    assert own.or_better([]) is own
    assert own.or_better([row("zero", 3), row("pipeline", 2)]) is own
    taken = own.or_better([row("zero", 1, fits=False), row("pipeline", 1.5)])
    assert (taken.plan, taken.of, taken.seconds) == ("search", "pipeline", 1.5)
    assert taken.name == "mesh of pipeline (pipeline)"
    failed = row("search", 0, fits=False, why="no plan")
    assert failed.or_better([row("zero", 3)]).of == "zero"
    assert failed.or_better([row("zero", 0, fits=False, why="too large")]) is failed


def test_what_is_not_possible_is_a_row(files, capsys):
    assert sweep(files, "--devices=3,64", "--plans=zero") == 1
    captured = capsys.readouterr()
    assert "3 devices, expected a multiple of 2" in captured.out
    assert "does not divide" in captured.out
    assert captured.err == "tandem sweep: no plan is possible on any of these clusters\n"


def test_one_device_is_a_row(files, capsys):
    assert sweep(files, "--devices=1", "--plans=zero") == 0
    assert re.search(r"^ *1 +- +zero +data=1 .*yes$", capsys.readouterr().out, re.MULTILINE)


@pytest.mark.parametrize(
    "words, message",
    [
        (["--devices=8..2"], "expected the smaller number first"),
        (["--devices=many"], "expected numbers as 8..1024 or 8,12,16"),
        (["--bandwidth=10"], "expected bandwidths"),
        (["--bandwidth=0Gbit"], "expected bandwidths"),
        (["--bandwidth=1.2.3Gbit"], "expected bandwidths"),
        (["--plans=fastest"], "expected search, zero, tensor-parallel, pipeline"),
    ],
)
def test_wrong_options(files, capsys, words, message):
    with pytest.raises(SystemExit):
        sweep(files, *words)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("tandem sweep: error: ") and message in line


def test_wrong_files(files, capsys):
    assert main(["sweep", "none.mlir", "--cluster", f"{files}/cluster.yaml"]) == 1
    assert main(["sweep", f"{files}/step.mlir", "--cluster", "none.yaml"]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "tandem sweep: error: cannot read 'none.mlir': No such file or directory",
        "tandem sweep: error: cannot read 'none.yaml': No such file or directory",
    ]


def test_meshes_use_all_devices():
    for plan in ("zero", "tensor-parallel", "pipeline"):
        found = list(candidates(plan, 24, 8, 48, None, 1))
        assert found
        for candidate in found:
            sizes = [int(part.partition("=")[2]) for part in candidate.mesh.split(",")]
            product = 1
            for size in sizes:
                product *= size
            assert product == 24


@pytest.mark.parametrize(
    "plan, devices, per_node, expected",
    [
        (
            "pipeline",
            8,
            4,
            ["pipe=2,data=4", "pipe=2,model=4", "pipe=4,data=2", "pipe=4,model=2", "pipe=8"],
        ),
        ("pipeline", 3, 4, ["pipe=3"]),
        (
            "pipeline",
            6,
            8,
            ["pipe=2,data=3", "pipe=2,model=3", "pipe=3,data=2", "pipe=3,model=2", "pipe=6"],
        ),
        (
            "pipeline",
            12,
            4,
            ["pipe=2,data=6", "pipe=2,data=3,model=2", "pipe=3,data=4", "pipe=3,model=4"]
            + ["pipe=4,data=3", "pipe=6,data=2", "pipe=6,model=2", "pipe=12"],
        ),
        ("tensor-parallel", 3, 4, ["model=3"]),
        ("tensor-parallel", 12, 4, ["data=6,model=2", "data=3,model=4"]),
        ("tensor-parallel", 24, 8, ["data=12,model=2", "data=6,model=4", "data=3,model=8"]),
    ],
)
def test_meshes_divide_the_devices(plan, devices, per_node, expected):
    """Devices along `model` are all in one node."""
    found = candidates(plan, devices, per_node, batch=24, accumulate=0, search_seconds=1)
    assert [candidate.mesh for candidate in found] == expected


def test_six_devices_are_no_nodes_of_four(files, tmp_path, capsys):
    cluster = tmp_path / "four.yaml"
    cluster.write_text(CLUSTER.replace("{A: 2}", "{A: 4}"))
    words = ["--devices=6", "--plans=tensor-parallel,pipeline", "--cluster", str(cluster)]
    assert sweep(files, *words) == 1
    assert capsys.readouterr().out.count("6 devices, expected a multiple of 4") == 2
