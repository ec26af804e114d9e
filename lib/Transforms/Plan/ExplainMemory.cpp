//===- ExplainMemory.cpp - what does not fit into memory ------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ExplainMemory.h"
#include "tandem/Cost/Holdings.h"
#include "tandem/Cost/TensorIndex.h"
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

struct HeldList {
  std::vector<Held> all;
  /// The largest bucket of an update on the host, and what it updates.
  Held bucket = {0, ""};
  /// Of parameters and states.
  int64_t stored = 0;

  void add(Held held, bool isStored) {
    stored += isStored ? held.bytes : 0;
    all.push_back(std::move(held));
  }
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

/// With the line that makes it, or else the first that reads it.
static std::string describe(const cost::TensorIndex &index, unsigned tensor) {
  const cost::SearchProblem &problem = index.problem;
  const cost::TensorFacts &info = index.tensors[tensor];
  std::string location =
      problem.operators[info.producer].getMadeLocation(info.result);
  for (const cost::TensorUse &use : info.uses)
    if (location.empty())
      location = problem.operators[use.op].getReadLocation(use.operand);
  return describe(problem.tensors[tensor].name, location);
}

static std::string listLargest(HeldList held) {
  std::vector<Held> &all = held.all;
  llvm::stable_sort(
      all, [](const Held &a, const Held &b) { return a.bytes > b.bytes; });
  all.resize(std::min(all.size(), kNumLargest));
  std::string text;
  for (const Held &each : all)
    text += (text.empty() ? "; largest: " : ", ") + each.text + " " +
            printByteSize(each.bytes);
  return text;
}

/// By what takes most of `bytes`.
static std::string suggest(const HeldList &held, int64_t bytes) {
  return "; parameters and states take " + printByteSize(held.stored) +
         " of it: try " +
         (held.stored * 2 > bytes
              ? "more devices"
              : "a smaller batch, accumulation or more devices");
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

/// Of the tensor, in the smallest form that its producer can give it.
static int64_t getLeastBytes(const cost::TensorIndex &index, unsigned tensor) {
  const cost::TensorFacts &info = index.tensors[tensor];
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const cost::Signature &signature :
       index.problem.getSignatures(info.producer))
    least = std::min(
        least, index.problem.getBytes(tensor, signature.results[info.result]));
  return least;
}

/// What is stored, and what the backward pass reads of the forward pass.
static HeldList listLeast(const cost::SearchProblem &problem) {
  cost::TensorIndex index(problem);
  HeldList held;
  for (auto [tensor, info] : llvm::enumerate(index.tensors)) {
    const cost::Operator &op = problem.operators[info.producer];
    bool isStored = op.kind == cost::Operator::Kind::Resident;
    bool isRead = llvm::any_of(info.uses, [&](const cost::TensorUse &use) {
      return problem.operators[use.op].pass == cost::Pass::Backward &&
             !index.mayBeAbsent(use);
    });
    if (isStored || (isRead && op.pass == cost::Pass::Forward))
      held.add({getLeastBytes(index, tensor), describe(index, tensor)},
               isStored);
  }
  return held;
}

//===----------------------------------------------------------------------===//
// What a plan holds
//===----------------------------------------------------------------------===//

/// `'nn.softmax#17' at model.py:12 (made)`.
static std::string describe(const cost::TensorIndex &index,
                            const Holding &holding) {
  std::string kind = std::string(" (") + explain::describe(holding.kind) + ")";
  if (holding.kind != Holding::Kind::Workspace)
    return describe(index, holding.index) + kind;
  const cost::Operator &op = index.problem.operators[holding.index];
  return describe(op.name, op.location) + kind;
}

static bool isStored(const cost::TensorIndex &index, const Holding &holding) {
  return holding.kind == Holding::Kind::Stored &&
         index.problem.operators[index.tensors[holding.index].producer].kind ==
             cost::Operator::Kind::Resident;
}

/// Keeps in mind what an operator holds of what it updates on the host.
static void noteBucket(const Holding &holding, ArrayRef<std::string> updated,
                       Held &bucket) {
  if (holding.kind == Holding::Kind::Workspace &&
      holding.index < updated.size() && !updated[holding.index].empty() &&
      holding.bytes > bucket.bytes)
    bucket = {holding.bytes, updated[holding.index]};
}

/// What a plan holds in the stage of its peak.
static HeldList listPeak(const cost::SearchProblem &problem,
                         const cost::Plan &plan,
                         ArrayRef<std::string> updated) {
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
  cost::TensorIndex index(problem);
  HeldList held;
  for (const Holding &holding : *holdings) {
    held.add({holding.bytes, describe(index, holding)},
             isStored(index, holding));
    noteBucket(holding, updated, held.bucket);
  }
  return held;
}

std::string tandem::plan::listLargestAtPeak(const cost::SearchProblem &problem,
                                            const cost::Plan &plan) {
  return listLargest(listPeak(problem, plan, {}));
}

/// One line, if all but the bucket of an update on the host fits.
static std::string explainBucket(const Held &bucket, int64_t bytes,
                                 int64_t limit) {
  int64_t room = limit - (bytes - bucket.bytes);
  if (bucket.bytes == 0 || room < 0)
    return "";
  return "the bucket of '" + bucket.text + "' on the host takes " +
         printByteSize(bucket.bytes) +
         " on each rank, with that copied beside it, and " +
         printByteSize(room) +
         " are free beside what else is held: try memory of " +
         printByteSize(bytes) + ", more devices, or no pin 'host' on it";
}

std::string tandem::plan::explainTooLarge(const cost::SearchProblem &problem,
                                          const cost::Plan &plan,
                                          ArrayRef<std::string> updated) {
  HeldList held = listPeak(problem, plan, updated);
  std::string line = explainBucket(held.bucket, plan.peak, problem.memoryLimit);
  return "holds " + compareWithLimit(plan.peak, problem.memoryLimit) +
         (line.empty() ? listLargest(held) : ": " + line);
}

//===----------------------------------------------------------------------===//
// Why there is no plan
//===----------------------------------------------------------------------===//

/// Says where the number is from: a bound of all plans, or a plan.
static std::string describeNeed(const search::SearchResult &result) {
  if (result.leastBytes > 0)
    return "every plan holds at least ";
  return (result.isInfeasible ? "none fits" : "found none that fits") +
         std::string("; the smallest that was found holds ");
}

std::string tandem::plan::explainNoPlan(const cost::SearchProblem &problem,
                                        const search::SearchResult &result,
                                        ArrayRef<std::string> updated) {
  int64_t bytes = std::max(result.leastBytes, result.smallestPeak);
  if (!result.lacksMemory || bytes == 0)
    return result.error;
  HeldList held = result.smallest ? listPeak(problem, *result.smallest, updated)
                                  : listLeast(problem);
  if (std::string line = explainBucket(held.bucket, bytes, problem.memoryLimit);
      !line.empty())
    return line;
  return describeNeed(result) + compareWithLimit(bytes, problem.memoryLimit) +
         listLargest(held) + suggest(held, bytes);
}
