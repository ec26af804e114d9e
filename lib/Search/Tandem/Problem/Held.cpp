//===- Held.cpp - memory bound at one operator ----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Problem/Held.h"
#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

using namespace tandem::cost;
using namespace tandem::search;

HeldTensors::HeldTensors(const Facts &facts) : facts(facts) {
  const std::vector<Operator> &operators = facts.problem.operators;
  auto isPass = [&](Pass pass) {
    return [pass](const Operator &op) { return op.pass == pass; };
  };
  end = std::find_if(operators.begin(), operators.end(), isPass(Pass::Update)) -
        operators.begin();
  begin = std::find_if(operators.begin(), operators.begin() + end,
                       isPass(Pass::Backward)) -
          operators.begin();
  isInBackward = begin < end;
  if (!isInBackward)
    begin = 0;
  place = findPlace();
  for (unsigned tensor = 0; tensor < facts.tensors.size(); ++tensor)
    held.push_back(isResident(tensor) || isAlive(tensor, place));
}

bool HeldTensors::isResident(unsigned tensor) const {
  return facts.problem.operators[facts.tensors[tensor].producer].kind ==
         Operator::Kind::Resident;
}

/// The last operator of the pass that computes with the tensor; -1 if none.
int HeldTensors::lastOf(unsigned tensor, Pass pass) const {
  const std::vector<TensorUse> &uses = facts.tensors[tensor].uses;
  for (size_t i = uses.size(); i-- > 0;) {
    const Operator &user = facts.problem.operators[uses[i].op];
    if (user.pass == pass && user.kind == Operator::Kind::Compute)
      return static_cast<int>(uses[i].op);
  }
  return -1;
}

/// Gradients that wait may leave before their updates, and what is returned in
/// place holds nothing: only other uses count.
bool HeldTensors::isAlive(unsigned tensor, unsigned op) const {
  const TensorFacts &info = facts.tensors[tensor];
  if (info.producer > op || op >= end || isResident(tensor))
    return false;
  int last =
      std::max(lastOf(tensor, Pass::Forward), lastOf(tensor, Pass::Backward));
  return last >= static_cast<int>(op);
}

bool HeldTensors::holdsKept(unsigned tensor) const {
  if (!isInBackward)
    return false;
  int last = lastOf(tensor, Pass::Backward);
  return last < 0 ? lastOf(tensor, Pass::Update) >= 0
                  : last >= static_cast<int>(place);
}

int64_t HeldTensors::getBytes(unsigned tensor, const Layout &layout) const {
  int64_t bytes = facts.problem.getBytes(tensor, layout);
  // A gradient's terms may have been summed up.
  if (facts.tensors[tensor].numUpdateUses > 0)
    bytes = std::min(bytes,
                     facts.problem.getBytes(tensor, facts.getSummed(layout)));
  return bytes;
}

/// The first operator at which most bytes are alive.
unsigned HeldTensors::findPlace() const {
  std::vector<int64_t> changes(end + 1);
  std::map<std::tuple<unsigned, unsigned, std::vector<int64_t>, int64_t>,
           int64_t>
      leastOf;
  for (unsigned tensor = 0; tensor < facts.tensors.size(); ++tensor) {
    const TensorFacts &info = facts.tensors[tensor];
    int last =
        std::max(lastOf(tensor, Pass::Forward), lastOf(tensor, Pass::Backward));
    unsigned first = std::max(info.producer, begin);
    if (isResident(tensor) || last < static_cast<int>(first))
      continue;
    const Tensor &data = facts.problem.tensors[tensor];
    unsigned set = facts.problem.operators[info.producer].signatureSet;
    auto [entry, isNew] =
        leastOf.try_emplace({set, info.result, data.shape, data.elementBytes},
                            std::numeric_limits<int64_t>::max());
    if (isNew)
      for (const Signature &signature :
           facts.problem.getSignatures(info.producer))
        entry->second = std::min(
            entry->second, getBytes(tensor, signature.results[info.result]));
    changes[first] += entry->second;
    changes[last + 1] -= entry->second;
  }
  int64_t sum = 0, most = -1;
  unsigned found = begin;
  for (unsigned op = begin; op < end; ++op) {
    sum += changes[op];
    if (sum > most) {
      most = sum;
      found = op;
    }
  }
  return found;
}
