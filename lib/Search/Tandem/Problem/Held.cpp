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

HeldTensors::HeldTensors(const Facts &facts)
    : facts(facts), held(facts.tensors.size()), numEarly(facts.tensors.size()) {
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
  // Of tensors in one memory one counts: their root, if it is there.
  std::vector<bool> isCounted(facts.tensors.size());
  for (bool areViews : {false, true})
    for (unsigned tensor = 0; tensor < facts.tensors.size(); ++tensor) {
      unsigned root = facts.roots[tensor];
      if ((root != tensor) == areViews && isAlive(tensor) && !isCounted[root])
        held[tensor] = isCounted[root] = true;
    }
  for (unsigned tensor = 0; tensor < facts.tensors.size(); ++tensor) {
    const TensorFacts &info = facts.tensors[tensor];
    if (facts.isArgument(info.producer))
      held[tensor] = true;
    else
      numEarly[tensor] =
          std::count_if(info.uses.begin(), info.uses.end(),
                        [&](const TensorUse &use) { return use.op < place; });
  }
}

/// The last operator of the pass that computes with the tensor; -1 if none.
int HeldTensors::lastOf(unsigned tensor, Pass pass) const {
  const std::vector<TensorUse> &uses = facts.tensors[tensor].uses;
  for (size_t i = uses.size(); i-- > 0;) {
    const Operator &user = facts.problem.operators[uses[i].op];
    if (facts.hasChoice[tensor] && facts.mayBeAbsent(uses[i]))
      continue;
    if (user.pass == pass && user.kind == Operator::Kind::Compute)
      return static_cast<int>(uses[i].op);
  }
  return -1;
}

/// Where every plan holds the tensor before updates: from operator `first` to
/// `last`, nowhere if that is before `first`. Gradients that wait may leave
/// before their updates, and what is returned in place holds nothing: only
/// other uses count, and what a loop carries until it is made.
HeldTensors::Life HeldTensors::getLife(unsigned tensor) const {
  const TensorFacts &info = facts.tensors[tensor];
  const Tensor &data = facts.problem.tensors[tensor];
  Life life{data.getFirstHeld(info.producer), -1};
  if (facts.isArgument(info.producer) || data.isInKernel)
    return life;
  life.last =
      std::max(lastOf(tensor, Pass::Forward), lastOf(tensor, Pass::Backward));
  if (data.heldFrom >= 0 && !info.hasOnlyTiedUses)
    life.last = std::max(life.last, static_cast<int>(info.producer));
  return life;
}

bool HeldTensors::isAlive(unsigned tensor) const {
  auto [first, last] = getLife(tensor);
  return first <= place && place < end && last >= static_cast<int>(place);
}

bool HeldTensors::holdsKept(unsigned tensor) const {
  if (!isInBackward)
    return false;
  int last = lastOf(tensor, Pass::Backward);
  return last < 0 ? lastOf(tensor, Pass::Update) >= 0
                  : last >= static_cast<int>(place);
}

/// The first operator at which most bytes are alive.
unsigned HeldTensors::findPlace() const {
  std::vector<int64_t> changes(end + 1);
  std::map<std::tuple<unsigned, unsigned, std::vector<int64_t>, int64_t>,
           int64_t>
      leastOf;
  for (unsigned tensor = 0; tensor < facts.tensors.size(); ++tensor) {
    const TensorFacts &info = facts.tensors[tensor];
    auto [born, last] = getLife(tensor);
    unsigned first = std::max(born, begin);
    last = std::min(last, static_cast<int>(end) - 1);
    if (last < static_cast<int>(first))
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

int64_t HeldTensors::getBytes(unsigned tensor, const Layout &layout) const {
  if (facts.isArgument(facts.tensors[tensor].producer))
    return facts.problem.getBytes(tensor, layout);
  int64_t bytes = facts.getShare(tensor, layout);
  // A gradient's terms may have been summed up.
  if (facts.tensors[tensor].numUpdateUses > 0)
    bytes = std::min(bytes, facts.getShare(tensor, facts.getSummed(layout)));
  return bytes;
}

int64_t HeldTensors::getLeastCopy(unsigned tensor) const {
  int64_t least = std::numeric_limits<int64_t>::max();
  for (unsigned i = 0; i < numEarly[tensor]; ++i) {
    const TensorUse &use = facts.tensors[tensor].uses[i];
    for (const Signature &signature : facts.problem.getSignatures(use.op))
      if (const Layout &layout = signature.operands[use.operand];
          !layout.isAbsent())
        least = std::min(least, facts.getShare(tensor, layout));
  }
  return least;
}
