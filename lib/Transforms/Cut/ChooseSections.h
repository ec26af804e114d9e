//===- ChooseSections.h - sections of equal FLOPs ---------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The parameters of a step form a chain, in the order in which operators of the
// data read them first. An operator belongs to the last parameter of the chain
// that it depends on, so any cut of the chain is one into sections whose edges
// lead forward: tied parameters, skips and an encoder beside a decoder too.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TRANSFORMS_CUT_CHOOSESECTIONS_H
#define TANDEM_LIB_TRANSFORMS_CUT_CHOOSESECTIONS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tandem {

/// The section of each parameter by its number among the arguments of `step`:
/// of all cuts into `number` sections, one whose largest section has the fewest
/// FLOPs of the forward pass. The parameters that a module has itself are in
/// one section, if there are enough modules. Of cuts that are near to the best,
/// one that sends the fewest bytes. Fails after reporting an error where there
/// are fewer places to cut.
mlir::FailureOr<llvm::DenseMap<unsigned, int64_t>>
chooseSections(mlir::func::FuncOp step, int64_t number);

} // namespace tandem

#endif // TANDEM_LIB_TRANSFORMS_CUT_CHOOSESECTIONS_H
