//===- Outline.h - actions and points of a pipeline -------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Outline takes a pipeline apart into actions, so that what follows sees each
// action once, as a step of its own, whatever the number of microbatches is.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TRANSFORMS_OUTLINE_OUTLINE_H
#define TANDEM_TRANSFORMS_OUTLINE_OUTLINE_H

#include "mlir/Pass/Pass.h"
#include "tandem/Dialect/Sched/Sched.h"

namespace tandem {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "tandem/Transforms/Outline/Passes.h.inc"

} // namespace tandem

#endif // TANDEM_TRANSFORMS_OUTLINE_OUTLINE_H
