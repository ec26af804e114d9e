"""Pages of reports, in a headless browser: what is drawn, and what a click shows."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import matrix
import pytest
import tandem
import torch
from selenium import webdriver
from selenium.webdriver.common.actions.action_builder import ActionBuilder
from tandem.__main__ import main
from tandem.capture.model_file import load_model_file
from tandem.pages import points
from tandem.session.compile import compile_module
from tandem.verify.reference import find_tool
from test_timelines import write_table

WAIT = """
const done = arguments[0];
const look = () => window.Bokeh?.documents[0]?.is_idle ? done(performance.now()) : setTimeout(look, 20);
look();
"""
# The middle of the longest bar of a kind, of the figure below another one if there are two: [x, y] in the window.
# The figure shows this bar alone then: among commands that took a thousand times as long it has less than a pixel.
MIDDLE = """
const [word, done] = arguments;
const drawn = then => Bokeh.documents[0].is_idle ? then() : setTimeout(() => drawn(then), 20);
for (const root of Bokeh.documents[0].roots().reverse()) {
  const view = Bokeh.index.get(root);
  for (const bars of view.renderer_views ? [...view.renderer_views.values()] : []) {
    const data = bars.model.data_source?.data;
    if (!data?.iteration) continue;
    const {table, words} = root.toolbar.tools.find(tool => tool.type === "TapTool").callback.args;
    const length = i => data.right[i] - data.left[i];
    const found = [...data.command.keys()].filter(i => words[table.data.kind[data.command[i]]] === word);
    if (!found.length) continue;
    const i = found.reduce((a, b) => length(a) < length(b) ? b : a);
    root.x_range.setv({start: data.left[i] - length(i), end: data.right[i] + length(i)});
    return setTimeout(() => drawn(() => {
      const box = view.el.getBoundingClientRect(), frame = view.frame;
      const middle = (data.left[i] + data.right[i]) / 2;
      done([box.x + frame.x_scale.compute(middle), box.y + frame.y_scale.compute(data.lane[i]),
            length(i), data.rank[i]]);
    }), 20);
  }
}
done(null);
"""


@pytest.fixture(scope="module")
def browser():
    options = webdriver.ChromeOptions()
    for word in ("headless=new", "no-sandbox", "disable-gpu", "window-size=1300,3000"):
        options.add_argument(f"--{word}")
    options.binary_location = "/usr/bin/chromium"
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.chrome.service.Service("/usr/bin/chromedriver")
    driver = webdriver.Chrome(options=options, service=service)
    yield driver
    driver.quit()


def open_page(browser, path):
    """Milliseconds until everything is drawn."""
    browser.get(f"file://{path}")
    taken = browser.execute_async_script(WAIT)
    log = browser.get_log("browser")
    assert [entry["message"] for entry in log if entry["level"] in ("WARNING", "SEVERE")] == []
    return taken


def click(browser, kind):
    """On the longest bar of a kind in the lowest figure; its milliseconds and rank."""
    x, y, length, rank = browser.execute_async_script(MIDDLE, kind)
    actions = ActionBuilder(browser)
    actions.pointer_action.move_to_location(round(x), round(y)).click()
    actions.perform()
    return length, rank


def panel(browser):
    script = """return [...document.querySelectorAll("#command dt")].map(
        term => [term.textContent, term.nextSibling.textContent])"""
    return dict(browser.execute_script(script))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = torch.randn(8, 16)
    step = tandem.compile(
        model,
        lambda m, x: m(x).square().mean(),
        optimizer,
        batch,
        plan="zero",
        mesh="data=2",
        micro=2,
        batch="global",
    )
    files = {
        name: folder / name for name in ("t.json", "step.tdm", "plan.txt", "why.json", "table.json")
    }
    with step.trace(files["t.json"]):
        for _ in range(3):
            step(batch)
    step.save_program(files["step.tdm"])
    files["plan.txt"].write_text(step.compiled.plan)
    with open(folder / "text", "w") as text:
        step.explain(files["why.json"], file=text)
    write_table(step, files["table.json"])
    return step, files


def arguments(files, page):
    given = {
        "--predicted": "table.json",
        "--program": "step.tdm",
        "--plan": "plan.txt",
        "--explain": "why.json",
    }
    options = [word for option, name in given.items() for word in (option, str(files[name]))]
    return ["report", str(files["t.json"]), *options, "--html", str(page)]


def test_a_page_shows_the_step(recorded, browser, tmp_path):
    step, files = recorded
    page = tmp_path / "page.html"
    assert main(arguments(files, page)) == 0
    open_page(browser, page)
    fetched = "return performance.getEntriesByType('resource').map(entry => entry.name)"
    assert browser.execute_script(fetched) == []
    heads = [head.text for head in browser.find_elements("css selector", "h2")]
    assert heads[:3] == ["Bounds", "Timeline", "Memory"] and "Plan" in heads
    length, rank = click(browser, "all_gather")
    shown = panel(browser)
    assert shown["kind"] == "all_gather over data" and shown["rank"] == str(rank)
    assert shown["predicted"].startswith("2.000 ms")
    measured = next(words for label, words in shown.items() if label.startswith("measured, step"))
    number, unit = re.match(r"([\d.]+) (ms|µs),", measured).groups()
    assert float(number) / {"ms": 1, "µs": 1000}[unit] == pytest.approx(length, rel=1e-3)
    layer = browser.find_element("xpath", "//summary[starts-with(., '0')]")
    assert not layer.find_element("xpath", "..").get_attribute("open")
    layer.click()
    assert "0.weight" in layer.find_element("xpath", "..").text


def test_the_tool_for_timelines_writes_pages(recorded, tmp_path):
    _, files = recorded
    page = tmp_path / "page.html"
    python = Path(sys.executable).parent  # its python3 is this one
    environment = os.environ | {"PATH": f"{python}:{os.environ['PATH']}"}
    _, *words = arguments(files, page)
    run = subprocess.run(
        [find_tool("tandem-trace"), "report", *words], env=environment, capture_output=True
    )
    assert (run.returncode, run.stderr) == (0, b"")
    assert page.read_text().startswith("<!DOCTYPE html>")
    none = subprocess.run(
        [find_tool("tandem-trace"), "report", "t.json", f"--html={page}"],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert none.returncode == 1
    expected = "tandem-trace: error: cannot run 'python3 -m tandem report': No such file"
    assert none.stderr.startswith(expected)


def test_the_first_line_has_the_median_and_the_drawn_step(recorded, tmp_path):
    _, files = recorded
    page = tmp_path / "page.html"
    for step in (1, 2):
        assert main(["report", str(files["t.json"]), "--step", str(step), "--html", str(page)]) == 0
        text = page.read_text()
        number, unit = re.search(
            r"median of 3 steps; the drawn one takes ([\d.]+) (ms|µs)\)", text
        ).groups()
        drawn = re.search(rf"measured, step {step}: ([\d.]+) ms", text)[1]
        assert float(number) / {"ms": 1, "µs": 1000}[unit] == pytest.approx(float(drawn), rel=1e-3)


def test_strands_of_a_plan_that_splits_no_stage():
    from tandem.pages import plans

    plan = {"mesh": ["data=2"], "micro": ["2"], "stage": []}
    assert "<td>strands</td><td>2</td>" in plans.head(plan)
    assert "<td>strands</td><td>2</td>" in plans.head(plan, {"stages_with_strands": 1})
    assert "<td>1, no stage is split</td>" in plans.head(plan, {"stages_with_strands": 0})


def test_an_alternative_of_the_same_price_adds_nothing():
    from tandem.pages import plans

    choice = {"added_seconds": -3e-18, "peak": 0, "fits": True, "form": "full", "grown": ""}
    form = {"tensor": "w", "form": "gather(0)", "next": [choice | {"method": "search"}]}
    page = plans.alternatives({"time": {"predicted": 1e-3}, "forms": [form]})
    assert "+0 µs" in page and "+0.00 %" in page


def test_ranks_that_the_table_leaves_out_are_counted():
    rank = dict.fromkeys(["computation", "communication", "hidden_of_min", "exposed", "idle"], 0.5)
    several = [rank | {"rank": number, "idle_for": []} for number in range(18)]
    assert "2 more ranks." in points.ranks({"ranks": several})
    assert "more" not in points.ranks({"ranks": several[:16]})


def test_a_notebook_shows_a_step_and_a_report(recorded):
    step, _ = recorded
    assert step.report()._repr_html_().startswith('<iframe srcdoc="&lt;!DOCTYPE html&gt;')
    assert "<iframe" in step._repr_html_() and "2 ranks" in step._repr_html_()


def test_memory_is_that_of_the_program(recorded):
    """What ranks hold at most fits into their arenas, and is at the peak what its values add up to."""
    from tandem.pages.page import Content

    step, files = recorded
    given = {"program": str(files["step.tdm"]), "predicted": str(files["table.json"])}
    content = Content(
        [str(files["t.json"])], **given, plan=None, explanation=None, step=None, ranks=()
    )
    for held in content.held:
        arenas = sum(arena.bytes for arena in step.program.rank_programs[0].arenas)
        assert 0.5 * arenas <= held.peak - held.own <= arenas
        assert held.peak == held.own + sum(size for _, size in held.at_peak().values())
        assert held.own + arenas == step.program.held_bytes(held.rank)


def rows_of(page, head):
    """The rows of the table on a page whose first column has this head."""
    table = next(part for part in page.split("<table")[1:] if f">{head}</th>" in part)
    rows = re.findall(r"<tr>(.*?)</tr>", table.split("</table>")[0], re.DOTALL)
    cells = [re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL) for row in rows]
    return [row for row in cells if row]


def test_a_pipeline_has_points_and_edges(tmp_path):
    """A rank of point 0 gives 4 microbatches of 2 rows of 16 numbers to point 1, which gives their gradients back."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4))
    step = tandem.compile(
        model,
        lambda m, x: m(x).square().mean(),
        torch.optim.SGD(model.parameters(), lr=0.1),
        torch.randn(16, 16),
        mesh="pipe=2,data=2",
        accumulate=4,
        pins=["0.*:pipe=at(0)", "2.*:pipe=at(1)"],
        batch="global",
    )
    timeline, page, program = (tmp_path / name for name in ("t.json", "page.html", "step.tdm"))
    with step.trace(timeline):
        step(torch.randn(16, 16))
    step.save_program(program)
    tandem.page(timeline, page, program=program)
    tandem.page(timeline, page, program=program)  # nothing that it imports takes its name
    text = page.read_text()
    assert "<h2>Points of axis pipe</h2>" in text and "<h2>Ranks</h2>" not in text
    assert "point 0, rank 0" in text and "point 1, rank 2" in text
    points = rows_of(text, "point")
    assert [row[0] for row in points] == ["0", "1"]
    assert all(row[1].endswith(" %") and row[3].endswith("s") and row[4] for row in points)
    sent = [f"{4 * 2 * 16 * 4} B", "4"]
    assert rows_of(text, "edge") == [["0 to 1", *sent], ["1 to 0", *sent]]


