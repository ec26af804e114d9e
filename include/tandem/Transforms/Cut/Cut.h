//===- Cut.h - the cut into sections ----------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Cut divides a step among the points of a pipe axis:
//
//  * before: nn on plain tensors, with the loops of microbatches, if any;
//  * after: the same, and each operator and argument knows its section.
//
// The plan behind it sees the mesh without the pipe axis. `shard` makes forms
// `at(i)` of sections.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TRANSFORMS_CUT_CUT_H
#define TANDEM_TRANSFORMS_CUT_CUT_H

#include "mlir/Pass/Pass.h"

namespace tandem {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "tandem/Transforms/Cut/Passes.h.inc"

} // namespace tandem

#endif // TANDEM_TRANSFORMS_CUT_CUT_H
