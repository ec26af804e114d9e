//===- Points.cpp - runs the functions of points together -----------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Behind `outline` each point of the pipe axis has a function of its own. They
// take turns: one goes on until it waits for a transfer or for a collective in
// which it meets the others. If all wait, none can.
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/Sched/Points.h"
#include "Collectives.h"
#include "Interpreter.h"
#include "tandem/Analysis/Loops.h"
#include "llvm/ADT/TypeSwitch.h"
#include <map>

using namespace mlir;
using namespace tandem::spmd;

namespace tandem::reference {

namespace {
/// An action that runs.
struct ActionRun {
  sched::RunOp op;
  func::FuncOp step;
  Interpreter interpreter;
  /// Steps stand behind what they consist of.
  std::vector<Operation *> body;
  size_t next = 0;
};

/// What a point of the pipe axis does.
struct PointRun {
  func::FuncOp function;
  Interpreter values;
  /// On points of the mesh.
  std::vector<bool> runs;
  Block::iterator next;
  std::unique_ptr<ActionRun> action;
};

enum class Progress { Ran, Waits, Ended, Failed };

class PointsRun {
public:
  PointsRun(func::FuncOp step, MeshAttr mesh, unsigned axis, Recorder *recorder)
      : step(step), mesh(mesh), axis(axis), recorder(recorder), points(mesh),
        whole(step, mesh), results(step.getNumResults(), Shards(points.size())),
        made(step.getNumResults()) {
    whole.setRecorder(recorder);
  }
  FailureOr<std::vector<Tensor>> run(ArrayRef<Tensor> arguments);

private:
  LogicalResult addPoint(int64_t number, ArrayRef<Shards> arguments);
  void recordArguments(ArrayRef<Tensor> wholes, ArrayRef<Shards> shards);
  LogicalResult runAll();
  Progress advance(PointRun &point);
  Progress advanceAction(PointRun &point);
  LogicalResult beginAction(PointRun &point, sched::RunOp op);
  LogicalResult endAction(PointRun &point);
  Operation *getMeeting(const PointRun &point) const;
  LogicalResult meet();
  Progress receive(PointRun &point, sched::ReceiveOp op);
  LogicalResult runOperation(PointRun &point, Operation *op);
  LogicalResult give(PointRun &point, sched::GiveOp op);
  LogicalResult reportWaiting();
  FailureOr<std::vector<Tensor>> joinResults();

