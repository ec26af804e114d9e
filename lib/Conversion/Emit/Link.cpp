//===- Link.cpp - a Program of actions ------------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Link.h"
#include "Declarations.h"
#include "LinkBuffers.h"
#include "Strands.h"
#include "tandem/Analysis/Origins.h"
#include "tandem/Analysis/UserLocation.h"
#include "tandem/Conversion/Emit/CutSums.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Dialect/Sched/Host.h"
#include "tandem/Dialect/Sched/Points.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/TypeSwitch.h"
#include <limits>
#include <map>
#include <set>

using namespace mlir;

namespace tandem {
namespace {
/// A check of an action that runs once, and where it stands: behind so many
/// collectives over the axis of points.
struct PlacedCheck {
  int64_t segment = 0;
  size_t numMeetings = 0;
  int64_t point = 0;
  rt::Check check;
  std::string name;
};

/// A run whose slices are being listed.
struct Begun {
  LinkMap map;
  /// By those of the action.
  std::map<uint32_t, uint32_t> events;
  /// At the ends of other queues.
  std::vector<uint32_t> ends;
};

/// A sum that began: its queues go on beside later runs.
struct OpenSum {
  sched::RunOp op;
  LinkMap map;
  /// What its commands record, by what it is in the action.
  std::map<uint32_t, uint32_t> events;
  /// Commands behind one that waits for a queue which goes on.
  std::vector<const rt::Command *> late;
  /// Of the queues that go on.
  std::vector<uint32_t> ends;
};

/// Lists what one point runs.
class PointLinker {
public:
  PointLinker(func::FuncOp function, int64_t point, uint32_t axis,
              const ActionPrograms &actions,
              const std::vector<PlacedCheck> &checks, bool isFull,
              rt::ProgramBuilder &builder)
      : function(function), point(point), axis(axis), actions(actions),
        listing(listRuns(function, actions)), checks(checks), isFull(isFull),
        builder(builder) {}
  LogicalResult run();

private:
  void runGroup(sched::RunOp first);
  void run(const Slice &slice);
  void begin(sched::RunOp op);
  void end(sched::RunOp op);
  std::set<uint32_t> getOtherQueues(sched::RunOp op) const;
  std::set<uint32_t> beginQueues(sched::RunOp op);
  bool listEvent(const rt::Command &command, sched::RunOp op,
                 std::map<uint32_t, uint32_t> &events);
  void beginSum(sched::RunOp op);
  void endSum(Operation *op);
  uint32_t getQueue(const rt::Command &command, sched::RunOp op) const;
  void send(Operation *op);
  void sendToPoint(sched::SendOp op);
  void receive(sched::ReceiveOp op);
  uint32_t getCopyQueue(unsigned number);
  uint32_t beginEarly(Operation *op);
  uint32_t copyBeside(Value source, Value copy, uint32_t queue, StringRef name);
  void sendToHost(sched::ToHostOp op);
  void fetch(sched::FromHostOp op);
  void fill(sched::ZerosOp op);
  void stack(sched::StackOp op);
  void copy(Value value, rt::BufferRef place);
  LogicalResult give(sched::GiveOp op);
  void add(const rt::Command &command, sched::RunOp op, const LinkMap &map);
  std::string getPrefix(sched::RunOp op) const;
  bool endsInUpdate(Operation *lastPass) const;
  void addChecks(int64_t segment, bool isAll);
  void waitForChecks(int64_t segment, uint32_t queue);
  void waitFor(ValueRange values);
  void waitForSends();
  template <typename OpT>
  std::pair<rt::CommandInfo, rt::Transfer>
  beginTransfer(OpT op, int64_t from, int64_t to, Value value, uint32_t event);

