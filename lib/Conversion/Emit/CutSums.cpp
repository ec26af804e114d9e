//===- CutSums.cpp - gradient sums in pieces ------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Conversion/Emit/CutSums.h"
#include "tandem_rt/program_builder.h"
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

static int64_t getBytes(const rt::Command &command) {
  const auto *op = std::get_if<rt::Collective>(&command.operation);
  return op ? std::max(op->source.bytes, op->destination.bytes) : 0;
}

/// One behind the other.
static std::deque<rt::Command> cut(const rt::Command &command, int64_t bytes) {
  const auto &op = std::get<rt::Collective>(command.operation);
  // Whole cache lines, so that no two pieces write to one.
  constexpr int64_t kGrain = 64;
  Rows rows = getRows(op);
  int64_t numRows = rows.shape.front();
  int64_t number = std::min(numRows, (getBytes(command) + bytes - 1) / bytes);
  number = std::max<int64_t>(number, 1); // of no elements
  int64_t each = (numRows + number - 1) / number;
  if (rows.dim < 0)
    each = (each + kGrain - 1) / kGrain * kGrain;
  number = (numRows + each - 1) / each;
  if (number < 2)
    return {command};
  std::deque<rt::Command> pieces;
  for (int64_t begin = 0; begin < numRows; begin += each) {
    int64_t end = std::min(numRows, begin + each);
    rt::Command &piece = pieces.emplace_back(command);
    piece.name +=
        " " + std::to_string(pieces.size()) + "/" + std::to_string(number);
    piece.bytes = command.bytes * (end - begin) / numRows;
    piece.operation = getPart(op, rows, begin, end);
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

static bool canCut(const rt::Program &program, const rt::Command &command) {
  const auto *op = std::get_if<rt::Collective>(&command.operation);
  return op && program.queues[command.queue].yields &&
         getRows(*op).shape.front() > 1;
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
  std::vector<rt::Command> run(const std::vector<rt::Command> &commands);

private:
  void list(const rt::Command &command) {
    listing.push_back(command);
    listing.back().id = static_cast<uint32_t>(listing.size() - 1);
  }
  void listPiece(std::deque<rt::Command> &pieces) {
    list(pieces.front());
    pieces.pop_front();
  }

  const rt::Program &program;
  const int64_t bytes;
  std::vector<rt::Command> listing;
  /// By queue, what is not listed yet.
  std::map<uint32_t, std::deque<rt::Command>> waiting;
};
} // namespace

std::vector<rt::Command> Cutter::run(const std::vector<rt::Command> &commands) {
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
      auto &pieces = waiting[command.queue] = cut(command, bytes);
      listPiece(pieces);
    } else {
      list(command);
    }
  }
  return std::move(listing);
}

rt::Program tandem::cutSums(const rt::Program &program, int64_t bytes) {
  rt::Program made = program;
  for (rt::Queue &queue : made.queues)
    queue.yields &= bytes > 0;
  if (bytes == 0)
    return made;
  for (rt::RankProgram &rankProgram : made.rankPrograms)
    rankProgram.commands = Cutter(program, bytes).run(rankProgram.commands);
  return made;
}
