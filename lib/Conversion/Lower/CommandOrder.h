//===- CommandOrder.h - partial order of commands ---------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_LOWER_COMMANDORDER_H
#define TANDEM_LIB_CONVERSION_LOWER_COMMANDORDER_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tandem/Conversion/Lower/Lifetime.h"
#include "tandem/Dialect/Sched/Sched.h"
#include <vector>

namespace tandem::lower {

/// Checks that `function` is a list of commands, events and buffers of static
/// shape, as `tandem-bufferize` leaves it. Reports the first thing that is not.
mlir::LogicalResult verifyCommands(mlir::func::FuncOp function);

/// The order that queues and events give to the commands of a function: vector
/// clocks, one component per queue.
class CommandOrder {
public:
  explicit CommandOrder(mlir::func::FuncOp function);

  /// Whether `a` is done when `b` begins, in every execution.
  bool happensBefore(mlir::Operation *a, mlir::Operation *b) const {
    const Entry &x = entries.at(a);
    return a != b && x.position <= entries.at(b).known[x.queue];
  }
  /// What is done when `op` ends, as far as its queue knows; `op` included.
  const Clock &getKnown(mlir::Operation *op) const {
    return entries.at(op).known;
  }
  /// 1, 2, ... in its queue.
  int64_t getPosition(mlir::Operation *op) const {
    return entries.at(op).position;
  }
  unsigned getQueue(mlir::Operation *op) const { return entries.at(op).queue; }
  unsigned getNumQueues() const { return queues.size(); }
  /// The loop that `op` is in, from 0 on; -1 if it runs once.
  int64_t getLoop(mlir::Operation *op) const { return entries.at(op).loop; }
  /// The first and the last command of the loop on each of its queues.
  llvm::ArrayRef<std::pair<mlir::Operation *, mlir::Operation *>>
  getLoopEnds(int64_t loop) const {
    return loops[loop];
  }
  /// The command at a position, from 1, of a queue.
  mlir::Operation *getCommand(unsigned queue, int64_t position) const {
    return queues[queue][position - 1];
  }
  /// Of all queues, in the order of the text.
  llvm::ArrayRef<sched::CommandOpInterface> getCommands() const {
    return commands;
  }
  /// What each command of a queue knows, in its order.
  std::vector<std::vector<Clock>> getClocks() const;

private:
  struct Entry {
    unsigned queue = 0;
    int64_t position = 0;
    Clock known;
    int64_t loop = -1;
  };
  void addToLoop(mlir::Operation *op, unsigned queue);

  llvm::DenseMap<mlir::Operation *, Entry> entries;
  llvm::SmallVector<sched::CommandOpInterface> commands;
  std::vector<std::vector<mlir::Operation *>> queues;
  std::vector<
      llvm::SmallVector<std::pair<mlir::Operation *, mlir::Operation *>, 2>>
      loops;
};

/// A range of the bytes of a root: an argument, a result or an alloc. A range
/// that depends on the rank is taken as the whole.
struct BufferRange {
  mlir::Value root;
  int64_t begin = 0, end = 0;

  bool overlaps(const BufferRange &other) const {
    return root == other.root && begin < other.end && other.begin < end;
  }
  bool operator==(const BufferRange &) const = default;
};

BufferRange getRange(mlir::Value buffer);

/// One command's use of a buffer.
struct Access {
  mlir::Operation *command;
  BufferRange range;
  bool isWrite;
};

/// All uses of each root, in the order of the text.
llvm::DenseMap<mlir::Value, llvm::SmallVector<Access>>
getAccesses(const CommandOrder &order);

/// The commands that use a buffer; if some are in a loop and others are not,
/// also the first and last ones of that loop: it lives in all iterations.
llvm::SmallVector<mlir::Operation *> getUsers(llvm::ArrayRef<Access> uses,
                                              const CommandOrder &order);

/// From the first of these users to the last one on each queue. There is one at
/// least.
Lifetime getLifetime(llvm::ArrayRef<mlir::Operation *> users,
                     const CommandOrder &order);

} // namespace tandem::lower

#endif // TANDEM_LIB_CONVERSION_LOWER_COMMANDORDER_H
