//===- ExplainMemory.cpp - what does not fit into memory ------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ExplainMemory.h"
#include "tandem/Cost/Holdings.h"
#include "tandem/Explain/Explain.h"
#include "tandem/Support/ByteSize.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"

using namespace tandem;
using namespace tandem::plan;
using cost::Holding;
using llvm::ArrayRef;

/// How many of the largest are named.
static constexpr size_t kNumLargest = 3;

namespace {
/// What is held, by what holds it.
struct Held {
  int64_t bytes;
  std::string text;
};
} // namespace

//===----------------------------------------------------------------------===//
// Texts
//===----------------------------------------------------------------------===//

/// `'nn.softmax#17' at model.py:12`.
static std::string describe(const std::string &name,
                            const std::string &location) {
  return "'" + name + "'" + (location.empty() ? "" : " at " + location);
}

static std::string listLargest(std::vector<Held> all) {
  llvm::stable_sort(
      all, [](const Held &a, const Held &b) { return a.bytes > b.bytes; });
  all.resize(std::min(all.size(), kNumLargest));
  std::string text;
  for (const Held &held : all)
    text += (text.empty() ? "; largest: " : ", ") + held.text + " " +
            printByteSize(held.bytes);
  return text;
}

/// `3 MB on each rank, 1 MB more than the limit of 2 MB`.
static std::string compareWithLimit(int64_t bytes, int64_t limit) {
  return printByteSize(bytes) + " on each rank, " +
         printByteSize(bytes - limit) + " more than the limit of " +
         printByteSize(limit);
}

//===----------------------------------------------------------------------===//
// What every plan holds
//===----------------------------------------------------------------------===//

namespace {
/// What is stored, and what the backward pass reads of the forward pass, each
/// in the smallest form that its producer can give it.
class LeastHeld {
public:
  explicit LeastHeld(const cost::SearchProblem &problem);
  std::string suggest(bool recomputes) const;

  std::vector<Held> all;

private:
  int64_t getLeastBytes(unsigned producer, unsigned result) const;
  void add(unsigned producer, unsigned result);

  const cost::SearchProblem &problem;
  /// Tensors that the backward pass reads.
  std::vector<bool> isRead;
  int64_t saved = 0, stored = 0;
};
} // namespace

/// Whether some signature takes another source instead.
static bool mayBeLeft(const cost::SignatureSet &set, unsigned operand) {
  return llvm::any_of(set, [&](const cost::Signature &signature) {
    return signature.operands[operand].isAbsent();
  });
}

LeastHeld::LeastHeld(const cost::SearchProblem &problem)
    : problem(problem), isRead(problem.tensors.size()) {
  for (auto [index, op] : llvm::enumerate(problem.operators))
    for (auto [operand, tensor] : llvm::enumerate(op.operands))
      isRead[tensor] =
          isRead[tensor] || (op.pass == cost::Pass::Backward &&
                             !mayBeLeft(problem.getSignatures(index), operand));
  for (auto [producer, op] : llvm::enumerate(problem.operators))
    for (unsigned result = 0; result < op.results.size(); ++result)
      add(producer, result);
}

int64_t LeastHeld::getLeastBytes(unsigned producer, unsigned result) const {
  unsigned tensor = problem.operators[producer].results[result];
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const cost::Signature &signature : problem.getSignatures(producer))
    least =
        std::min(least, problem.getBytes(tensor, signature.results[result]));
  return least;
}

void LeastHeld::add(unsigned producer, unsigned result) {
  const cost::Operator &op = problem.operators[producer];
  unsigned tensor = op.results[result];
  bool isStored = op.kind == cost::Operator::Kind::Resident;
  if (!isStored && (op.pass != cost::Pass::Forward || !isRead[tensor]))
    return;
  int64_t bytes = getLeastBytes(producer, result);
  (isStored ? stored : saved) += bytes;
  all.push_back({bytes, describe(problem.tensors[tensor].name,
                                 op.getMadeLocation(result))});
}

/// By what takes most memory in every plan.
std::string LeastHeld::suggest(bool recomputes) const {
  if (saved <= stored)
    return "; parameters and states take most: try more devices";
  return std::string("; what is saved for the backward pass takes most: try ") +
         (recomputes ? "" : "--recompute, ") +
         "a smaller batch or more devices";
}

/// Says where the number is from: a bound of all plans, or a plan.
static std::string describeNeed(const search::SearchResult &result,
                                int64_t limit) {
  if (result.leastBytes > 0)
    return "every plan holds at least " +
           compareWithLimit(result.leastBytes, limit);
  if (result.smallestPeak > 0)
    return (result.isInfeasible ? "none fits" : "found none that fits") +
           std::string("; the smallest that was found holds ") +
           compareWithLimit(result.smallestPeak, limit);
  return result.error;
}

std::string tandem::plan::explainNoPlan(const cost::SearchProblem &problem,
                                        const search::SearchResult &result,
                                        bool recomputes) {
  if (!result.lacksMemory ||
      (result.leastBytes == 0 && result.smallestPeak == 0))
    return result.error;
  LeastHeld least(problem);
  return describeNeed(result, problem.memoryLimit) + listLargest(least.all) +
         least.suggest(recomputes);
}

//===----------------------------------------------------------------------===//
// What a plan holds
//===----------------------------------------------------------------------===//

/// `'nn.softmax#17' at model.py:12 (made)`.
static std::string describe(const cost::SearchProblem &problem,
                            ArrayRef<unsigned> producers,
                            const Holding &holding) {
  std::string kind = std::string(" (") + explain::describe(holding.kind) + ")";
  if (holding.kind == Holding::Kind::Workspace) {
    const cost::Operator &op = problem.operators[holding.index];
    return describe(op.name, op.location) + kind;
  }
  const cost::Operator &op = problem.operators[producers[holding.index]];
  unsigned result = llvm::find(op.results, holding.index) - op.results.begin();
  return describe(problem.tensors[holding.index].name,
                  op.getMadeLocation(result)) +
         kind;
}

/// What a plan holds in the stage of its peak.
static std::vector<Held> listPeak(const cost::SearchProblem &problem,
                                  const cost::Plan &plan) {
  cost::ChangeTable table(problem);
  std::string error;
  auto report = cost::cost(problem, plan, table, error);
  if (!report)
    return {};
  const std::vector<int64_t> &bytes = report->stageBytes;
  unsigned peak = llvm::max_element(bytes) - bytes.begin();
  auto holdings = cost::listHeldAtPeak(problem, plan, peak, table, error);
  if (!holdings)
    return {};
  std::vector<unsigned> producers = problem.getProducers();
  std::vector<Held> all;
  for (const Holding &holding : *holdings)
    all.push_back({holding.bytes, describe(problem, producers, holding)});
  return all;
}

std::string tandem::plan::explainTooLarge(const cost::SearchProblem &problem,
                                          const cost::Plan &plan) {
  return "holds " + compareWithLimit(plan.peak, problem.memoryLimit) +
         listLargest(listPeak(problem, plan));
}
