"""The matrix of models, plans, ranks and microbatches that must equal eager, and how a case is run.

`scripts/verify-matrix` runs all of it; the tests run `small_part()`, in which every model, plan preset,
number of ranks and of microbatches occurs.
"""

import json
import os
import re
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import pipeline_matrix
from tandem.base import job as jobs
from tandem.capture.model_file import load_model_file
from tandem.errors import CompileError, TandemError
from tandem.session.compile import compile_module
from tandem.session.step import Step
from tandem.verify.verify import judge, make_subject, run_step

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
MODELS = ROOT / "python-bindings" / "tests" / "models"
# Cores so slow that plans of small models communicate; it has four.
SLOW_CORES = ROOT / "test" / "Cost" / "Inputs" / "slow-cores.yaml"
# name: (file, size preset, --set)
VARIANTS = {
    "mlp": ("mlp", None, ""),
    "gpt": ("gpt", None, ""),
    "llama": ("llama", None, ""),
    "bert_moe sgmoe": ("bert_moe", None, "gate=sgmoe"),
    "bert_moe switch": ("bert_moe", None, "gate=switch"),
    "vit_moe sgmoe": ("vit_moe", None, "gate=sgmoe"),
    "vit_moe switch": ("vit_moe", None, "gate=switch"),
    "resnet": ("resnet", None, ""),
    "hf gpt2": ("hf", "gpt2", ""),
    "hf bert": ("hf", "bert", ""),
    "hf llama": ("hf", "llama", ""),
}
# Megatron's split needs attention or a feed-forward network.
NO_TENSOR_PARALLEL = {"mlp"}
# Of searches that would take longer; their plans are right whatever they cost.
SEARCH_SECONDS = 5


@dataclass(frozen=True)
class Case:
    """`dtype` is that of parameters, or `bf16`: float32 with products in bfloat16."""

    variant: str
    plan: str = "data-parallel"
    mesh: str = ""
    micro: int = 1
    dtype: str = "float64"
    search: str = ""
    # Of a pipeline.
    accumulate: int = 1
    order: str = ""
    # Of a job; with one, ranks are threads.
    processes: int = 1

    @property
    def points(self):
        """Of the pipe axis; 0 without one."""
        sizes = dict(axis.split("=") for axis in filter(None, self.mesh.split(",")))
        return int(sizes.get("pipe", 0))

    @property
    def batch(self):
        """A batch that the microbatches of a pipeline divide; None: that of the model."""
        return None if not self.points else self.micro * (14 if self.accumulate == 7 else 16)

    @property
    def ranks(self):
        ranks = 1
        for axis in filter(None, self.mesh.split(",")):
            ranks *= int(axis.partition("=")[2])
        return ranks


def _plans(variant):
    """(preset, its meshes)."""
    yield "data-parallel", ("data=2", "data=4")
    yield "zero", ("data=2", "data=4")
    yield "zero2", ("data=2", "data=4")
    if variant not in NO_TENSOR_PARALLEL:
        yield "tensor-parallel", ("model=2", "model=4", "data=2,model=2")
    if "moe" in variant:
        yield "expert-parallel", ("data=2", "data=4", "data=2,expert=2")


def _in_bf16(variant):
    """Every model and preset, and micro 1 and 2 of both, though not each of each."""
    presets = list(_plans(variant))
    turn = list(VARIANTS).index(variant)
    for place in range(2):
        plan, meshes = presets[(turn + place) % len(presets)]
        yield Case(variant, plan, meshes[(turn + place) % len(meshes)], 1 + place, "bf16")


def all_cases():
    cases = []
    for variant in VARIANTS:
        cases += [Case(variant, micro=micro) for micro in (1, 2)]
        for plan, meshes in _plans(variant):
            cases += [Case(variant, plan, mesh, micro) for mesh in meshes for micro in (1, 2)]
        last = "expert-parallel" if "moe" in variant else "data-parallel"
        cases += [
            Case(variant, "zero", "data=2", 2, "float32"),
            Case(variant, last, "data=4", 1, "float32"),
            Case(variant, last, "data=2", 2, "bfloat16"),
            *_in_bf16(variant),
        ]
    cases += [Case(variant, "zero", "data=2", 4) for variant in ("gpt", "bert_moe sgmoe")]
    return cases


def small_part():
    return [
        Case("mlp", micro=2),
        Case("mlp", "zero", "data=4", 2),
        Case("gpt", "zero2", "data=4", 2),
        Case("llama", "zero2", "data=2", dtype="bf16"),
        Case("gpt", "tensor-parallel", "data=2,model=2", 2),
        Case("gpt", "zero", "data=2", 4),
        Case("gpt", "data-parallel", "data=2", 2, "bfloat16"),
        Case("llama", "tensor-parallel", "model=2", 2),
        Case("bert_moe sgmoe", "expert-parallel", "data=4", 2),
        Case("bert_moe switch", "zero", "data=2", 1, "float32"),
        Case("vit_moe sgmoe", "data-parallel", "data=2", 2),
        Case("vit_moe switch", "expert-parallel", "data=2", 1),
        Case("bert_moe sgmoe", "expert-parallel", "data=2", 2, "bfloat16"),
        Case("llama", "zero", "data=2", 2, "bf16"),
        Case("bert_moe switch", "expert-parallel", "data=2", 1, "bf16"),
        Case("resnet", "zero", "data=2", 2),
        Case("resnet", "tensor-parallel", "data=2,model=2", 1),
        Case("hf gpt2", "tensor-parallel", "model=2", 1),
        Case("hf bert", "zero", "data=2", 2),
        Case("hf llama", "data-parallel", "data=4", 1),
    ]


