//===- Interpreter.cpp - runs IR of any stage on simulated ranks ----------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Interpreter.h"
#include "Collectives.h"
#include "tandem/Analysis/Loops.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Dialect/Sched/Host.h"
#include "tandem/Reference/Training.h"
#include <map>

using namespace mlir;
using namespace tandem::spmd;

namespace tandem::reference {

static RankedTensorType getLayoutOr(DictionaryAttr attributes, Type type) {
  RankedTensorType layout = getLayout(attributes);
  return layout ? layout : cast<RankedTensorType>(type);
}

RankedTensorType getArgumentLayout(func::FuncOp function, unsigned index) {
  return getLayoutOr(function.getArgAttrDict(index),
                     function.getArgumentTypes()[index]);
}

RankedTensorType getResultLayout(func::FuncOp function, unsigned index) {
  return getLayoutOr(function.getResultAttrDict(index),
                     function.getResultTypes()[index]);
}

/// Whether `localize` has been here.
static bool hasLayouts(func::FuncOp function) {
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (getLayout(function.getArgAttrDict(i)))
      return true;
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (getLayout(function.getResultAttrDict(i)))
      return true;
  return false;
}

//===----------------------------------------------------------------------===//
// Running a function on shards
//===----------------------------------------------------------------------===//

/// `forms` on the axes of time, `full` on those of space.
static Forms getTimeForms(MeshAttr mesh, Forms forms) {
  for (unsigned axis = 0; axis < forms.size(); ++axis)
    if (!mesh.isTime(axis))
      forms[axis] = AxisForm::full();
  return forms;
}

/// The shape of what a device holds of `layout`, over all of time.
static SmallVector<int64_t> getDeviceShape(RankedTensorType layout,
                                           MeshAttr mesh,
                                           ArrayRef<AxisForm> forms) {
  return getLocalShape(layout.getShape(), mesh, forms, AxisKind::Space);
}

static LogicalResult checkForms(Operation *op, Type type, MeshAttr mesh) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  auto form =
      tensor ? dyn_cast_or_null<FormAttr>(tensor.getEncoding()) : FormAttr();
  if (!form || form.getMesh() == mesh)
    return success();
  return op->emitError("has a form on the mesh ")
         << form.getMesh() << ", but the module's mesh is "
         << (mesh ? Attribute(mesh) : UnitAttr::get(op->getContext()));
}

Interpreter::Interpreter(func::FuncOp function, MeshAttr mesh)
    : function(function), mesh(mesh), points(mesh), runs(points.size(), true),
      isLocalized(hasLayouts(function)), order(function) {
  function.walk([&](Operation *op) {
    for (Value operand : op->getOperands())
      ++readsLeft[operand];
  });
}

Interpreter::Interpreter(func::FuncOp function, MeshAttr mesh,
                         std::vector<bool> runs)
    : Interpreter(function, mesh) {
  this->runs = std::move(runs);
  isLocalized = true;
}

LogicalResult Interpreter::checkArguments(ArrayRef<Tensor> arguments) {
  if (arguments.size() != function.getNumArguments())
    return function.emitError("takes ")
           << function.getNumArguments() << " arguments, but got "
           << arguments.size();
  for (auto [index, tensor] : llvm::enumerate(arguments)) {
    auto layout = getArgumentLayout(function, index);
    if (failed(checkForms(function, layout, mesh)))
      return failure();
    if (tensor.getType() != withoutForms(layout))
      return function.emitError("argument ")
             << index << " is a " << tensor.getType() << ", expected "
             << withoutForms(layout);
  }
  return success();
}

Shards Interpreter::cutArgument(unsigned index, const Tensor &whole) {
  RankedTensorType layout = getArgumentLayout(function, index);
  Type type = function.getArgumentTypes()[index];
  Forms forms = getForms(layout, mesh);
  Shards shards = distribute(whole, points, forms);
  if (layout == type)
    return shards;
  // After `duplex` an argument holds its slices of all microbatches.
  return reform(shards, getDeviceShape(layout, mesh, forms), points,
                getTimeForms(mesh, forms),
                getTimeForms(mesh, getForms(type, mesh)));
}

FailureOr<Tensor> Interpreter::joinResult(unsigned index, const Shards &shards,
                                          Value made) {
  RankedTensorType layout = getResultLayout(function, index);
  Type type = function.getResultTypes()[index];
  Forms forms = getForms(layout, mesh);
  Shards pieces = shards;
  if (layout != type)
    pieces = reform(shards, getDeviceShape(layout, mesh, forms), points,
                    getTimeForms(mesh, getForms(type, mesh)),
                    getTimeForms(mesh, forms));
  auto all = llvm::to_vector(llvm::seq<unsigned>(0, points.getNumAxes()));
  auto axis = findDivergence(pieces, points, forms);
  TensorRef whole =
      axis ? nullptr
           : assemble(pieces, layout.getShape(), points, forms, all).front();
  std::string key = getKey(function.getResultAttrDict(index), "result", index);
  if (recorder)
    recorder->addResult(made, key, {pieces, whole});
  if (axis)
    return function.emitError("result ")
           << index << ", '" << key << "', is full on axis '"
           << mesh.getName(*axis) << "', but its points hold different values";
  return *whole;
}

