//===- random_program.cpp - random Programs -------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cts/random_program.h"
#include "core/access.h"
#include "cts/support.h"

#include <algorithm>
#include <set>

namespace tandem::rt::cts {

namespace {
constexpr ElementType kF32 = ElementType::F32;
constexpr int64_t kNumbers = 16, kSlotBytes = 64;
/// Slots of the arena. Small ones hold numbers below 17, which may be
/// multiplied and summed; large ones hold such sums.
constexpr int64_t kSmall = 5, kSlots = 9;

/// A command that was added, for what comes behind it.
struct Done {
  uint32_t queue;
  int64_t number; ///< In its queue, from 1.
  std::vector<std::pair<BufferRef, bool>> accesses;
};

class Generator {
public:
  explicit Generator(unsigned seed) : random(seed), b(randomMesh()) {}

  ProgramBuilder make();

private:
  int64_t pick(int64_t count) {
    return std::uniform_int_distribution<int64_t>(0, count - 1)(random);
  }
  bool chance(int percent) { return pick(100) < percent; }
  std::vector<Axis> randomMesh();
  std::vector<uint32_t> randomAxes();
  int64_t sizeOf(const std::vector<uint32_t> &axes) const;

  void declare();
  void begin();
  void addOne();
  void addRepeat();
  void addCollective();
  void addGemm();
  void finish();

  void add(CommandInfo info, Operation operation);
  void join();
  void record(uint32_t from, uint32_t to);
  BufferRef slot(int64_t index) const {
    return b.arena(index * kSlotBytes, kSlotBytes);
  }
  /// One that was written, or part of the input.
  BufferRef readable(int64_t slots);
  BufferRef writable(int64_t first, int64_t count);
  /// Half of it, sometimes.
  std::pair<BufferRef, BufferRef> halves(BufferRef one, BufferRef other);

