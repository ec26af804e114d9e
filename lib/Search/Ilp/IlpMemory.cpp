//===- IlpMemory.cpp - bytes of a plan with given stages ------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "IlpMemory.h"
#include <algorithm>
#include <cmath>
#include <set>

using namespace tandem::cost;
using namespace tandem::search;

/// The limit in units of the program: the solver's tolerances are absolute.
constexpr double kLimit = 1e6;

/// Of what a holding is made: of a tensor in one of its layouts, or its sum in
/// place of it; and of a sum beside it.
constexpr IlpGroup::Key kWhole = {0, 0}, kSum = {1, 0};

IlpMemory::IlpMemory(const IlpForms &forms, IntegerProgram &program)
    : forms(forms), problem(forms.problem), stages(forms.stages),
      program(program), isTiedOutput(problem.getTiedOutputs()),
      waiting(problem.tensors.size()) {
  for (const IlpChange &change : forms.changes)
    if (change.waits)
      waiting[change.copy.tensor].push_back(&change);
}

double IlpMemory::toUnits(int64_t bytes) const {
  return static_cast<double>(bytes) * kLimit /
         static_cast<double>(std::max<int64_t>(problem.memoryLimit, 1));
}

double IlpMemory::getBytes(unsigned tensor, const Layout &layout) const {
  return toUnits(problem.getBytes(tensor, layout));
}

void IlpMemory::hold(IlpSum bytes, int first, int last) {
  first = std::max(first, 0);
  last = std::max(last, 0);
  if (!bytes.isEmpty() && first <= last)
    holdings.push_back({std::move(bytes), first, last});
}

void IlpMemory::addResidents() {
  for (unsigned i = 0; i < forms.tensors.size(); ++i) {
    const IlpTensor &tensor = forms.tensors[i];
    if (problem.operators[tensor.producer].kind != Operator::Kind::Resident)
      continue;
    IlpSum bytes;
    for (const IlpLayout &entry : tensor.produced)
      bytes.add(kWhole, entry.chosen, getBytes(i, entry.layout));
    hold(std::move(bytes), 0, static_cast<int>(stages.size()) - 1);
  }
}

//===----------------------------------------------------------------------===//
// What producers give
//===----------------------------------------------------------------------===//

bool IlpMemory::hasOnlyTiedUses(const IlpTensor &tensor) const {
  return !tensor.uses.empty() &&
         std::all_of(tensor.uses.begin(), tensor.uses.end(),
                     [&](const IlpUse &use) { return isTiedOutput[use.op]; });
}

