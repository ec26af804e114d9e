//===- IlpMemory.cpp - bytes of a plan with given stages ------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "IlpMemory.h"
#include <algorithm>
#include <cmath>

using namespace tandem::cost;
using namespace tandem::search;

/// The limit in units of the program: the solver's tolerances are absolute.
constexpr double kLimit = 1e6;

/// A holding is one amount.
constexpr IlpGroup::Key kWhole = {0, 0};

IlpMemory::IlpMemory(const IlpForms &forms, IntegerProgram &program)
    : forms(forms), problem(forms.problem), stages(forms.stages),
      program(program), numStrands(problem.getNumStrands()),
      isTiedOutput(problem.getTiedOutputs()), viewNeeds(problem.tensors.size()),
      stagesOverTime(forms.stages.size()) {
  for (unsigned i = 0; i < viewNeeds.size(); ++i)
    viewNeeds[i].resize(forms.tensors[i].produced.size());
}

double IlpMemory::toUnits(int64_t bytes) const {
  return static_cast<double>(bytes) * kLimit /
         static_cast<double>(std::max<int64_t>(problem.memoryLimit, 1));
}

bool IlpMemory::isOverTime(const Layout &layout) const {
  return numStrands == 1 || layout[problem.getTimeAxis()] != kFull;
}

unsigned IlpMemory::getBegin(unsigned stage) const {
  return stage == 0 ? 0 : stages.ends[stage - 1];
}

void IlpMemory::hold(unsigned tensor, const Layout &layout, const Expr &held,
                     Life life, unsigned first, unsigned last) {
  Holding holding{{}, life, first, last};
  holding.bytes.add(kWhole, held, toUnits(problem.getBytes(tensor, layout)));
  if (holding.bytes.isEmpty() || first > last)
    return;
  holdings.push_back(std::move(holding));
}

//===----------------------------------------------------------------------===//
// What all strands hold together
//===----------------------------------------------------------------------===//

/// 1 if some operator of the stage is over time; empty if none can be.
const Expr &IlpMemory::getOverTime(unsigned stage) {
  std::optional<Expr> &overTime = stagesOverTime[stage];
  if (overTime)
    return *overTime;
  std::vector<Expr> each;
  for (unsigned op = getBegin(stage); op < stages.ends[stage]; ++op) {
    Expr chosen;
    const SignatureSet &signatures = problem.getSignatures(op);
    for (unsigned s = 0; s < signatures.size(); ++s)
      if (forms.isAllowed(op, s) && problem.isOverTime(signatures[s]))
        chosen.push_back({forms.getColumn(op, s), 1});
    if (!chosen.empty() && !problem.operators[op].isArgument())
      each.push_back(std::move(chosen));
  }
  overTime = Expr();
  if (each.empty())
    return *overTime;
  *overTime = {{program.addContinuous(0, 1), 1}};
  for (const Expr &chosen : each)
    program.addLess(chosen, *overTime);
  return *overTime;
}

/// Of what is held somewhere in a stage, what counts in the rest of it: a stage
/// over time counts the whole.
Expr IlpMemory::getInWhole(const Expr &held, unsigned stage) {
  const Expr &overTime = getOverTime(stage);
  return overTime.empty() ? Expr() : getBoth(held, overTime);
}

/// Where `head` was held earlier in the stage, and `held` still is.
Expr IlpMemory::getLater(const Expr &head, const Expr &held, unsigned stage) {
  Expr whole = getInWhole(head, stage);
  if (whole.empty())
    return held;
  Expr later{{program.addContinuous(0, 1), 1}};
  program.addLess(held, later);
  program.addLess(whole, later);
  return later;
}

