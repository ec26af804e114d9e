//===- PlanRecord.cpp - what a search decided beside forms ----------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlanRecord.h"
#include "ReadOrder.h"
#include "tandem/Cost/InTurn.h"
#include "tandem/Cost/Pieces.h"
#include "tandem/Transforms/Plan/Plan.h"
#include "llvm/Support/FormatVariadic.h"
#include <charconv>
#include <cmath>

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;
using namespace tandem::plan;

std::string tandem::plan::printForms(const cost::Layout &layout,
                                     unsigned numAxes) {
  std::string text;
  for (unsigned axis = 0; axis < numAxes; ++axis)
    text += (axis ? ", " : "") + cost::getFormName(layout[axis]);
  return text;
}

/// The shortest text that reads back to the same number.
static std::string printNumber(double value) {
  char text[32];
  auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return std::string(text, end);
}

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

static int64_t getId(const OpNode &op) {
  auto id = op.op->getAttrOfType<IntegerAttr>(nn::NNDialect::kIdAttrName);
  return id ? id.getInt() : -1;
}

/// Operators of a problem by the number of what they stand for: an operator of
/// the step stands for its group.
static std::string describePlace(const StepGraph &graph,
                                 const Extraction &extraction, unsigned op) {
  const Extraction::Origin &origin = extraction.origins[op];
  switch (origin.kind) {
  case Extraction::Origin::Kind::Argument:
    return "argument " + std::to_string(origin.index);
  case Extraction::Origin::Kind::Result:
    return "result " + std::to_string(origin.index);
  case Extraction::Origin::Kind::Group:
    break;
  }
  const OperatorGroup &group = extraction.groups.groups[origin.index];
  return "operator " + std::to_string(getId(graph.ops[group.members.front()]));
}

static std::string describeValue(const StepGraph &graph, unsigned value) {
  const ValueNode &node = graph.values[value];
  if (node.producer < 0)
    return "argument " + std::to_string(node.index);
  return "operator " + std::to_string(getId(graph.ops[node.producer]));
}

static unsigned getResultNumber(const StepGraph &graph, unsigned value) {
  const ValueNode &node = graph.values[value];
  return node.producer < 0 ? 0 : node.index;
}

//===----------------------------------------------------------------------===//
// From a plan
//===----------------------------------------------------------------------===//

namespace {
class RecordMaker {
public:
  RecordMaker(const StepGraph &graph, const Extraction &extraction,
              const cost::Plan &plan)
      : graph(graph), extraction(extraction), problem(extraction.problem),
        plan(plan), table(problem), producers(problem.getProducers()) {}
  PlanRecord run();

private:
  cost::Layout getMade(unsigned tensor) const;
  std::string printSequence(const cost::CopyChange &change);
  void addStages();
  void addCopy(const cost::CopyChange &change);
  void addWaits();

  const StepGraph &graph;
  const Extraction &extraction;
  const cost::SearchProblem &problem;
  const cost::Plan &plan;
  cost::ChangeTable table;
  std::vector<unsigned> producers;
  PlanRecord record;
};
} // namespace

/// In which the producer leaves the tensor.
cost::Layout RecordMaker::getMade(unsigned tensor) const {
  unsigned producer = producers[tensor];
  const auto &results = problem.operators[producer].results;
  return problem.getSignatures(producer)[plan.signatures[producer]]
      .results[llvm::find(results, tensor) - results.begin()];
}

/// All layouts on the way: `full, gather(0) -> full, full -> gather(1), full`.
std::string RecordMaker::printSequence(const cost::CopyChange &change) {
  unsigned numAxes = graph.mesh.getNumAxes();
  cost::Layout layout = change.from;
  std::string text = printForms(layout, numAxes);
  for (const cost::AxisChange &next :
       table.getSequence(change.copy.tensor, change.from, change.copy.layout)) {
    layout[next.axis] = next.to;
    text += " -> " + printForms(layout, numAxes);
  }
  return text;
}

