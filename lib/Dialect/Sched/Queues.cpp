//===- Queues.cpp - the queues of a rank ----------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "QueueText.h"
#include "mlir/IR/DialectImplementation.h"

using namespace mlir;

namespace tandem::sched {

// In the order of the runtime's.
static_assert(static_cast<unsigned>(QueueRole::Compute) ==
                  static_cast<unsigned>(rt::QueueRole::Compute) &&
              static_cast<unsigned>(QueueRole::Communication) ==
                  static_cast<unsigned>(rt::QueueRole::Communication) &&
              static_cast<unsigned>(QueueRole::Copy) ==
                  static_cast<unsigned>(rt::QueueRole::Copy) &&
              rt::kNumQueueRoles == 3);

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

std::string str(QueueAttr queue) {
  std::string text = stringifyQueueRole(queue.getRole()).str();
  if (queue.getNumber() > 0)
    text += "[" + std::to_string(queue.getNumber()) + "]";
  return text;
}

ParseResult parseQueue(AsmParser &parser, QueueAttr &queue) {
  StringRef name;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&name))
    return failure();
  std::optional<QueueRole> role = symbolizeQueueRole(name);
  if (!role)
    return parser.emitError(loc, "found queue '")
           << name << "', expected 'compute', 'comm' or 'copy'";
  unsigned number = 0;
  if (succeeded(parser.parseOptionalLSquare()) &&
      (parser.parseInteger(number) || parser.parseRSquare()))
    return failure();
  queue = QueueAttr::get(parser.getContext(), *role, number);
  return success();
}

void printQueue(OpAsmPrinter &printer, Operation *, QueueAttr queue) {
  printer << str(queue);
}

Attribute QueueAttr::parse(AsmParser &parser, Type) {
  QueueAttr queue;
  if (parser.parseLess() || parseQueue(parser, queue) || parser.parseGreater())
    return {};
  return queue;
}

void QueueAttr::print(AsmPrinter &printer) const {
  printer << "<" << str(*this) << ">";
}

//===----------------------------------------------------------------------===//
// The queues of a module
//===----------------------------------------------------------------------===//

Queues::Queues(Operation *op) : context(op->getContext()) {
  auto module = dyn_cast<ModuleOp>(op);
  if (!module)
    module = op->getParentOfType<ModuleOp>();
  auto listed =
      module ? module->getAttrOfType<ArrayAttr>(kQueuesAttrName) : ArrayAttr();
  if (listed) {
    for (auto queue : listed.getAsRange<QueueAttr>())
      queues.emplace_back(queue.getRole(), queue.getNumber());
    return;
  }
  unsigned numbers[rt::kNumQueueRoles] = {};
  for (rt::QueueRole role : getDevice(op).queues)
    queues.emplace_back(static_cast<QueueRole>(role),
                        numbers[static_cast<unsigned>(role)]++);
}

LogicalResult verifyQueues(func::FuncOp function) {
  Queues queues(function);
  for (Operation &op : function.getBody().front()) {
    auto queue = op.getAttrOfType<QueueAttr>("queue");
    if (!queue || queues.contains(queue))
      continue;
    std::string known;
    for (unsigned i = 0; i < queues.size(); ++i)
      known += (i ? ", '" : "'") + str(queues[i]) + "'";
    return op.emitError("is on the queue '")
           << str(queue) << "', expected one of the module's: " << known;
  }
  return success();
}

} // namespace tandem::sched
