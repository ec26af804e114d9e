//===- CheckCopies.cpp - whether a record's copies are made ---------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CheckCopies.h"
#include <set>

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;
using namespace tandem::plan;

//===----------------------------------------------------------------------===//
// Uses
//===----------------------------------------------------------------------===//

cost::Layout CopyUses::getWanted(const Use &use) const {
  cost::Layout wanted;
  for (unsigned axis = 0; axis < graph.mesh.getNumAxes(); ++axis) {
    AxisForm form =
        use.op == graph.ops.size()
            ? graph.getResultForm(use.operand, axis)
            : graph.ops[use.op].signatures[axis].operands[use.operand];
    wanted[axis] = form.getCode();
  }
  return wanted;
}

std::optional<unsigned>
CopyUses::findStage(unsigned value, cost::Pass pass,
                    std::optional<cost::Layout> forms) const {
  std::optional<unsigned> first;
  unsigned numBefore = order.numArguments + order.numGroups;
  for (const Use &use : graph.values[value].uses) {
    bool isReturned = use.op == graph.ops.size();
    int group = isReturned ? -1 : groups.groupOf[use.op];
    cost::Pass ofUse =
        group < 0 ? cost::Pass::Update : cost::Pass(groups.groups[group].pass);
    if ((!isReturned && group < 0) || ofUse != pass ||
        (forms && getWanted(use) != *forms))
      continue;
    unsigned stage = order.stageOf[isReturned ? numBefore + use.operand
                                              : order.numArguments + group];
    first = std::min(first.value_or(stage), stage);
  }
  return first;
}

cost::Layout CopyUses::getMade(unsigned value, cost::Pass pass,
                               const cost::Layout &forms) const {
  cost::Layout made;
  for (unsigned axis = 0; axis < graph.mesh.getNumAxes(); ++axis) {
    AxisForm form = graph.getForm(value, axis);
    bool isSummed = pass == cost::Pass::Update && graph.mesh.isTime(axis) &&
                    form.isReduce() && forms[axis] == cost::kFull;
    made[axis] = isSummed ? cost::kFull : form.getCode();
  }
  return made;
}

SmallVector<cost::Layout, 2>
CopyUses::getPath(unsigned value, cost::Pass pass,
                  const cost::Layout &forms) const {
  for (const CopyText &copy : order.copies)
    if (copy.value == value && copy.pass == pass && copy.path.back() == forms)
      return copy.path;
  return {getMade(value, pass, forms), forms};
}

//===----------------------------------------------------------------------===//
// Lines
//===----------------------------------------------------------------------===//

namespace {
class CopyChecker {
public:
  CopyChecker(const StepGraph &graph, const OperatorGroups &groups,
              const PlanRecord &record, const RecordedOrder &order,
              StringRef file)
      : graph(graph), groups(groups), record(record), order(order), file(file),
        uses(graph, groups, order) {}
  LogicalResult run();

private:
  using Entry = PlanRecord::Entry;

  InFlightDiagnostic emitError(const Entry &entry) const {
    return emitLineError(graph, file, entry) << "'" << entry.place << "' ";
  }
  std::string print(const cost::Layout &layout) const {
    return "'" + printForms(layout, graph.mesh.getNumAxes()) + "'";
  }
  Forms getForms(const cost::Layout &layout) const;
  std::optional<cost::Pass> findPassBefore(const CopyText &copy) const;
  bool isKept(const CopyText &copy, const cost::Layout &forms,
              unsigned before) const;
  bool isThere(const CopyText &copy, unsigned stage) const;
  LogicalResult checkPlan(const Entry &entry, const CopyText &copy) const;
  LogicalResult checkPath(const Entry &entry, const CopyText &copy) const;
  LogicalResult checkUse(const Entry &entry, const CopyText &copy) const;
  LogicalResult checkKept(const Entry &entry, const CopyText &copy) const;

  const StepGraph &graph;
  const OperatorGroups &groups;
  const PlanRecord &record;
  const RecordedOrder &order;
  StringRef file;
  CopyUses uses;
  /// Copies of values, all and those that are kept.
  std::set<cost::Copy> seen, kept;
};
} // namespace

static cost::Copy getKey(const CopyText &copy) {
  return {copy.value, copy.path.back(), copy.pass};
}

Forms CopyChecker::getForms(const cost::Layout &layout) const {
  Forms forms;
  for (unsigned axis = 0; axis < graph.mesh.getNumAxes(); ++axis)
    forms.push_back(AxisForm::fromCode(layout[axis]));
  return forms;
}

/// The pass before the copy's that uses the value.
std::optional<cost::Pass>
CopyChecker::findPassBefore(const CopyText &copy) const {
  for (unsigned pass = unsigned(copy.pass); pass-- > 0;)
    if (uses.findStage(copy.value, cost::Pass(pass)))
      return cost::Pass(pass);
  return std::nullopt;
}

