//===- Recorder.cpp - values of all operators -----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Reference/Recorder.h"
#include "tandem/Analysis/UserLocation.h"
#include "tandem/Dialect/NN/NN.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"

using namespace mlir;

namespace tandem::reference {

/// The user's line, or the name of what has none: `optimizer.w`.
static std::string getPlace(Location location) {
  std::string place = getUserLocation(location);
  if (auto name = dyn_cast<NameLoc>(location); name && place.empty())
    return name.getName().str();
  return place;
}

static std::string getPass(Operation *op) {
  auto pass = op->getAttrOfType<nn::PassKindAttr>(nn::kPassAttrName);
  return pass ? stringifyPassKind(pass.getValue()).str() : "";
}

static std::string joinNumbers(ArrayRef<int64_t> numbers) {
  return llvm::join(
      llvm::map_range(numbers, [](int64_t n) { return std::to_string(n); }),
      ",");
}

/// The points of each distinct tensor.
static llvm::MapVector<const Tensor *, SmallVector<int64_t>>
groupPoints(const Shards &shards) {
  llvm::MapVector<const Tensor *, SmallVector<int64_t>> groups;
  for (auto [point, tensor] : llvm::enumerate(shards))
    if (tensor)
      groups[tensor.get()].push_back(point);
  return groups;
}

/// In f64, as it was computed.
static Tensor widen(const Tensor &tensor) {
  if (!tensor.isFloat())
    return tensor;
  Tensor wide(tensor.getShape(),
              Float64Type::get(tensor.getElementType().getContext()));
  for (int64_t i = 0; i < tensor.getNumElements(); ++i)
    wide.setDouble(i, tensor.getDouble(i));
  return wide;
}

int64_t Recorder::numberOf(Value value) const {
  auto it = numbers.find(value);
  return it == numbers.end() ? -1 : it->second;
}

void Recorder::put(const Origin &origin, ArrayRef<int64_t> operands,
                   const OperatorValue &value) {
  std::string key;
  llvm::raw_string_ostream os(key);
  os << llvm::format("%08lld", static_cast<long long>(next++)) << "|"
     << origin.id << "|" << origin.strand << "|" << origin.iteration << "|"
     << origin.result << "|" << origin.operatorName << "|" << origin.pass << "|"
     << origin.place << "|" << joinNumbers(operands) << "|";
  if (value.whole)
    tensors[key + "whole"] = widen(*value.whole);
  for (const auto &[tensor, points] : groupPoints(value.shards))
    tensors[key + joinNumbers(points)] = widen(*tensor);
}

void Recorder::addArgument(Value argument, StringRef key,
                           const OperatorValue &value) {
  numbers[argument] = next;
  put({.operatorName = kArgumentName, .place = key.str()}, {}, value);
}

void Recorder::add(Operation *op, int64_t iteration,
                   ArrayRef<OperatorValue> values) {
  SmallVector<int64_t> operands;
  for (Value operand : op->getOperands())
    operands.push_back(numberOf(operand));
  for (auto [index, value] : llvm::enumerate(values)) {
    numbers[op->getResult(index)] = next;
    put({.id = nn::getId(op).value_or(-1),
         .strand = nn::getStrand(op).value_or(-1),
         .iteration = iteration,
         .result = index,
         .operatorName = op->getName().getStringRef(),
         .pass = getPass(op),
         .place = getPlace(op->getLoc())},
        operands, value);
  }
}

void Recorder::addResult(Value made, StringRef key,
                         const OperatorValue &value) {
  put({.operatorName = kResultName, .place = key.str()}, {numberOf(made)},
      value);
}

void Recorder::addName(Value name, Value value) {
  if (auto it = numbers.find(value); it != numbers.end())
    numbers[name] = int64_t(it->second);
}

} // namespace tandem::reference
