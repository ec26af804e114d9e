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

/// Where no size is given, a bucket has this share of all bytes on the host.
static constexpr int64_t kShares = 64;

namespace {
/// Cuts stages into buckets: stages of their own in the end.
class BucketFormer {
public:
  /// A negative `limit` is a share of what lies on the host.
  BucketFormer(func::FuncOp step, int64_t limit, bool largestFirst);
  void run();

private:
  StringRef getOwner(unsigned argument);
  void findArrivals();
  void findOwners(Operation *op);
  void fillBuckets();
  void followOperands(Operation *op);
  /// A slot, before buckets are stages, and one of its buckets.
  struct Place {
    Slot slot;
    int64_t bucket;
    bool operator<(const Place &other) const {
      return std::tie(slot.stage, bucket, slot.strand, slot.lane) <
             std::tie(other.slot.stage, other.bucket, other.slot.strand,
                      other.slot.lane);
    }
  };
  std::optional<Place> findReader(Operation *op) const;
  bool mayWait(Operation *op, const Slot &slot) const;
  void followReaders(Operation *op);
  void findEnd();
  void renumber();

  func::FuncOp step;
  Block &block;
  int64_t limit; ///< Bytes of a bucket.
  bool largestFirst;
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
  /// The last stage in front of the updates that computes something.
  int64_t end = -1;
  /// The number, in the order of the text, of the last collective that an
  /// operator needs; 0: none.
  llvm::DenseMap<Operation *, int64_t> arrivals;
};

struct FormBucketsPass
    : tandem::StepPass<tandem::impl::FormBucketsPassBase<FormBucketsPass>> {
  using StepPass::StepPass;
  LogicalResult runOnStep(func::FuncOp step) override {
    if (hasHostArguments(step))
      BucketFormer(step, bucket, largestFirst).run();
    return success();
  }
};
} // namespace

int64_t tandem::countStored(func::FuncOp step) {
  int64_t bytes = 0;
  for (unsigned i = 0; i < step.getNumArguments(); ++i)
    if (isOnHost(step, i))
      bytes += getBytes(step.getArgumentTypes()[i]);
  return bytes;
}

BucketFormer::BucketFormer(func::FuncOp step, int64_t limit, bool largestFirst)
    : step(step), block(step.getBody().front()), limit(limit),
      largestFirst(largestFirst) {
  if (limit < 0)
    this->limit = countStored(step) / kShares;
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

/// As gradients arrive, else in the order of the text, or by size: a bucket is
/// updated while the gradients of the next one are summed.
void BucketFormer::fillBuckets() {
  for (auto &[stage, inStage] : owners) {
    int64_t bucket = 0, bytes = 0;
    auto inTurn = llvm::map_to_vector(
        inStage, [](const auto &entry) { return &entry.second; });
    llvm::stable_sort(inTurn, [&](const Owner *a, const Owner *b) {
      return largestFirst ? a->bytes > b->bytes : a->arrival < b->arrival;
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

/// The first place where `op` is read; none if only results do.
std::optional<BucketFormer::Place>
BucketFormer::findReader(Operation *op) const {
  std::optional<Place> first;
  for (Operation *user : op->getUsers())
    if (std::optional<Slot> slot = getSlot(user)) {
      Place place{*slot, bucketOf.lookup(user)};
      first = std::min(first.value_or(place), place);
    }
  return first;
}

/// Behind what is computed in front of the updates, nothing but them waits for
/// a sum of gradients. Pieces have the slots that the plan says.
bool BucketFormer::mayWait(Operation *op, const Slot &slot) const {
  return slot.lane == Lane::Waiting && isCollective(op) && !isWaiting(op) &&
         slot.stage > end;
}

/// An update is one kernel: what needs nothing of the host (weight decay) is in
/// the bucket of what reads it, and so is what is made of a gradient. A sum is
/// there, too: a bucket waits for its own sums.
void BucketFormer::followReaders(Operation *op) {
  std::optional<Slot> slot = getSlot(op);
  std::optional<Place> reader = findReader(op);
  if (!slot || !reader || !owners.count(reader->slot.stage) ||
      reader->slot.lane < Lane::Waiting)
    return;
  if (mayWait(op, *slot)) {
    setSlot(op, {reader->slot.stage, reader->slot.strand, Lane::Waiting});
    bucketOf[op] = reader->bucket;
  } else if (slot->stage == reader->slot.stage && slot->lane == Lane::Compute) {
    bucketOf[op] = std::max(bucketOf.lookup(op), reader->bucket);
  }
}

/// The last stage in front of the updates that computes something.
void BucketFormer::findEnd() {
  for (Operation &op : block)
    if (std::optional<Slot> slot = getSlot(&op);
        slot && slot->lane == Lane::Compute &&
        slot->stage < owners.begin()->first)
      end = std::max(end, slot->stage);
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
  findEnd();
  for (Operation &op : block)
    followOperands(&op);
  for (Operation &op : llvm::reverse(block))
    followReaders(&op);
  renumber();
}
