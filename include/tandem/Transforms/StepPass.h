//===- StepPass.h - a pass on a training step -------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TRANSFORMS_STEPPASS_H
#define TANDEM_TRANSFORMS_STEPPASS_H

#include "mlir/Pass/Pass.h"
#include "tandem/Analysis/StepBody.h"
#include "tandem/Dialect/Sched/Sched.h"

namespace tandem {

/// A pass on a function that is straight code on tensors (`verifyStepBody`).
/// IR can be edited by hand between any two passes, so each looks again; what
/// is not so is an error, and the pass does not run. Kernels are left alone.
///
/// `BaseT` is the class that ODS makes of the pass' definition.
template <typename BaseT> class StepPass : public BaseT {
public:
  using BaseT::BaseT;

protected:
  /// Fails after reporting an error.
  virtual mlir::LogicalResult runOnStep(mlir::func::FuncOp step) = 0;

private:
  void runOnOperation() final {
    mlir::func::FuncOp step = this->getOperation();
    if (step->hasAttr(sched::kKernelAttrName))
      return;
    if (failed(verifyStepBody(step)) || failed(runOnStep(step)))
      this->signalPassFailure();
  }
};

} // namespace tandem

#endif // TANDEM_TRANSFORMS_STEPPASS_H
