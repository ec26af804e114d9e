"""Explanations of plans: printed, as a dict and as JSON."""

import json
import os
import tempfile

from ..base import outputs
from ..base.native import native
from ..base.options import make_options
from ..errors import TandemError


def _check_outputs(path, file):
    """That text can be written to both, each of which may be None."""
    try:
        what = f"path {path!r}"
        against = path is not None and outputs.reason_against(os.fspath(path), outputs.EXPLANATION)
        if against:
            raise ValueError(against)
        what = f"file {file!r}"
        if file is not None:
            file.write("")
    except (AttributeError, OSError, TypeError, ValueError) as error:
        raise TandemError(f"explain: cannot write to {what}: {error}") from error


def explain(compiled, module, path, file, search_time_limit, **planned):
    """Of the plan in `compiled`, the reports of the compiler, for the captured step `module`; `planned` are the options
    that it was compiled with, the rest as `Step.explain` says."""
    if compiled is None:
        raise TandemError("explain: the step has no plan, expected one of tandem.compile")
    _check_outputs(path, file)
    with tempfile.TemporaryDirectory() as folder:
        plan = os.path.join(folder, "plan.txt")
        with open(plan, "w") as text:
            text.write(compiled.plan)
        options = make_options(
            plan=plan,
            explain=True,
            stop_after="plan",
            search_time_limit=search_time_limit,
            **planned,
        )
        explained = native().compile(module.mlir, "step.mlir", options)
    layouts = compiled.layouts + "\n" if compiled.layouts else ""
    print(layouts + explained.explanation, end="", file=file)
    found, text = json.loads(explained.explanation_json), explained.explanation_json
    if layouts:
        found["layouts"] = compiled.layouts.splitlines()
        text = json.dumps(found)
    if path is not None:
        outputs.write(path, lambda part: part.write_text(text))
    return found
