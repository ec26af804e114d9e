//===- Bufferize.cpp - tensors become buffers -----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Counts.h"
#include "Steps.h"
#include "Views.h"
#include "tandem/Analysis/FreeViews.h"
#include "tandem/Analysis/Lookups.h"
#include "tandem/Analysis/Origins.h"
#include "tandem/Conversion/Kernels/Kernels.h"
#include "tandem/Conversion/Lower/Lower.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Dialect/SPMD/Host.h"
#include "tandem/Dialect/Sched/Host.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace tandem::lower {

#define GEN_PASS_DEF_BUFFERIZE
#include "tandem/Conversion/Lower/Passes.h.inc"

using sched::Place;
using sched::QueueAttr;
using sched::QueueRole;

namespace {
/// Rewrites @step from the top, beside the old body.
class Bufferizer {
public:
  explicit Bufferizer(func::FuncOp function)
      : function(function), builder(function.getContext()), queues(function),
        last{queues.getFirst(QueueRole::Compute)} {}
  void run();

private:
  void bufferizeArguments();
  void bufferize(sched::StepOp step);
  void bufferize(Operation *op, Place place);
  void bufferize(func::CallOp call, Place place);
  Value findBase(func::CallOp call, func::FuncOp kernel, unsigned result);
  Value findFetched(func::CallOp call, func::FuncOp kernel, unsigned result);
  void bufferize(sched::LibraryCallOpInterface call, Place place);
  SmallVector<Value> getDestinations(sched::LibraryCallOpInterface call);
  void bufferizeCollective(Operation *op, Place place);
  void bufferizeHostCopy(Operation *op, Place place);
  Value findUpdated(Operation *op);
  void bufferize(sched::ZerosOp zeros, Place place);
  void bufferize(sched::KeepOp keep, Place place);
  void bufferize(spmd::CollectOp collect, Place place);
  bool bufferizeCarried(Operation *op, Place place);
  void enterLoop(std::optional<int64_t> next);
  void beginLoop(int64_t number);
  void endLoop();
  void waitFor(QueueAttr queue, Value event);
  void join();
  void checkResults(Place place);
  bool checkResult(unsigned index, Place place);
  void storeResults(Operation *terminator);
  Value store(unsigned index, Value buffer, Location loc);
  void copy(Value source, Value destination, Location loc, StringRef label,
            const Place &place);
  Value allocate(Value tensor);
  Value getBuffer(Value tensor) { return buffers.lookup(tensor); }
  bool isUpdate(sched::StepOp step);

  func::FuncOp function;
  SymbolTableCollection symbols;
  OpBuilder builder;
  sched::Queues queues;
  DenseMap<Value, Value> buffers;
  DenseMap<Value, Value> events;
  /// Events, and the queues that have waited for them.
  llvm::DenseSet<std::pair<Value, Attribute>> awaited;
  llvm::DenseSet<Attribute> used; ///< Queues.
  /// The loop that is open, and its queues.
  sched::BeginLoopOp loop;
  llvm::SetVector<QueueAttr> ofLoop;
  /// Of each event in a loop: that all queues are behind the loop.
  DenseMap<Value, Value> behind;
  /// The first queue that computes, in the slot of the last step.
  Place last;
  llvm::SmallSetVector<unsigned, 4> unchecked; ///< Results.
};
} // namespace

Value Bufferizer::allocate(Value tensor) {
  Value buffer = sched::AllocOp::create(
      builder, tensor.getLoc(), getBufferType(tensor.getType()), IntegerAttr());
  buffers[tensor] = buffer;
  return buffer;
}

void Bufferizer::bufferizeArguments() {
  Block &old = function.getBody().front();
  Block *body = new Block;
  function.getBody().push_back(body);
  for (BlockArgument argument : old.getArguments())
    buffers[argument] =
        body->addArgument(getBufferType(argument.getType()), argument.getLoc());
  builder.setInsertionPointToStart(body);
}

