//===- IlpWork.cpp - work of each stage -----------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "IlpWork.h"
#include "tandem/Cost/Ahead.h"
#include <algorithm>

using namespace tandem::cost;
using namespace tandem::search;

IlpWork::IlpWork(const IlpForms &forms, IntegerProgram &program, double scale)
    : forms(forms), problem(forms.problem), program(program), scale(scale),
      numStrands(forms.problem.getNumStrands()), stages(forms.stages.size()),
      splitColumns(forms.problem.operators.size()),
      aheadOf(forms.problem.operators.size()) {
  for (const IlpChange &change : forms.changes)
    if (change.cost.joins && !change.waits)
      stages[change.stage].joins.push_back(change.made);
  addStages();
  for (unsigned op = 0; op < problem.operators.size(); ++op)
    addAhead(op);
  addOperators();
  addSums();
  addChanges();
  addPartRows();
  addAheadRows();
}

//===----------------------------------------------------------------------===//
// Strands
//===----------------------------------------------------------------------===//

/// 1 if the operator's signature is over time.
Expr IlpWork::getOverTime(unsigned op) const {
  const SignatureSet &signatures = problem.getSignatures(op);
  Expr overTime;
  for (unsigned s = 0; s < signatures.size(); ++s)
    if (!forms.isArgument(op) && forms.isAllowed(op, s) &&
        problem.isOverTime(signatures[s]))
      overTime.push_back({forms.getColumn(op, s), 1});
  return overTime;
}

size_t IlpWork::getNumAllowed(unsigned op) const {
  size_t count = 0;
  for (unsigned s = 0; s < problem.getSignatures(op).size(); ++s)
    count += forms.isAllowed(op, s);
  return count;
}

void IlpWork::addStages() {
  unsigned begin = 0;
  for (unsigned stage = 0; stage < stages.size(); ++stage) {
    unsigned end = forms.stages.ends[stage];
    addStrands(stage, begin, end);
    begin = end;
  }
}

void IlpWork::addStrands(unsigned index, unsigned begin, unsigned end) {
  Stage &stage = stages[index];
  bool isAlwaysOver = false;
  for (unsigned op = begin; op < end && numStrands > 1; ++op) {
    size_t numOver = getOverTime(op).size();
    stage.canSplit |= numOver > 0;
    isAlwaysOver |= numOver == getNumAllowed(op);
  }
  stage.canBeAlone = !stage.canSplit || !isAlwaysOver || !stage.joins.empty();
  if (!stage.canSplit || !stage.canBeAlone)
    return;
  stage.isSplit = program.addBinary();
  Expr strands{{stage.isSplit, 1}}, joins, any;
  for (const Expr &join : stage.joins)
    add(joins, join);
  for (unsigned op = begin; op < end; ++op) {
    if (forms.isArgument(op))
      continue;
    Expr sum;
    for (unsigned s = 0; s < problem.getSignatures(op).size(); ++s) {
      int column = program.addContinuous(0, 1);
      splitColumns[op].push_back(column);
      sum.push_back({column, 1});
      program.addLess({{column, 1}}, {{forms.getColumn(op, s), 1}});
    }
    add(sum, strands, -1);
    program.addRow(sum, 0, 0);
    Expr overTime = getOverTime(op);
    if (overTime.empty())
      continue;
    // One strand is for a join.
    Parts parts = getParts(op, overTime);
    add(any, parts.split);
    program.addLess(parts.alone, joins);
  }
  program.addLess(strands, any);
}

/// Of an expression of the operator's signatures.
IlpWork::Parts IlpWork::getParts(unsigned op, const Expr &chosen) const {
  const Stage &stage = stages[forms.stages.stageOf[op]];
  if (stage.isSplit < 0)
    return stage.canSplit ? Parts{chosen, {}} : Parts{{}, chosen};
  Parts parts{{}, chosen};
  for (Term term : chosen) {
    int column = splitColumns[op][term.column - forms.getColumn(op, 0)];
    parts.split.push_back({column, term.factor});
    parts.alone.push_back({column, -term.factor});
  }
  return parts;
}

//===----------------------------------------------------------------------===//
// Ahead
//===----------------------------------------------------------------------===//