  std::mt19937 random;
  ProgramBuilder b;
  uint32_t code = 0, x = 0, w = 0, flags = 0, y = 0, rows = 0;
  int64_t count = 0; ///< Of the Repeat; 0 outside.
  std::set<int64_t> written;
  std::vector<Done> done;
  std::vector<std::vector<int64_t>> known; ///< Per queue, of each queue.
};

std::vector<Axis> Generator::randomMesh() {
  const std::vector<std::vector<int64_t>> kMeshes = {{},     {2},       {4},
                                                     {2, 2}, {2, 1, 2}, {2, 4}};
  std::vector<Axis> mesh;
  for (int64_t size : kMeshes[size_t(pick(int64_t(kMeshes.size())))])
    mesh.push_back({"axis" + std::to_string(mesh.size()), size});
  return mesh;
}

/// Not empty, if there are any.
std::vector<uint32_t> Generator::randomAxes() {
  std::vector<uint32_t> axes;
  uint32_t count = uint32_t(b.get().mesh.size());
  for (uint32_t axis = 0; axis < count; ++axis)
    if (chance(60))
      axes.push_back(axis);
  if (axes.empty() && count)
    axes.push_back(uint32_t(pick(count)));
  return axes;
}

int64_t Generator::sizeOf(const std::vector<uint32_t> &axes) const {
  int64_t size = 1;
  for (uint32_t axis : axes)
    size *= b.get().mesh[axis].size;
  return size;
}

void Generator::declare() {
  std::vector<uint32_t> all;
  for (uint32_t axis = 0; axis < b.get().mesh.size(); ++axis)
    all.push_back(axis);
  Form form{{{1, all}}, {}};
  int64_t ranks = b.get().numRanks();
  for (int64_t queue = pick(4); queue > 0; --queue)
    b.addQueue(QueueRole(pick(3)), "queue" + std::to_string(queue));
  known.assign(b.get().queues.size(),
               std::vector<int64_t>(b.get().queues.size()));
  code = b.addCodeObject("kernels", kernelImage());
  x = b.addArgument({"input", "x", kF32, {64 * ranks}, {}, form});
  w = b.addArgument({"parameter", "w", kF32, {16 * ranks}, {}, form});
  flags = b.addArgument({"input", "flags", ElementType::I1, {ranks}, {}, form});
  y = b.addResult({"output", "y", kF32, {16 * ranks}, {}, form});
  rows = b.addResult({"output", "rows", kF32, {64 * ranks}, {}, form});
  b.addUpdate(w);
  b.setArena(2 * kSlots * kSlotBytes);
}

/// Orders `to` behind what `from` has so far.
void Generator::record(uint32_t from, uint32_t to) {
  b.waitEvent(to, b.recordEvent(from));
  ++known[from][from], ++known[to][to];
  for (size_t queue = 0; queue < known.size(); ++queue)
    known[to][queue] = std::max(known[to][queue], known[from][queue]);
}

void Generator::join() {
  for (int round = 0; round < 2; ++round) // each hears from all
    for (uint32_t queue = 0; queue + 1 < known.size(); ++queue)
      round == 0 ? record(queue, queue + 1)
                 : record(uint32_t(known.size()) - 1, queue);
}

bool overlap(const BufferRef &a, const BufferRef &b) {
  return a.space == b.space && a.index == b.index &&
         a.offset.base < b.offset.base + b.bytes &&
         b.offset.base < a.offset.base + a.bytes;
}

/// On a queue, behind all that it must not overtake.
void Generator::add(CommandInfo info, Operation operation) {
  info.queue = uint32_t(pick(int64_t(known.size())));
  Command command{.workspace = info.workspace, .operation = operation};
  Done own{info.queue, 0, {}};
  for (const Access &access : accessesOf(command))
    own.accesses.push_back({*access.ref, access.write});
  for (const Done &before : done)
    for (const auto &[ref, write] : own.accesses)
      for (const auto &[other, otherWrite] : before.accesses)
        if ((write || otherWrite) && overlap(ref, other) &&
            before.number > known[info.queue][before.queue])
          record(before.queue, info.queue);
  own.number = ++known[info.queue][info.queue];
  done.push_back(own);
  b.add(std::move(info), std::move(operation));
}

BufferRef Generator::readable(int64_t slots) {
  std::vector<BufferRef> list;
  for (int64_t index : written)
    if (index < slots)
      list.push_back(slot(index));
  BufferRef input = b.slice(b.argument(x), kSlotBytes * pick(4), kSlotBytes);
  if (count && chance(50)) {
    input.offset.base = 0;
    input.offset.perIteration = kSlotBytes;
  }
  list.push_back(input);
  list.push_back(b.argument(w));
  return list[size_t(pick(int64_t(list.size())))];
}

BufferRef Generator::writable(int64_t first, int64_t number) {
  int64_t index = first + pick(number);
  written.insert(index);
  return slot(index);
}

std::pair<BufferRef, BufferRef> Generator::halves(BufferRef one,
                                                  BufferRef other) {
  if (chance(60))
    return {one, other};
  int64_t half = kSlotBytes / 2;
  return {b.slice(one, half * pick(2), half),
          b.slice(other, half * pick(2), half)};
}

/// A sum over the group becomes large, what only moves stays small.
void Generator::addCollective() {
  std::vector<uint32_t> axes = randomAxes();
  int64_t n = sizeOf(axes);
  if (axes.empty())
    return;
  Collective op{.kind = CollectiveKind(pick(4)), .axes = axes, .type = kF32};
  bool sums = op.kind == CollectiveKind::AllReduce ||
              op.kind == CollectiveKind::ReduceScatter;
  bool splits = op.kind == CollectiveKind::ReduceScatter ||
                op.kind == CollectiveKind::AllToAll;
  op.shape = {2, 8};
  op.source = readable(kSmall);
  if (op.kind == CollectiveKind::AllGather) {
    op.shape = {1, kNumbers / n};
    op.source.bytes /= n;
  }
  if (splits)
    op.splitDim = 1;
  if (op.kind == CollectiveKind::AllGather)
    op.concatDim = int32_t(pick(2));
  if (op.kind == CollectiveKind::AllToAll)
    op.concatDim = 0;
  int64_t target = sums ? kSmall + pick(kSlots - kSmall) : pick(kSmall);
  op.destination = slot(target);
  if (overlap(op.source, op.destination))
    return;
  if (op.kind == CollectiveKind::ReduceScatter)
    op.destination.bytes /= n;
  else
    written.insert(target);
  if (op.kind == CollectiveKind::ReduceScatter && !written.count(target) &&
      n > 1)
    return; // the rest of the slot would not be written
  written.insert(target);
  add({.name = "collective"}, op);
}

void Generator::addGemm() {
  Gemm gemm = contiguousGemm(kF32, 4, 4, 4);
  gemm.a = readable(kSmall), gemm.b = readable(kSmall);
  if (chance(50))
    gemm.stridesA = {1, 4};
  int64_t target = kSmall + pick(kSlots - kSmall);
  gemm.accumulate = written.count(target) && chance(60);
  written.insert(target);
  gemm.c = slot(target);
  add({.name = "gemm"}, gemm);
}

void Generator::addOne() {
  switch (pick(8)) {
  case 0: {
    BufferRef from = readable(kSmall), to = writable(kSmall, kSlots - kSmall);
    return add({.name = "copy"}, Copy{from, to});
  }
  case 1: {
    // Small slots are written before they are halved.
    if (written.empty() || *written.begin() >= kSmall)
      return;
    auto [from, to] = halves(readable(kSmall), slot(*written.begin()));
    if (!overlap(from, to))
      add({.name = "move"}, Copy{from, to});
    return;
  }
  case 2:
    return add({.name = "fill"},
               Fill{writable(0, kSlots),
                    {0, 0, uint8_t(chance(50) ? 0 : 0x80), uint8_t(0x3f)}});
  case 3:
    return addCollective();
  case 4:
    return addGemm();
  case 5: {
    BufferRef from = readable(kSmall), to = writable(0, kSmall);
    if (overlap(from, to))
      return;
    BufferRef space = b.arena((kSlots + pick(kSlots)) * kSlotBytes, kSlotBytes);
    return add({.name = "reverse", .workspace = space},
               Launch{code, "reverse", {from}, {to}, {kNumbers}});
  }
  default: {
    BufferRef one = readable(kSlots), two = readable(kSlots);
    std::vector<Affine> scalars = {kNumbers, pick(5)};
    if (!b.get().mesh.empty())
      scalars[1].terms.push_back({0, 3});
    if (count)
      scalars[1].perIteration = 5;
    BufferRef to = writable(0, kSmall);
    return add({.name = "mix"}, Launch{code, "mix", {one, two}, {to}, scalars});
  }
  }
}

void Generator::addRepeat() {
  join(); // what comes before is before, on all queues
  b.beginRepeat({.name = "repeat"}, 4);
  count = 4;
  for (int64_t i = 3 + pick(8); i > 0; --i)
    addOne();
  BufferRef row = b.slice(b.result(rows), 0, kSlotBytes);
  row.offset.perIteration = kSlotBytes;
  add({.name = "row"}, Copy{readable(kSlots), row});
  if (chance(30))
    add({.name = "guard"}, Check{CheckKind::Truth, ElementType::I1,
                                 b.argument(flags), "a flag is set", [&] {
                                   std::vector<uint32_t> all;
                                   for (uint32_t i = 0; i < b.get().mesh.size();
                                        ++i)
                                     all.push_back(i);
                                   return all;
                                 }()});
  join(); // what the next iteration does is behind this one
  b.endRepeat();
  count = 0;
  // The row is all rows from now on.
  for (auto &[ref, write] : done.back().accesses)
    if (ref.space == Space::Result)
      ref.bytes = 4 * kSlotBytes;
}

void Generator::finish() {
  std::vector<uint32_t> all;
  for (uint32_t axis = 0; axis < b.get().mesh.size(); ++axis)
    all.push_back(axis);
  if (chance(50))
    add({.name = "check"}, Check{CheckKind::Truth, ElementType::I1,
                                 b.argument(flags), "a flag is set", all});
  if (chance(50))
    add({.name = "finite"},
        Check{CheckKind::Finite, kF32, readable(kSlots), "x", all});
  add({.name = "y"}, Copy{readable(kSlots), b.result(y)});
  join(); // all checks are done
  add({.name = "update"}, Launch{code,
                                 "mix",
                                 {readable(kSlots), b.argument(w)},
                                 {b.argument(w)},
                                 {kNumbers, 1}});
}

ProgramBuilder Generator::make() {
  declare();
  for (int64_t i = 2 + pick(12); i > 0; --i)
    addOne();
  addRepeat();
  for (int64_t i = pick(8); i > 0; --i)
    addOne();
  finish();
  return std::move(b);
}

//===----------------------------------------------------------------------===//
// Mutations
//===----------------------------------------------------------------------===//

class Mutator {
public:
  Mutator(Program &program, std::mt19937 &random)
      : program(program), random(random) {
    size_t count = program.rankPrograms.size();
    own = &program.rankPrograms[count == 1 ? 0 : size_t(pick(int64_t(count)))];
    auto &commands = own->commands;
    list = &commands;
    for (Command &command : commands)
      if (auto *repeat = std::get_if<Repeat>(&command.operation);
          repeat && pick(2))
        list = &repeat->body;
    at = size_t(pick(int64_t(list->size())));
  }
  std::string mutate();

private:
  int64_t pick(int64_t count) {
    return std::uniform_int_distribution<int64_t>(0, count - 1)(random);
  }
  std::vector<Command>::iterator place() { return list->begin() + int64_t(at); }
  void touchOtherBytes(Command &command);