# Bars that are drawn and bars that there are, of the lowest figure with bars, and whether tandemSeen finds those that
# are drawn.
DRAWN = """
const plot = Bokeh.documents[0].roots().filter(root => root.renderers?.some(bar => bar.data_source.data.lane)).at(-1);
const bars = plot.renderers, count = bars.map(bar => bar.data_source.data.left.length);
const found = bars.map(bar => tandemSeen(bar.data_source.data, plot.x_range, 2000));
const drawn = bars.map(bar => [...bar.view.filter.indices]);
const sum = numbers => numbers.reduce((a, b) => a + b, 0);
return [sum(drawn.map(each => each.length)), sum(count), JSON.stringify(found) === JSON.stringify(drawn)];
"""
ZOOM = """
const [left, right] = arguments;
const range = Bokeh.documents[0].roots().find(root => root.renderers?.some(bar => bar.data_source.data.lane)).x_range;
const length = range.end - range.start;
range.setv({start: range.start + left * length, end: range.start + right * length});
"""
LIBRARY, MOST_PER_RUN = 1_500_000, 170  # bytes: so 50,000 runs of commands have 10 MB


def test_a_long_page_is_small_and_draws_what_can_be_told_apart(browser, tmp_path):
    sizes = {"layers": 4, "width": 32, "heads": 4, "seq": 16, "batch": 64}
    file = load_model_file(matrix.ROOT / "examples/gpt.py", None, sizes, "float32")
    model = file.make_model()
    module = tandem.export(model, file.loss, file.make_optimizer(model), file.batches(1)[0])
    program, timeline, page = (tmp_path / name for name in ("p.tdm", "t.json", "page.html"))
    given = {"mesh": "pipe=2", "plan": "pipeline", "accumulate": 64, "device": "sim"}
    program.write_bytes(compile_module(module, **given).bytes)
    command = [find_tool("tandem-run"), program, "--device", "sim", "--trace", timeline]
    subprocess.run(command, check=True, capture_output=True)
    tandem.page(timeline, page)
    open_page(browser, page)
    drawn, there, is_found = browser.execute_script(DRAWN)
    assert there > 10_000 and drawn < there / 2 and is_found
    assert page.stat().st_size < LIBRARY + MOST_PER_RUN * there
    browser.execute_script(ZOOM, 0.50, 0.51)
    time.sleep(0.5)
    few, _, is_found = browser.execute_script(DRAWN)
    assert 0 < few < there / 20 and is_found


