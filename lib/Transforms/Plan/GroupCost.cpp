//===- GroupCost.cpp - the seconds of a group of operators ----------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GroupCost.h"
#include "tandem/Analysis/Bytes.h"
#include "tandem/Dialect/NN/Convolution.h"
#include "tandem/Dialect/NN/Host.h"
#include "tandem/Dialect/Sched/Sched.h"
#include "tandem/Dialect/Sched/Workspace.h"
#include <cmath>

using namespace mlir;
using namespace tandem;
using namespace tandem::plan;

static std::string getTypeName(Value value) {
  std::string text;
  llvm::raw_string_ostream os(text);
  cast<RankedTensorType>(value.getType()).getElementType().print(os);
  return text;
}

GroupCost::GroupCost(const StepGraph &graph, const OperatorGroup &group,
                     const cost::Cluster &cluster)
    : graph(graph), groups(graph.getGroups()), group(group), cluster(cluster),
      device(sched::getDevice(graph.step)) {
  for (unsigned member = 0; member < group.members.size(); ++member)
    if (isa<nn::LibraryOpInterface>(graph.ops[group.members[member]].op))
      addLibraryCall(member);
  if (!isHostCopy())
    addKernels();
}

/// Whether it sends a value of the step to the host, or fetches it.
bool GroupCost::isHostCopy() const {
  return nn::isHostCopy(graph.ops[group.members.front()].op);
}

/// What `value` is a free view of, in this group.
unsigned GroupCost::getRoot(unsigned value) const {
  int producer = graph.values[value].producer;
  auto *it = llvm::find(group.members, static_cast<unsigned>(producer));
  if (producer < 0 || it == group.members.end() ||
      !isFree(graph.ops[producer].op))
    return value;
  return getRoot(graph.ops[producer].operands[0]);
}

void GroupCost::addTraffic(Work &work, unsigned value) {
  if (!groups.isSource[value] && !llvm::is_contained(work.traffic, value))
    work.traffic.push_back(value);
}

void GroupCost::addLibraryCall(unsigned member) {
  const OpNode &op = graph.ops[group.members[member]];
  Work &work = works.emplace_back();
  work.members.push_back(member);
  work.op = op.op->getName().getStringRef().str();
  work.type = getTypeName(op.op->getOperand(0));
  for (unsigned value : op.operands)
    addTraffic(work, value);
  for (unsigned value : op.results)
    addTraffic(work, value);
  work.isLibraryCall = true;
}

/// What a kernel of `lower` reads and writes in memory.
void GroupCost::addKernel(const FusionGroup &fused, ArrayRef<FusionGroup> all,
                          const CloneMap &clones) {
  Work work;
  for (Operation *op : fused.ops)
    if (unsigned member = clones.members.lookup(op);
        !isFree(graph.ops[group.members[member]].op))
      work.members.push_back(member);
  if (work.members.empty())
    return;
  llvm::DenseSet<unsigned> tables;
  for (unsigned member : work.members) {
    const OpNode &op = graph.ops[group.members[member]];
    // Of a table only the rows that are asked for are read.
    if (op.op->hasTrait<nn::Lookup>()) {
      tables.insert(op.operands[0]);
      addTraffic(work, op.results[0]);
    }
  }
  for (Value value : getGroupInputs(fused))
    if (unsigned root = getRoot(clones.values.lookup(value));
        !tables.contains(root))
      addTraffic(work, root);
  for (Value value : getGroupOutputs(fused, all))
    addTraffic(work, clones.values.lookup(value));
  const OpNode &first = graph.ops[group.members[work.members.front()]];
  work.op = first.op->getName().getStringRef().str();
  work.type = getTypeName(first.op->getResult(0));
  works.push_back(std::move(work));
}

/// Whether nobody outside of the group reads it in the step without choices:
/// clones do, and what may take one of several values.
bool GroupCost::isForClones(unsigned value) const {
  return llvm::all_of(graph.values[value].uses, [&](const Use &use) {
    if (use.op == graph.ops.size())
      return false;
    const OpNode &op = graph.ops[use.op];
    if (op.isOptional || llvm::is_contained(group.members, use.op))
      return true;
    return (op.isEither() || nn::isAgain(op.op)) && isForClones(op.results[0]);
  });
}

