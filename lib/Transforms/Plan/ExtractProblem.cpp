//===- ExtractProblem.cpp - a search problem from a step ------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ExtractProblem.h"
#include "AxisRates.h"
#include "Residence.h"
#include "tandem/Analysis/Bytes.h"
#include "tandem/Analysis/UserLocation.h"
#include "tandem/Cost/Pieces.h"
#include "tandem/Dialect/SPMD/MeshText.h"
#include "tandem/Dialect/Sched/Sched.h"
#include "tandem/Search/Natural.h"
#include <map>

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;
using namespace tandem::plan;

Forms tandem::plan::toForms(const cost::Layout &layout, unsigned numAxes) {
  return Forms(llvm::map_range(
      ArrayRef(layout.forms).take_front(numAxes),
      [](cost::Form form) { return AxisForm::fromCode(form); }));
}

cost::Layout tandem::plan::toLayout(ArrayRef<AxisForm> forms) {
  cost::Layout layout;
  for (auto [axis, form] : llvm::enumerate(forms))
    layout[axis] = form.getCode();
  return layout;
}

namespace {
class Extractor {
public:
  Extractor(const StepGraph &graph, const cost::Cluster &cluster)
      : graph(graph), cluster(cluster), residence(graph),
        result(std::make_unique<Extraction>()), problem(result->problem) {}
  FailureOr<std::unique_ptr<Extraction>> run();

private:
  using Kind = cost::Operator::Kind;

  InFlightDiagnostic emitError() const {
    return mlir::emitError(graph.getLoc());
  }

  LogicalResult addAxes();
  void joinQueues();
  int64_t countChanges(unsigned value) const;
  int getViewed(unsigned value) const;
  void findLoops(const OperatorGroup &group);
  bool isReturnedAsMade(unsigned value) const;
  int getHeldFrom(unsigned value, const cost::SignatureSet &set,
                  unsigned result) const;
  unsigned addTensor(unsigned value, std::string name);
  unsigned addSet(cost::SignatureSet set);
  unsigned addStoredSet(const std::vector<cost::Layout> &layouts,
                        bool isReturned);
  cost::Operator &addOperator(Kind kind, Part origin);

  std::vector<cost::Layout> getStoredLayouts(unsigned argument) const;
  LogicalResult addArgument(unsigned argument);
  FailureOr<unsigned> getSet(unsigned group, SignatureMaker &maker);
  LogicalResult addGroup(unsigned group, SignatureMaker &maker);
  void addResult(unsigned index);
  bool isRead(unsigned argument) const;

  void addLocations(const OperatorGroup &group, cost::Operator &op);

  const StepGraph &graph;
  const cost::Cluster &cluster;
  Residence residence;
  std::unique_ptr<Extraction> result;
  cost::SearchProblem &problem;
  /// Operator of each argument, or -1; set of each set of the maker, or -1.
  SmallVector<int> argumentOps, madeSets;
  /// Of loops, the first operator.
  llvm::DenseMap<int64_t, unsigned> loopBegins;
  /// The first operator behind the arguments.
  unsigned firstGroup = 0;
  /// By layouts, and whether they are of a result.
  std::map<std::pair<std::vector<cost::Layout>, bool>, unsigned> storedSets;
};
} // namespace

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

/// Names in a problem's text hold no blanks.
static std::string makeToken(StringRef text) {
  std::string token = text.str();
  for (char &c : token)
    if (isspace(static_cast<unsigned char>(c)) || c == '#' || c == '\'')
      c = '_';
  return token;
}

static std::string getArgumentName(const StepGraph &graph, unsigned argument) {
  const ArgumentNode &node = graph.arguments[argument];
  bool isOwn = node.role == Role::Parameter || node.role == Role::State ||
               node.role == Role::Buffer;
  return makeToken((isOwn ? "" : "input:") + node.name.str());
}

/// The member that a group is named after: the one that does most.
static const OpNode &getMainMember(const StepGraph &graph,
                                   const OperatorGroup &group) {
  unsigned main = group.members.front();
  for (unsigned member : group.members)
    if (graph.ops[member].flops >= graph.ops[main].flops)
      main = member;
  return graph.ops[main];
}

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

LogicalResult Extractor::addAxes() {
  const MeshAttr &mesh = graph.mesh;
  if (mesh.getNumSpaceAxes() > cost::kMaxAxes - 1)
    return emitError() << "the mesh has " << mesh.getNumSpaceAxes()
                       << " axes, expected at most " << cost::kMaxAxes - 1;
  auto axes = priceAxes(graph, cluster);
  if (failed(axes))
    return failure();
  problem.axes = std::move(*axes);
  cost::setLimits(cluster, problem);
  joinQueues();
  return success();
}

