//===- CommandOrder.cpp - partial order of commands -----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CommandOrder.h"
#include "Counts.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace tandem::lower {

static LogicalResult verifyBuffers(Operation *op, TypeRange types) {
  for (Type type : types) {
    auto buffer = dyn_cast<MemRefType>(type);
    if (!isa<sched::EventType>(type) &&
        (!buffer || !buffer.hasStaticShape() ||
         !buffer.getElementType().isIntOrFloat()))
      return op->emitError("has a value of type ")
             << type
             << ", expected a buffer of static shape (see --tandem-bufferize)";
  }
  return success();
}

LogicalResult verifyCommands(func::FuncOp function) {
  if (!function.getBody().hasOneBlock())
    return function.emitError("function @")
           << function.getName() << " has several blocks, expected one";
  if (failed(verifyBuffers(function, function.getArgumentTypes())))
    return failure();
  for (Operation &op : function.getBody().front()) {
    if (!isa<sched::CommandOpInterface, sched::RecordOp, sched::WaitOp,
             sched::ResultOp, sched::ViewOp, sched::AllocOp, sched::BeginLoopOp,
             sched::EndLoopOp, func::ReturnOp>(op))
      return op.emitError("operator '")
             << op.getName() << "' is left in the lowered step";
    if (failed(verifyBuffers(&op, op.getResultTypes())))
      return failure();
  }
  return sched::verifyQueues(function);
}

CommandOrder::CommandOrder(func::FuncOp function) {
  sched::Queues known(function);
  queues.resize(known.size());
  // What each queue knows.
  std::vector<Clock> clocks(known.size(), Clock(known.size(), 0));
  llvm::DenseMap<Value, Clock> events;
  int64_t loop = -1;
  for (Operation &op : function.getBody().front()) {
    if (isa<sched::BeginLoopOp>(op)) {
      loop = loops.size();
      loops.emplace_back();
    } else if (isa<sched::EndLoopOp>(op)) {
      loop = -1;
    } else if (auto record = dyn_cast<sched::RecordOp>(op)) {
      events[record.getEvent()] = clocks[known.getNumber(record.getQueue())];
    } else if (auto wait = dyn_cast<sched::WaitOp>(op)) {
      Clock &mine = clocks[known.getNumber(wait.getQueue())];
      for (auto [own, other] :
           llvm::zip_equal(mine, events.at(wait.getEvent())))
        own = std::max(own, other);
    } else if (auto command = dyn_cast<sched::CommandOpInterface>(op)) {
      unsigned queue = known.getNumber(command.getQueue());
      int64_t position = ++clocks[queue][queue];
      entries[&op] = {queue, position, clocks[queue], loop};
      if (loop >= 0)
        addToLoop(&op, queue);
      commands.push_back(command);
      queues[queue].push_back(&op);
    }
  }
}

/// The first command and the last one of each queue.
void CommandOrder::addToLoop(Operation *op, unsigned queue) {
  auto &ends = loops.back();
  auto *own = llvm::find_if(
      ends, [&](auto &pair) { return entries.at(pair.first).queue == queue; });
  if (own == ends.end())
    ends.push_back({op, op});
  else
    own->second = op;
}

std::vector<std::vector<Clock>> CommandOrder::getClocks() const {
  std::vector<std::vector<Clock>> clocks(queues.size());
  for (auto [queue, ops] : llvm::enumerate(queues))
    for (Operation *op : ops)
      clocks[queue].push_back(getKnown(op));
  return clocks;
}

SmallVector<Operation *> getUsers(ArrayRef<Access> uses,
                                  const CommandOrder &order) {
  SmallVector<Operation *> users;
  llvm::SmallSetVector<int64_t, 2> loops;
  for (const Access &use : uses) {
    users.push_back(use.command);
    loops.insert(order.getLoop(use.command));
  }
  if (loops.size() < 2)
    return users;
  // Each iteration finds what was there before, or leaves it for what follows.
  for (int64_t loop : loops)
    if (loop >= 0)
      for (auto [first, last] : order.getLoopEnds(loop))
        users.append({first, last});
  return users;
}

Lifetime getLifetime(ArrayRef<Operation *> users, const CommandOrder &order) {
  Clock none(order.getNumQueues(), 0);
  Lifetime life = {order.getKnown(users.front()), none, none};
  for (Operation *user : users) {
    unsigned own = order.getQueue(user);
    int64_t position = order.getPosition(user);
    life.first[own] =
        life.first[own] ? std::min(life.first[own], position) : position;
    life.death[own] = std::max(life.death[own], position);
    // A buffer that is written in parts by commands of several queues begins
    // with the earliest of them.
    for (auto [queue, known] : llvm::enumerate(order.getKnown(user)))
      // The command itself is not done when it begins.
      life.birth[queue] =
          std::min(life.birth[queue], known - (queue == own ? 1 : 0));
  }
  return life;
}

static int64_t getBytes(Value buffer) { return countBytes(ValueRange(buffer)); }

BufferRange getRange(Value buffer) {
  BufferRange range = {buffer, 0, getBytes(buffer)};
  while (auto view = range.root.getDefiningOp<sched::ViewOp>()) {
    range.root = view.getSource();
    if (!view.getAxes().empty() || view.getPerIteration() != 0) {
      range.begin = 0;
      range.end = getBytes(range.root);
      continue;
    }
    auto type = cast<MemRefType>(view.getBuffer().getType());
    int64_t shift = static_cast<int64_t>(view.getOffset()) *
                    getElementBytes(type.getElementType());
    range.begin += shift;
    range.end += shift;
  }
  return range;
}

llvm::DenseMap<Value, SmallVector<Access>>
getAccesses(const CommandOrder &order) {
  llvm::DenseMap<Value, SmallVector<Access>> accesses;
  auto add = [&](sched::CommandOpInterface command, Value buffer,
                 bool isWrite) {
    BufferRange range = getRange(buffer);
    accesses[range.root].push_back({command, range, isWrite});
  };
  for (sched::CommandOpInterface command : order.getCommands()) {
    for (Value buffer : command.getReads())
      add(command, buffer, false);
    for (Value buffer : command.getWrites())
      add(command, buffer, true);
  }
  return accesses;
}

} // namespace tandem::lower
