//===- JoinUpdates.cpp - one launch updates many parameters ---------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Kernels stay as they are, so that equal shapes share code: the joined one
// calls them. Where an update takes several launches (numbers of each parameter
// first), the first of all updates are one, then the second ones.
//
//===----------------------------------------------------------------------===//

#include "CommandOrder.h"
#include "Counts.h"
#include "Steps.h"
#include "tandem/Analysis/Lookups.h"
#include "tandem/Analysis/Origins.h"
#include "tandem/Conversion/Kernels/Kernels.h"
#include "tandem/Conversion/Lower/Lower.h"
#include "tandem/Dialect/NN/NN.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace tandem::lower {

#define GEN_PASS_DEF_JOINUPDATES
#include "tandem/Conversion/Lower/Passes.h.inc"

namespace {
/// Launches of one queue that may all run where the last of them does: nothing
/// behind the first uses what they write, or writes what they read.
class Group {
public:
  bool hasRoomFor(sched::LaunchOp launch, int64_t maxBuffers) const;
  void add(sched::LaunchOp launch);
  bool conflictsWith(sched::CommandOpInterface command) const;

  SmallVector<sched::LaunchOp> launches;

private:
  using Ranges = llvm::DenseMap<Value, SmallVector<BufferRange, 1>>;
  static int64_t countBuffers(sched::LaunchOp launch) {
    return launch.getInputs().size() + launch.getOutputs().size();
  }
  static bool overlaps(const Ranges &ranges, ValueRange buffers);
  static void insert(Ranges &ranges, ValueRange buffers);

  Ranges read, written;
  int64_t numBuffers = 0;
};

class Joiner {
public:
  Joiner(ModuleOp module, func::FuncOp function)
      : module(module), function(function), builder(module.getContext()),
        maxBuffers(getMaxBuffers(sched::getDevice(function))) {}
  void run();

private:
  /// In the order in which they run.
  using Groups = SmallVector<Group, 4>;

  void visit(sched::LaunchOp launch);
  bool isOfUpdate(sched::LaunchOp launch);
  bool canJoin(sched::LaunchOp launch);
  void join(const Group &group, Operation *before);
  void join(Groups &queue, Operation *before);
  void join(sched::QueueAttr queue, Operation *before);
  func::FuncOp createKernel(const Group &group);
  func::FuncOp getKernel(sched::LaunchOp launch) {
    return symbols.lookupNearestSymbolFrom<func::FuncOp>(
        launch, launch.getKernelAttr());
  }

  ModuleOp module;
  func::FuncOp function;
  OpBuilder builder;
  SymbolTableCollection symbols;
  llvm::MapVector<sched::QueueAttr, Groups> groups;
  int64_t maxBuffers;     ///< of a launch
  bool isChecked = false; ///< What follows is behind a check: updates.
};
} // namespace

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

bool Group::overlaps(const Ranges &ranges, ValueRange buffers) {
  return llvm::any_of(buffers, [&](Value buffer) {
    BufferRange range = getRange(buffer);
    auto known = ranges.find(range.root);
    return known != ranges.end() &&
           llvm::any_of(known->second, [&](const BufferRange &other) {
             return range.overlaps(other);
           });
  });
}

void Group::insert(Ranges &ranges, ValueRange buffers) {
  for (Value buffer : buffers) {
    BufferRange range = getRange(buffer);
    auto &known = ranges[range.root];
    if (!llvm::is_contained(known, range))
      known.push_back(range);
  }
}

bool Group::conflictsWith(sched::CommandOpInterface command) const {
  SmallVector<Value> reads = command.getReads(), writes = command.getWrites();
  return overlaps(written, reads) || overlaps(written, writes) ||
         overlaps(read, writes);
}

/// A timeline shows one stage and strand per command.
bool Group::hasRoomFor(sched::LaunchOp launch, int64_t maxBuffers) const {
  sched::LaunchOp first = launches.front();
  return numBuffers + countBuffers(launch) <= maxBuffers &&
         first.getStage() == launch.getStage() &&
         first.getStrand() == launch.getStrand();
}

void Group::add(sched::LaunchOp launch) {
  numBuffers += countBuffers(launch);
  launches.push_back(launch);
  insert(read, launch.getInputs());
  insert(written, launch.getOutputs());
}

//===----------------------------------------------------------------------===//
// Joining
//===----------------------------------------------------------------------===//

/// Whether the launch writes arguments, or, behind the checks, what is little
/// beside what it reads: all that a group writes is held at once.
bool Joiner::isOfUpdate(sched::LaunchOp launch) {
  constexpr int64_t kLittle = 4 << 10, kShare = 8;
  int64_t most = std::max(kLittle, countBytes(launch.getInputs()) / kShare);
  return llvm::all_of(launch.getOutputs(), [&](Value buffer) {
    bool isArgument = isa<BlockArgument>(getRange(buffer).root);
    return isArgument || (isChecked && countBytes(ValueRange(buffer)) <= most);
  });
}