/// A device has one queue for communication.
void Extractor::joinQueues() {
  const cost::Axis *first = nullptr, *other = nullptr;
  for (cost::Axis &axis : problem.axes) {
    if (axis.isTime || axis.size < 2)
      continue;
    if (!first)
      first = &axis;
    else if (axis.queue != first->queue)
      other = &axis;
  }
  if (other)
    mlir::emitRemark(graph.getLoc())
        << "cluster '" << cluster.name << "' gives axis '" << first->name
        << "' communication queue " << first->queue << " and axis '"
        << other->name << "' queue " << other->queue
        << ", but a step has one: planned as if all were on one";
  for (cost::Axis &axis : problem.axes)
    axis.queue = 0;
}

/// Changes of what a loop makes, or reads of arguments, are in the loop.
int64_t Extractor::countChanges(unsigned value) const {
  const ValueNode &node = graph.values[value];
  auto isInLoop = [&](unsigned op) {
    return op < graph.ops.size() && getLoop(graph.ops[op].op).has_value();
  };
  bool isIterated =
      node.producer >= 0
          ? isInLoop(node.producer) && !isCarried(graph.ops[node.producer].op)
          : llvm::any_of(node.uses, [&](Use use) { return isInLoop(use.op); });
  return isIterated ? getIterations(graph.step) : 1;
}

/// The tensor of which a value is a view, through values inside of its group;
/// -1 if there is none.
int Extractor::getViewed(unsigned value) const {
  int viewed = residence.viewOf[value];
  if (viewed < 0 || residence.isInKernel[viewed])
    return -1;
  int tensor = result->tensors[viewed];
  return tensor >= 0 ? tensor : getViewed(viewed);
}

/// The next operator is of the loops of `group`.
void Extractor::findLoops(const OperatorGroup &group) {
  for (unsigned member : group.members)
    if (std::optional<int64_t> loop = getLoop(graph.ops[member].op))
      loopBegins.try_emplace(*loop, problem.operators.size());
}

/// Whether the step returns it in memory of its own, as it is made: between
/// ranks a gradient may be made in a larger form.
bool Extractor::isReturnedAsMade(unsigned value) const {
  return graph.mesh.getNumRanks() == 1 &&
         llvm::any_of(graph.results, [&](const ResultNode &node) {
           return node.value == value && !node.isUpdate;
         });
}

/// The first operator of the step that returns the value, or of the loop that
/// carries it, if that is before the next one; -1 if there is none. Of what may
/// be terms over time each strand has its own.
int Extractor::getHeldFrom(unsigned value, const cost::SignatureSet &set,
                           unsigned result) const {
  int producer = graph.values[value].producer, time = problem.getTimeAxis();
  auto isTerms = [&](const cost::Signature &signature) {
    return signature.results[result][time] == cost::kReduce;
  };
  bool isOfLoop = producer >= 0 && isCarried(graph.ops[producer].op),
       isReturned = isReturnedAsMade(value);
  if ((!isOfLoop && !isReturned) || (time >= 0 && llvm::any_of(set, isTerms)))
    return residence.isHeldIfRead[value] ? cost::Tensor::kIfRead : -1;
  unsigned begin =
      isReturned ? firstGroup : loopBegins.at(*getLoop(graph.ops[producer].op));
  return begin < problem.operators.size() ? static_cast<int>(begin) : -1;
}

unsigned Extractor::addTensor(unsigned value, std::string name) {
  auto type = cast<RankedTensorType>(graph.values[value].value.getType());
  result->tensors[value] = problem.tensors.size();
  result->values.push_back(value);
  cost::Tensor &tensor = problem.tensors.emplace_back();
  tensor.name = std::move(name);
  tensor.shape.assign(type.getShape().begin(), type.getShape().end());
  // On the host it takes nothing of the device's memory; the group that reads
  // it has a copy as workspace.
  tensor.elementBytes =
      graph.values[value].isOnHost ? 0 : getElementBytes(type.getElementType());
  tensor.times = countChanges(value);
  tensor.viewOf = getViewed(value);
  tensor.isInKernel = residence.isInKernel[value];
  // A view of a copy, not of what lies on the host.
  if (tensor.viewOf >= 0 && problem.tensors[tensor.viewOf].elementBytes == 0)
    tensor.viewOf = -1;
  return problem.tensors.size() - 1;
}

unsigned Extractor::addSet(cost::SignatureSet set) {
  problem.signatureSets.push_back(std::move(set));
  result->choices.resize(problem.signatureSets.size());
  result->sources.resize(problem.signatureSets.size());
  return problem.signatureSets.size() - 1;
}

