//===- Passes.td - passes of Plan -------------*- tablegen -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TRANSFORMS_PLAN_PASSES_TD
#define TANDEM_TRANSFORMS_PLAN_PASSES_TD

include "mlir/Pass/PassBase.td"

def MakePlanPass : Pass<"tandem-make-plan", "::mlir::ModuleOp"> {
  let summary = "Chooses the forms of arguments and a signature per operator";
  let description = [{
    On a command line it is a pipeline, which verifies the step first.
    Chooses the mesh, where none is named, the form of every argument and
    result and a signature of every operator on each axis, by a preset or a
    search, and notes them (`spmd.plan`).
  }];
}

def PrintPlanPass : Pass<"tandem-print-plan", "::mlir::ModuleOp"> {
  let summary = "Prints the plan as a table to standard error";
  let description = [{
    Prints the plan as a table to standard error (`printPlanTable`). On a
    command line it is a pipeline, which verifies step and plan first.
  }];
}

def VerifyPlanPass : Pass<"tandem-verify-plan", "::mlir::ModuleOp"> {
  let summary = "Checks that each operator's signatures come from its rule";
  let description = [{
    Fails unless every operator has a signature per axis that its rule
    gives, and arguments and results have forms that divide their shapes.
  }];
}

#endif // TANDEM_TRANSFORMS_PLAN_PASSES_TD
