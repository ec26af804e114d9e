//===- Guess.cpp - what a new tensor will be needed for -------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Whether a gradient is summed over time, and which of its copies wait, shows
// only in the update pass, but counts from where the gradient is made. So a
// label branches here, and `LabelExpander::isConsistent` drops it later if the
// guess was wrong.
//
//===----------------------------------------------------------------------===//

#include "Tandem/Labels/Label.h"
#include <algorithm>

using namespace tandem::cost;
using namespace tandem::search;

bool LabelExpander::isInPlace(const Label &label, unsigned tensor,
                              const Layout &layout) const {
  const TensorFacts &info = facts.tensors[tensor];
  if (!info.hasOnlyTiedUses)
    return false;
  for (const TensorUse &use : info.uses)
    for (auto [group, signature] : label.groups)
      if (group == facts.groupOf[use.op] &&
          problem.getSignatures(use.op)[signature].operands[use.operand] !=
              layout)
        return false;
  return true;
}

std::vector<Layout> LabelExpander::getUpdateLayouts(unsigned tensor) const {
  std::vector<Layout> layouts;
  for (const TensorUse &use : facts.tensors[tensor].uses)
    if (problem.operators[use.op].pass == Pass::Update)
      for (const Signature &signature : problem.getSignatures(use.op))
        layouts.push_back(signature.operands[use.operand]);
  std::sort(layouts.begin(), layouts.end());
  layouts.erase(std::unique(layouts.begin(), layouts.end()), layouts.end());
  return layouts;
}

void LabelExpander::produce(const Draft &draft, unsigned op, unsigned result,
                            const Layout &layout, std::vector<Draft> &results) {
  unsigned tensor = problem.operators[op].results[result];
  LiveTensor live;
  live.tensor = tensor;
  live.produced = layout;
  live.existed = facts.isArgument(op);
  live.isInPlace = isInPlace(draft.label, tensor, layout);
  bool mayBeSummed = false, mayBeLeft = true;
  if (facts.timeAxis >= 0 && layout[facts.timeAxis] == kReduce) {
    std::vector<Layout> wanted = getUpdateLayouts(tensor);
    auto isWhole = [&](const Layout &update) {
      return update[facts.timeAxis] == kFull;
    };
    mayBeSummed = std::any_of(wanted.begin(), wanted.end(), isWhole);
    mayBeLeft =
        wanted.empty() || !std::all_of(wanted.begin(), wanted.end(), isWhole);
  }
  for (bool isSummed : {false, true})
    for (bool keepsTerms : {false, true}) {
      if (!(isSummed ? mayBeSummed : mayBeLeft) ||
          (keepsTerms && (!isSummed || !hasLimit)))
        continue;
      live.isSummed = isSummed;
      live.keepsTerms = keepsTerms;
      guessWaits(draft, live, results);
    }
}

void LabelExpander::guessWaits(const Draft &draft, const LiveTensor &live,
                               std::vector<Draft> &results) {
  place(results.emplace_back(draft), live);
  const TensorFacts &info = facts.tensors[live.tensor];
  if (facts.mayWait(live.tensor) && info.numUpdateUses > 0)
    addWaiting(draft, live, results);
}

/// Whether an update may take the tensor, beside one for which it waits, and
/// whether that matters.
bool LabelExpander::mayBeLastOther(const TensorFacts &info,
                                   unsigned number) const {
  return hasLimit && info.numUpdateUses >= 2 &&
         problem.operators[info.uses[number - 1].op].pass == Pass::Update;
}

/// One more copy waits, behind those that do already.
void LabelExpander::addWaiting(Draft draft, LiveTensor live,
                               std::vector<Draft> &results) {
  const TensorFacts &info = facts.tensors[live.tensor];
  if (live.waits.size() >= info.numUpdateUses)
    return;
  for (const Layout &layout : getUpdateLayouts(live.tensor)) {
    auto isGuessed = [&](const WaitGuess &guess) {
      return guess.layout == layout;
    };
    bool isSum = facts.timeAxis >= 0 &&
                 live.produced[facts.timeAxis] == kReduce &&
                 layout[facts.timeAxis] == kFull;
    Layout base = isSum ? facts.getSummed(live.produced) : live.produced;
    if ((isSum && !live.isSummed) || layout == base ||
        std::any_of(live.waits.begin(), live.waits.end(), isGuessed))
      continue;
    const ChangeCost &change = table.getCost(live.tensor, base, layout);
    if (!change.isPossible || change.joins)
      continue;
    Draft next = draft;
    LiveTensor waiting = live;
    waiting.waits.push_back({layout});
    double seconds = change.getTotal(facts.numStrands);
    next.label.leaving += seconds;
    next.waiting.push_back({live.tensor, layout, Pass::Update});
    if (hasLimit) {
      int64_t bytes =
          info.hasOnlyTiedUses ? 0 : problem.getBytes(live.tensor, layout);
      next.label.waiters.push_back({live.tensor, layout, seconds, bytes, 0});
    }
    for (unsigned number = 0; number <= info.uses.size(); ++number) {
      if (number > 0 && !mayBeLastOther(info, number))
        continue;
      Draft guess = next;
      waiting.lastOther = number;
      // The last copy that waits frees the gradient.
      if (hasLimit && number == 0)
        guess.label.waiters.back().freedBytes = getSourceBytes(waiting);
      place(results.emplace_back(std::move(guess)), waiting);
    }
    addWaiting(std::move(next), waiting, results);
  }
}

/// Adds the tensor to what is alive, and its sum over time to the open stage.
void LabelExpander::place(Draft &draft, LiveTensor live) const {
  Label &label = draft.label;
  const TensorFacts &info = facts.tensors[live.tensor];
  const Operator &producer = problem.operators[info.producer];
  bool isArgument = facts.isArgument(info.producer);
  if (live.isSummed && !isArgument)
    label.work.sums +=
        table
            .getCost(live.tensor, live.produced, facts.getSummed(live.produced))
            .local;
  int64_t bytes = problem.getBytes(live.tensor, live.produced);
  if (producer.kind == Operator::Kind::Resident)
    label.resident += bytes;
  else if (!live.isInPlace)
    label.stageBytes += bytes;
  // An input is there from the first stage on.
  if (producer.kind == Operator::Kind::Input && !live.isInPlace)
    label.closedPeak += bytes;
  if (info.uses.empty())
    return;
  label.nextBytes += getSourceBytes(live);
  auto after = std::find_if(
      label.tensors.begin(), label.tensors.end(),
      [&](const LiveTensor &other) { return other.tensor > live.tensor; });
  label.tensors.insert(after, std::move(live));
}
