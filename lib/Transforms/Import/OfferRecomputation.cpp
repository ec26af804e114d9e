//===- OfferRecomputation.cpp - clones of forward operators ---------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which values the backward pass makes again is a choice of the plan. Here it
// gets what it can choose of: at most two clones of each forward operator, at
// its reader and, for the segment behind, early; and of each large value that
// was saved a copy that waited in the host's memory.
//
// All is linear in the number of operators, but for segments: sizes of living
// values are sorted, and cuts are compared (Segments.h).
//
//===----------------------------------------------------------------------===//

#include "Segments.h"
#include "tandem/Analysis/Bytes.h"
#include "tandem/Dialect/NN/Early.h"
#include "tandem/Dialect/NN/Host.h"
#include "tandem/Dialect/NN/Regions.h"
#include "tandem/Dialect/SPMD/Host.h"
#include "tandem/Transforms/Import/Import.h"
#include "tandem/Transforms/StepPass.h"
#include <set>

namespace tandem {
#define GEN_PASS_DEF_OFFERRECOMPUTATIONPASS
#include "tandem/Transforms/Import/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;
using namespace tandem::nn;

/// A value this many times smaller than the last one of a segment may be read
/// behind it as well (the term that a layer of experts adds to the loss).
static constexpr int64_t kSmall = 32;
/// What more cuts may hold of what a segment makes again.
static constexpr double kShare = 2.0 / 3;
/// Library calls beside which a value is fetched from the host.
static constexpr unsigned kBeside = 2;
/// No place: larger than all.
static constexpr unsigned kNowhere = ~0U;

namespace {
/// What a value is made of.
enum Origin : unsigned { OfParameters = 1, OfBatch = 2 };

/// An operator of the step.
struct Node {
  Operation *op;
  /// Bits of `Origin`.
  unsigned origins = 0;
  /// Depends on no argument: exists wherever it is wanted.
  bool isPure = false;
  /// A view, through other views, of an argument: made in each pass.
  bool isArgumentView = false;
  /// The same bytes under another shape: each reader makes it for itself of
  /// what it takes, so that they are saved once.
  bool isReshape = false;
  /// A forward operator that may run again, none of the above.
  bool canRun = false;
  unsigned segment = 0;
  /// Of what ends a segment, the next segment that reads it.
  unsigned near = kNowhere;
  /// The backward operators in front of which clones stand, and the clones.
  unsigned reader = kNowhere, early = kNowhere;
  Operation *again = nullptr, *earlyAgain = nullptr;
  /// The operator in front of which results begin to come back from the host.
  unsigned fetch = kNowhere;
  /// Per result, the operator behind which it is sent to the host, null if it
  /// is not, and what comes back.
  SmallVector<std::pair<Operation *, Value>, 1> copies = {};
};

using Sources = SmallVector<Value, 4>;

class Offer {
public:
  Offer(func::FuncOp step, bool host) : step(step), host(host) {}
  void run();

private:
  unsigned getOrigins(BlockArgument argument) const;
  bool isHeldCast(Operation *op) const;
  void addNode(Operation *op);
  Node *find(Value value);
  SmallVector<Operation *> getReaders(Value value) const;
  SmallVector<Operation *> getReaders(const Node &node) const;
  unsigned getLastReader(Value value) const;
  void findSegments();
  unsigned countForward() const;
  std::vector<Made> listMade() const;
  void cutFurther();
  void assignSegments();
  void findEnds();
  void findGroups();
  bool isEndFor(const Node &node, const Node &reader, bool isEarly) const;
  std::vector<unsigned> findBegins() const;
  void findReaders();
  void findEarly();
  void placeViews();
  void findCopy(Node &node, Value result);
  unsigned getCopied(unsigned reader) const;
  void findCopies();
  void emitCopies(Node &node, Operation *place);
  void emit();
  void number();
  Operation *clone(Node &node, bool isEarly, Operation *place);
  using GetSources = llvm::function_ref<Sources(Value)>;
  Value take(Operation *reader, Value value, GetSources getSources);
  void chooseOperands(Operation *reader, GetSources getSources);
  void addFetched(Value value, Sources &sources);
  Sources getSources(Value value);
  Sources getMadeForClone(Node &node, Value value, bool isEarly);
  Sources getSourcesOfClone(Node &node, Value value, bool isEarly);

