//===- Duplex.h - the duplex stage ------------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Duplex takes the time axes off:
//
//  * before: per-device shapes with forms on time axes;
//  * after: plain tensors. An operator with a value that is not `full` over
//  time
//    is there once per point of the axes concerned, with the index of the
//    strand in `nn.strand` (row-major over the time axes; axes not concerned
//    count as 0); any other operator is there once, without it. Reforms over
//    time are `nn.add`, `nn.slice`, `nn.cat`. Arguments and results are whole
//    over time.
//
// Where strands join, that is, where one strand's work needs another one's
// value, the operator that joins carries `nn.join`, the change of form as text.
// Sums of gradients and of the loss are no joins: no strand needs them.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TRANSFORMS_DUPLEX_DUPLEX_H
#define TANDEM_TRANSFORMS_DUPLEX_DUPLEX_H

#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassOptions.h"

namespace mlir {
class OpPassManager;
} // namespace mlir

namespace tandem {

struct DuplexOptions : mlir::PassPipelineOptions<DuplexOptions> {
  Option<bool> reportJoins{
      *this, "report-joins",
      llvm::cl::desc("Remark on every operator where strands join"),
      llvm::cl::init(false)};
};

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "tandem/Transforms/Duplex/Passes.h.inc"

void buildDuplexPipeline(mlir::OpPassManager &manager,
                         const DuplexOptions &options);

} // namespace tandem

#endif // TANDEM_TRANSFORMS_DUPLEX_DUPLEX_H
