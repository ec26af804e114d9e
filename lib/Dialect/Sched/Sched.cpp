//===- Sched.cpp - the sched dialect --------------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "QueueText.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "tandem/Dialect/Sched/Host.h"
#include "tandem/Dialect/Sched/Points.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tandem::sched;

#include "tandem/Dialect/Sched/SchedDialect.cpp.inc"
#include "tandem/Dialect/Sched/SchedEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "tandem/Dialect/Sched/SchedAttrs.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "tandem/Dialect/Sched/SchedTypes.cpp.inc"

#define GET_OP_CLASSES
#include "tandem/Dialect/Sched/SchedOps.cpp.inc"

void SchedDialect::initialize() {
  addFacts();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "tandem/Dialect/Sched/SchedAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "tandem/Dialect/Sched/SchedTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "tandem/Dialect/Sched/SchedOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "tandem/Dialect/Sched/PointsOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "tandem/Dialect/Sched/HostOps.cpp.inc"
      >();
}

ParseResult StepOp::parse(OpAsmParser &parser, OperationState &state) {
  QueueAttr queue;
  IntegerAttr stage, strand;
  Type i64 = parser.getBuilder().getI64Type();
  if (parser.parseKeyword("on") || parseQueue(parser, queue) ||
      parser.parseKeyword("stage") ||
      parser.parseAttribute(stage, i64, "stage", state.attributes) ||
      parser.parseKeyword("strand") ||
      parser.parseAttribute(strand, i64, "strand", state.attributes))
    return failure();
  state.addAttribute("queue", queue);
  SmallVector<OpAsmParser::UnresolvedOperand> events;
  Type event = EventType::get(parser.getContext());
  if (succeeded(parser.parseOptionalKeyword("after")))
    if (parser.parseOperandList(events, AsmParser::Delimiter::Paren) ||
        parser.resolveOperands(events, event, state.operands))
      return failure();
  if (parser.parseRegion(*state.addRegion()) ||
      parser.parseOptionalAttrDict(state.attributes))
    return failure();
  SmallVector<Type> types;
  if (succeeded(parser.parseOptionalColon()) && parser.parseTypeList(types))
    return failure();
  StepOp::ensureTerminator(*state.regions.front(), parser.getBuilder(),
                           state.location);
  state.addTypes(types);
  state.addTypes(event);
  return success();
}

void StepOp::print(OpAsmPrinter &printer) {
  printer << " on " << str(getQueue()) << " stage " << getStage() << " strand "
          << getStrand();
  if (!getAfter().empty())
    printer << " after(" << getAfter() << ")";
  printer << " ";
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false,
                      /*printBlockTerminators=*/true);
  printer.printOptionalAttrDict((*this)->getAttrs(),
                                {"queue", "stage", "strand"});
  if (!getValues().empty())
    printer << " : " << getValues().getTypes();
}

LogicalResult StepOp::verify() {
  auto yield = cast<YieldOp>(getBody().front().getTerminator());
  if (yield.getValues().getTypes() == getValues().getTypes())
    return success();
  return emitOpError("yields ")
         << yield.getValues().getTypes() << ", but its results are "
         << getValues().getTypes();
}