def simulated_pipeline(folder, points):
    """The timeline of a step of one layer on each point."""
    layers = [torch.nn.Linear(8, 8) for _ in range(points)]
    model = torch.nn.Sequential(*layers)
    module = tandem.export(
        model,
        lambda m, x: m(x).square().mean(),
        torch.optim.SGD(model.parameters(), lr=0.1),
        torch.randn(32, 8),
    )
    program, timeline = folder / "p.tdm", folder / "t.json"
    given = {"mesh": f"pipe={points}", "plan": "pipeline", "accumulate": 32, "device": "sim"}
    program.write_bytes(compile_module(module, **given).bytes)
    command = [find_tool("tandem-run"), program, "--device", "sim", "--trace", timeline]
    subprocess.run(command, check=True, capture_output=True)
    return program, timeline


def test_all_points_of_a_pipeline_are_drawn(browser, tmp_path, monkeypatch):
    """Those for which a page has no room are left out at equal distances, which it says."""
    from tandem.pages import steps

    program, timeline = simulated_pipeline(tmp_path, 16)
    page = tmp_path / "page.html"
    tandem.page(timeline, page, program=program)
    open_page(browser, page)
    text = page.read_text()
    labels = set(re.findall(r'"point (\d+) compute"', text))
    assert labels == {str(point) for point in range(16)}
    assert "the 8 that hold most" in text and "Drawn are" not in text
    count = len(json.loads(timeline.read_text())["traceEvents"])
    monkeypatch.setattr(steps, "MOST_EVENTS", count // 4)
    tandem.page(timeline, page)
    text = page.read_text()
    drawn = [int(point) for point in re.findall(r"point (\d+)", re.search("Drawn are.*", text)[0])]
    assert drawn[0] == 0 and drawn[-1] == 15 and 2 < len(drawn) < 16
    distances = {b - a for a, b in zip(drawn, drawn[1:], strict=False)}
    assert max(distances) - min(distances) <= 1


def test_a_page_has_an_end(recorded, tmp_path, monkeypatch, capsys):
    from tandem.pages import page, steps

    _, files = recorded
    for module, name, words in [
        (steps, "MOST_EVENTS", "commands ran on the 1 ranks of a page, expected at most 10: name "),
        (page, "_LARGEST", "expected at most 10 B: name fewer ranks"),
    ]:
        with monkeypatch.context() as patched:
            patched.setattr(module, name, 10)
            assert main(["report", str(files["t.json"]), "--html", str(tmp_path / "p.html")]) == 1
        error = capsys.readouterr().err
        assert words in error and error.count("\n") == 1
        assert not (tmp_path / "p.html").exists()


def write_changed(path, target, change):
    timeline = json.loads(path.read_text())
    change(timeline)
    target.write_text(json.dumps(timeline))
    return target


def damaged(value):
    """`value` with each part in turn replaced by something else, lists at their first entry."""
    keys = [] if not value or isinstance(value, str) else list(value)
    for key in keys if isinstance(value, dict) else range(len(keys[:1])):
        for other in (None, "x", -1e9, 10**400, [], {}):
            yield [*value[:key], other] if isinstance(value, list) else {**value, key: other}
        for part in damaged(value[key]) if isinstance(value[key], dict | list) else ():
            yield [part, *value[1:]] if isinstance(value, list) else {**value, key: part}


def test_a_damaged_explanation_or_plan_is_one_line(recorded, tmp_path, capsys):
    _, files = recorded
    why, plan = (
        json.loads(files["why.json"].read_text()),
        files["plan.txt"].read_text().splitlines(),
    )
    broken, refused = tmp_path / "broken", 0
    spoilt = [json.dumps(each) for each in damaged(why)]
    for option, texts in [
        ("--explain", [*spoilt[:: 1 + len(spoilt) // 60], "[" * 100_000, '{"mesh":' * 20_000]),
        ("--plan", ["\n".join(plan[:i] + plan[i + 1 :]) for i in range(min(len(plan), 12))]),
        (
            "--plan",
            ["\n".join([*plan[:i], plan[i].split()[0] + " x", *plan[i + 1 :]]) for i in range(9)],
        ),
    ]:
        for text in texts:
            broken.write_text(text)
            status = main(
                [
                    "report",
                    str(files["t.json"]),
                    "--html",
                    str(tmp_path / "page.html"),
                    option,
                    str(broken),
                ]
            )
            error = capsys.readouterr().err
            assert error.count("\n") == status, error
            refused += status
    assert refused > 20


def test_what_does_not_fit_is_one_line(recorded, tmp_path, capsys):
    _, files = recorded
    other = write_changed(
        files["t.json"], tmp_path / "other.json", lambda t: t["tandem"].update(program="12")
    )
    mesh = write_changed(
        files["why.json"], tmp_path / "mesh.json", lambda why: why.update(mesh="data=4")
    )
    (tmp_path / "broken.json").write_text(files["t.json"].read_text()[:-100])
    (tmp_path / "cut.txt").write_text(files["plan.txt"].read_text()[:60])
    (tmp_path / "note.html").write_text("mine")
    good, page = str(files["t.json"]), str(tmp_path / "page.html")
    for options, words in [
        ([good, str(other)], "other.json': the timeline is of program 12, expected"),
        ([str(tmp_path / "broken.json")], "broken.json' is no whole timeline"),
        ([good, "--predicted", str(other)], "the prediction is of program 12"),
        ([good, "--program", str(files["plan.txt"])], "plan.txt': "),
        ([good, "--explain", str(files["t.json"])], "found no explanation"),
        ([good, "--explain", str(mesh)], "the plan has data=4, expected data=2"),
        ([good, "--plan", str(tmp_path / "cut.txt")], "found no whole plan file"),
        ([good, "--step", "9"], "step 9 was not recorded"),
        ([good, "--ranks", "7"], "rank 7 has no events"),
    ]:
        assert main(["report", *options, "--html", page]) == 1
        error = capsys.readouterr().err
        assert (
            words in error and error.count("\n") == 1 and error.startswith("tandem report: error: ")
        )
    for option, number in [("--ranks", "0," + "9" * 20), ("--step", "9" * 20), ("--skip", "-1")]:
        with pytest.raises(SystemExit):
            main(["report", good, "--html", page, option, number])
        assert "expected a number from 0 to 999999999" in capsys.readouterr().err.splitlines()[-1]
    assert main(["report", good, "--html", str(tmp_path / "note.html")]) == 1
    assert "a file that is not a page of a report" in capsys.readouterr().err
    assert main(["report", good]) == 0
    assert capsys.readouterr().out.startswith("3 steps of program")
