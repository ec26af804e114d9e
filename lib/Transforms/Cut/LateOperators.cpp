//===- LateOperators.cpp - operators that later sections read -------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An operator without parameters is in the last section that it reads. In front
// of a layer with a skip connection this lets two tensors cross: the one that
// is skipped, and what is made of it for the layer. Where the operators between
// are in the section behind, the first one crosses alone.
//
//===----------------------------------------------------------------------===//

#include "LateOperators.h"
#include "Flow.h"
#include "tandem/Analysis/Bytes.h"
#include "tandem/Dialect/NN/Host.h"
#include "tandem/Dialect/NN/NN.h"
#include "llvm/ADT/SetVector.h"
#include <set>

using namespace mlir;
using namespace tandem;

namespace {
using Move = std::pair<Operation *, int64_t>;
} // namespace

static bool isOf(Operation &op, nn::PassKind pass) {
  return nn::getPass(&op) == pass && isa<nn::NNDialect>(op.getDialect());
}

/// What is sent to the host is sent by the section that has it.
static bool computesForward(Operation &op) {
  return isOf(op, nn::PassKind::Forward) && !isa<nn::ToHostOp>(op);
}

static bool computesBackward(Operation &op) {
  return isOf(op, nn::PassKind::Backward);
}

static bool readsArgument(Operation &op) {
  return llvm::any_of(op.getOperands(), [](Value operand) {
    return isa<BlockArgument>(skipViews(operand));
  });
}

/// The first section that reads `op` in the forward pass; none if something
/// else reads it that a move would touch.
static std::optional<int64_t>
findReader(Operation &op, const SectionMap &sections, const SectionMap &late) {
  std::optional<int64_t> first;
  for (Operation *user : op.getUsers()) {
    if (computesBackward(*user) || isa<nn::ToHostOp>(user))
      continue;
    if (!computesForward(*user) || !sections.contains(user))
      return std::nullopt;
    int64_t section = late.lookup_or(user, sections.lookup(user));
    first = std::min(first.value_or(section), section);
  }
  return first;
}

/// Whether a section keeps an operator that depends on the data.
static bool keepsOperator(const SectionMap &sections, const SectionMap &late,
                          int64_t section,
                          const llvm::DenseSet<Value> &ofData) {
  return llvm::any_of(sections, [&](const auto &entry) {
    auto [op, own] = entry;
    return own == section && computesForward(*op) && !late.contains(op) &&
           ofData.contains(op->getResult(0));
  });
}

/// Forward operators of `section`, without parameters, whose results later
/// sections alone read, and the first of these sections.
static SmallVector<Move> findLate(Block &block, const SectionMap &sections,
                                  int64_t section,
                                  const llvm::DenseSet<Value> &ofData) {
  SectionMap late;
  SmallVector<Move> candidates;
  for (Operation &op : llvm::reverse(block)) {
    auto own = sections.find(&op);
    if (own == sections.end() || own->second != section ||
        !computesForward(op) || readsArgument(op))
      continue;
    auto reader = findReader(op, sections, late);
    if (reader && *reader > section) {
      late[&op] = *reader;
      candidates.emplace_back(&op, *reader);
    }
  }
  if (!keepsOperator(sections, late, section, ofData))
    candidates.clear();
  return candidates;
}

/// Of one value, once for each other section that reads it in the same pass.
static int64_t countCrossing(Value value, const SectionMap &sections,
                             const SectionMap &moved) {
  auto getSection = [&](Operation *op) {
    auto found = moved.find(op);
    return found != moved.end() ? found->second : sections.lookup_or(op, -1);
  };
  Operation *maker = value.getDefiningOp();
  if (!maker || !sections.contains(maker))
    return 0;
  std::set<int64_t> readers;
  for (Operation *user : value.getUsers())
    if (nn::getPass(user) == nn::getPass(maker) && sections.contains(user) &&
        !isa<nn::ToHostOp>(user))
      readers.insert(getSection(user));
  readers.erase(getSection(maker));
  return static_cast<int64_t>(readers.size()) * getBytes(value.getType());
}

int64_t tandem::countCrossing(Block &block, const SectionMap &sections,
                              const SectionMap &moved) {
  int64_t bytes = 0;
  for (Operation &op : block)
    for (Value result : op.getResults())
      bytes +=
          computesForward(op) ? ::countCrossing(result, sections, moved) : 0;
  return bytes;
}

/// The first ones of `candidates`, as many as let the fewest bytes cross.
static void addMoves(ArrayRef<Move> candidates, const SectionMap &sections,
                     SectionMap &moves) {
  llvm::SetVector<Value> values;
  for (auto [op, section] : candidates) {
    values.insert(op->result_begin(), op->result_end());
    values.insert(op->operand_begin(), op->operand_end());
  }
  SectionMap moved;
  auto count = [&] {
    int64_t bytes = 0;
    for (Value value : values)
      bytes += ::countCrossing(value, sections, moved);
    return bytes;
  };
  int64_t least = count();
  size_t best = 0;
  for (auto [number, move] : llvm::enumerate(candidates)) {
    moved.insert(move);
    if (int64_t bytes = count(); bytes < least) {
      least = bytes;
      best = number + 1;
    }
  }
  moves.insert(candidates.begin(), candidates.begin() + best);
}

