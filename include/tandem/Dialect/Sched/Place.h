//===- Place.h - devices, queues and places in a schedule -------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Included by `Sched.h`.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_SCHED_PLACE_H
#define TANDEM_DIALECT_SCHED_PLACE_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "tandem/Device/Device.h"

namespace tandem::sched {

/// The device that the module of `op` names, else the default one.
const Device &getDevice(mlir::Operation *op);

/// Lets `module` name the device. Fails, with an error at the module, if nobody
/// knows the name, or if the module names another device.
mlir::LogicalResult setDevice(mlir::ModuleOp module, llvm::StringRef name);

/// `compute`, `comm[1]`.
std::string str(QueueAttr queue);

/// The queues of a rank, by their number in the Program: those that the module
/// of `op` lists, else those of its device. Needs no attribute of a dialect
/// that may not be loaded before there are steps.
class Queues {
public:
  explicit Queues(mlir::Operation *op);

  unsigned size() const { return queues.size(); }
  QueueAttr operator[](unsigned number) const {
    auto [role, index] = queues[number];
    return QueueAttr::get(context, role, index);
  }
  bool contains(QueueAttr queue) const { return getNumber(queue) < size(); }
  /// `size()` for one that is not there.
  unsigned getNumber(QueueAttr queue) const {
    return llvm::find(queues, std::pair(queue.getRole(), queue.getNumber())) -
           queues.begin();
  }
  /// The first with this role.
  QueueAttr getFirst(QueueRole role) const {
    return QueueAttr::get(context, role, 0);
  }

private:
  mlir::MLIRContext *context;
  llvm::SmallVector<std::pair<QueueRole, unsigned>> queues;
};

/// Checks that the queue of every step, command and event of `function` is one
/// of the module's. Reports the first that is not.
mlir::LogicalResult verifyQueues(mlir::func::FuncOp function);

/// Where in the schedule a command stands.
struct Place {
  QueueAttr queue;
  int64_t stage = 0, strand = 0;
};

/// The elements of a buffer from `offset` on, for strides to start at.
mlir::Value getReached(mlir::OpBuilder &builder, mlir::Location loc,
                       mlir::Value buffer, int64_t offset);

/// Bytes of one element in memory: i1 takes one.
int64_t getElementBytes(mlir::Type type);

/// Bytes of tensors or buffers.
int64_t countBytes(mlir::ValueRange values);

} // namespace tandem::sched

#endif // TANDEM_DIALECT_SCHED_PLACE_H
