//===- ExplainMemory.cpp - what is held at the peak -----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ExplainForms.h"
#include "tandem/Search/PlanVariants.h"
#include <algorithm>
#include <tuple>

using namespace tandem::cost;
using namespace tandem::explain;
using namespace tandem::search;

const char *tandem::explain::describe(Holding::Kind kind) {
  constexpr const char *texts[] = {"stored", "made", "summed gradient", "copy",
                                   "workspace"};
  return texts[static_cast<unsigned>(kind)];
}

//===----------------------------------------------------------------------===//
// Entries
//===----------------------------------------------------------------------===//

/// What is held at the peak, tensors of one entry together.
static std::vector<PeakEntry> getPeakEntries(const PlanFacts &facts,
                                             const std::vector<Holding> &all) {
  using Key = std::tuple<Holding::Kind, Layout, std::string>;
  Groups<Key, PeakEntry> groups;
  for (const Holding &holding : all) {
    PeakEntry first{.kind = holding.kind, .first = holding.first};
    if (holding.kind == Holding::Kind::Workspace) {
      const Operator &op = facts.problem.operators[holding.index];
      first.name = op.name;
      first.location = op.location;
    } else {
      first.name = facts.names.getLabel(holding.index);
      first.location = facts.names.getLocation(holding.index);
      first.form = print(facts.problem, holding.layout);
    }
    PeakEntry &entry =
        groups.get({holding.kind, holding.layout, first.location}, first);
    ++entry.count;
    entry.bytes += holding.bytes;
    entry.first = std::min(entry.first, holding.first);
    entry.last = std::max(entry.last, holding.last);
    entry.tensors.push_back(holding.index);
  }
  return groups.take(&PeakEntry::bytes);
}

/// What the plan pays for the copies of a tensor there and back.
static void addCopies(const PlanFacts &facts, unsigned tensor,
                      HostEntry &entry) {
  auto add = [&](unsigned op) {
    entry.hasOwnCopies = true;
    entry.seconds +=
        facts.problem.getSignatures(op)[facts.plan.signatures[op]].seconds;
  };
  if (!entry.isStored)
    add(facts.index.tensors[tensor].producer);
  for (const TensorUse &use : facts.index.tensors[tensor].uses)
    if (isHostCopy(facts.problem.operators[use.op]))
      add(use.op);
}

/// With what is sent in place of the copy that lies there.
static std::vector<HostEntry>
getHostEntries(const PlanFacts &facts, const std::vector<int64_t> &elements) {
  using Key = std::tuple<bool, Layout, std::string>;
  Groups<Key, HostEntry> groups;
  SearchProblem sized;
  sized.axes = facts.problem.axes;
  for (unsigned i = 0; i < elements.size(); ++i) {
    const Layout &layout = facts.getLayout(i);
    if (elements[i] == 0 || layout.isAbsent())
      continue;
    const Operator &op =
        facts.problem.operators[facts.index.tensors[i].producer];
    bool isStored = op.kind == Operator::Kind::Resident;
    unsigned named = isStored ? i : op.operands.front();
    HostEntry first{.isStored = isStored,
                    .name = facts.names.getLabel(named),
                    .location = facts.names.getLocation(named),
                    .form = print(facts.problem, layout)};
    HostEntry &entry = groups.get({isStored, layout, first.location}, first);
    sized.tensors = {facts.problem.tensors[i]};
    sized.tensors.front().elementBytes = elements[i];
    ++entry.count;
    entry.bytes += sized.getBytes(0, layout);
    addCopies(facts, i, entry);
  }
  return groups.take(&HostEntry::bytes);
}

//===----------------------------------------------------------------------===//
// A step without
//===----------------------------------------------------------------------===//

namespace {
/// Asks what a plan would cost that does not hold an entry of its peak.
class Without {
public:
  explicit Without(PlanFacts &facts);
  void ask(PeakEntry &entry);

private:
  using Signatures = std::vector<unsigned>;

  std::string findReason(const PeakEntry &entry, unsigned tensor) const;
  std::string findReader(unsigned tensor, const Signatures &signatures) const;
  std::optional<Choice> changeAgain(const PeakEntry &entry) const;
  void makeAgain(PeakEntry &entry);
  void send(PeakEntry &entry);
  std::optional<Choice> price(const PeakEntry &entry,
                              const Signatures &signatures,
                              std::string &reader);
  std::optional<Choice> price(const Signatures &signatures);

  PlanFacts &facts;
  /// None where nothing may be made again.
  std::optional<PlanVariants> variants;
  /// The plan, but that all readers of a value have one source.
  std::optional<Choice> base;
};
} // namespace

Without::Without(PlanFacts &facts) : facts(facts) {
  bool hasChoices = false;
  for (const TensorFacts &tensor : facts.index.tensors)
    for (const TensorUse &use : tensor.uses)
      hasChoices |= facts.index.mayBeAbsent(use);
  if (!hasChoices)
    return;
  variants.emplace(facts.problem, facts.plan, facts.table);
  base = price(variants->makeAgain({}, false));
}

std::optional<Choice> Without::price(const Signatures &signatures) {
  std::optional<Plan> plan = variants->keepStages(signatures);
  if (!plan)
    return std::nullopt;
  Choice choice = describePlan(facts, *plan);
  return choice.seconds > 0 ? std::optional(choice) : std::nullopt;
}

