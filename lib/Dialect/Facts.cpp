//===- Facts.cpp - attributes that dialects declare -----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/Facts.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;

namespace tandem {

//===----------------------------------------------------------------------===//
// Verification
//===----------------------------------------------------------------------===//

Carrier getCarrier(Operation *op) {
  if (isa<ModuleOp>(op))
    return OnModule;
  return isa<FunctionOpInterface>(op) ? OnFunction : OnOperator;
}

static StringRef getNoun(Carrier carrier) {
  switch (carrier) {
  case OnOperator:
    return "an operator";
  case OnFunction:
    return "a function";
  case OnModule:
    return "a module";
  case OnArgument:
    return "an argument";
  case OnResult:
    return "a result";
  }
  llvm_unreachable("unknown carrier");
}

static std::string listCarriers(unsigned carriers) {
  std::string text;
  for (Carrier carrier :
       {OnOperator, OnFunction, OnModule, OnArgument, OnResult})
    if (carriers & carrier)
      text += (text.empty() ? "" : " or ") + getNoun(carrier).str();
  return text;
}

/// The one of `known` that takes the fewest edits to get from `name`, with or
/// without its dialect's prefix.
static StringRef findNearest(ArrayRef<StringRef> known, StringRef name) {
  auto getDistance = [&](StringRef other) {
    return std::min(name.edit_distance(other),
                    name.edit_distance(other.substr(other.find('.') + 1)));
  };
  return *llvm::min_element(known, [&](StringRef a, StringRef b) {
    return getDistance(a) < getDistance(b);
  });
}

static SmallVector<StringRef> getNames(ArrayRef<Fact> table) {
  return llvm::map_to_vector(table, [](const Fact &fact) { return fact.name; });
}

static LogicalResult verify(ArrayRef<Fact> table, NamedAttribute attribute,
                            Carrier carrier,
                            function_ref<InFlightDiagnostic()> emitError) {
  StringRef name = attribute.getName();
  const Fact *fact =
      llvm::find_if(table, [&](const Fact &f) { return f.name == name; });
  if (fact == table.end())
    return emitError() << "has the unknown attribute '" << name
                       << "', did you mean '"
                       << findNearest(getNames(table), name) << "'";
  if (!(fact->carriers & carrier))
    return emitError() << "has '" << name << "', which stands on "
                       << listCarriers(fact->carriers) << ", not on "
                       << getNoun(carrier);
  if (!fact->fits(attribute.getValue()))
    return emitError() << "has the '" << name << "' " << attribute.getValue()
                       << ", expected " << fact->expected;
  return success();
}

LogicalResult verifyFact(ArrayRef<Fact> table, Operation *op,
                         NamedAttribute attribute) {
  return verify(table, attribute, getCarrier(op), [&] {
    return op->emitError() << "'" << op->getName() << "' ";
  });
}

LogicalResult verifyFact(ArrayRef<Fact> table, Operation *op,
                         NamedAttribute attribute, Carrier carrier,
                         unsigned index) {
  StringRef what = carrier == OnArgument ? "argument " : "result ";
  return verify(table, attribute, carrier,
                [&] { return op->emitError() << what << index << " "; });
}

/// Names that an attribute of `op` may have.
static SmallVector<StringRef> getKnownNames(Operation *op) {
  SmallVector<StringRef> names;
  for (StringAttr name : op->getName().getAttributeNames())
    names.push_back(name);
  for (Dialect *dialect : op->getContext()->getLoadedDialects())
    if (auto *table = dialect->getRegisteredInterface<FactTable>())
      for (const Fact &fact : table->getFacts())
        if (fact.carriers & OnOperator)
          names.push_back(fact.name);
  return names;
}

LogicalResult detail::verifyKnownAttributes(Operation *op) {
  for (NamedAttribute attribute : op->getDiscardableAttrDictionary())
    if (!attribute.getNameDialect())
      return op->emitError()
             << "'" << op->getName() << "' has the unknown attribute '"
             << attribute.getName().getValue() << "', did you mean '"
             << findNearest(getKnownNames(op), attribute.getName()) << "'";
  return success();
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

bool isString(Attribute value) { return isa<StringAttr>(value); }

bool isStringList(Attribute value) {
  auto list = dyn_cast<ArrayAttr>(value);
  return list && llvm::all_of(list, isString);
}

bool isUnit(Attribute value) { return isa<UnitAttr>(value); }

bool isIndex(Attribute value) {
  auto integer = dyn_cast<IntegerAttr>(value);
  return integer && integer.getType().isSignlessInteger(64) &&
         integer.getInt() >= 0;
}

std::optional<int64_t> getInteger(DictionaryAttr attributes, StringRef name) {
  auto value = attributes ? attributes.getAs<IntegerAttr>(name) : IntegerAttr();
  return value ? std::optional(value.getInt()) : std::nullopt;
}

std::optional<int64_t> getInteger(Operation *op, StringRef name) {
  auto value = op->getAttrOfType<IntegerAttr>(name);
  return value ? std::optional(value.getInt()) : std::nullopt;
}

void setInteger(Operation *op, StringRef name, int64_t value) {
  auto i64 = IntegerType::get(op->getContext(), 64);
  op->setAttr(name, IntegerAttr::get(i64, value));
}

StringRef getText(DictionaryAttr attributes, StringRef name) {
  auto value = attributes ? attributes.getAs<StringAttr>(name) : StringAttr();
  return value ? value.getValue() : StringRef();
}

} // namespace tandem
