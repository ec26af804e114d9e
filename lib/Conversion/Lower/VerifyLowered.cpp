//===- VerifyLowered.cpp - the exit check of lower ------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CommandOrder.h"
#include "Counts.h"
#include "Steps.h"
#include "tandem/Analysis/StepBody.h"
#include "tandem/Analysis/StepFacts.h"
#include "tandem/Conversion/Lower/Lower.h"
#include "tandem/Dialect/SPMD/Host.h"
#include "tandem/Dialect/Sched/Host.h"
#include <map>
#include <queue>
#include <set>

using namespace mlir;

namespace tandem::lower {

#define GEN_PASS_DEF_VERIFYLOWERED
#include "tandem/Conversion/Lower/Passes.h.inc"

static bool isOnHost(sched::AllocOp alloc) {
  return alloc->hasAttr(sched::kHostBufferAttrName);
}

/// Bytes of the arena of the buffers on the host, or of the others.
static int64_t getArena(func::FuncOp function, bool onHost) {
  auto bytes =
      function->getParentOfType<ModuleOp>()->getAttrOfType<IntegerAttr>(
          onHost ? sched::kHostArenaAttrName : sched::kArenaAttrName);
  return bytes ? bytes.getInt() : 0;
}

static LogicalResult verifyPlace(sched::AllocOp alloc, int64_t arena) {
  int64_t alignment = sched::getDevice(alloc).getValueSpace().alignment;
  int64_t bytes = countBytes(ValueRange(alloc.getBuffer()));
  if (!alloc.getOffset())
    return alloc.emitError("buffer has no offset in the arena");
  int64_t offset = *alloc.getOffset();
  if (offset < 0 || offset + bytes > arena)
    return alloc.emitError("buffer lies at bytes ")
           << offset << " to " << offset + bytes << " of an arena of " << arena;
  if (offset % alignment != 0)
    return alloc.emitError("buffer lies at byte ")
           << offset << ", expected a multiple of the alignment " << alignment;
  return success();
}

//===----------------------------------------------------------------------===//
// Uses of one buffer
//===----------------------------------------------------------------------===//

namespace {
/// The uses of one root so far, by ranges of its bytes. Two uses of the same
/// bytes, one of them writing, must be ordered; uses come in the order of the
/// text, which no event goes against.
class UseMap {
public:
  explicit UseMap(const CommandOrder &order) : order(order) {
    Clock none(order.getNumQueues(), 0);
    pieces.insert({0, {none, none}});
  }
  LogicalResult add(const Access &access);

private:
  /// The last commands of each queue.
  struct Uses {
    Clock reads, writes;
  };
  using Pieces = std::map<int64_t, Uses>;
  Pieces::iterator split(int64_t at);
  LogicalResult verifyAfter(const Clock &uses, const Access &access);

