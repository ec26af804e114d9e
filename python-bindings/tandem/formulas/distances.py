"""Distances between rows, and their gradients as PyTorch defines them at kinks and ties (formulas.py)."""

import math

import torch

from .formulas import rule

aten = torch.ops.aten


def _norm(differences, p):
    """Of the last dimension."""
    size = differences.abs()
    if p == 0:
        return size.ceil().clamp(max=1).sum(-1)
    if p == 1:
        return size.sum(-1)
    if p == 2:
        return size.square().sum(-1).sqrt()
    if math.isinf(p):
        return size.amax(-1) if size.shape[-1] else size.sum(-1)
    return size.pow(p).sum(-1).pow(1 / p)


def _slope(differences, distance, p):
    """The derivative of a distance by each difference; of equal largest ones, by each as if it were the only one."""
    sign, size = differences.sign(), differences.abs()
    if p == 0:
        return torch.zeros_like(differences)
    if p == 1:
        return torch.where(differences.isnan(), differences, sign)
    if math.isinf(p):
        return sign * (1 - (size - distance).abs().ceil().clamp(max=1))
    power = differences if p == 2 else sign * size.pow(p - 1)
    slope = power / (distance if p == 2 else distance.pow(p - 1))
    is_flat = distance == 0
    if p < 1:
        is_flat = is_flat | (differences == 0)
    return torch.where(is_flat, 0.0, slope)


@rule(aten._cdist_forward.default)
def _distances(x1, x2, p, compute_mode):
    return _norm(x1.unsqueeze(-2) - x2.unsqueeze(-3), p)


@rule(aten._cdist_backward.default)
def _distances_backward(grad, x1, x2, p, distances):
    """By the rows of x1."""
    differences = x1.unsqueeze(-2) - x2.unsqueeze(-3)
    if 0 in differences.shape:  # PyTorch does not broadcast these
        return torch.zeros_like(x1)
    return (grad.unsqueeze(-1) * _slope(differences, distances.unsqueeze(-1), p)).sum(-2)


def _pairs(x):
    rows, columns = torch.triu_indices(x.shape[0], x.shape[0], 1)
    return rows, columns, x[rows] - x[columns]


@rule(aten._pdist_forward.default)
def _distances_within(x, p=2.0):
    return _norm(_pairs(x)[2], p)


@rule(aten._pdist_backward.default)
def _distances_within_backward(grad, x, p, distances):
    rows, columns, differences = _pairs(x)
    parts = grad.unsqueeze(-1) * _slope(differences, distances.unsqueeze(-1), p)
    return torch.zeros_like(x).index_add(0, rows, parts).index_add(0, columns, -parts)
