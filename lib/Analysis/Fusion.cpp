//===- Fusion.cpp - groups of operators for kernels -----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Operators join, in the order of the block, the groups that make what they
// read. What must not arise is a cycle: a group that reads what a group behind
// it makes.
//
//===----------------------------------------------------------------------===//

#include "tandem/Analysis/Fusion.h"
#include "mlir/IR/IRMapping.h"
#include "tandem/Analysis/FreeViews.h"
#include "tandem/Analysis/Lookups.h"
#include "tandem/Analysis/Nest.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Dialect/SPMD/SPMD.h"
#include "tandem/Dialect/Sched/Sched.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/SetVector.h"
#include <deque>
#include <set>

using namespace mlir;
using namespace tandem;

//===----------------------------------------------------------------------===//
// Kinds of operators
//===----------------------------------------------------------------------===//

/// Of nn, or the call that `lower` has chosen for it.
static bool isLibraryCall(Operation *op) {
  return isa<nn::LibraryOpInterface, sched::LibraryCallOpInterface>(op);
}

/// Enters a loop or leaves it: no kernel, but a matter of where tensors lie.
static bool isOfLoop(Operation *op) {
  return isa<spmd::EnterOp, spmd::CollectOp, sched::KeepOp>(op);
}

static bool isGrouped(Operation *op) {
  return isa<nn::NNDialect>(op->getDialect()) || isLibraryCall(op) ||
         isOfLoop(op) ||
         isa<spmd::LocalSliceOp, spmd::KeepFirstOp, spmd::CoordinateOp>(op);
}

static int64_t getSize(Value value) {
  return cast<RankedTensorType>(value.getType()).getNumElements();
}

/// Whether all that reads the result is in a library, which reads by strides.
bool tandem::isReadByStrides(Operation *op) {
  return llvm::all_of(op->getUses(), [](OpOperand &use) {
    auto library = dyn_cast<nn::LibraryOpInterface>(use.getOwner());
    return library ? library.readsByStrides(use.getOperandNumber())
                   : isa<sched::LibraryCallOpInterface>(use.getOwner());
  });
}

/// Stays alone, for the library to follow.
static bool isStride(Operation *op) {
  return isa<nn::PermuteOp>(op) && isReadByStrides(op);
}

namespace {

struct Group {
  explicit Group(const FusionLimits &limits) : nest(limits.maxColumns) {}

  FusionGroup::Kind kind = FusionGroup::Kind::Kernel;
  SmallVector<Operation *> ops;
  Nest nest;
  bool isOpen = false;
  bool isAlive = true;
  llvm::BitVector before; ///< groups that must run before this one

  /// Scalars are computed apart: every update reads them.
  bool isScalar() const { return nest.order.empty(); }
};

class GroupBuilder {
public:
  GroupBuilder(Block &block, const FusionLimits &limits)
      : block(block), limits(limits) {}
  SmallVector<FusionGroup> build();

private:
  bool isSource(Operation *op) const { return sources.contains(op); }
  void findSources();
  bool needsOwnGroup(Operation *source) const;
  bool isMadeAgain(Operation &op) const;
  bool isViewOfMemory(Operation *op) const;
  void add(Operation *op);
  bool join(int group, Operation *op, ArrayRef<int> producers);
  bool joinRows(Operation *op, ArrayRef<int> producers);
  void push(int group, Operation *op, ArrayRef<int> producers);
  bool canJoin(int group, ArrayRef<int> producers) const;
  bool waitsFor(int group, llvm::BitVector before) const;
  bool isTooLate(Operation *op, Operation *made) const;
  bool mayNotJoin(int group, ArrayRef<Operation *> ops,
                  llvm::BitVector before) const;
  llvm::BitVector collectBefore(ArrayRef<int> producers) const;
  int addGroup(Operation *op, ArrayRef<int> producers);
  void tryMerge(int group, int other);
  bool isBetween(int first, int last) const;
  bool addToNest(Nest &nest, Operation *op) const;
  bool addProducers(int group, ArrayRef<int> producers);
  void delayReaders(int group);
  void collectProducers(Operation *op, std::set<int> &found) const;
  SmallVector<int> getProducers(Operation *op) const;
  void collectSources(Operation *op, llvm::SetVector<Operation *> &found) const;
  void collectReaders(Operation *op, std::set<int> &found) const;
  bool isViewApart(Operation *op, int group) const;
  void separateViews();
  int getPlace(const Group &group) const;
  SmallVector<int> sortGroups() const;
  FusionGroup finish(const Group &group) const;

