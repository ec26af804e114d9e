//===- Planned.cpp - plans in IR ------------------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/IR/Builders.h"
#include "tandem/Dialect/SPMD/Rates.h"

using namespace mlir;

namespace tandem::spmd {

//===----------------------------------------------------------------------===//
// The struct and the attribute
//===----------------------------------------------------------------------===//

template <typename GetT>
static PlanAttr getAttrWith(const Planned &planned, MLIRContext *context,
                            GetT get) {
  Builder builder(context);
  auto getNumber = [&](double value) {
    return value != 0 ? builder.getF64FloatAttr(value) : FloatAttr();
  };
  IntegerAttr stage;
  if (planned.stage)
    stage = builder.getI64IntegerAttr(*planned.stage);
  return get(planned.signatures, planned.asWanted, planned.form,
             ArrayRef(planned.copies), ArrayRef(planned.waits), stage,
             planned.joins, planned.pieces, getNumber(planned.seconds),
             getNumber(planned.latency), ArrayRef(planned.inTurn),
             planned.prices);
}

PlanAttr Planned::getAttr(MLIRContext *context) const {
  bool isNothing = !signatures && !asWanted && !form && copies.empty() &&
                   waits.empty() && !stage && !joins && !pieces &&
                   inTurn.empty() && seconds == 0 && latency == 0 && !prices;
  if (isNothing)
    return {};
  return getAttrWith(*this, context, [&](auto... parts) {
    return PlanAttr::get(context, parts...);
  });
}

PlanAttr Planned::getChecked(function_ref<InFlightDiagnostic()> emitError,
                             MLIRContext *context) const {
  return getAttrWith(*this, context, [&](auto... parts) {
    return PlanAttr::getChecked(emitError, context, parts...);
  });
}

Planned getPlanned(PlanAttr attribute) {
  Planned planned;
  if (!attribute)
    return planned;
  auto getNumber = [](FloatAttr number) {
    return number ? number.getValueAsDouble() : 0;
  };
  planned.signatures = attribute.getSignatures();
  planned.asWanted = attribute.getAsWanted();
  planned.form = attribute.getForm();
  planned.copies.assign(attribute.getCopies());
  planned.waits.assign(attribute.getWaits());
  if (attribute.getStage())
    planned.stage = attribute.getStage().getInt();
  planned.joins = attribute.getJoins();
  planned.pieces = attribute.getPieces();
  planned.inTurn.assign(attribute.getInTurn());
  planned.seconds = getNumber(attribute.getSeconds());
  planned.latency = getNumber(attribute.getLatency());
  planned.prices = attribute.getPrices();
  return planned;
}

//===----------------------------------------------------------------------===//
// On operators, arguments and results
//===----------------------------------------------------------------------===//

static PlanAttr getAttr(Operation *op) {
  return op->getAttrOfType<PlanAttr>(kPlanAttrName);
}

Planned getPlanned(Operation *op) { return getPlanned(getAttr(op)); }

Planned getPlannedArg(FunctionOpInterface step, unsigned index) {
  return getPlanned(step.getArgAttrOfType<PlanAttr>(index, kPlanAttrName));
}

Planned getPlannedResult(FunctionOpInterface step, unsigned index) {
  return getPlanned(step.getResultAttrOfType<PlanAttr>(index, kPlanAttrName));
}

void setPlanned(Operation *op, const Planned &planned) {
  if (PlanAttr attribute = planned.getAttr(op->getContext()))
    op->setAttr(kPlanAttrName, attribute);
  else
    op->removeAttr(kPlanAttrName);
}

void setPlanned(NamedAttrList &attributes, const Planned &planned,
                MLIRContext *context) {
  attributes.erase(kPlanAttrName);
  if (PlanAttr attribute = planned.getAttr(context))
    attributes.set(kPlanAttrName, attribute);
}

void editPlanned(Operation *op, function_ref<void(Planned &planned)> edit) {
  Planned planned = getPlanned(op);
  edit(planned);
  setPlanned(op, planned);
}

std::optional<int64_t> getPlannedStage(Operation *op) {
  PlanAttr attribute = getAttr(op);
  if (!attribute || !attribute.getStage())
    return std::nullopt;
  return attribute.getStage().getInt();
}

void setPlannedStage(Operation *op, int64_t stage) {
  editPlanned(op, [&](Planned &planned) { planned.stage = stage; });
}

bool isWaiting(Operation *op) {
  PlanAttr attribute = getAttr(op);
  return attribute && attribute.getPieces();
}

std::optional<ChangePrice> getPrice(Operation *op, StringRef axis,
                                    ChangeKind kind) {
  auto module = op->getParentOfType<ModuleOp>();
  PricesAttr prices = getPlanned(module).prices;
  return prices ? getRate(prices.getRates(), axis, kind) : std::nullopt;
}

} // namespace tandem::spmd
