//===- Shard.h - the shard stage --------------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Shard puts forms into all types and reforms where they differ:
//
//  * before: nn on plain tensors with `spmd.plan` on each operator (signatures,
//    or `as_wanted`), and on arguments and results that are not `full`. Readers
//    may have the choice of several sources (`nn.either`);
//  * after: readers have one source. There is a form in every type that is not
//    `full`, and `spmd.reform`s change one axis each, in a way that is one
//    plain collective or local operation (`getReformedAxis`). Of `spmd.plan`
//    only what schedule reads.
//
// A reform is made once per value, target and pass (`nn.pass`): before its
// first consumer, with the pass of the consumer; but where a pass before the
// update made what only the update needs (a gradient), right behind the
// operator that made it and with its pass, so that collectives start early.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TRANSFORMS_SHARD_SHARD_H
#define TANDEM_TRANSFORMS_SHARD_SHARD_H

#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassOptions.h"

namespace mlir {
class OpPassManager;
} // namespace mlir

namespace tandem {

struct ShardOptions : mlir::PassPipelineOptions<ShardOptions> {
  Option<bool> keepsSources{
      *this, "keeps-sources",
      llvm::cl::desc("Readers keep their choice of sources."),
      llvm::cl::init(false)};
};

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "tandem/Transforms/Shard/Passes.h.inc"

void buildShardPipeline(mlir::OpPassManager &manager,
                        const ShardOptions &options);

} // namespace tandem

#endif // TANDEM_TRANSFORMS_SHARD_SHARD_H