/// Events belong to an iteration: what was there before the loop is awaited in
/// front of it.
void Bufferizer::waitFor(QueueAttr queue, Value event) {
  if (Value end = behind.lookup(event)) {
    event = end;
    if (event.getDefiningOp<sched::RecordOp>().getQueue() == queue)
      return;
  }
  if (!awaited.insert({event, queue}).second)
    return;
  OpBuilder::InsertionGuard guard(builder);
  if (loop && event.getDefiningOp()->isBeforeInBlock(loop))
    builder.setInsertionPoint(loop);
  sched::WaitOp::create(builder, event.getLoc(), queue, event);
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

void Bufferizer::beginLoop(int64_t number) {
  loop = sched::BeginLoopOp::create(builder, function.getLoc(), number);
}

/// All queues meet at the end of an iteration: the next one finds its memory,
/// and what follows the loop all that it made.
void Bufferizer::endLoop() {
  auto type = sched::EventType::get(builder.getContext());
  Location loc = function.getLoc();
  auto meet = [&](ArrayRef<QueueAttr> early, ArrayRef<QueueAttr> late) {
    for (QueueAttr queue : early) {
      Value event = sched::RecordOp::create(builder, loc, type, queue);
      for (QueueAttr other : late)
        waitFor(other, event);
    }
  };
  QueueAttr first = last.queue;
  ofLoop.remove(first);
  meet(ofLoop.getArrayRef(), first);
  if (!ofLoop.empty())
    meet(first, ofLoop.getArrayRef());
  ofLoop.clear();
  sched::BeginLoopOp begin = loop;
  loop = {};
  sched::EndLoopOp::create(builder, loc, begin.getLoop());
  Value end = sched::RecordOp::create(builder, loc, type, first);
  for (auto record : function.getBody().back().getOps<sched::RecordOp>())
    if (begin->isBeforeInBlock(record) && record.getEvent() != end)
      behind[record.getEvent()] = end;
}

/// The next step is in this loop, or in none.
void Bufferizer::enterLoop(std::optional<int64_t> next) {
  if (loop && next == loop.getLoop())
    return;
  if (loop)
    endLoop();
  if (next)
    beginLoop(*next);
}

void Bufferizer::bufferize(sched::ZerosOp zeros, Place place) {
  int64_t alignment = sched::getDevice(function).getValueSpace().alignment;
  int64_t elements = 0;
  SmallVector<int64_t> offsets;
  Type element;
  for (Value value : zeros.getResults()) {
    auto type = cast<RankedTensorType>(value.getType());
    element = type.getElementType();
    int64_t width = sched::getElementBytes(element);
    offsets.push_back(elements);
    elements += llvm::alignTo(type.getNumElements() * width, alignment) / width;
  }
  Value all = sched::AllocOp::create(builder, zeros.getLoc(),
                                     MemRefType::get({elements}, element),
                                     IntegerAttr());
  for (auto [value, offset] : llvm::zip_equal(zeros.getResults(), offsets))
    buffers[value] = sched::ViewOp::create(
        builder, zeros.getLoc(), getBufferType(value.getType()), all, offset,
        builder.getArrayAttr({}), ArrayRef<int64_t>());
  sched::FillOp::create(builder, zeros.getLoc(), all, place.queue, place.stage,
                        place.strand, "zeros", 0, countBytes(all));
}

void Bufferizer::bufferize(sched::KeepOp keep, Place place) {
  Value kept = getBuffer(keep.getKept()), value = getBuffer(keep.getValue());
  if (kept != value)
    copy(value, kept, keep.getLoc(), "keep", place);
  buffers[keep.getResult()] = kept;
}

void Bufferizer::bufferize(spmd::CollectOp collect, Place place) {
  Value all = allocate(collect.getResult());
  MemRefType type = getBufferType(collect.getInput().getType());
  Value own = sched::ViewOp::create(builder, collect.getLoc(), type, all, 0,
                                    builder.getArrayAttr({}),
                                    ArrayRef<int64_t>(), type.getNumElements());
  copy(getBuffer(collect.getInput()), own, collect.getLoc(), "collect", place);
}

/// Whether `op` is of what loops carry.
bool Bufferizer::bufferizeCarried(Operation *op, Place place) {
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case<sched::ZerosOp, sched::KeepOp, spmd::CollectOp>([&](auto carried) {
        bufferize(carried, place);
        return true;
      })
      .Default(false);
}

/// Whether one command reads what lies in the buffer of `value`. What keeps a
/// sum in the memory of one of its terms does not read it.
static bool isReadOnce(Value value) {
  auto users = llvm::make_filter_range(value.getUsers(), [](Operation *user) {
    return !isa<sched::KeepOp>(user);
  });
  Operation *maker = value.getDefiningOp();
  if (!maker || !llvm::hasSingleElement(users))
    return false;
  if (auto step = dyn_cast<sched::StepOp>(maker))
    return isReadOnce(step.getBody().front().getTerminator()->getOperand(
        cast<OpResult>(value).getResultNumber()));
  return !isFreeView(maker) || isReadOnce(maker->getOperand(0));
}

/// Whether each call finds a value of its own, or what it left there: not where
/// all iterations read what was made before their loop.
static bool isOfCall(Value value, func::CallOp call) {
  auto maker = value.getDefiningOp<sched::StepOp>();
  return !maker ||
         spmd::getLoop(maker) ==
             spmd::getLoop(call->getParentOfType<sched::StepOp>()) ||
         llvm::any_of(value.getUsers(), llvm::IsaPred<sched::KeepOp>);
}

/// The buffer of what the kernel adds rows to for this result, if nothing needs
/// it any more.
Value Bufferizer::findBase(func::CallOp call, func::FuncOp kernel,
                           unsigned result) {
  Value made = kernel.front().getTerminator()->getOperand(result);
  auto sum = getRowSum(made.getDefiningOp());
  auto base = sum ? dyn_cast<BlockArgument>(sum->base) : BlockArgument();
  if (!base || !mayAlias(kernel, base.getArgNumber(), result))
    return {};
  Value operand = call.getOperand(base.getArgNumber());
  return isReadOnce(operand) && isOfCall(operand, call) ? getBuffer(operand)
                                                        : Value();
}

/// What an operator makes in its step, if a step makes it.
static Operation *getMaker(Value value) {
  auto step = value.getDefiningOp<sched::StepOp>();
  return step ? step.getBody()
                    .front()
                    .getTerminator()
                    ->getOperand(cast<OpResult>(value).getResultNumber())
                    .getDefiningOp()
              : value.getDefiningOp();
}

/// The copy to the host that alone reads what `value` is outside of its step.
static Operation *findSend(Value value) {
  if (!value.hasOneUse() || !isa<sched::YieldOp>(*value.user_begin()))
    return nullptr;
  auto step = value.getParentBlock()->getParentOp();
  Value made = step->getResult(value.use_begin()->getOperandNumber());
  if (!made.hasOneUse())
    return nullptr;
  return dyn_cast<sched::ToHostOp>(*made.user_begin());
}

/// The copy, on the device, of the argument that this result updates, if the
/// argument lies on the host and the kernel may write in place.
Value Bufferizer::findFetched(func::CallOp call, func::FuncOp kernel,
                              unsigned result) {
  Operation *sent = findSend(call.getResult(result));
  Value updated = sent ? findUpdated(sent) : Value();
  if (!updated)
    return {};
  for (auto [index, operand] : llvm::enumerate(call.getOperands())) {
    auto fetch = dyn_cast_or_null<sched::FromHostOp>(getMaker(operand));
    if (fetch && getBuffer(fetch.getValue()) == updated &&
        isReadOnce(operand) && mayAlias(kernel, index, result))
      return getBuffer(operand);
  }
  return {};
}

void Bufferizer::bufferize(func::CallOp call, Place place) {
  auto kernel =
      symbols.lookupNearestSymbolFrom<func::FuncOp>(call, call.getCalleeAttr());
  SmallVector<Value> inputs, outputs;
  for (Value operand : call.getOperands())
    inputs.push_back(getBuffer(operand));
  int64_t bytes = countTraffic(kernel);
  for (auto [index, result] : llvm::enumerate(call.getResults())) {
    Value base = findBase(call, kernel, index);
    if (base)
      bytes -= countUntouched(kernel, index);
    else
      base = findFetched(call, kernel, index);
    outputs.push_back(base ? buffers[result] = base : allocate(result));
  }
  sched::LaunchOp::create(
      builder, call.getLoc(), call.getCalleeAttr().getAttr(), inputs, outputs,
      place.queue, place.stage, place.strand,
      call->getAttrOfType<StringAttr>(sched::kLabelAttrName),
      countFlops(kernel), bytes);
}

/// The buffers of the results: new ones, or that of the operand which the first
/// overwrites.
SmallVector<Value>
Bufferizer::getDestinations(sched::LibraryCallOpInterface call) {
  SmallVector<Value> destinations;
  if (OpOperand *overwritten = call.getOverwritten())
    destinations.push_back(buffers[call->getResult(0)] =
                               getBuffer(overwritten->get()));
  for (Value result : call->getResults().drop_front(destinations.size()))
    destinations.push_back(allocate(result));
  return destinations;
}

void Bufferizer::bufferize(sched::LibraryCallOpInterface call, Place place) {
  SmallVector<Value> operands;
  for (Value operand : call->getOperands())
    operands.push_back(getBuffer(operand));
  Value workspace;
  if (int64_t bytes = call.getWorkspaceBytes())
    workspace = sched::AllocOp::create(
        builder, call->getLoc(), MemRefType::get({bytes}, builder.getI8Type()),
        IntegerAttr());
  call.buildCommand(builder, operands, getDestinations(call), workspace, place);
}

void Bufferizer::bufferizeCollective(Operation *op, Place place) {
  int64_t split = -1, concat = -1;
  if (auto scatter = dyn_cast<spmd::ReduceScatterOp>(op))
    split = scatter.getDim();
  else if (auto gather = dyn_cast<spmd::AllGatherOp>(op))
    concat = gather.getDim();
  else if (auto all = dyn_cast<spmd::AllToAllOp>(op)) {
    split = all.getSplitDim();
    concat = all.getConcatDim();
  }
  Value source = getBuffer(op->getOperand(0));
  StringRef label = op->getName().stripDialect();
  sched::CollectiveOp::create(
      builder, setOrigins(op->getLoc(), getOrigin(op->getResult(0))),
      *sched::symbolizeCollectiveKind(label), source,
      allocate(op->getResult(0)), op->getAttrOfType<ArrayAttr>("axes"), split,
      concat, place.queue, place.stage, place.strand, label, 0,
      countSentBytes(op));
}

/// The argument whose new value a copy to the host is, if the step returns it.
Value Bufferizer::findUpdated(Operation *op) {
  auto step = op->getParentOfType<sched::StepOp>();
  OpOperand &yielded = *op->getResult(0).use_begin();
  Value made = step.getValues()[yielded.getOperandNumber()];
  if (made.use_empty() || !isa<func::ReturnOp>(*made.user_begin()))
    return {};
  unsigned index = made.use_begin()->getOperandNumber();
  auto updated = nn::getUpdates(function.getResultAttrDict(index));
  return builder.getBlock()->getArgument(*updated);
}

void Bufferizer::bufferizeHostCopy(Operation *op, Place place) {
  Value source = getBuffer(op->getOperand(0)), copied = op->getResult(0);
  bool isSent = isa<sched::ToHostOp>(op);
  Value destination = isSent ? findUpdated(op) : Value();
  if (destination)
    buffers[copied] = destination;
  else
    destination = allocate(copied);
  if (isSent && destination.getDefiningOp())
    destination.getDefiningOp()->setAttr(sched::kHostBufferAttrName,
                                         builder.getUnitAttr());
  copy(source, destination, op->getLoc(), op->getName().stripDialect(), place);
}

void Bufferizer::bufferize(Operation *op, Place place) {
  place.strand = nn::getStrand(op).value_or(place.strand);
  if (auto call = dyn_cast<func::CallOp>(op))
    return bufferize(call, place);
  if (auto library = dyn_cast<sched::LibraryCallOpInterface>(op))
    return bufferize(library, place);
  if (bufferizeCarried(op, place))
    return;
  if (isFreeView(op)) {
    buffers[op->getResult(0)] =
        createView(builder, op, getBuffer(op->getOperand(0)));
    return;
  }
  if (sched::isHostCopy(op))
    return bufferizeHostCopy(op, place);
  bufferizeCollective(op, place);
}

bool Bufferizer::isUpdate(sched::StepOp step) {
  return llvm::any_of(step.getBody().front(), [](Operation &op) {
    return nn::getPass(&op) == nn::PassKind::Update;
  });
}

/// What is asked of a result of this role and type, if anything is.
static std::optional<sched::CheckKind> getCheckKind(nn::Role role, Type type) {
  if (role == nn::Role::Check)
    return sched::CheckKind::True;
  bool isFloat = isa<FloatType>(cast<RankedTensorType>(type).getElementType());
  if (role == nn::Role::Loss && isFloat)
    return sched::CheckKind::Finite;
  return std::nullopt;
}

/// Loss and checks, each once, as soon as it is known.
void Bufferizer::checkResults(Place place) {
  unchecked.remove_if(
      [&](unsigned index) { return checkResult(index, place); });
}

/// Whether nothing is left to be checked. Waits for the queue that made it.
bool Bufferizer::checkResult(unsigned index, Place place) {
  Value value = function.getBody().front().getTerminator()->getOperand(index);
  DictionaryAttr attributes = function.getResultAttrDict(index);
  auto role = nn::getRole(attributes).value_or(nn::Role::Output);
  auto kind = getCheckKind(role, value.getType());
  if (!kind)
    return true;
  Value buffer = getBuffer(value);
  if (!buffer)
    return false;
  if (auto step = value.getDefiningOp<sched::StepOp>();
      step && step.getQueue() != place.queue)
    waitFor(place.queue, events.lookup(step.getEvent()));
  StringRef name = nn::getTensorName(attributes);
  if (name.empty()) // edited by hand: the role says it as well
    name = stringifyRole(role);
  sched::CheckOp::create(builder, value.getLoc(), *kind, buffer, name,
                         place.queue, place.stage, place.strand,
                         ("check_" + stringifyCheckKind(*kind)).str(), 0,
                         countBytes(buffer));
  return true;
}

void Bufferizer::bufferize(sched::StepOp step) {
  enterLoop(spmd::getLoop(step));
  if (loop)
    ofLoop.insert(step.getQueue());
  Place place = {step.getQueue(), static_cast<int64_t>(step.getStage()),
                 static_cast<int64_t>(step.getStrand())};
  last.stage = place.stage;
  last.strand = place.strand;
  used.insert(place.queue);
  for (Value event : step.getAfter())
    waitFor(place.queue, events.lookup(event));
  if (place.queue.getRole() == QueueRole::Compute && isUpdate(step))
    checkResults(place);
  for (Operation &op : step.getBody().front().without_terminator())
    bufferize(&op, place);
  Operation *yield = step.getBody().front().getTerminator();
  for (auto [result, inner] :
       llvm::zip_equal(step.getValues(), yield->getOperands()))
    buffers[result] = getBuffer(inner);
  events[step.getEvent()] = sched::RecordOp::create(
      builder, step.getLoc(), step.getEvent().getType(), place.queue);
}

void Bufferizer::copy(Value source, Value destination, Location loc,
                      StringRef label, const Place &place) {
  sched::CopyOp::create(builder, loc, source, destination, place.queue,
                        place.stage, place.strand, label, 0,
                        2 * countBytes(source));
}

/// Everything before the copies at the end is done, on all queues that did
/// something: a thread that would only record an event is woken for nothing.
void Bufferizer::join() {
  auto type = sched::EventType::get(builder.getContext());
  for (unsigned i = 0; i < queues.size(); ++i)
    if (queues[i] != last.queue && used.contains(queues[i]))
      waitFor(last.queue, sched::RecordOp::create(builder, function.getLoc(),
                                                  type, queues[i]));
}

/// The place of result `index`, and the copy of its value into it.
Value Bufferizer::store(unsigned index, Value buffer, Location loc) {
  DictionaryAttr attributes = function.getResultAttrDict(index);
  std::string label = ("store " + nn::getTensorName(attributes)).str();
  Value place;
  if (std::optional<int64_t> updated = nn::getUpdates(attributes))
    place = builder.getBlock()->getArgument(*updated);
  else
    place = sched::ResultOp::create(builder, loc, buffer.getType(), index);
  if (place != buffer)
    copy(buffer, place, loc, label, last);
  return place;
}

/// Results that are other arguments are saved before any argument is written.
void Bufferizer::storeResults(Operation *terminator) {
  SmallVector<Value> values, places;
  for (auto [index, tensor] : llvm::enumerate(terminator->getOperands())) {
    Value buffer = getBuffer(tensor), root = buffer;
    while (auto view = root.getDefiningOp<sched::ViewOp>())
      root = view.getSource();
    auto updated = nn::getUpdates(function.getResultAttrDict(index));
    auto argument = dyn_cast<BlockArgument>(root);
    if (argument && updated && *updated != argument.getArgNumber()) {
      Value saved = sched::AllocOp::create(builder, tensor.getLoc(),
                                           cast<MemRefType>(buffer.getType()),
                                           IntegerAttr());
      copy(buffer, saved, tensor.getLoc(), "save", last);
      buffer = saved;
    }
    values.push_back(buffer);
  }
  // Results with a buffer of their own first: they may read arguments.
  places.resize(values.size());
  for (bool updates : {false, true})
    for (auto [index, value] : llvm::enumerate(values))
      if (nn::getUpdates(function.getResultAttrDict(index)).has_value() ==
          updates)
        places[index] =
            store(index, value, terminator->getOperand(index).getLoc());
  func::ReturnOp::create(builder, terminator->getLoc(), places);
}

/// Whether what is copied to the host is read by copies from there, or the new
/// value of an argument.
static LogicalResult verifySent(Operation *op) {
  auto function = op->getParentOfType<func::FuncOp>();
  auto step = op->getParentOfType<sched::StepOp>();
  Value made;
  if (op->hasOneUse())
    if (OpOperand &use = *op->use_begin(); isa<sched::YieldOp>(use.getOwner()))
      made = step.getValues()[use.getOperandNumber()];
  if (made && llvm::all_of(made.getUsers(), llvm::IsaPred<sched::FromHostOp>))
    return success();
  if (made && made.hasOneUse())
    if (OpOperand &use = *made.use_begin(); isa<func::ReturnOp>(use.getOwner()))
      if (auto updated = nn::getUpdates(
              function.getResultAttrDict(use.getOperandNumber()));
          updated && spmd::isOnHost(function, *updated))
        return success();
  return op->emitError("is copied to the host, expected what is copied back, "
                       "or the new value of an argument that lies there");
}

/// Whether `bufferize` knows the operator.
static LogicalResult verifyOperator(Operation *op,
                                    SymbolTableCollection &symbols) {
  if (isa<sched::LibraryCallOpInterface, spmd::AllReduceOp, spmd::AllGatherOp,
          spmd::ReduceScatterOp, spmd::AllToAllOp, sched::ZerosOp,
          sched::KeepOp, spmd::CollectOp, sched::FromHostOp>(op) ||
      isFreeView(op))
    return success();
  if (isa<sched::ToHostOp>(op))
    return verifySent(op);
  auto call = dyn_cast<func::CallOp>(op);
  if (!call)
    return op->emitError("operator '")
           << op->getName()
           << "' is not in a kernel (see --tandem-outline-kernels)";
  auto kernel =
      symbols.lookupNearestSymbolFrom<func::FuncOp>(call, call.getCalleeAttr());
  if (!kernel.isExternal())
    return success();
  return op->emitError("calls @")
         << call.getCallee() << ", which has no body, expected a kernel";
}

static LogicalResult verifyOperators(func::FuncOp function) {
  SymbolTableCollection symbols;
  for (auto step : function.getOps<sched::StepOp>())
    for (Operation &op : step.getBody().front().without_terminator())
      if (failed(verifyOperator(&op, symbols)))
        return failure();
  return success();
}

void Bufferizer::run() {
  for (unsigned i = 0, e = function.getNumResults(); i < e; ++i)
    unchecked.insert(i);
  bufferizeArguments();
  Block &old = function.getBody().front();
  for (auto step : old.getOps<sched::StepOp>())
    bufferize(step);
  enterLoop(std::nullopt);
  join();
  checkResults(last);
  storeResults(old.getTerminator());
  Block &body = function.getBody().back();
  FunctionType type = builder.getFunctionType(
      body.getArgumentTypes(), body.getTerminator()->getOperandTypes());
  old.dropAllDefinedValueUses();
  old.erase();
  function.setType(type);
  for (auto record :
       llvm::make_early_inc_range(function.getOps<sched::RecordOp>()))
    if (record->use_empty())
      record->erase();
}

namespace {
struct BufferizePass : impl::BufferizeBase<BufferizePass> {
  void runOnOperation() override {
    func::FuncOp function = getStepFunction(getOperation());
    if (!function || failed(verifySteps(function)) ||
        failed(verifyOperators(function)))
      return signalPassFailure();
    Bufferizer(function).run();
  }
};
} // namespace

} // namespace tandem::lower
