"""The global settings of Python and PyTorch under which a step is captured."""

import contextlib
import gc
import logging
import warnings
from unittest import mock

import torch
import torch.distributions
from torch._subclasses.fake_tensor import FakeTensorConverter
from torch.fx._lazy_graph_module import _use_lazy_graph_module
from torch.fx.experimental import proxy_tensor
from torch.nn.attention import SDPBackend, bias, sdpa_kernel

from ..errors import CaptureError
from ..optimizers.clipping import without_scaler
from ..tracing.attention import causal_mask
from ..tracing.locations import current_location
from ..tracing.precision import refusing_others
from ..tracing.wrappers import without_dynamo


def _causal_hint(mask, is_causal=None, size=None):
    """For torch.nn.Transformer, which looks into the mask for a hint that changes no result."""
    return bool(is_causal)


# Distributions check their arguments by looking at values. A data descriptor, so that one which was made
# before the capture, or asked for checks, has none either; in eager it goes on checking.
_UNCHECKED = property(lambda distribution: False, lambda distribution, value: None)


@contextlib.contextmanager
def _quiet():
    """PyTorch logs a trace of its own for an error of the model's, which is reported anyway."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


@contextlib.contextmanager
def _without_collector():
    """A trace makes hundreds of thousands of objects that live as long as it: looking through them for garbage again
    and again takes a tenth of its time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextlib.contextmanager
def _without_notes():
    """What PyTorch notes at each node for its own compiler, and nobody reads here, takes a twentieth of a trace."""
    with (
        mock.patch.object(proxy_tensor, "_extract_tensor_metadata", lambda _: None),
        mock.patch.object(proxy_tensor, "_should_save_eager_input_vals", lambda *_: False),
    ):
        yield


_AS_FAKE = FakeTensorConverter.from_real_tensor


def _in_its_type(self, *arguments, **named):
    """PyTorch makes the fake twin of a constant by functions in which a mode of ours would widen its type."""
    with torch._C.DisableTorchFunction():
        return _AS_FAKE(self, *arguments, **named)


def _begin_region(region):
    """A profiler's region holds no tensors that could be traced. An optimizer's step is one."""
    if region.name.startswith("Optimizer.step"):
        raise CaptureError(
            f"{current_location()}: an optimizer steps within the loss function, expected the loss alone, of which the"
            " step computes gradients and updates"
        )
    return region


@contextlib.contextmanager
def _without_regions():
    region = torch.autograd.profiler.record_function
    with (
        mock.patch.object(region, "__enter__", _begin_region),
        mock.patch.object(region, "__exit__", lambda *_: None),
    ):
        yield


@contextlib.contextmanager
def capturing():
    """The global settings under which a trace is complete and correct.

    Autograd on one thread, or operators of the backward pass escape the tracer. Attention by its
    plain formula, where it is not one operator (attention.py).
    Recurrent layers by theirs, not as one operator of oneDNN's. Without anomaly mode, which looks at values behind each function
    of the backward pass: the step has checks of its own for it (trace.py).
    """
    with (
        torch.autograd.set_detect_anomaly(False),
        torch.autograd.set_multithreading_enabled(False),
        # Tensors made in inference mode cannot be trained.
        torch.inference_mode(False),
        sdpa_kernel(SDPBackend.MATH),
        torch.enable_grad(),
        warnings.catch_warnings(),
        _quiet(),
        _without_collector(),
        _without_notes(),
        _without_regions(),
        # Graphs are read here, not run: nobody needs their Python code.
        _use_lazy_graph_module(True),
        mock.patch.object(torch.nn.modules.transformer, "_detect_is_causal_mask", _causal_hint),
        mock.patch.object(torch.distributions.Distribution, "_validate_args", _UNCHECKED),
        mock.patch.object(bias, "CausalBias", causal_mask),
        mock.patch.object(FakeTensorConverter, "from_real_tensor", _in_its_type),
        refusing_others(),
        without_scaler(),
        without_dynamo(),
    ):
        warnings.simplefilter("ignore")
        with torch.backends.mkldnn.flags(enabled=False):
            yield
