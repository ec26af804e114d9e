//===- HashStep.cpp - hash of a step's computation ------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Analysis/HashStep.h"
#include "tandem/Dialect/NN/NN.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/SHA256.h"
#include "llvm/Support/ScopedPrinter.h"

using namespace mlir;
using namespace tandem;

namespace {
/// Hashes a tree, part by part: lists after their lengths and texts with them,
/// so that no two trees are one sequence.
class StepHash {
public:
  std::string run(func::FuncOp step);

private:
  void addNumber(uint64_t number);
  void addText(StringRef text);
  void addBits(const APInt &bits);
  void addType(Type type);
  void addAttribute(Attribute attribute);
  void addFacts(DictionaryAttr attributes);
  void addOperation(Operation &op);
  void addRegion(Region &region);

  llvm::SHA256 hash;
  /// Values by the order in which they are defined.
  llvm::DenseMap<Value, unsigned> numbers;
};
} // namespace

void StepHash::addNumber(uint64_t number) {
  std::array<uint8_t, sizeof number> bytes;
  llvm::support::endian::write64le(bytes.data(), number);
  hash.update(bytes);
}

void StepHash::addText(StringRef text) {
  addNumber(text.size());
  hash.update(text);
}

void StepHash::addBits(const APInt &bits) {
  for (unsigned word = 0; word < bits.getNumWords(); ++word)
    addNumber(bits.getRawData()[word]);
}

/// Of tensors the parts; other types have a name of their own.
void StepHash::addType(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return addText(llvm::to_string(type));
  addText("tensor");
  addNumber(tensor.getRank());
  for (int64_t size : tensor.getShape())
    addNumber(size);
  addType(tensor.getElementType());
  addAttribute(tensor.getEncoding());
}

/// Of an enumeration the keyword; of what no operator of a step has, the text.
void StepHash::addAttribute(Attribute attribute) {
  if (!attribute)
    return addText("none");
  addText(attribute.getAbstractAttribute().getName());
  llvm::TypeSwitch<Attribute>(attribute)
      .Case([](UnitAttr) {})
      .Case([&](StringAttr text) { addText(text.getValue()); })
      .Case([&](TypeAttr type) { addType(type.getValue()); })
      .Case([&](IntegerAttr number) {
        addType(number.getType());
        addBits(number.getValue());
      })
      .Case([&](FloatAttr number) {
        addType(number.getType());
        addBits(number.getValue().bitcastToAPInt());
      })
      .Case([&](DenseArrayAttr list) {
        addType(list.getElementType());
        addText({list.getRawData().data(), list.getRawData().size()});
      })
      .Case([&](DenseIntOrFPElementsAttr elements) {
        addType(elements.getType());
        addNumber(elements.isSplat());
        addText({elements.getRawData().data(), elements.getRawData().size()});
      })
      .Case([&](ArrayAttr list) {
        addNumber(list.size());
        for (Attribute each : list)
          addAttribute(each);
      })
      .Case([&](DictionaryAttr dictionary) {
        addNumber(dictionary.size());
        for (NamedAttribute each : dictionary) {
          addText(each.getName());
          addAttribute(each.getValue());
        }
      })
      .Case<nn::PassKindAttr, nn::RoleAttr, nn::PredicateAttr,
            nn::ApproximateAttr>(
          [&](auto word) { addText(stringifyEnum(word.getValue())); })
      .Case([&](nn::PartAttr part) {
        addText(part.getName());
        addNumber(part.getShape().size());
        for (int64_t size : part.getShape())
          addNumber(size);
        addNumber(part.getDim());
        addNumber(part.getOffset());
      })
      .Default([&](Attribute other) { addText(llvm::to_string(other)); });
}

/// What is computed: facts of `nn`, but for the data that capture happened to
/// see, and the sources that a plan chose. Where and when, facts of the other
/// dialects, are what plans decide.
void StepHash::addFacts(DictionaryAttr attributes) {
  SmallVector<NamedAttribute> facts;
  for (NamedAttribute each :
       attributes ? attributes.getValue() : ArrayRef<NamedAttribute>())
    if (isa_and_nonnull<nn::NNDialect>(each.getNameDialect()) &&
        each.getName() != nn::kRangeAttrName &&
        each.getName() != nn::kSourceAttrName)
      facts.push_back(each);
  addNumber(facts.size());
  for (NamedAttribute each : facts) {
    addText(each.getName());
    addAttribute(each.getValue());
  }
}

void StepHash::addOperation(Operation &op) {
  addText(op.getName().getStringRef());
  addAttribute(op.getPropertiesAsAttribute());
  addFacts(op.getDiscardableAttrDictionary());
  addNumber(op.getNumOperands());
  for (Value operand : op.getOperands())
    addNumber(numbers.lookup(operand));
  addNumber(op.getNumResults());
  for (Value result : op.getResults()) {
    addType(result.getType());
    numbers[result] = numbers.size();
  }
  addNumber(op.getNumRegions());
  for (Region &region : op.getRegions())
    addRegion(region);
}

void StepHash::addRegion(Region &region) {
  for (Block &block : region) {
    addNumber(block.getNumArguments());
    for (Value argument : block.getArguments()) {
      addType(argument.getType());
      numbers[argument] = numbers.size();
    }
    for (Operation &op : block)
      addOperation(op);
    addText("end");
  }
}

std::string StepHash::run(func::FuncOp step) {
  for (unsigned index = 0; index < step.getNumArguments(); ++index)
    addFacts(step.getArgAttrDict(index));
  for (unsigned index = 0; index < step.getNumResults(); ++index)
    addFacts(step.getResultAttrDict(index));
  addRegion(step.getBody());
  return llvm::toHex(hash.final(), /*LowerCase=*/true);
}

std::string tandem::hashStep(func::FuncOp step) { return StepHash().run(step); }