  Block &block;
  const FusionLimits &limits;
  llvm::DenseSet<Operation *> sources;
  DenseMap<Operation *, int> groupOf;
  DenseMap<Operation *, int> position;
  /// Library calls in front of each operator.
  DenseMap<Operation *, int> callsBefore;
  std::deque<Group> groups;
};

} // namespace

//===----------------------------------------------------------------------===//
// Sources
//===----------------------------------------------------------------------===//

/// Where something else reads it, or a view that is no kernel, it has a place
/// among the groups, as what it reads has.
bool GroupBuilder::isMadeAgain(Operation &op) const {
  return op.hasAttr(sched::kAgainAttrName) && !needsOwnGroup(&op) &&
         llvm::none_of(op.getUsers(), [](Operation *user) {
           return user->hasTrait<nn::Rearrangement>();
         });
}

void GroupBuilder::findSources() {
  // What is made again reads more than sources, so that its readers do.
  llvm::DenseSet<Operation *> readNothing;
  int calls = 0;
  for (Operation &op : block) {
    position[&op] = position.size();
    callsBefore[&op] = calls;
    calls += isLibraryCall(&op);
    bool isCheap =
        op.hasTrait<nn::CostsALoad>() || op.hasTrait<nn::Rearrangement>();
    bool readsSources =
        isCheap && llvm::all_of(op.getOperands(), [&](Value operand) {
          return readNothing.contains(operand.getDefiningOp());
        });
    if (spmd::isSource(&op) || readsSources)
      readNothing.insert(&op);
    else if (isMadeAgain(op))
      sources.insert(&op);
  }
  sources.insert(readNothing.begin(), readNothing.end());
}

bool GroupBuilder::needsOwnGroup(Operation *source) const {
  return llvm::any_of(source->getUsers(), [&](Operation *user) {
    return user->getBlock() != &block || !isGrouped(user) ||
           isLibraryCall(user) || isOfLoop(user);
  });
}

void GroupBuilder::collectSources(Operation *op,
                                  llvm::SetVector<Operation *> &found) const {
  for (Value operand : op->getOperands()) {
    Operation *source = operand.getDefiningOp();
    if (!source || !isSource(source) || found.contains(source))
      continue;
    collectSources(source, found);
    found.insert(source);
  }
}

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

/// Also of what is made again for it.
void GroupBuilder::collectProducers(Operation *op, std::set<int> &found) const {
  for (Value operand : op->getOperands()) {
    Operation *producer = operand.getDefiningOp();
    if (auto it = groupOf.find(producer); it != groupOf.end())
      found.insert(it->second);
    else if (isSource(producer))
      collectProducers(producer, found);
  }
}

SmallVector<int> GroupBuilder::getProducers(Operation *op) const {
  std::set<int> found;
  collectProducers(op, found);
  return SmallVector<int>(found.begin(), found.end());
}

bool GroupBuilder::canJoin(int group, ArrayRef<int> producers) const {
  return llvm::none_of(producers, [&](int producer) {
    return producer != group && groups[producer].before.test(group);
  });
}

/// Whether the group waits for all of `before` anyway.
bool GroupBuilder::waitsFor(int index, llvm::BitVector before) const {
  before.reset(index);
  return !before.test(groups[index].before);
}

/// Makes again what a library reads.
static bool isForLibrary(Operation *op) {
  return nn::isAgain(op) && llvm::any_of(op->getUsers(), isLibraryCall);
}