  func::FuncOp step;
  bool host;
  std::vector<Node> nodes;
  llvm::DenseMap<Operation *, unsigned> numbers;
  /// The last operator of each segment but the last one.
  std::vector<unsigned> ends;
  /// Of each of these segments, whether its early clones may follow those of
  /// the one before, and whether it is the last one of such a group.
  std::vector<bool> follows, endsGroup;
};

struct OfferRecomputationPass
    : tandem::StepPass<
          tandem::impl::OfferRecomputationPassBase<OfferRecomputationPass>> {
  using StepPass::StepPass;
  LogicalResult runOnStep(func::FuncOp step) override {
    if (failed(verifyUnscheduled(step)))
      return failure();
    Offer(step, host).run();
    return success();
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// Nodes
//===----------------------------------------------------------------------===//

/// Of an argument without a role anything.
unsigned Offer::getOrigins(BlockArgument argument) const {
  auto role =
      getRole(func::FuncOp(step).getArgAttrDict(argument.getArgNumber()));
  if (!role)
    return OfParameters | OfBatch;
  if (*role == Role::Parameter)
    return OfParameters;
  return *role == Role::Input ? OfBatch : 0;
}

/// Null for an argument.
Node *Offer::find(Value value) {
  Operation *producer = value.getDefiningOp();
  return producer ? &nodes[numbers.at(producer)] : nullptr;
}

/// Reshapes are read through.
SmallVector<Operation *> Offer::getReaders(Value value) const {
  SmallVector<Operation *> readers;
  for (Operation *user : value.getUsers())
    if (nodes[numbers.at(user)].isReshape)
      llvm::append_range(readers, getReaders(user->getResult(0)));
    else if (!isOfRegion(user))
      readers.push_back(user);
  return readers;
}

static int64_t getBytes(const Node &node) {
  int64_t bytes = 0;
  for (Value result : node.op->getResults())
    bytes += getBytes(result.getType());
  return bytes;
}

SmallVector<Operation *> Offer::getReaders(const Node &node) const {
  SmallVector<Operation *> readers;
  for (Value result : node.op->getResults())
    llvm::append_range(readers, getReaders(result));
  return readers;
}

/// One number is held for nothing.
static bool isScalar(Value value) {
  return cast<RankedTensorType>(value.getType()).getRank() == 0;
}

/// Of a parameter on the host: it is made once, and held for all that read it.
bool Offer::isHeldCast(Operation *op) const {
  return isa<ConvertOp>(op) && spmd::isOnHost(step, op->getOperand(0));
}

void Offer::addNode(Operation *op) {
  Node node{op};
  node.isPure = !op->hasTrait<OpTrait::IsTerminator>();
  for (Value operand : op->getOperands()) {
    Node *producer = find(operand);
    node.isPure &= producer && producer->isPure;
    node.origins |=
        producer ? producer->origins : getOrigins(cast<BlockArgument>(operand));
  }
  bool isForward = getPass(op) == PassKind::Forward;
  if (isForward && op->hasTrait<View>() && !isHeldCast(op)) {
    Node *viewed = find(op->getOperand(0));
    node.isArgumentView =
        !viewed || viewed->isArgumentView || isHeldCast(viewed->op);
  }
  node.isReshape =
      isForward && !node.isPure && !node.isArgumentView && isa<ReshapeOp>(op);
  node.canRun = isForward && !node.isPure && !node.isArgumentView &&
                !node.isReshape && !isHeldCast(op) &&
                !llvm::all_of(op->getResults(), isScalar) &&
                isa<NNDialect>(op->getDialect()) && isMemoryEffectFree(op);
  numbers[op] = nodes.size();
  nodes.push_back(node);
}

//===----------------------------------------------------------------------===//
// Segments
//===----------------------------------------------------------------------===//

/// The last reader of the value in the forward pass; `kNowhere` without one.
unsigned Offer::getLastReader(Value value) const {
  unsigned last = 0;
  for (Operation *reader : getReaders(value))
    if (getPass(reader) == PassKind::Forward)
      last = std::max(last, numbers.at(reader));
  return last ? last : kNowhere;
}

/// Cuts behind each operator whose results are all that the forward pass reads
/// behind it, of what comes from the batch and from parameters: an articulation
/// point, as operators stand in order.
void Offer::findSegments() {
  std::multiset<int64_t> living;
  std::vector<SmallVector<int64_t, 1>> dying(nodes.size());
  for (auto [number, node] : llvm::enumerate(nodes)) {
    for (int64_t bytes : dying[number])
      living.erase(living.find(bytes));
    if (!node.canRun || node.origins != (OfParameters | OfBatch))
      continue;
    int64_t other = living.empty() ? 0 : *living.rbegin(), own = 0;
    for (Value result : node.op->getResults()) {
      unsigned last = getLastReader(result);
      if (last == kNowhere)
        continue;
      own += getBytes(result.getType());
      living.insert(getBytes(result.getType()));
      dying[last].push_back(getBytes(result.getType()));
    }
    if (own > 0 && other * kSmall <= own && !node.op->hasTrait<View>())
      ends.push_back(number);
  }
}

/// How many operators stand in front of the backward pass.
unsigned Offer::countForward() const {
  unsigned count = nodes.size();
  while (count > 0 && getPass(nodes[count - 1].op) != PassKind::Forward)
    --count;
  return count;
}

std::vector<Made> Offer::listMade() const {
  std::vector<Made> made(nodes.size());
  for (unsigned number = nodes.size(); number-- > 0;) {
    const Node &node = nodes[number];
    Made &own = made[number];
    own.last = number;
    for (Operation *user : getReaders(node)) {
      unsigned reader = numbers.at(user);
      bool isForward = getPass(user) == PassKind::Forward;
      bool isView = isForward && user->hasTrait<View>();
      own.isSaved |=
          isView ? made[reader].isSaved : getPass(user) == PassKind::Backward;
      if (isForward)
        own.last = std::max(own.last, isView ? made[reader].last : reader);
    }
    if (!node.canRun || node.origins != (OfParameters | OfBatch) ||
        node.op->hasTrait<View>())
      continue;
    own.bytes = getBytes(node);
    own.mayEnd = own.last > number;
  }
  return made;
}

/// Segments that something is alive across, so that they have no such point.
void Offer::cutFurther() {
  std::vector<Made> made = listMade();
  std::vector<unsigned> all;
  unsigned begin = 0;
  for (unsigned end : ends) {
    llvm::append_range(
        all, cutSegment(made, begin, end + 1, /*isWhole=*/false, kShare));
    all.push_back(end);
    begin = end + 1;
  }
  if (begin < countForward())
    llvm::append_range(all, cutSegment(made, begin, countForward(),
                                       /*isWhole=*/false, kShare));
  ends = std::move(all);
}

/// Views go with what is behind them.
void Offer::assignSegments() {
  unsigned segment = 0;
  for (auto [number, node] : llvm::enumerate(nodes)) {
    node.segment = segment;
    segment += segment < ends.size() && ends[segment] == number;
  }
  for (Node &node : llvm::reverse(nodes)) {
    if (!node.canRun || !node.op->hasTrait<View>())
      continue;
    unsigned first = kNowhere;
    for (Operation *user : getReaders(node))
      if (getPass(user) == PassKind::Forward)
        first = std::min(first, nodes[numbers.at(user)].segment);
    if (first != kNowhere)
      node.segment = first;
  }
}

/// What crosses the end of a segment, but for what is small. It is made early
/// for the next segment that reads it; those behind take what was saved.
void Offer::findEnds() {
  std::vector<int64_t> largest(ends.size() + 1);
  for (Node &node : nodes) {
    if (!node.canRun || node.origins != (OfParameters | OfBatch))
      continue;
    for (Operation *user : getReaders(node))
      if (const Node &reader = nodes[numbers.at(user)];
          reader.canRun && reader.segment > node.segment)
        node.near = std::min(node.near, reader.segment);
    if (node.near != kNowhere)
      largest[node.segment] = std::max(largest[node.segment], getBytes(node));
  }
  for (Node &node : nodes)
    if (node.near != kNowhere &&
        getBytes(node) * kSmall <= largest[node.segment])
      node.near = kNowhere;
}

/// Segments form groups that are cut so that least is held, as with a
/// checkpoint per square root of a chain: the last value of each is what the
/// next one is made of. Within one, early clones of segments of one library
/// call at most (a chain without residuals) follow each other.
void Offer::findGroups() {
  follows.assign(ends.size(), false);
  endsGroup = follows;
  std::vector<unsigned> calls(ends.size());
  for (const Node &node : nodes)
    if (node.canRun && node.segment < ends.size())
      calls[node.segment] += isa<LibraryOpInterface>(node.op);
  std::vector<Made> made = listMade();
  for (Made &each : made)
    each.mayEnd = false;
  for (unsigned end : ends)
    made[end].mayEnd = true;
  for (unsigned last : cutSegment(made, 0, countForward(), /*isWhole=*/true, 1))
    made[last].mayEnd = false;
  for (unsigned segment = 1; segment < ends.size(); ++segment) {
    bool isBehind = calls[segment - 1] <= 1 && calls[segment] <= 1 &&
                    made[ends[segment - 1]].mayEnd;
    follows[segment] = isBehind && made[ends[segment]].mayEnd;
    endsGroup[segment] = isBehind && !made[ends[segment]].mayEnd;
  }
}

/// Whether a clone of `reader`, in another segment, may read an early clone of
/// `node`. What ends a group reads none: all of the group would be made one
/// segment too early.
bool Offer::isEndFor(const Node &node, const Node &reader, bool isEarly) const {
  bool isLast = reader.near != kNowhere && endsGroup[reader.segment];
  if (node.near != reader.segment || isLast)
    return false;
  return !isEarly || (reader.segment == node.segment + 1 &&
                      reader.segment < ends.size() && follows[reader.segment]);
}

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

/// Per segment, the first operator of the backward pass that reads what does
/// not leave it; 0 if there is none.
std::vector<unsigned> Offer::findBegins() const {
  std::vector<unsigned> begins(ends.size() + 1, kNowhere);
  for (const Node &node : nodes)
    for (Operation *user : getReaders(node))
      if (node.canRun && node.near == kNowhere &&
          getPass(user) == PassKind::Backward)
        begins[node.segment] = std::min(begins[node.segment], numbers.at(user));
  llvm::replace(begins, kNowhere, 0U);
  return begins;
}

/// A clone stands in front of the first reader of what it makes, which may be
/// another clone of its segment. What ends a segment is made again for none in
/// front of the next segment that reads it: all of its own would be held.
void Offer::findReaders() {
  std::vector<unsigned> begins = findBegins();
  for (Node &node : llvm::reverse(nodes)) {
    if (!node.canRun)
      continue;
    unsigned begin = node.near == kNowhere ? 0 : begins[node.near];
    for (Operation *user : getReaders(node)) {
      unsigned number = numbers.at(user);
      if (getPass(user) == PassKind::Backward && number >= begin)
        node.reader = std::min(node.reader, number);
      else if (nodes[number].segment == node.segment)
        node.reader = std::min(node.reader, nodes[number].reader);
    }
  }
}

/// Early clones stand in front of the first clone behind the segment that reads
/// what ends it, an early one of its group perhaps.
void Offer::findEarly() {
  for (Node &node : llvm::reverse(nodes)) {
    if (!node.canRun)
      continue;
    for (Operation *user : getReaders(node)) {
      const Node &reader = nodes[numbers.at(user)];
      if (reader.canRun && isEndFor(node, reader, /*isEarly=*/false))
        node.early = std::min(node.early, reader.reader);
      if (reader.canRun && (reader.segment == node.segment ||
                            isEndFor(node, reader, /*isEarly=*/true)))
        node.early = std::min(node.early, reader.early);
    }
  }
}

void Offer::placeViews() {
  for (Node &node : llvm::reverse(nodes)) {
    if (!node.isArgumentView)
      continue;
    for (Operation *user : getReaders(node)) {
      const Node &reader = nodes[numbers.at(user)];
      node.reader = std::min({node.reader, reader.reader, reader.early});
    }
  }
}

/// Of a result, in front of what it is read first in the backward pass, by a
/// clone perhaps, and behind what last in the forward pass.
void Offer::findCopy(Node &node, Value result) {
  unsigned last = numbers.at(node.op), place = kNowhere;
  for (Operation *user : getReaders(result)) {
    const Node &reader = nodes[numbers.at(user)];
    if (getPass(user) == PassKind::Forward) {
      last = std::max(last, numbers.at(user));
      place = std::min({place, reader.reader, reader.early});
    } else if (getPass(user) == PassKind::Backward) {
      place = std::min(place, numbers.at(user));
    }
  }
  node.copies.push_back({place == kNowhere ? nullptr : nodes[last].op, {}});
  node.fetch = std::min(node.fetch, place);
}

/// Where a copy begins that is there for `reader`: so many library calls
/// before, and not in front of the backward pass. What is copied is held
/// meanwhile.
unsigned Offer::getCopied(unsigned reader) const {
  unsigned place = reader;
  unsigned calls = 0;
  while (place > 0 && calls < kBeside &&
         getPass(nodes[place - 1].op) == PassKind::Backward)
    calls += isa<LibraryOpInterface>(nodes[--place].op);
  return place;
}

/// Small values are not worth a copy.
void Offer::findCopies() {
  int64_t largest = 0;
  for (Node &node : nodes)
    for (Value result : node.op->getResults()) {
      if (!host || !node.canRun)
        continue;
      findCopy(node, result);
      if (node.copies.back().first)
        largest = std::max(largest, getBytes(result.getType()));
    }
  for (Node &node : nodes)
    if (node.fetch != kNowhere)
      node.fetch = getCopied(node.fetch);
  for (Node &node : nodes)
    for (auto [result, copy] : llvm::zip(node.op->getResults(), node.copies))
      if (getBytes(result.getType()) * kSmall < largest)
        copy.first = nullptr;
}

/// Sends results of `node`, and fetches them in front of `place`.
void Offer::emitCopies(Node &node, Operation *place) {
  OpBuilder builder(step.getContext());
  auto finish = [&](Operation *copy, PassKind pass) {
    setPass(copy, pass);
    copy->setAttr(kAgainAttrName, builder.getUnitAttr());
  };
  for (auto [result, copy] : llvm::zip(node.op->getResults(), node.copies)) {
    auto &[last, fetched] = copy;
    if (!last)
      continue;
    Location loc = result.getLoc();
    builder.setInsertionPointAfter(last);
    auto sent = ToHostOp::create(builder, loc, result.getType(), result);
    finish(sent, PassKind::Forward);
    builder.setInsertionPoint(place);
    fetched = FromHostOp::create(builder, loc, result.getType(), sent);
    finish(fetched.getDefiningOp(), PassKind::Backward);
  }
}

//===----------------------------------------------------------------------===//
// Clones
//===----------------------------------------------------------------------===//

/// What `clone` makes in the place of `value`.
static Value getMade(Operation *clone, Value value) {
  return clone->getResult(cast<OpResult>(value).getResultNumber());
}

void Offer::addFetched(Value value, Sources &sources) {
  Node *node = find(value);
  if (!node || node->copies.empty())
    return;
  unsigned index = cast<OpResult>(value).getResultNumber();
  if (Value fetched = node->copies[index].second)
    sources.push_back(fetched);
}

/// What a reader of the backward pass may take for `value`: what was saved,
/// what is made again, what waited on the host.
Sources Offer::getSources(Value value) {
  Sources sources{value};
  Node *node = find(value);
  if (node && node->canRun)
    for (Operation *clone : {node->again, node->earlyAgain})
      if (clone)
        sources.push_back(getMade(clone, value));
  addFetched(value, sources);
  return sources;
}

/// What a clone of `node` may take for `value`, but for a copy of it.
Sources Offer::getMadeForClone(Node &node, Value value, bool isEarly) {
  Node *producer = find(value);
  if (!producer || (!producer->canRun && !producer->again))
    return {value};
  if (producer->isArgumentView)
    return {getMade(producer->again, value)};
  bool isInside = producer->segment == node.segment;
  Operation *clone =
      isInside && !isEarly ? producer->again : producer->earlyAgain;
  bool isOffered = isInside || isEndFor(*producer, node, isEarly);
  if (!clone || !isOffered)
    return {value};
  return {value, getMade(clone, value)};
}

Sources Offer::getSourcesOfClone(Node &node, Value value, bool isEarly) {
  Sources sources = getMadeForClone(node, value, isEarly);
  if (sources.front() == value)
    addFetched(value, sources);
  return sources;
}

/// `nn.either` of the sources, in front of `reader`, if there are several.
static Value choose(Operation *reader, ArrayRef<Value> sources) {
  if (sources.size() == 1)
    return sources.front();
  OpBuilder builder(reader);
  auto either = EitherOp::create(builder, reader->getLoc(),
                                 sources.front().getType(), sources);
  setPass(either, PassKind::Backward);
  return either;
}

/// What the reader takes for `value`; a reshape is made of what it takes for
/// its operand.
Value Offer::take(Operation *reader, Value value, GetSources getSources) {
  Node *node = find(value);
  if (!node || !node->isReshape)
    return choose(reader, getSources(value));
  Value viewed = node->op->getOperand(0);
  Value taken = take(reader, viewed, getSources);
  if (taken == viewed)
    return value;
  Operation *clone = OpBuilder(reader).clone(*node->op);
  setPass(clone, PassKind::Backward);
  clone->setAttr(kAgainAttrName, UnitAttr::get(clone->getContext()));
  clone->setOperand(0, taken);
  return clone->getResult(0);
}

void Offer::chooseOperands(Operation *reader, GetSources getSources) {
  llvm::SmallDenseMap<Value, Value> chosen;
  for (OpOperand &operand : reader->getOpOperands()) {
    auto [it, isNew] = chosen.try_emplace(operand.get());
    if (isNew)
      it->second = take(reader, operand.get(), getSources);
    operand.set(it->second);
  }
}

Operation *Offer::clone(Node &node, bool isEarly, Operation *place) {
  Operation *clone = OpBuilder(place).clone(*node.op);
  setPass(clone, PassKind::Backward);
  clone->setAttr(kAgainAttrName, UnitAttr::get(clone->getContext()));
  if (isEarly)
    clone->setAttr(kEarlyAttrName, UnitAttr::get(clone->getContext()));
  chooseOperands(clone, [&](Value value) {
    return getSourcesOfClone(node, value, isEarly);
  });
  return clone;
}

/// By place, so that the copies and clones that one reads are there before it.
void Offer::emit() {
  std::vector<SmallVector<Node *>> clones(nodes.size()), copies(nodes.size());
  for (Node &node : nodes) {
    for (unsigned place : {node.early, node.reader})
      if (place != kNowhere)
        clones[place].push_back(&node);
    if (node.fetch != kNowhere)
      copies[node.fetch].push_back(&node);
  }
  for (auto [place, reader] : llvm::enumerate(nodes)) {
    for (Node *node : copies[place])
      emitCopies(*node, reader.op);
    for (Node *node : clones[place])
      if (node->early == place && !node->earlyAgain)
        node->earlyAgain = clone(*node, /*isEarly=*/true, reader.op);
      else
        node->again = clone(*node, /*isEarly=*/false, reader.op);
    if (getPass(reader.op) == PassKind::Backward && !isOfRegion(reader.op))
      chooseOperands(reader.op, [&](Value value) { return getSources(value); });
  }
}

/// Gives what was added the numbers behind those of the step, if it has any.
void Offer::number() {
  int64_t next = 0;
  for (Operation &op : step.getBody().front())
    next = std::max(next, getId(&op).value_or(-1) + 1);
  if (next == 0)
    return;
  for (Operation &op : step.getBody().front().without_terminator())
    if (!numbers.contains(&op))
      setInteger(&op, kIdAttrName, next++);
}

void Offer::run() {
  for (Operation &op : step.getBody().front())
    addNode(&op);
  findSegments();
  cutFurther();
  assignSegments();
  findEnds();
  findGroups();
  findReaders();
  findEarly();
  placeViews();
  findCopies();
  emit();
  number();
  // Whose readers have their own now.
  for (Node &node : llvm::reverse(nodes))
    if (node.isReshape && node.op->use_empty())
      node.op->erase();
}
