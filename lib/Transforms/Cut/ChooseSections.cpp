//===- ChooseSections.cpp - sections of equal FLOPs -----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ChooseSections.h"
#include "Flow.h"
#include "LateOperators.h"
#include "tandem/Analysis/Bytes.h"
#include "tandem/Analysis/StepAttrs.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Transforms/Cut/Cut.h"
#include <limits>
#include <map>

using namespace mlir;
using namespace tandem;

/// Cuts whose largest section is at most so much larger are near: a border
/// between layers is worth more than the last FLOP.
static constexpr double kNear = 1.02;
static constexpr double kNever = std::numeric_limits<double>::infinity();

namespace {
/// The parameters that operators of the data read, in the order in which they
/// do so first.
class Chain {
public:
  explicit Chain(func::FuncOp step);
  unsigned size() const { return parameters.size(); }

  /// Numbers of arguments.
  std::vector<unsigned> parameters;
  /// Of the operators of those parameters that are before number i.
  std::vector<double> flopsBefore;
  std::vector<int64_t> productsBefore;
  /// Of those, bytes of the results that later passes read.
  std::vector<int64_t> savedBefore;
  /// Of those parameters before number i that have operators.
  std::vector<unsigned> usedBefore;
  /// Whether there may be a cut in front of number i: not between a parameter
  /// and its first reader.
  std::vector<bool> mayCut;
  /// How many modules have both number i and the one before it.
  std::vector<unsigned> depth;

  /// Bytes that cross a cut in front of a parameter.
  int64_t getCrossing(unsigned cut);
  /// The largest number of sections.
  int64_t countSections() const;
  /// Leaves the parameters that one module has together, if the rest divides
  /// into so many sections.
  void keepModules(int64_t number);

  StringRef getName(unsigned i) {
    return nn::getTensorName(step.getArgAttrDict(parameters[i]));
  }

private:
  void addParameters(Value value);
  void addOperator(Operation &op);
  int64_t getRank(Value value) const { return ranks.lookup_or(value, -1); }

  func::FuncOp step;
  /// What depends on the data.
  llvm::DenseSet<Value> data;
  llvm::DenseMap<Value, int64_t> ranks;
  std::vector<std::pair<Operation *, unsigned>> ranksOfOps;
  std::map<unsigned, int64_t> crossing;
  std::vector<double> flops;
  std::vector<int64_t> products, saved;
  std::vector<bool> used;
};

/// A cut in front of each of these parameters of the chain.
using Borders = SmallVector<unsigned>;

/// The best cut of a chain, by dynamic programming over the end of each
/// section.
class Cutter {
public:
  Cutter(Chain &chain, unsigned number) : chain(chain), number(number) {}
  Borders run();

private:
  double findLargest() const;
  double getFlops(unsigned from, unsigned to) const {
    return chain.flopsBefore[to] - chain.flopsBefore[from];
  }
  bool isSection(unsigned from, unsigned to) const {
    return chain.mayCut[from] && chain.usedBefore[from] < chain.usedBefore[to];
  }

  Chain &chain;
  unsigned number;
};
} // namespace

//===----------------------------------------------------------------------===//
// The chain
//===----------------------------------------------------------------------===//

/// Appends the parameters that `value`, which does not depend on the data, is
/// made of.
void Chain::addParameters(Value value) {
  if (ranks.contains(value) || data.contains(value))
    return;
  int64_t rank = -1;
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto attributes = step.getArgAttrDict(argument.getArgNumber());
    if (nn::getRole(attributes) == nn::Role::Parameter) {
      rank = parameters.size();
      parameters.push_back(argument.getArgNumber());
      flops.push_back(0);
      products.push_back(0);
      saved.push_back(0);
      used.push_back(false);
      mayCut.push_back(true);
    }
  } else if (isForward(*value.getDefiningOp())) {
    for (Value operand : value.getDefiningOp()->getOperands()) {
      addParameters(operand);
      rank = std::max(rank, getRank(operand));
    }
  }
  ranks[value] = rank;
}

/// Whether another pass than the forward one reads it.
static bool isSaved(Value value) {
  return llvm::any_of(value.getUsers(), [](Operation *user) {
    return !isForward(*user) && !user->hasTrait<OpTrait::IsTerminator>();
  });
}

void Chain::addOperator(Operation &op) {
  if (llvm::none_of(op.getOperands(),
                    [&](Value operand) { return data.contains(operand); }))
    return;
  int64_t rank = -1;
  unsigned before = size();
  for (Value operand : op.getOperands()) {
    addParameters(operand);
    rank = std::max(rank, getRank(operand));
  }
  for (Value result : op.getResults())
    ranks[result] = rank;
  if (rank < 0)
    return;
  if (before < size())
    std::fill(mayCut.begin() + before + 1, mayCut.begin() + rank + 1, false);
  ranksOfOps.emplace_back(&op, rank);
  flops[rank] += tandem::getFlops(&op);
  products[rank] += isa<nn::LibraryOpInterface>(op);
  for (Value result : op.getResults())
    if (isSaved(result))
      saved[rank] += tandem::getBytes(result.getType());
  used[rank] = true;
}

int64_t Chain::getCrossing(unsigned cut) {
  auto [found, isNew] = crossing.try_emplace(cut, 0);
  if (isNew) {
    SectionMap sections;
    for (auto [op, rank] : ranksOfOps)
      sections[op] = rank >= cut;
    Block &block = step.getBody().front();
    found->second = countCrossing(block, sections, findMoves(block, sections));
  }
  return found->second;
}

static unsigned countCommonModules(StringRef first, StringRef second) {
  unsigned count = 0;
  for (auto [a, b] : llvm::zip(first, second)) {
    if (a != b)
      break;
    count += a == '.';
  }
  return count;
}