void RecordMaker::addStages() {
  for (unsigned end : ArrayRef<unsigned>(plan.stageEnds).drop_back())
    record.stages.push_back({describePlace(graph, extraction, end), ""});
  // The first stage has no line, and nothing before it.
  for (unsigned stage : cost::findInTurn(problem, plan, table))
    record.stages[stage - 1].text = kInTurn.str();
}

void RecordMaker::addCopy(const cost::CopyChange &change) {
  const cost::Copy &copy = change.copy;
  cost::Layout made = getMade(copy.tensor);
  int time = problem.getTimeAxis();
  // The sum over time of a gradient is no copy of its own.
  if (copy.pass == cost::Pass::Update && time >= 0 &&
      made[time] == cost::kReduce && copy.layout[time] == cost::kFull)
    made[time] = cost::kFull;
  bool isKept = std::binary_search(plan.kept.begin(), plan.kept.end(), copy);
  bool isDirect =
      table.getSequence(copy.tensor, change.from, copy.layout).size() < 2;
  if (change.from == made && isDirect && !isKept)
    return;
  unsigned value = extraction.values[copy.tensor];
  record.copies.push_back({describeValue(graph, value),
                           std::to_string(getResultNumber(graph, value)) + " " +
                               kPassNames[unsigned(copy.pass)].str() +
                               (isKept ? " kept " : " ") +
                               printSequence(change)});
}

/// Where each waiting collective is sent, in pieces: `in 3/1 0.25, 4/0 1`; of
/// several, one after the other, `in 3/1 1 then 4/0 1`.
void RecordMaker::addWaits() {
  std::string error;
  auto report = cost::cost(problem, plan, table, error);
  std::vector<std::string> texts(plan.waiting.size());
  std::vector<unsigned> last(plan.waiting.size(), 0);
  if (report)
    for (const auto &piece : cost::cutWaiting(problem, plan, table, *report)) {
      std::string &text = texts[piece.waiting];
      const cost::Step &step = report->steps[piece.step];
      text += text.empty()                             ? " in "
              : last[piece.waiting] < piece.collective ? " then "
                                                       : ", ";
      last[piece.waiting] = piece.collective;
      text += std::to_string(step.stage) + "/" + std::to_string(step.strand) +
              " " + printNumber(piece.end);
    }
  for (auto [copy, text] : llvm::zip(plan.waiting, texts)) {
    unsigned value = extraction.values[copy.tensor];
    record.waits.push_back(
        {describeValue(graph, value),
         std::to_string(getResultNumber(graph, value)) + " " +
             printForms(copy.layout, graph.mesh.getNumAxes()) + text});
  }
}

PlanRecord RecordMaker::run() {
  record.cost = plan.cost;
  record.bound = plan.isOptimal ? plan.cost : plan.lowerBound;
  if (record.bound > 0)
    record.proof = cost::getProofHash(problem, record.bound);
  record.peak = plan.peak;
  addStages();
  for (const cost::CopyChange &change : plan.changes)
    addCopy(change);
  addWaits();
  return std::move(record);
}

PlanRecord tandem::plan::makeRecord(const StepGraph &graph,
                                    const Extraction &extraction,
                                    const cost::Plan &plan) {
  return RecordMaker(graph, extraction, plan).run();
}
//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

void tandem::plan::print(const PlanRecord &record, llvm::raw_ostream &os) {
  if (!record.search.empty())
    os << "search " << record.search << "\n";
  if (!record.pins.empty())
    os << "pins " << record.pins << "\n";
  if (record.cluster.empty())
    return;
  os << "cluster " << record.cluster << "\ncost " << printNumber(record.cost)
     << " s\n";
  if (record.bound > 0)
    os << "bound " << printNumber(record.bound) << " s proof " << record.proof
       << "\n";
  os << "peak " << record.peak << " B\n";
  for (const auto &entry : record.stages)
    os << "stage " << entry.place << (entry.text.empty() ? "" : ": ")
       << entry.text << "\n";
  for (const auto &entry : record.copies)
    os << "copy " << entry.place << ": " << entry.text << "\n";
  for (const auto &entry : record.waits)
    os << "wait " << entry.place << ": " << entry.text << "\n";
}