/// Holds a chain from operator `first` on as far as the operator before has its
/// stage, which counts already as a whole if it is over time. Returns where the
/// chain goes on.
unsigned IlpMemory::holdRest(unsigned index, const Layout &layout,
                             const std::vector<Need> &chain, unsigned first) {
  if (first == 0)
    return first;
  unsigned stage = stages.stageOf[first - 1], end = stages.ends[stage];
  const Expr &overTime = getOverTime(stage);
  for (unsigned i = 0, from = first; i < chain.size() && from < end; ++i) {
    Expr rest = chain[i].needed;
    if (!overTime.empty()) {
      rest = {{program.addContinuous(0, 1), 1}};
      Expr row = chain[i].needed;
      add(row, overTime, -1);
      program.addLess(row, rest);
    }
    hold(index, layout, rest, Life::Once, from, std::min(chain[i].op, end - 1));
    from = chain[i].op + 1;
  }
  return std::max(first, end);
}

/// Holds a chain from operator `first` on. A stage over time counts it as a
/// whole.
void IlpMemory::holdOnce(unsigned index, const Layout &layout,
                         const std::vector<Need> &chain, unsigned first) {
  auto addPiece = [&](const Expr &held, unsigned from, unsigned to) {
    hold(index, layout, held, Life::Once, from, to);
  };
  const Expr *head = nullptr;
  unsigned headStage = 0;
  for (const Need &need : chain) {
    if (need.op < first)
      continue;
    unsigned stage = stages.stageOf[first], last = stages.stageOf[need.op],
             split = first;
    if (head && stage == headStage) {
      split = std::min(need.op + 1, stages.ends[stage]);
      addPiece(getLater(*head, need.needed, stage), first, split - 1);
    } else if (!head && first > getBegin(stage)) {
      addPiece(getInWhole(need.needed, stage), getBegin(stage), first - 1);
    }
    addPiece(need.needed, split, need.op);
    if (!head || last != headStage)
      head = &need.needed;
    headStage = last;
    first = need.op + 1;
  }
  if (head && first < stages.ends[headStage])
    addPiece(getInWhole(*head, headStage), first, stages.ends[headStage] - 1);
}

//===----------------------------------------------------------------------===//
// What producers give
//===----------------------------------------------------------------------===//

bool IlpMemory::hasOnlyTiedUses(const IlpTensor &tensor) const {
  return !tensor.uses.empty() &&
         std::all_of(tensor.uses.begin(), tensor.uses.end(),
                     [&](const IlpUse &use) { return isTiedOutput[use.op]; });
}

/// 1 if the tensor is produced in this layout and not written in place.
Expr IlpMemory::getHeld(unsigned index, unsigned produced) {
  const IlpTensor &tensor = forms.tensors[index];
  const IlpLayout &entry = tensor.produced[produced];
  if (!hasOnlyTiedUses(tensor))
    return entry.chosen;
  Expr held;
  for (const IlpUse &use : tensor.uses) {
    Expr other;
    for (size_t w = 0; w < use.wanted.size(); ++w)
      if (use.wanted[w].layout != entry.layout)
        add(other, use.pairs[produced][w]);
    if (tensor.uses.size() == 1)
      return other;
    if (held.empty())
      held = {{program.addContinuous(0, 1), 1}};
    program.addLess(other, held);
  }
  return held;
}

/// 1 if both are.
Expr IlpMemory::getBoth(const Expr &a, const Expr &b) {
  Expr both{{program.addContinuous(0, 1), 1}}, row = a;
  add(row, b);
  add(row, both, -1);
  program.addRow(row, -kInfinity, 1);
  return both;
}

/// Up to which operators what was produced is needed; `held` is 1 if it is not
/// written in place.
std::vector<IlpMemory::Need>
IlpMemory::getNeeds(unsigned index, unsigned produced, const Expr &held) const {
  const IlpTensor &tensor = forms.tensors[index];
  std::vector<Need> needs;
  bool isTied = hasOnlyTiedUses(tensor);
  for (const IlpUse &use : tensor.uses) {
    Need need{use.op, use.needs[produced],
              use.surelyNeeds[produced] && !isTied};
    // A single use takes it in place or is all that `held` speaks of.
    if (isTied && tensor.uses.size() == 1 && !need.needed.empty())
      need.needed = held;
    needs.push_back(std::move(need));
  }
  return needs;
}

std::vector<IlpMemory::Need> IlpMemory::getSumNeeds(unsigned index,
                                                    unsigned produced) const {
  std::vector<Need> needs;
  for (const IlpUse &use : forms.tensors[index].uses)
    needs.push_back({use.op, use.needsSum[produced]});
  return needs;
}

