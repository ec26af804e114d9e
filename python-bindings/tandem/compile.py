"""`tandem.compile`: a training step that runs on all points of a mesh, called like a function."""

import functools
import inspect
import os
import warnings

from . import job as jobs
from . import progress
from .ambient import check_around
from .arguments import batch_tensors, parameters_of
from .clipping import Clipping
from .errors import CompileError, shown
from .explanations import check_time_limit
from .meshes import mesh_text
from .native import native
from .pins import check_pins
from .process_batches import ProcessBatches
from .programs import Recipe
from .rows import LastBatch
from .step import Step
from .wanted import Wanted
from .watch import cycled


def _check_kind(name, value, kinds, expected):
    is_text = isinstance(value, str) and value.isprintable()
    if (
        value is not None
        and not is_text
        and (isinstance(value, str) or not isinstance(value, kinds))
    ):
        raise CompileError(f"{name} is {shown(value)}, expected {expected}")


def _check_flag(name, value):
    if not isinstance(value, bool):
        raise CompileError(f"{name} is {shown(value)}, expected True or False")


def _check_count(name, value, largest):
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= largest:
        raise CompileError(f"{name} is {shown(value)}, expected an integer from 1 to {largest}")


def _is_path(plan):
    """A preset has no suffix."""
    return not isinstance(plan, str) or os.sep in plan or "." in plan or os.path.exists(plan)


def device_options(device, architecture):
    """Names for the compiler. Where the libraries of an emulated GPU are named, code is for that."""
    _check_kind("device", device, str, "the name of a device: 'cpu' or 'cuda'")
    _check_kind("architecture", architecture, str, "the name of an architecture, such as 'sm_90'")
    if device == "cuda" and architecture is None and os.environ.get("TANDEM_CUDA_LIBRARIES"):
        architecture = "emulated"
    return device or "", architecture or ""


def make_options(
    mesh=None,
    plan=None,
    micro=1,
    accumulate=1,
    pins=(),
    search=None,
    cluster=None,
    search_time_limit=0,
    start=None,
    presets=True,
    recompute=False,
    problem_out=None,
    explain=False,
    fail_on_replicate=None,
    timeline=False,
    *,
    device=None,
    architecture=None,
    stored_parts=(),
    from_stage="",
    print_after=(),
    stop_after="",
):
    """`plan` is the name of a preset, or the path of a plan file; `search` an algorithm in its place, which
    is no worse than the plan file `start` and than the presets, unless `presets` is false. With `recompute`
    the backward pass makes cheap values again. `problem_out` is where the search problem is written;
    `timeline` adds a remark that says how long the schedule takes with the plan's durations. Of IR that has left
    the stage `from_stage`, the stages behind it are run.
    """
    options = native().CompileOptions()
    options.mesh = mesh_text(mesh)
    _check_count("micro", micro, 2**24)
    options.micro = micro
    _check_count("accumulate", accumulate, 2**20)
    options.accumulate = accumulate
    _check_kind("search", search, str, "the name of an algorithm, such as 'tandem'")
    path = (str, os.PathLike)
    _check_kind("plan", plan, path, "a preset, such as 'zero', or the path of a plan file")
    for name, value in {"cluster": cluster, "start": start, "problem_out": problem_out}.items():
        _check_kind(name, value, path, "the path of a file")
        if value is not None and not os.fspath(value):
            raise CompileError(f"{name} is '', expected the path of a file, or None for none")
    options.pins = [str(pin) for pin in check_pins(pins)]
    for name, value in {"presets": presets, "recompute": recompute}.items():
        _check_flag(name, value)
    if plan and _is_path(plan):
        options.plan_file = os.fspath(plan)
    else:
        options.preset = plan or ""
    options.search, options.cluster = search or "", os.fspath(cluster or "")
    options.search_time_limit = check_time_limit(search_time_limit)
    options.start, options.uses_presets = os.fspath(start or ""), presets
    options.stored_parts, options.recompute = list(stored_parts), recompute
    options.device, options.architecture = device_options(device, architecture)
    if problem_out is not None:
        options.problem_out = os.fspath(problem_out)
    options.explain = bool(explain)
    if fail_on_replicate is not None:
        bytes_ = isinstance(fail_on_replicate, int) and not isinstance(fail_on_replicate, bool)
        if not bytes_ or not 0 <= fail_on_replicate < 2**63:
            raise CompileError(
                f"fail_on_replicate is {shown(fail_on_replicate)}, expected bytes, or None for no limit"
            )
        options.fail_on_replicate = fail_on_replicate
    options.timeline = bool(timeline)
    options.from_stage = from_stage
    options.print_after, options.stop_after = list(print_after), stop_after
    return options


