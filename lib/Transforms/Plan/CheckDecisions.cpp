//===- CheckDecisions.cpp - checks of decisions ---------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CheckDecisions.h"
#include "CopyUses.h"
#include "ExtractProblem.h"
#include <set>

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;
using namespace tandem::plan;

static constexpr llvm::StringLiteral kSlotAdvice =
    "; leave out 'in ...' to have the slots chosen";

namespace {
class DecisionChecker {
public:
  DecisionChecker(const StepGraph &graph, const Decisions &decisions,
                  StringRef file)
      : graph(graph), decisions(decisions), file(file), uses(graph, decisions) {
  }
  LogicalResult run();

private:
  template <typename T> InFlightDiagnostic emitError(const T &of) const {
    return emitLineError(graph, file, of.line)
           << "'" << describeMaker(graph, of.value) << "' ";
  }
  template <typename T>
  LogicalResult emitOneStage(const T &of, StringRef what) const;
  std::string print(const Forms &forms) const {
    return "'" + printForms(forms) + "'";
  }
  std::optional<PassKind> findPassBefore(const PlannedCopy &copy) const;
  bool isKept(const PlannedCopy &copy, const Forms &forms,
              unsigned before) const;
  bool isThere(const PlannedCopy &copy, unsigned stage) const;
  LogicalResult checkStages() const;
  LogicalResult checkAhead() const;
  LogicalResult checkPlan(const PlannedCopy &copy) const;
  LogicalResult checkPath(const PlannedCopy &copy) const;
  LogicalResult checkUse(const PlannedCopy &copy) const;
  LogicalResult checkKept(const PlannedCopy &copy) const;
  LogicalResult checkCopies();
  LogicalResult checkWait(const PlannedWait &wait) const;
  LogicalResult checkPieces(const PlannedWait &wait, unsigned madeIn) const;

  const StepGraph &graph;
  const Decisions &decisions;
  StringRef file;
  CopyUses uses;
  using Key = std::tuple<unsigned, Forms, PassKind>;
  static Key getKey(const PlannedCopy &copy) {
    return {copy.value, copy.path.back(), copy.pass};
  }
  /// Copies of values, all and those that are kept.
  std::set<Key> seen, kept;
};
} // namespace

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

LogicalResult DecisionChecker::checkStages() const {
  std::set<Part> begun;
  for (const StageBegin &stage : decisions.stages)
    if (!begun.insert(stage.part).second)
      return emitLineError(graph, file, stage.line)
             << "a stage begins with '" << describe(graph, stage.part)
             << "' twice, expected it once";
  return success();
}

/// What runs ahead is made again, behind the first stage.
LogicalResult DecisionChecker::checkAhead() const {
  if (llvm::none_of(decisions.stages,
                    [](const StageBegin &stage) { return stage.isAhead; }))
    return success();
  StageNumbers stages(graph, decisions.stages);
  std::set<unsigned> making;
  for (auto [index, group] : llvm::enumerate(graph.getGroups().groups))
    if (makesAgain(graph, group))
      making.insert(stages.getOfGroup(index));
  for (const StageBegin &stage : decisions.stages)
    if (stage.isAhead && !(stages.get(stage.part) > 0 &&
                           making.contains(stages.get(stage.part))))
      return emitLineError(graph, file, stage.line)
             << "the stage that begins with '" << describe(graph, stage.part)
             << "' runs ahead, expected one behind the first that makes "
                "values again";
  return success();
}