/// The set of an argument, or a result, that can have these layouts.
unsigned Extractor::addStoredSet(const std::vector<cost::Layout> &layouts,
                                 bool isReturned) {
  auto [it, isNew] = storedSets.try_emplace({layouts, isReturned}, 0);
  if (!isNew)
    return it->second;
  cost::SignatureSet set(layouts.size());
  for (auto [signature, layout] : llvm::zip(set, layouts))
    (isReturned ? signature.operands : signature.results) = {layout};
  return it->second = addSet(std::move(set));
}

cost::Operator &Extractor::addOperator(Kind kind, Part origin) {
  result->origins.push_back(origin);
  cost::Operator &op = problem.operators.emplace_back();
  op.kind = kind;
  return op;
}

//===----------------------------------------------------------------------===//
// Arguments and results
//===----------------------------------------------------------------------===//

/// All forms that divide; `full` first.
std::vector<cost::Layout> Extractor::getStoredLayouts(unsigned argument) const {
  const ArgumentNode &node = graph.arguments[argument];
  const MeshAttr &mesh = graph.mesh;
  std::vector<cost::Layout> layouts;
  Forms forms(mesh.getNumAxes(), AxisForm::full());
  auto visit = [&](auto &self, unsigned axis) -> void {
    if (axis == mesh.getNumAxes()) {
      if (canHaveForms(node.type, mesh, forms))
        layouts.push_back(toLayout(forms));
      return;
    }
    for (int64_t code = -1; code < node.type.getRank(); ++code) {
      forms[axis] = AxisForm::fromCode(code);
      bool isSplit = code >= 0;
      bool isBatch = node.role == Role::Input && code == node.batchDim;
      if ((isSplit && mesh.getSize(axis) == 1) ||
          (isSplit && mesh.isTime(axis) && !isBatch) ||
          (graph.isPinned(argument, axis) && forms[axis] != node.forms[axis]))
        continue;
      self(self, axis + 1);
    }
    forms[axis] = AxisForm::full();
  };
  visit(visit, 0);
  return layouts;
}

/// Scalars of the step are in no operator's operands, but for masks of them.
bool Extractor::isRead(unsigned argument) const {
  return !graph.getGroups().isSource[argument] ||
         llvm::any_of(graph.getGroups().groups,
                      [&](const OperatorGroup &group) {
                        return llvm::is_contained(group.inputs, argument);
                      });
}

LogicalResult Extractor::addArgument(unsigned argument) {
  const ArgumentNode &node = graph.arguments[argument];
  std::vector<cost::Layout> layouts = getStoredLayouts(argument);
  if (layouts.empty())
    return emitError() << "the pins of '" << node.name
                       << "' leave no form in which it divides";
  bool isInput = node.role != Role::Parameter && node.role != Role::State &&
                 node.role != Role::Buffer;
  argumentOps[argument] = problem.operators.size();
  std::string name = getArgumentName(graph, argument);
  unsigned tensor = addTensor(argument, name);
  cost::Operator &op = addOperator(isInput ? Kind::Input : Kind::Resident,
                                   {Part::Kind::Argument, argument});
  op.name = std::move(name);
  op.signatureSet = addStoredSet(layouts, /*isReturned=*/false);
  op.results = {tensor};
  return success();
}

void Extractor::addResult(unsigned index) {
  const ResultNode &node = graph.results[index];
  int tensor = result->tensors[node.value];
  if (tensor < 0) // A scalar of the step alone.
    return;
  bool isTied = node.argument >= 0 && argumentOps[node.argument] >= 0;
  std::vector<cost::Layout> layouts{cost::Layout()};
  if (isTied)
    layouts = getStoredLayouts(node.argument);
  unsigned set = addStoredSet(layouts, /*isReturned=*/true);
  if (isTied)
    problem.ties.push_back({argumentOps[node.argument],
                            static_cast<unsigned>(problem.operators.size())});
  cost::Operator &op = addOperator(Kind::Output, {Part::Kind::Result, index});
  op.pass = cost::Pass::Update;
  func::FuncOp step = graph.step;
  StringRef name = nn::getTensorName(step.getResultAttrDict(index));
  op.name = makeToken(name.empty() ? "result" : name);
  op.signatureSet = set;
  op.operands = {static_cast<unsigned>(tensor)};
}

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

/// A pinned operator is a group of its own.
FailureOr<unsigned> Extractor::getSet(unsigned index, SignatureMaker &maker) {
  unsigned made = maker.getSet(index);
  const GroupSignatures &all = maker.sets[made];
  const OperatorGroup &group = graph.getGroups().groups[index];
  if (all.signatures.empty())
    return emitError() << "the pins of '"
                       << graph.getMadeName(
                              graph.ops[group.members.front()].results.front())
                       << "' leave no signature of the operator that makes it, "
                          "expected forms that one of its signatures has";
  madeSets.resize(maker.sets.size(), -1);
  if (madeSets[made] < 0) {
    madeSets[made] = addSet(all.signatures);
    result->choices.back() = all.members;
    result->sources.back() = all.sources;
  }
  return madeSets[made];
}