  const CommandOrder &order;
  Pieces pieces; ///< by their first byte
};
} // namespace

/// The piece that begins at this byte.
UseMap::Pieces::iterator UseMap::split(int64_t at) {
  auto piece = std::prev(pieces.upper_bound(at));
  return piece->first == at ? piece : pieces.insert({at, piece->second}).first;
}

LogicalResult UseMap::verifyAfter(const Clock &uses, const Access &access) {
  const Clock &known = order.getKnown(access.command);
  for (auto [queue, position] : llvm::enumerate(uses)) {
    if (position <= known[queue])
      continue;
    InFlightDiagnostic diagnostic = access.command->emitError(
        "uses bytes of a buffer that another command uses at the same time: no "
        "event orders them");
    diagnostic.attachNote(order.getCommand(queue, position)->getLoc())
        << "the other command";
    return diagnostic;
  }
  return success();
}

LogicalResult UseMap::add(const Access &access) {
  if (access.range.begin >= access.range.end)
    return success();
  unsigned queue = order.getQueue(access.command);
  auto end = split(access.range.end);
  for (auto piece = split(access.range.begin); piece != end; ++piece) {
    auto &[reads, writes] = piece->second;
    if (failed(verifyAfter(writes, access)) ||
        (access.isWrite && failed(verifyAfter(reads, access))))
      return failure();
    (access.isWrite ? writes : reads)[queue] =
        order.getPosition(access.command);
  }
  return success();
}

/// The uses of one root are ordered, and an alloc or result is written first.
static LogicalResult verifyUses(ArrayRef<Access> uses,
                                const CommandOrder &order) {
  UseMap map(order);
  for (const Access &use : uses)
    if (failed(map.add(use)))
      return failure();
  if (isa<BlockArgument>(uses.front().range.root) || uses.front().isWrite)
    return success();
  return uses.front().command->emitError(
      "reads a buffer that no command wrote before");
}

//===----------------------------------------------------------------------===//
// Buffers with bytes in common
//===----------------------------------------------------------------------===//

namespace {
struct Placed {
  sched::AllocOp alloc;
  Lifetime life;
  int64_t begin, end;
  size_t firstUse; ///< in the order of the text
};

/// Goes over the arena from its first byte to its last one. The buffers that
/// have a byte are used one after the other, so a buffer has to be compared
/// with the two between which its turn is.
class ArenaSweep {
public:
  explicit ArenaSweep(std::vector<Placed> buffers);
  LogicalResult verify();

private:
  using Turn = std::pair<size_t, const Placed *>;
  LogicalResult add(const Placed &buffer);

