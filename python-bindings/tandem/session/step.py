"""A compiled training step with its values: what `tandem.compile` returns."""

import contextlib
import threading
from html import escape

from .. import checkpoint
from ..errors import RunError, StateError
from ..guards.outdated import expect_current_values, names_of_state
from ..guards.watch import Watch
from ..optimizers.clipping import expect_none_behind
from ..optimizers.optimizers import FunctionalOptimizer
from ..tracing.unregistered import named_parameters, places_of
from . import copies
from .counting import Counting
from .model_dict import ModelDict
from .optimizer_dict import OptimizerDict
from .programs import Loaded, Programs, describe
from .reports import Reports
from .runner import Runner
from .train_state import TrainState
from .values import Values, keys_in
from .watching import Watching


class Step:
    """Call it with a batch to train one step, from one thread at a time.

    Values live in `store`, split over the ranks by the plan; `state_dict` and `optimizer_state_dict`
    put them together. After `NonFiniteLossError`, and after another `RunError` before the step's first
    update, they are as before the step, and training can go on. After a later one those that may be half
    updated are damaged (`store.tensors` says which): the next step is an error until `load_state_dict`
    has given them new values.

    Values that the torch model or optimizer are given after the step was made are not the step's: the next
    call is an error that says so, unless they are what the step has (`watch.py` says what is seen).
    """

    def __init__(
        self,
        module,
        program,
        model,
        optimizer,
        compiled=None,
        threads=1,
        seed=0,
        cluster=None,
        memory=None,
        recompute=False,
        accumulate=None,
        store=None,
        recipe=None,
        graph=True,
    ):
        """`module` is the captured step, `program` the bytes of a Program made of it; `cluster` is the file
        that plans are priced for, `memory`, `recompute` and `accumulate` what the step was compiled with. `store` is
        that of another step, whose values are used as they are: both train the same parameters. `recipe` makes
        Programs for batches of other shapes and for evaluation. `graph` is that of `tandem.compile`.
        """
        held = keys_in(store)  # before a Program adds its own
        self.module, self.bytes = module, program
        names = names_of_state(model)
        named = list(named_parameters(model, optimizer))
        # Names of what the optimizer trains, and the model holds without having registered it.
        self.unregistered = [place.name for place in places_of(model, optimizer)]
        self.model_name, self.optimizer_name = (type(x).__qualname__ for x in (model, optimizer))
        self._running = threading.Lock()
        captured = FunctionalOptimizer(optimizer, named)
        main = Loaded(module, program, threads, store, graph)
        self._programs = Programs(recipe, main, compiled.plan if compiled else "")
        values = Values(self._programs, names)
        counting = Counting(captured, values, module)
        values.start(module.arguments, held, seed)
        watch = Watch(model, optimizer)
        expect_none_behind(model)
        model_dict = ModelDict(module, names, self.unregistered, values)
        names_of = {id(parameter): name for name, parameter in named}
        optimizer_dict = OptimizerDict(optimizer, captured, names_of, values, watch, counting)
        parts = values, model_dict, optimizer_dict
        watching = Watching(*parts, watch, self._programs, recipe, named)
        expect_current_values(model, named, watching)
        self._state = TrainState(*parts, watching)
        has_gradients = recipe is not None and recipe.wanted.gradients
        self._runner = Runner(self._programs, watching, counting, optimizer, has_gradients)
        session, job = self._programs.main.session, recipe.job if recipe is not None else None
        planned = dict(cluster=cluster, memory=memory, recompute=recompute, accumulate=accumulate)
        self._reports = Reports(compiled, module, program, session, job, **planned)

    def __repr__(self):
        return describe(self, self._programs.words)

    def _repr_html_(self):
        """In a notebook: the page of the last timeline, or the plan."""
        report = self.report()
        what = report._repr_html_() if report else f"<pre>{escape(self.plan)}</pre>"
        return f"<p>{escape(repr(self))}</p>{what}"

    @property
    def store(self):
        """Where the values are; `store.tensors` lists them."""
        return self._state.values.store

    @property
    def is_ahead(self):
        """Whether the step has trained since its values were the torch model's own."""
        return self._state.watching.is_ahead

    def __call__(self, batch):
        """One training step; returns what `loss_fn` returns: the loss, a rank-0 tensor, and what is with it."""
        with self._alone():
            return self._runner.train(batch)

    def evaluate(self, batch):
        """What `loss_fn` returns for a batch of any size, with the model in eval mode and the step's values, which
        stay as they are.
        """
        with self._alone():
            return self._runner.evaluate(batch)

    def sees_changes(self):
        """Whether the torch model or optimizer may have been given values since the step was made. Asks no other process."""
        return self._state.watching.sees_changes()

    def value(self, key, rank=None):
        """The whole tensor of an argument, as it will be at the next step; with `rank` only in its process."""
        return self._state.values.read(key, rank)

    def result(self, role, name):
        """A result of the last step as a whole tensor."""
        return self._runner.result(role, name)

    def gradients(self):
        """{parameter name: gradient} of the last step; the step must be compiled with `gradients=True`."""
        return self._runner.gradients()

    def grad_norm(self):
        """The norm of all gradients of the last step before clipping, a rank-0 tensor. Asks no other process."""
        return self._runner.grad_norm()

    # State dicts

    def state_dict(self, rank=None):
        """Whole tensors under the model's own names, tied ones too: for `model.load_state_dict`. All
        processes of a job call it; with `rank` only the one that has it gets them, and the others {}.
        """
        return self._state.model_dict.give(rank)

    def optimizer_state_dict(self, rank=None):
        """For `optimizer.load_state_dict` of torch.optim, and for `load_state_dict` of a step. `rank` as
        in `state_dict`.
        """
        return self._state.optimizer_dict.give(rank)

    def load_state_dict(self, state, optimizer_state=None):
        """Takes over a model's state dict and, if given, an optimizer's (torch.optim's or a step's own),
        whose hyperparameters must be those of the step; its learning rates become those of the optimizer
        object, from which the step goes on reading them. Names may have the `module.` and `_orig_mod.` of wrapped models. After a StateError nothing has changed. Buffers
        that a state dict does not have stay, or, if they are damaged, become the torch model's again. All
        processes of a job call it; the values of the one with rank 0 count.
        """
        self._state.load(state, optimizer_state)

    # Checkpoints, and copies from and to PyTorch

    @property
    def count(self):
        """How many steps these values have been trained. Asks no other process."""
        return self._state.values.count

    def save(self, folder, scheduler=None, extra=None):
        """Writes a checkpoint of all that the step needs to go on (docs/checkpoints.md): values, step count, seed,
        the optimizer's rates and the states of its learning-rate schedulers (`scheduler`: one or a list; by default
        those that there are). `extra` is what `load` returns: numbers, texts, lists, dicts and small tensors. All
        processes of a job call it; each writes what it has. When it returns, all is on the disk. What ends it before,
        a full disk or a killed process, leaves the checkpoint that was in `folder` whole. Raises CheckpointError.
        """
        with self._alone():
            checkpoint.save(self._state, folder, scheduler, extra)

    def load(self, folder=None, *, model=None, optimizer=None, scheduler=None):
        """Takes over what `save` wrote, under whatever mesh, plan, micro and number of processes, and returns its
        `extra`: the optimizer gets the rates, the schedulers their states. Schedulers are made before; with
        `scheduler=()` there are none to load. Or takes over the values of a torch model, an optimizer, or both, by
        name; in a job those of process 0 count. After a StateError nothing has changed; an error of the disk while
        values are read leaves them damaged, so that the next step is an error.
        """
        given = (folder is not None, model is not None or optimizer is not None)
        if given == (False, False) or given == (True, True):
            raise StateError(
                "load: expected a folder, or a model and an optimizer, or one of these"
            )
        with self._alone():
            if folder is not None:
                return checkpoint.load(self._state, folder, scheduler)
            return copies.copy_in(self._state, model, optimizer)

    def sync_to(self, model=None, optimizer=None, rank=None):
        """Copies values into a torch model, the optimizer's state into a torch optimizer of its parameters, or both,
        in PyTorch's own layout, so that a plain PyTorch loop goes on from here. One tensor at a time is put together;
        all processes of a job call it, and with `rank` only the process that has it copies.
        """
        with self._alone():
            copies.copy_out(self._state, model, optimizer, rank)

    @contextlib.contextmanager
    def _alone(self):
        """No other thread is in the step meanwhile."""
        if not self._running.acquire(blocking=False):
            raise RunError(
                "step: called while another thread is in it, expected one call at a time"
            )
        try:
            yield
        finally:
            self._running.release()

    # Reports

    @property
    def plan(self):
        """The plan as a table: which tensors are split how, which collectives with how many bytes."""
        return self._reports.plan

    @property
    def compiled(self):
        """The reports of the compiler: `plan` (as text that compiles again), `remarks`, `seconds`."""
        return self._reports.compiled

    def explain(self, path=None, file=None, search_time_limit=0):
        """Prints why the plan is as it is (docs/explanations.md); returns it as a dict,
        and writes that as JSON to `path`. A plan is priced for the cluster that the step was compiled for,
        a laptop without one. `file` is where it is printed; default: standard output. After
        `search_time_limit` seconds, if that is not 0, other forms are estimated briefly, or not looked at.
        """
        return self._reports.explain(path, file, search_time_limit)

    @property
    def program(self):
        """The Program, as data."""
        return self._reports.program

    def save_program(self, path):
        """Writes the Program, for `tandem-run`. All processes of a job may write it to one path."""
        self._reports.save_program(path)

    @contextlib.contextmanager
    def trace(self, path):
        """Within `with step.trace("timeline.json"):` steps are recorded. At the end the timeline of all ranks is
        written, where rank 0 is; every process of a job takes part. After a failed step it has what there is.
        """
        with self._reports.trace(path):
            yield self

    def report(self, predicted=None, skip=0):
        """What was hidden in the timeline that `trace` wrote last, as `tandem.report`; None in a process
        that has not written it.
        """
        return self._reports.report(predicted, skip)

    def hidden_share(self):
        """Share of the recorded communication time of this process' ranks that lies beside their computation."""
        return self._reports.hidden_share()
