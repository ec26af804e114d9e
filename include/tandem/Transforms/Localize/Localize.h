//===- Localize.h - the localize stage --------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Localize takes the space axes off:
//
//  * before: global shapes with forms on all axes, one-axis `spmd.reform`s;
//  * after: per-device shapes; forms on the time axes, and `at` on space axes
//    (`getFormsLeft`); reforms over space are collectives, `spmd.local_slice`,
//    `spmd.keep_first`, `spmd.keep_at` or `spmd.zero_others`. Arguments and
//    results say in `spmd.layout` (a type attribute) the global tensor with its
//    forms on all axes.
//
// With a time form in its type, a collective is one per point of the time axis:
// `all_gather ... dim 0` of a tensor that is `gather(0)` over time concatenates
// within a microbatch.
//
// An operator that must know where its shard lies implements
// `LocalizeOpInterface` (`Dialect/SPMD/SPMDInterfaces.td`); others only get the
// types of their shard.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TRANSFORMS_LOCALIZE_LOCALIZE_H
#define TANDEM_TRANSFORMS_LOCALIZE_LOCALIZE_H

#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassOptions.h"

namespace mlir {
class OpPassManager;
} // namespace mlir

namespace tandem {

struct LocalizeOptions : mlir::PassPipelineOptions<LocalizeOptions> {};

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "tandem/Transforms/Localize/Passes.h.inc"

void buildLocalizePipeline(mlir::OpPassManager &manager,
                           const LocalizeOptions &options);

} // namespace tandem

#endif // TANDEM_TRANSFORMS_LOCALIZE_LOCALIZE_H
