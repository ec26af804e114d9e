//===- Facts.cpp - attributes that dialects declare -----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/Facts.h"
#include "mlir/IR/BuiltinOps.h"
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

/// The name in `table` that takes the fewest edits to get.
static StringRef findNearest(ArrayRef<Fact> table, StringRef name) {
  return llvm::min_element(table,
                           [&](const Fact &a, const Fact &b) {
                             return name.edit_distance(a.name) <
                                    name.edit_distance(b.name);
                           })
      ->name;
}

static LogicalResult verify(ArrayRef<Fact> table, NamedAttribute attribute,
                            Carrier carrier,
                            function_ref<InFlightDiagnostic()> emitError) {
  StringRef name = attribute.getName();
  const Fact *fact =
      llvm::find_if(table, [&](const Fact &f) { return f.name == name; });
  if (fact == table.end())
    return emitError() << "has the unknown attribute '" << name
                       << "', did you mean '" << findNearest(table, name)
                       << "'";
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