void Interpreter::recordArgument(unsigned index, Value value,
                                 const Tensor &whole, const Shards &shards) {
  if (recorder)
    recorder->addArgument(
        value, getKey(function.getArgAttrDict(index), "argument", index),
        {shards, std::make_shared<Tensor>(whole)});
}

/// What is cut into iterations, in the shape in which the step has it.
static std::vector<Tensor> cutIterations(func::FuncOp function,
                                         ArrayRef<Tensor> arguments) {
  std::vector<Tensor> cut(arguments);
  for (auto [index, tensor] : llvm::enumerate(cut)) {
    if (index >= function.getNumArguments() ||
        !getInteger(function.getArgAttrDict(index), kIteratedAttrName))
      continue;
    ArrayRef<int64_t> shape = getArgumentLayout(function, index).getShape();
    if (tensor.getNumElements() == getNumElements(shape))
      tensor = tensor.reshaped(shape);
  }
  return cut;
}

FailureOr<std::vector<Shards>>
Interpreter::cutArguments(ArrayRef<Tensor> given) {
  std::vector<Tensor> arguments = cutIterations(function, given);
  if (failed(checkArguments(arguments)))
    return failure();
  std::vector<Shards> shards;
  for (auto [index, argument] : llvm::enumerate(arguments))
    shards.push_back(cutArgument(index, argument));
  return shards;
}

FailureOr<std::vector<Tensor>> Interpreter::run(ArrayRef<Tensor> given) {
  auto arguments = cutArguments(given);
  if (failed(arguments))
    return failure();
  for (auto [index, argument] : llvm::enumerate(function.getArguments())) {
    recordArgument(index, argument, given[index], (*arguments)[index]);
    environment[argument] = std::move((*arguments)[index]);
  }
  if (failed(runFunction()))
    return failure();
  std::vector<Tensor> results;
  Operation *terminator = function.getBody().front().getTerminator();
  for (auto [index, value] : llvm::enumerate(terminator->getOperands())) {
    FailureOr<Tensor> result = joinResult(index, environment[value], value);
    if (failed(result))
      return failure();
    results.push_back(std::move(*result));
  }
  return results;
}

//===----------------------------------------------------------------------===//
// Operators
//===----------------------------------------------------------------------===//

