//===- Facts.cpp - attributes of a training step --------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Interfaces/FunctionInterfaces.h"
#include "tandem/Dialect/NN/Early.h"
#include "tandem/Dialect/NN/ModelFacts.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Dialect/NN/Site.h"

using namespace mlir;

namespace tandem::nn {

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

static bool isNumber(Attribute value) {
  return isa<IntegerAttr, FloatAttr>(value);
}

static double toDouble(Attribute number) {
  if (auto real = dyn_cast<FloatAttr>(number))
    return real.getValueAsDouble();
  return static_cast<double>(cast<IntegerAttr>(number).getInt());
}

static bool isRange(Attribute value) {
  auto range = dyn_cast<ArrayAttr>(value);
  return range && range.size() == 2 && llvm::all_of(range, isNumber) &&
         isa<IntegerAttr>(range[0]) == isa<IntegerAttr>(range[1]) &&
         toDouble(range[0]) <= toDouble(range[1]);
}

/// A change of form, as `reduce -> full`.
static bool isChange(Attribute value) {
  auto text = dyn_cast<StringAttr>(value);
  if (!text)
    return false;
  auto [from, to] = text.getValue().split(" -> ");
  return spmd::parseAxisForm(from) && spmd::parseAxisForm(to);
}

/// Numbers of operations by type.
static bool isFlops(Attribute value) {
  auto flops = dyn_cast<DictionaryAttr>(value);
  return flops && llvm::all_of(flops, [](NamedAttribute each) {
           auto number = dyn_cast<FloatAttr>(each.getValue());
           return number && number.getType().isF64() &&
                  number.getValue().isFinite() &&
                  !number.getValue().isNegative();
         });
}

static constexpr Fact kFacts[] = {
    {kRoleAttrName, OnArgument | OnResult, isOf<RoleAttr>,
     "a role such as #nn.role<parameter>"},
    {kNameAttrName, OnArgument | OnResult, isString, "a string"},
    {kAliasesAttrName, OnArgument, isStringList, "a list of strings"},
    {kOfAttrName, OnArgument, isString, "a string"},
    {kPartAttrName, OnArgument | OnResult, isOf<PartAttr>,
     "a place such as #nn.part<\"w\" [8, 4], dim = 0, offset = 2>"},
    {kBatchDimAttrName, OnArgument, isIndex, "an i64 from 0 on"},
    {kRangeAttrName, OnArgument, isRange, "two numbers in ascending order"},
    {kUpdatesAttrName, OnResult, isIndex, "an i64 from 0 on"},
    {kPassAttrName, OnOperator, isOf<PassKindAttr>,
     "a pass such as #nn.pass<forward>"},
    {kIdAttrName, OnOperator, isIndex, "an i64 from 0 on"},
    {kStrandAttrName, OnOperator, isIndex, "an i64 from 0 on"},
    {kSiteAttrName, OnOperator, isIndex, "an i64 from 0 on"},
    {kJoinAttrName, OnOperator, isChange,
     "a change of form such as \"reduce -> full\""},
    {kAgainAttrName, OnOperator, isUnit, "no value"},
    {kEarlyAttrName, OnOperator, isUnit, "no value"},
    {kSourceAttrName, OnOperator, isIndex, "an i64 from 0 on"},
    {kModelFlopsAttrName, OnModule, isFlops,
     "numbers by type such as {f32 = 1.0e+09}"},
    {kTokensAttrName, OnModule, isIndex, "an i64 from 0 on"},
};

void NNDialect::addFacts() { addInterface<FactTable>(ArrayRef(kFacts)); }

//===----------------------------------------------------------------------===//
// Verification where they stand
//===----------------------------------------------------------------------===//

LogicalResult NNDialect::verifyOperationAttribute(Operation *op,
                                                  NamedAttribute attribute) {
  if (failed(verifyFact(kFacts, op, attribute)))
    return failure();
  if (attribute.getName() == kSourceAttrName && !isa<EitherOp>(op))
    return op->emitError() << "'" << op->getName() << "' has the '"
                           << kSourceAttrName
                           << "', expected it on 'nn.either' only";
  return success();
}

LogicalResult NNDialect::verifyRegionArgAttribute(Operation *op, unsigned,
                                                  unsigned index,
                                                  NamedAttribute attribute) {
  if (failed(verifyFact(kFacts, op, attribute, OnArgument, index)))
    return failure();
  auto function = dyn_cast<FunctionOpInterface>(op);
  if (auto role = dyn_cast<RoleAttr>(attribute.getValue());
      role && isOutput(role.getValue()))
    return op->emitError() << "argument " << index << " has the 'nn.role' "
                           << stringifyRole(role.getValue())
                           << ", which only results have";
  if (!function || attribute.getName() != kBatchDimAttrName)
    return success();
  int64_t dim = cast<IntegerAttr>(attribute.getValue()).getInt();
  auto type = dyn_cast<ShapedType>(function.getArgumentTypes()[index]);
  if (!type || dim < type.getRank())
    return success();
  return op->emitError() << "argument " << index << " has the 'nn.batch_dim' "
                         << dim << ", expected one below the rank of " << type;
}

static LogicalResult verifyUpdates(FunctionOpInterface function, unsigned index,
                                   int64_t argument) {
  if (argument >= function.getNumArguments())
    return function->emitError()
           << "result " << index << " updates argument " << argument
           << ", but there are " << function.getNumArguments();
  Type from = function.getArgumentTypes()[argument];
  Type to = function.getResultTypes()[index];
  if (from != to)
    return function->emitError()
           << "result " << index << " of type " << to << " updates argument "
           << argument << " of type " << from;
  for (StringRef name : {kNameAttrName, kRoleAttrName}) {
    Attribute own = function.getArgAttr(argument, name);
    Attribute updated = function.getResultAttr(index, name);
    if (own && updated && own != updated)
      return function->emitError()
             << "result " << index << " has the '" << name << "' " << updated
             << ", but updates argument " << argument << " with " << own
             << ", expected the same";
  }
  return success();
}

LogicalResult NNDialect::verifyRegionResultAttribute(Operation *op, unsigned,
                                                     unsigned index,
                                                     NamedAttribute attribute) {
  if (failed(verifyFact(kFacts, op, attribute, OnResult, index)))
    return failure();
  auto function = dyn_cast<FunctionOpInterface>(op);
  if (!function || attribute.getName() != kUpdatesAttrName)
    return success();
  return verifyUpdates(function, index,
                       cast<IntegerAttr>(attribute.getValue()).getInt());
}

//===----------------------------------------------------------------------===//
// Accessors
//===----------------------------------------------------------------------===//

std::optional<PassKind> getPass(Operation *op) {
  auto pass = op->getAttrOfType<PassKindAttr>(kPassAttrName);
  return pass ? std::optional(pass.getValue()) : std::nullopt;
}

void setPass(Operation *op, PassKind pass) {
  op->setAttr(kPassAttrName, PassKindAttr::get(op->getContext(), pass));
}

void copyPass(Operation *from, Operation *to) {
  if (std::optional<PassKind> pass = getPass(from))
    setPass(to, *pass);
  if (isAgain(from))
    to->setAttr(kAgainAttrName, UnitAttr::get(to->getContext()));
}

DictionaryAttr getPartAttributes(Operation *reform) {
  NamedAttrList attributes(reform->getDiscardableAttrDictionary());
  if (!getId(reform))
    attributes.set(spmd::kChangeAttrName, UnitAttr::get(reform->getContext()));
  return attributes.getDictionary(reform->getContext());
}

std::optional<Role> getRole(DictionaryAttr attributes) {
  auto role =
      attributes ? attributes.getAs<RoleAttr>(kRoleAttrName) : RoleAttr();
  return role ? std::optional(role.getValue()) : std::nullopt;
}

std::optional<std::pair<TypedAttr, TypedAttr>>
getRange(DictionaryAttr attributes) {
  auto range =
      attributes ? attributes.getAs<ArrayAttr>(kRangeAttrName) : ArrayAttr();
  if (!range)
    return std::nullopt;
  return std::pair(cast<TypedAttr>(range[0]), cast<TypedAttr>(range[1]));
}

} // namespace tandem::nn
