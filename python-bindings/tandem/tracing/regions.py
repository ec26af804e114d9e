"""Regions of `torch.utils.checkpoint`: what the backward pass runs again is no operator of the forward pass.

Each run has a number. Operators of different runs are never merged with one another, nor with those of the first run,
else everything would be held that the region is there to make again. Checkpoints of other libraries are functions of
autograd's whose backward pass turns gradients on, and runs a part of the model: a region as well.
"""

import contextlib
from unittest import mock

import torch
import torch.utils.checkpoint as checkpoints

from ..base.notices import tell
from ..errors import CaptureError
from .attention import ATTENTION
from .locations import current_location

# What policies know of attention, which is one operator here.
_ATTENTIONS = [
    getattr(torch.ops.aten, f"_scaled_dot_product_{kind}").default
    for kind in (
        "flash_attention_for_cpu",
        "flash_attention",
        "efficient_attention",
        "cudnn_attention",
    )
]
_SAVED = (True, checkpoints.CheckpointPolicy.MUST_SAVE, checkpoints.CheckpointPolicy.PREFER_SAVE)
_MISMATCH = checkpoints._SAC_MISMATCH_MSG


@contextlib.contextmanager
def _explained(line):
    """PyTorch's errors of a second run that differs from the first one, as one line."""
    try:
        yield
    except RuntimeError as error:
        text = str(error)
        if not isinstance(error, checkpoints.CheckpointError) and _MISMATCH not in text:
            raise
        reason = text.splitlines()[0].removeprefix("torch.utils.checkpoint: ").removesuffix(".")
        raise CaptureError(
            f"{line}: the checkpointed region computes something else when it is run again"
            f" ({reason.removesuffix(_MISMATCH).strip()}), expected what it reads to stay until the backward pass"
        ) from error


def tell_idle(lines, runs):
    """Warns of regions of which nothing is made again: `lines` are those of all runs, each with the lines of the regions around it,
    `runs` the numbers of those that make something.
    """
    busy = {line for run in runs for line in lines[run]}
    for line in dict.fromkeys(line for line, *_ in lines):
        if line is not None and line not in busy:
            tell(
                f"{line}: nothing of the checkpointed region is computed again, and as much is held as without it: gradients read"
                " nothing but its inputs and what a policy keeps"
            )


class _Caching(checkpoints._CachingTorchDispatchMode):
    """Attention is saved if the policy saves any of PyTorch's operators for it."""

    def __init__(self, policy, *others, **named):
        def ask(context, operator, *args, **kwargs):
            if operator is not ATTENTION:
                return policy(context, operator, *args, **kwargs)
            answers = [policy(context, each, *args[:3]) for each in _ATTENTIONS]
            return next((each for each in answers if each in _SAVED), answers[0])

        super().__init__(ask, *others, **named)


class Regions:
    """The runs of regions in one trace. `lines[i]` is the line of the call whose region run `i` makes again, None for the
    region of a function of autograd's, and those of the regions around it.
    """

    def __init__(self, outermost):
        self.outermost, self.lines = outermost, []
        self._current, self._of_nodes, self._around = None, {}, ()

    def _begin(self, *lines):
        self.lines.append(lines)
        return len(self.lines) - 1

    @contextlib.contextmanager
    def _within(self, *lines):
        before, self._around = self._around, lines
        try:
            yield
        finally:
            self._around = before

    def current(self, is_backward):
        """The number of the run that an operator belongs to, or None."""
        if self._current is not None or not (is_backward and torch.is_grad_enabled()):
            return self._current
        node = torch._C._current_autograd_node()
        if node not in self._of_nodes:
            self._of_nodes[node] = self._begin(None)
        return self._of_nodes[node]

    def again(self, function, line):
        """`function` as the backward pass is to run it."""
        lines = (line, *self._around)

        def run(*args, **kwargs):
            before, self._current = self._current, self._begin(*lines)
            try:
                with _explained(line), self._within(*lines):
                    return function(*args, **kwargs)
            finally:
                self._current = before

        return run

    @contextlib.contextmanager
    def followed(self):
        """Within it, checkpoints of both variants tell of their runs."""
        regions, forward = self, checkpoints.CheckpointFunction.forward

        class Frame(checkpoints._CheckpointFrame):
            def __init__(self, recompute, *others):
                self.line = current_location(regions.outermost)
                super().__init__(regions.again(recompute, self.line), *others)

            def check_recomputed_tensors_match(self, gid):
                with _explained(self.line):
                    super().check_recomputed_tensors_match(gid)

        class Hook(checkpoints._checkpoint_hook):
            def __init__(self, frame):
                super().__init__(frame)
                self.within = regions._within(frame.line, *regions._around)

            def __enter__(self):
                self.within.__enter__()
                return super().__enter__()

            def __exit__(self, *error):
                self.within.__exit__(*error)
                return super().__exit__(*error)

        def reentrant(ctx, function, *others):
            line = current_location(regions.outermost)
            with regions._within(line, *regions._around):
                result = forward(ctx, function, *others)
            ctx.run_function = regions.again(function, line)
            return result

        with (
            mock.patch.object(checkpoints, "_CheckpointFrame", Frame),
            mock.patch.object(checkpoints, "_checkpoint_hook", Hook),
            mock.patch.object(checkpoints.CheckpointFunction, "forward", staticmethod(reentrant)),
            mock.patch.object(checkpoints, "_CachingTorchDispatchMode", _Caching),
            # As in eager: what policies do not save is made again. Under a tracer everything would be saved.
            mock.patch.object(checkpoints, "_is_compiling", lambda *_: False),
        ):
            yield