  std::vector<Placed> buffers;
  std::set<Turn> turns;
};
} // namespace

static LogicalResult reportOverlap(sched::AllocOp a, sched::AllocOp b) {
  InFlightDiagnostic diagnostic = b->emitError("buffer at bytes ")
                                  << *b.getOffset()
                                  << " overlaps another one that is alive at "
                                     "the same time, at bytes "
                                  << *a.getOffset();
  diagnostic.attachNote(a.getLoc()) << "the other buffer";
  return diagnostic;
}

ArenaSweep::ArenaSweep(std::vector<Placed> placed)
    : buffers(std::move(placed)) {
  llvm::sort(buffers, [](const Placed &a, const Placed &b) {
    return std::tie(a.begin, a.firstUse) < std::tie(b.begin, b.firstUse);
  });
}

LogicalResult ArenaSweep::add(const Placed &buffer) {
  auto turn = turns.insert({buffer.firstUse, &buffer}).first;
  if (turn != turns.begin())
    if (const Placed *before = std::prev(turn)->second;
        !before->life.diesBefore(buffer.life))
      return reportOverlap(before->alloc, buffer.alloc);
  if (std::next(turn) != turns.end())
    if (const Placed *after = std::next(turn)->second;
        !buffer.life.diesBefore(after->life))
      return reportOverlap(after->alloc, buffer.alloc);
  return success();
}

LogicalResult ArenaSweep::verify() {
  auto endsLater = [](const Placed *a, const Placed *b) {
    return a->end > b->end;
  };
  std::priority_queue<const Placed *, std::vector<const Placed *>,
                      decltype(endsLater)>
      ends(endsLater);
  for (const Placed &buffer : buffers) {
    for (; !ends.empty() && ends.top()->end <= buffer.begin; ends.pop())
      turns.erase({ends.top()->firstUse, ends.top()});
    if (failed(add(buffer)))
      return failure();
    ends.push(&buffer);
  }
  return success();
}

/// Between two uses of an alloc no other alloc's use may fall: the values would
/// be lost.
static LogicalResult
verifyArena(func::FuncOp function, const CommandOrder &order,
            const llvm::DenseMap<Value, SmallVector<Access>> &accesses,
            bool onHost) {
  llvm::DenseMap<Operation *, size_t> text;
  for (auto [index, command] : llvm::enumerate(order.getCommands()))
    text[command] = index;
  std::vector<Placed> buffers;
  for (auto alloc : function.getOps<sched::AllocOp>()) {
    auto uses = accesses.find(alloc.getBuffer());
    int64_t bytes = countBytes(alloc->getResults());
    if (uses == accesses.end() || bytes == 0 || isOnHost(alloc) != onHost)
      continue;
    int64_t begin = *alloc.getOffset();
    SmallVector<Operation *> users = getUsers(uses->second, order);
    size_t first = text.at(users.front());
    for (Operation *user : users)
      first = std::min(first, text.at(user));
    buffers.push_back(
        {alloc, getLifetime(users, order), begin, begin + bytes, first});
  }
  return ArenaSweep(std::move(buffers)).verify();
}

//===----------------------------------------------------------------------===//
// The step
//===----------------------------------------------------------------------===//

static LogicalResult verify(func::FuncOp function) {
  for (auto alloc : function.getOps<sched::AllocOp>())
    if (failed(verifyPlace(alloc, getArena(function, isOnHost(alloc)))))
      return failure();
  CommandOrder order(function);
  auto accesses = getAccesses(order);
  // In the order of the text, so that the first error is always the same one.
  llvm::SmallPtrSet<void *, 32> seen;
  for (sched::CommandOpInterface command : order.getCommands()) {
    SmallVector<Value> buffers = command.getReads();
    llvm::append_range(buffers, command.getWrites());
    for (Value buffer : buffers) {
      Value root = getRange(buffer).root;
      if (seen.insert(root.getAsOpaquePointer()).second &&
          failed(verifyUses(accesses[root], order)))
        return failure();
    }
  }
  return failure(
      failed(verifyArena(function, order, accesses, /*onHost=*/false)) ||
      failed(verifyArena(function, order, accesses, /*onHost=*/true)));
}

/// What lies on the host is touched by copies on queues that copy alone.
static LogicalResult verifyHost(func::FuncOp function) {
  for (sched::CommandOpInterface command :
       function.getBody().front().getOps<sched::CommandOpInterface>()) {
    if (isa<sched::CopyOp>(command) &&
        command.getQueue().getRole() == sched::QueueRole::Copy)
      continue;
    SmallVector<Value> buffers = command.getReads();
    llvm::append_range(buffers, command.getWrites());
    for (Value buffer : buffers) {
      Value root = getRange(buffer).root;
      auto alloc = root.getDefiningOp<sched::AllocOp>();
      if (alloc ? isOnHost(alloc) : spmd::isOnHost(function, root))
        return command->emitError("uses ")
               << (alloc ? "a buffer" : "an argument")
               << " that lies on the host ('"
               << (alloc ? sched::kHostBufferAttrName : spmd::kHostAttrName)
               << "'), expected a copy on a queue that copies";
    }
  }
  return success();
}

static LogicalResult verifyResults(func::FuncOp function) {
  for (auto result : function.getBody().front().getOps<sched::ResultOp>())
    if (result.getIndex() >= function.getNumResults())
      return result.emitError()
             << "result is " << result.getIndex() << ", expected one of the "
             << function.getNumResults() << " of the step";
  return success();
}

namespace {
struct VerifyLoweredPass : impl::VerifyLoweredBase<VerifyLoweredPass> {
  void runOnOperation() override {
    func::FuncOp function = getStepFunction(getOperation());
    auto arena =
        getOperation()->getAttrOfType<IntegerAttr>(sched::kArenaAttrName);
    if (!function || failed(verifyCommands(function)) ||
        failed(verifyResults(function)) || failed(verifyHost(function)))
      return signalPassFailure();
    if (!arena)
      getOperation().emitError("module has no attribute ")
          << sched::kArenaAttrName;
    if (!arena || failed(verify(function)) ||
        failed(verifyLayouts(function, spmd::getMesh(function))) ||
        failed(verifyDeclared(function)))
      signalPassFailure();
  }
};
} // namespace

} // namespace tandem::lower
