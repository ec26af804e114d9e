//===- MakeDecisions.cpp - conversion of decisions and plans --------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ApplyPlan.h"
#include "PlanFile.h"
#include "StartPlans.h"
#include "tandem/Cost/InTurn.h"
#include "tandem/Cost/Pieces.h"
#include "tandem/Search/Natural.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;
using namespace tandem::plan;

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

unsigned StageNumbers::getNumber(Part part) const {
  if (part.kind == Part::Kind::Argument)
    return part.index;
  if (part.kind == Part::Kind::Group)
    return numArguments + part.index;
  return numArguments + numGroups + part.index;
}

StageNumbers::StageNumbers(const StepGraph &graph, ArrayRef<StageBegin> begins)
    : numArguments(graph.arguments.size()),
      numGroups(graph.getGroups().groups.size()),
      stages(numArguments + numGroups + graph.results.size()) {
  for (const StageBegin &begin : begins)
    stages[getNumber(begin.part)] = 1;
  for (size_t number = 1; number < stages.size(); ++number)
    stages[number] += stages[number - 1];
  const auto &groups = graph.getGroups().groups;
  unsigned update = llvm::find_if(groups,
                                  [](const OperatorGroup &group) {
                                    return group.pass == PassKind::Update;
                                  }) -
                    groups.begin();
  if (numArguments + update < stages.size())
    firstUpdate = stages[numArguments + update];
}

//===----------------------------------------------------------------------===//
// From a plan
//===----------------------------------------------------------------------===//

namespace {
class DecisionMaker {
public:
  DecisionMaker(const Extraction &extraction, const cost::Plan &plan)
      : extraction(extraction), problem(extraction.problem), plan(plan),
        table(problem), producers(problem.getProducers()) {}
  Decisions run();
  std::vector<PlannedCopy> listKept();

private:
  Forms getForms(const cost::Layout &layout) const {
    return toForms(layout, problem.axes.size());
  }
  cost::Layout getMade(unsigned tensor) const;
  void addStages();
  PlannedCopy makeCopy(const cost::Copy &copy, cost::Layout from);
  void addCopy(const cost::CopyChange &change);
  void addWaits();
  std::vector<Pieces> getPieces();

  const Extraction &extraction;
  const cost::SearchProblem &problem;
  const cost::Plan &plan;
  cost::ChangeTable table;
  std::vector<unsigned> producers;
  Decisions decisions;
};
} // namespace

/// In which the producer leaves the tensor.
cost::Layout DecisionMaker::getMade(unsigned tensor) const {
  unsigned producer = producers[tensor];
  const auto &results = problem.operators[producer].results;
  return problem.getSignatures(producer)[plan.signatures[producer]]
      .results[llvm::find(results, tensor) - results.begin()];
}

void DecisionMaker::addStages() {
  for (unsigned end : ArrayRef<unsigned>(plan.stageEnds).drop_back())
    decisions.stages.push_back(
        {extraction.origins[end], false, plan.isAhead(end)});
  // The first stage begins with nothing, and has nothing before it.
  for (unsigned stage : cost::findInTurn(problem, plan, table))
    decisions.stages[stage - 1].isInTurn = true;
}

/// On the cheapest way.
PlannedCopy DecisionMaker::makeCopy(const cost::Copy &copy, cost::Layout from) {
  bool isKept = std::binary_search(plan.kept.begin(), plan.kept.end(), copy);
  PlannedCopy planned{
      extraction.values[copy.tensor], PassKind(copy.pass), isKept, {}};
  planned.path.push_back(getForms(from));
  for (auto next : table.getSequence(copy.tensor, from, copy.layout)) {
    from[next.axis] = next.to;
    planned.path.push_back(getForms(from));
  }
  return planned;
}

void DecisionMaker::addCopy(const cost::CopyChange &change) {
  const cost::Copy &copy = change.copy;
  cost::Layout made = getMade(copy.tensor);
  int time = problem.getTimeAxis();
  // The sum over time of a gradient is no copy of its own.
  if (copy.pass == cost::Pass::Update && time >= 0 &&
      made[time] == cost::kReduce && copy.layout[time] == cost::kFull)
    made[time] = cost::kFull;
  PlannedCopy planned = makeCopy(copy, change.from);
  if (change.from != made || planned.path.size() > 2 || planned.isKept)
    decisions.copies.push_back(std::move(planned));
}