LogicalResult Interpreter::runBlock(Block &block) {
  for (Operation &op : block.without_terminator()) {
    if (failed(runOperation(&op)))
      return failure();
    release(&op);
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

LogicalResult Interpreter::runLoop(ArrayRef<Operation *> ops) {
  iterations = getIterations(function);
  carried.clear();
  for (iteration = 0; iteration < iterations; ++iteration)
    for (Operation *op : ops) {
      if (failed(runOperation(op)))
        return failure();
      release(op);
    }
  iteration = 0;
  iterations = 1;
  return success();
}

/// Loops, and what runs once, each where it belongs.
LogicalResult Interpreter::runFunction() {
  Block &block = function.getBody().front();
  auto segmentOf = getSegments(block);
  std::map<int64_t, SmallVector<Operation *>> segments;
  for (Operation &op : block.without_terminator())
    segments[segmentOf.at(&op)].push_back(&op);
  for (auto &[segment, ops] : segments) {
    if (segment % 2) {
      if (failed(runLoop(ops)))
        return failure();
      continue;
    }
    for (Operation *op : ops) {
      if (failed(runOperation(op)))
        return failure();
      release(op);
    }
  }
  return success();
}

Shards mapShards(const Shards &shards,
                 llvm::function_ref<Tensor(const Tensor &)> compute) {
  llvm::DenseMap<const Tensor *, TensorRef> known;
  Shards results;
  for (const TensorRef &shard : shards) {
    TensorRef &result = known[shard.get()];
    if (shard && !result)
      result = std::make_shared<Tensor>(compute(*shard));
    results.push_back(result);
  }
  return results;
}

Tensor getRow(const Tensor &whole, int64_t index) {
  SmallVector<int64_t> shape(whole.getShape()), offsets(shape.size(), 0);
  offsets[0] = index;
  shape[0] = 1;
  return extractBlock(whole, offsets, shape)
      .reshaped(ArrayRef(shape).drop_front());
}

Shards Interpreter::runEnter(EnterOp op) {
  return mapShards(environment[op.getInput()], [&](const Tensor &whole) {
    return getRow(whole, iteration);
  });
}

Shards Interpreter::runCarry(CarryOp op) {
  Shards &sums = carried[op];
  const Shards &terms = environment[op.getInput()];
  if (iteration == 0)
    return sums = terms;
  std::map<std::pair<const Tensor *, const Tensor *>, TensorRef> known;
  Shards next;
  for (auto [sum, term] : llvm::zip(sums, terms)) {
    TensorRef &result = known[{sum.get(), term.get()}];
    if (term && !result)
      result = std::make_shared<Tensor>(sumOf({sum, term}));
    next.push_back(result);
  }
  return sums = next;
}

/// Rows that are not there yet are zeros.
Shards Interpreter::runCollect(CollectOp op) {
  Shards &all = carried[op];
  Shards rows = mapShards(environment[op.getInput()], [&](const Tensor &one) {
    SmallVector<int64_t> shape(one.getShape());
    shape.insert(shape.begin(), 1);
    return one.reshaped(shape);
  });
  Shards next;
  for (auto [point, row] : llvm::enumerate(rows)) {
    if (!row) {
      next.push_back(nullptr);
      continue;
    }
    SmallVector<int64_t> shape(row->getShape());
    shape[0] = iterations;
    SmallVector<int64_t> offsets(shape.size(), 0);
    offsets[0] = iteration;
    Tensor target = iteration == 0 ? Tensor(shape, row->getElementType())
                                   : Tensor(*all[point]);
    insertBlock(target, *row, offsets);
    next.push_back(std::make_shared<Tensor>(std::move(target)));
  }
  return all = next;
}

LogicalResult Interpreter::runOperation(Operation *op) {
  if (failed(evaluateOperation(op)))
    return failure();
  if (!isa<sched::StepOp>(op))
    record(op);
  return success();
}

void Interpreter::record(Operation *op) {
  if (!recorder)
    return;
  std::vector<OperatorValue> values;
  for (Value result : op->getResults()) {
    OperatorValue value{environment[result], nullptr};
    if (auto type = dyn_cast<RankedTensorType>(result.getType());
        type && !isLocalized && !value.shards.empty()) {
      auto all = llvm::to_vector(llvm::seq<unsigned>(0, points.getNumAxes()));
      value.whole = assemble(value.shards, type.getShape(), points,
                             getForms(type, mesh), all)
                        .front();
    }
    values.push_back(std::move(value));
  }
  recorder->add(op, microbatch + iteration, values);
}

LogicalResult Interpreter::evaluateOperation(Operation *op) {
  for (Type type : op->getResultTypes())
    if (failed(checkForms(op, type, mesh)))
      return failure();
  if (auto step = dyn_cast<sched::StepOp>(op))
    return runStep(step);
  if (auto reform = dyn_cast<ReformOp>(op)) {
    runReform(reform);
    return success();
  }
  if (auto enter = dyn_cast<EnterOp>(op)) {
    environment[enter.getResult()] = runEnter(enter);
    return success();
  }
  if (auto carry = dyn_cast<CarryOp>(op)) {
    environment[carry.getResult()] = runCarry(carry);
    return success();
  }
  if (auto collect = dyn_cast<CollectOp>(op)) {
    environment[collect.getResult()] = runCollect(collect);
    return success();
  }
  if (sched::isHostCopy(op)) {
    // Copied first: a new entry may move the others.
    Shards same = environment[op->getOperand(0)];
    environment[op->getResult(0)] = std::move(same);
    return success();
  }
  if (auto coordinate = dyn_cast<CoordinateOp>(op);
      coordinate && coordinate.isIteration()) {
    Tensor index({}, IntegerType::get(op->getContext(), 64));
    index.setInteger(0, microbatch + iteration);
    auto shared = std::make_shared<Tensor>(std::move(index));
    environment[coordinate.getResult()] = Shards(points.size(), shared);
    return success();
  }
  if (auto coordinate = dyn_cast<CoordinateOp>(op)) {
    environment[coordinate.getResult()] = runCoordinate(coordinate, points);
    return success();
  }
  if (runsOverGroups(op)) {
    environment[op->getResult(0)] =
        runCollective(op, environment[op->getOperand(0)], points);
    return success();
  }
  return runOnPoints(op);
}

void Interpreter::runReform(ReformOp op) {
  environment[op.getResult()] =
      reform(environment[op.getInput()], op.getInput().getType().getShape(),
             points, getForms(op.getInput().getType(), mesh),
             getForms(op.getResult().getType(), mesh));
}

LogicalResult Interpreter::runStep(sched::StepOp step) {
  return failure(failed(runBlock(step.getBody().front())) ||
                 failed(endStep(step)));
}

LogicalResult Interpreter::endStep(sched::StepOp step) {
  if (iteration == 0 && failed(order.addStep(step)))
    return failure();
  auto yield = step.getBody().front().getTerminator();
  for (auto [value, yielded] :
       llvm::zip(step.getValues(), yield->getOperands())) {
    // Copied first: a new entry may move the others.
    Shards shards = environment[yielded];
    environment[value] = std::move(shards);
    if (recorder)
      recorder->addName(value, yielded);
  }
  release(yield);
  return success();
}

Part Interpreter::getPart(Type type, ArrayRef<AxisForm> forms,
                          int64_t point) const {
  ArrayRef<int64_t> shape = cast<RankedTensorType>(type).getShape();
  Part part;
  part.whole.assign(shape.begin(), shape.end());
  part.shape = getLocalShape(shape, mesh, forms);
  part.offsets =
      getLocalOffsets(shape, mesh, forms, points.getCoordinates(point));
  return part;
}

/// What the result of an operator on one point depends on.
static std::vector<int64_t> getKey(ArrayRef<TensorRef> values,
                                   ArrayRef<Part> operands,
                                   ArrayRef<Part> results) {
  std::vector<int64_t> key;
  for (const TensorRef &value : values)
    key.push_back(reinterpret_cast<intptr_t>(value.get()));
  for (ArrayRef<Part> parts : {operands, results})
    for (const Part &part : parts)
      key.insert(key.end(), part.offsets.begin(), part.offsets.end());
  return key;
}

LogicalResult Interpreter::runOnPoints(Operation *op) {
  SmallVector<Forms> operandForms, resultForms;
  for (Type type : op->getOperandTypes())
    operandForms.push_back(getForms(type, mesh));
  for (Type type : op->getResultTypes())
    resultForms.push_back(getForms(type, mesh));
  // Points that know the same compute the same: once is enough.
  std::map<std::vector<int64_t>, std::vector<TensorRef>> known;
  std::vector<Shards> shards(op->getNumResults());
  for (int64_t point = 0; point < points.size(); ++point) {
    if (!runs[point] ||
        !llvm::all_of(resultForms, [&](ArrayRef<AxisForm> forms) {
          return isHeld(forms, points.getCoordinates(point));
        })) {
      for (Shards &result : shards)
        result.push_back(nullptr);
      continue;
    }
    SmallVector<TensorRef> values;
    SmallVector<Part> operands, results;
    for (auto [operand, forms] : llvm::zip(op->getOperands(), operandForms)) {
      values.push_back(environment[operand][point]);
      if (!values.back())
        return op->emitOpError("runs where operand ")
               << values.size() - 1 << " is not held, expected a transfer";
      operands.push_back(getPart(operand.getType(), forms, point));
    }
    for (auto [type, forms] : llvm::zip(op->getResultTypes(), resultForms))
      results.push_back(getPart(type, forms, point));
    auto [it, isNew] = known.try_emplace(getKey(values, operands, results));
    if (isNew) {
      auto computed = evaluate(op, values, operands, results);
      if (failed(computed))
        return failure();
      for (Tensor &tensor : *computed)
        it->second.push_back(std::make_shared<Tensor>(std::move(tensor)));
    }
    for (auto [result, tensor] : llvm::zip(shards, it->second))
      result.push_back(tensor);
  }
  for (auto [value, result] : llvm::zip(op->getResults(), shards))
    if (failed(define(value, std::move(result))))
      return failure();
  return success();
}

LogicalResult Interpreter::define(Value value, Shards shards) {
  // After `localize` types do not speak of space, on which points then differ.
  if (!isLocalized)
    if (auto axis =
            findDivergence(shards, points, getForms(value.getType(), mesh)))
      return value.getDefiningOp()->emitOpError("gives a value that is full "
                                                "on axis '")
             << mesh.getName(*axis) << "', but its points hold different ones";
  environment[value] = std::move(shards);
  return success();
}

void Interpreter::release(Operation *op) {
  if (iteration + 1 < iterations)
    return;
  for (Value operand : op->getOperands())
    if (--readsLeft[operand] == 0)
      environment.erase(operand);
  for (Value result : op->getResults())
    if (!readsLeft.contains(result))
      environment.erase(result);
}

FailureOr<std::vector<Tensor>> interpret(func::FuncOp function, MeshAttr mesh,
                                         ArrayRef<Tensor> arguments,
                                         Recorder *recorder) {
  if (function.isExternal() && function->getParentOp()->hasAttr(kPipeAttrName))
    return interpretPoints(function, mesh, arguments, recorder);
  if (!function.getBody().hasOneBlock())
    return function.emitError("has ") << function.getBody().getBlocks().size()
                                      << " blocks, expected a body of one";
  if (failed(sched::verifyQueues(function)) || failed(verifyLoops(function)))
    return failure();
  Interpreter interpreter(function, mesh);
  interpreter.setRecorder(recorder);
  return interpreter.run(arguments);
}

} // namespace tandem::reference