  func::FuncOp step;
  MeshAttr mesh;
  unsigned axis;
  Recorder *recorder;
  Points points;
  Interpreter whole;
  std::vector<PointRun> pointRuns;
  /// By tag.
  std::map<int64_t, std::pair<sched::SendOp, Shards>> sent;
  std::vector<Shards> results;
  /// The value of one of the points that gave a result.
  std::vector<Value> made;
};
} // namespace

//===----------------------------------------------------------------------===//
// Actions
//===----------------------------------------------------------------------===//

static LogicalResult checkTypes(Operation *op, const char *what,
                                TypeRange found, TypeRange expected) {
  if (llvm::equal(found, expected))
    return success();
  return op->emitOpError("has ")
         << what << " of types " << found
         << ", expected those of the action: " << expected;
}

LogicalResult PointsRun::beginAction(PointRun &point, sched::RunOp op) {
  auto module = cast<ModuleOp>(
      SymbolTable::lookupNearestSymbolFrom(op, op.getActionAttr()));
  auto inner = module.lookupSymbol<func::FuncOp>(step.getSymNameAttr());
  if (!inner || !inner.getBody().hasOneBlock())
    return op.emitOpError("runs '")
           << op.getAction() << "', expected a function '" << step.getSymName()
           << "' with a body of one block in it";
  if (failed(checkTypes(op, "inputs", op.getInputs().getTypes(),
                        inner.getArgumentTypes())) ||
      failed(checkTypes(op, "results", op.getResultTypes(),
                        inner.getResultTypes())) ||
      failed(sched::verifyQueues(inner)))
    return failure();
  point.action.reset(
      new ActionRun{op, inner, Interpreter(inner, mesh, point.runs), {}});
  ActionRun &action = *point.action;
  action.interpreter.setMicrobatch(op.getMicrobatch().value_or(0));
  action.interpreter.setRecorder(recorder);
  for (auto [argument, input] :
       llvm::zip(inner.getArguments(), op.getInputs())) {
    action.interpreter.getShards(argument) = point.values.getShards(input);
    if (recorder)
      recorder->addName(argument, input);
  }
  for (Operation &own : inner.getBody().front().without_terminator()) {
    if (auto ownStep = dyn_cast<sched::StepOp>(own))
      for (Operation &nested : ownStep.getBody().front().without_terminator())
        action.body.push_back(&nested);
    action.body.push_back(&own);
  }
  return success();
}

LogicalResult PointsRun::endAction(PointRun &point) {
  ActionRun &action = *point.action;
  Operation *terminator = action.step.getBody().front().getTerminator();
  for (auto [result, made] :
       llvm::zip(action.op.getResults(), terminator->getOperands())) {
    point.values.getShards(result) = action.interpreter.getShards(made);
    if (recorder)
      recorder->addName(result, made);
  }
  point.values.release(action.op);
  point.action.reset();
  return success();
}

/// The collective over the pipe axis that a point has come to, if any.
Operation *PointsRun::getMeeting(const PointRun &point) const {
  if (!point.action || point.action->next == point.action->body.size())
    return nullptr;
  Operation *op = point.action->body[point.action->next];
  if (!runsOverGroups(op))
    return nullptr;
  auto axes = op->getAttrOfType<ArrayAttr>("axes").getAsRange<StringAttr>();
  return llvm::any_of(
             axes, [&](StringAttr name) { return name == mesh.getName(axis); })
             ? op
             : nullptr;
}

/// Runs the collective to which all have come.
LogicalResult PointsRun::meet() {
  Shards inputs(points.size());
  Operation *first = getMeeting(pointRuns.front());
  for (PointRun &point : pointRuns) {
    Operation *op = getMeeting(point);
    if (op->getName() != first->getName() ||
        op->getAttr("axes") != first->getAttr("axes") ||
        op->getOperandTypes() != first->getOperandTypes()) {
      InFlightDiagnostic error = op->emitError(
          "meets another collective than the first point, expected the same");
      error.attachNote(first->getLoc()) << "of the first point";
      return error;
    }
    const Shards &own = point.action->interpreter.getShards(op->getOperand(0));
    for (int64_t i = 0; i < points.size(); ++i)
      if (point.runs[i])
        inputs[i] = own[i];
  }
  Shards outputs = runCollective(first, inputs, points);
  for (PointRun &point : pointRuns) {
    Operation *op = getMeeting(point);
    Shards &own = point.action->interpreter.getShards(op->getResult(0));
    own.assign(points.size(), nullptr);
    for (int64_t i = 0; i < points.size(); ++i)
      if (point.runs[i])
        own[i] = outputs[i];
  }
  for (PointRun &point : pointRuns) {
    point.action->interpreter.record(getMeeting(point));
    point.action->interpreter.release(getMeeting(point));
    ++point.action->next;
  }
  return success();
}

Progress PointsRun::advanceAction(PointRun &point) {
  ActionRun &action = *point.action;
  if (action.next == action.body.size())
    return succeeded(endAction(point)) ? Progress::Ran : Progress::Failed;
  if (getMeeting(point))
    return Progress::Waits;
  Operation *op = action.body[action.next++];
  auto ownStep = dyn_cast<sched::StepOp>(op);
  if (failed(ownStep ? action.interpreter.endStep(ownStep)
                     : action.interpreter.runOperation(op)))
    return Progress::Failed;
  action.interpreter.release(op);
  return Progress::Ran;
}

//===----------------------------------------------------------------------===//
// Operations of points
//===----------------------------------------------------------------------===//

Progress PointsRun::receive(PointRun &point, sched::ReceiveOp op) {
  auto it = sent.find(op.getTag());
  if (it == sent.end())
    return Progress::Waits;
  auto [send, shards] = std::move(it->second);
  sent.erase(it);
  if (send.getValue().getType() != op.getType()) {
    op.emitOpError("takes a ") << op.getType() << ", but tag " << op.getTag()
                               << " is a " << send.getValue().getType();
    return Progress::Failed;
  }
  Shards &own = point.values.getShards(op.getValue());
  own.assign(points.size(), nullptr);
  for (int64_t i = 0; i < points.size(); ++i)
    if (point.runs[i]) {
      auto from = points.getCoordinates(i);
      from[axis] = op.getFrom();
      own[i] = shards[points.getPoint(from)];
    }
  if (recorder)
    recorder->add(op, op.getMicrobatch().value_or(0), {{own, nullptr}});
  return Progress::Ran;
}

LogicalResult PointsRun::give(PointRun &point, sched::GiveOp op) {
  if (op.getIndex() >= results.size())
    return op.emitOpError("gives result ")
           << op.getIndex() << " of " << results.size();
  Type type = step.getResultTypes()[op.getIndex()];
  if (op.getValue().getType() != withoutForms(cast<RankedTensorType>(type)))
    return op.emitOpError("gives a ")
           << op.getValue().getType() << ", expected a " << type;
  const Shards &shards = point.values.getShards(op.getValue());
  made[op.getIndex()] = op.getValue();
  for (int64_t i = 0; i < points.size(); ++i)
    if (point.runs[i])
      results[op.getIndex()][i] = shards[i];
  return success();
}

/// The rows of all microbatches.
static Shards stack(ArrayRef<Shards> rows, size_t numPoints) {
  Shards wholes(numPoints);
  for (size_t i = 0; i < numPoints; ++i) {
    std::vector<TensorRef> pieces;
    for (const Shards &row : rows) {
      if (!row[i])
        break;
      SmallVector<int64_t> shape(row[i]->getShape());
      shape.insert(shape.begin(), 1);
      pieces.push_back(std::make_shared<Tensor>(row[i]->reshaped(shape)));
    }
    if (!pieces.empty())
      wholes[i] = std::make_shared<Tensor>(concatenate(pieces, 0));
  }
  return wholes;
}

LogicalResult PointsRun::runOperation(PointRun &point, Operation *op) {
  Interpreter &values = point.values;
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](sched::SendOp send) {
        sent[send.getTag()] = {send, values.getShards(send.getValue())};
        return success();
      })
      .Case([&](sched::GiveOp given) { return give(point, given); })
      .Case([&](sched::RowOp row) {
        Shards shards = mapShards(values.getShards(row.getWhole()),
                                  [&](const Tensor &whole) {
                                    return getRow(whole, row.getMicrobatch());
                                  });
        values.getShards(row.getRow()) = std::move(shards);
        return success();
      })
      .Case([&](sched::StackOp all) {
        std::vector<Shards> rows;
        for (Value row : all.getRows())
          rows.push_back(values.getShards(row));
        values.getShards(all.getWhole()) = stack(rows, points.size());
        return success();
      })
      .Case([&](sched::ZerosOp zeros) {
        for (Value result : zeros.getResults()) {
          auto type = cast<RankedTensorType>(result.getType());
          values.getShards(result).assign(
              points.size(),
              std::make_shared<Tensor>(type.getShape(), type.getElementType()));
        }
        return success();
      })
      .Default([&](Operation *other) { return values.runOperation(other); });
}