/// An argument on the host that a group updates, by its name; or nothing.
static std::string findUpdated(const StepGraph &graph,
                               const OperatorGroup &group) {
  for (unsigned value : group.inputs)
    if (group.pass == PassKind::Update && graph.values[value].isOnHost &&
        graph.values[value].producer < 0)
      return graph.arguments[graph.values[value].index].name.str();
  return "";
}

LogicalResult Extractor::addGroup(unsigned index, SignatureMaker &maker) {
  const OperatorGroup &group = graph.getGroups().groups[index];
  FailureOr<unsigned> set = getSet(index, maker);
  if (failed(set))
    return failure();
  findLoops(group);
  std::vector<unsigned> operands, results;
  for (unsigned value : group.inputs)
    operands.push_back(result->tensors[value]);
  for (auto [place, value] : llvm::enumerate(group.outputs)) {
    results.push_back(addTensor(value, graph.getMadeName(value)));
    problem.tensors.back().heldFrom =
        getHeldFrom(value, problem.signatureSets[*set], place);
  }
  const OpNode &main = getMainMember(graph, group);
  cost::Operator &op = addOperator(Kind::Compute, {Part::Kind::Group, index});
  op.pass = static_cast<cost::Pass>(group.pass);
  op.name = graph.getMadeName(main.results.front());
  op.location = makeToken(getUserLocation(main.op->getLoc()));
  op.signatureSet = *set;
  op.operands = std::move(operands);
  op.results = std::move(results);
  op.isAgain = makesAgain(graph, group);
  result->updated.resize(problem.operators.size());
  result->updated.back() = findUpdated(graph, group);
  addLocations(group, op);
  return success();
}

bool tandem::plan::makesAgain(const StepGraph &graph,
                              const OperatorGroup &group) {
  auto isChoice = [&](unsigned member) {
    return isa<nn::EitherOp>(graph.ops[member].op);
  };
  return !llvm::all_of(group.members, isChoice) &&
         llvm::all_of(group.members, [&](unsigned member) {
           return isChoice(member) || nn::isAgain(graph.ops[member].op);
         });
}

/// A line of its own for each value that is read or made, if they differ.
void Extractor::addLocations(const OperatorGroup &group, cost::Operator &op) {
  auto getLine = [&](unsigned member) {
    return makeToken(getUserLocation(graph.ops[member].op->getLoc()));
  };
  for (unsigned value : group.inputs) {
    const auto *reader = llvm::find_if(group.members, [&](unsigned member) {
      return llvm::is_contained(graph.ops[member].operands, value);
    });
    // A scalar may be read by a source, which is in no group.
    bool isRead = reader != group.members.end();
    op.readLocations.push_back(isRead ? getLine(*reader) : op.location);
  }
  for (unsigned value : group.outputs)
    op.madeLocations.push_back(getLine(graph.values[value].producer));
  for (auto *lines : {&op.readLocations, &op.madeLocations})
    if (llvm::all_of(*lines,
                     [&](StringRef line) { return line == op.location; }))
      lines->clear();
}

FailureOr<std::unique_ptr<Extraction>> Extractor::run() {
  if (!cluster.host && llvm::any_of(graph.values, [](const ValueNode &value) {
        return value.isOnHost;
      }))
    return emitError() << cost::describeMissingHost(cluster);
  if (failed(addAxes()))
    return failure();
  problem.graphHash = graph.hash;
  problem.alignment = sched::getDevice(graph.step).getValueSpace().alignment;
  result->tensors.assign(graph.values.size(), -1);
  argumentOps.assign(graph.arguments.size(), -1);
  for (unsigned argument = 0; argument < graph.arguments.size(); ++argument)
    if (isRead(argument) && failed(addArgument(argument)))
      return failure();
  firstGroup = problem.operators.size();
  SignatureMaker maker(graph, cluster);
  for (unsigned group = 0; group < graph.getGroups().groups.size(); ++group)
    if (failed(addGroup(group, maker)))
      return failure();
  for (unsigned index = 0; index < graph.results.size(); ++index)
    addResult(index);
  search::attachBackward(problem);
  // What `cost` takes from the waiting queue, the schedule can send.
  problem.pieceLatency =
      std::max(problem.pieceLatency, cost::getLeastPieceLatency(problem));
  return std::move(result);
}

FailureOr<std::unique_ptr<Extraction>>
tandem::plan::extractProblem(const StepGraph &graph,
                             const cost::Cluster &cluster) {
  return Extractor(graph, cluster).run();
}
