//===- CutSums.cpp - gradient sums in pieces ------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Conversion/Emit/CutSums.h"
#include "tandem_rt/program_builder.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <deque>
#include <map>
#include <numeric>

using namespace tandem;

namespace {
/// A collective as equal rows, which it treats alike, one behind the other in
/// both operands: `shape` has their number first.
struct Rows {
  rt::Shape shape;
  /// The dimension of `shape` that a member has a slice of; -1: all-reduce.
  int32_t dim = -1;
};
} // namespace

static Rows getRows(const rt::Collective &op) {
  auto multiply = [](auto begin, auto end) {
    return std::accumulate(begin, end, int64_t(1), std::multiplies<>());
  };
  int32_t dim = std::max(op.splitDim, op.concatDim);
  auto begin = op.shape.begin(), end = op.shape.end();
  if (op.kind == rt::CollectiveKind::AllReduce)
    return {{multiply(begin, end)}};
  if (op.kind == rt::CollectiveKind::AllToAll)
    return {{1}};
  return {{multiply(begin, begin + dim), op.shape[dim],
           multiply(begin + dim + 1, end)},
          1};
}

static rt::Collective getPart(const rt::Collective &op, const Rows &rows,
                              int64_t begin, int64_t end) {
  rt::Collective part = op;
  part.shape = rows.shape;
  part.shape.front() = end - begin;
  if (op.splitDim >= 0)
    part.splitDim = rows.dim;
  if (op.concatDim >= 0)
    part.concatDim = rows.dim;
  auto slice = [&](const rt::BufferRef &whole) {
    int64_t row = whole.bytes / rows.shape.front();
    return rt::ProgramBuilder::slice(whole, begin * row, (end - begin) * row);
  };
  part.source = slice(op.source);
  part.destination = slice(op.destination);
  return part;
}

/// Commands that follow each other; the last one is the collective.
using Piece = std::vector<rt::Command>;

static int64_t getBytes(const rt::Command &command) {
  const auto *op = std::get_if<rt::Collective>(&command.operation);
  return op ? std::max(op->source.bytes, op->destination.bytes) : 0;
}

/// Whole cache lines, so that no two pieces write to one.
static constexpr int64_t kGrain = 64;

static int64_t roundUp(int64_t bytes, int64_t grain = kGrain) {
  return (bytes + grain - 1) / grain * grain;
}

/// Part `index` of `number`, of a share of the command's bytes.
static rt::Command makePart(const rt::Command &command, int64_t index,
                            int64_t number, double share) {
  rt::Command part = command;
  part.origins.clear();
  part.name += " " + std::to_string(index) + "/" + std::to_string(number);
  part.bytes = static_cast<int64_t>(static_cast<double>(command.bytes) * share);
  return part;
}

/// One behind the other.
static std::deque<Piece> cutRows(const rt::Command &command, int64_t bytes) {
  const auto &op = std::get<rt::Collective>(command.operation);
  Rows rows = getRows(op);
  int64_t numRows = rows.shape.front();
  int64_t number = std::min(numRows, (getBytes(command) + bytes - 1) / bytes);
  number = std::max<int64_t>(number, 1); // of no elements
  int64_t each = (numRows + number - 1) / number;
  if (rows.dim < 0)
    each = roundUp(each);
  number = (numRows + each - 1) / each;
  if (number < 2)
    return {{command}};
  std::deque<Piece> pieces;
  for (int64_t begin = 0; begin < numRows; begin += each) {
    int64_t end = std::min(numRows, begin + each);
    auto share = static_cast<double>(end - begin) / numRows;
    rt::Command part = makePart(command, pieces.size() + 1, number, share);
    part.operation = getPart(op, rows, begin, end);
    pieces.push_back({std::move(part)});
  }
  return pieces;
}

/// Whether members have blocks of the outermost dimension, whose parts a copy
/// can put side by side.
static bool isOfBlocks(const rt::Collective &op) {
  return op.kind == rt::CollectiveKind::ReduceScatter &&
         getRows(op).shape.front() == 1 &&
         op.source.space == rt::Space::Arena && op.destination.bytes > kGrain;
}

/// Of a member's block, in each piece.
static int64_t getBlockBytes(const rt::Collective &op, int64_t bytes) {
  int64_t members = op.source.bytes / op.destination.bytes;
  return std::min(op.destination.bytes,
                  std::max(kGrain, bytes / members / kGrain * kGrain));
}

/// A part of each member's block, side by side in `room`.
static std::deque<Piece> cutBlocks(const rt::Command &command, int64_t bytes,
                                   const rt::BufferRef &room) {
  const auto &op = std::get<rt::Collective>(command.operation);
  int64_t block = op.destination.bytes, each = getBlockBytes(op, bytes);
  int64_t members = op.source.bytes / block, number = (block + each - 1) / each;
  std::deque<Piece> pieces;
  auto slice = rt::ProgramBuilder::slice;
  for (int64_t begin = 0; begin < block; begin += each) {
    int64_t size = std::min(each, block - begin);
    auto share = static_cast<double>(size) / block;
    rt::Command part = makePart(command, pieces.size() + 1, number, share);
    Piece &piece = pieces.emplace_back();
    for (int64_t member = 0; member < members; ++member) {
      rt::Command &copy = piece.emplace_back(part);
      copy.name += " copy";
      copy.bytes = 2 * size;
      copy.operation = rt::Copy{slice(op.source, member * block + begin, size),
                                slice(room, member * size, size)};
    }
    rt::Collective own = op;
    own.shape = {members, size / rt::elementBytes(op.type)};
    own.splitDim = 0;
    own.source = slice(room, 0, members * size);
    own.destination = slice(op.destination, begin, size);
    part.operation = std::move(own);
    piece.push_back(std::move(part));
  }
  return pieces;
}

