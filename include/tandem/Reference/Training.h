//===- Training.h - runs a training step many times -----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Gives the arguments of a step by role and name, from a file or made up, runs
// it, and takes updated values as the next step's arguments.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_REFERENCE_TRAINING_H
#define TANDEM_REFERENCE_TRAINING_H

#include "tandem/Reference/Interpreter.h"
#include "tandem/Reference/SafeTensors.h"

namespace tandem::reference {

struct TrainingOptions {
  /// Parameters, state and batches; made up from `seed` where empty.
  std::string data;
  uint64_t seed = 0;
  unsigned steps = 1;
  /// Name of the function to run; if there is only one, that one.
  std::string entry = "step";
  /// Told what each operator of the last step gave, until an error ends it; may
  /// be null.
  Recorder *recorder = nullptr;
};

/// What a training run leaves.
struct TrainingResult {
  /// Arguments by key as the next step would see them.
  TensorMap values;
  /// Results of the last step by key: `loss/loss`, `parameter/1.weight`.
  TensorMap results;
  /// Per step and loss: its key and value.
  std::vector<std::vector<std::pair<std::string, double>>> losses;
};

/// `<role>/<name>` of an argument or result, from its attributes, the name
/// being the whole's where it is a part (`nn.part`); without a role
/// `<otherwise>/<index>`.
std::string getKey(mlir::DictionaryAttr attributes, llvm::StringRef otherwise,
                   unsigned index);

/// Prints what a step is to be called with: a line for the mesh, and for each
/// argument and result its key, and the type of the whole or of what a device
/// has. IR of any stage, `lower` as well. Fails if there is no step.
mlir::LogicalResult printSignature(mlir::ModuleOp module, llvm::StringRef entry,
                                   llvm::raw_ostream &os);

/// Runs the step of `module`. Reports one error and fails if a value is missing
/// or wrong, the step fails, or a loss is not finite.
mlir::FailureOr<TrainingResult> train(mlir::ModuleOp module,
                                      const TrainingOptions &options);

/// A value for an argument, by its role, the same for the same seed and key. An
/// integer input lies in the range that `nn.range` says.
Tensor makeValue(mlir::RankedTensorType type, mlir::DictionaryAttr attributes,
                 llvm::StringRef key, uint64_t seed);

} // namespace tandem::reference

#endif // TANDEM_REFERENCE_TRAINING_H
