"""The plan as the layers of the model, and what the search could have taken instead: from an explanation and a plan file."""

import json
import re
from collections import defaultdict
from contextlib import contextmanager

from ..errors import TandemError
from . import text

_MOST_ALTERNATIVES, _SHOWN = 200, 12
# Of the length of a step.
_ROUNDING = 1e-9
_OTHER = "loss, inputs and values without a layer"
_KEYS = {"mesh", "time", "collectives", "memory", "forms", "exposed"}
_TIMES = "predicted", "lower_bound"


@contextmanager
def whole(path, what):
    """Where a file is read, and what it has is put into words: what does not fit is an error of one line."""
    try:
        yield
    except (
        LookupError,
        TypeError,
        ValueError,
        ArithmeticError,
        AttributeError,
        RecursionError,
    ) as error:
        line = " ".join(str(error).split())
        raise TandemError(f"{path!r}: not a whole {what}: {type(error).__name__}: {line}") from None


def read_explanation(path):
    """The dict in a file of `tandem-compile --explain=FILE`."""
    with open(path) as file:
        explanation = json.load(file)
    if not isinstance(explanation, dict) or not explanation.keys() >= _KEYS:
        raise TandemError(f"{path!r}: found no explanation, expected that of --explain=FILE")
    explanation["time"] |= {key: float(explanation["time"][key]) for key in _TIMES}
    return explanation


def read_plan(path):
    """{word of a line: [rest of each such line]} of a plan file."""
    try:
        with open(path) as file:
            lines = file.read().splitlines()
    except UnicodeDecodeError:
        lines = []
    if not lines or not lines[0].startswith("tandem-plan ") or lines[-1].split()[:1] != ["end"]:
        raise TandemError(f"{path!r}: found no whole plan file, expected that of --save-plan")
    plan = defaultdict(list)
    for line in lines[1:]:
        word, _, rest = line.partition(" ")
        plan[word].append(rest)
    return plan


def check_mesh(path, mesh, report):
    """That a plan of `mesh`, a text like data=2,micro=2, may be one of the report's Program."""
    planned = dict(part.split("=") for part in mesh.split(",") if "=" in part)
    for axis, extent in report["mesh"].items():
        if axis != report["pipe_axis"] and int(planned.get(axis, 1)) != extent:
            raise TandemError(
                f"{path!r}: the plan has {axis}={planned.get(axis, 1)}, expected {axis}={extent} as the timeline"
            )


def parameter_of(tensor):
    """What a name of an explanation belongs to: `nn.matmul#*(gradient of layers.*.w1)` gives layers.*.w1."""
    inner = re.search(r"\(([^()]*)\)$", tensor)
    name = inner[1] if inner else tensor
    return name.removeprefix("gradient of ")


class Layers:
    """The place of each tensor in the model: a layer, and the module in it."""

    def __init__(self, explanation):
        forms = explanation["forms"]
        self._stored = {form["tensor"] for form in forms if form["role"] == "stored"}

    def of(self, tensor):
        """('layers.*', 'mlp.w1') of `nn.matmul#*(layers.*.mlp.w1.weight)`."""
        name = parameter_of(tensor)
        state, _, parameter = name.partition(".")
        if parameter in self._stored and state not in ("", "*"):
            name = parameter  # `exp_avg.layers.*.w1`: a state
        if "#" in name or ("." not in name and name not in self._stored):
            return _OTHER, ""
        parts = name.split(".")
        number = next((i for i, part in enumerate(parts) if part == "*" or part.isdigit()), None)
        cut = 1 if number is None else number + 1
        return ".".join(parts[:cut]), ".".join(parts[cut:-1])


def _changes(form):
    """The collectives of a tensor in words."""
    return "; ".join(
        f"{change['pass']}: {change['collectives'] or 'local'} to {change['form']}"
        + (", kept" if change["kept"] else "")
        + (", may wait" if change["waits"] else "")
        for change in form["changes"]
    )


def _forms_table(forms):
    rows = [
        (
            form["tensor"],
            form["role"],
            form["form"],
            text.Numeric(f"{form['count']} x"),
            text.Numeric(text.size(form["bytes"])),
            text.Numeric(text.size(form["whole_bytes"])),
            _changes(form),
        )
        for form in forms
    ]
    n = text.Numeric
    heads = "tensor", "is", "form", n(""), n("on a device"), n("whole"), "collectives"
    return text.table(heads, rows)


def _collectives_table(entries):
    n = text.Numeric
    rows = [
        (
            f"{entry['kind']} over {entry['axis']}",
            entry["pass"],
            n(f"{entry['count']} x"),
            n(text.size(entry["bytes"])),
            n(text.seconds(entry["seconds"])),
            n(text.percent(entry["hidden_share"])),
            entry["tensor"],
            text.place(entry["location"]),
        )
        for entry in entries
    ]
    heads = "collective", "pass", n(""), n("bytes"), n("all take"), n("hidden"), "of", "source"
    return text.table(heads, rows)


def _summary(forms, collectives):
    """Behind the name of a layer: how often it stands in the model, its bytes and its collectives."""
    times = max(form["count"] for form in forms)
    stored = [form for form in forms if form["role"] == "stored"]
    own, whole = (sum(form[key] for form in stored) for key in ("bytes", "whole_bytes"))
    words = [f"up to {times} equal tensors a line"] if times > 1 else []
    if stored:
        words.append(f"stores {text.size(own)} of {text.size(whole)} on a device")
    if collectives:
        count = sum(entry["count"] for entry in collectives)
        taken = sum(entry["seconds"] for entry in collectives)
        words.append(f"{count} collectives, {text.seconds(taken)}")
    return ", ".join(words)