void GroupCost::addKernels() {
  Block block;
  CloneMap clones;
  // What is written for clones alone has no price, so that a plan without them
  // costs what it does without the offer.
  SmallVector<unsigned> written(llvm::make_filter_range(
      group.outputs, [&](unsigned value) { return !isForClones(value); }));
  cloneOperators(graph, group.members, written, block, clones);
  SmallVector<FusionGroup> groups = formFusionGroups(block, device.fusion);
  for (const FusionGroup &fused : groups)
    if (fused.kind == FusionGroup::Kind::Kernel)
      addKernel(fused, groups, clones);
  addInside(groups, clones);
}

/// Whether the group returns it, or a view of it.
bool GroupCost::isReturned(unsigned value) const {
  return llvm::any_of(group.outputs, [&](unsigned output) {
    return output == value || getRoot(output) == value;
  });
}

/// Whether it is there for the group alone: also a term of what a loop carries,
/// unless a product adds it up.
bool GroupCost::isInside(unsigned value) const {
  if (getRoot(value) != value)
    return false;
  if (graph.isTerm(value))
    return !isa<nn::MatmulOp>(graph.ops[graph.values[value].producer].op);
  return !isReturned(value);
}

static bool isConvolution(Operation *op) {
  return isa<nn::ConvOp, nn::ConvInputGradOp, nn::ConvWeightGradOp>(op);
}

/// What lies in memory between the kernels and library calls of the group.
void GroupCost::addInside(ArrayRef<FusionGroup> groups,
                          const CloneMap &clones) {
  llvm::DenseMap<unsigned, unsigned> lastReaders;
  for (auto [place, fused] : llvm::enumerate(groups))
    for (Value value : getGroupInputs(fused))
      lastReaders[getRoot(clones.values.lookup(value))] = place;
  for (auto [place, fused] : llvm::enumerate(groups))
    for (Value output : getGroupOutputs(fused, groups)) {
      unsigned value = clones.values.lookup(output);
      unsigned last = std::max<unsigned>(lastReaders.lookup(value), place);
      if (isInside(value))
        inside.push_back({value, unsigned(place), last});
    }
  for (auto [place, fused] : llvm::enumerate(groups))
    if (isConvolution(fused.ops.front()))
      convolutions.push_back(
          {clones.members.lookup(fused.ops.front()), unsigned(place)});
}

double GroupCost::getParts(const cost::Layout &layout) const {
  double parts = 1;
  for (unsigned axis = 0; axis < graph.mesh.getNumAxes(); ++axis)
    if (layout[axis] >= 0)
      parts *= graph.mesh.getSize(axis);
  return parts;
}

/// Of one device's part.
SmallVector<int64_t> GroupCost::getShape(Value value,
                                         const cost::Layout &layout) const {
  SmallVector<int64_t> shape(
      cast<RankedTensorType>(value.getType()).getShape());
  for (unsigned axis = 0; axis < graph.mesh.getNumAxes(); ++axis)
    if (layout[axis] >= 0)
      shape[layout[axis]] /= graph.mesh.getSize(axis);
  return shape;
}

/// Batch, if any, m, n and k of a product on one device. The result has all but
/// k, which is what remains of the operations.
SmallVector<int64_t, 4> GroupCost::getLoops(unsigned member, double flops,
                                            const cost::Layout &layout) const {
  Value result = graph.ops[group.members[member]].op->getResult(0);
  SmallVector<int64_t> shape = getShape(result, layout);
  int64_t n = shape.pop_back_val(), m = shape.pop_back_val(), batch = 1;
  for (int64_t size : shape)
    batch *= size;
  double elements = static_cast<double>(batch) * m * n;
  int64_t k = elements > 0 ? std::llround(flops / 2 / elements) : 0;
  if (batch == 1)
    return {m, n, k};
  return {batch, m, n, k};
}

/// Of copies between the device and the host.
double GroupCost::getCopySeconds(ArrayRef<unsigned> values, bool isToHost,
                                 LayoutOf layoutOf) const {
  double bytes = 0;
  for (unsigned value : values)
    if (graph.values[value].isOnHost)
      bytes += graph.values[value].bytes / getParts(layoutOf(value));
  return bytes > 0 ? cost::getHostSeconds(cluster, bytes, isToHost) : 0;
}