/// Section by section, from the last to the first: where an operator of a later
/// one is in the end is known before what it reads, or gives, is looked at.
static SectionMap chooseMoves(
    const SectionMap &sections,
    llvm::function_ref<SmallVector<Move>(const SectionMap &, int64_t)> find) {
  std::set<int64_t, std::greater<>> numbers;
  for (auto [op, section] : sections)
    numbers.insert(section);
  SectionMap current = sections, moves;
  for (int64_t section : numbers) {
    SectionMap own;
    addMoves(find(current, section), current, own);
    for (auto [op, later] : own)
      current[op] = moves[op] = later;
  }
  return moves;
}

SectionMap tandem::findMoves(Block &block, const SectionMap &sections) {
  llvm::DenseSet<Value> ofData =
      findOfData(cast<func::FuncOp>(block.getParentOp()));
  return chooseMoves(sections, [&](const SectionMap &current, int64_t section) {
    return findLate(block, current, section, ofData);
  });
}

//===----------------------------------------------------------------------===//
// The backward pass
//===----------------------------------------------------------------------===//

/// Whether a value of the forward pass is in `section`, or is sent there.
static bool isThere(Value value, int64_t section, const SectionMap &sections) {
  Operation *maker = value.getDefiningOp();
  if (!maker)
    return false;
  auto isIn = [&](Operation *op) {
    auto found = sections.find(op);
    return found != sections.end() && found->second == section;
  };
  return isIn(maker) || !sections.contains(maker) ||
         llvm::any_of(value.getUsers(), [&](Operation *user) {
           return computesForward(*user) && isIn(user);
         });
}

/// Whether `op` makes something of kept values alone, which is no gradient.
static bool isOfKept(Operation &op) {
  return llvm::none_of(op.getOperands(), [](Value operand) {
    Operation *maker = operand.getDefiningOp();
    return maker && computesBackward(*maker);
  });
}

/// The only section, behind that of `op`, that its gradients come from.
static std::optional<int64_t>
findSender(Operation &op, const SectionMap &sections, const SectionMap &moved) {
  std::optional<int64_t> only;
  for (Value operand : op.getOperands()) {
    Operation *maker = operand.getDefiningOp();
    if (!maker || !computesBackward(*maker) || isOfKept(*maker) ||
        !sections.contains(maker))
      continue;
    int64_t section = moved.lookup_or(maker, sections.lookup(maker));
    if (only.value_or(section) != section)
      return std::nullopt;
    only = section;
  }
  return only && *only > sections.lookup(&op) ? only : std::nullopt;
}

namespace {
/// Collects what of a section can follow gradients to the later one that they
/// come from.
class GradientMoves {
public:
  GradientMoves(const SectionMap &sections, int64_t section)
      : sections(sections), section(section) {}
  void add(Operation &op);

  SmallVector<Move> candidates;

private:
  bool canMove(Operation &op, int64_t to) const;
  void move(Operation &op, int64_t to);

  const SectionMap &sections;
  int64_t section;
  SectionMap moved;
};
} // namespace

/// All that `op` reads is a gradient, or is there.
bool GradientMoves::canMove(Operation &op, int64_t to) const {
  return llvm::all_of(op.getOperands(), [&](Value operand) {
    Operation *maker = operand.getDefiningOp();
    if (!maker || !computesBackward(*maker))
      return isThere(operand, to, sections);
    return !isOfKept(*maker) || canMove(*maker, to);
  });
}

void GradientMoves::move(Operation &op, int64_t to) {
  for (Value operand : op.getOperands())
    if (Operation *maker = operand.getDefiningOp();
        maker && computesBackward(*maker) && isOfKept(*maker) &&
        sections.contains(maker) && sections.lookup(maker) != to &&
        !moved.contains(maker))
      move(*maker, to);
  moved[&op] = to;
  candidates.emplace_back(&op, to);
}

void GradientMoves::add(Operation &op) {
  auto own = sections.find(&op);
  bool isReturned = llvm::any_of(op.getUsers(), [](Operation *user) {
    return user->hasTrait<OpTrait::IsTerminator>();
  });
  if (own == sections.end() || own->second != section ||
      !computesBackward(op) || isReturned || isOfKept(op))
    return;
  auto sender = findSender(op, sections, moved);
  if (sender && canMove(op, *sender))
    move(op, *sender);
}

SectionMap tandem::findGradientMoves(Block &block, const SectionMap &sections) {
  return chooseMoves(sections, [&](const SectionMap &current, int64_t section) {
    GradientMoves moves(current, section);
    for (Operation &op : block)
      moves.add(op);
    return moves.candidates;
  });
}
