//===- OutlineKernels.cpp - groups of operators become kernels ------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Steps.h"
#include "mlir/IR/IRMapping.h"
#include "tandem/Analysis/FreeViews.h"
#include "tandem/Analysis/Fusion.h"
#include "tandem/Analysis/Lookups.h"
#include "tandem/Analysis/Origins.h"
#include "tandem/Conversion/Lower/Lower.h"
#include "tandem/Dialect/NN/NN.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;

namespace tandem::lower {

#define GEN_PASS_DEF_OUTLINEKERNELS
#include "tandem/Conversion/Lower/Passes.h.inc"

namespace {
/// A call that takes the place of a group.
struct Outlined {
  func::FuncOp kernel;
  SmallVector<Value> inputs, outputs;
  std::string label;
};

/// Makes kernels, each text once.
class Outliner {
public:
  explicit Outliner(ModuleOp module) : module(module) {}
  void outline(sched::StepOp step);

private:
  Outlined outline(const FusionGroup &group, ArrayRef<FusionGroup> groups);
  func::FuncOp share(func::FuncOp kernel);

  ModuleOp module;
  llvm::StringMap<func::FuncOp> kernels;
};
} // namespace

/// Drops what differs between equal kernels: source lines, ids, strands.
static void strip(func::FuncOp kernel) {
  Location unknown = UnknownLoc::get(kernel.getContext());
  auto nothing = DictionaryAttr::get(kernel.getContext());
  kernel->setLoc(unknown);
  Block &body = kernel.getBody().front();
  for (BlockArgument argument : body.getArguments())
    argument.setLoc(unknown);
  for (Operation &op : body) {
    op.setLoc(unknown);
    op.setDiscardableAttrs(nothing);
  }
}

/// `kernel`, or an equal one that is there already.
func::FuncOp Outliner::share(func::FuncOp kernel) {
  strip(kernel);
  kernel->setAttr(sched::kKernelAttrName, UnitAttr::get(kernel.getContext()));
  std::string text;
  llvm::raw_string_ostream os(text);
  kernel.print(os, OpPrintingFlags().enableDebugInfo(false).useLocalScope());
  auto [it, isNew] = kernels.try_emplace(text, kernel);
  if (isNew)
    kernel.setName("kernel_" + std::to_string(kernels.size() - 1));
  else
    kernel.erase();
  return it->second;
}

/// `gelu`, or `mul+sum+add` for several operators in the order in which they
/// first come.
static std::string getLabel(const FusionGroup &group) {
  constexpr unsigned kMost = 6;
  llvm::SmallSetVector<StringRef, 8> names;
  for (Operation *op : group.ops)
    if (!spmd::isSource(op))
      names.insert(op->getName().stripDialect());
  if (names.empty())
    names.insert(group.ops.front()->getName().stripDialect());
  std::string label =
      llvm::join(ArrayRef(names.getArrayRef()).take_front(kMost), "+");
  return names.size() > kMost ? label + "+..." : label;
}

Outlined Outliner::outline(const FusionGroup &group,
                           ArrayRef<FusionGroup> groups) {
  Outlined outlined;
  outlined.inputs = getGroupInputs(group);
  outlined.outputs = getGroupOutputs(group, groups);
  outlined.label = getLabel(group);
  if (!outlined.outputs.empty())
    outlined.kernel = share(outlineGroup(group, outlined.inputs,
                                         outlined.outputs, module, "kernel"));
  return outlined;
}

/// The places of a group's operators, the last one first.
static Location getPlaces(const FusionGroup &group) {
  SmallVector<Location> places = {group.ops.back()->getLoc()};
  for (Operation *op : group.ops)
    if (!spmd::isSource(op))
      places.push_back(op->getLoc());
  return FusedLoc::get(places, {}, places.front().getContext());
}

static void createCall(Operation *before, const FusionGroup &group,
                       const Outlined &outlined,
                       llvm::DenseMap<Value, Value> &results) {
  OpBuilder builder(before);
  SmallVector<Value> inputs;
  for (Value input : outlined.inputs)
    inputs.push_back(results.lookup_or(input, input));
  auto origins = llvm::map_to_vector(outlined.outputs, getOrigin);
  Location location =
      setOrigins(addSites(getPlaces(group), group.ops), origins);
  auto call = func::CallOp::create(builder, location, outlined.kernel, inputs);
  Operation *last = group.ops.back();
  call->setDiscardableAttrs(last->getDiscardableAttrDictionary());
  call->setAttr(sched::kLabelAttrName, builder.getStringAttr(outlined.label));
  for (auto [output, result] :
       llvm::zip_equal(outlined.outputs, call.getResults()))
    results[output] = result;
}

static int64_t getSize(Value value) {
  return cast<RankedTensorType>(value.getType()).getNumElements();
}

static int64_t getBits(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  return type.getNumElements() * type.getElementTypeBitWidth();
}

/// Whether a library reads the value in the backward pass: it is held until
/// then, whoever else reads it.
static bool isHeldForLibrary(Value value) {
  return llvm::any_of(value.getUsers(), [](Operation *user) {
    return isa<sched::LibraryCallOpInterface>(user) &&
           nn::getPass(user) == nn::PassKind::Backward;
  });
}

using Bases = llvm::DenseMap<Value, Value>;

/// The value of the forward pass for hardly more than which an operator of the
/// backward pass asks: of x for 2 x of a square, for x (1 - x) of a sigmoid, or
/// for where the input of a product is 0. It would be in the kernel that makes
/// x, and be held beside it until then. `bases` are those of operands that are
/// made again themselves.
static Value findBase(Operation *op, const Bases &bases) {
  if (nn::getPass(op) != nn::PassKind::Backward ||
      !op->hasTrait<nn::CostsALoad>() || !op->hasTrait<nn::Broadcasting>())
    return {};
  Value large;
  for (Value operand : op->getOperands()) {
    if (getSize(operand) == 1 && getSize(op->getResult(0)) > 1)
      continue;
    Value base = bases.lookup_or(operand, operand);
    if (large && large != base)
      return {};
    large = base;
  }
  Operation *producer = large ? large.getDefiningOp() : nullptr;
  bool isHardlyMore = producer &&
                      nn::getPass(producer) == nn::PassKind::Forward &&
                      (getBits(large) <= getBits(op->getResult(0)) ||
                       isHeldForLibrary(large)) &&
                      llvm::all_of(op->getUsers(), [](Operation *user) {
                        return user->hasTrait<nn::Broadcasting>();
                      });
  return isHardlyMore ? large : Value();
}

static void makeAgain(sched::StepOp step) {
  Bases bases;
  for (Operation &op : step.getBody().front())
    if (Value base = findBase(&op, bases)) {
      op.setAttr(sched::kAgainAttrName, UnitAttr::get(op.getContext()));
      bases[op.getResult(0)] = base;
    }
}

static bool isKernel(const FusionGroup &group) {
  return group.kind == FusionGroup::Kind::Kernel &&
         !(group.ops.size() == 1 && isFreeView(group.ops.front()));
}

void Outliner::outline(sched::StepOp step) {
  Operation *yield = step.getBody().front().getTerminator();
  makeAgain(step);
  SmallVector<FusionGroup> groups =
      formFusionGroups(step.getBody().front(), sched::getDevice(step).fusion);
  // All kernels first: afterwards groups read the results of calls.
  SmallVector<Outlined> outlined(groups.size());
  for (auto [group, result] : llvm::zip_equal(groups, outlined))
    if (isKernel(group))
      result = outline(group, groups);
  llvm::DenseMap<Value, Value> results;
  auto useResults = [&](Operation *op) {
    for (OpOperand &operand : op->getOpOperands())
      operand.set(results.lookup_or(operand.get(), operand.get()));
  };
  llvm::SetVector<Operation *> replaced;
  for (auto [group, call] : llvm::zip_equal(groups, outlined)) {
    if (call.kernel)
      createCall(yield, group, call, results);
    if (isKernel(group)) {
      replaced.insert(group.ops.begin(), group.ops.end());
      continue;
    }
    group.ops.front()->moveBefore(yield);
    useResults(group.ops.front());
  }
  useResults(yield);
  for (Operation *op : replaced)
    op->dropAllUses();
  for (Operation *op : replaced)
    op->erase();
}

/// Whether the step holds collectives, or copies of the host; moves of the comm
/// queue are kernels.
static bool communicates(sched::StepOp step) {
  if (step.getQueue().getRole() == sched::QueueRole::Copy)
    return true;
  return llvm::any_of(step.getBody().front(),
                      [](Operation &op) { return spmd::isCollective(&op); });
}

namespace {
struct OutlineKernelsPass : impl::OutlineKernelsBase<OutlineKernelsPass> {
  void runOnOperation() override {
    func::FuncOp function = getStepFunction(getOperation());
    if (!function || failed(verifySteps(function)))
      return signalPassFailure();
    Outliner outliner(getOperation());
    for (auto step : function.getOps<sched::StepOp>())
      if (!communicates(step))
        outliner.outline(step);
  }
};
} // namespace

} // namespace tandem::lower
