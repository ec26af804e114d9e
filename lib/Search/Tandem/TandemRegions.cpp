//===- TandemRegions.cpp - parts of a step in strands ---------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TandemRegions.h"
#include <algorithm>
#include <map>

using namespace tandem::cost;
using namespace tandem::search;

/// The least length of a region, and by which factor the next one is longer.
constexpr unsigned kLeastLength = 3, kGrowth = 2;
/// Regions of one length begin this share of it apart.
constexpr unsigned kOverlap = 3;

/// The layouts without their forms over time.
static std::vector<Layout> getSpace(const Facts &facts,
                                    const Signature &signature) {
  std::vector<Layout> layouts;
  for (const auto *side : {&signature.operands, &signature.results})
    for (const Layout &layout : *side)
      layouts.push_back(facts.getSummed(layout));
  return layouts;
}

StrandRegions::StrandRegions(const Facts &facts)
    : facts(facts), partners(facts.problem.signatureSets.size()) {
  if (facts.timeAxis < 0)
    return;
  for (unsigned i = 0; i < partners.size(); ++i) {
    const SignatureSet &set = facts.problem.signatureSets[i];
    std::map<std::vector<Layout>, Partners> bySpace;
    for (unsigned j = 0; j < set.size(); ++j) {
      Partners &known = bySpace[getSpace(facts, set[j])];
      (facts.isPerStrand(set[j]) ? known.split : known.whole).push_back(j);
    }
    for (const Signature &signature : set)
      partners[i].push_back(bySpace[getSpace(facts, signature)]);
  }
}

/// Whether the operator may be split over time, and is tied to no other one.
bool StrandRegions::isFree(unsigned op) const {
  if (facts.isArgument(op) || facts.isTied[op])
    return false;
  const std::vector<Partners> &own =
      partners[facts.problem.operators[op].signatureSet];
  return std::any_of(own.begin(), own.end(), [](const Partners &signature) {
    return !signature.split.empty();
  });
}

std::vector<OperatorRange> StrandRegions::list() const {
  std::vector<OperatorRange> ranges;
  if (facts.timeAxis < 0)
    return ranges;
  // Places among those that may be split; a region lies in one pass.
  std::vector<unsigned> free;
  for (unsigned op = 0; op < facts.problem.operators.size(); ++op)
    if (isFree(op))
      free.push_back(op);
  auto getPass = [&](size_t i) {
    return facts.problem.operators[free[i]].pass;
  };
  auto add = [&](size_t begin, size_t end) {
    while (end > begin + 1 && getPass(end - 1) != getPass(begin))
      --end;
    ranges.push_back({free[begin], free[end - 1] + 1});
  };
  size_t length = kLeastLength;
  while (length < free.size())
    length *= kGrowth;
  if (!free.empty())
    ranges.push_back({free.front(), free.back() + 1});
  for (; length >= kLeastLength; length /= kGrowth)
    for (size_t begin = 0; begin < free.size();
         begin += std::max<size_t>(1, length / kOverlap))
      add(begin, std::min(begin + length, free.size()));
  return ranges;
}

/// How well the operands' forms over time go with what is made: a slice costs
/// nothing, strands that join cost much.
int StrandRegions::getFit(const std::vector<unsigned> &signatures, unsigned op,
                          const Signature &signature) const {
  int fit = 0;
  const std::vector<unsigned> &operands = facts.problem.operators[op].operands;
  for (unsigned i = 0; i < operands.size(); ++i) {
    const TensorFacts &info = facts.tensors[operands[i]];
    Form made =
        facts.problem.getSignatures(info.producer)[signatures[info.producer]]
            .results[info.result][facts.timeAxis];
    Form wanted = signature.operands[i][facts.timeAxis];
    fit += made == wanted ? 2 : (made == kFull ? 1 : -3);
  }
  return fit;
}

unsigned StrandRegions::choose(const std::vector<unsigned> &signatures,
                               unsigned op,
                               const std::vector<unsigned> &candidates) const {
  unsigned best = candidates.front();
  auto getRank = [&](unsigned candidate) {
    const Signature &signature = facts.problem.getSignatures(op)[candidate];
    return std::pair(-getFit(signatures, op, signature), signature.seconds);
  };
  for (unsigned candidate : candidates)
    if (getRank(candidate) < getRank(best))
      best = candidate;
  return best;
}

std::vector<unsigned> StrandRegions::change(std::vector<unsigned> signatures,
                                            OperatorRange range,
                                            bool isSplit) const {
  for (unsigned op = range.begin; op < range.end; ++op) {
    if (!isFree(op))
      continue;
    const Partners &own =
        partners[facts.problem.operators[op].signatureSet][signatures[op]];
    const std::vector<unsigned> &candidates = isSplit ? own.split : own.whole;
    bool is =
        facts.isPerStrand(facts.problem.getSignatures(op)[signatures[op]]);
    if (is != isSplit && !candidates.empty())
      signatures[op] = choose(signatures, op, candidates);
  }
  return signatures;
}
