//===- Weights.cpp - prices that bound plans ------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Relaxation/Factors.h"
#include "tandem/Cost/Slots.h"
#include <algorithm>

using namespace tandem::cost;
using namespace tandem::search;

Weights tandem::search::getBoundWeights(const SearchProblem &problem,
                                        double first, double second) {
  Interference interference(problem);
  double beta = interference.beta, gamma = interference.gamma;
  auto getComputation = [&](double lambda) {
    return std::min(1.0, lambda + (1 - lambda) * gamma);
  };
  auto getCollective = [&](double lambda) {
    return std::min(1.0, 1 - lambda + lambda * beta);
  };
  // Of the largest sum over the queues each one is an equal share.
  double share = 1.0 / std::max(1u, problem.getNumQueues());
  double k = static_cast<double>(problem.getNumStrands());
  double other = (first + second) / 2;
  Weights weights;
  weights.isBound = true;
  weights.joined = share;
  if (problem.getNumStrands() == 1) {
    // Every slot is serial; only what waits is hidden, beside no more
    // computation than makes room for it.
    weights.once = weights.split = weights.sums = getComputation(second);
    weights.alone = 1;
    weights.collectiveOnce = weights.collectiveSplit = share;
    weights.waiting = share * getCollective(second);
    return weights;
  }
  weights.once = weights.alone = getComputation(second);
  weights.sums = getComputation(first);
  weights.split = (getComputation(first) + getComputation(second) +
                   (k - 2) * getComputation(other)) /
                  k;
  weights.serial = share;
  weights.collectiveOnce = share * getCollective(first);
  weights.collectiveSplit = share *
                            (getCollective(first) + getCollective(second) +
                             (k - 2) * getCollective(other)) /
                            k;
  weights.waiting = share * getCollective(second);
  return weights;
}