/// Whether an earlier pass keeps the value in `forms`, made before a stage.
bool CopyChecker::isKept(const CopyText &copy, const cost::Layout &forms,
                         unsigned before) const {
  std::optional<cost::Pass> pass = findPassBefore(copy);
  if (!pass || !kept.count({copy.value, forms, *pass}))
    return false;
  auto stage = uses.findStage(copy.value, *pass, forms);
  return stage && *stage < before;
}

/// Whether something is there, before the stage, in the forms in which the
/// copy's path begins.
bool CopyChecker::isThere(const CopyText &copy, unsigned stage) const {
  const cost::Layout &source = copy.path.front();
  int producer = graph.values[copy.value].producer;
  bool isBefore =
      producer < 0 ||
      order.stageOf[order.numArguments + groups.groupOf[producer]] < stage;
  if (source == uses.getMade(copy.value, copy.pass, copy.path.back()))
    return isBefore;
  std::optional<unsigned> made = uses.findStage(copy.value, copy.pass, source);
  return (made && *made < stage) || isKept(copy, source, stage);
}

LogicalResult CopyChecker::checkPlan(const Entry &entry,
                                     const CopyText &copy) const {
  if (record.search.empty())
    return emitError(entry) << "is copied in a preset's plan, which makes its "
                               "own copies, expected a line 'search'";
  if (record.stages.empty())
    return emitOneStage(graph, file, entry, "is copied");
  if (groups.isSource[copy.value])
    return emitError(entry) << "is made in all forms that are wanted, nothing "
                               "copies it";
  return success();
}

LogicalResult CopyChecker::checkPath(const Entry &entry,
                                     const CopyText &copy) const {
  auto type = cast<RankedTensorType>(graph.values[copy.value].value.getType());
  std::string reason;
  for (const cost::Layout &layout : copy.path)
    if (!canHaveForms(type, graph.mesh, getForms(layout), &reason))
      return emitError(entry)
             << "cannot be " << print(layout) << ": " << reason;
  for (auto [from, to] :
       llvm::zip(copy.path, ArrayRef(copy.path).drop_front())) {
    auto axis =
        getReformedAxis(graph.mesh, getForms(from), getForms(to), &reason);
    if (axis && to[*axis] == cost::kReduce)
      reason = "makes 'reduce' of 'full', which no collective does";
    else if (axis)
      continue;
    return emitError(entry)
           << "from " << print(from) << " to " << print(to) << " " << reason;
  }
  return success();
}

LogicalResult CopyChecker::checkUse(const Entry &entry,
                                    const CopyText &copy) const {
  const cost::Layout &forms = copy.path.back();
  cost::Layout made = uses.getMade(copy.value, copy.pass, forms);
  auto stage = uses.findStage(copy.value, copy.pass, forms);
  if (!stage)
    return emitError(entry)
           << "is taken as " << print(forms) << " by nothing in the "
           << kPassNames[unsigned(copy.pass)]
           << " pass, expected forms that one of its operators reads";
  if (forms == made)
    return emitError(entry) << "is made as " << print(forms)
                            << " itself, expected a copy in other forms";
  if (isKept(copy, forms, *stage + 1))
    return emitError(entry)
           << "is already kept as " << print(forms)
           << " by the pass before, expected it to be made once";
  if (!isThere(copy, *stage))
    return emitError(entry)
           << "is not there as " << print(copy.path.front()) << " before stage "
           << *stage << ", which takes the copy, expected " << print(made)
           << ", as it is made in an earlier "
           << "stage, or the forms of another copy";
  return success();
}

LogicalResult CopyChecker::checkKept(const Entry &entry,
                                     const CopyText &copy) const {
  if (!copy.isKept)
    return success();
  for (unsigned pass = unsigned(copy.pass) + 1;
       pass <= unsigned(cost::Pass::Update); ++pass)
    if (uses.findStage(copy.value, cost::Pass(pass)))
      return success();
  return emitError(entry) << "is kept, expected a later pass that uses it; "
                             "leave out 'kept'";
}

LogicalResult CopyChecker::run() {
  for (const CopyText &copy : order.copies)
    if (copy.isKept)
      kept.insert(getKey(copy));
  for (auto [entry, copy] : llvm::zip(record.copies, order.copies)) {
    if (failed(checkPlan(entry, copy)) || failed(checkPath(entry, copy)))
      return failure();
    if (!seen.insert(getKey(copy)).second)
      return emitError(entry) << "is copied to " << print(copy.path.back())
                              << " in the " << kPassNames[unsigned(copy.pass)]
                              << " pass twice, expected one line";
    if (failed(checkUse(entry, copy)) || failed(checkKept(entry, copy)))
      return failure();
  }
  return success();
}

LogicalResult tandem::plan::checkCopies(const StepGraph &graph,
                                        const OperatorGroups &groups,
                                        const PlanRecord &record,
                                        const RecordedOrder &order,
                                        StringRef file) {
  return CopyChecker(graph, groups, record, order, file).run();
}
