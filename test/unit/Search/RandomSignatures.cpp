//===- RandomSignatures.cpp - signatures drawn from rules -----------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RandomGenerator.h"
#include <algorithm>

using namespace tandem::cost;
using namespace tandem::cost::test;

/// The line of a rule in which everything is `full`.
static unsigned getWholeLine(const Rule &rule) {
  for (unsigned i = 0; i < rule.size(); ++i)
    if (rule[i].find_first_of("01rp") == std::string::npos)
      return i;
  return 0;
}

/// A line that the operands can be brought to, mostly one that takes them as
/// they are.
unsigned Generator::drawRule(const Rule &rule, const Operator &op,
                             const std::vector<char> &forms, double coherence) {
  std::vector<unsigned> possible, matching;
  unsigned best = 0;
  for (unsigned i = 0; i < rule.size(); ++i) {
    unsigned numMatches = 0;
    bool isPossible = true;
    for (size_t operand = 0; operand < op.operands.size(); ++operand) {
      char have = forms[op.operands[operand]], want = rule[i][2 * operand];
      numMatches += have == want || (have == 'p' && want == 'f');
      isPossible &= have == want || want != 'r';
    }
    if (!isPossible)
      continue;
    possible.push_back(i);
    if (numMatches > best)
      matching.clear();
    best = std::max(best, numMatches);
    if (numMatches == best)
      matching.push_back(i);
  }
  return random.pick(random.chance(coherence) ? matching : possible);
}

/// Draws a line for each operator along one axis.
bool Generator::drawAxis(unsigned axis, Theme &theme) {
  std::vector<char> forms(b.problem.tensors.size(), 'f');
  bool isTime = b.problem.axes[axis].isTime;
  for (unsigned op = 0; op < b.problem.operators.size(); ++op) {
    const Operator &info = b.problem.operators[op];
    if (drafts[op].tiedTo >= 0) {
      theme[op][axis] = theme[drafts[op].tiedTo][axis];
      continue;
    }
    const Rule &rule = getRule(op, axis);
    unsigned line = drawRule(rule, info, forms, isTime ? 0.97 : coherence);
    // A batch is split over time, else there is no duplex.
    if (isTime && info.kind == Operator::Kind::Input &&
        (options.kind != RandomOptions::Kind::Any || random.chance(0.8)))
      line = 1;
    if (!isTime && options.kind == RandomOptions::Kind::Wait &&
        info.kind == Operator::Kind::Input && random.chance(0.8))
      line = 1;
    theme[op][axis] = line;
    size_t place = rule[line].find('>') + 1;
    for (unsigned result : info.results) {
      forms[result] = rule[line][place];
      place += 2;
    }
  }
  return true;
}

Theme Generator::drawTheme() {
  Theme theme(b.problem.operators.size());
  for (unsigned axis = 0; axis < b.problem.axes.size(); ++axis)
    drawAxis(axis, theme);
  return theme;
}

/// The same theme without duplex.
Theme Generator::makeWhole(Theme theme) const {
  int axis = b.problem.getTimeAxis();
  for (unsigned op = 0; op < theme.size(); ++op)
    theme[op][axis] =
        drafts[op].tiedTo >= 0 ? 0 : getWholeLine(drafts[op].time);
  return theme;
}

