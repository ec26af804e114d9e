//===- Weights.cpp - weights of the bound ---------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A slot with p seconds of computation and c of collectives costs
//
//     max(p + beta c, c + gamma p) >= w_p(l) p + w_c(l) c for l in [0, 1], with
//     w_p(l) = l + (1 - l) gamma and w_c(l) = 1 - l + l beta,
//
// both at most 1, so that serial slots, which cost p + c, obey it too.
//
// In the first slot of a stage the strands share nothing: p is the last
// strand's of the stage before, c holds what is made once. In the second one p
// holds what is computed once, c is one strand's. Later slots hold one strand's
// p and c. So with l1 <= l2 for first and second slots: computation that does
// not depend on the strand is worth w_p(l2), collectives that are made once
// w_c(l1), what every strand does the mean over its slots, and collectives of
// changes that join the strands 1, as their stage is serial; their local work,
// beside which others may wait, w_p(l2). What waits is taken where
// w <= p (1 - gamma) / (1 - beta) - c, where the first arm is the larger one,
// and is worth w_c(l2).
//
// With one strand all slots are serial: computation is worth w_p(l), a
// collective 1, what waits w_c(l); beside what is computed before the first
// gradient, and beside updates, nothing waits.
//
// What runs ahead lies beside the collectives of its stage, whose slot is the
// only one with more than the larger arm (Cost.h, *Ahead*). It is worth gamma
// where these are worth 1, or both have the weights w_p(l) and w_c(l) of
// another lambda: l = 1 - l1, and with several strands at most l1, so that no
// collective is worth more than w_c(l).
//
// Stages, the order and the source of copies are dropped: a tensor costs at
// least the dearest of the changes that its users need, over stations that
// other users want, and copies are kept for nothing.
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
  bool hasAgain = problem.hasAgain();
  if (problem.getNumStrands() == 1) {
    // Every slot is serial; only what waits is hidden, beside no more
    // computation than makes room for it.
    weights.once = weights.split = weights.sums = getComputation(second);
    weights.alone = 1;
    double ahead = 1 - first;
    weights.collectiveOnce = weights.collectiveSplit =
        share * (hasAgain ? getCollective(ahead) : 1);
    if (hasAgain)
      weights.again = getComputation(std::min(ahead, second));
    weights.waiting = share * getCollective(second);
    return weights;
  }
  weights.once = weights.alone = getComputation(second);
  weights.sums = getComputation(first);
  weights.split = (getComputation(first) + getComputation(second) +
                   (k - 2) * getComputation(other)) /
                  k;
  double ahead = hasAgain ? std::min(first, 1 - first) : 0;
  if (hasAgain)
    weights.again = getComputation(ahead);
  weights.joined = weights.serial = share * getCollective(ahead);
  weights.collectiveOnce = share * getCollective(first);
  weights.collectiveSplit = share *
                            (getCollective(first) + getCollective(second) +
                             (k - 2) * getCollective(other)) /
                            k;
  weights.waiting = share * getCollective(second);
  return weights;
}
