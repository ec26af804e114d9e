"""Recurrent layers position by position, for oneDNN's operators of PyTorch and for sequences that end (packed.py)."""

import torch
import torch.nn.functional as F

# A cell makes the next state of what the input and, by `recur`, the state before give its gates.


def tanh_cell(x, state, recur):
    return (torch.tanh(x + recur(state[0])),)


def relu_cell(x, state, recur):
    return (torch.relu(x + recur(state[0])),)


def lstm_cell(x, state, recur):
    inner, forget, new, outer = (x + recur(state[0])).chunk(4, -1)
    cell = forget.sigmoid() * state[1] + inner.sigmoid() * new.tanh()
    return outer.sigmoid() * cell.tanh(), cell


def gru_cell(x, state, recur):
    of_input, of_state = x.chunk(3, -1), recur(state[0]).chunk(3, -1)
    reset, keep = (torch.sigmoid(a + b) for a, b in zip(of_input[:2], of_state[:2], strict=True))
    new = torch.tanh(of_input[2] + reset * of_state[2])
    return ((state[0] - new) * keep + new,)


def _run(cell, x, mask, state, weights, backwards):
    """(outputs of all positions, last state) of one direction of one layer. With a mask, a sequence that has ended, or backwards has
    not begun, keeps its state.
    """
    of_input, of_state, *rest = weights
    biases, projection = (rest[:2], rest[2:]) if len(rest) > 1 else ([None, None], rest)
    x = F.linear(x, of_input, biases[0])
    outputs = [None] * x.shape[0]

    def recur(hidden):
        return F.linear(hidden, of_state, biases[1])

    for t in sorted(range(x.shape[0]), reverse=backwards):
        new = cell(x[t], state, recur)
        new = (F.linear(new[0], projection[0]), *new[1:]) if projection else new
        if mask is not None:
            goes_on = mask[t][:, None]
            new = tuple(torch.where(goes_on, a, b) for a, b in zip(new, state, strict=True))
        state, outputs[t] = new, new[0]
    return torch.stack(outputs), state


def run_layers(cell, x, states, weights, layers, dropout, training, directions, mask=None):
    """(output, last states) of an x (positions, batch, width): of the layers in order, in each of the directions. `states` are of all
    of these; where `mask` (positions, batch) is false, a sequence is not there.
    """
    each, last = len(weights) // (layers * directions), []
    for layer in range(layers):
        outputs = []
        for direction in range(directions):
            place = layer * directions + direction
            own = weights[place * each : (place + 1) * each]
            output, state = _run(cell, x, mask, [s[place] for s in states], own, direction == 1)
            outputs.append(output)
            last.append(state)
        x = torch.cat(outputs, -1)
        if layer + 1 < layers:
            x = F.dropout(x, dropout, training)
    return x, *(torch.stack(every) for every in zip(*last, strict=True))


def _cell_of_onednn(x, state, recur):
    """Of bf16, with gates and cell in f32."""
    inner, forget, new, outer = (x.float() + recur(state[0]).float()).chunk(4, -1)
    cell = forget.sigmoid() * state[1].float() + inner.sigmoid() * new.tanh()
    return (outer.sigmoid() * cell.tanh()).bfloat16(), cell


def lstm_under_autocast(x, states, weights, biased, layers, dropout, training, both, batch_first):
    """oneDNN's operator, which is on autocast's list, while others of the kind are made of what is; None for what it does not compute."""
    is_projected = states[0].shape[-1] != states[1].shape[-1]
    if x.dtype not in (torch.float32, torch.bfloat16) or is_projected:
        return None
    x, *states = (tensor.bfloat16() for tensor in (x, *states))
    x = x.transpose(0, 1) if batch_first else x
    options = (layers, dropout, training, 1 + both)
    x, *last = run_layers(_cell_of_onednn, x, states, weights, *options)
    return (x.transpose(0, 1) if batch_first else x), *(state.bfloat16() for state in last)
