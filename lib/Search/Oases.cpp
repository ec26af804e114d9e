//===- Oases.cpp - the planner of Oases -----------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The cheapest plan under the accounting `oases` (Oases, section 4; the paper
// solves equations 5 and 6 as an integer program). Blocks are a chain, and what
// two neighbours cost depends on their signatures alone: so this is dynamic
// programming over the chain. Labels of a signature are times and bytes of
// which none is worse in both.
//
//===----------------------------------------------------------------------===//

#include "tandem/Cost/Oases.h"
#include "tandem/Search/Search.h"
#include <algorithm>
#include <limits>

using namespace tandem;
using namespace tandem::cost;
using namespace tandem::search;

namespace {
/// The blocks up to one, which has a signature.
struct Label {
  double seconds = 0;
  int64_t bytes = 0;
  /// Index of the label of the block before, or -1.
  int before = -1;
  unsigned signature = 0;
};

/// A signature of a block that its arguments can have.
struct Choice {
  unsigned signature;
  const Signature *forms;
  int64_t bytes;
};

class Planner {
public:
  Planner(const SearchProblem &problem, const OasesChain &chain)
      : problem(problem), chain(chain), producers(problem.getProducers()) {}
  SearchResult run();

private:
  std::vector<Choice> listChoices(unsigned op) const;
  std::optional<unsigned> findForm(unsigned argument,
                                   const Layout &layout) const;
  void addBegin(unsigned op);
  void addNext(unsigned from, unsigned to);
  void keep(std::vector<Label> &found);
  Plan makePlan(int label) const;

  const SearchProblem &problem;
  const OasesChain &chain;
  std::vector<unsigned> producers;
  /// All that were kept, and those of the last block.
  std::vector<Label> labels;
  size_t begin = 0;
  int64_t leastBytes = std::numeric_limits<int64_t>::max();
  uint64_t numVisited = 0;
};
} // namespace

std::optional<unsigned> Planner::findForm(unsigned argument,
                                          const Layout &layout) const {
  const SignatureSet &forms = problem.getSignatures(argument);
  for (unsigned i = 0; i < forms.size(); ++i)
    if (forms[i].results.front() == layout)
      return i;
  return std::nullopt;
}

std::vector<Choice> Planner::listChoices(unsigned op) const {
  std::vector<Choice> choices;
  const Operator &info = problem.operators[op];
  const SignatureSet &set = problem.getSignatures(op);
  for (unsigned i = 0; i < set.size(); ++i) {
    bool isStored = true;
    for (unsigned at = 0; at < info.operands.size(); ++at) {
      unsigned maker = producers[info.operands[at]];
      isStored &= !problem.operators[maker].isArgument() ||
                  findForm(maker, set[i].operands[at]);
    }
    if (isStored)
      choices.push_back({i, &set[i], getOasesBytes(problem, op, set[i])});
  }
  return choices;
}

/// Keeps those of which no other one is as fast and as small. The workspace of
/// the last block is none of the bytes yet.
void Planner::keep(std::vector<Label> &found) {
  std::sort(found.begin(), found.end(), [](const Label &a, const Label &b) {
    return std::tie(a.signature, a.seconds, a.bytes) <
           std::tie(b.signature, b.seconds, b.bytes);
  });
  begin = labels.size();
  int64_t smallest = 0;
  for (const Label &label : found) {
    bool isOfNext =
        labels.size() == begin || labels.back().signature != label.signature;
    if (!isOfNext && label.bytes >= smallest)
      continue;
    smallest = label.bytes;
    labels.push_back(label);
  }
}

void Planner::addBegin(unsigned op) {
  std::vector<Label> found;
  for (const Choice &choice : listChoices(op))
    found.push_back({getOasesBegin(choice.forms->seconds), choice.bytes, -1,
                     choice.signature});
  keep(found);
}

/// Extends the labels of block `from` by `to`, the output at last.
void Planner::addNext(unsigned from, unsigned to) {
  const Operator &next = problem.operators[to];
  bool isOutput = next.kind == Operator::Kind::Output;
  int at = findOasesRead(problem, to, producers);
  std::vector<Label> found;
  size_t end = labels.size();
  for (const Choice &choice : listChoices(to))
    for (size_t i = begin; i < end; ++i) {
      const Signature &before =
          problem.getSignatures(from)[labels[i].signature];
      auto change =
          getOasesChange(problem, next.operands[at], before.results.front(),
                         choice.forms->operands[at]);
      if (!change)
        continue;
      Label label = labels[i];
      label.seconds += isOutput ? getOasesEnd(before.seconds, *change)
                                : getOasesTime(before.seconds, *change,
                                               choice.forms->seconds);
      label.bytes += isOutput ? before.workspace : choice.bytes;
      label.before = static_cast<int>(i);
      label.signature = choice.signature;
      ++numVisited;
      if (isOutput)
        leastBytes = std::min(leastBytes, label.bytes);
      found.push_back(label);
    }
  keep(found);
}

Plan Planner::makePlan(int label) const {
  Plan plan;
  plan.signatures.assign(problem.operators.size(), 0);
  plan.stageEnds = {unsigned(problem.operators.size())};
  for (size_t i = chain.size(); i-- > 0; label = labels[label].before) {
    unsigned op = chain[i];
    const Signature &signature =
        problem.getSignatures(op)[labels[label].signature];
    plan.signatures[op] = labels[label].signature;
    const std::vector<unsigned> &operands = problem.operators[op].operands;
    for (unsigned at = 0; at < operands.size(); ++at)
      if (unsigned maker = producers[operands[at]];
          problem.operators[maker].isArgument())
        plan.signatures[maker] = *findForm(maker, signature.operands[at]);
  }
  return plan;
}

SearchResult Planner::run() {
  SearchResult result;
  addBegin(chain.front());
  for (size_t i = 1; i < chain.size(); ++i)
    addNext(chain[i - 1], chain[i]);
  result.numVisited = numVisited;
  int best = -1;
  for (size_t i = begin; i < labels.size(); ++i)
    if (labels[i].bytes <= problem.memoryLimit &&
        (best < 0 || labels[i].seconds < labels[best].seconds))
      best = static_cast<int>(i);
  if (best < 0) {
    result.isInfeasible = true;
    result.lacksMemory = leastBytes < std::numeric_limits<int64_t>::max();
    result.leastBytes = result.lacksMemory ? leastBytes : 0;
    result.error = "no plan of the chain ";
    result.error +=
        result.lacksMemory
            ? "holds " + std::to_string(problem.memoryLimit) +
                  " B or less on a device, the smallest one holds " +
                  std::to_string(leastBytes) + " B"
            : "has forms that fit each other";
    return result;
  }
  Plan plan = makePlan(best);
  if (!derive(problem, plan, result.error))
    return result;
  plan.lowerBound = plan.cost;
  plan.isOptimal = true;
  result.plan = std::move(plan);
  return result;
}

SearchResult tandem::search::searchOases(const SearchProblem &problem,
                                         const SearchOptions &) {
  SearchResult result;
  if (problem.accounting != Accounting::Oases) {
    result.error = "the problem has the accounting " +
                   std::string(getAccountingName(problem.accounting)) +
                   ", the search oases expects oases";
    return result;
  }
  std::optional<OasesChain> chain = makeOasesChain(problem, result.error);
  return chain ? Planner(problem, *chain).run() : result;
}