# What the planner can be told, with what it does without: one list for the command line and for Python.
PLANNER_DEFAULTS = {
    name: parameter.default
    for name, parameter in inspect.signature(make_options).parameters.items()
    if parameter.kind is not inspect.Parameter.KEYWORD_ONLY
}


# What names a file of process 0, which may lie elsewhere on other hosts.
_PATHS = ("plan", "cluster", "start", "problem_out")


def _texts(options, model, optimizer, batch):
    """{name: text} of all that the processes of a job have to be given alike."""
    texts = {"mesh": mesh_text(options["mesh"]) or "of one rank"}
    for name, value in options.items():
        if name in _PATHS and value is not None:
            value = os.path.basename(os.fspath(value))
        if name == "pins":
            value = [str(pin) for pin in check_pins(value)]
        texts.setdefault(name, str(value))
    for argument, tensor in parameters_of(model, optimizer):
        texts[f"parameter {argument.name!r}"] = f"{tensor.dtype} {list(tensor.shape)}"
    texts["optimizer"] = type(optimizer).__name__
    for index, group in enumerate(getattr(optimizer, "param_groups", ())):
        texts[f"lr of optimizer.param_groups[{index}]"] = str(group.get("lr"))
    for name, tensor in batch_tensors(batch).items():
        texts[f"batch tensor {name!r}"] = f"{tensor.dtype} {list(tensor.shape)}"
    return texts


def compile_module(module, name="step.mlir", *, cache=False, **options):
    """Compiles a `StepModule`; returns the Program's bytes with the reports of the compiler. With `cache`, those of
    an equal compilation before, if they are on the disk.
    """
    made = make_options(**options)
    made.uses_cache = cache
    searches = bool(made.search) or made.mesh == "auto"
    return native().compile(module.mlir, name, made, progress.of_compiler(searches))


