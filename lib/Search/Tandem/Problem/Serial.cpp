//===- Serial.cpp - serial collectives ------------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Problem/Serial.h"
#include <algorithm>

using namespace tandem::cost;
using namespace tandem::search;

static bool canSplit(const Facts &facts, unsigned op) {
  const SignatureSet &set = facts.problem.getSignatures(op);
  return !facts.isArgument(op) &&
         std::any_of(set.begin(), set.end(), [&](const Signature &signature) {
           return facts.isPerStrand(signature);
         });
}

/// Whether the tensor is never whole if its producer is split: who wants it
/// whole joins the strands.
static bool carriesBatch(const Facts &facts, unsigned tensor) {
  const TensorFacts &info = facts.tensors[tensor];
  const SignatureSet &set = facts.problem.getSignatures(info.producer);
  return !facts.isArgument(info.producer) &&
         std::none_of(set.begin(), set.end(), [&](const Signature &signature) {
           return facts.isPerStrand(signature) &&
                  signature.results[info.result][facts.timeAxis] == kFull;
         });
}

void SerialClaims::claim(const Facts &facts) {
  const std::vector<Operator> &operators = facts.problem.operators;
  // Per operator, which of those that can be split lead there, itself included.
  std::vector<std::vector<bool>> origins(operators.size());
  size_t numSplittable = 0;
  for (unsigned op = 0; op < operators.size(); ++op) {
    if (operators[op].pass != Pass::Forward)
      continue;
    std::vector<bool> &own = origins[op];
    own.resize(numSplittable);
    for (unsigned tensor : operators[op].operands) {
      if (!carriesBatch(facts, tensor))
        continue;
      const std::vector<bool> &others = origins[facts.tensors[tensor].producer];
      for (size_t i = 0; i < others.size(); ++i)
        own[i] = own[i] || others[i];
    }
    if (!canSplit(facts, op))
      continue;
    isClaimed[op] = std::find(own.begin(), own.end(), false) == own.end();
    own.push_back(true);
    ++numSplittable;
  }
}

SerialClaims::SerialClaims(const Facts &facts)
    : isClaimed(facts.problem.operators.size()) {
  if (facts.timeAxis < 0 || !facts.does(Mechanism::Claims))
    return;
  claim(facts);
  updatesAreSerial = true;
  for (unsigned op = 0; op < isClaimed.size(); ++op)
    if (facts.problem.operators[op].pass == Pass::Update)
      for (const Signature &signature : facts.problem.getSignatures(op))
        updatesAreSerial &= !facts.isPerStrand(signature);
}