  Program &program;
  std::mt19937 &random;
  RankProgram *own;
  std::vector<Command> *list;
  size_t at;
};

void Mutator::touchOtherBytes(Command &command) {
  std::vector<Access> accesses = accessesOf(command);
  if (accesses.empty())
    return;
  const Access &access = accesses[size_t(pick(int64_t(accesses.size())))];
  // The operation is ours: the access only points into it.
  auto &offset = const_cast<BufferRef *>(access.ref)->offset;
  const int64_t steps[] = {kSlotBytes, -kSlotBytes / 2, access.ref->bytes,
                           -access.ref->bytes};
  offset.base += steps[pick(4)];
}

std::string Mutator::mutate() {
  Command &command = (*list)[at];
  std::string name = "command " + std::to_string(command.id);
  switch (pick(7)) {
  case 0:
    list->erase(place());
    return name + " is left out";
  case 1: {
    Command second = command;
    second.id = 1000;
    list->insert(list->begin() + pick(int64_t(list->size())), second);
    return name + " is doubled";
  }
  case 2: {
    size_t other = std::min(at + 1 + size_t(pick(4)), list->size() - 1);
    std::rotate(place(), place() + 1, list->begin() + int64_t(other) + 1);
    return name + " comes later";
  }
  case 3:
    command.queue = uint32_t(pick(int64_t(program.queues.size())));
    return name + " is on another queue";
  case 4:
    touchOtherBytes(command);
    return name + " touches other bytes";
  case 5:
    for (Command &one : *list)
      if (auto *wait = std::get_if<WaitEvent>(&one.operation);
          wait && pick(2)) {
        wait->event = uint32_t(pick(own->numEvents));
        return "command " + std::to_string(one.id) + " waits for another event";
      }
    return "nothing";
  default:
    for (Command &one : own->commands)
      if (auto *repeat = std::get_if<Repeat>(&one.operation))
        repeat->count += pick(2) ? 1 : -1 - pick(3);
    return "the count is another";
  }
}
} // namespace

ProgramBuilder randomProgram(unsigned seed) { return Generator(seed).make(); }

std::string mutate(Program &program, std::mt19937 &random) {
  return Mutator(program, random).mutate();
}

} // namespace tandem::rt::cts
