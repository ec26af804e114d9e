//===- OrderProblem.h - the order search of a step --------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_EXECUTION_ORDERPROBLEM_H
#define TANDEM_LIB_EXECUTION_ORDERPROBLEM_H

#include "mlir/IR/BuiltinOps.h"
#include "tandem/Search/Pipeline/OrderSearch.h"
#include "tandem_rt/program.h"
#include "tandem_rt/timeline.h"

namespace tandem {

/// The problem of the order of a pipeline, from its Program with any order that
/// has I and W, and from the timeline that is predicted for it: what each
/// action takes at least over microbatches, what one microbatch holds of values
/// that later passes read, transfers and sums. `module` is that which the
/// Program was made of; seconds and bytes. No point has a limit. Each
/// microbatch of the order is `strands` of the step.
pipeline::ScheduleProblem makeOrderProblem(mlir::ModuleOp module,
                                           const rt::Timeline &timeline,
                                           int64_t numMicrobatches,
                                           int64_t strands);

/// The order `name` for the sections as they lie; none if it places them in
/// another way.
std::optional<orders::Order>
placeOrder(const pipeline::ScheduleProblem &problem, llvm::StringRef name);

/// Limits each point to what its tightest rank has left beside what the
/// Program, whose order is `order`, holds there for no microbatch.
void limitPoints(pipeline::ScheduleProblem &problem, const orders::Order &order,
                 const rt::Program &program, llvm::ArrayRef<int64_t> limits);

} // namespace tandem

#endif // TANDEM_LIB_EXECUTION_ORDERPROBLEM_H
