//===- Serial.cpp - collectives that nothing can hide ---------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Problem/Serial.h"
#include <algorithm>

using namespace tandem::cost;
using namespace tandem::search;

/// An operator that stands in the way of this many claims is charged instead.
constexpr unsigned kManyClaims = 16;

namespace {
/// For operators of the forward and backward pass, the forward operators that
/// can be split over time and lead there: one bit each.
class Ancestors {
public:
  Ancestors(const Facts &facts, SerialClaims &claims);
  void claim();

private:
  bool canSplit(unsigned op) const;
  bool carriesBatch(unsigned tensor) const;
  bool makesGradient(unsigned op) const;
  void collect();
  bool leadsTo(unsigned number, unsigned op) const {
    return sets[size_t(op) * numWords + number / 64] >> number % 64 & 1;
  }
  bool hasPartner(unsigned number, unsigned op) const;
  std::vector<unsigned> findHiders(unsigned op) const;

  const Facts &facts;
  SerialClaims &claims;
  /// Operators before the updates.
  unsigned numOperators = 0, numWords = 0;
  /// Forward operators that can be split, in order, and, per operator, how many
  /// of them come before it.
  std::vector<unsigned> splittable, numBefore;
  std::vector<uint64_t> sets;
  /// Per splittable operator the next one that can be split and does not follow
  /// from it.
  std::vector<unsigned> nextOther;
};
} // namespace

Ancestors::Ancestors(const Facts &facts, SerialClaims &claims)
    : facts(facts), claims(claims) {
  const std::vector<Operator> &operators = facts.problem.operators;
  while (numOperators < operators.size() &&
         operators[numOperators].pass != Pass::Update)
    ++numOperators;
  for (unsigned op = 0; op < numOperators; ++op) {
    numBefore.push_back(splittable.size());
    if (operators[op].pass == Pass::Forward && canSplit(op))
      splittable.push_back(op);
  }
  numWords = splittable.size() / 64 + 1;
  sets.resize(size_t(numOperators) * numWords);
}

bool Ancestors::canSplit(unsigned op) const {
  const SignatureSet &set = facts.problem.getSignatures(op);
  return !facts.isArgument(op) &&
         std::any_of(set.begin(), set.end(), [&](const Signature &signature) {
           return facts.isPerStrand(signature);
         });
}

/// Whether the tensor is never whole if its producer is split: who wants it
/// whole joins the strands.
bool Ancestors::carriesBatch(unsigned tensor) const {
  const TensorFacts &info = facts.tensors[tensor];
  const SignatureSet &set = facts.problem.getSignatures(info.producer);
  return !facts.isArgument(info.producer) &&
         std::none_of(set.begin(), set.end(), [&](const Signature &signature) {
           return facts.isPerStrand(signature) &&
                  signature.results[info.result][facts.timeAxis] == kFull;
         });
}

/// Whether sums over time may lie in the operator's last strand.
bool Ancestors::makesGradient(unsigned op) const {
  const std::vector<unsigned> &results = facts.problem.operators[op].results;
  return std::any_of(results.begin(), results.end(), [&](unsigned tensor) {
    return facts.tensors[tensor].numUpdateUses > 0;
  });
}

void Ancestors::collect() {
  nextOther.assign(splittable.size(), numOperators);
  for (unsigned op = 0; op < numOperators; ++op) {
    uint64_t *own = &sets[size_t(op) * numWords];
    for (unsigned tensor : facts.problem.operators[op].operands) {
      unsigned producer = facts.tensors[tensor].producer;
      if (!carriesBatch(tensor))
        continue;
      const uint64_t *other = &sets[size_t(producer) * numWords];
      for (unsigned word = 0; word < numWords; ++word)
        own[word] |= other[word];
      unsigned number = numBefore[producer];
      if (number < splittable.size() && splittable[number] == producer)
        own[number / 64] |= uint64_t(1) << number % 64;
    }
    if (!canSplit(op))
      continue;
    for (unsigned number = 0; number < numBefore[op]; ++number)
      if (!leadsTo(number, op))
        nextOther[number] = std::min(nextOther[number], op);
  }
}

/// Whether an operator behind `op` can be split in its stage, the stage before
/// being split up to operator `number`. What follows from both ends the stage:
/// it would join the strands.
bool Ancestors::hasPartner(unsigned number, unsigned op) const {
  unsigned own = numBefore[op], next = op + 1;
  while (next < numOperators && !(leadsTo(number, next) && leadsTo(own, next)))
    ++next;
  return nextOther[own] < next;
}

/// Operators before `op` (by number) that may be split in the stage before its
/// own while its own has k strands.
std::vector<unsigned> Ancestors::findHiders(unsigned op) const {
  std::vector<unsigned> others;
  for (unsigned number = 0; number < numBefore[op]; ++number)
    if (!leadsTo(number, op))
      others.push_back(number);
  // The others have the last one for a partner.
  if (!others.empty() && !hasPartner(others.back(), op))
    others.pop_back();
  return others;
}

void Ancestors::claim() {
  collect();
  std::vector<std::vector<unsigned>> hiders;
  std::vector<unsigned> numBlocked(splittable.size());
  for (unsigned op : splittable) {
    hiders.push_back(findHiders(op));
    for (unsigned number : hiders.back())
      ++numBlocked[number];
  }
  for (unsigned i = 0; i < splittable.size(); ++i) {
    auto isCharged = [&](unsigned number) {
      return numBlocked[number] >= kManyClaims &&
             !makesGradient(splittable[number]);
    };
    if (!std::all_of(hiders[i].begin(), hiders[i].end(), isCharged))
      continue;
    claims.isClaimed[splittable[i]] = true;
    for (unsigned number : hiders[i])
      claims.hides[splittable[number]] = true;
  }
}

SerialClaims::SerialClaims(const Facts &facts)
    : isClaimed(facts.problem.operators.size()),
      hides(facts.problem.operators.size()) {
  if (facts.timeAxis < 0 || !facts.does(Mechanism::Claims))
    return;
  Ancestors(facts, *this).claim();
  updatesAreSerial = true;
  for (unsigned op = 0; op < isClaimed.size(); ++op)
    if (facts.problem.operators[op].pass == Pass::Update)
      for (const Signature &signature : facts.problem.getSignatures(op))
        updatesAreSerial &= !facts.isPerStrand(signature);
}
