//===- ExplainCollectives.cpp - transfers summed up for a report ----------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ExplainTime.h"
#include <algorithm>
#include <map>
#include <tuple>

using namespace tandem::cost;
using namespace tandem::explain;

const char *tandem::explain::describe(Cause cause) {
  constexpr const char *texts[] = {
      "no time axis: nothing computes meanwhile",
      "first slot: nothing has computed yet",
      "the strands join in this stage",
      "the stage is not split over time",
      "first slot behind a stage of one strand",
      "longer than the computation beside it",
      "slows down the computation beside it",
      "waited, but no slot had room before the updates",
      "hidup-serial overlaps nothing in the backward pass",
  };
  static_assert(std::size(texts) == kNumCauses);
  return texts[static_cast<unsigned>(cause)];
}

/// The source line where a copy is first read, or where its tensor is made if
/// that is for an update: a user writes no lines of updates.
static const std::string &getPlace(const PlanFacts &facts, const Copy &copy) {
  if (copy.pass != Pass::Update)
    for (const TensorUse &use : facts.index.tensors[copy.tensor].uses) {
      const Operator &info = facts.problem.operators[use.op];
      bool reads =
          info.pass == copy.pass &&
          facts.index.getWanted(facts.plan.signatures, use) == copy.layout;
      if (reads && !info.getReadLocation(use.operand).empty())
        return info.getReadLocation(use.operand);
    }
  return facts.names.getLocation(copy.tensor);
}

std::map<std::string, double>
tandem::explain::getExposedByKind(const SearchProblem &problem,
                                  const TimeAnalysis &analysis) {
  std::map<std::string, double> sums;
  for (const Transfer &transfer : analysis.transfers)
    sums[std::string(transfer.kind) + " " + problem.axes[transfer.axis].name] +=
        transfer.exposed;
  return sums;
}

std::vector<Exposure> tandem::explain::getExposures(const PlanFacts &facts) {
  const TimeAnalysis &analysis = facts.analysis;
  std::map<Cause, Exposure> byCause;
  std::map<Cause, std::map<unsigned, double>> exposed;
  for (const SlotExposure &slot : analysis.slots) {
    byCause[slot.cause].seconds += slot.seconds;
    ++byCause[slot.cause].numSlots;
    for (const auto &[index, seconds] : slot.transfers)
      exposed[slot.cause][index] += seconds;
  }
  std::vector<Exposure> result;
  for (auto &[cause, entry] : byCause) {
    entry.cause = cause;
    unsigned worst =
        std::ranges::max_element(
            exposed[cause], {}, &std::map<unsigned, double>::value_type::second)
            ->first;
    const Transfer &transfer = analysis.transfers[worst];
    const Copy &copy = facts.report.changes[transfer.change].copy;
    entry.example = std::string(transfer.kind) + " " +
                    facts.problem.axes[transfer.axis].name + " of " +
                    facts.names.getLabel(copy.tensor);
    entry.location = getPlace(facts, copy);
    result.push_back(std::move(entry));
  }
  std::ranges::stable_sort(result, std::greater(), &Exposure::seconds);
  return result;
}

std::vector<Collective>
tandem::explain::getCollectives(const PlanFacts &facts) {
  using Key =
      std::tuple<std::string, unsigned, std::string_view, Pass, int64_t, bool>;
  Groups<Key, Collective> groups;
  for (const Transfer &transfer : facts.analysis.transfers) {
    const Copy &copy = facts.report.changes[transfer.change].copy;
    const std::string &location = getPlace(facts, copy);
    const Axis &axis = facts.problem.axes[transfer.axis];
    Collective &entry =
        groups.get({location, transfer.axis, transfer.kind, transfer.pass,
                    transfer.bytes, transfer.waits},
                   {.kind = std::string(transfer.kind),
                    .axis = axis.name,
                    .groupSize = axis.size,
                    .name = facts.names.getLabel(copy.tensor),
                    .location = location,
                    .pass = transfer.pass,
                    .bytes = transfer.bytes,
                    .waits = transfer.waits});
    entry.count += transfer.count;
    entry.totalBytes += transfer.count * transfer.bytes;
    entry.seconds += transfer.total;
    entry.exposed += transfer.exposed;
  }
  return groups.take(&Collective::seconds);
}