template <typename T>
LogicalResult DecisionChecker::emitOneStage(const T &of, StringRef what) const {
  return emitError(of) << what
                       << " in a plan of one stage, expected lines 'stage'; "
                          "leave out those of 'copy' and 'wait', too, to have "
                          "all chosen";
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

/// The pass before the copy's that uses the value.
std::optional<PassKind>
DecisionChecker::findPassBefore(const PlannedCopy &copy) const {
  for (unsigned pass = unsigned(copy.pass); pass-- > 0;)
    if (uses.findStage(copy.value, PassKind(pass)))
      return PassKind(pass);
  return std::nullopt;
}

/// Whether an earlier pass keeps the value in `forms`, made before a stage.
bool DecisionChecker::isKept(const PlannedCopy &copy, const Forms &forms,
                             unsigned before) const {
  std::optional<PassKind> pass = findPassBefore(copy);
  if (!pass || !kept.count({copy.value, forms, *pass}))
    return false;
  auto stage = uses.findStage(copy.value, *pass, &forms);
  return stage && *stage < before;
}

/// Whether something is there, before the stage, in the forms in which the
/// copy's path begins.
bool DecisionChecker::isThere(const PlannedCopy &copy, unsigned stage) const {
  const Forms &source = copy.path.front();
  if (source == uses.getMade(copy.value, copy.pass, copy.path.back())) {
    std::optional<unsigned> madeIn = uses.getMadeIn(copy.value);
    return !madeIn || *madeIn < stage;
  }
  std::optional<unsigned> made = uses.findStage(copy.value, copy.pass, &source);
  return (made && *made < stage) || isKept(copy, source, stage);
}

LogicalResult DecisionChecker::checkPlan(const PlannedCopy &copy) const {
  bool isPreset = decisions.search.empty();
  if (isPreset && !copy.isKept)
    return emitError(copy) << "is copied in a preset's plan, which makes its "
                              "own copies, expected 'kept', or a line 'search'";
  if (!isPreset && decisions.stages.empty())
    return emitOneStage(copy, "is copied");
  if (graph.getGroups().isSource[copy.value])
    return emitError(copy) << "is made in all forms that are wanted, nothing "
                              "copies it";
  return success();
}

LogicalResult DecisionChecker::checkPath(const PlannedCopy &copy) const {
  auto type = cast<RankedTensorType>(graph.values[copy.value].value.getType());
  std::string reason;
  for (const Forms &forms : copy.path)
    if (!canHaveForms(type, graph.mesh, forms, &reason))
      return emitError(copy) << "cannot be " << print(forms) << ": " << reason;
  for (auto [from, to] :
       llvm::zip(copy.path, ArrayRef(copy.path).drop_front())) {
    auto axis = getReformedAxis(graph.mesh, from, to, &reason);
    if (axis && to[*axis].isReduce())
      reason = "makes 'reduce' of 'full', which no collective does";
    else if (axis)
      continue;
    return emitError(copy) << "from " << print(from) << " to " << print(to)
                           << " " << reason;
  }
  return success();
}

LogicalResult DecisionChecker::checkUse(const PlannedCopy &copy) const {
  const Forms &forms = copy.path.back();
  Forms made = uses.getMade(copy.value, copy.pass, forms);
  auto stage = uses.findStage(copy.value, copy.pass, &forms);
  if (!stage)
    return emitError(copy) << "is taken as " << print(forms)
                           << " by nothing in the "
                           << stringifyPassKind(copy.pass)
                           << " pass, expected forms that one of its operators "
                              "reads";
  if (forms == made)
    return emitError(copy) << "is made as " << print(forms)
                           << " itself, expected a copy in other forms";
  if (isKept(copy, forms, *stage + 1))
    return emitError(copy)
           << "is already kept as " << print(forms)
           << " by the pass before, expected it to be made once";
  if (!decisions.stages.empty() && !isThere(copy, *stage))
    return emitError(copy) << "is not there as " << print(copy.path.front())
                           << " before stage " << *stage
                           << ", which takes the copy, expected " << print(made)
                           << ", as it is made in an earlier stage, or the "
                              "forms of another copy";
  return success();
}

LogicalResult DecisionChecker::checkKept(const PlannedCopy &copy) const {
  if (!copy.isKept)
    return success();
  for (unsigned pass = unsigned(copy.pass) + 1;
       pass <= unsigned(PassKind::Update); ++pass)
    if (uses.findStage(copy.value, PassKind(pass)))
      return success();
  return emitError(copy) << "is kept, expected a later pass that uses it; "
                            "leave out 'kept'";
}

LogicalResult DecisionChecker::checkCopies() {
  for (const PlannedCopy &copy : decisions.copies)
    if (copy.isKept)
      kept.insert(getKey(copy));
  for (const PlannedCopy &copy : decisions.copies) {
    if (failed(checkPlan(copy)) || failed(checkPath(copy)))
      return failure();
    if (!seen.insert(getKey(copy)).second)
      return emitError(copy) << "is copied to " << print(copy.path.back())
                             << " in the " << stringifyPassKind(copy.pass)
                             << " pass twice, expected one line";
    if (failed(checkUse(copy)) || failed(checkKept(copy)))
      return failure();
  }
  return success();
}

//===----------------------------------------------------------------------===//
// What waits
//===----------------------------------------------------------------------===//

/// A preset's plan has neither lines of copies nor, where a form changes inside
/// a group, the forms of `graph`; nothing follows what it says of slots.
LogicalResult DecisionChecker::checkWait(const PlannedWait &wait) const {
  if (decisions.stages.empty())
    return emitOneStage(wait, "waits");
  int producer = graph.values[wait.value].producer;
  std::optional<unsigned> madeIn = uses.getMadeIn(wait.value);
  if (!madeIn || graph.ops[producer].pass == PassKind::Update)
    return emitError(wait) << "does not wait, expected a gradient, which is "
                              "made before the updates";
  if (decisions.search.empty())
    return checkPieces(wait, *madeIn);
  if (!uses.findStage(wait.value, PassKind::Update, &wait.forms))
    return emitLineError(graph, file, wait.line)
           << "no update takes '" << describeMaker(graph, wait.value)
           << "' in these forms, expected those of one that reads it";
  unsigned count = uses.countCollectives(wait);
  if (wait.pieces.empty() || wait.pieces.size() == count)
    return checkPieces(wait, *madeIn);
  return emitLineError(graph, file, wait.line)
         << "found slots of " << wait.pieces.size()
         << ", divided by 'then', expected those of " << count
         << ", the collectives that lead to these forms" << kSlotAdvice;
}

LogicalResult DecisionChecker::checkPieces(const PlannedWait &wait,
                                           unsigned madeIn) const {
  unsigned last = uses.stages.getFirstUpdate();
  for (const auto &pieces : wait.pieces)
    for (const Piece &piece : pieces) {
      if (piece.stage <= madeIn || piece.stage > last)
        return emitError(wait) << "is sent in stage " << piece.stage
                               << ", expected one behind stage " << madeIn
                               << ", which makes it, up to stage " << last
                               << " of the first update" << kSlotAdvice;
      unsigned limit = piece.stage == last ? 1 : graph.mesh.getNumStrands();
      if (piece.strand >= limit)
        return emitError(wait)
               << "is sent in strand " << piece.strand << " of stage "
               << piece.stage << ", expected one below " << limit
               << kSlotAdvice;
    }
  return success();
}

LogicalResult DecisionChecker::run() {
  if (failed(checkStages()) || failed(checkAhead()) || failed(checkCopies()))
    return failure();
  std::set<std::pair<unsigned, Forms>> waiting;
  for (const PlannedWait &wait : decisions.waits) {
    if (!waiting.insert({wait.value, wait.forms}).second)
      return emitError(wait) << "waits twice, expected one line";
    if (failed(checkWait(wait)))
      return failure();
  }
  return success();
}

LogicalResult tandem::plan::checkDecisions(const StepGraph &graph,
                                           const Decisions &decisions,
                                           StringRef file) {
  return DecisionChecker(graph, decisions, file).run();
}

bool tandem::plan::lacksPieces(const StepGraph &graph,
                               const Decisions &decisions) {
  CopyUses uses(graph, decisions);
  return !decisions.search.empty() &&
         llvm::any_of(decisions.waits, [&](const PlannedWait &wait) {
           return wait.pieces.size() < uses.countCollectives(wait);
         });
}

//===----------------------------------------------------------------------===//
// What prices move
//===----------------------------------------------------------------------===//

void tandem::plan::reportMoved(const StepGraph &graph, const PlanFile &file,
                               const Decisions &costed) {
  unsigned count = 0, line = 0;
  std::string what;
  auto add = [&](const auto &of, const std::string &isMoved) {
    if (count++)
      return;
    line = of.line;
    what = "'" + describeMaker(graph, of.value) + "' " + isMoved;
  };
  CopyUses uses(graph, costed);
  for (const PlannedCopy &copy : file.decisions.copies) {
    auto path = uses.getPath(copy.value, copy.pass, copy.path.back());
    if (path != copy.path)
      add(copy, "is copied by " + printPath(path));
  }
  for (const PlannedWait &wait : file.decisions.waits) {
    auto it = llvm::find_if(costed.waits, [&](const PlannedWait &other) {
      return other.value == wait.value && other.forms == wait.forms;
    });
    if (it != costed.waits.end() && !wait.pieces.empty() &&
        wait.pieces != it->pieces)
      add(wait, "is sent in " + printPieces(it->pieces));
  }
  if (count == 0)
    return;
  auto remark = emitRemark(graph.getLoc());
  remark << "plan file '" << file.path << "', line " << line << ": " << what
         << ", as its cost counts it, and not as the line says";
  if (count > 1)
    remark << "; nor are " << count - 1 << " others";
}
