//===- Passes.td - passes of Localize -------------*- tablegen -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TRANSFORMS_LOCALIZE_PASSES_TD
#define TANDEM_TRANSFORMS_LOCALIZE_PASSES_TD

include "mlir/Pass/PassBase.td"

def LocalizeSpacePass : Pass<"tandem-localize-space", "::mlir::func::FuncOp"> {
  let summary = "Takes space axes off the forms: per-device shapes, collectives";
  let description = [{
    Per-device shapes and collectives.
  }];
}

def MergeCollectivesPass : Pass<"tandem-merge-collectives", "::mlir::func::FuncOp"> {
  let summary = "Makes one collective over two axes of two collectives in a row";
  let description = [{
    One collective over two axes for two collectives, one on each.
  }];
}

def NumberMovementsPass : Pass<"tandem-number-movements", "::mlir::ModuleOp"> {
  let summary = "Numbers collectives and transfers behind all other operators";
  let description = [{
    Before, collectives and `sched.receive` have no `nn.id`, as the step that was
    captured has none of them. After, each has one of its own, above those of all
    other operators. What has a number keeps it. Nothing where operators are not
    numbered.
  }];
}

def VerifyLocalizedPass : Pass<"tandem-verify-localized", "::mlir::func::FuncOp"> {
  let summary = "Checks the exit of the localize stage: forms on time axes and `at` only, layouts that give the per-device shapes";
  let description = [{
    The exit of the stage.
  }];
}

#endif // TANDEM_TRANSFORMS_LOCALIZE_PASSES_TD