def compile(  # noqa: A001 - the name that torch users expect
    model,
    loss_fn,
    optimizer,
    example_batch,
    *,
    mesh=None,
    plan=None,
    micro=1,
    accumulate=1,
    pins=(),
    search=None,
    cluster=None,
    search_time_limit=0,
    start=None,
    presets=True,
    recompute=False,
    problem_out=None,
    fail_on_replicate=None,
    clip_grad_norm=None,
    clip_grad_value=None,
    batch="local",
    last_batch="error",
    gradients=False,
    precision=None,
    gradient_sums="f32",
    threads=1,
    seed=0,
    device=None,
    architecture=None,
    graph=True,
):
    """Captures and compiles one training step; returns a `Step`, to be called with batches.

    `mesh` names the space axes and their sizes, `{"data": 4}`; each point is a rank, which runs as
    threads of this process. Started by torchrun, srun or mpirun, every process calls this with the same
    arguments and has its part of the ranks; process 0 compiles, and its values count (docs/hosts.md).
    `"auto"` takes the best mesh for the devices of `cluster`. `plan` is a preset (`data-parallel`, which is the default, `zero`,
    `tensor-parallel`, `expert-parallel`) or the path of a plan file; `micro` the number of microbatches, `accumulate` that of the parts of the batch
    that a loop trains on one after the other, each of them of `micro` microbatches, in the memory of one;
    `pins` what `tandem.pin` returns. `search` finds a plan instead (`tandem`, `hidup`, `ilp` or
    `exhaustive`), priced for the file `cluster` (a laptop without one), and takes the best so far after
    `search_time_limit` seconds, if that is not 0; it is no worse than the plan file `start`, and than the
    presets, unless `presets` is false. `recompute` lets the backward pass make cheap values again instead
    of holding them. `problem_out` is where the search problem is written, for `tandem-plan`.
    `fail_on_replicate` makes a tensor of more bytes an error that is left whole on all devices.
    `clip_grad_norm` and `clip_grad_value` clip gradients as `torch.nn.utils.clip_grad_norm_` and `clip_grad_value_`
    do; `step.grad_norm()` is the norm before. In a job of several processes each gives its own part of a batch; with
    `batch="global"` each gives the whole. A batch of other sizes is compiled when it comes, which `last_batch`
    says of one with fewer rows than divide: `"error"`, `"drop"` (the step returns None), or `"pad"`, with which the loss
    function is called with a weight per row, `loss_fn(model, batch, weights)`, 0 for rows that fill it up. With
    `gradients`, `step.gradients()` gives those of the last step, as the optimizer gets them. With `precision="bf16"` the
    loss runs under `torch.autocast("cpu", torch.bfloat16)`: products compute in bfloat16 and add in float32, parameters
    and optimizer stay float32. Gradients are summed over microbatches and ranks in float32, with
    `gradient_sums="bf16"` in bfloat16.
    `threads` is the number of cores per rank, `seed` that of dropout and other random numbers. `device` is `"cpu"`, the default,
    or `"cuda"`, for which `architecture` names what code is made for: `"sm_80"`, the default, which newer ones run as well,
    `"sm_90"`, or `"emulated"`, the default where `TANDEM_CUDA_LIBRARIES` names the folder of the emulated GPU's libraries; one that
    cannot be used is an error before anything is captured. With `graph`
    a GPU has the step as a CUDA graph, which it runs without the host; the values are the same without.

    The step starts from the values of `model` and `optimizer` and never changes them, but reads the
    learning rates of `optimizer.param_groups` each time. Python runs once, when the step is captured, and
    again where a number or text was set since in an attribute of a module, or in a variable that the loss function reads
    (`outside.py`); what changes in each step has to be a tensor of the batch, or a buffer. Raises subclasses of `tandem.TandemError`.
    """
    if isinstance(seed, bool) or not isinstance(seed, int) or not -(2**63) <= seed < 2**63:
        raise CompileError(f"seed is {shown(seed)}, expected an integer of 64 bits")
    _check_count("threads", threads, 4096)
    for name, value in {"gradients": gradients, "graph": graph}.items():
        _check_flag(name, value)
    options = dict(
        mesh=mesh,
        plan=plan,
        micro=micro,
        accumulate=accumulate,
        pins=pins,
        search=search,
        cluster=cluster,
        search_time_limit=search_time_limit,
        start=start,
        presets=presets,
        recompute=recompute,
        problem_out=problem_out,
        fail_on_replicate=fail_on_replicate,
        device=device,
        architecture=architecture,
    )
    clipping = Clipping(clip_grad_norm, clip_grad_value)
    last = LastBatch(last_batch, example_batch)
    last.check_model(model)
    check_around("tandem.compile", CompileError)
    job = jobs.join()
    processes = jobs.together(job, "mesh", lambda: ProcessBatches(batch, job, mesh, plan))
    example = processes.widen(last.with_weights(example_batch))
    compiler = functools.partial(compile_module, cache=True)
    recipe = Recipe(model, last.loss(loss_fn), optimizer, options, compiler, last, processes)
    recipe.job, recipe.threads, recipe.graph = job, threads, graph
    recipe.wanted = Wanted(
        gradients,
        clipping,
        precision=precision,
        gradient_sums=gradient_sums,
        varying=cycled(optimizer),
        guards_batches=processes.parts == 1,
        numbers={},
    )
    given = options | {
        "gradients": gradients,
        "precision": precision,
        "gradient_sums": gradient_sums,
        "seed": seed,
        "clipping": clipping,
        "batch": batch,
        "last_batch": last_batch,
    }
    jobs.check_same(job, "options", lambda: _texts(given, model, optimizer, example_batch))
    with progress.shown(job is None or job.process == 0):
        # A device that cannot be used is an error now, not after the capture and the compiler.
        store = jobs.together(
            job,
            "device",
            lambda: native().open_store(make_options(**options), processes.num_ranks),
        )
        progress.part("capture")
        module = jobs.together(job, "capture", lambda: recipe.capture(example))
        jobs.check_module(job, module)
        compiled = jobs.compile_once(job, lambda: recipe.compile_module(module, **options))
        progress.part("session")
        step = Step(
            module,
            compiled.bytes,
            model,
            optimizer,
            compiled,
            threads,
            seed,
            cluster=cluster,
            recompute=recompute,
            store=store,
            recipe=recipe,
            graph=graph,
        )
    if job is None or job.process == 0:  # once in a job
        notes = [remark for remark in compiled.remarks if "warning: " in remark]
        for note in [*notes, *_price_notes(job, options)]:
            warnings.warn(note, stacklevel=2)
    return step


def _price_notes(job, options):
    """What is said of a search whose prices are not those of the links between processes."""
    is_searched = options["search"] is not None or options["mesh"] == "auto"
    if job is None or not is_searched or options["cluster"] is not None:
        return []
    return [
        "warning: search: its prices are those of one laptop, whose ranks share memory, but this job has"
        f" {native().num_processes()} processes; expected cluster=, a file that tandem-profile measures on these hosts"
    ]