/// Uses that want the terms of a gradient.
static bool hasOtherUses(const IlpTensor &tensor) {
  return std::any_of(
      tensor.uses.begin(), tensor.uses.end(),
      [](const IlpUse &use) { return use.pass != Pass::Update; });
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

Expr IlpMemory::getWaiting(unsigned index, const Layout &produced,
                           const Layout &wanted) const {
  Expr all;
  for (const IlpChange *change : waiting[index])
    if (change->copy.layout == wanted &&
        change->from == forms.getBase(produced, wanted, Pass::Update))
      add(all, change->made);
  return all;
}

void IlpMemory::addTensor(unsigned index) {
  const IlpTensor &tensor = forms.tensors[index];
  if (problem.operators[tensor.producer].kind == Operator::Kind::Resident)
    return;
  // Up to here some use holds the tensor that cannot wait.
  int lastOther = tensor.stage;
  for (const IlpUse &use : tensor.uses)
    if (use.pass != Pass::Update || waiting[index].empty())
      lastOther = std::max(lastOther, static_cast<int>(use.stage));
  IlpSum first, rest;
  bool hasOther = hasOtherUses(tensor);
  for (unsigned p = 0; p < tensor.produced.size(); ++p) {
    const Layout &layout = tensor.produced[p].layout;
    double bytes = getBytes(index, layout);
    Expr held = getHeld(index, p);
    first.add(kWhole, held, bytes);
    rest.add(kWhole, held, bytes);
    if (tensor.summed[p].empty())
      continue;
    Layout sum = layout;
    sum[problem.getTimeAxis()] = kFull;
    rest.add(hasOther ? kSum : kWhole, tensor.summed[p], getBytes(index, sum));
    // Terms go once they are summed, unless another pass wants them; an update
    // that wants them is left out.
    if (!hasOther)
      rest.add(kWhole, tensor.summed[p], -bytes);
  }
  hold(std::move(first), tensor.stage, tensor.stage);
  hold(std::move(rest), std::max(tensor.stage, 0) + 1, lastOther);
  if (!waiting[index].empty())
    addUpdateUses(index, lastOther);
}

/// Holds a gradient that may wait from `lastOther` to those of its uses that do
/// not wait.
void IlpMemory::addUpdateUses(unsigned index, int lastOther) {
  const IlpTensor &tensor = forms.tensors[index];
  bool isTied = hasOnlyTiedUses(tensor);
  bool hasOther = hasOtherUses(tensor);
  std::set<int> ends;
  for (const IlpUse &use : tensor.uses)
    if (static_cast<int>(use.stage) > lastOther)
      ends.insert(static_cast<int>(use.stage));
  int begin = lastOther + 1;
  for (int end : ends) {
    IlpSum bytes;
    for (size_t p = 0; p < tensor.produced.size(); ++p) {
      Expr held{{program.addContinuous(0, 1), 1}};
      for (const IlpUse &use : tensor.uses) {
        if (static_cast<int>(use.stage) < end)
          continue;
        Expr direct;
        for (size_t w = 0; w < use.wanted.size(); ++w) {
          const Layout &produced = tensor.produced[p].layout,
                       &wanted = use.wanted[w].layout;
          if (use.pairs[p][w].empty() || (isTied && produced == wanted))
            continue;
          add(direct, use.pairs[p][w]);
          add(direct, getWaiting(index, produced, wanted), -1);
        }
        program.addLess(direct, held);
      }
      Layout layout = tensor.produced[p].layout;
      double size = getBytes(index, layout);
      if (!tensor.summed[p].empty()) {
        layout[problem.getTimeAxis()] = kFull;
        size = getBytes(index, layout) + (hasOther ? size : 0);
      }
      bytes.add(kWhole, held, size);
    }
    hold(std::move(bytes), begin, end);
    begin = end + 1;
  }
}

//===----------------------------------------------------------------------===//
// Copies and workspaces
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

void IlpMemory::addCopies(unsigned index) {
  const IlpTensor &tensor = forms.tensors[index];
  for (size_t place = 0; place < tensor.passes.size(); ++place) {
    const IlpPass &pass = tensor.passes[place];
    auto keep = [&](const Layout &layout, const Expr &made, int first) {
      IlpSum bytes;
      bytes.add(kWhole, getCopyHeld(tensor, layout, made),
                getBytes(index, layout));
      hold(std::move(bytes), first, static_cast<int>(pass.lastStage));
    };
    for (const auto &[layout, entries] : pass.made)
      for (const auto &[stage, made] : entries)
        keep(layout, made, static_cast<int>(stage));
    // Up to the end of the pass before, that pass holds it.
    for (auto [layout, column] : pass.kept)
      keep(layout, {{column, 1}},
           static_cast<int>(tensor.passes[place - 1].lastStage) + 1);
  }
}

/// The largest workspace of each stage.
void IlpMemory::addWorkspaces() {
  unsigned op = 0;
  for (unsigned stage = 0; stage < stages.size(); ++stage) {
    std::vector<Expr> all;
    double largest = 0;
    for (; op < stages.ends[stage]; ++op) {
      IlpSum bytes;
      const SignatureSet &signatures = problem.getSignatures(op);
      for (unsigned s = 0; s < signatures.size(); ++s)
        bytes.add(kWhole, {{forms.getColumn(op, s), 1}},
                  toUnits(signatures[s].workspace));
      largest = std::max(largest, bytes.getLargest());
      if (!bytes.isEmpty())
        all.push_back(std::move(bytes.expr));
    }
    if (all.empty())
      continue;
    IlpSum held;
    held.add(kWhole, {{program.addContinuous(0, 1), 1}}, largest);
    for (const Expr &bytes : all)
      program.addLess(bytes, held.expr);
    hold(std::move(held), static_cast<int>(stage), static_cast<int>(stage));
  }
}

void IlpMemory::addHoldings() {
  addResidents();
  for (unsigned i = 0; i < forms.tensors.size(); ++i) {
    addTensor(i);
    addCopies(i);
  }
  addWorkspaces();
}

/// What the stage holds, and the most that it could hold.
Expr IlpMemory::getTotal(unsigned stage, double &largest) const {
  Expr total;
  largest = 0;
  for (const Holding &holding : holdings)
    if (holding.first <= static_cast<int>(stage) &&
        static_cast<int>(stage) <= holding.last) {
      add(total, holding.bytes.expr);
      largest += holding.bytes.getLargest();
    }
  return total;
}

void IlpMemory::limitStages() {
  addHoldings();
  // Rounding must not forbid a plan that just fits.
  double limit = kLimit + toUnits(1) / 4, largest;
  for (unsigned stage = 0; stage < stages.size(); ++stage)
    if (Expr total = getTotal(stage, largest); largest > kLimit)
      program.addRow(total, -kInfinity, limit);
}

void IlpMemory::minimizePeak() {
  addHoldings();
  Expr peak{{program.addContinuous(0, kInfinity), 1}};
  double largest;
  for (unsigned stage = 0; stage < stages.size(); ++stage)
    program.addLess(getTotal(stage, largest), peak);
  program.minimize(peak);
}

int64_t IlpMemory::toBytes(double units) const {
  return std::llround(
      units / kLimit *
      static_cast<double>(std::max<int64_t>(problem.memoryLimit, 1)));
}