/// Whether `op` stands behind library calls in front of which `made` has to be
/// made: what a library reads, as all else of the kernel would be held from
/// there on, or a part of what no other operator reads so late, as the rest
/// would be held until then.
bool GroupBuilder::isTooLate(Operation *op, Operation *made) const {
  auto isBehind = [&](Operation *other) {
    return callsBefore.lookup(op) > callsBefore.lookup(other);
  };
  if (op->hasTrait<nn::Rearrangement>() || !isBehind(made))
    return false;
  Operation *whole =
      isa<nn::SliceOp>(made) ? made->getOperand(0).getDefiningOp() : nullptr;
  return isForLibrary(made) ||
         (whole &&
          2 * getSize(made->getResult(0)) <= getSize(made->getOperand(0)) &&
          llvm::all_of(whole->getUsers(), isBehind));
}

/// What is made again for a library is made where that reads it: waiting for
/// more, the group would hold it beside what it waits for.
bool GroupBuilder::mayNotJoin(int index, ArrayRef<Operation *> ops,
                              llvm::BitVector before) const {
  bool waits = !waitsFor(index, std::move(before));
  return llvm::any_of(groups[index].ops, [&](Operation *made) {
    return (waits && isForLibrary(made)) ||
           llvm::any_of(ops,
                        [&](Operation *op) { return isTooLate(op, made); });
  });
}

/// What waits for these groups waits for.
llvm::BitVector GroupBuilder::collectBefore(ArrayRef<int> producers) const {
  llvm::BitVector before(position.size());
  for (int producer : producers) {
    before |= groups[producer].before;
    before.set(producer);
  }
  return before;
}

/// Whether the group has to wait for more than before.
bool GroupBuilder::addProducers(int group, ArrayRef<int> producers) {
  llvm::BitVector &before = groups[group].before;
  unsigned known = before.count();
  for (int producer : producers) {
    if (producer == group)
      continue;
    before |= groups[producer].before;
    before.set(producer);
  }
  return before.count() != known;
}

/// Those that wait for the group wait for its producers, too.
void GroupBuilder::delayReaders(int group) {
  for (Group &other : groups)
    if (other.isAlive && other.before.test(group))
      other.before |= groups[group].before;
}

/// Whether a third group must run after `first` and before `last`.
bool GroupBuilder::isBetween(int first, int last) const {
  for (int group : groups[last].before.set_bits())
    if (group != first && groups[group].before.test(first))
      return true;
  return false;
}

//===----------------------------------------------------------------------===//
// Joining
//===----------------------------------------------------------------------===//

/// Whether it is one device's part of what is made: the rest would be held for
/// as long. The parts of a joined buffer are all read.
static bool holdsRest(Operation *op) {
  return isa<spmd::LocalSliceOp>(op) && op->getOperand(0).getDefiningOp();
}

/// Whether the operator is a run of elements of what lies in memory anyway. In
/// a kernel it would tell updates of equal shapes apart, which each read their
/// gradient in a joined buffer.
bool GroupBuilder::isViewOfMemory(Operation *op) const {
  Operation *maker = op->getOperand(0).getDefiningOp();
  auto group = groupOf.find(maker);
  bool isInKernel = isSource(maker) ||
                    (group != groupOf.end() && groups[group->second].isOpen);
  return !isInKernel && isFreeView(op) && !holdsRest(op);
}

bool GroupBuilder::addToNest(Nest &nest, Operation *op) const {
  if (isa<nn::ReshapeOp>(op))
    return nest.tryAddReshape(op, op->getOperand(0), op->getResult(0));
  auto looped = dyn_cast<spmd::LoopOpInterface>(op);
  std::optional<LoopOp> loops = looped ? looped.getLoops() : std::nullopt;
  if (!loops)
    return false;
  // Sources are evaluated at any index.
  return nest.tryAdd(*loops);
}

int GroupBuilder::addGroup(Operation *op, ArrayRef<int> producers) {
  int index = groups.size();
  Group &group = groups.emplace_back(limits);
  group.before.resize(position.size());
  group.ops.push_back(op);
  if (isLibraryCall(op))
    group.kind = FusionGroup::Kind::Library;
  else if (isa<nn::ReshapeOp>(op) || isOfLoop(op) || isViewOfMemory(op))
    group.kind = FusionGroup::Kind::View;
  else if (!isStride(op))
    group.isOpen = addToNest(group.nest, op);
  groupOf[op] = index;
  addProducers(index, producers);
  return index;
}

