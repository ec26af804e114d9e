//===- Recorder.h - values of all operators ---------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Keeps what each operator of a run gave, for a comparison of stages.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_REFERENCE_RECORDER_H
#define TANDEM_REFERENCE_RECORDER_H

#include "mlir/IR/Operation.h"
#include "tandem/Reference/Layout.h"
#include "tandem/Reference/SafeTensors.h"
#include "llvm/ADT/DenseMap.h"

namespace tandem::reference {

/// A result of an operator: what each point holds, and the whole tensor where
/// types still say how the parts make it.
struct OperatorValue {
  Shards shards;
  TensorRef whole;
};

class Recorder {
public:
  /// An operator has run in an iteration, or for a microbatch of a pipeline.
  void add(mlir::Operation *op, int64_t iteration,
           llvm::ArrayRef<OperatorValue> values);
  /// `name` is `value`: what a step gives is what an operator in it gave.
  void addName(mlir::Value name, mlir::Value value);

  /// All values, floating-point ones as f64, in the order of the run. A key has
  /// ten fields between `|`: number of the value, `nn.id` (-1: none),
  /// `nn.strand` (-1: all), iteration, result, operator, pass, place in the
  /// user's code, numbers of the values that it was made of (of arguments:
  /// none), and `whole` or the points that hold the tensor.
  const TensorMap &getTensors() const { return tensors; }

private:
  TensorMap tensors;
  llvm::DenseMap<mlir::Value, int64_t> numbers;
  int64_t next = 0;
};

} // namespace tandem::reference

#endif // TANDEM_REFERENCE_RECORDER_H