/// Without the copies that are kept for a later pass.
std::optional<Choice> Without::changeAgain(const PeakEntry &entry) const {
  Plan plan = facts.plan;
  if (std::erase_if(plan.kept, [&](const Copy &copy) {
        return std::ranges::count(entry.tensors, copy.tensor) > 0;
      }) == 0)
    return std::nullopt;
  Choice choice = describePlan(facts, plan);
  return choice.seconds > 0 ? std::optional(choice) : std::nullopt;
}

/// The operator of the backward pass that reads the tensor nevertheless; empty
/// if there is none.
std::string Without::findReader(unsigned tensor,
                                const Signatures &signatures) const {
  for (const TensorUse &use : facts.index.tensors[tensor].uses) {
    const Operator &op = facts.problem.operators[use.op];
    if (op.pass == Pass::Forward ||
        facts.index.getWanted(signatures, use).isAbsent())
      continue;
    const std::string &location = op.getReadLocation(use.operand);
    return "'" + op.name + "'" + (location.empty() ? "" : " at " + location);
  }
  return "";
}

/// Why the tensor cannot be made again, from what it is; else empty.
std::string Without::findReason(const PeakEntry &entry, unsigned tensor) const {
  if (entry.kind == Holding::Kind::Workspace)
    return "scratch of the operator";
  const Operator &op =
      facts.problem.operators[facts.index.tensors[tensor].producer];
  if (op.kind == Operator::Kind::Input)
    return "the batch";
  if (op.kind == Operator::Kind::Resident)
    return entry.kind == Holding::Kind::Stored ? "kept from step to step"
                                               : "used in one pass";
  if (entry.kind == Holding::Kind::Sum)
    return "waits for its update";
  const Signature &first =
      facts.problem.getSignatures(facts.index.tensors[tensor].producer).front();
  if (first.results.front().isAbsent())
    return isFetched(facts.problem, facts.index.tensors[tensor].producer)
               ? "copied from the host already"
               : "made again already";
  if (op.pass != Pass::Forward)
    return "made after the forward pass";
  for (const TensorUse &use : facts.index.tensors[tensor].uses)
    if (facts.problem.operators[use.op].kind == Operator::Kind::Output)
      return "a result of the step";
  if (findReader(tensor, facts.plan.signatures).empty())
    return "read in the forward pass alone";
  return variants ? "" : "not offered: --recompute";
}

/// Nothing where an operator, which `reader` says, reads the entry
/// nevertheless.
std::optional<Choice> Without::price(const PeakEntry &entry,
                                     const Signatures &signatures,
                                     std::string &reader) {
  for (unsigned tensor : entry.tensors)
    if (reader.empty())
      reader = findReader(tensor, signatures);
  std::optional<Choice> choice =
      reader.empty() && base ? price(signatures) : std::nullopt;
  if (choice)
    choice->seconds += facts.report.seconds - base->seconds;
  return choice;
}

void Without::send(PeakEntry &entry) {
  std::string reader;
  entry.sent = price(entry, variants->send(entry.tensors), reader);
}

/// The cheapest way that lowers the peak; else the cheapest.
void Without::makeAgain(PeakEntry &entry) {
  std::string reader;
  for (bool isDeep : {false, true}) {
    std::optional<Choice> choice =
        price(entry, variants->makeAgain(entry.tensors, isDeep), reader);
    if (!choice)
      continue;
    auto getRank = [&](const Choice &each) {
      return std::pair(each.peak >= facts.report.peak, each.seconds);
    };
    if (!entry.without || getRank(*choice) < getRank(*entry.without))
      entry.without = choice;
  }
  if (!reader.empty())
    entry.whyHeld = "read by " + reader + ", which has no choice";
  else if (!entry.without)
    entry.whyHeld = "no plan with the same stages is without it";
}

void Without::ask(PeakEntry &entry) {
  if (entry.kind == Holding::Kind::Copy)
    entry.without = changeAgain(entry);
  if (entry.without)
    return;
  entry.whyHeld = findReason(entry, entry.tensors.front());
  if (!entry.whyHeld.empty())
    return;
  makeAgain(entry);
  send(entry);
}

bool tandem::explain::addMemory(PlanFacts &facts, const ExplainOptions &options,
                                Explanation &result, std::string &error) {
  const std::vector<int64_t> &bytes = facts.report.stageBytes;
  result.peak = facts.report.peak;
  result.memoryLimit = facts.problem.memoryLimit;
  result.numStages = facts.plan.stageEnds.size();
  for (unsigned strands : facts.report.stageStrands)
    result.numSplitStages += strands > 1;
  result.peakStage =
      std::max_element(bytes.begin(), bytes.end()) - bytes.begin();
  std::optional<std::vector<Holding>> holdings = listHeldAtPeak(
      facts.problem, facts.plan, result.peakStage, facts.table, error);
  if (!holdings)
    return false;
  result.peakEntries = getPeakEntries(facts, *holdings);
  result.hostEntries = getHostEntries(facts, options.hostElements);
  if (options.numChoices == 0 || result.peakEntries.empty())
    return true;
  Without without(facts);
  for (size_t i = 0; i < result.peakEntries.size(); ++i)
    if (i < options.numChoices)
      without.ask(result.peakEntries[i]);
    else
      result.peakEntries[i].whyHeld = "not asked";
  return true;
}