def layers(explanation):
    """The plan as folded HTML: a part for each layer, and in it one for each module."""
    place = Layers(explanation)
    forms, collectives = defaultdict(list), defaultdict(list)
    for form in explanation["forms"]:
        forms[place.of(form["tensor"])].append(form)
    for entry in explanation["collectives"]:
        collectives[place.of(entry["tensor"])].append(entry)
    names = list(dict.fromkeys(layer for layer, _ in forms))
    names.sort(key=lambda name: name == _OTHER)
    return "".join(_layer(name, forms, collectives) for name in names)


def _layer(name, forms, collectives):
    modules = sorted(module for layer, module in forms if layer == name)
    parts = []
    for module in modules:
        own = collectives.get((name, module), [])
        content = _forms_table(forms[name, module]) + (_collectives_table(own) if own else "")
        summary = _summary(forms[name, module], own)
        parts.append(text.folded(module, content, summary) if module else content)
    of_layer = [form for module in modules for form in forms[name, module]]
    sent = [entry for module in modules for entry in collectives.get((name, module), [])]
    return text.folded(name, "".join(parts), _summary(of_layer, sent))


def _shown(word, value):
    """Of a line of a plan file; the plan of a pipeline is priced without its pipe axis."""
    number = value.split()[0] if value else ""
    if word in ("cost", "bound"):
        return text.seconds(float(number))
    return text.size(int(number)) if word == "peak" else value


def _strands(plan, explanation):
    """A plan may run all stages in one strand, which the explanation says."""
    (micro,) = plan["micro"]
    stages = explanation.get("stages_with_strands") if explanation else None
    return "1, no stage is split" if stages == 0 and micro != "1" else micro


def head(plan, explanation=None):
    """What a plan file says of itself, and the sections of a pipeline."""
    words = {
        "mesh": "mesh",
        "search": "found by",
        "cluster": "priced for",
        "cost": "cost of a step" + (" without the pipe axis" if plan.get("pipeline") else ""),
        "bound": "no plan costs less than",
        "peak": "peak of memory",
        "pipeline": "pipe axis, mesh",
        "order": "order",
        "accumulate": "microbatches",
    }
    rows = [(label, _shown(word, plan[word][0])) for word, label in words.items() if plan.get(word)]
    if plan.get("micro"):
        rows.insert(1, ("strands", _strands(plan, explanation)))
    rows.append(("stages of HiDup", str(len(plan.get("stage", ())) + 1)))
    parts = text.table(("plan", ""), rows)
    sections = [re.match(r"(\d+) point (\d+) (.*)", line) for line in plan.get("section", ())]
    if sections:
        rows = [(found[1], found[2], found[3].replace(",", ", ")) for found in sections if found]
        parts += text.table(("section", "point", "parameters"), rows)
    return parts


def _added(choice, step):
    """By how much a form makes the step longer; a sum of prices in another order adds nothing."""
    added = choice["added_seconds"]
    return added if abs(added) > _ROUNDING * step else 0.0


def alternatives(explanation):
    """The next best form of each tensor, the cheapest first, as HTML."""
    step = explanation["time"]["predicted"]
    found = [
        (_added(choice, step), choice, form)
        for form in explanation["forms"]
        for choice in form["next"]
        if "added_seconds" in choice
    ]
    found.sort(key=lambda entry: entry[0])
    n = text.Numeric
    rows = [
        (
            n(f"{'+' if added >= 0 else ''}{text.seconds(added)}"),
            n(f"{100 * added / step:+.2f} %" if step else ""),
            n(text.size(choice["peak"])) if choice["peak"] else n(""),
            "" if choice["fits"] else "does not fit",
            form["tensor"],
            form["form"],
            choice["form"],
            f"{choice['grown']} {text.seconds(choice['grown_seconds'])}" if choice["grown"] else "",
            choice["method"],
        )
        for added, choice, form in found[:_MOST_ALTERNATIVES]
    ]
    heads = n("step"), n(""), n("peak"), "", "tensor", "has", "instead", "grows most", "by"
    if not rows:
        return text.note("The explanation has no other form.")
    result = text.table(heads, rows[:_SHOWN])
    if rows[_SHOWN:]:
        more = f"of {len(found)}" if len(found) > _MOST_ALTERNATIVES else ""
        result += text.folded(f"{len(rows) - _SHOWN} more", text.table(heads, rows[_SHOWN:]), more)
    return result


def peak(explanation):
    """What the plan holds at its peak, as HTML: where no Program says it for each moment."""
    n = text.Numeric
    held = sorted(explanation["memory"]["held"], key=lambda entry: -entry["bytes"])
    rows = [
        (
            n(text.size(e["bytes"])),
            n(f"{e['count']} x"),
            e["kind"],
            e["tensor"],
            e["form"],
            e["why_held"],
        )
        for e in held
    ]
    heads = n("held"), n(""), "is", "tensor", "form", "why"
    summary = f"Peak {text.size(explanation['memory']['peak'])}, of the plan"
    words = "by the plan's accounting; the Program (--program) has memory over time"
    return text.folded(summary, text.table(heads, rows), words, is_open=True)


def exposures(explanation):
    """What exposes communication in the plan, as HTML."""
    n = text.Numeric
    rows = [
        (
            n(text.seconds(entry["seconds"])),
            entry["cause"],
            entry["example"],
            text.place(entry["location"]),
        )
        for entry in explanation["exposed"]
    ]
    return text.table((n("exposed"), "cause", "most", "source"), rows) if rows else ""
