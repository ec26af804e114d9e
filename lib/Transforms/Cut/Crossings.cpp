//===- Crossings.cpp - what crosses sections ------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sections follow from what operators read. Here they are moved where less
// crosses:
//
// * Of a sum of gradients each section makes its own part. A sum over
//   microbatches is carried by each, so that the parts cross once, behind the
//   loop.
// * A view, a concatenation or a conversion that is not smaller than what it
//   reads is made by each section that reads it. So a parameter crosses once
//   for all of its views, and a tensor goes straight to where it is read.
// * What makes less of what one section has, as a slice of a gradient, is
// there.
//
//===----------------------------------------------------------------------===//

#include "Crossings.h"
#include "mlir/IR/Builders.h"
#include "tandem/Analysis/Bytes.h"
#include "tandem/Analysis/Gradients.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Dialect/SPMD/SPMD.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;

static std::optional<int64_t> getSection(Operation *op) {
  return getInteger(op, kSectionAttrName);
}

static std::optional<int64_t> getSection(Value value) {
  if (Operation *maker = value.getDefiningOp())
    return getSection(maker);
  auto argument = cast<BlockArgument>(value);
  auto step = cast<func::FuncOp>(argument.getOwner()->getParentOp());
  DictionaryAttr facts = step.getArgAttrDict(argument.getArgNumber());
  return facts ? getInteger(facts, kSectionAttrName) : std::nullopt;
}

/// Whether `op` is its operand in another shape, layout or type.
static bool isSame(Operation *op) {
  return op && (op->hasTrait<nn::View>() || isa<nn::ConvertOp>(op));
}

//===----------------------------------------------------------------------===//
// Sums
//===----------------------------------------------------------------------===//

namespace {
using Terms = SmallVector<Value>;
/// The terms that each section has.
using TermsOfSections = llvm::MapVector<int64_t, Terms>;
} // namespace

/// Whether `op` adds tensors of one type.
static bool isSum(Operation *op) {
  return isa_and_present<nn::AddOp>(op) &&
         llvm::all_of(op->getOperandTypes(), [&](Type type) {
           return type == op->getResult(0).getType();
         });
}

/// Whether `op` shows one reader all of what it reads.
static bool isLoneView(Operation *op) {
  return isSame(op) && op->hasOneUse() &&
         getBytes(op->getOperand(0).getType()) <=
             getBytes(op->getResult(0).getType());
}

/// What a sum adds that `value` is a part of, or all; `adds` are its operators.
static void collectTerms(Value value, bool isRoot, Terms &terms,
                         llvm::DenseSet<Operation *> &adds) {
  Operation *add = value.getDefiningOp();
  if (!isSum(add) || !(isRoot || value.hasOneUse())) {
    terms.push_back(value);
    return;
  }
  adds.insert(add);
  for (Value operand : add->getOperands())
    collectTerms(operand, /*isRoot=*/false, terms, adds);
}

/// The section that has `term`: the one that makes it, or the earliest one that
/// reads it beside the sum. `home` if none makes it.
static int64_t getHolder(Value term, int64_t home,
                         const llvm::DenseSet<Operation *> &adds) {
  Operation *reader = nullptr, *maker = term.getDefiningOp();
  while (isLoneView(maker)) {
    reader = maker;
    term = maker->getOperand(0);
    maker = term.getDefiningOp();
  }
  int64_t section = maker ? getSection(maker).value_or(home) : home;
  for (Operation *user : term.getUsers())
    if (auto other = getSection(user);
        user != reader && !adds.contains(user) && other && *other >= home)
      section = std::min(section, *other);
  return section;
}

/// Moves `term` to the section that makes what it is a view of.
static void moveTo(int64_t section, Value term) {
  for (Operation *maker = term.getDefiningOp(); isLoneView(maker);
       maker = maker->getOperand(0).getDefiningOp())
    setInteger(maker, kSectionAttrName, section);
}

static TermsOfSections findTerms(Operation *root, int64_t home) {
  Terms terms;
  llvm::DenseSet<Operation *> adds{root};
  if (isa<CarryOp>(root))
    collectTerms(root->getOperand(0), /*isRoot=*/false, terms, adds);
  else
    collectTerms(root->getResult(0), /*isRoot=*/true, terms, adds);
  TermsOfSections bySection;
  for (Value term : terms)
    bySection[getHolder(term, home, adds)].push_back(term);
  return bySection;
}

/// Whether another section makes more than one term, or carries one.
static bool isWorthwhile(Operation *root, int64_t home,
                         const TermsOfSections &bySection) {
  return llvm::any_of(bySection, [&](const auto &entry) {
    return entry.first != home &&
           (isa<CarryOp>(root) || entry.second.size() > 1);
  });
}

/// The sum of `terms`, made by `section` and by all else where `root` is.
static Value addTerms(OpBuilder &builder, Operation *root, int64_t section,
                      ArrayRef<Value> terms) {
  Value sum = terms.front();
  for (Value term : terms.drop_front()) {
    auto add =
        nn::AddOp::create(builder, root->getLoc(), sum.getType(), sum, term);
    add->setDiscardableAttrs(root->getDiscardableAttrDictionary());
    setInteger(add, kSectionAttrName, section);
    sum = add;
  }
  return sum;
}