void GroupBuilder::push(int index, Operation *op, ArrayRef<int> producers) {
  groups[index].ops.push_back(op);
  groupOf[op] = index;
  if (addProducers(index, producers))
    delayReaders(index);
}

/// Whether some operators make again what others, of the forward pass, would
/// make at once: it would be held from there on.
static bool undoesAgain(ArrayRef<Operation *> ops,
                        ArrayRef<Operation *> others) {
  auto isForward = [](Operation *op) {
    return nn::getPass(op) == nn::PassKind::Forward;
  };
  return (llvm::any_of(ops, nn::isAgain) && llvm::any_of(others, isForward)) ||
         (llvm::any_of(others, nn::isAgain) && llvm::any_of(ops, isForward));
}

bool GroupBuilder::join(int index, Operation *op, ArrayRef<int> producers) {
  Group &group = groups[index];
  bool isScalar =
      getSize(op->getOperand(0)) == 1 && getSize(op->getResult(0)) == 1;
  if (!group.isOpen || group.ops.size() >= limits.maxOperators ||
      (group.isScalar() && !isScalar) || !canJoin(index, producers) ||
      undoesAgain(group.ops, op) ||
      mayNotJoin(index, op, collectBefore(producers)) ||
      !addToNest(group.nest, op))
    return false;
  push(index, op, producers);
  return true;
}

/// An addition to what a loop of its own adds up is done by that loop.
bool GroupBuilder::joinRows(Operation *op, ArrayRef<int> producers) {
  auto sum = getRowSum(op);
  if (!sum || isSource(sum->base.getDefiningOp()))
    return false;
  int index = groupOf.at(sum->rows);
  if (!canJoin(index, producers))
    return false;
  push(index, op, producers);
  return true;
}

void GroupBuilder::tryMerge(int index, int otherIndex) {
  Group &group = groups[index], &other = groups[otherIndex];
  if (!group.isOpen || !other.isOpen || group.isScalar() != other.isScalar() ||
      group.ops.size() + other.ops.size() > limits.maxOperators ||
      isBetween(index, otherIndex) || isBetween(otherIndex, index) ||
      undoesAgain(group.ops, other.ops) ||
      mayNotJoin(index, other.ops, other.before) ||
      mayNotJoin(otherIndex, group.ops, group.before))
    return;
  SmallVector<Operation *> ops(group.ops);
  llvm::append_range(ops, other.ops);
  llvm::sort(ops, [&](Operation *a, Operation *b) {
    return position.lookup(a) < position.lookup(b);
  });
  Nest nest(limits.maxColumns);
  for (Operation *op : ops)
    if (!addToNest(nest, op))
      return;
  for (Operation *op : other.ops)
    groupOf[op] = index;
  group.ops = std::move(ops);
  group.nest = std::move(nest);
  group.before |= other.before;
  group.before.reset(index);
  group.before.reset(otherIndex);
  other.isAlive = false;
  for (Group &later : groups) {
    if (!later.isAlive || &later == &group)
      continue;
    bool reads = later.before.test(index) || later.before.test(otherIndex);
    later.before.reset(otherIndex);
    if (reads) {
      later.before |= group.before;
      later.before.set(index);
    }
  }
}

void GroupBuilder::add(Operation *op) {
  SmallVector<int> producers = getProducers(op);
  if (joinRows(op, producers))
    return;
  int joined = -1;
  if (!isLibraryCall(op) && !isStride(op) && !isOfLoop(op) &&
      !isViewOfMemory(op))
    for (int producer : llvm::reverse(producers))
      if (join(producer, op, producers)) {
        joined = producer;
        break;
      }
  if (joined < 0)
    joined = addGroup(op, producers);
  for (int producer : producers)
    if (producer != joined)
      tryMerge(joined, producer);
}

//===----------------------------------------------------------------------===//
// Result
//===----------------------------------------------------------------------===//

/// The groups that read it, also by way of what is made again for them; -1 for
/// what is in no group.
void GroupBuilder::collectReaders(Operation *op, std::set<int> &found) const {
  for (Operation *user : op->getUsers()) {
    if (auto it = groupOf.find(user); it != groupOf.end())
      found.insert(it->second);
    else if (isSource(user) && !needsOwnGroup(user))
      collectReaders(user, found);
    else
      found.insert(-1);
  }
}

