//===- small_step.h - a Program that trains four numbers --------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CTS_SMALL_STEP_H
#define TANDEM_RT_CTS_SMALL_STEP_H

#include "cts/support.h"

namespace tandem::rt::cts {

/// For 1, 2 or 4 ranks: loss = sum(x²)/2 over all; w -= lr·x; step += 1.
inline ProgramBuilder smallStep(int64_t ranks) {
  ProgramBuilder b({{"data", ranks}});
  uint32_t code = b.addCodeObject("kernels", kernelImage());
  Form rows{{{1, {0}}}, {}};
  uint32_t x =
      b.addArgument({"input", "x", ElementType::F32, {4}, {}, rows, -1, {}});
  uint32_t w = b.addArgument({"parameter",
                              "w",
                              ElementType::F32,
                              {4},
                              {},
                              rows,
                              -1,
                              std::pair(-1.0, 1.0)});
  uint32_t lr = b.addArgument(
      {"learning_rate", "0", ElementType::F32, {}, {}, {}, -1, {}});
  uint32_t step =
      b.addArgument({"step", "step", ElementType::I64, {}, {}, {}, -1, {}});
  uint32_t loss =
      b.addResult({"loss", "loss", ElementType::F32, {}, {}, {}, {}});
  b.addUpdate(w);
  b.addUpdate(step);
  b.setArena(64);
  b.launch({.name = "loss"}, code, "loss", {b.argument(x)}, {b.arena(0, 4)},
           {4 / ranks});
  b.add({.name = "sum loss"}, Collective{CollectiveKind::AllReduce,
                                         {0},
                                         ElementType::F32,
                                         {},
                                         -1,
                                         -1,
                                         b.arena(0, 4),
                                         b.result(loss)});
  b.add({.name = "check loss"},
        Check{CheckKind::Finite, ElementType::F32, b.result(loss), "loss", {}});
  b.launch({.name = "sgd"}, code, "sgd",
           {b.argument(w), b.argument(x), b.argument(lr)}, {b.argument(w)},
           {4 / ranks});
  b.launch({.name = "count"}, code, "increment", {b.argument(step)},
           {b.argument(step)});
  return b;
}

} // namespace tandem::rt::cts

#endif // TANDEM_RT_CTS_SMALL_STEP_H