double GroupCost::getSeconds(ArrayRef<int64_t> shares,
                             LayoutOf layoutOf) const {
  double seconds = 0;
  for (const Work &work : works) {
    double flops = 0, bytes = 0;
    for (unsigned member : work.members)
      flops += graph.ops[group.members[member]].flops / shares[member];
    for (unsigned value : work.traffic)
      bytes += graph.values[value].bytes / getParts(layoutOf(value));
    SmallVector<int64_t, 4> loops;
    if (work.isLibraryCall) {
      unsigned member = work.members.front();
      const OpNode &op = graph.ops[group.members[member]];
      loops = getLoops(member, flops, layoutOf(op.results[0]));
    }
    seconds += cost::getComputeSeconds(cluster, work.type, flops, bytes,
                                       work.op, loops);
  }
  // Buckets follow each other on three queues: the slowest one decides.
  double copies =
      std::max(getCopySeconds(group.inputs, /*isToHost=*/false, layoutOf),
               getCopySeconds(group.outputs, /*isToHost=*/true, layoutOf));
  seconds = std::max(seconds + cluster.getCopyLoss() * copies, copies);
  bool isIterated = llvm::any_of(group.members, [&](unsigned member) {
    return spmd::getLoop(graph.ops[member].op).has_value();
  });
  return isIterated ? spmd::getIterations(graph.step) * seconds : seconds;
}

int64_t GroupCost::getWorkspace(const OpNode &op, LayoutOf layoutOf) const {
  nn::Convolution convolution(op.op);
  auto getLocal = [&](Value tensor) {
    if (tensor == op.op->getResult(0))
      return getShape(tensor, layoutOf(op.results[0]));
    bool isSecond = tensor == op.op->getOperand(1);
    return getShape(tensor, layoutOf(op.operands[isSecond]));
  };
  auto getElement = [](Value tensor) {
    return cast<RankedTensorType>(tensor.getType()).getElementType();
  };
  return sched::getConvolutionWorkspace(
      isa<nn::ConvWeightGradOp>(op.op), getElement(op.op->getOperand(0)),
      getElement(op.op->getResult(0)), getLocal(convolution.input),
      getLocal(convolution.weight), getLocal(convolution.output));
}

/// Copies of what lies on the host: of this group, and of the one before or
/// behind, which is copied meanwhile. New values are written over the old ones.
/// What is sent or fetched for a part of the step is a tensor of its own.
int64_t GroupCost::getCopiedBytes(LayoutOf layoutOf) const {
  int64_t alignment = device.getValueSpace().alignment;
  auto getBytes = [&](ArrayRef<unsigned> values) {
    int64_t bytes = 0;
    for (unsigned value : values)
      if (graph.values[value].isOnHost)
        bytes += llvm::alignTo(
            int64_t(graph.values[value].bytes / getParts(layoutOf(value))),
            alignment);
    return bytes;
  };
  return (isHostCopy() ? 1 : 2) *
         std::max(getBytes(group.inputs), getBytes(group.outputs));
}

int64_t GroupCost::getWorkspace(LayoutOf layoutOf) const {
  int64_t alignment = device.getValueSpace().alignment;
  auto getBytes = [&](unsigned place) {
    int64_t bytes = 0;
    for (const Inside &value : inside)
      if (value.first <= place && place <= value.last)
        bytes += llvm::alignTo(int64_t(graph.values[value.value].bytes /
                                       getParts(layoutOf(value.value))),
                               alignment);
    for (auto [member, ofCall] : convolutions)
      if (ofCall == place)
        bytes += llvm::alignTo(
            getWorkspace(graph.ops[group.members[member]], layoutOf),
            alignment);
    return bytes;
  };
  int64_t most = 0;
  for (const Inside &value : inside)
    most = std::max(most, getBytes(value.first));
  for (auto [member, place] : convolutions)
    most = std::max(most, getBytes(place));
  return most + getCopiedBytes(layoutOf);
}