/// A stage that runs ahead does so in one strand, with what reads nothing that
/// the stage makes. Rows let less of it be ahead: that is never shorter, but
/// for the room that what waits has.
void IlpWork::addAhead(unsigned op) {
  unsigned index = forms.stages.stageOf[op];
  int column = forms.aheadColumns[index];
  const SignatureSet &signatures = problem.getSignatures(op);
  aheadOf[op].resize(signatures.size());
  if (column < 0 || !problem.operators[op].isAgain)
    return;
  for (unsigned s = 0; s < signatures.size(); ++s) {
    Parts parts = getParts(op, {{forms.getColumn(op, s), 1}});
    bool makes =
        std::ranges::any_of(signatures[s].results, [](const Layout &layout) {
          return !layout.isAbsent();
        });
    if (!forms.isAllowed(op, s) || !makes || parts.alone.empty())
      continue;
    aheadOf[op][s] = {{program.addContinuous(0, 1), 1}};
    program.addLess(aheadOf[op][s], parts.alone);
    program.addLess(aheadOf[op][s], {{column, 1}});
  }
  addReads(op);
}

/// What it reads of its stage is made ahead.
void IlpWork::addReads(unsigned op) {
  const Operator &info = problem.operators[op];
  const SignatureSet &signatures = problem.getSignatures(op);
  for (size_t i = 0; i < info.operands.size(); ++i) {
    const IlpTensor &tensor = forms.tensors[info.operands[i]];
    if (tensor.stage != static_cast<int>(forms.stages.stageOf[op]))
      continue;
    Expr row;
    for (unsigned s = 0; s < signatures.size(); ++s)
      if (!signatures[s].operands[i].isAbsent())
        add(row, aheadOf[op][s]);
    Expr made;
    for (const Expr &ahead : aheadOf[tensor.producer])
      add(made, ahead);
    program.addLess(row, made);
  }
}

/// Nothing that reads a copy which is made in its stage, but a free one of an
/// argument, is made ahead.
void IlpWork::addCopyRow(const IlpChange &change, const IlpUse &use,
                         ChangeTable &table) {
  const IlpTensor &tensor = forms.tensors[change.copy.tensor];
  const SignatureSet &signatures = problem.getSignatures(use.op);
  Expr row;
  for (unsigned s = 0; s < signatures.size(); ++s)
    if (signatures[s].operands[use.operand] == change.copy.layout)
      add(row, aheadOf[use.op][s]);
  if (row.empty())
    return;
  add(row, change.made);
  for (const IlpLayout &produced : tensor.produced)
    if (isFreeOfArgument(problem, tensor.producer,
                         table.getCost(change.copy.tensor, produced.layout,
                                       change.copy.layout)))
      add(row, produced.chosen, -1);
  program.addRow(row, -kInfinity, 1);
}

/// A stage that runs nothing ahead does not say so.
void IlpWork::addAheadRows() {
  ChangeTable table(problem);
  std::vector<Expr> any(stages.size());
  for (unsigned op = 0; op < problem.operators.size(); ++op)
    for (const Expr &ahead : aheadOf[op])
      add(any[forms.stages.stageOf[op]], ahead);
  for (unsigned stage = 0; stage < stages.size(); ++stage)
    if (int column = forms.aheadColumns[stage]; column >= 0)
      program.addLess({{column, 1}}, any[stage]);
  for (const IlpChange &change : forms.changes) {
    const IlpTensor &tensor = forms.tensors[change.copy.tensor];
    for (const IlpUse &use : tensor.uses)
      if (use.stage == change.stage && use.pass == change.copy.pass)
        addCopyRow(change, use, table);
  }
}

//===----------------------------------------------------------------------===//
// Computation
//===----------------------------------------------------------------------===//

void IlpWork::addOperators() {
  for (unsigned op = 0; op < problem.operators.size(); ++op) {
    if (forms.isArgument(op))
      continue;
    const SignatureSet &signatures = problem.getSignatures(op);
    Stage &stage = stages[forms.stages.stageOf[op]];
    IlpGroup::Key key{0, static_cast<int>(op)};
    for (unsigned s = 0; s < signatures.size(); ++s) {
      if (!forms.isAllowed(op, s))
        continue;
      auto place = problem.isOverTime(signatures[s])
                       ? &IlpStageWork::computationPerStrand
                       : &IlpStageWork::computationOnce;
      Parts parts = getParts(op, {{forms.getColumn(op, s), 1}});
      double seconds = signatures[s].seconds * scale;
      if (const Expr &ahead = aheadOf[op][s]; !ahead.empty()) {
        bool isOverTime = problem.isOverTime(signatures[s]);
        stage.alone.ahead.add(
            key, ahead,
            seconds * static_cast<double>(isOverTime ? numStrands : 1));
        add(parts.alone, ahead, -1);
      }
      (stage.split.*place).add(key, parts.split, seconds);
      (stage.alone.*place).add(key, parts.alone, seconds);
    }
  }
}

