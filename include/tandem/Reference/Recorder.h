//===- Recorder.h - values of all operators ---------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Keeps the arguments of a run, what each operator gave, and the results, for a
// comparison of stages.
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

/// In place of an operator's name: what a value is that no operator gave.
inline constexpr llvm::StringLiteral kArgumentName = "argument";
inline constexpr llvm::StringLiteral kResultName = "result";

class Recorder {
public:
  /// An argument of the function, by its key (`parameter/w`).
  void addArgument(mlir::Value argument, llvm::StringRef key,
                   const OperatorValue &value);
  /// An operator has run in an iteration, or for a microbatch of a pipeline.
  void add(mlir::Operation *op, int64_t iteration,
           llvm::ArrayRef<OperatorValue> values);
  /// A result of the function, by its key (`gradient/w`): what `made` is.
  void addResult(mlir::Value made, llvm::StringRef key,
                 const OperatorValue &value);
  /// `name` is `value`: what a step gives is what an operator in it gave.
  void addName(mlir::Value name, mlir::Value value);

  /// All values, floating-point ones as f64, in the order of the run. A key has
  /// ten fields between `|`: number of the value, `nn.id` (-1: none),
  /// `nn.strand` (-1: all), iteration, result, operator, pass, place in the
  /// user's code, numbers of the operands (-1: not recorded), and `whole` or
  /// the points that hold the tensor. Of arguments and results the place is
  /// their key.
  const TensorMap &getTensors() const { return tensors; }

private:
  /// What a key says between the number of a value and its operands.
  struct Origin {
    int64_t id = -1, strand = -1, iteration = 0;
    size_t result = 0;
    llvm::StringRef operatorName;
    std::string pass, place;
  };
  void put(const Origin &origin, llvm::ArrayRef<int64_t> operands,
           const OperatorValue &value);
  int64_t numberOf(mlir::Value value) const;

  TensorMap tensors;
  llvm::DenseMap<mlir::Value, int64_t> numbers;
  int64_t next = 0;
};

} // namespace tandem::reference

#endif // TANDEM_REFERENCE_RECORDER_H
