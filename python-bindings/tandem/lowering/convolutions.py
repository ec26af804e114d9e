"""Convolutions: derivatives of one form that is linear in input, weight and output (`Convolution.td`).

So a transposed convolution is the gradient of a convolution's input.
"""

import torch

from .records import TensorType
from .registry import Unsupported, lowers

# Element types that libraries convolve.
_TYPES = (torch.float64, torch.float32, torch.bfloat16)


class _Windows:
    """How windows move: one number per spatial dimension."""

    def __init__(self, tensor, stride, padding, dilation):
        if tensor.dtype not in _TYPES:
            expected = ", ".join(map(str, _TYPES))
            raise Unsupported(f"found a convolution of {tensor.dtype}, expected one of {expected}")
        rank = len(tensor.shape) - 2
        if not 1 <= rank <= 3:
            raise Unsupported(f"found {rank} spatial dimensions, expected 1 to 3")

        def each(values):
            return tuple(values) * rank if len(values) == 1 else tuple(values)

        self.stride, self.padding, self.dilation = map(each, (stride, padding, dilation))

    @property
    def attributes(self):
        return {"stride": self.stride, "padding": self.padding, "dilation": self.dilation}

    def end_padding(self, dim, size, kernel, windows):
        """How far windows read behind an input of `size`."""
        last = self.stride[dim] * (windows - 1) + self.dilation[dim] * (kernel - 1)
        return last + 1 - size - self.padding[dim]


def _conv(b, x, weight, shape, windows):
    return b.emit("conv", [x, weight], TensorType(shape, x.dtype), **windows.attributes)


def _read_shape(shape, weight, small, windows):
    """Of `shape`, that of a convolution's input, without ends of a stride and more that no window reads: the
    output padding of a transposed convolution.
    """
    read = list(shape)
    for dim, stride in enumerate(windows.stride):
        sizes = shape[2 + dim], weight.shape[2 + dim], small.shape[2 + dim]
        read[2 + dim] += min(windows.end_padding(dim, *sizes) + stride - 1, 0)
    return tuple(read)


def _input_grad(b, grad, weight, shape, windows):
    read = _read_shape(shape, weight, grad, windows)
    result = b.emit(
        "conv_input_grad", [grad, weight], TensorType(read, grad.dtype), **windows.attributes
    )
    for dim in range(2, len(shape)):
        result = b.pad(result, dim, 0, shape[dim] - read[dim])
    return result


def _cut(b, x, weight, small, windows):
    for dim, size in enumerate(_read_shape(x.shape, weight, small, windows)):
        x = b.slice(x, dim, 0, size)
    return x


def _weight_grad(b, x, grad, weight, windows):
    x = _cut(b, x, weight, grad, windows)
    return b.emit("conv_weight_grad", [x, grad], weight.type, **windows.attributes)


@lowers("convolution")
def _convolution(b, x, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    windows = _Windows(x, stride, padding, dilation)
    make = _input_grad if transposed else _conv
    result = make(b, x, weight, b.out.shape, windows)
    if bias is None:
        return result
    return b.binary("add", result, b.reshape(bias, bias.shape + (1,) * (len(x.shape) - 2)))


@lowers("convolution_backward")
def _convolution_backward(
    b,
    grad,
    x,
    weight,
    bias_sizes,
    stride,
    padding,
    dilation,
    transposed,
    output_padding,
    groups,
    wanted,
):
    windows = _Windows(x, stride, padding, dilation)
    of_input = of_weight = of_bias = None
    if wanted[0] and transposed:
        of_input = _conv(b, _cut(b, grad, weight, x, windows), weight, x.shape, windows)
    elif wanted[0]:
        of_input = _input_grad(b, grad, weight, x.shape, windows)
    if wanted[1]:
        pair = (grad, x) if transposed else (x, grad)
        of_weight = _weight_grad(b, *pair, weight, windows)
    if wanted[2]:
        of_bias = b.sum(grad, [dim for dim in range(len(grad.shape)) if dim != 1])
    return [of_input, of_weight, of_bias]
