//===- Pipelines.cpp - the stages in order --------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Pipelines/Pipelines.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Dialect/SPMD/SPMD.h"
#include "tandem/Dialect/Sched/Sched.h"
#include "tandem/Transforms/Duplex/Duplex.h"
#include "tandem/Transforms/Import/Import.h"
#include "tandem/Transforms/Localize/Localize.h"
#include "tandem/Transforms/Plan/Plan.h"
#include "tandem/Transforms/Schedule/Schedule.h"
#include "tandem/Transforms/Shard/Shard.h"

namespace tandem {

void registerDialects(mlir::DialectRegistry &registry) {
  registry.insert<mlir::func::FuncDialect, nn::NNDialect, spmd::SPMDDialect,
                  sched::SchedDialect>();
}

void registerPipelines() {
  registerImport();
  registerPlan();
  registerShard();
  registerLocalize();
  registerDuplex();
  registerSchedule();
}

} // namespace tandem
