//===- Actions.h - what runs as one piece -----------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TRANSFORMS_OUTLINE_ACTIONS_H
#define TANDEM_LIB_TRANSFORMS_OUTLINE_ACTIONS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "tandem/Dialect/SPMD/SPMD.h"
#include <map>

namespace tandem {

/// Operators that run as one piece, and what they read and make.
struct Action {
  std::string name;
  int64_t point = 0;
  /// Whether it runs once per microbatch.
  bool isIterated = false;
  /// Whether points meet in it: all run theirs of this segment together.
  bool meets = false;
  /// Whether it is of no section: it makes what all points have.
  bool isOfAll = false;
  /// Whether it is the last one of its point, which checks and stores.
  bool isLast = false;
  int64_t segment = 0;
  /// In the order of the step.
  llvm::SmallVector<mlir::Operation *> ops;
  /// Those of them that are of other actions, too, which make the results that
  /// others read.
  llvm::DenseSet<mlir::Operation *> copies;
  /// Values of the step that it reads, and that it makes for others.
  llvm::SetVector<mlir::Value> inputs, outputs;
  /// Sums over microbatches, by the result of `spmd.carry`: each is an input
  /// behind the others, and an output behind the others.
  llvm::SmallVector<mlir::Value> sums;

  /// What the point broadcasts for `value` itself, or else `value`.
  mlir::Value getOwn(mlir::Value value) const;
  /// Whether an output is made in it, and not handed on.
  bool makes(mlir::Value output) const {
    return !inputs.contains(getOwn(output));
  }
  void addCopy(mlir::Operation *op) {
    if (copies.insert(op).second)
      ops.push_back(op);
  }
};

/// Lets loops read what an earlier loop makes in the same microbatch, in place
/// of making it again.
void reuseEarlierLoops(mlir::func::FuncOp step, spmd::MeshAttr mesh,
                       unsigned axis);

/// What all points have is made where it is read: nothing of it waits on the
/// host.
void keepWhole(mlir::func::FuncOp step, spmd::MeshAttr mesh, unsigned axis);

/// The actions of a localized step.
class Actions {
public:
  /// `joined`: points whose whole backward pass is in W.
  Actions(mlir::func::FuncOp step, spmd::MeshAttr mesh, unsigned axis,
          llvm::ArrayRef<int64_t> joined = {});
  mlir::LogicalResult find();

  /// The point that alone has `value`; -1: all points.
  int64_t getPoint(mlir::Value value) const;
  /// Whether each microbatch has a value of its own.
  bool isIterated(mlir::Value value) const;
  /// Whether `op` gives a value to other points, to loops or to the host, or
  /// takes it from there: it is in no action.
  bool isBoundary(mlir::Operation *op) const;
  bool isJoined(int64_t section) const;
  /// Of section, letter, loop; null if there is none. The last loop has F, FA,
  /// I and W, and S behind them, others F and B.
  Action *findOf(int64_t section, llvm::StringRef letter, int64_t segment);
  /// Of point, segment; null if there is none.
  Action *findOnce(int64_t point, int64_t segment);
  int64_t getLastLoop() const { return lastLoop; }
  int64_t getNumSegments() const { return numSegments; }

  /// Writes the module of an action behind the module's operations.
  mlir::ModuleOp write(const Action &action, mlir::ModuleOp module);

  std::map<std::string, Action> byName;

private:
  std::string getName(mlir::Operation *op, int64_t point) const;
  std::string getName(int64_t section, llvm::StringRef letter,
                      int64_t segment) const;
  llvm::StringRef getLetter(mlir::Operation *op) const;
  void findLeaving();
  bool isReady(mlir::Value operand, mlir::Operation *user) const;
  bool canSum(mlir::Operation *op) const;
  void findSums();
  bool isWhole(mlir::Operation *op) const;
  bool isMeeting(mlir::Operation *op) const;
  void add(mlir::Operation *op, Action &action);
  void splitLast();
  void remakeViews();
  void addWhole();
  void findInputs(Action &action);
  void findOutputs(Action &action, const llvm::DenseSet<mlir::Value> &read);
  void keepMeetings(Action &action);
  void addToLast();
  void addToLast(mlir::OpOperand &result, int64_t point);
  mlir::Type getType(mlir::Type type) const;

  mlir::func::FuncOp step;
  mlir::Block &block;
  spmd::MeshAttr mesh;
  unsigned axis;
  llvm::ArrayRef<int64_t> joined;
  llvm::DenseMap<mlir::Operation *, int64_t> segments;
  /// Of backward passes: what gradients that leave the section depend on.
  llvm::DenseSet<mlir::Operation *> leaving;
  /// Collectives that sum a section's gradients, and what leads to them from
  /// the section's sums over microbatches.
  llvm::DenseSet<mlir::Operation *> sums;
  /// `last`: of the checks and what is stored.
  int64_t lastLoop = -1, numSegments = 1, last = 0;
};

} // namespace tandem

#endif // TANDEM_LIB_TRANSFORMS_OUTLINE_ACTIONS_H
