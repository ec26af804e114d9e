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

void IlpMemory::hold(Expr bytes, double largest, int first, int last) {
  first = std::max(first, 0);
  last = std::max(last, 0);
  if (!bytes.empty() && first <= last)
    holdings.push_back({std::move(bytes), largest, first, last});
}

void IlpMemory::addResidents() {
  for (unsigned i = 0; i < forms.tensors.size(); ++i) {
    const IlpTensor &tensor = forms.tensors[i];
    if (problem.operators[tensor.producer].kind != Operator::Kind::Resident)
      continue;
    Expr bytes;
    double largest = 0;
    for (const IlpLayout &entry : tensor.produced) {
      double size = getBytes(i, entry.layout);
      add(bytes, entry.chosen, size);
      largest = std::max(largest, size);
    }
    hold(std::move(bytes), largest, 0, static_cast<int>(stages.size()) - 1);
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
  Expr first, rest;
  double firstLargest = 0, restLargest = 0;
  for (unsigned p = 0; p < tensor.produced.size(); ++p) {
    const Layout &layout = tensor.produced[p].layout;
    double bytes = getBytes(index, layout), later = bytes;
    Expr held = getHeld(index, p);
    add(first, held, bytes);
    bool hasOther = hasOtherUses(tensor);
    if (tensor.summed[p].empty() || hasOther)
      add(rest, held, bytes);
    if (!tensor.summed[p].empty()) {
      Layout sum = layout;
      sum[problem.getTimeAxis()] = kFull;
      double sumBytes = getBytes(index, sum);
      // Terms go once they are summed, unless another pass wants them; an
      // update that wants them is left out.
      add(rest, tensor.summed[p], sumBytes);
      if (!hasOther) {
        add(rest, held, bytes);
        add(rest, tensor.summed[p], -bytes);
      }
      later += sumBytes;
    }
    firstLargest = std::max(firstLargest, bytes);
    restLargest = std::max(restLargest, later);
  }
  hold(std::move(first), firstLargest, tensor.stage, tensor.stage);
  hold(std::move(rest), restLargest, std::max(tensor.stage, 0) + 1, lastOther);
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
    Expr bytes;
    double largest = 0;
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
      add(bytes, held, size);
      largest = std::max(largest, size);
    }
    hold(std::move(bytes), largest, begin, end);
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
      double bytes = getBytes(index, layout);
      Expr held;
      add(held, getCopyHeld(tensor, layout, made), bytes);
      hold(std::move(held), bytes, first, static_cast<int>(pass.lastStage));
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
  std::vector<Expr> columns(stages.size());
  std::vector<double> largestOf(stages.size());
  for (unsigned op = 0; op < problem.operators.size(); ++op) {
    const SignatureSet &signatures = problem.getSignatures(op);
    unsigned stage = stages.stageOf[op];
    Expr bytes;
    double largest = 0;
    for (unsigned s = 0; s < signatures.size(); ++s) {
      double size = toUnits(signatures[s].workspace);
      bytes.push_back({forms.getColumn(op, s), size});
      largest = std::max(largest, size);
    }
    if (largest == 0)
      continue;
    if (columns[stage].empty())
      columns[stage] = {{program.addContinuous(0, kInfinity), 1}};
    program.addLess(bytes, columns[stage]);
    largestOf[stage] = std::max(largestOf[stage], largest);
  }
  for (unsigned stage = 0; stage < stages.size(); ++stage)
    hold(columns[stage], largestOf[stage], static_cast<int>(stage),
         static_cast<int>(stage));
}

void IlpMemory::addHoldings() {
  addResidents();
  for (unsigned i = 0; i < forms.tensors.size(); ++i) {
    addTensor(i);
    addCopies(i);
  }
  addWorkspaces();
}

Expr IlpMemory::getTotal(unsigned stage) const {
  Expr row;
  for (const Holding &holding : holdings)
    if (holding.first <= static_cast<int>(stage) &&
        static_cast<int>(stage) <= holding.last)
      add(row, holding.bytes);
  return row;
}

void IlpMemory::limitStages() {
  addHoldings();
  std::vector<double> changes(stages.size() + 1);
  for (const Holding &holding : holdings) {
    changes[holding.first] += holding.largest;
    changes[holding.last + 1] -= holding.largest;
  }
  // Rounding must not forbid a plan that just fits.
  double limit = kLimit + toUnits(1) / 4;
  double largest = 0;
  for (unsigned stage = 0; stage < stages.size(); ++stage) {
    largest += changes[stage];
    if (largest > kLimit)
      program.addRow(getTotal(stage), -kInfinity, limit);
  }
}

void IlpMemory::minimizePeak() {
  addHoldings();
  Expr peak{{program.addContinuous(0, kInfinity), 1}};
  for (unsigned stage = 0; stage < stages.size(); ++stage)
    program.addLess(getTotal(stage), peak);
  program.minimize(peak);
}

int64_t IlpMemory::toBytes(double units) const {
  return std::llround(
      units / kLimit *
      static_cast<double>(std::max<int64_t>(problem.memoryLimit, 1)));
}
