//===- Interpreter.h - a function on simulated ranks ------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Internal to lib/Reference.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_REFERENCE_INTERPRETER_H
#define TANDEM_LIB_REFERENCE_INTERPRETER_H

#include "StepOrder.h"
#include "tandem/Reference/Interpreter.h"
#include "tandem/Reference/Layout.h"
#include "tandem/Reference/Operators.h"
#include "tandem/Reference/Recorder.h"

namespace tandem::reference {

class Interpreter {
public:
  Interpreter(mlir::func::FuncOp function, spmd::MeshAttr mesh);
  /// On the points of the mesh for which `runs` is true. What the function
  /// reads is per device.
  Interpreter(mlir::func::FuncOp function, spmd::MeshAttr mesh,
              std::vector<bool> runs);

  mlir::FailureOr<std::vector<Tensor>> run(llvm::ArrayRef<Tensor> arguments);

  mlir::FailureOr<std::vector<Shards>>
  cutArguments(llvm::ArrayRef<Tensor> arguments);
  /// Tells the recorder, too, of which value the result is.
  mlir::FailureOr<Tensor> joinResult(unsigned index, const Shards &shards,
                                     mlir::Value made);
  /// Tells what `value`, an argument of a function that it is of, is.
  void recordArgument(unsigned index, mlir::Value value, const Tensor &whole,
                      const Shards &shards);

  mlir::LogicalResult runOperation(mlir::Operation *op);
  /// Defines the values of a step whose operations have run. Fails if one of
  /// them read what need not be there.
  mlir::LogicalResult endStep(sched::StepOp step);
  /// Forgets the operands of `op` that nothing reads after it.
  void release(mlir::Operation *op);

  Shards &getShards(mlir::Value value) { return environment[value]; }

  /// Of the function, an action: the iteration where it is in no loop.
  void setMicrobatch(int64_t number) { microbatch = number; }

  void setRecorder(Recorder *told) { recorder = told; }
  /// Tells what `op` gave, if somebody is to be told.
  void record(mlir::Operation *op);

private:
  mlir::LogicalResult checkArguments(llvm::ArrayRef<Tensor> arguments);
  Shards cutArgument(unsigned index, const Tensor &whole);

  mlir::LogicalResult runFunction();
  mlir::LogicalResult runLoop(llvm::ArrayRef<mlir::Operation *> ops);
  mlir::LogicalResult runBlock(mlir::Block &block);
  Shards runEnter(spmd::EnterOp op);
  Shards runCarry(spmd::CarryOp op);
  Shards runCollect(spmd::CollectOp op);
  mlir::LogicalResult evaluateOperation(mlir::Operation *op);
  mlir::LogicalResult runOnPoints(mlir::Operation *op);
  mlir::LogicalResult runStep(sched::StepOp step);
  void runReform(spmd::ReformOp op);

  mlir::LogicalResult define(mlir::Value value, Shards shards);
  Part getPart(mlir::Type type, llvm::ArrayRef<spmd::AxisForm> forms,
               int64_t point) const;

  mlir::func::FuncOp function;
  spmd::MeshAttr mesh;
  Points points;
  std::vector<bool> runs;
  bool isLocalized;
  llvm::DenseMap<mlir::Value, Shards> environment;
  llvm::DenseMap<mlir::Value, int64_t> readsLeft;
  StepOrder order;
  int64_t iteration = 0, iterations = 1, microbatch = 0;
  Recorder *recorder = nullptr;
  /// What iterations have added up, or made, so far.
  llvm::DenseMap<mlir::Operation *, Shards> carried;
};

/// `compute` of each shard; points that share a tensor share the result.
Shards mapShards(const Shards &shards,
                 llvm::function_ref<Tensor(const Tensor &)> compute);

/// Row `index` of the first dimension.
Tensor getRow(const Tensor &whole, int64_t index);

/// The meaning of a step that is a declaration, behind `outline`: the functions
/// of the points of the pipe axis, all at once.
mlir::FailureOr<std::vector<Tensor>>
interpretPoints(mlir::func::FuncOp step, spmd::MeshAttr mesh,
                llvm::ArrayRef<Tensor> arguments, Recorder *recorder);

} // namespace tandem::reference

#endif // TANDEM_LIB_REFERENCE_INTERPRETER_H