Progress PointsRun::advance(PointRun &point) {
  if (point.action)
    return advanceAction(point);
  Operation *op = &*point.next;
  if (op->hasTrait<OpTrait::IsTerminator>())
    return Progress::Ended;
  if (auto taken = dyn_cast<sched::ReceiveOp>(op)) {
    Progress progress = receive(point, taken);
    if (progress == Progress::Ran)
      ++point.next;
    return progress;
  }
  ++point.next;
  if (auto begun = dyn_cast<sched::RunOp>(op))
    return succeeded(beginAction(point, begun)) ? Progress::Ran
                                                : Progress::Failed;
  if (failed(runOperation(point, op)))
    return Progress::Failed;
  if (isa<sched::RowOp, sched::StackOp>(op))
    point.values.record(op);
  point.values.release(op);
  return Progress::Ran;
}

//===----------------------------------------------------------------------===//
// All points
//===----------------------------------------------------------------------===//

LogicalResult PointsRun::addPoint(int64_t number, ArrayRef<Shards> arguments) {
  auto name = ("p" + Twine(number)).str();
  auto module = cast<ModuleOp>(step->getParentOp());
  auto function = module.lookupSymbol<func::FuncOp>(name);
  if (!function || !function.getBody().hasOneBlock() ||
      function.getNumArguments() != arguments.size())
    return step.emitError("has no function '")
           << name << "' of one block with " << arguments.size()
           << " arguments, which point " << number << " runs";
  std::vector<bool> runs;
  for (int64_t i = 0; i < points.size(); ++i)
    runs.push_back(points.getCoordinates(i)[axis] == number);
  pointRuns.push_back({function, Interpreter(function, mesh, runs), runs,
                       function.getBody().front().begin(), nullptr});
  for (auto [argument, shards] : llvm::zip(function.getArguments(), arguments))
    pointRuns.back().values.getShards(argument) = shards;
  return success();
}