/// Where each waiting copy's collectives are sent.
std::vector<Pieces> DecisionMaker::getPieces() {
  std::string error;
  std::vector<Pieces> pieces(plan.waiting.size());
  std::vector<unsigned> last(plan.waiting.size(), 0);
  auto report = cost::cost(problem, plan, table, error);
  if (!report)
    return pieces;
  for (const auto &piece : cost::cutWaiting(problem, plan, table, *report)) {
    Pieces &ofCopy = pieces[piece.waiting];
    const cost::Step &step = report->steps[piece.step];
    if (ofCopy.empty() || last[piece.waiting] < piece.collective)
      ofCopy.emplace_back();
    last[piece.waiting] = piece.collective;
    ofCopy.back().push_back({static_cast<unsigned>(step.stage),
                             static_cast<unsigned>(step.strand), piece.end});
  }
  return pieces;
}

void DecisionMaker::addWaits() {
  for (auto [copy, pieces] : llvm::zip(plan.waiting, getPieces()))
    decisions.waits.push_back({{getForms(copy.layout), std::move(pieces)},
                               extraction.values[copy.tensor]});
}

Decisions DecisionMaker::run() {
  decisions.cost = plan.cost;
  decisions.bound = plan.isOptimal ? plan.cost : plan.lowerBound;
  if (decisions.bound > 0)
    decisions.proof = cost::getProofHash(problem, decisions.bound);
  decisions.peak = plan.peak;
  addStages();
  for (const cost::CopyChange &change : plan.changes)
    addCopy(change);
  addWaits();
  return std::move(decisions);
}

std::vector<PlannedCopy> DecisionMaker::listKept() {
  std::vector<PlannedCopy> kept;
  for (const cost::Copy &copy : plan.kept)
    kept.push_back(makeCopy(copy, getMade(copy.tensor)));
  return kept;
}

std::vector<PlannedCopy> tandem::plan::listKept(const Extraction &extraction,
                                                const cost::Plan &plan) {
  return DecisionMaker(extraction, plan).listKept();
}

Decisions tandem::plan::makeDecisions(const Extraction &extraction,
                                      const cost::Plan &plan) {
  return DecisionMaker(extraction, plan).run();
}

//===----------------------------------------------------------------------===//
// To a plan
//===----------------------------------------------------------------------===//

/// Begins of stages as ends of those before them.
static LogicalResult setStages(const StepGraph &graph,
                               const Extraction &extraction,
                               ArrayRef<StageBegin> stages, StringRef file,
                               cost::Plan &plan) {
  for (const StageBegin &stage : stages) {
    auto it = llvm::find(extraction.origins, stage.part);
    if (it == extraction.origins.end())
      return emitLineError(graph, file, stage.line)
             << "no stage can begin with '" << describe(graph, stage.part)
             << "'";
    unsigned begin = it - extraction.origins.begin();
    plan.stageEnds.push_back(begin);
    if (stage.isAhead)
      plan.ahead.push_back(begin);
  }
  llvm::sort(plan.stageEnds);
  llvm::sort(plan.ahead);
  return success();
}

/// Of copies, those that say something else than prices do: that are kept.
FailureOr<cost::Plan> tandem::plan::makePlan(const StepGraph &graph,
                                             const Extraction &extraction,
                                             const Decisions &decisions,
                                             StringRef file) {
  cost::Plan plan = convertPlan(graph, extraction);
  auto add = [&](unsigned value, const Forms &forms, PassKind pass,
                 unsigned line, std::vector<cost::Copy> &copies) {
    int tensor = extraction.tensors[value];
    if (tensor < 0)
      return LogicalResult(emitLineError(graph, file, line)
                           << "'" << describeMaker(graph, value)
                           << "' is nothing that is copied");
    copies.push_back({unsigned(tensor), toLayout(forms), cost::Pass(pass)});
    return success();
  };
  std::vector<cost::Copy> others;
  for (const PlannedCopy &copy : decisions.copies)
    if (failed(add(copy.value, copy.path.back(), copy.pass, copy.line,
                   copy.isKept ? plan.kept : others)))
      return failure();
  llvm::sort(plan.kept);
  if (decisions.isUnstaged()) {
    std::string error;
    // The schedule of a preset has stages of its own, and shares sums by
    // itself.
    bool isFollowed = !decisions.search.empty();
    if (isFollowed)
      keepSharedSums(extraction.problem, plan);
    auto staged = search::completePlan(extraction.problem, plan, error);
    if (staged && isFollowed)
      search::runAhead(extraction.problem, *staged);
    else if (staged)
      staged->gathersAhead = true;
    return staged.value_or(plan);
  }
  if (failed(setStages(graph, extraction, decisions.stages, file, plan)))
    return failure();
  for (const PlannedWait &wait : decisions.waits)
    if (failed(add(wait.value, wait.forms, PassKind::Update, wait.line,
                   plan.waiting)))
      return failure();
  llvm::sort(plan.waiting);
  return plan;
}