/// A reshape whose operand is an output of its group as well would be written
/// twice; it is a view instead, unless the group reads it.
bool GroupBuilder::isViewApart(Operation *op, int group) const {
  if (!isa<nn::ReshapeOp>(op))
    return false;
  std::set<int> ofSource, ofView;
  collectReaders(op->getOperand(0).getDefiningOp(), ofSource);
  collectReaders(op, ofView);
  return ofSource != std::set<int>{group} && !ofView.count(group);
}

void GroupBuilder::separateViews() {
  for (int index = 0, end = groups.size(); index < end; ++index) {
    if (!groups[index].isAlive || groups[index].ops.size() == 1)
      continue;
    SmallVector<Operation *> views;
    llvm::copy_if(groups[index].ops, std::back_inserter(views),
                  [&](Operation *op) { return isViewApart(op, index); });
    for (Operation *op : views) {
      llvm::erase(groups[index].ops, op);
      groupOf[op] = groups.size();
      Group &view = groups.emplace_back(limits);
      view.ops.push_back(op);
      view.kind = FusionGroup::Kind::View;
    }
  }
}

/// Where the group stands among others: at its last operator of the pass that
/// it begins in. A forward pass that waited for what it makes for the backward
/// pass would come behind all that this makes again. What is made again stands
/// where it is made, not where a view of it is read: what waited for its reader
/// would be held beside what it is made of.
int GroupBuilder::getPlace(const Group &group) const {
  // What nothing but the end of the block reads: the statistics of a batch
  // normalization that runs again, say, which stand behind all else.
  SmallVector<Operation *> ops(group.ops.begin(), group.ops.end());
  llvm::sort(ops, [&](Operation *a, Operation *b) {
    return position.lookup(a) > position.lookup(b);
  });
  llvm::SmallPtrSet<Operation *, 8> returned;
  for (Operation *op : ops)
    if (llvm::all_of(op->getUsers(), [&](Operation *user) {
          return user->hasTrait<OpTrait::IsTerminator>() ||
                 returned.contains(user);
        }))
      returned.insert(op);
  auto isBeside = [&](Operation *op) {
    return op->hasTrait<nn::Rearrangement>() || returned.contains(op);
  };
  bool isMadeAgain = llvm::all_of(group.ops, [&](Operation *op) {
    return nn::isAgain(op) || isBeside(op);
  });
  auto *made = llvm::find_if_not(ops, isBeside);
  bool isAtMade = isMadeAgain && made != ops.end();
  std::optional<nn::PassKind> pass = nn::getPass(group.ops.front());
  auto isOfPass = [&](Operation *op) { return nn::getPass(op) == pass; };
  auto *last = llvm::find_if(ops, [&](Operation *op) {
    return isOfPass(op) && !returned.contains(op);
  });
  if (last == ops.end())
    last = llvm::find_if(ops, isOfPass);
  return position.lookup(isAtMade ? *made : *last);
}

/// By direct dependences; among groups that can run, the one that stands first.
SmallVector<int> GroupBuilder::sortGroups() const {
  std::vector<std::set<int>> readers(groups.size());
  std::vector<int> waits(groups.size(), 0);
  std::set<std::pair<int, int>> ready;
  auto key = [&](int group) {
    return std::make_pair(getPlace(groups[group]), group);
  };
  for (int index = 0, end = groups.size(); index < end; ++index)
    for (Operation *op : groups[index].ops)
      for (int producer : getProducers(op))
        if (groups[index].isAlive && producer != index &&
            readers[producer].insert(index).second)
          ++waits[index];
  for (int index = 0, end = groups.size(); index < end; ++index)
    if (groups[index].isAlive && waits[index] == 0)
      ready.insert(key(index));
  SmallVector<int> order;
  while (!ready.empty()) {
    int next = ready.begin()->second;
    ready.erase(ready.begin());
    order.push_back(next);
    for (int reader : readers[next])
      if (--waits[reader] == 0)
        ready.insert(key(reader));
  }
  return order;
}

