//===- Order.cpp - which partial plan is never worse ----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Equal keys can be finished in the same ways. With equal decisions for the
// rest the cost is Lipschitz in each number of a label: a second more of a
// step's computation or communication costs at most one second, and never
// gains. So a label that is ahead by more than it is behind dominates.
//
//===----------------------------------------------------------------------===//

#include "Tandem/Labels/Label.h"
#include <limits>

using namespace tandem::cost;
using namespace tandem::search;

LabelOrder::LabelOrder(const Facts &facts)
    : facts(facts), hasLimit(facts.problem.memoryLimit !=
                             std::numeric_limits<int64_t>::max()) {}

/// About what a live tensor takes of a key.
constexpr size_t kKeyBytes = 40;

static void append(std::string &key, uint32_t value) {
  key.append(reinterpret_cast<const char *>(&value), sizeof(value));
}

static void append(std::string &key, std::initializer_list<bool> bits) {
  unsigned char byte = 0;
  for (bool bit : bits)
    byte = static_cast<unsigned char>(byte << 1 | (bit ? 1 : 0));
  key.push_back(static_cast<char>(byte));
}

/// Whether some user to come may want another layout than this one and the
/// producer's, so that it matters from when on this one exists.
bool LabelOrder::isWantedOtherwise(const LiveTensor &live,
                                   const Layout &layout) const {
  const std::vector<TensorUse> &uses = facts.tensors[live.tensor].uses;
  for (size_t i = live.numUsed; i < uses.size(); ++i)
    for (const Signature &signature : facts.problem.getSignatures(uses[i].op)) {
      const Layout &wanted = signature.operands[uses[i].operand];
      if (wanted != layout && wanted != live.produced)
        return true;
    }
  return false;
}

void LabelOrder::appendTensor(std::string &key, const LiveTensor &live) const {
  append(key, live.tensor);
  append(key, live.produced.getKey());
  bool isOld = live.existed || !isWantedOtherwise(live, live.produced);
  append(key, {isOld, live.isInPlace, live.isSummed, live.keepsTerms,
               live.sumSeen, live.termsSeen});
  append(key, live.lastOther);
  append(key, live.lastOtherSeen);
  append(key, {live.bytesToFree != 0});
  append(key, static_cast<uint32_t>(live.waits.size()));
  for (const WaitGuess &guess : live.waits) {
    append(key, guess.layout.getKey());
    append(key, {guess.isMade});
  }
  append(key, static_cast<uint32_t>(live.copies.size()));
  for (const LiveCopy &copy : live.copies) {
    append(key, copy.layout.getKey());
    key.push_back(static_cast<char>(copy.madeIn));
    bool isOldCopy = copy.existed || !isWantedOtherwise(live, copy.layout);
    append(key, {isOldCopy, copy.isInPlace, copy.waits});
  }
  for (const Layout &layout : live.wanted)
    append(key, layout.getKey());
}

std::string LabelOrder::getKey(const Label &label) const {
  std::string key;
  key.reserve(kKeyBytes * (1 + label.tensors.size()));
  append(key, {label.isUpdateStage, label.hasUpdated, label.line.previousIsOne,
               label.work.joins, label.work.dependsOnStrand});
  for (const LiveTensor &live : label.tensors)
    appendTensor(key, live);
  for (auto [group, signature] : label.groups) {
    append(key, group);
    append(key, signature);
  }
  if (hasLimit)
    for (const LabelWaiter &waiter : label.waiters) {
      append(key, waiter.tensor);
      append(key, waiter.layout.getKey());
      append(key, {waiter.isStarted, waiter.place == 1, waiter.place == 2,
                   waiter.freedBytes != 0});
    }
  return key;
}

static double getExcess(double a, double b) { return std::max(0.0, a - b); }

double tandem::search::getMostLost(const LineState &a, const StageWork &aWork,
                                   double aLeaving, const LineState &b,
                                   const StageWork &bWork, double bLeaving,
                                   int64_t numStrands) {
  double k = static_cast<double>(numStrands);
  double excess =
      getExcess(a.previous, b.previous) + getExcess(a.waiting, b.waiting) +
      getExcess(a.arriving, b.arriving) + getExcess(aLeaving, bLeaving) +
      k * getExcess(aWork.computationPerStrand, bWork.computationPerStrand) +
      getExcess(aWork.computationOnce, bWork.computationOnce) +
      getExcess(aWork.sums, bWork.sums);
  // A step's communication is the largest over the queues.
  double perStrand = 0, once = 0;
  for (unsigned q = 0; q < kMaxAxes; ++q) {
    perStrand = std::max(perStrand, getExcess(aWork.collectivePerStrand[q],
                                              bWork.collectivePerStrand[q]));
    once = std::max(
        once, getExcess(aWork.collectiveOnce[q], bWork.collectiveOnce[q]));
  }
  return excess + k * perStrand + once;
}

/// With a memory limit it matters when the queue takes a copy, and more is not
/// always worse.
bool LabelOrder::isQueueEqual(const Label &a, const Label &b) const {
  for (size_t i = 0; i < a.waiters.size(); ++i)
    if (a.waiters[i].seconds != b.waiters[i].seconds)
      return false;
  return a.line.previous == b.line.previous &&
         a.line.waiting == b.line.waiting &&
         a.line.arriving == b.line.arriving &&
         a.work.computationPerStrand == b.work.computationPerStrand &&
         a.work.computationOnce == b.work.computationOnce &&
         a.work.sums == b.work.sums &&
         a.work.collectivePerStrand == b.work.collectivePerStrand &&
         a.work.collectiveOnce == b.work.collectiveOnce;
}

bool LabelOrder::isNoWorse(const Label &a, const Label &b) const {
  if (hasLimit && (a.resident > b.resident || a.getPeak() > b.getPeak() ||
                   a.resident + a.stageBytes > b.resident + b.stageBytes ||
                   a.nextBytes > b.nextBytes || a.stageBytes > b.stageBytes ||
                   a.workspace > b.workspace || a.closedPeak > b.closedPeak))
    return false;
  if (a.line.seconds > b.line.seconds ||
      (hasLimit && !a.waiters.empty() && !isQueueEqual(a, b)))
    return false;
  return a.line.seconds + getMostLost(a.line, a.work, a.leaving, b.line, b.work,
                                      b.leaving, facts.numStrands) <=
         b.line.seconds;
}