void IlpWork::addSums() {
  ChangeTable table(problem);
  for (unsigned i = 0; i < forms.tensors.size(); ++i) {
    const IlpTensor &tensor = forms.tensors[i];
    IlpGroup::Key key{1, static_cast<int>(i)};
    for (size_t p = 0; p < tensor.produced.size(); ++p) {
      if (tensor.summed[p].empty() || tensor.stage < 0)
        continue;
      Layout produced = tensor.produced[p].layout, sum = produced;
      sum[problem.getTimeAxis()] = kFull;
      double seconds = table.getCost(i, produced, sum).local * scale;
      Stage &stage = stages[tensor.stage];
      Parts parts{tensor.summed[p], tensor.summed[p]};
      if (stage.isSplit >= 0) {
        parts.split = {{program.addContinuous(0, 1), 1}};
        add(parts.alone, parts.split, -1);
        Parts chosen = getParts(tensor.producer, tensor.produced[p].chosen);
        program.addLess(parts.split, chosen.split);
        program.addLess(parts.alone, chosen.alone);
      } else {
        (stage.canSplit ? parts.alone : parts.split).clear();
      }
      stage.split.sums.add(key, parts.split, seconds);
      stage.alone.sums.add(key, parts.alone, seconds);
    }
  }
}

//===----------------------------------------------------------------------===//
// Changes
//===----------------------------------------------------------------------===//

IlpWork::Parts IlpWork::divide(const IlpChange &change) {
  Stage &stage = stages[change.stage];
  if (stage.isSplit < 0)
    return stage.canSplit ? Parts{change.made, {}} : Parts{{}, change.made};
  Parts parts{{}, change.made};
  if (!change.cost.joins) {
    parts.split = {{program.addContinuous(0, 1), 1}};
    program.addLess(parts.split, change.made);
    add(parts.alone, parts.split, -1);
  }
  if (change.wanted >= 0) {
    Parts &all = partsOfUses[{static_cast<int>(change.copy.tensor), change.use,
                              change.wanted}];
    add(all.split, parts.split);
    add(all.alone, parts.alone);
    return parts;
  }
  program.addLess(parts.split, {{stage.isSplit, 1}});
  Expr row = parts.alone;
  add(row, {{stage.isSplit, 1}});
  program.addRow(row, -kInfinity, 1);
  return parts;
}

/// A use has its copies made in k strands if its operator is.
void IlpWork::addPartRows() {
  for (const auto &[key, parts] : partsOfUses) {
    const IlpUse &use = forms.tensors[key[0]].uses[key[1]];
    Parts chosen = getParts(use.op, use.wanted[key[2]].chosen);
    if (!parts.split.empty())
      program.addLess(parts.split, chosen.split);
    program.addLess(parts.alone, chosen.alone);
  }
}

void IlpWork::addChange(const IlpChange &change) {
  bool isFree = change.cost.getTotal(numStrands) == 0 && !change.cost.joins;
  if (isFree)
    return;
  Stage &stage = stages[change.stage];
  Parts parts = divide(change);
  // One of a use's ways is taken; of shared copies each may be made.
  IlpGroup::Key key{2 + change.use, static_cast<int>(change.copy.tensor)};
  if (change.wanted < 0)
    key = {-1, static_cast<int>(&change - forms.changes.data())};
  auto take = [&](IlpSum &split, IlpSum &alone, double seconds) {
    split.add(key, parts.split, seconds * scale);
    alone.add(key, parts.alone, seconds * scale);
  };
  for (unsigned q = 0; q < kMaxAxes; ++q) {
    take(stage.split.collectivePerStrand[q], stage.alone.collectivePerStrand[q],
         change.cost.collectivePerStrand[q]);
    take(stage.split.collectiveOnce[q], stage.alone.collectiveOnce[q],
         change.cost.collectiveOnce[q]);
  }
  take(stage.split.computationOnce, stage.alone.computationOnce,
       change.cost.local);
}

void IlpWork::addChanges() {
  for (const IlpChange &change : forms.changes)
    if (change.waits)
      add(stages[forms.tensors[change.copy.tensor].stage].waiting, change.made,
          change.cost.getTotal(numStrands) * scale);
    else
      addChange(change);
}
