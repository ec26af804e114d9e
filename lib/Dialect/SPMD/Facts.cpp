//===- Facts.cpp - attributes of a sharded step ---------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/IR/Builders.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "tandem/Dialect/SPMD/Ahead.h"
#include "tandem/Dialect/SPMD/Host.h"
#include "tandem/Dialect/SPMD/MeshText.h"
#include "tandem/Dialect/SPMD/Rates.h"
#include "tandem/Dialect/SPMD/SPMD.h"

using namespace mlir;

namespace tandem::spmd {

static bool isLayout(Attribute value) {
  auto type = dyn_cast<TypeAttr>(value);
  return type && isa<RankedTensorType>(type.getValue());
}

/// Points of an axis, or stages.
static bool isNumbers(Attribute value) {
  auto numbers = dyn_cast<DenseI64ArrayAttr>(value);
  return numbers && !numbers.empty() &&
         llvm::all_of(numbers.asArrayRef(), [](int64_t i) { return i >= 0; });
}

static bool isCount(Attribute value) {
  auto count = dyn_cast<IntegerAttr>(value);
  return count && count.getType().isInteger(64) && count.getInt() > 0;
}

static bool isRates(Attribute value) {
  auto rates = dyn_cast<DictionaryAttr>(value);
  return rates && llvm::all_of(rates, [](NamedAttribute axis) {
           auto numbers = dyn_cast<DenseF64ArrayAttr>(axis.getValue());
           return numbers && numbers.size() == 2 * kNumChangeKinds &&
                  llvm::all_of(numbers.asArrayRef(),
                               [](double number) { return number >= 0; });
         });
}

static constexpr Fact kFacts[] = {
    {kMeshAttrName, OnModule, isOf<MeshAttr>,
     "a mesh such as #spmd.mesh<data = 2>"},
    {kMemoryAttrName, OnModule, isIndex, "an i64 from 0 on"},
    {kPlanAttrName, OnOperator | OnFunction | OnModule | OnArgument | OnResult,
     isOf<PlanAttr>, "a plan such as #spmd.plan<stage = 3>"},
    {kLayoutAttrName, OnArgument | OnResult, isLayout, "the type of a tensor"},
    {kChangeAttrName, OnOperator, isUnit, "no value"},
    {kAheadAttrName, OnFunction, isNumbers, "stages such as array<i64: 3, 5>"},
    {kHostAttrName, OnArgument, isUnit, "no value"},
    {kRatesAttrName, OnModule, isRates,
     "8 numbers for each axis: latency and s/B of each kind of change"},
    {kSentLimitAttrName, OnModule, isIndex, "an i64 from 0 on"},
    {kLoopAttrName, OnOperator, isIndex, "an i64 from 0 on"},
    {kIterationsAttrName, OnFunction, isIndex, "an i64 from 0 on"},
    {kIteratedAttrName, OnArgument, isIndex, "an i64 from 0 on"},
    {kSectionsAttrName, OnModule, isNumbers, "points such as array<i64: 0, 1>"},
    {kWholeMeshAttrName, OnModule, isOf<StringAttr>, "the text of a mesh"},
    {kOrderAttrName, OnModule, isOf<StringAttr>, "the name of an order"},
    {kRowsAttrName, OnModule, isOf<StringAttr>, "the rows of an order"},
    {kStrandsAttrName, OnModule, isCount, "an i64 from 1 on"},
    {kPipeAttrName, OnModule, isOf<StringAttr>, "the name of an axis"},
    {kSectionAttrName, OnOperator | OnArgument, isIndex, "an i64 from 0 on"},
};

void SPMDDialect::addFacts() { addInterface<FactTable>(ArrayRef(kFacts)); }

/// A signature has a form for each operand and each result.
static LogicalResult verifyPlan(Operation *op, PlanAttr plan) {
  SignaturesAttr signatures = plan.getSignatures();
  if (!signatures || (signatures.getNumOperands() == op->getNumOperands() &&
                      signatures.getNumResults() == op->getNumResults()))
    return success();
  return op->emitError() << "has signatures of " << signatures.getNumOperands()
                         << " operands and " << signatures.getNumResults()
                         << " results, expected " << op->getNumOperands()
                         << " and " << op->getNumResults();
}

/// The mesh whose axis the points are on, as far as it is known.
static FailureOr<MeshAttr> getMeshOfPoints(ModuleOp module) {
  auto whole = module->getAttrOfType<StringAttr>(kWholeMeshAttrName);
  if (!whole)
    return module->getAttrOfType<MeshAttr>(kMeshAttrName);
  return parseMesh(module.getLoc(), whole.getValue(), /*micro=*/1, /*file=*/"");
}

/// Sections lie on points of an axis.
static LogicalResult verifySections(ModuleOp module, ArrayRef<int64_t> points) {
  auto pipe = module->getAttrOfType<StringAttr>(kPipeAttrName);
  if (!pipe)
    return module.emitError() << "the module has '" << kSectionsAttrName
                              << "', expected the name of their axis, too ('"
                              << kPipeAttrName << "')";
  FailureOr<MeshAttr> mesh = getMeshOfPoints(module);
  if (failed(mesh))
    return failure();
  auto axis = *mesh ? mesh->lookup(pipe.getValue()) : std::nullopt;
  for (int64_t point : points)
    if (axis && point >= mesh->getSize(*axis))
      return module.emitError() << "a section lies on point " << point
                                << ", but axis '" << pipe.getValue() << "' has "
                                << mesh->getSize(*axis) << " points, from 0 on";
  return success();
}

/// Each section of `what` has a point.
static LogicalResult verifySection(Operation *op, NamedAttribute attribute,
                                   const Twine &what) {
  auto module = op->getParentOfType<ModuleOp>();
  if (!module || attribute.getName() != kSectionAttrName)
    return success();
  auto points = module->getAttrOfType<DenseI64ArrayAttr>(kSectionsAttrName);
  int64_t section = cast<IntegerAttr>(attribute.getValue()).getInt();
  if (!points || section < points.size())
    return success();
  return op->emitError() << what << " is in section " << section << " ('"
                         << kSectionAttrName << "'), but '" << kSectionsAttrName
                         << "' has " << points.size() << ", from 0 on";
}

LogicalResult SPMDDialect::verifyOperationAttribute(Operation *op,
                                                    NamedAttribute attribute) {
  if (failed(verifyFact(kFacts, op, attribute)) ||
      failed(verifySection(op, attribute,
                           "'" + op->getName().getStringRef() + "'")))
    return failure();
  if (attribute.getName() == kSectionsAttrName)
    return verifySections(
        cast<ModuleOp>(op),
        cast<DenseI64ArrayAttr>(attribute.getValue()).asArrayRef());
  auto plan = dyn_cast<PlanAttr>(attribute.getValue());
  return plan ? verifyPlan(op, plan) : success();
}

LogicalResult SPMDDialect::verifyRegionArgAttribute(Operation *op, unsigned,
                                                    unsigned index,
                                                    NamedAttribute attribute) {
  return failure(
      failed(verifyFact(kFacts, op, attribute, OnArgument, index)) ||
      failed(verifySection(op, attribute, "argument " + Twine(index))));
}

LogicalResult SPMDDialect::verifyRegionResultAttribute(
    Operation *op, unsigned, unsigned index, NamedAttribute attribute) {
  return verifyFact(kFacts, op, attribute, OnResult, index);
}

int64_t getIterations(Operation *op) {
  auto function = isa<FunctionOpInterface>(op)
                      ? cast<FunctionOpInterface>(op)
                      : op->getParentOfType<FunctionOpInterface>();
  return function ? getInteger(function, kIterationsAttrName).value_or(1) : 1;
}

void setLoopOf(Operation *op, Operation *other) {
  if (Attribute loop = other->getAttr(kLoopAttrName))
    op->setAttr(kLoopAttrName, loop);
  else
    op->removeAttr(kLoopAttrName);
}

RankedTensorType getLayout(DictionaryAttr attributes) {
  auto layout =
      attributes ? attributes.getAs<TypeAttr>(kLayoutAttrName) : TypeAttr();
  return layout ? cast<RankedTensorType>(layout.getValue())
                : RankedTensorType();
}

} // namespace tandem::spmd
