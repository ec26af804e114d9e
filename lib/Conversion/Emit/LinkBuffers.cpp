//===- LinkBuffers.cpp - the buffers of a point ---------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LinkBuffers.h"
#include "Declarations.h"
#include "tandem/Analysis/Bytes.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Dialect/Sched/Host.h"
#include "llvm/Support/MathExtras.h"
#include <map>

using namespace mlir;

namespace tandem {

//===----------------------------------------------------------------------===//
// Buffers of commands
//===----------------------------------------------------------------------===//

using Visit = llvm::function_ref<void(rt::BufferRef &, bool)>;

static void visitOwn(rt::Launch &op, Visit visit) {
  for (rt::BufferRef &ref : op.inputs)
    visit(ref, false);
  for (rt::BufferRef &ref : op.outputs)
    visit(ref, true);
}

static void visitOwn(rt::Gemm &op, Visit visit) {
  visit(op.a, false);
  visit(op.b, false);
  visit(op.c, true);
  if (op.bias)
    visit(*op.bias, false);
  if (op.preActivation)
    visit(*op.preActivation, !op.readsPreActivation());
  for (std::optional<rt::BufferRef> *sums : {&op.sumsA, &op.sumsB})
    if (*sums)
      visit(**sums, true);
}

static void visitOwn(rt::Attention &op, Visit visit) {
  bool isForward = !op.gradients;
  for (rt::AttentionTensor *tensor : {&op.query, &op.key, &op.value})
    visit(tensor->buffer, false);
  visit(op.output.buffer, isForward);
  visit(op.logsumexp, isForward);
  if (op.mask)
    visit(op.mask->buffer, false);
  if (op.positions)
    visit(*op.positions, false);
  if (op.dropout)
    for (rt::BufferRef *ref :
         {&op.dropout->rows, &op.dropout->seed, &op.dropout->step})
      visit(*ref, false);
  if (isForward)
    return;
  visit(op.gradients->output.buffer, false);
  for (rt::AttentionTensor *tensor :
       {&op.gradients->query, &op.gradients->key, &op.gradients->value})
    visit(tensor->buffer, true);
}

static void visitOwn(rt::Convolution &op, Visit visit) {
  for (auto [number, tensor] : llvm::enumerate(op.tensors))
    visit(tensor.buffer, number == op.roles()[2]);
}

/// What reads a source and writes a destination.
template <typename OpT>
  requires requires(OpT op) {
    op.source;
    op.destination;
  }
static void visitOwn(OpT &op, Visit visit) {
  visit(op.source, false);
  visit(op.destination, true);
}

static void visitOwn(rt::Fill &op, Visit visit) { visit(op.destination, true); }

static void visitOwn(rt::Check &op, Visit visit) {
  if (op.source)
    visit(*op.source, false);
}

/// What has none of its own: events, and loops, which no action has.
template <typename OpT>
  requires(std::is_same_v<OpT, rt::RecordEvent> ||
           std::is_same_v<OpT, rt::WaitEvent> ||
           std::is_same_v<OpT, rt::Repeat>)
static void visitOwn(OpT &, Visit) {}

void visitBuffers(rt::Command &command, Visit visit) {
  std::visit([&](auto &op) { visitOwn(op, visit); }, command.operation);
  if (command.workspace)
    visit(*command.workspace, true);
}

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

/// After so many runs, at the latest, a point waits for what it sent before
/// them, and so many runs early it begins to receive: passes of each kind, F, I
/// and W, may run beside the transfer.
static constexpr int64_t kRunsOfTransfer = 3;
/// What is held for transfers beside runs is at most this share more than the
/// point holds without it. In 1F1B a point holds most in the I behind each F:
/// without any room each F would wait for its transfer.
static constexpr double kRoomOfTransfers = 0.03;

/// Runs that are beside each other have slices in turn.
int64_t LinkBuffers::findPositions(Block &block, const Listing &listing) {
  int64_t position = 0;
  auto add = [&](Operation *op) {
    ++position;
    positions.try_emplace(op, Span{position, position}).first->second.last =
        position;
  };
  for (Operation &op : block.without_terminator()) {
    if (auto slices = listing.find(&op); slices != listing.end())
      for (const Slice &slice : slices->second)
        add(slice.run);
    else if (!isa<sched::RunOp>(op))
      add(&op);
  }
  return position;
}

unsigned LinkBuffers::addBuffer(int64_t bytes, Span span) {
  buffers.push_back({int64_t(llvm::alignTo(bytes, rt::kHostAlignment)),
                     {{span.first - 1}, {span.first}, {span.last}}});
  return buffers.size() - 1;
}

void LinkBuffers::addValue(Value value, Span span) {
  numbers[value] = addBuffer(getBytes(value.getType()), span);
}

void LinkBuffers::use(Value value, int64_t position) {
  if (auto found = numbers.find(value); found != numbers.end()) {
    int64_t &last = buffers[found->second].life.death.front();
    last = std::max(last, position);
  }
}

/// A sum runs until its first reader, and no longer: so long lives what it
/// reads, and its arenas.
void LinkBuffers::endSums(Operation *reader, int64_t position) {
  for (Value operand : reader->getOperands()) {
    auto sum = operand.getDefiningOp<sched::RunOp>();
    if (!sum || !openSums.erase(sum))
      continue;
    for (Value input : sum.getInputs())
      use(input, position);
    for (int64_t arena : arenas.lookup(sum))
      buffers[arena].life.death.front() = position;
  }
}

/// What a run makes for a stack lies there, if its place is aligned.
bool LinkBuffers::nameInStack(Value value, Span span) {
  for (OpOperand &use : value.getUses()) {
    auto stack = dyn_cast<sched::StackOp>(use.getOwner());
    int64_t bytes = getBytes(value.getType());
    if (!stack || bytes % rt::kHostAlignment != 0)
      continue;
    if (!numbers.contains(stack.getWhole()))
      addValue(stack.getWhole(), span);
    numbers[value] = numbers.lookup(stack.getWhole());
    shifts[value] = int64_t(use.getOperandNumber()) * bytes;
    return true;
  }
  return false;
}

/// The argument of so many bytes that an action sums over devices into the
/// result `number`, if no other command has to do with it.
static std::optional<uint32_t> findSource(const rt::Program &program,
                                          uint32_t number, int64_t bytes) {
  std::optional<uint32_t> source;
  std::map<uint32_t, int64_t> numUses; // of arguments
  for (rt::Command command : program.rankPrograms[0].commands) {
    visitBuffers(command, [&](rt::BufferRef &ref, bool) {
      numUses[ref.index] += ref.space == rt::Space::Argument;
    });
    auto *op = std::get_if<rt::Collective>(&command.operation);
    if (op && op->kind == rt::CollectiveKind::AllReduce &&
        op->source.space == rt::Space::Argument && op->source.bytes == bytes &&
        op->destination.space == rt::Space::Result &&
        op->destination.index == number)
      source = op->source.index;
  }
  return source && numUses[*source] == 1 ? source : std::nullopt;
}

/// A sum over devices lies where its source does, if nothing else reads that.
bool LinkBuffers::nameInSource(OpResult sum, const rt::Program &program) {
  auto run = cast<sched::RunOp>(sum.getOwner());
  int64_t bytes = getBytes(sum.getType());
  auto source = findSource(program, sum.getResultNumber(), bytes);
  if (!run.isSum() || !source)
    return false;
  Value input = run.getInputs()[*source];
  if (!numbers.contains(input) || !input.getDefiningOp<sched::RunOp>() ||
      !input.hasOneUse() || getBytes(input.getType()) != bytes)
    return false;
  numbers[sum] = numbers.lookup(input);
  shifts[sum] = shifts.lookup(input);
  return true;
}

/// An update lies where its argument does.
void LinkBuffers::nameResults(sched::RunOp run, const rt::Program &program) {
  Span span = positions.lookup(run);
  for (auto [result, made] :
       llvm::zip_equal(run.getResults(), program.results)) {
    if (made.place.space != rt::Space::Argument) {
      if (!nameInStack(result, span) && !nameInSource(result, program))
        addValue(result, span);
      use(result, span.last);
      continue;
    }
    Value updated = run.getInputs()[made.place.index];
    if (auto found = numbers.find(updated); found != numbers.end()) {
      numbers[result] = found->second;
      shifts[result] = shifts.lookup(updated);
    } else {
      refs[result] = refs.lookup(updated);
      updaters[updated] = run;
    }
  }
}

/// Bytes that live at each position, and may.
class LinkBuffers::Alive {
public:
  /// `own` is what lives always; `room` a share of the most at once.
  Alive(const LinkBuffers &point, int64_t numPositions, int64_t own,
        double room);
  /// Lets a buffer live until `position`, or from there on; false: there is no
  /// room.
  bool prolong(lower::Buffer &buffer, int64_t position);
  bool advance(lower::Buffer &buffer, int64_t position);
  /// Whether an arena of so many bytes takes no more than transfers may, with
  /// its gaps.
  bool hasRoomFor(int64_t arena) const {
    return double(own + arena) <= (1 + kRoomOfTransfers) * double(most);
  }

private:
  /// Takes bytes at `first` to `last`, if there is room.
  bool take(int64_t first, int64_t last, int64_t bytes);
  void add(int64_t first, int64_t last, int64_t bytes) {
    for (int64_t position = first; position <= last; ++position)
      alive[position] += bytes;
  }
  std::vector<int64_t> alive;
  int64_t own, most;
  double limit;
};

LinkBuffers::Alive::Alive(const LinkBuffers &point, int64_t numPositions,
                          int64_t own, double room)
    : alive(numPositions + 1, own), own(own) {
  for (auto [number, buffer] : llvm::enumerate(point.buffers))
    if (!point.isOnHost(number))
      add(buffer.life.first.front(), buffer.life.death.front(), buffer.bytes);
  most = *llvm::max_element(alive);
  limit = (1 + room) * double(most);
}

bool LinkBuffers::Alive::take(int64_t first, int64_t last, int64_t bytes) {
  int64_t most =
      *std::max_element(alive.begin() + first, alive.begin() + last + 1);
  if (double(most + bytes) > limit)
    return false;
  add(first, last, bytes);
  return true;
}

bool LinkBuffers::Alive::prolong(lower::Buffer &buffer, int64_t position) {
  int64_t &last = buffer.life.death.front();
  if (position <= last)
    return true;
  if (!take(last + 1, position, buffer.bytes))
    return false;
  last = position;
  return true;
}

bool LinkBuffers::Alive::advance(lower::Buffer &buffer, int64_t position) {
  int64_t &first = buffer.life.first.front();
  if (position >= first)
    return true;
  if (!take(position, first - 1, buffer.bytes))
    return false;
  first = position;
  buffer.life.birth.front() = position - 1;
  return true;
}

/// The bytes of the arguments that a point reads.
static int64_t getOwnBytes(Block &block) {
  int64_t bytes = 0;
  for (BlockArgument argument : block.getArguments())
    if (!argument.use_empty())
      bytes += getBytes(argument.getType());
  return bytes;
}

/// A point need not wait at once for what it sends: where there is room, the
/// source lives until some runs later. An argument lives until its update.
void LinkBuffers::prolongSends(Block &block, Alive &alive) {
  std::vector<Operation *> sent;
  for (Operation &op : block.without_terminator()) {
    int64_t position = positions.lookup(&op).last;
    if (isa<sched::SendOp, sched::ToHostOp>(op))
      sent.push_back(&op);
    if (!isa<sched::RunOp>(op))
      continue;
    llvm::erase_if(sent, [&](Operation *send) {
      Value value = send->getOperand(0);
      auto found = numbers.find(value);
      if (found == numbers.end()) {
        bool isUpdated = updaters.lookup(value) == &op;
        runsOfSends[send] += !isUpdated;
        return isUpdated;
      }
      return !alive.prolong(buffers[found->second], position) ||
             ++runsOfSends[send] == kRunsOfTransfer;
    });
  }
}

/// The runs in front of `op` that what comes from elsewhere may be beside, the
/// last one first; none behind which something else stands that it waits for.
static SmallVector<sched::RunOp> findRunsBefore(Operation *op,
                                                const Listing &listing) {
  auto fetch = dyn_cast<sched::FromHostOp>(op);
  Operation *sent = fetch ? fetch.getValue().getDefiningOp() : nullptr;
  SmallVector<sched::RunOp> runs;
  for (op = op->getPrevNode();
       op && op != sent && int64_t(runs.size()) < kRunsOfTransfer;
       op = op->getPrevNode()) {
    auto run = dyn_cast<sched::RunOp>(op);
    if (!run || run.isSum() || !listing.contains(op))
      continue;
    if (!run.isOfSection())
      break;
    runs.push_back(run);
  }
  return runs;
}

/// What waits on the host is sent one pass later, and fetched one earlier
/// (Fold3D, section 4.2): copies are beside a run, whatever the point holds.
void LinkBuffers::spreadHostCopies(Block &block, const Listing &listing) {
  for (Operation &op : block) {
    if (isa<sched::ToHostOp>(op)) {
      Operation *run = op.getNextNode();
      while (run && !isa<sched::RunOp>(run))
        run = run->getNextNode();
      if (run)
        use(op.getOperand(0), positions.lookup(run).last);
    }
    if (!isa<sched::FromHostOp>(op))
      continue;
    SmallVector<sched::RunOp> runs = findRunsBefore(&op, listing);
    if (!runs.empty()) {
      lower::Lifetime &life = buffers[numbers.lookup(op.getResult(0))].life;
      life.first.front() = positions.lookup(runs.front()).first;
      life.birth.front() = life.first.front() - 1;
    }
  }
}

/// What is received may come beside earlier passes, where there is room: the
/// other end may be ahead. So may what waited on the host, if it is there.
void LinkBuffers::advanceReceives(Block &block, const Listing &listing,
                                  Alive &alive) {
  for (Operation &receive : block)
    if (isa<sched::ReceiveOp, sched::FromHostOp>(receive))
      advance(&receive, listing, alive);
  for (auto [receive, run] : firstRuns)
    awaited.insert(run);
}

void LinkBuffers::advance(Operation *receive, const Listing &listing,
                          Alive &alive) {
  lower::Buffer &buffer = buffers[numbers.lookup(receive->getResult(0))];
  for (sched::RunOp run : findRunsBefore(receive, listing)) {
    if (!alive.advance(buffer, positions.lookup(run).first))
      return;
    firstRuns[receive] = run;
  }
}

/// Places all, with transfers beside runs in this share of what lives at once;
/// none where it is negative. False: with its gaps, the arena takes more than
/// transfers may. A point is one queue: its other queues wait for each other
/// behind each run, and behind sums where they are read.
bool LinkBuffers::placeBeside(Block &block, const Listing &listing,
                              int64_t numPositions, double room) {
  Alive alive(*this, numPositions, getOwnBytes(block), room);
  prolongSends(block, alive);
  advanceReceives(block, listing, alive);
  arenaBytes = placeThose(/*areOnHost=*/false, numPositions);
  hostBytes = placeThose(/*areOnHost=*/true, numPositions);
  return alive.hasRoomFor(arenaBytes);
}

/// The bytes of the arena of those on the device, or of those on the host.
int64_t LinkBuffers::placeThose(bool areOnHost, int64_t numPositions) {
  std::vector<lower::Clock> clocks;
  for (int64_t position = 1; position <= numPositions; ++position)
    clocks.push_back({position});
  std::vector<lower::Buffer> own;
  for (auto [number, buffer] : llvm::enumerate(buffers))
    if (isOnHost(number) == areOnHost)
      own.push_back(buffer);
  int64_t bytes = own.empty() ? 0 : lower::place(own, {clocks});
  auto next = own.begin();
  for (auto [number, buffer] : llvm::enumerate(buffers))
    if (isOnHost(number) == areOnHost)
      buffer = *next++;
  return bytes;
}

LogicalResult LinkBuffers::nameBuffers(func::FuncOp function,
                                       rt::ProgramBuilder &builder) {
  builder.setArena(arenaBytes);
  FailureOr<uint32_t> host = uint32_t(0);
  if (!onHost.empty())
    host = addHostArena(function, hostBytes, builder);
  if (failed(host))
    return failure();
  for (auto [value, number] : numbers)
    refs[value] =
        builder.arena(buffers[number].offset + shifts.lookup(value),
                      getBytes(value.getType()), isOnHost(number) ? *host : 0);
  for (auto &[run, own] : arenas)
    for (int64_t &arena : own)
      arena = buffers[arena].offset;
  return success();
}

/// A row is a part of the whole, which a run may have made.
void LinkBuffers::nameRow(sched::RowOp row) {
  int64_t bytes = getBytes(row.getType());
  if (auto made = numbers.find(row.getWhole()); made != numbers.end()) {
    numbers[row.getRow()] = made->second;
    shifts[row.getRow()] =
        shifts.lookup(row.getWhole()) + int64_t(row.getMicrobatch()) * bytes;
    return;
  }
  rt::BufferRef whole = refs.lookup(row.getWhole());
  refs[row.getRow()] = rt::ProgramBuilder::slice(
      whole, int64_t(row.getMicrobatch()) * bytes, bytes);
}

LogicalResult LinkBuffers::place(func::FuncOp function,
                                 const ActionPrograms &actions,
                                 const Listing &listing, bool isFull,
                                 rt::ProgramBuilder &builder) {
  Block &block = function.getBody().front();
  for (BlockArgument argument : block.getArguments())
    refs[argument] = builder.argument(argument.getArgNumber());
  int64_t numPositions = findPositions(block, listing);
  for (Operation &op : block.without_terminator()) {
    Span span = positions.lookup(&op);
    for (Value operand : op.getOperands()) {
      use(operand, span.last);
      // Until then the copy is surely done.
      if (auto fetch = operand.getDefiningOp<sched::FromHostOp>())
        use(fetch.getValue(), span.last);
    }
    endSums(&op, span.first - 1);
    if (auto row = dyn_cast<sched::RowOp>(op))
      nameRow(row);
    if (isa<sched::ZerosOp, sched::ReceiveOp>(op) || sched::isHostCopy(&op) ||
        (isa<sched::StackOp>(op) && !numbers.contains(op.getResult(0))))
      addValue(op.getResult(0), span);
    if (isa<sched::ToHostOp>(op))
      onHost.insert(numbers.lookup(op.getResult(0)));
    auto run = dyn_cast<sched::RunOp>(op);
    if (!run)
      continue;
    const rt::Program &program = *actions.lookup(run.getAction());
    nameResults(run, program);
    if (run.isSum())
      openSums.insert(run);
    auto &own = arenas[run];
    for (const rt::Arena &arena : program.rankPrograms[0].arenas)
      own.push_back(addBuffer(arena.bytes, span));
  }
  if (!isFull)
    spreadHostCopies(block, listing);
  LinkBuffers apart = *this;
  for (double room : {kRoomOfTransfers, 0.0, -1.0}) {
    if (isFull && room > 0)
      continue;
    *this = apart;
    if (placeBeside(block, listing, numPositions, room))
      break;
  }
  return nameBuffers(function, builder);
}

//===----------------------------------------------------------------------===//
// Runs
//===----------------------------------------------------------------------===//

LinkMap::LinkMap(sched::RunOp run, const LinkBuffers &buffers)
    : arenas(buffers.getArenas(run)) {
  for (Value input : run.getInputs())
    arguments.push_back(buffers.get(input));
  for (Value result : run.getResults())
    results.push_back(buffers.get(result));
}

void LinkMap::apply(rt::Command &command) const {
  visitBuffers(command, [&](rt::BufferRef &ref, bool) {
    if (ref.space == rt::Space::Arena) {
      ref.offset.base += arenas[ref.index];
      ref.index = 0;
      return;
    }
    if (ref.space == rt::Space::Constant)
      return;
    const rt::BufferRef &outer =
        (ref.space == rt::Space::Argument ? arguments : results)[ref.index];
    ref.space = outer.space;
    ref.index = outer.index;
    ref.offset.base += outer.offset.base;
  });
}

} // namespace tandem
