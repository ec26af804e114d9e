"""`tandem.compile`: a training step that runs on all points of a mesh, called like a function."""

import functools
import warnings

from ..base import job as jobs
from ..base import progress
from ..base.native import native
from ..base.options import (
    checked,
    documented,
    make_options,
    planner_rows,
    step_rows,
    texts_of,
    with_defaults,
)
from ..capture.wanted import Wanted
from ..errors import CompileError, shown
from ..guards.ambient import check_around
from ..guards.watch import cycled
from ..optimizers.clipping import Clipping
from ..tracing.arguments import batch_tensors, parameters_of
from .process_batches import ProcessBatches
from .programs import Recipe
from .rows import LastBatch
from .step import Step


def _texts(values, model, optimizer, batch):
    """{name: text} of all that the processes of a job have to be given alike."""
    texts = texts_of(values)
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
    return compile_text(module.mlir, name, cache=cache, **options)


def compile_text(text, name, *, cache=False, **options):
    """Compiles a step, or with `from_stage` the IR behind a stage; as `compile_module`."""
    made = make_options(**options)
    made.uses_cache = cache
    made.weighs_pipelines = True  # where options leave open whether there is a pipeline
    searches = bool(made.search) or made.mesh == "auto"
    return native().compile(text, name, made, progress.of_compiler(searches))


@documented
def compile(  # noqa: A001 - the name that torch users expect
    model,
    loss_fn,
    optimizer,
    example_batch,
    **given,
):
    """Captures and compiles one training step; returns a `Step`, to be called with batches.

    Keywords:
    {keywords}

    Each point of the mesh is a rank, which runs as threads of this process. Started by torchrun, srun or mpirun, every process
    calls this with the same arguments and has its part of the ranks; process 0 compiles, and its values count (docs/hosts.md).
    A batch of other sizes is compiled when it comes. A device that cannot be used is an error before anything is captured.

    The step starts from the values of `model` and `optimizer` and never changes them, but reads the
    learning rates of `optimizer.param_groups` each time. Python runs once, when the step is captured, and
    again where a number or text was set since in an attribute of a module, or in a variable that the loss function reads
    (`outside.py`); what changes in each step has to be a tensor of the batch, or a buffer. Raises subclasses of `tandem.TandemError`.
    """
    values = with_defaults(step_rows(), given, "compile")
    seed, threads, graph = values["seed"], values["threads"], values["graph"]
    if isinstance(seed, bool) or not isinstance(seed, int) or not -(2**63) <= seed < 2**63:
        raise CompileError(f"seed is {shown(seed)}, expected an integer of 64 bits")
    planner = {row.name: values[row.name] for row in planner_rows() if row.is_step}
    for row in step_rows():
        if row.name not in planner:
            checked(row, values[row.name])
    mesh, plan = values["mesh"], values["plan"]
    clipping = Clipping(values["clip_grad_norm"], values["clip_grad_value"])
    last = LastBatch(values["last_batch"], example_batch)
    last.check_model(model)
    check_around("tandem.compile", CompileError)
    job = jobs.join()
    processes = jobs.together(job, "mesh", lambda: ProcessBatches(values["batch"], job, mesh, plan))
    example = processes.widen(last.with_weights(example_batch))
    compiler = functools.partial(compile_module, cache=True)
    wanted = Wanted(
        values["gradients"],
        clipping,
        precision=values["precision"],
        gradient_sums=values["gradient_sums"],
        varying=cycled(optimizer),
        guards_batches=processes.parts == 1,
        numbers={},
    )
    recipe = Recipe(
        model,
        last.loss(loss_fn),
        optimizer,
        planner,
        compiler,
        last,
        processes,
        job,
        threads,
        graph,
        wanted,
    )
    jobs.check_same(job, "options", lambda: _texts(values, model, optimizer, example_batch))
    with progress.shown(job is None or job.process == 0):
        # A device that cannot be used is an error now, not after the capture and the compiler.
        store = jobs.together(
            job,
            "device",
            lambda: native().open_store(make_options(**planner), processes.num_ranks),
        )
        progress.part("capture")
        module = jobs.together(job, "capture", lambda: recipe.capture(example))
        jobs.check_module(job, module)
        compiled = jobs.compile_once(job, lambda: recipe.compile_module(module, **planner))
        progress.part("session")
        step = Step(
            module,
            compiled.bytes,
            model,
            optimizer,
            compiled,
            threads,
            seed,
            cluster=values["cluster"],
            memory=values["memory"],
            recompute=values["recompute"],
            accumulate=values["accumulate"],
            store=store,
            recipe=recipe,
            graph=graph,
        )
    if job is None or job.process == 0:  # once in a job
        notes = [remark for remark in compiled.remarks if "warning: " in remark]
        for note in [*notes, *_price_notes(job, planner)]:
            warnings.warn(note, stacklevel=2)
    return step


def _price_notes(job, planner):
    """What is said of a search whose prices are not those of the links between processes."""
    is_searched = planner["search"] is not None or planner["mesh"] == "auto"
    if job is None or not is_searched or planner["cluster"] is not None:
        return []
    return [
        "warning: search: its prices are those of one laptop, whose ranks share memory, but this job has"
        f" {native().num_processes()} processes; expected cluster=, a file that tandem-profile measures on these hosts"
    ]