/// What is held up to each of the operators, one after the other: 1 if it is
/// needed there or later.
std::vector<IlpMemory::Need> IlpMemory::getChain(const Expr &held,
                                                 std::vector<Need> needs) {
  std::stable_sort(needs.begin(), needs.end(),
                   [](const Need &a, const Need &b) { return a.op < b.op; });
  Expr later;
  bool isSure = false;
  for (size_t i = needs.size(); i-- > 0;) {
    Need &need = needs[i];
    isSure |= need.isSure;
    if (isSure) {
      later = held;
    } else if (later.empty()) {
      later = need.needed;
    } else if (!need.needed.empty()) {
      Expr either{{program.addContinuous(0, 1), 1}};
      program.addLess(later, either);
      program.addLess(need.needed, either);
      later = std::move(either);
    }
    need = {need.op, later, isSure};
  }
  std::erase_if(needs, [](const Need &need) { return need.needed.empty(); });
  return needs;
}

/// Holds a chain from operator `first` on.
void IlpMemory::holdChain(unsigned index, const Layout &layout,
                          const std::vector<Need> &chain, unsigned first,
                          Life life) {
  if (life == Life::Once || !isOverTime(layout))
    return holdOnce(index, layout, chain, first);
  for (const Need &need : chain) {
    if (need.op < first)
      continue;
    hold(index, layout, need.needed, life, first, need.op);
    first = need.op + 1;
  }
}

/// What a view holds itself of its chain: what does not lie in its root.
std::vector<IlpMemory::Need>
IlpMemory::foldView(unsigned index, unsigned produced,
                    const std::vector<Need> &chain) {
  unsigned root = problem.getRoot(index);
  const IlpLayout &own = forms.tensors[index].produced[produced];
  Expr folded;
  for (unsigned p = 0; p < forms.tensors[root].produced.size(); ++p) {
    const IlpLayout &other = forms.tensors[root].produced[p];
    if (isOverTime(own.layout) != isOverTime(other.layout) ||
        problem.getBytes(index, own.layout) !=
            problem.getBytes(root, other.layout))
      continue;
    Expr both = getBoth(own.chosen, other.chosen);
    program.addLess(both, own.chosen);
    program.addLess(both, other.chosen);
    for (const Need &need : chain)
      viewNeeds[root][p].push_back({need.op, getBoth(need.needed, both)});
    add(folded, both);
  }
  if (folded.empty())
    return chain;
  std::vector<Need> rest;
  for (const Need &need : chain) {
    Expr left{{program.addContinuous(0, 1), 1}}, row = need.needed;
    add(row, folded, -1);
    program.addLess(row, left);
    rest.push_back({need.op, std::move(left)});
  }
  return rest;
}

/// A gradient in layout `produced`, whose terms may be summed up at the end of
/// its stage. An update that wants terms beside one that wants the sum is left
/// out.
void IlpMemory::addGradient(unsigned index, unsigned produced,
                            const Expr &held) {
  const IlpTensor &tensor = forms.tensors[index];
  const Layout &layout = tensor.produced[produced].layout;
  const Expr &summed = tensor.summed[produced];
  unsigned end = stages.ends[tensor.stage];
  std::vector<Need> needs = getNeeds(index, produced, held),
                    sums = getSumNeeds(index, produced);
  bool hasOther =
      std::any_of(tensor.uses.begin(), tensor.uses.end(),
                  [](const IlpUse &use) { return use.pass != Pass::Update; });
  if (hasOther) {
    needs.insert(needs.end(), sums.begin(), sums.end());
  } else {
    needs.insert(needs.begin(), {end - 1, summed});
    hold(index, layout, summed, Life::AtEnd, end - 1, end - 1);
  }
  holdChain(index, layout, getChain(held, std::move(needs)),
            tensor.producer + 1, Life::Produced);
  Layout sum = layout;
  sum[problem.getTimeAxis()] = kFull;
  holdChain(index, sum, getChain(held, std::move(sums)), end, Life::Once);
}