Chain::Chain(func::FuncOp step) : step(step), data(findOfData(step)) {
  for (Operation &op : step.getBody().front())
    if (isForward(op))
      addOperator(op);
  flopsBefore.assign(1, 0);
  productsBefore.assign(1, 0);
  savedBefore.assign(1, 0);
  usedBefore.assign(1, 0);
  for (unsigned i = 0; i < size(); ++i) {
    flopsBefore.push_back(flopsBefore[i] + flops[i]);
    productsBefore.push_back(productsBefore[i] + products[i]);
    savedBefore.push_back(savedBefore[i] + saved[i]);
    usedBefore.push_back(usedBefore[i] + used[i]);
  }
  depth.assign(size() + 1, 0);
  for (unsigned i = 1; i < size(); ++i)
    depth[i] = countCommonModules(getName(i - 1), getName(i));
}

int64_t Chain::countSections() const {
  int64_t count = 0;
  for (unsigned begin = 0, end = 1; end <= size(); ++end)
    if ((end == size() || mayCut[end]) && usedBefore[begin] < usedBefore[end]) {
      begin = end;
      ++count;
    }
  return count;
}

void Chain::keepModules(int64_t number) {
  std::vector<bool> all = mayCut;
  for (unsigned i = 1; i < size(); ++i) {
    StringRef before = getName(i - 1).rsplit('.').first;
    if (getName(i).contains('.') && getName(i).rsplit('.').first == before)
      mayCut[i] = false;
  }
  if (countSections() < number)
    mayCut = std::move(all);
}

//===----------------------------------------------------------------------===//
// The cut
//===----------------------------------------------------------------------===//

/// The FLOPs of the largest section, in the best cut.
double Cutter::findLargest() const {
  unsigned size = chain.size();
  std::vector<double> best(size + 1, kNever);
  best[0] = 0;
  for (unsigned section = 0; section < number; ++section) {
    std::vector<double> next(size + 1, kNever);
    for (unsigned end = 1; end <= size; ++end)
      for (unsigned begin = end; begin-- > 0;) {
        double own = getFlops(begin, end);
        if (own > next[end])
          break;
        if (isSection(begin, end))
          next[end] = std::min(next[end], std::max(own, best[begin]));
      }
    best = std::move(next);
  }
  return best[size];
}

/// Fewest bytes first, then borders of larger modules, then the most equal
/// sections.
Borders Cutter::run() {
  double limit = findLargest() * kNear;
  unsigned size = chain.size();
  using Cost = std::tuple<double, unsigned, double>;
  std::vector<Cost> best(size + 1, Cost(kNever, 0, 0));
  std::vector<std::vector<unsigned>> from(number);
  best[0] = Cost(0, 0, 0);
  for (unsigned section = 0; section < number; ++section) {
    std::vector<Cost> next(size + 1, Cost(kNever, 0, 0));
    from[section].assign(size + 1, 0);
    for (unsigned end = 1; end <= size; ++end)
      for (unsigned begin = end; begin-- > 0;) {
        double own = getFlops(begin, end);
        if (own > limit)
          break;
        auto [bytes, depth, squares] = best[begin];
        double left = getFlops(begin, size) / (number - section);
        if (!isSection(begin, end) || bytes == kNever || left > limit)
          continue;
        Cost cost(bytes + chain.getCrossing(begin), depth + chain.depth[begin],
                  squares + own * own);
        if (cost >= next[end])
          continue;
        next[end] = cost;
        from[section][end] = begin;
      }
    best = std::move(next);
  }
  Borders borders(number);
  for (unsigned section = number, end = size; section-- > 0;)
    end = borders[section] = from[section][end];
  return borders;
}

FailureOr<llvm::DenseMap<unsigned, int64_t>>
tandem::chooseSections(func::FuncOp step, int64_t number) {
  Chain chain(step);
  int64_t most = chain.countSections();
  if (number < 1 || number > most)
    return emitError(step.getLoc())
           << "sections is " << number << ", but the parameters of the step "
           << "divide into at most " << most
           << " sections with operators of their own, expected no more";
  chain.keepModules(number);
  Borders borders = Cutter(chain, number).run();
  llvm::DenseMap<unsigned, int64_t> sections;
  for (auto [section, begin] : llvm::enumerate(borders)) {
    unsigned end =
        section + 1 < borders.size() ? borders[section + 1] : chain.size();
    for (unsigned i = begin; i < end; ++i)
      sections[chain.parameters[i]] = section;
  }
  return sections;
}

std::vector<ChainLayer> tandem::listLayers(func::FuncOp step, int64_t number) {
  Chain chain(step);
  chain.keepModules(std::min(number, chain.countSections()));
  std::vector<ChainLayer> layers;
  for (unsigned begin = 0, end = 1; end <= chain.size(); ++end) {
    bool isCut = end == chain.size() ||
                 (chain.mayCut[end] &&
                  chain.usedBefore[end] < chain.usedBefore[chain.size()]);
    if (!isCut || chain.usedBefore[begin] == chain.usedBefore[end])
      continue;
    ChainLayer &layer = layers.emplace_back();
    layer.flops = chain.flopsBefore[end] - chain.flopsBefore[begin];
    layer.products = chain.productsBefore[end] - chain.productsBefore[begin];
    layer.saved = chain.savedBefore[end] - chain.savedBefore[begin];
    layer.leaving = end < chain.size() ? chain.getCrossing(end) : 0;
    for (; begin < end; ++begin) {
      unsigned argument = chain.parameters[begin];
      layer.parameters.push_back(chain.getName(begin).str());
      layer.bytes += tandem::getBytes(step.getArgument(argument).getType());
    }
  }
  return layers;
}