/// `0.12 s` and the hash behind it, if there is one.
static std::pair<StringRef, std::string> splitProof(StringRef text) {
  auto [bound, proof] = text.split(" proof ");
  return {bound.trim(), proof.trim().str()};
}

std::optional<bool> tandem::plan::parseLine(StringRef line, unsigned number,
                                            PlanRecord &record) {
  auto [word, rest] = line.split(' ');
  rest = rest.trim();
  auto addEntry = [&](std::vector<PlanRecord::Entry> &entries) {
    auto [place, text] = rest.split(": ");
    entries.push_back({place.trim().str(), text.trim().str(), number});
    return !place.trim().empty();
  };
  if (word == "search" || word == "cluster") {
    (word == "search" ? record.search : record.cluster) = rest.str();
    return !rest.empty();
  }
  if (word == "pins") {
    record.pins = rest.str();
    return !rest.empty();
  }
  if (word == "bound")
    std::tie(rest, record.proof) = splitProof(rest);
  if (word == "cost" || word == "bound") {
    double &seconds = word == "cost" ? record.cost : record.bound;
    return rest.consume_back(" s") && !rest.getAsDouble(seconds) &&
           std::isfinite(seconds) && seconds >= 0;
  }
  if (word == "peak")
    return rest.consume_back(" B") && !rest.getAsInteger(10, record.peak);
  if (word == "stage")
    return addEntry(record.stages);
  if (word == "copy")
    return addEntry(record.copies);
  if (word == "wait")
    return addEntry(record.waits);
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// To the step
//===----------------------------------------------------------------------===//

/// Begins of stages as ends of those before them.
static LogicalResult setStages(const StepGraph &graph,
                               const Extraction &extraction,
                               const PlanRecord &record,
                               const RecordedOrder &order, StringRef file,
                               cost::Plan &plan) {
  llvm::DenseMap<unsigned, unsigned> opOf;
  for (auto [op, origin] : llvm::enumerate(extraction.origins))
    opOf[order.getIndex(origin)] = op;
  plan.stageEnds = {static_cast<unsigned>(extraction.origins.size())};
  for (auto [entry, index] : llvm::zip(record.stages, order.stages)) {
    auto it = opOf.find(index);
    if (it == opOf.end())
      return emitLineError(graph, file, entry)
             << "no stage can begin with '" << entry.place << "'";
    plan.stageEnds.push_back(it->second);
  }
  llvm::sort(plan.stageEnds);
  return success();
}

/// Adds those of `texts` that say something else than prices do.
static LogicalResult addCopies(const StepGraph &graph,
                               const Extraction &extraction,
                               ArrayRef<PlanRecord::Entry> entries,
                               ArrayRef<CopyText> texts, StringRef file,
                               std::vector<cost::Copy> &copies) {
  for (auto [entry, text] : llvm::zip(entries, texts)) {
    int tensor = extraction.tensors[text.value];
    if (tensor < 0)
      return emitLineError(graph, file, entry)
             << "'" << entry.place << "' is nothing that is copied";
    if (text.isKept || text.waits)
      copies.push_back(
          {static_cast<unsigned>(tensor), text.path.back(), text.pass});
  }
  llvm::sort(copies);
  return success();
}

FailureOr<cost::Plan> tandem::plan::readDecisions(const StepGraph &graph,
                                                  const Extraction &extraction,
                                                  const PlanRecord &record,
                                                  StringRef file) {
  auto order = readOrder(graph, extraction.groups, record, file);
  if (failed(order))
    return failure();
  std::string error;
  auto plan = convertPlan(graph, extraction, error);
  if (!plan)
    plan = convertSignatures(graph, extraction);
  if (record.isUnstaged())
    return *plan;
  plan->waiting.clear();
  if (failed(setStages(graph, extraction, record, *order, file, *plan)) ||
      failed(addCopies(graph, extraction, record.copies, order->copies, file,
                       plan->kept)) ||
      failed(addCopies(graph, extraction, record.waits, order->waits, file,
                       plan->waiting)))
    return failure();
  return *plan;
}