/// The commands in front of the last transfer: sums behind it hold none up.
static size_t findLastTransfer(const std::vector<rt::Command> &commands) {
  for (size_t i = commands.size(); i > 0; --i)
    if (std::holds_alternative<rt::Transfer>(commands[i - 1].operation))
      return i;
  return 0;
}

static bool isOfSums(const rt::Queue &queue) {
  return llvm::StringRef(queue.name).starts_with(kSumQueuePrefix);
}

bool tandem::hasSums(const rt::Program &program) {
  return llvm::any_of(program.queues, isOfSums);
}

static bool canCut(const rt::Program &program, const rt::Command &command) {
  const auto *op = std::get_if<rt::Collective>(&command.operation);
  return op && isOfSums(program.queues[command.queue]) &&
         (getRows(*op).shape.front() > 1 || isOfBlocks(*op));
}

int64_t tandem::getLargestSum(const rt::Program &program) {
  int64_t largest = 0;
  for (const rt::RankProgram &rankProgram : program.rankPrograms)
    for (size_t i = 0; i < findLastTransfer(rankProgram.commands); ++i)
      if (canCut(program, rankProgram.commands[i]))
        largest = std::max(largest, getBytes(rankProgram.commands[i]));
  return largest;
}

namespace {
/// Lists the commands of a rank program anew.
class Cutter {
public:
  Cutter(const rt::Program &program, int64_t bytes)
      : program(program), bytes(bytes) {}
  rt::RankProgram run(const rt::RankProgram &given);

private:
  std::deque<Piece> cut(const rt::Command &command);
  rt::BufferRef getRoom(const rt::Command &command);
  void list(const rt::Command &command) {
    made.commands.push_back(command);
    made.commands.back().id = static_cast<uint32_t>(made.commands.size() - 1);
  }
  void listPiece(std::deque<Piece> &pieces) {
    for (const rt::Command &command : pieces.front())
      list(command);
    pieces.pop_front();
  }

  const rt::Program &program;
  const int64_t bytes;
  rt::RankProgram made;
  /// By queue, what is not listed yet.
  std::map<uint32_t, std::deque<Piece>> waiting;
  /// By queue, as its pieces follow each other: behind what the arena has.
  std::map<uint32_t, rt::BufferRef> rooms;
};
} // namespace

rt::BufferRef Cutter::getRoom(const rt::Command &command) {
  const auto &op = std::get<rt::Collective>(command.operation);
  int64_t members = op.source.bytes / op.destination.bytes;
  int64_t size = members * getBlockBytes(op, bytes);
  rt::BufferRef &room = rooms[command.queue];
  if (room.bytes < size) {
    rt::Arena &arena = made.arenas[op.source.index];
    room.index = op.source.index;
    room.offset =
        roundUp(arena.bytes, program.memorySpaces[arena.memorySpace].alignment);
    room.bytes = size;
    arena.bytes = room.offset.base + size;
  }
  return room;
}

std::deque<Piece> Cutter::cut(const rt::Command &command) {
  const auto &op = std::get<rt::Collective>(command.operation);
  if (!isOfBlocks(op))
    return cutRows(command, bytes);
  if (getBlockBytes(op, bytes) == op.destination.bytes)
    return {{command}};
  return cutBlocks(command, bytes, getRoom(command));
}

rt::RankProgram Cutter::run(const rt::RankProgram &given) {
  made.arenas = given.arenas;
  made.numEvents = given.numEvents;
  const std::vector<rt::Command> &commands = given.commands;
  size_t last = findLastTransfer(commands);
  for (size_t i = 0; i < commands.size(); ++i) {
    const rt::Command &command = commands[i];
    bool meets = std::holds_alternative<rt::Collective>(command.operation) ||
                 std::holds_alternative<rt::Transfer>(command.operation);
    for (auto &[queue, pieces] : waiting) {
      bool isOwn = queue == command.queue || i + 1 == last;
      while (!pieces.empty() && isOwn)
        listPiece(pieces);
      if (!pieces.empty() && meets)
        listPiece(pieces);
    }
    if (i < last && canCut(program, command)) {
      auto &pieces = waiting[command.queue] = cut(command);
      listPiece(pieces);
    } else {
      list(command);
    }
  }
  return std::move(made);
}

rt::Program tandem::cutSums(const rt::Program &program, int64_t bytes) {
  rt::Program made = program;
  if (bytes == 0)
    return made;
  for (rt::Queue &queue : made.queues)
    queue.yields = isOfSums(queue);
  for (rt::RankProgram &rankProgram : made.rankPrograms)
    rankProgram = Cutter(program, bytes).run(rankProgram);
  return made;
}
