//===- FormBuckets.cpp - buckets of updates on the host -------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Roles.h"
#include "Slot.h"
#include "tandem/Analysis/Bytes.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Dialect/SPMD/Ahead.h"
#include "tandem/Dialect/SPMD/Host.h"
#include "tandem/Transforms/Schedule/Schedule.h"
#include "tandem/Transforms/StepPass.h"
#include "llvm/ADT/MapVector.h"
#include <map>

namespace tandem {
#define GEN_PASS_DEF_FORMBUCKETSPASS
#include "tandem/Transforms/Schedule/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;

namespace {
/// Cuts stages into buckets: stages of their own in the end.
class BucketFormer {
public:
  BucketFormer(func::FuncOp step, unsigned buckets);
  void run();

private:
  StringRef getOwner(unsigned argument);
  void findArrivals();
  void findOwners(Operation *op);
  void fillBuckets();
  void followOperands(Operation *op);
  void followReaders(Operation *op);
  void renumber();

  func::FuncOp step;
  Block &block;
  int64_t limit = 1; ///< Bytes of a bucket.
  /// Of each stage, by the parameter that arguments on the host belong to: what
  /// reads them there, and their bytes.
  struct Owner {
    SmallVector<Operation *> readers;
    llvm::DenseSet<unsigned> arguments;
    int64_t bytes = 0;
    int64_t arrival = 0; ///< Of its gradient.
  };
  std::map<int64_t, llvm::MapVector<StringRef, Owner>> owners;
  llvm::DenseMap<Operation *, int64_t> bucketOf;
  /// The number, in the order of the text, of the last collective that an
  /// operator needs; 0: none.
  llvm::DenseMap<Operation *, int64_t> arrivals;
};

struct FormBucketsPass
    : tandem::StepPass<tandem::impl::FormBucketsPassBase<FormBucketsPass>> {
  using StepPass::StepPass;
  LogicalResult runOnStep(func::FuncOp step) override {
    if (hasHostArguments(step))
      BucketFormer(step, std::max(1u, buckets.getValue())).run();
    return success();
  }
};
} // namespace

BucketFormer::BucketFormer(func::FuncOp step, unsigned buckets)
    : step(step), block(step.getBody().front()) {
  int64_t bytes = 0;
  for (unsigned i = 0; i < step.getNumArguments(); ++i)
    bytes += isOnHost(step, i) ? getBytes(step.getArgumentTypes()[i]) : 0;
  limit = std::max<int64_t>(1, bytes / buckets);
}

/// The moments of a parameter are fetched together.
StringRef BucketFormer::getOwner(unsigned argument) {
  DictionaryAttr attributes = step.getArgAttrDict(argument);
  StringRef of = getText(attributes, nn::kOfAttrName);
  return of.empty() ? nn::getTensorName(attributes) : of;
}

void BucketFormer::findArrivals() {
  int64_t count = 0;
  for (Operation &op : block) {
    int64_t arrival = 0;
    for (Value operand : op.getOperands())
      arrival = std::max(arrival, arrivals.lookup(operand.getDefiningOp()));
    arrivals[&op] = isCollective(&op) ? ++count : arrival;
  }
}

void BucketFormer::findOwners(Operation *op) {
  std::optional<Slot> slot = getSlot(op);
  if (!slot || slot->lane != Lane::Compute || !isUpdate(op))
    return;
  for (Value operand : op->getOperands()) {
    if (!isOnHost(step, operand))
      continue;
    unsigned argument = cast<BlockArgument>(operand).getArgNumber();
    Owner &owner = owners[slot->stage][getOwner(argument)];
    owner.readers.push_back(op);
    owner.arrival = std::max(owner.arrival, arrivals.lookup(op));
    if (owner.arguments.insert(argument).second)
      owner.bytes += getBytes(operand.getType());
  }
}

/// As gradients arrive, else in the order of the text: a bucket is updated
/// while the gradients of the next one are summed.
void BucketFormer::fillBuckets() {
  for (auto &[stage, inStage] : owners) {
    int64_t bucket = 0, bytes = 0;
    auto inTurn = llvm::map_to_vector(
        inStage, [](const auto &entry) { return &entry.second; });
    llvm::stable_sort(inTurn, [](const Owner *a, const Owner *b) {
      return a->arrival < b->arrival;
    });
    for (const Owner *owner : inTurn) {
      if (bytes > 0 && bytes + owner->bytes > limit) {
        ++bucket;
        bytes = 0;
      }
      bytes += owner->bytes;
      for (Operation *reader : owner->readers)
        bucketOf[reader] = bucket;
    }
  }
}

/// Nothing runs before what it reads.
void BucketFormer::followOperands(Operation *op) {
  std::optional<Slot> slot = getSlot(op);
  if (!slot || slot->lane != Lane::Compute || !owners.count(slot->stage))
    return;
  int64_t bucket = bucketOf.lookup(op);
  for (Value operand : op->getOperands())
    if (Operation *producer = operand.getDefiningOp())
      if (std::optional<Slot> other = getSlot(producer);
          other && other->stage == slot->stage)
        bucket = std::max(bucket, bucketOf.lookup(producer));
  bucketOf[op] = bucket;
}

/// An update is one kernel: what needs nothing of the host (weight decay) stays
/// with what does.
void BucketFormer::followReaders(Operation *op) {
  auto own = bucketOf.find(op);
  if (own == bucketOf.end() || !isUpdate(op))
    return;
  std::optional<int64_t> first;
  for (Operation *user : op->getUsers()) {
    std::optional<Slot> slot = getSlot(user);
    if (!slot)
      continue; // a result
    if (slot->stage == getSlot(op)->stage)
      first = std::min(first.value_or(INT64_MAX), bucketOf.lookup(user));
  }
  own->second = std::max(own->second, first.value_or(0));
}

/// Buckets become stages.
void BucketFormer::renumber() {
  std::map<std::pair<int64_t, int64_t>, int64_t> numbers;
  for (Operation &op : block)
    if (std::optional<Slot> slot = getSlot(&op))
      numbers[{slot->stage, bucketOf.lookup(&op)}] = 0;
  auto getFirsts = [&](ArrayRef<int64_t> stages) {
    SmallVector<int64_t> firsts;
    for (int64_t stage : stages)
      if (auto it = numbers.lower_bound({stage, 0}); it != numbers.end())
        firsts.push_back(it->second);
    return firsts;
  };
  for (auto [index, entry] : llvm::enumerate(numbers))
    entry.second = index;
  for (Operation &op : block)
    if (std::optional<Slot> slot = getSlot(&op)) {
      slot->stage = numbers.at({slot->stage, bucketOf.lookup(&op)});
      setSlot(&op, *slot);
    }
  SmallVector<int64_t> inTurn = getFirsts(getPlanned(step).inTurn);
  if (!inTurn.empty())
    editPlanned(step, [&](Planned &planned) {
      planned.inTurn.assign(inTurn.begin(), inTurn.end());
    });
  setAhead(step, getFirsts(getAhead(step)));
}

void BucketFormer::run() {
  findArrivals();
  for (Operation &op : block)
    findOwners(&op);
  if (owners.empty())
    return;
  fillBuckets();
  for (Operation &op : block)
    followOperands(&op);
  for (Operation &op : llvm::reverse(block))
    followReaders(&op);
  renumber();
}
