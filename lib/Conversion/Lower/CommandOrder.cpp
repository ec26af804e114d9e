//===- CommandOrder.cpp - which command is done before which --------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CommandOrder.h"
#include "Counts.h"

using namespace mlir;

namespace tandem::lower {

CommandOrder::CommandOrder(func::FuncOp function) {
  std::array<Clock, 2> known{};
  llvm::DenseMap<Value, Clock> events;
  for (Operation &op : function.getBody().front()) {
    if (auto record = dyn_cast<sched::RecordOp>(op)) {
      events[record.getEvent()] = known[static_cast<size_t>(record.getQueue())];
    } else if (auto wait = dyn_cast<sched::WaitOp>(op)) {
      Clock &mine = known[static_cast<size_t>(wait.getQueue())];
      const Clock &other = events[wait.getEvent()];
      for (size_t i = 0; i < mine.size(); ++i)
        mine[i] = std::max(mine[i], other[i]);
    } else if (auto command = dyn_cast<sched::CommandOpInterface>(op)) {
      unsigned queue = static_cast<unsigned>(command.getQueue());
      int64_t position = ++known[queue][queue];
      entries[&op] = {queue, position, known[queue]};
      commands.push_back(command);
    }
  }
}

static int64_t getBytes(Value buffer) { return countBytes(ValueRange(buffer)); }

BufferRange getRange(Value buffer) {
  BufferRange range = {buffer, 0, getBytes(buffer)};
  while (auto view = range.root.getDefiningOp<sched::ViewOp>()) {
    range.root = view.getSource();
    if (!view.getAxes().empty()) {
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