/// Once: all points have the same.
void PointsRun::recordArguments(ArrayRef<Tensor> wholes,
                                ArrayRef<Shards> shards) {
  for (auto [index, tensor] : llvm::enumerate(wholes)) {
    Value first = pointRuns.front().function.getArgument(index);
    whole.recordArgument(index, first, tensor, shards[index]);
    for (PointRun &point : pointRuns)
      if (recorder)
        recorder->addName(point.function.getArgument(index), first);
  }
}

/// Nobody can go on.
LogicalResult PointsRun::reportWaiting() {
  for (auto [number, point] : llvm::enumerate(pointRuns)) {
    if (Operation *op = getMeeting(point))
      return op->emitError("point ")
             << number << " waits for the other points, which do not come";
    if (auto taken = dyn_cast<sched::ReceiveOp>(&*point.next))
      return taken.emitOpError("of point ")
             << number << " waits for tag " << taken.getTag() << " of point "
             << taken.getFrom() << ", which does not send it";
  }
  llvm_unreachable("a point waits");
}

LogicalResult PointsRun::runAll() {
  bool isRunning = true;
  while (isRunning) {
    isRunning = false;
    bool hasRun = false;
    for (PointRun &point : pointRuns) {
      Progress progress = advance(point);
      for (; progress == Progress::Ran; progress = advance(point))
        hasRun = true;
      if (progress == Progress::Failed)
        return failure();
      isRunning |= progress == Progress::Waits;
    }
    if (!isRunning || hasRun)
      continue;
    bool doMeet = llvm::all_of(
        pointRuns, [&](const PointRun &point) { return getMeeting(point); });
    if (failed(doMeet ? meet() : reportWaiting()))
      return failure();
  }
  return success();
}

FailureOr<std::vector<Tensor>> PointsRun::joinResults() {
  std::vector<Tensor> joined;
  for (auto [index, shards] : llvm::enumerate(results)) {
    Forms forms = getForms(getResultLayout(step, index), mesh);
    for (int64_t i = 0; i < points.size(); ++i)
      if (!shards[i] && isHeld(forms, points.getCoordinates(i)))
        return step.emitError("result ")
               << index << " is not given by point "
               << points.getCoordinates(i)[axis] << ", which holds it";
    FailureOr<Tensor> result = whole.joinResult(index, shards, made[index]);
    if (failed(result))
      return failure();
    joined.push_back(std::move(*result));
  }
  return joined;
}

FailureOr<std::vector<Tensor>> PointsRun::run(ArrayRef<Tensor> given) {
  auto arguments = whole.cutArguments(given);
  if (failed(arguments))
    return failure();
  pointRuns.reserve(mesh.getSize(axis));
  for (int64_t number = 0; number < mesh.getSize(axis); ++number)
    if (failed(addPoint(number, *arguments)))
      return failure();
  recordArguments(given, *arguments);
  if (failed(runAll()))
    return failure();
  return joinResults();
}

FailureOr<std::vector<Tensor>> interpretPoints(func::FuncOp step, MeshAttr mesh,
                                               ArrayRef<Tensor> arguments,
                                               Recorder *recorder) {
  auto name = step->getParentOp()->getAttrOfType<StringAttr>(kPipeAttrName);
  auto axis = mesh && name ? mesh.lookup(name.getValue()) : std::nullopt;
  if (!axis)
    return step.emitError("is a declaration, and the mesh has no axis ")
           << step->getParentOp()->getAttr(kPipeAttrName);
  return PointsRun(step, mesh, *axis, recorder).run(arguments);
}

} // namespace tandem::reference