/// Whether the kernel needs nothing but buffers as well: no coordinate, ordinal
/// or names of what it looks up.
bool Joiner::canJoin(sched::LaunchOp launch) {
  func::FuncOp kernel = getKernel(launch);
  return isOfUpdate(launch) && getKernelAxes(kernel).empty() &&
         llvm::none_of(kernel.front(), [](Operation &op) {
           return isa<nn::PhiloxOp, func::CallOp>(op) || readsIndices(&op);
         });
}

/// What the launches call, one after the other.
func::FuncOp Joiner::createKernel(const Group &group) {
  SmallVector<Type> inputs, results;
  for (sched::LaunchOp launch : group.launches) {
    FunctionType type = getKernel(launch).getFunctionType();
    llvm::append_range(inputs, type.getInputs());
    llvm::append_range(results, type.getResults());
  }
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToEnd(module.getBody());
  Location loc = builder.getUnknownLoc();
  auto kernel = func::FuncOp::create(builder, loc, "updates",
                                     builder.getFunctionType(inputs, results));
  kernel.setPrivate();
  kernel->setAttr(sched::kKernelAttrName, builder.getUnitAttr());
  Block *body = kernel.addEntryBlock();
  builder.setInsertionPointToStart(body);
  ArrayRef<BlockArgument> left = body->getArguments();
  SmallVector<Value> made;
  for (sched::LaunchOp launch : group.launches) {
    size_t count = launch.getInputs().size();
    auto call =
        func::CallOp::create(builder, loc, getKernel(launch),
                             SmallVector<Value>(left.take_front(count)));
    llvm::append_range(made, call.getResults());
    left = left.drop_front(count);
  }
  func::ReturnOp::create(builder, loc, made);
  symbols.getSymbolTable(module).insert(kernel);
  return kernel;
}

void Joiner::join(const Group &group, Operation *before) {
  if (group.launches.size() == 1)
    return group.launches.front()->moveBefore(before);
  SmallVector<Value> inputs, outputs;
  SmallVector<Location> places;
  SmallVector<Origin> origins;
  int64_t flops = 0, bytes = 0;
  for (sched::LaunchOp launch : group.launches) {
    llvm::append_range(inputs, launch.getInputs());
    llvm::append_range(outputs, launch.getOutputs());
    places.push_back(launch.getLoc());
    llvm::append_range(origins, getOrigins(launch.getLoc()));
    origins.resize(outputs.size());
    flops += launch.getFlops();
    bytes += launch.getBytes();
  }
  sched::LaunchOp last = group.launches.back();
  builder.setInsertionPoint(before);
  sched::LaunchOp::create(
      builder, setOrigins(builder.getFusedLoc(places), origins),
      createKernel(group).getName(), inputs, outputs, last.getQueue(),
      last.getStage(), last.getStrand(), last.getLabelAttr(), flops, bytes);
  for (sched::LaunchOp launch : group.launches)
    launch.erase();
}

/// Launches that are joined with no other stay where they are, if none is.
void Joiner::join(Groups &queue, Operation *before) {
  if (llvm::any_of(
          queue, [](const Group &group) { return group.launches.size() > 1; }))
    for (const Group &group : queue)
      join(group, before);
  queue.clear();
}

/// A launch runs behind the last group that it has to wait for, in the first
/// that has room.
void Joiner::visit(sched::LaunchOp launch) {
  constexpr size_t kMostGroups = 8;
  Groups &queue = groups[launch.getQueue()];
  auto *last = llvm::find_if(llvm::reverse(queue), [&](const Group &group) {
                 return group.conflictsWith(launch);
               }).base();
  if (!canJoin(launch)) {
    if (last != queue.begin())
      join(queue, launch);
    return;
  }
  auto *place = std::find_if(last, queue.end(), [&](const Group &group) {
    return group.hasRoomFor(launch, maxBuffers);
  });
  if (place != queue.end())
    return place->add(launch);
  if (queue.size() == kMostGroups)
    join(queue, launch);
  queue.emplace_back().add(launch);
}

/// No event comes between the launches of a group, and no other command.
void Joiner::join(sched::QueueAttr queue, Operation *before) {
  if (auto group = groups.find(queue); group != groups.end())
    join(group->second, before);
}

void Joiner::run() {
  for (Operation &op : llvm::make_early_inc_range(function.front())) {
    isChecked |= isa<sched::CheckOp>(op);
    if (auto launch = dyn_cast<sched::LaunchOp>(op))
      visit(launch);
    else if (auto command = dyn_cast<sched::CommandOpInterface>(op))
      join(command.getQueue(), &op);
    else if (auto record = dyn_cast<sched::RecordOp>(op))
      join(record.getQueue(), &op);
    else if (auto wait = dyn_cast<sched::WaitOp>(op))
      join(wait.getQueue(), &op);
    else if (isa<sched::BeginLoopOp, sched::EndLoopOp, func::ReturnOp>(op))
      for (auto &[queue, groups] : groups)
        join(groups, &op);
  }
}

namespace {
struct JoinUpdatesPass : impl::JoinUpdatesBase<JoinUpdatesPass> {
  void runOnOperation() override {
    func::FuncOp function = getStepFunction(getOperation());
    if (!function || failed(verifyCommands(function)))
      return signalPassFailure();
    Joiner(getOperation(), function).run();
  }
};
} // namespace

} // namespace tandem::lower