static void eraseSum(Operation *op) {
  SmallVector<Value> operands(op->getOperands());
  op->erase();
  for (Value operand : operands)
    if (Operation *maker = operand.getDefiningOp();
        isSum(maker) && maker->use_empty())
      eraseSum(maker);
}

/// Lets each section make its part of a sum of gradients.
static void separateSum(Operation *root) {
  auto home = getSection(root);
  if (!home || !isBackward(root))
    return;
  TermsOfSections bySection = findTerms(root, *home);
  if (!isWorthwhile(root, *home, bySection))
    return;
  OpBuilder builder(root);
  Terms parts;
  for (auto &[section, own] : bySection) {
    for (Value term : own)
      moveTo(section, term);
    parts.push_back(addTerms(builder, root, section, own));
    if (!isa<CarryOp>(root))
      continue;
    auto carried = CarryOp::create(builder, root->getLoc(),
                                   parts.back().getType(), parts.back());
    carried->setDiscardableAttrs(root->getDiscardableAttrDictionary());
    setInteger(carried, kSectionAttrName, section);
    parts.back() = carried;
  }
  Value sum = addTerms(builder, root, *home, parts);
  if (isa<CarryOp>(root))
    for (Operation *add = sum.getDefiningOp(); isSum(add);
         add = add->getOperand(0).getDefiningOp())
      add->removeAttr(kLoopAttrName);
  root->getResult(0).replaceAllUsesWith(sum);
  eraseSum(root);
}

/// Sums as a whole: not what another sum adds.
static SmallVector<Operation *> findSums(Block &block) {
  SmallVector<Operation *> roots;
  for (Operation &op : block) {
    if (!isa<CarryOp>(op) && !isSum(&op))
      continue;
    Operation *reader = op.hasOneUse() ? *op.user_begin() : nullptr;
    if (!isSum(&op) || !(isSum(reader) || isa_and_present<CarryOp>(reader)))
      roots.push_back(&op);
  }
  return roots;
}

//===----------------------------------------------------------------------===//
// Views
//===----------------------------------------------------------------------===//

/// The bytes of what `op` reads of sections, each once; none where an argument
/// is among it: that crosses once.
static std::optional<int64_t> getBytesRead(Operation *op) {
  llvm::SetVector<Value> read;
  for (Value operand : op->getOperands()) {
    if (isa<BlockArgument>(operand))
      return std::nullopt;
    if (getSection(operand))
      read.insert(operand);
  }
  int64_t bytes = 0;
  for (Value value : read)
    bytes += getBytes(value.getType());
  return bytes;
}

static bool isOfArgument(Operation *op) {
  Value value = op->getResult(0);
  while (isSame(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return isa<BlockArgument>(value);
}

/// Gives each other section that reads `op` its own.
static void separate(Operation *op) {
  llvm::MapVector<int64_t, SmallVector<OpOperand *>> readers;
  for (OpOperand &use : op->getResult(0).getUses())
    if (auto section = getSection(use.getOwner());
        section && section != getSection(op))
      readers[*section].push_back(&use);
  OpBuilder builder(op->getContext());
  builder.setInsertionPointAfter(op);
  for (auto &[section, uses] : readers) {
    Operation *copy = builder.clone(*op);
    setInteger(copy, kSectionAttrName, section);
    for (OpOperand *use : uses)
      use->set(copy->getResult(0));
  }
  if (op->use_empty())
    op->erase();
}

static bool isSeparated(Operation *op) {
  if (!getSection(op) || !(isSame(op) || isa<nn::CatOp>(op)))
    return false;
  auto read = getBytesRead(op);
  return isOfArgument(op) ||
         (read && *read <= getBytes(op->getResult(0).getType()));
}

//===----------------------------------------------------------------------===//
// What makes less
//===----------------------------------------------------------------------===//

/// Moves an operator of the backward pass to the later section that makes all
/// that it reads, if what it makes is less.
static void moveBack(Operation *op) {
  auto own = getSection(op);
  if (!own || !isBackward(op) || isCarried(op))
    return;
  std::optional<int64_t> later;
  for (Value operand : op->getOperands())
    if (auto section = getSection(operand)) {
      if (later && later != section)
        return;
      later = section;
    }
  auto read = getBytesRead(op);
  int64_t made = 0;
  for (Value result : op->getResults())
    made += getBytes(result.getType());
  if (later && *later > *own && read && made < *read)
    setInteger(op, kSectionAttrName, *later);
}

void tandem::reduceCrossings(func::FuncOp step) {
  Block &block = step.getBody().front();
  for (Operation &op : block)
    moveBack(&op);
  for (Operation *root : findSums(block))
    separateSum(root);
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isSeparated(&op))
      separate(&op);
  bool isNumbered = nn::getId(&block.front()).has_value();
  int64_t next = 0;
  for (Operation &op : block.without_terminator())
    if (isNumbered)
      setInteger(&op, nn::kIdAttrName, next++);
}