FusionGroup GroupBuilder::finish(const Group &group) const {
  FusionGroup result;
  result.kind = group.kind;
  llvm::SetVector<Operation *> ops(group.ops.begin(), group.ops.end());
  if (group.kind == FusionGroup::Kind::Kernel)
    for (Operation *op : group.ops)
      collectSources(op, ops);
  result.ops.assign(ops.begin(), ops.end());
  llvm::sort(result.ops, [&](Operation *a, Operation *b) {
    return position.lookup(a) < position.lookup(b);
  });
  return result;
}

SmallVector<FusionGroup> GroupBuilder::build() {
  findSources();
  for (Operation &op : block)
    if (isGrouped(&op) && !isSource(&op))
      add(&op);
  separateViews();
  SmallVector<FusionGroup> result;
  for (Operation &op : block) {
    if (!isSource(&op) || !needsOwnGroup(&op))
      continue;
    Group alone(limits);
    alone.ops.push_back(&op);
    result.push_back(finish(alone));
  }
  for (int index : sortGroups())
    result.push_back(finish(groups[index]));
  return result;
}

SmallVector<FusionGroup> tandem::formFusionGroups(Block &block,
                                                  const FusionLimits &limits) {
  return GroupBuilder(block, limits).build();
}

//===----------------------------------------------------------------------===//
// Inputs, outputs, outlining
//===----------------------------------------------------------------------===//

SmallVector<Value> tandem::getGroupInputs(const FusionGroup &group) {
  llvm::DenseSet<Operation *> members(group.ops.begin(), group.ops.end());
  llvm::SetVector<Value> inputs;
  for (Operation *op : group.ops)
    for (Value operand : op->getOperands())
      if (!members.contains(operand.getDefiningOp()))
        inputs.insert(operand);
  return inputs.takeVector();
}

static bool isInAnother(Operation *op, const FusionGroup &group,
                        ArrayRef<FusionGroup> groups) {
  return llvm::any_of(groups, [&](const FusionGroup &other) {
    return &other != &group && llvm::is_contained(other.ops, op);
  });
}

/// The last operator of a group is no copy of a source for others.
static bool isOwn(Operation *op, const FusionGroup &group,
                  ArrayRef<FusionGroup> groups) {
  return op == group.ops.back() || !isInAnother(op, group, groups);
}

SmallVector<Value> tandem::getGroupOutputs(const FusionGroup &group,
                                           ArrayRef<FusionGroup> groups) {
  SmallVector<Value> outputs;
  for (Operation *op : group.ops) {
    bool leaves = false;
    // Also by what is made again here and elsewhere.
    auto isOutside = [&](Operation *user) {
      return !llvm::is_contained(group.ops, user) ||
             (user->hasAttr(sched::kAgainAttrName) &&
              isInAnother(user, group, groups));
    };
    for (Value result : op->getResults())
      leaves |= llvm::any_of(result.getUsers(), isOutside);
    if (!leaves || !isOwn(op, group, groups))
      continue;
    for (Value result : op->getResults())
      if (llvm::any_of(result.getUsers(), isOutside))
        outputs.push_back(result);
  }
  return outputs;
}

func::FuncOp tandem::outlineGroup(const FusionGroup &group,
                                  ArrayRef<Value> inputs,
                                  ArrayRef<Value> outputs, ModuleOp module,
                                  StringRef name) {
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  auto type = builder.getFunctionType(ValueRange(inputs).getTypes(),
                                      ValueRange(outputs).getTypes());
  auto kernel =
      func::FuncOp::create(builder, group.ops.back()->getLoc(), name, type);
  kernel.setPrivate();
  Block *body = kernel.addEntryBlock();
  builder.setInsertionPointToStart(body);
  IRMapping mapping;
  mapping.map(inputs, body->getArguments());
  for (Operation *op : group.ops)
    builder.clone(*op, mapping)
        ->setDiscardableAttrs(ArrayRef<NamedAttribute>());
  SmallVector<Value> results;
  for (Value output : outputs)
    results.push_back(mapping.lookup(output));
  func::ReturnOp::create(builder, kernel.getLoc(), results);
  return kernel;
}