Signature Generator::makeSignature(unsigned op, const Choice &choice) {
  const Operator &drawnFor = b.problem.operators[op];
  bool isTied = drafts[op].tiedTo >= 0;
  unsigned source = isTied ? drafts[op].tiedTo : op;
  Signature result;
  result.operands.resize(drawnFor.operands.size());
  result.results.resize(drawnFor.results.size());
  double share = 1;
  for (unsigned axis = 0; axis < b.problem.axes.size(); ++axis) {
    Signature line = signature(getRule(source, axis)[choice[axis]]);
    if (isTied)
      std::swap(line.operands, line.results);
    bool isSplit = false;
    auto take = [&](std::vector<Layout> &to, const std::vector<Layout> &from) {
      for (size_t i = 0; i < to.size(); ++i) {
        to[i][axis] = from[i][0];
        isSplit |= from[i][0] >= 0;
      }
    };
    take(result.operands, line.operands);
    take(result.results, line.results);
    // Smaller pieces are less efficient.
    const Axis &info = b.problem.axes[axis];
    if (isSplit)
      share *=
          (info.isTime ? strandOverhead : 1) / static_cast<double>(info.size);
  }
  if (drawnFor.kind != Operator::Kind::Compute)
    return result;
  double jitter = hasJitter ? random.between(0.9, 1.1) : 1;
  result.seconds = drafts[op].seconds * share * jitter;
  result.workspace =
      static_cast<int64_t>(static_cast<double>(drafts[op].workspace) * share);
  return result;
}

void Generator::addSignatures(const Theme &theme, size_t begin, size_t end) {
  for (size_t op = begin; op < end; ++op) {
    // A tied output has what its argument has.
    unsigned source = drafts[op].tiedTo >= 0 ? drafts[op].tiedTo : op;
    const Choice &choice = theme[source];
    std::vector<Choice> &choices = drawn[source];
    if (std::find(choices.begin(), choices.end(), choice) == choices.end())
      choices.push_back(choice);
    drawn[op] = choices;
    for (size_t other = 0; other < drawn.size(); ++other)
      if (drafts[other].tiedTo == static_cast<int>(source))
        drawn[other] = choices;
  }
}

/// An estimate: a cut is possible behind each operator but the last, and has no
/// choice before the updates.
uint64_t Generator::countPlans() const {
  double count = options.isHidup ? 0.5 : 0.25;
  for (unsigned op = 0; op < drawn.size(); ++op) {
    if (drafts[op].tiedTo < 0)
      count *= static_cast<double>(drawn[op].size());
    if (options.isHidup || !b.problem.operators[op].operands.empty())
      count *= 2;
  }
  return count < 1e18 ? static_cast<uint64_t>(count) : ~uint64_t(0);
}

/// Adds a part of a theme, unless there are too many plans then.
bool Generator::tryWindow(const Theme &theme, size_t begin, size_t end) {
  std::vector<std::vector<Choice>> before = drawn;
  addSignatures(theme, begin, end);
  if (countPlans() <= options.maxPlans)
    return true;
  drawn = before;
  return false;
}

/// A first theme for all operators; then parts of others, as long as there are
/// not too many plans.
void Generator::drawSignatures() {
  hasJitter = random.chance(0.5);
  bool isDuplex = options.kind == RandomOptions::Kind::Duplex;
  coherence = options.kind == RandomOptions::Kind::Wait
                  ? 0.9
                  : random.between(0.2, isDuplex ? 0.5 : 0.8);
  strandOverhead = random.between(1.005, isDuplex ? 1.04 : 1.15);
  size_t count = b.problem.operators.size();
  drawn.resize(count);
  Theme first = drawTheme();
  addSignatures(first, 0, count);
  // Arguments first, so that there is something to pin.
  for (unsigned op = 0; op < count; ++op)
    if (b.problem.operators[op].operands.empty())
      tryWindow(drawTheme(), op, op + 1);
  if (isDuplex)
    tryWindow(makeWhole(first), 0, count);
  for (unsigned round = 0; round < options.maxThemes; ++round) {
    Theme theme = drawTheme();
    if (options.kind == RandomOptions::Kind::Any &&
        b.problem.getTimeAxis() >= 0 && random.chance(0.5))
      theme = makeWhole(theme);
    size_t begin = 0, end = count;
    while (begin < end && !tryWindow(theme, begin, end))
      (random.chance(0.5) ? begin : end) = (begin + end) / 2;
  }
  for (unsigned op = 0; op < drawn.size(); ++op)
    for (const Choice &choice : drawn[op])
      b.problem.signatureSets[op].push_back(makeSignature(op, choice));
}