def all_searches():
    """Every search on every model that it can search; priced for slow cores."""
    return [
        Case(variant, "", mesh, micro, search=search)
        for variant in VARIANTS
        for mesh in ("data=2", "data=4", "data=2,model=2")
        for micro in (1, 2)
        for search in ("tandem", "hidup")
        if search != "hidup" or ("," not in mesh and micro == 2)
    ]


def all_pipelines():
    """As Cases, those of `pipeline_matrix`."""
    cases = []
    for one in pipeline_matrix.pipeline_cases():
        plan, axis = pipeline_matrix.BESIDE[one["beside"]]
        mesh = ",".join(filter(None, [f"pipe={one['points']}", axis]))
        more = {"accumulate": one["accumulate"], "order": one["order"]}
        case = Case(one["variant"], plan, mesh, one["micro"], one["dtype"], **more)
        if one["ranks"] == "gloo":
            case = replace(case, processes=min(case.ranks, pipeline_matrix.MOST_PROCESSES))
        cases.append(case)
    return cases


def cluster_file(ranks):
    """The slow cores, `ranks` of them, as a file that can be read while the tests run."""
    if ranks == 4:
        return SLOW_CORES
    path = Path(tempfile.gettempdir()) / f"tandem-slow-cores-{os.getpid()}-{ranks}.yaml"
    path.write_text(SLOW_CORES.read_text().replace("{core: 4}", f"{{core: {ranks}}}"))
    return path


def search_options(case):
    if not case.search:
        return {}
    return {
        "search": case.search,
        "cluster": cluster_file(case.ranks),
        "search_time_limit": SEARCH_SECONDS,
    }


def pipeline_options(case):
    if not case.points:
        return {}
    if case.order in pipeline_matrix.NAMED_ORDERS:
        return {"accumulate": case.accumulate, "order": case.order}
    path = Path(tempfile.gettempdir()) / f"tandem-order-{os.getpid()}.csv"
    path.write_text(pipeline_matrix.write_vee(case.points, case.accumulate))
    return {"accumulate": case.accumulate, "order": path}


def subject_of(case, steps=3):
    variants = pipeline_matrix.VARIANTS if case.points else VARIANTS
    file, preset, sizes = variants[case.variant]
    if case.batch:
        sizes = ",".join(filter(None, [sizes, f"batch={case.batch}"]))
    dtype, precision = ("float32", "bf16") if case.dtype == "bf16" else (case.dtype, None)
    folder = EXAMPLES if (EXAMPLES / f"{file}.py").exists() else MODELS
    file = load_model_file(folder / f"{file}.py", preset, sizes, dtype, precision)
    return make_subject(file, steps)


def compile_case(case, subject, **options):
    return compile_module(
        subject.module,
        case.variant,
        mesh=case.mesh,
        plan=case.plan,
        micro=case.micro,
        **search_options(case),
        **pipeline_options(case),
        **options,
    )


def price_schedule(module, **options):
    """Seconds of a schedule by the prices of its plan, the cost of the plan, and what was compiled."""
    compiled = compile_module(module, timeline=True, stop_after="schedule", **options)
    remark = next(text for text in compiled.remarks if "schedule " in text)
    seconds, cost = re.search(r"schedule (\S+) s, cost of the plan (\S+) s", remark).groups()
    return float(seconds), float(cost), compiled


def judge_program(subject, program):
    """The rows of a Program against eager."""
    step = Step(subject.module, program, subject.model, subject.optimizer, seed=subject.seed)
    return judge(subject, run_step(step, subject.batches))


def run_case(case, subject, **options):
    """A row of the table, as a dict; compiled with more options. In a job all processes call it."""
    start = time.perf_counter()
    outcome = {
        "passed": False,
        "rows": 0,
        "failed": [],
        "used": None,
        "error": "",
        "refused": False,
    }
    try:
        compiled = jobs.compile_once(jobs.join(), lambda: compile_case(case, subject, **options))
        outcome["compile"] = time.perf_counter() - start
        rows = judge_program(subject, compiled.bytes)
        failed = [f"{row.kind} {row.name}" for row in rows if not row.passed]
        worst = max(row.used for row in rows)
        outcome |= {"passed": not failed, "rows": len(rows), "failed": failed, "used": worst}
    except TandemError as error:
        outcome |= {"error": str(error), "refused": isinstance(error, CompileError)}
    return asdict(case) | outcome | {"seconds": time.perf_counter() - start}


def run_job(case, forks, **options):
    """A row of the table, of processes that `forks` starts; each runs this file."""
    begin = time.perf_counter()
    text = json.dumps([asdict(case), options])
    children = forks.start_job(case.processes, [__file__, text], timeout=120)
    ends = [child.finish(600) for child in children]
    seconds = {"seconds": time.perf_counter() - begin}
    for process, (code, _, errors) in enumerate(ends):
        if code != 0:
            error = f"process {process} ended with status {code}: {errors.strip()[-500:]}"
            none = {"passed": False, "rows": 0, "failed": [], "used": None, "refused": False}
            return asdict(case) | none | {"error": error} | seconds
    return json.loads(ends[0][1]) | seconds


if __name__ == "__main__":
    _given, _options = json.loads(sys.argv[1])
    _case = Case(**_given)
    _row = run_case(_case, subject_of(_case), **_options)
    print(json.dumps(_row))
