//===- VerifyStep.cpp - whether a module holds a training step ------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/NN/NN.h"
#include "tandem/Dialect/NN/Parts.h"
#include "tandem/Transforms/Import/Import.h"
#include "llvm/ADT/DenseMap.h"

using namespace mlir;
using tandem::nn::NNDialect;

static constexpr llvm::StringLiteral kArgumentRoles[] = {
    "parameter", "state", "buffer", "step", "seed", "learning_rate", "input"};
static constexpr llvm::StringLiteral kPasses[] = {"forward", "backward",
                                                  "update"};

namespace {
struct VerifyStepPass : PassWrapper<VerifyStepPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(VerifyStepPass)
  VerifyStepPass() = default;
  VerifyStepPass(const VerifyStepPass &other) : PassWrapper(other) {}
  explicit VerifyStepPass(bool isNumbered) { numbered = isNumbered; }

  StringRef getArgument() const override { return "tandem-verify-step"; }
  StringRef getDescription() const override {
    return "Checks that the module holds a training step";
  }
  void runOnOperation() override;

  Option<bool> numbered{*this, "numbered",
                        llvm::cl::desc("every operator has its own nn.id"),
                        llvm::cl::init(false)};

private:
  LogicalResult verifyArguments(func::FuncOp step);
  LogicalResult verifyResults(func::FuncOp step);
  LogicalResult verifyBody(func::FuncOp step);
  LogicalResult verifyOperator(Operation *op);
  LogicalResult verifyId(Operation *op);

  llvm::DenseMap<int64_t, Operation *> byId;
};
} // namespace

/// What a value of a step has to be and `type` is not; empty: it is. Later
/// stages divide by sizes, and multiply them in 64 bits.
static StringRef getWhatIsExpected(Type type) {
  constexpr int64_t kMaxElements = int64_t(1) << 48;
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape() || tensor.getEncoding())
    return "a tensor of static shape";
  int64_t elements = 1;
  for (int64_t size : tensor.getShape()) {
    if (size == 0)
      return "sizes of at least 1";
    if (size > kMaxElements / elements)
      return "at most 2^48 elements";
    elements *= size;
  }
  return "";
}

static std::string join(ArrayRef<llvm::StringLiteral> names) {
  std::string text;
  for (StringRef name : names)
    text += (text.empty() ? "" : ", ") + name.str();
  return text;
}

LogicalResult VerifyStepPass::verifyArguments(func::FuncOp step) {
  for (unsigned i = 0; i < step.getNumArguments(); ++i) {
    auto role = step.getArgAttrOfType<StringAttr>(i, NNDialect::kRoleAttrName);
    if (!role || !llvm::is_contained(kArgumentRoles, role.getValue()))
      return emitError(step.getLoc())
             << "argument " << i << " has the role '"
             << (role ? role.getValue() : StringRef(""))
             << "', expected one of " << join(kArgumentRoles);
    if (!step.getArgAttrOfType<StringAttr>(i, NNDialect::kNameAttrName))
      return emitError(step.getLoc())
             << "argument " << i << ", a " << role.getValue()
             << ", has no 'nn.name'";
    DictionaryAttr attributes = step.getArgAttrDict(i);
    if (attributes.contains(tandem::nn::kPartAttrName) &&
        !tandem::nn::getPart(attributes))
      return emitError(step.getLoc())
             << "argument " << i << " has the 'nn.part' "
             << attributes.get(tandem::nn::kPartAttrName)
             << ", expected name, shape, dim and offset in the whole";
    Type type = step.getArgumentTypes()[i];
    if (StringRef expected = getWhatIsExpected(type); !expected.empty())
      return emitError(step.getLoc()) << "argument " << i << " is a " << type
                                      << ", expected " << expected;
  }
  return success();
}

LogicalResult VerifyStepPass::verifyResults(func::FuncOp step) {
  llvm::DenseMap<int64_t, unsigned> updaters;
  for (unsigned i = 0; i < step.getNumResults(); ++i) {
    auto role =
        step.getResultAttrOfType<StringAttr>(i, NNDialect::kRoleAttrName);
    if (!role)
      return emitError(step.getLoc()) << "result " << i << " has no 'nn.role'";
    bool isOutput = role.getValue() == "loss" ||
                    role.getValue() == "gradient" ||
                    role.getValue() == "output";
    auto updates =
        step.getResultAttrOfType<IntegerAttr>(i, NNDialect::kUpdatesAttrName);
    if (!isOutput && !updates)
      return emitError(step.getLoc())
             << "result " << i << ", a " << role.getValue()
             << ", has no 'nn.updates': the argument whose new value it is";
    if (!updates)
      continue;
    auto [other, isNew] = updaters.try_emplace(updates.getInt(), i);
    if (!isNew)
      return emitError(step.getLoc()) << "results " << other->second << " and "
                                      << i << " both update argument "
                                      << updates.getInt() << ", expected one";
  }
  return success();
}

LogicalResult VerifyStepPass::verifyId(Operation *op) {
  auto id = op->getAttrOfType<IntegerAttr>(NNDialect::kIdAttrName);
  if (!id)
    return emitError(op->getLoc())
           << op->getName() << " has no 'nn.id': run the import stage first";
  auto [it, isNew] = byId.try_emplace(id.getInt(), op);
  if (isNew)
    return success();
  return emitError(op->getLoc())
         << op->getName() << " has the 'nn.id' " << id.getInt()
         << " of another operator, " << it->second->getName().getStringRef();
}

LogicalResult VerifyStepPass::verifyOperator(Operation *op) {
  if (!isa_and_nonnull<NNDialect>(op->getDialect()))
    return emitError(op->getLoc())
           << "operator '" << op->getName().getStringRef()
           << "' in a training step, expected operators of nn";
  for (Type type : op->getResultTypes())
    if (StringRef expected = getWhatIsExpected(type); !expected.empty())
      return emitError(op->getLoc()) << op->getName() << " gives a " << type
                                     << ", expected " << expected;
  auto pass = op->getAttrOfType<StringAttr>(NNDialect::kPassAttrName);
  if (!pass || !llvm::is_contained(kPasses, pass.getValue()))
    return emitError(op->getLoc())
           << op->getName() << " has the pass '"
           << (pass ? pass.getValue() : StringRef(""))
           << "' ('nn.pass'), expected one of " << join(kPasses);
  return numbered ? verifyId(op) : success();
}

LogicalResult VerifyStepPass::verifyBody(func::FuncOp step) {
  if (!step.getBody().hasOneBlock())
    return emitError(step.getLoc())
           << "the step has " << step.getBody().getBlocks().size()
           << " blocks, expected one";
  for (Operation &op : step.getBody().front().without_terminator())
    if (failed(verifyOperator(&op)))
      return failure();
  return success();
}

void VerifyStepPass::runOnOperation() {
  byId.clear();
  auto step = getOperation().lookupSymbol<func::FuncOp>("step");
  if (!step) {
    emitError(getOperation().getLoc())
        << "the module has no function @step, expected a training step";
    return signalPassFailure();
  }
  if (failed(verifyBody(step)) || failed(verifyArguments(step)) ||
      failed(verifyResults(step)))
    signalPassFailure();
}

std::unique_ptr<Pass> tandem::createVerifyStepPass(bool numbered) {
  return std::make_unique<VerifyStepPass>(numbered);
}