  func::FuncOp function;
  int64_t point;
  uint32_t axis;
  const ActionPrograms &actions;
  Listing listing;
  const std::vector<PlacedCheck> &checks;
  bool isFull;
  rt::ProgramBuilder &builder;
  LinkBuffers buffers;
  std::map<Operation *, Begun> begun;
  /// Where runs began beside which the point receives.
  llvm::DenseMap<Operation *, uint32_t> beginEvents;
  /// Events of transfers and fetches that the queue of computation has not
  /// waited for.
  llvm::DenseMap<Value, uint32_t> received;
  /// Where what waits on the host is there.
  llvm::DenseMap<Value, uint32_t> sentToHost;
  llvm::MapVector<Operation *, OpenSum> sums;
  /// Behind which run the queue of computation waits for what was sent.
  std::vector<std::pair<int64_t, uint32_t>> sent;
  int64_t numRuns = 0;
  /// Those of the group that have not ended, and what it has sent.
  llvm::DenseSet<Operation *> unfinished, listed;
  /// Behind the last pass of a section.
  bool isUpdate = false;
  size_t nextCheck = 0, numMeetings = 0;
  /// How many checks a queue beside that of computation has waited for.
  std::map<uint32_t, size_t> numWaited;
};
} // namespace

/// The segment of an action that runs once, from its name `p0.2`; -1 if it
/// does not.
static int64_t getSegment(StringRef action) {
  int64_t segment = -1;
  if (action.consume_front("p") &&
      !action.split('.').second.getAsInteger(10, segment))
    return segment;
  return -1;
}

static bool isMeeting(const rt::Command &command, uint32_t axis) {
  auto *collective = std::get_if<rt::Collective>(&command.operation);
  return collective && llvm::is_contained(collective->axes, axis);
}

static bool writesArgument(rt::Command command) {
  bool writes = false;
  visitBuffers(command, [&](rt::BufferRef &ref, bool isWritten) {
    writes |= isWritten && ref.space == rt::Space::Argument;
  });
  return writes;
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

/// The checks of all points, in one order that each can keep.
static std::vector<PlacedCheck> findChecks(const ActionPrograms &actions,
                                           uint32_t axis) {
  std::vector<PlacedCheck> checks;
  for (const auto &entry : actions) {
    StringRef name = entry.getKey();
    int64_t point = 0;
    size_t numMeetings = 0;
    name.drop_front().split('.').first.getAsInteger(10, point);
    for (const rt::Command &command :
         entry.getValue()->rankPrograms[0].commands) {
      numMeetings += isMeeting(command, axis);
      if (auto *check = std::get_if<rt::Check>(&command.operation))
        checks.push_back(
            {getSegment(name), numMeetings, point, *check, command.name});
    }
  }
  std::stable_sort(checks.begin(), checks.end(),
                   [](const PlacedCheck &a, const PlacedCheck &b) {
                     return std::tie(a.segment, a.numMeetings, a.point) <
                            std::tie(b.segment, b.numMeetings, b.point);
                   });
  return checks;
}

/// Takes part in the checks of other points that come next: those behind as
/// many meetings as there were, or all of the segment.
void PointLinker::addChecks(int64_t segment, bool isAll) {
  for (; nextCheck < checks.size(); ++nextCheck) {
    const PlacedCheck &next = checks[nextCheck];
    bool isDue =
        next.segment < segment ||
        (next.segment == segment && (isAll || next.numMeetings <= numMeetings));
    if (next.point == point || !isDue)
      return;
    rt::Check check = next.check;
    check.source.reset();
    check.axes = {axis};
    builder.add({.name = next.name, .queue = kCompute}, std::move(check));
  }
}

/// Arguments are written behind the checks of all points.
void PointLinker::waitForChecks(int64_t segment, uint32_t queue) {
  addChecks(segment, true);
  if (queue != kCompute &&
      std::exchange(numWaited[queue], nextCheck) < nextCheck)
    builder.waitEvent(queue, builder.recordEvent(kCompute));
}

//===----------------------------------------------------------------------===//
// Events
//===----------------------------------------------------------------------===//

/// Waits for transfers and sums that make `values`, or what they are rows of.
void PointLinker::waitFor(ValueRange values) {
  for (Value value : values) {
    if (auto row = value.getDefiningOp<sched::RowOp>())
      value = row.getWhole();
    endSum(value.getDefiningOp());
    if (auto found = received.find(value); found != received.end()) {
      builder.waitEvent(kCompute, found->second);
      received.erase(found);
    }
  }
}

/// A buffer that was sent may be written again behind so many runs.
void PointLinker::waitForSends() {
  llvm::erase_if(sent, [&](auto &entry) {
    auto [run, event] = entry;
    if (run <= numRuns)
      builder.waitEvent(kCompute, event);
    return run <= numRuns;
  });
}

/// A transfer on the queue of its points, behind an event.
template <typename OpT>
std::pair<rt::CommandInfo, rt::Transfer>
PointLinker::beginTransfer(OpT op, int64_t from, int64_t to, Value value,
                           uint32_t event) {
  builder.waitEvent(builder.transferQueue(from, to), event);
  auto type = cast<RankedTensorType>(value.getType());
  return {{.name = op->getName().stripDialect().str(),
           .location = getUserLocations(op.getLoc()),
           .bytes = buffers.get(value).bytes,
           .strand = int32_t(op.getMicrobatch().value_or(0))},
          {.axis = axis,
           .from = from,
           .to = to,
           .type = *getElementType(op, type.getElementType()),
           .shape = type.getShape().vec(),
           .tag = int64_t(op.getTag())}};
}

void PointLinker::sendToPoint(sched::SendOp op) {
  Value value = op.getValue();
  waitFor(value);
  auto [info, transfer] = beginTransfer(op, point, op.getTo(), value,
                                        builder.recordEvent(kCompute));
  uint32_t queue = builder.transferQueue(transfer.from, transfer.to);
  builder.send(info, transfer, buffers.get(value));
  sent.push_back({numRuns + int64_t(unfinished.size()) + buffers.getRuns(op),
                  builder.recordEvent(queue)});
}

/// Where the run began beside which `op` takes what comes from elsewhere.
uint32_t PointLinker::beginEarly(Operation *op) {
  Operation *first = buffers.getFirstRun(op);
  return first ? beginEvents.at(first) : builder.recordEvent(kCompute);
}

void PointLinker::receive(sched::ReceiveOp op) {
  Value value = op.getValue();
  auto [info, transfer] =
      beginTransfer(op, op.getFrom(), point, value, beginEarly(op));
  if (Origin origin = getOrigin(value); origin.id >= 0)
    info.origins = {{origin.id, 0}};
  uint32_t queue = builder.transferQueue(transfer.from, transfer.to);
  builder.receive(info, transfer, buffers.get(value));
  received[value] = builder.recordEvent(queue);
}

/// The queue of copies in a direction, if no action has it as well.
uint32_t PointLinker::getCopyQueue(unsigned number) {
  std::string name =
      sched::str(sched::getCopyQueue(function.getContext(), number));
  const std::vector<rt::Queue> &known = builder.get().queues;
  auto found = llvm::find_if(
      known, [&](const rt::Queue &queue) { return queue.name == name; });
  return found == known.end() ? builder.addQueue(rt::QueueRole::Copy, name)
                              : found - known.begin();
}

/// Behind events that its queue has waited for; records that it is done.
uint32_t PointLinker::copyBeside(Value source, Value copy, uint32_t queue,
                                 StringRef name) {
  rt::BufferRef from = buffers.get(source), to = buffers.get(copy);
  builder.add({.name = name.str(),
               .location = getUserLocations(copy.getLoc()),
               .queue = queue,
               .bytes = 2 * to.bytes},
              rt::Copy{from, to});
  return builder.recordEvent(queue);
}

void PointLinker::sendToHost(sched::ToHostOp op) {
  waitFor(op.getValue());
  uint32_t queue = getCopyQueue(sched::kToHostQueue);
  builder.waitEvent(queue, builder.recordEvent(kCompute));
  uint32_t event = copyBeside(op.getValue(), op.getCopy(), queue, "to_host");
  sentToHost[op.getCopy()] = event;
  sent.push_back(
      {numRuns + int64_t(unfinished.size()) + buffers.getRuns(op), event});
}

void PointLinker::fetch(sched::FromHostOp op) {
  uint32_t queue = getCopyQueue(sched::kFromHostQueue);
  builder.waitEvent(queue, beginEarly(op));
  builder.waitEvent(queue, sentToHost.at(op.getValue()));
  received[op.getCopy()] =
      copyBeside(op.getValue(), op.getCopy(), queue, "from_host");
}

static bool isSend(Operation *op) {
  return isa<sched::SendOp, sched::ToHostOp>(op);
}

/// To another point or to the host. What leaves together waits for no part of
/// it.
void PointLinker::send(Operation *op) {
  if (!listed.insert(op).second)
    return;
  if (auto copy = dyn_cast<sched::ToHostOp>(op))
    sendToHost(copy);
  else
    sendToPoint(cast<sched::SendOp>(op));
  if (!isSend(op->getNextNode()))
    waitForSends();
}

void PointLinker::fill(sched::ZerosOp op) {
  rt::BufferRef buffer = buffers.get(op.getResult(0));
  builder.add({.name = "zeros", .queue = kCompute, .bytes = buffer.bytes},
              rt::Fill{buffer, {0}});
}

void PointLinker::copy(Value value, rt::BufferRef place) {
  waitFor(value);
  builder.add({.name = "copy", .queue = kCompute, .bytes = 2 * place.bytes},
              rt::Copy{buffers.get(value), place});
}

/// A row that lies in the whole is there; another one is copied.
void PointLinker::stack(sched::StackOp op) {
  rt::BufferRef whole = buffers.get(op.getWhole());
  int64_t bytes = whole.bytes / op.getRows().size();
  for (auto [number, row] : llvm::enumerate(op.getRows())) {
    rt::BufferRef place =
        rt::ProgramBuilder::slice(whole, int64_t(number) * bytes, bytes);
    rt::BufferRef made = buffers.get(row);
    if (made.space != place.space || made.index != place.index ||
        made.offset.base != place.offset.base)
      copy(row, place);
  }
}

/// A result that lies in an argument is there; another one is copied.
LogicalResult PointLinker::give(sched::GiveOp op) {
  rt::BufferRef made = buffers.get(op.getValue());
  rt::BufferRef place = builder.result(op.getIndex());
  if (made.space != place.space || made.index != place.index)
    copy(op.getValue(), place);
  return success();
}

//===----------------------------------------------------------------------===//
// Runs
//===----------------------------------------------------------------------===//

/// What an action begins its names with (`actionOf` in tandem_rt/timeline.h):
/// `0F3` with section and microbatch, `1U` with the point; nothing in front of
/// the passes; `0S` with the section.
std::string PointLinker::getPrefix(sched::RunOp op) const {
  if (op.isOfSection())
    return op.getPassName();
  if (op.isSum())
    return (op.getSection() + "S").str();
  return isUpdate ? (Twine(point) + "U").str() : "";
}

/// Whether what stands behind the last pass of a section updates values: an
/// evaluation has results alone there.
bool PointLinker::endsInUpdate(Operation *lastPass) const {
  for (Operation *op = lastPass; op; op = op->getNextNode())
    if (auto run = dyn_cast<sched::RunOp>(op); run && !run.isOfSection())
      for (const rt::Command &command :
           actions.lookup(run.getAction())->rankPrograms[0].commands)
        if (writesArgument(command))
          return true;
  return false;
}

/// The iteration of an action, which its kernels may take, is the microbatch.
static void fixIteration(rt::Command &command, int64_t microbatch) {
  auto *launch = std::get_if<rt::Launch>(&command.operation);
  if (!launch)
    return;
  for (rt::Affine &scalar : launch->scalars)
    scalar.base += std::exchange(scalar.perIteration, 0) * microbatch;
}

/// Lists a command of an action with the buffers of the point.
void PointLinker::add(const rt::Command &command, sched::RunOp op,
                      const LinkMap &map) {
  rt::Command copy = command;
  map.apply(copy);
  auto *check = std::get_if<rt::Check>(&copy.operation);
  if (check)
    check->axes = {axis};
  if (auto microbatch = op.getMicrobatch()) {
    copy.strand = int32_t(*microbatch);
    fixIteration(copy, *microbatch);
  }
  // A check has one name on all points.
  std::string prefix = check ? "" : getPrefix(op);
  std::string name = prefix.empty() ? copy.name : prefix + " " + copy.name;
  builder.add({name, copy.location, getQueue(copy, op), copy.flops, copy.bytes,
               copy.stage, copy.strand, copy.workspace, copy.origins},
              std::move(copy.operation));
}

/// Sums have queues of their own, so that no collective of a later pass stands
/// behind one.
uint32_t PointLinker::getQueue(const rt::Command &command,
                               sched::RunOp op) const {
  if (!op.isSum() || command.queue == kCompute)
    return command.queue;
  return builder.commQueue(kSumQueuePrefix.str() +
                           builder.get().queues[command.queue].name);
}

/// The queues of an action beside that of computation.
std::set<uint32_t> PointLinker::getOtherQueues(sched::RunOp op) const {
  std::set<uint32_t> queues;
  for (const rt::Command &command :
       actions.lookup(op.getAction())->rankPrograms[0].commands)
    if (command.queue != kCompute)
      queues.insert(getQueue(command, op));
  return queues;
}

/// The queues of a run beside that of computation, which begin now.
std::set<uint32_t> PointLinker::beginQueues(sched::RunOp op) {
  std::set<uint32_t> queues = getOtherQueues(op);
  if (!queues.empty()) {
    uint32_t begun = builder.recordEvent(kCompute);
    for (uint32_t queue : queues)
      builder.waitEvent(queue, begun);
  }
  return queues;
}

/// Lists an event of an action; false: the command is none.
bool PointLinker::listEvent(const rt::Command &command, sched::RunOp op,
                            std::map<uint32_t, uint32_t> &events) {
  auto *record = std::get_if<rt::RecordEvent>(&command.operation);
  auto *wait = std::get_if<rt::WaitEvent>(&command.operation);
  if (record)
    events[record->event] = builder.recordEvent(getQueue(command, op));
  if (wait)
    builder.waitEvent(getQueue(command, op), events.at(wait->event));
  return record || wait;
}

/// Lists what need not wait for queues of the sum that go on beside later runs.
void PointLinker::beginSum(sched::RunOp op) {
  waitFor(op.getInputs());
  std::set<uint32_t> queues = beginQueues(op);
  OpenSum sum{op, LinkMap(op, buffers), {}, {}, {}};
  std::set<uint32_t> stopped, lateEvents;
  for (const rt::Command &command :
       actions.lookup(op.getAction())->rankPrograms[0].commands) {
    auto *wait = std::get_if<rt::WaitEvent>(&command.operation);
    if (wait && (command.queue == kCompute || lateEvents.count(wait->event)))
      stopped.insert(command.queue);
    if (!stopped.count(command.queue)) {
      if (!listEvent(command, op, sum.events))
        add(command, op, sum.map);
      continue;
    }
    if (auto *record = std::get_if<rt::RecordEvent>(&command.operation))
      lateEvents.insert(record->event);
    sum.late.push_back(&command);
  }
  for (uint32_t queue : queues)
    sum.ends.push_back(builder.recordEvent(queue));
  sums.insert({op, std::move(sum)});
  ++numRuns;
  waitForSends();
}

/// Lists what is left of a sum, in front of its first reader.
void PointLinker::endSum(Operation *op) {
  auto found = sums.find(op);
  if (found == sums.end())
    return;
  OpenSum sum = std::move(found->second);
  sums.erase(found);
  std::set<uint32_t> lateQueues;
  for (const rt::Command *command : sum.late) {
    if (!listEvent(*command, sum.op, sum.events))
      add(*command, sum.op, sum.map);
    if (command->queue != kCompute)
      lateQueues.insert(getQueue(*command, sum.op));
  }
  for (uint32_t queue : lateQueues)
    sum.ends.push_back(builder.recordEvent(queue));
  for (uint32_t end : sum.ends)
    builder.waitEvent(kCompute, end);
}

void PointLinker::begin(sched::RunOp op) {
  waitFor(op.getInputs());
  beginQueues(op);
  if (buffers.isAwaited(op))
    beginEvents[op] = builder.recordEvent(kCompute);
  begun.insert({op, {LinkMap(op, buffers), {}, {}}});
}

void PointLinker::end(sched::RunOp op) {
  if (int64_t segment = getSegment(op.getAction()); segment >= 0)
    addChecks(segment, true);
  for (uint32_t event : begun.at(op).ends)
    builder.waitEvent(kCompute, event);
  begun.erase(op);
  unfinished.erase(op);
  ++numRuns;
  waitForSends();
}

void PointLinker::run(const Slice &slice) {
  sched::RunOp op = slice.run;
  if (slice.isFirst)
    begin(op);
  const rt::RankProgram &own = actions.lookup(op.getAction())->rankPrograms[0];
  int64_t segment = getSegment(op.getAction());
  Begun &state = begun.at(op);
  for (size_t number = slice.begin; number < slice.end; ++number) {
    const rt::Command &command = own.commands[number];
    if (listEvent(command, op, state.events))
      continue;
    if (segment >= 0) {
      bool isCheck = std::holds_alternative<rt::Check>(command.operation);
      if (isCheck || isMeeting(command, axis))
        addChecks(segment, false);
      if (writesArgument(command))
        waitForChecks(segment, command.queue);
      nextCheck += isCheck;
      numMeetings += isMeeting(command, axis);
    }
    add(command, op, state.map);
  }
  if (slice.end == own.commands.size() && state.ends.empty())
    for (uint32_t queue : getOtherQueues(op))
      state.ends.push_back(builder.recordEvent(queue));
  if (slice.isLast)
    end(op);
}

/// What stands directly behind the runs of a group and sends.
static SmallVector<Operation *>
getSends(Operation *op, const llvm::DenseSet<Operation *> &group) {
  while (group.contains(op))
    op = op->getNextNode();
  SmallVector<Operation *> sends;
  for (; isSend(op); op = op->getNextNode())
    sends.push_back(op);
  return sends;
}

/// Lists the runs of a group. What they send leaves when its run has ended, and
/// in the order of the function, which is that of the other ends.
void PointLinker::runGroup(sched::RunOp first) {
  std::vector<Slice> slices = listing.lookup(first);
  for (const Slice &slice : slices)
    unfinished.insert(slice.run);
  SmallVector<Operation *> sends = getSends(first, unfinished);
  auto next = sends.begin();
  for (const Slice &slice : slices) {
    run(slice);
    while (next != sends.end() &&
           !unfinished.contains((*next)->getOperand(0).getDefiningOp()))
      send(*next++);
  }
}

LogicalResult PointLinker::run() {
  if (failed(buffers.place(function, actions, listing, isFull, builder)))
    return failure();
  Operation *lastPass = nullptr;
  for (auto run : function.getOps<sched::RunOp>())
    if (run.isOfSection())
      lastPass = run;
  for (Operation &op : function.getBody().front().without_terminator()) {
    auto result = TypeSwitch<Operation *, LogicalResult>(&op)
                      .Case([&](sched::GiveOp own) { return give(own); })
                      .Case([&](sched::RunOp own) {
                        return own.isSum() ? beginSum(own) : runGroup(own),
                               success();
                      })
                      .Case<sched::SendOp, sched::ToHostOp>(
                          [&](Operation *own) { return send(own), success(); })
                      .Case<sched::FromHostOp>(
                          [&](auto own) { return fetch(own), success(); })
                      .Case<sched::ReceiveOp>(
                          [&](auto own) { return receive(own), success(); })
                      .Case<sched::ZerosOp>(
                          [&](auto own) { return fill(own), success(); })
                      .Case<sched::StackOp>(
                          [&](auto own) { return stack(own), success(); })
                      .Default([](Operation *) { return success(); });
    if (failed(result))
      return failure();
    if (&op == lastPass)
      isUpdate = endsInUpdate(lastPass);
  }
  // A point that has nothing behind the loops takes part in all of them here.
  addChecks(std::numeric_limits<int64_t>::max(), true);
  return success();
}

LogicalResult linkPoints(ModuleOp module, uint32_t axis,
                         const ActionPrograms &actions,
                         const llvm::DenseSet<int64_t> &full,
                         rt::ProgramBuilder &builder) {
  std::vector<PlacedCheck> checks = findChecks(actions, axis);
  std::vector<uint32_t> numbers;
  for (int64_t point = 0;; ++point) {
    auto function =
        module.lookupSymbol<func::FuncOp>(("p" + Twine(point)).str());
    if (!function)
      break;
    numbers.push_back(point == 0 ? 0 : builder.addRankProgram());
    PointLinker linker(function, point, axis, actions, checks,
                       full.contains(point), builder);
    if (failed(linker.run()))
      return failure();
  }
  builder.setRankPrograms(axis, numbers);
  return success();
}

} // namespace tandem
