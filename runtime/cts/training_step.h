//===- training_step.h - a Program that trains ------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CTS_TRAINING_STEP_H
#define TANDEM_RT_CTS_TRAINING_STEP_H

#include "cts/support.h"

namespace tandem::rt::cts {

/// The form of a tensor of `rank` dimensions that is split along one axis.
inline Form split(size_t rank, size_t dim, uint32_t axis, int64_t time = 1) {
  Form form;
  form.dims.resize(rank);
  form.dims[dim] = {time, {axis}};
  return form;
}

/// Data parallel: y = x·w, loss = sum(y²)/2, dw = xᵀ·y, all-reduced beside the
/// update of the step count; w -= lr·dw.
class TrainingStep {
public:
  static constexpr int64_t kBatch = 8, kIn = 4, kOut = 3;

  explicit TrainingStep(int64_t ranks, int64_t batch = kBatch)
      : b({{"data", ranks}}) {
    int64_t rows = batch / ranks;
    addCommQueue(b);
    code = b.addCodeObject("kernels", kernelImage());
    x = b.addArgument({"input",
                       "x",
                       ElementType::F32,
                       {batch, kIn},
                       {},
                       split(2, 0, 0),
                       -1,
                       {}});
    w = b.addArgument(
        {"parameter", "w", ElementType::F32, {kIn, kOut}, {}, {}, -1, {}});
    lr = b.addArgument(
        {"learning_rate", "0", ElementType::F32, {}, {}, {}, -1, {}});
    step =
        b.addArgument({"step", "step", ElementType::I64, {}, {}, {}, -1, {}});
    loss = b.addResult({"loss", "loss", ElementType::F32, {}, {}, {}, {}});
    dw = b.addResult(
        {"gradient", "w", ElementType::F32, {kIn, kOut}, {}, {}, {}});
    b.addUpdate(w);
    b.addUpdate(step);
    b.setArena(1024);
    BufferRef y = b.arena(0, rows * kOut * 4);
    BufferRef part = b.arena(512, 4), grad = b.arena(576, kIn * kOut * 4);

    Gemm forward = contiguousGemm(ElementType::F32, rows, kOut, kIn);
    forward.a = b.argument(x), forward.b = b.argument(w), forward.c = y;
    b.add({.name = "x @ w", .location = "model.py:3"}, forward);
    b.launch({.name = "loss"}, code, "loss", {y}, {part}, {rows * kOut});
    Gemm backward = contiguousGemm(ElementType::F32, kIn, kOut, rows);
    backward.stridesA = {1, kIn};
    backward.a = b.argument(x), backward.b = y, backward.c = grad;
    b.add({.name = "x^T @ y"}, backward);
    uint32_t ready = b.recordEvent(kCompute);
    b.waitEvent(kComm, ready);
    reduce("all_reduce loss", {}, part, b.result(loss));
    reduce("all_reduce dw", {kIn, kOut}, grad, b.result(dw));
    uint32_t reduced = b.recordEvent(kComm);
    b.waitEvent(kCompute, reduced);
    b.add(
        {.name = "check loss"},
        Check{CheckKind::Finite, ElementType::F32, b.result(loss), "loss", {}});
    b.launch({.name = "sgd"}, code, "sgd",
             {b.argument(w), b.result(dw), b.argument(lr)}, {b.argument(w)},
             {kIn * kOut});
    b.launch({.name = "count"}, code, "increment", {b.argument(step)},
             {b.argument(step)});
  }

  void reduce(const char *name, Shape shape, BufferRef from, BufferRef to) {
    b.add({.name = name, .queue = kComm}, Collective{CollectiveKind::AllReduce,
                                                     {0},
                                                     ElementType::F32,
                                                     std::move(shape),
                                                     -1,
                                                     -1,
                                                     from,
                                                     to});
  }

  ProgramBuilder b;
  uint32_t code, x, w, lr, step, loss, dw;
};

} // namespace tandem::rt::cts

#endif // TANDEM_RT_CTS_TRAINING_STEP_H