void IlpMemory::addProduced(unsigned index, unsigned produced) {
  const IlpTensor &tensor = forms.tensors[index];
  const Layout &layout = tensor.produced[produced].layout;
  bool maySum = !tensor.summed[produced].empty(),
       isInKernel = problem.tensors[index].isInKernel;
  if (isInKernel && !maySum)
    return;
  Expr held = getHeld(index, produced);
  std::vector<Need> chain;
  if (problem.tensors[index].heldFrom != Tensor::kIfRead || maySum)
    chain.push_back(
        {tensor.producer, isInKernel ? tensor.summed[produced] : held});
  if (maySum) {
    holdChain(index, layout, chain, tensor.producer, Life::Produced);
    addGradient(index, produced, held);
    return;
  }
  std::vector<Need> needs = getNeeds(index, produced, held);
  for (const Need &need : viewNeeds[index][produced])
    needs.push_back(need);
  for (Need &need : getChain(held, std::move(needs)))
    chain.push_back(std::move(need));
  if (problem.getRoot(index) != index)
    chain = foldView(index, produced, chain);
  holdChain(index, layout, chain,
            problem.tensors[index].getFirstHeld(tensor.producer),
            Life::Produced);
}

void IlpMemory::addTensor(unsigned index) {
  const IlpTensor &tensor = forms.tensors[index];
  if (problem.operators[tensor.producer].isArgument()) {
    for (const IlpLayout &entry : tensor.produced)
      hold(index, entry.layout, entry.chosen, Life::Once, 0,
           problem.operators.size() - 1);
    return;
  }
  for (unsigned p = 0; p < tensor.produced.size(); ++p)
    addProduced(index, p);
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

/// 1 if the copy is made and some use of its layout is not written in place.
Expr IlpMemory::getCopyHeld(const IlpTensor &tensor, const Layout &layout,
                            const Expr &made) {
  if (hasOnlyTiedUses(tensor))
    return {};
  bool hasTied =
      std::any_of(tensor.uses.begin(), tensor.uses.end(),
                  [&](const IlpUse &use) { return isTiedOutput[use.op]; });
  if (!hasTied)
    return made;
  Expr held{{program.addContinuous(0, 1), 1}};
  for (const IlpUse &use : tensor.uses)
    for (const IlpLayout &entry : use.wanted) {
      if (isTiedOutput[use.op] || entry.layout != layout)
        continue;
      Expr row = made;
      add(row, entry.chosen);
      add(row, held, -1);
      program.addRow(row, -kInfinity, 1);
    }
  return held;
}

/// Holds a copy from operator `first` to the last one of the pass that reads
/// the tensor.
void IlpMemory::holdCopy(unsigned index, size_t place, const Layout &layout,
                         const Expr &held, Life life, unsigned first) {
  const IlpTensor &tensor = forms.tensors[index];
  if (held.empty())
    return;
  std::vector<Need> reads;
  for (unsigned i : tensor.passes[place].uses) {
    const IlpUse &use = tensor.uses[i];
    Need &read = reads.emplace_back(Need{use.op, {}, true});
    for (const IlpLayout &entry : use.wanted) {
      if (entry.layout.isAbsent())
        read.isSure = false;
      else
        add(read.needed, entry.chosen);
    }
  }
  std::vector<Need> chain = getChain(held, std::move(reads));
  std::erase_if(chain, [&](const Need &need) { return need.op < first; });
  for (Need &need : chain)
    if (!need.isSure)
      need.needed = getBoth(held, need.needed);
  if (!isOverTime(layout)) {
    first = holdRest(index, layout, chain, first);
    return holdOnce(index, layout, chain, first);
  }
  for (const Need &need : chain) {
    hold(index, layout, need.needed, life, first, need.op);
    first = need.op + 1;
    life = Life::Produced;
  }
}

void IlpMemory::addCopies(unsigned index) {
  const IlpTensor &tensor = forms.tensors[index];
  for (size_t place = 0; place < tensor.passes.size(); ++place) {
    const IlpPass &pass = tensor.passes[place];
    for (const auto &[layout, entries] : pass.made)
      for (const auto &[stage, made] : entries)
        holdCopy(index, place, layout, getCopyHeld(tensor, layout, made),
                 Life::Copy, getBegin(stage));
    // Up to the end of the pass before, that pass holds it.
    for (auto [layout, column] : pass.kept) {
      const IlpPass &before = tensor.passes[place - 1];
      holdCopy(index, place, layout, getCopyHeld(tensor, layout, {{column, 1}}),
               Life::Produced, tensor.uses[before.uses.back()].op + 1);
    }
  }
}

/// Views first: their roots hold what they need.
void IlpMemory::addHoldings() {
  for (unsigned i = forms.tensors.size(); i-- > 0;) {
    addTensor(i);
    addCopies(i);
  }
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

/// Which part of a holding counts beside operator `op`, with other strands
/// before the stage or behind it.
double IlpMemory::getFactor(const Holding &holding, unsigned op,
                            bool isAtBegin) const {
  unsigned stage = stages.stageOf[op], begin = getBegin(stage),
           end = stages.ends[stage], first = holding.first;
  bool isAlive = first <= op && op <= holding.last, isBeside = false;
  switch (holding.life) {
  case Life::Once:
    return isAlive ? 1 : 0;
  case Life::AtEnd:
    isBeside = !isAtBegin && holding.last + 1 == end;
    isAlive = false;
    break;
  case Life::Produced:
  case Life::Copy:
    isBeside = isAtBegin ? holding.last >= begin &&
                               (first < begin ||
                                (first == begin && holding.life == Life::Copy))
                         : first < end && holding.last >= end;
  }
  auto k = static_cast<double>(numStrands);
  return (isAlive ? 1 / k : 0) + (isBeside ? (k - 1) / k : 0);
}

IlpMemory::Row IlpMemory::getRow(unsigned op, bool isAtBegin) const {
  Row row;
  for (const Holding &holding : holdings)
    if (double factor = getFactor(holding, op, isAtBegin); factor > 0) {
      add(row.bytes, holding.bytes.expr, factor);
      row.largest += factor * holding.bytes.getLargest();
    }
  double largest = 0;
  const SignatureSet &signatures = problem.getSignatures(op);
  for (unsigned s = 0; s < signatures.size(); ++s) {
    double workspace = toUnits(signatures[s].workspace);
    add(row.bytes, {{forms.getColumn(op, s), 1}}, workspace);
    largest = std::max(largest, workspace);
  }
  row.largest += largest;
  return row;
}

/// Those that no other row exceeds for sure: of operators beside which
/// something is held for the last time in the stage.
std::vector<IlpMemory::Row> IlpMemory::getRows() const {
  std::vector<bool> matters(problem.operators.size());
  for (unsigned end : stages.ends)
    matters[end - 1] = true;
  for (const Holding &holding : holdings)
    matters[holding.last] = true;
  for (unsigned op = 0; op < matters.size(); ++op)
    for (const Signature &signature : problem.getSignatures(op))
      matters[op] = matters[op] || signature.workspace > 0;
  std::vector<Row> rows;
  for (unsigned op = 0; op < matters.size(); ++op)
    if (matters[op] && !problem.operators[op].isArgument()) {
      rows.push_back(getRow(op, false));
      if (numStrands > 1)
        rows.push_back(getRow(op, true));
    }
  return rows;
}

void IlpMemory::limitPeak() {
  addHoldings();
  // Rounding must not forbid a plan that just fits.
  double limit = kLimit + toUnits(1) / 4;
  for (const Row &row : getRows())
    if (row.largest > kLimit)
      program.addRow(row.bytes, -kInfinity, limit);
}

void IlpMemory::minimizePeak() {
  addHoldings();
  Expr peak{{program.addContinuous(0, kInfinity), 1}};
  for (const Row &row : getRows())
    program.addLess(row.bytes, peak);
  program.minimize(peak);
}

int64_t IlpMemory::toBytes(double units) const {
  return std::llround(
      units / kLimit *
      static_cast<double>(std::max<int64_t>(problem.memoryLimit, 1)));
}
