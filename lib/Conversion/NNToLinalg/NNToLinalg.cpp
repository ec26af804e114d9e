//===- NNToLinalg.cpp - nn operators as linalg.generic --------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Conversion/NNToLinalg/NNToLinalg.h"
#include "Generics.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Pass/PassRegistry.h"
#include "tandem/Analysis/Lookups.h"
#include "tandem/Analysis/StepBody.h"
#include "tandem/Dialect/NN/Site.h"
#include "llvm/ADT/TypeSwitch.h"

namespace tandem {
#define GEN_PASS_DEF_NNTOLINALGPASS
#include "tandem/Conversion/NNToLinalg/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

/// The splat value of a constant.
static TypedAttr getSplat(Value value) {
  auto constant = value.getDefiningOp<nn::ConstantOp>();
  if (!constant)
    return {};
  auto dense = dyn_cast<SplatElementsAttr>(constant.getValue());
  return dense ? cast<TypedAttr>(dense.getSplatValue<Attribute>())
               : TypedAttr();
}

namespace {
/// Arithmetic in a kernel, which is told ordinals with each launch.
struct KernelScalar : nn::Scalar {
  using Scalar::Scalar;
  Value getOrdinal(int64_t ordinal) override {
    return func::CallOp::create(b, loc, kLaunchOrdinalName, b.getI64Type(),
                                Scalar::getOrdinal(ordinal))
        .getResult(0);
  }
};
} // namespace

LogicalResult Generics::convertElementwise(Operation *op) {
  // A splat is written where it is used, for later folding.
  SmallVector<Value> inputs;
  SmallVector<TypedAttr> splats;
  for (Value operand : op->getOperands()) {
    splats.push_back(getSplat(operand));
    if (!splats.back())
      inputs.push_back(operand);
  }
  Value result = elementwise(op, inputs, [&](OpBuilder &b, ValueRange args) {
    SmallVector<Value> all;
    for (TypedAttr splat : splats) {
      Value value = splat ? arith::ConstantOp::create(b, op->getLoc(), splat)
                          : args.front();
      if (!splat)
        args = args.drop_front();
      all.push_back(splat ? widen(b, op->getLoc(), value) : value);
    }
    KernelScalar scalars(b, op->getLoc(), all.back().getType());
    return cast<nn::ScalarOpInterface>(op).emitScalar(scalars, all);
  });
  return replace(op, result);
}

LogicalResult Generics::convertExpand(nn::ExpandOp op) {
  Value result = elementwise(
      op, op.getInput(), [](OpBuilder &, ValueRange args) { return args[0]; });
  return replace(op, result);
}

LogicalResult Generics::convertConstant(nn::ConstantOp op) {
  TypedAttr splat = getSplat(op.getResult());
  if (!splat)
    return success();
  // Stays for `getSplat` of later users; other users read this.
  Value result = elementwise(op, {}, [&](OpBuilder &b, ValueRange) {
    Value value = arith::ConstantOp::create(b, op.getLoc(), splat);
    return widen(b, op.getLoc(), value);
  });
  op.getResult().replaceUsesWithIf(result, [](OpOperand &use) {
    return !use.getOwner()->hasTrait<nn::Broadcasting>();
  });
  return success();
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

/// The start of a maximum (`largest`) or a minimum.
static Value getExtreme(OpBuilder &b, Location loc, Type type, bool largest) {
  if (isa<FloatType>(type)) {
    double infinity = std::numeric_limits<double>::infinity();
    return constantScalar(b, loc, type, largest ? -infinity : infinity);
  }
  unsigned width = type.getIntOrFloatBitWidth();
  APInt value = width == 1 ? APInt(1, largest ? 0 : 1)
                : largest  ? APInt::getSignedMinValue(width)
                           : APInt::getSignedMaxValue(width);
  return arith::ConstantOp::create(b, loc, b.getIntegerAttr(type, value));
}

/// Combines an element with what has been reduced so far.
static Value combine(OpBuilder &b, Operation *op, Value element, Value sofar) {
  Location loc = op->getLoc();
  bool isFloat = isa<FloatType>(element.getType());
  bool isBool = element.getType().isInteger(1);
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case([&](nn::SumOp) -> Value {
        if (isFloat)
          return arith::AddFOp::create(b, loc, sofar, element);
        return arith::AddIOp::create(b, loc, sofar, element);
      })
      .Case([&](nn::ProdOp) -> Value {
        if (isFloat)
          return arith::MulFOp::create(b, loc, sofar, element);
        return arith::MulIOp::create(b, loc, sofar, element);
      })
      .Case([&](nn::MaxOp) -> Value {
        if (isFloat)
          return arith::MaximumFOp::create(b, loc, sofar, element);
        if (isBool)
          return arith::OrIOp::create(b, loc, sofar, element);
        return arith::MaxSIOp::create(b, loc, sofar, element);
      })
      .Default([&](Operation *) -> Value {
        if (isFloat)
          return arith::MinimumFOp::create(b, loc, sofar, element);
        if (isBool)
          return arith::AndIOp::create(b, loc, sofar, element);
        return arith::MinSIOp::create(b, loc, sofar, element);
      });
}

static Attribute getStart(OpBuilder &b, Operation *op, Type type) {
  Location loc = op->getLoc();
  Value start;
  if (isa<nn::MaxOp, nn::MinOp>(op))
    start = getExtreme(b, loc, type, isa<nn::MaxOp>(op));
  else
    start = constantScalar(b, loc, type, isa<nn::ProdOp>(op) ? 1 : 0);
  auto constant = start.getDefiningOp<arith::ConstantOp>();
  Attribute value = constant.getValue();
  constant.erase();
  return value;
}

LogicalResult Generics::convertReduction(Operation *op,
                                         ArrayRef<int64_t> dims) {
  Value input = op->getOperand(0), result = op->getResult(0);
  // Over dimensions of size 1 there is nothing to combine.
  if (cast<RankedTensorType>(input.getType()).getNumElements() ==
      cast<RankedTensorType>(result.getType()).getNumElements())
    return replace(op, nn::ReshapeOp::create(builder, op->getLoc(),
                                             result.getType(), input));
  Type computed = getComputeType(getElementType(input));
  auto type = cast<RankedTensorType>(result.getType()).clone(computed);
  SmallVector<Attribute> starts = {getStart(builder, op, computed)};
  Value reduced =
      reduce(op, input, dims, {type}, starts,
             [&](OpBuilder &b, Value element, ValueRange sofar) {
               return SmallVector<Value>{combine(b, op, element, sofar[0])};
             })
          .front();
  return replace(op, round(op->getLoc(), reduced, result.getType()));
}

LogicalResult Generics::convertArgmax(nn::ArgmaxOp op) {
  Location loc = op.getLoc();
  Value input = op.getInput();
  int64_t dim = op.getDim();
  Type computed = getComputeType(getElementType(input));
  auto type = cast<RankedTensorType>(op.getResult().getType());
  if (getShape(input)[dim] == 1)
    return replace(op,
                   generic(loc, {}, {}, type, [&](OpBuilder &b, ValueRange) {
                     return constantScalar(b, loc, b.getI64Type(), 0);
                   }));
  Value extreme = getExtreme(builder, loc, computed, /*largest=*/true);
  auto constant = extreme.getDefiningOp<arith::ConstantOp>();
  SmallVector<Attribute> starts = {constant.getValue(),
                                   builder.getI64IntegerAttr(0)};
  constant.erase();
  auto body = [&](OpBuilder &b, Value element, ValueRange sofar) {
    Value position = getPosition(b, loc, dim);
    Value better;
    if (isa<FloatType>(computed)) {
      // The first NaN wins over all numbers.
      Value larger = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UGT,
                                           element, sofar[0]);
      Value number = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::ORD,
                                           sofar[0], sofar[0]);
      better = arith::AndIOp::create(b, loc, larger, number);
    } else {
      auto predicate = computed.isInteger(1) ? arith::CmpIPredicate::ugt
                                             : arith::CmpIPredicate::sgt;
      better = arith::CmpIOp::create(b, loc, predicate, element, sofar[0]);
    }
    return SmallVector<Value>{
        arith::SelectOp::create(b, loc, better, element, sofar[0]),
        arith::SelectOp::create(b, loc, better, position, sofar[1])};
  };
  SmallVector<Value> results =
      reduce(op, input, dim, {type.clone(computed), type}, starts, body);
  return replace(op, results[1]);
}

//===----------------------------------------------------------------------===//
// Dispatch
//===----------------------------------------------------------------------===//

LogicalResult Generics::convert(Operation *op) {
  builder.setInsertionPoint(op);
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case<nn::ReshapeOp, spmd::CoordinateOp, func::ReturnOp>(
          [](auto) { return success(); })
      .Case([&](nn::ConstantOp constant) { return convertConstant(constant); })
      .Case([&](nn::ExpandOp expand) { return convertExpand(expand); })
      .Case<nn::SumOp, nn::MaxOp, nn::MinOp, nn::ProdOp>([&](auto reduction) {
        return convertReduction(reduction, reduction.getDims());
      })
      .Case([&](nn::ArgmaxOp argmax) { return convertArgmax(argmax); })
      .Case([&](nn::IotaOp iota) { return convertIota(iota); })
      .Case([&](nn::PermuteOp permute) { return convertPermute(permute); })
      .Case([&](nn::PieceOpInterface piece) { return convertPiece(piece); })
      .Case([&](nn::ScalarOpInterface) {
        return getRowSum(op) ? success() : convertElementwise(op);
      })
      .Case([&](nn::PadOp pad) { return convertPad(pad); })
      .Case([&](nn::CatOp cat) { return convertCat(cat); })
      .Case([&](nn::EmbeddingOp lookup) { return convertEmbedding(lookup); })
      .Case([&](nn::GatherOp gather) { return convertGather(gather); })
      .Case([&](spmd::LocalSliceOp slice) { return convertLocalSlice(slice); })
      .Case([&](spmd::KeepFirstOp keep) { return convertKeepFirst(keep); })
      .Default([](Operation *other) -> LogicalResult {
        if (other->hasTrait<nn::OwnLoops>())
          return success();
        return other->emitOpError("has no kernel");
      });
}

/// A function that bodies call, of numbers.
static void declare(func::FuncOp function, StringRef name, unsigned numInputs,
                    unsigned numResults) {
  auto module = function->getParentOfType<ModuleOp>();
  if (module.lookupSymbol(name))
    return;
  OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
  SmallVector<Type> inputs(numInputs, builder.getI64Type());
  SmallVector<Type> results(numResults, builder.getI64Type());
  func::FuncOp::create(builder, function.getLoc(), name,
                       builder.getFunctionType(inputs, results))
      .setPrivate();
}

int64_t tandem::getSite(Operation *op) {
  return op->getAttrOfType<IntegerAttr>(nn::kSiteAttrName).getInt();
}

static void numberSites(ArrayRef<Operation *> ops) {
  int64_t next = 0;
  for (Operation *op : ops)
    if (readsIndices(op))
      op->setAttr(nn::kSiteAttrName, Builder(op).getI64IntegerAttr(next++));
}

std::vector<int64_t> tandem::numberOrdinals(func::FuncOp function) {
  std::vector<int64_t> ordinals;
  function.walk([&](nn::PhiloxOp op) {
    int64_t ordinal = op.getOrdinal();
    auto place = llvm::find(ordinals, ordinal);
    op.setOrdinal(place - ordinals.begin());
    if (place == ordinals.end())
      ordinals.push_back(ordinal);
  });
  return ordinals;
}

LogicalResult tandem::convertNNToLinalg(func::FuncOp function) {
  SmallVector<Operation *> ops;
  for (Operation &op : function.front())
    ops.push_back(&op);
  numberSites(ops);
  numberOrdinals(function);
  if (llvm::any_of(ops, llvm::IsaPred<nn::EmbeddingOp, nn::GatherOp>))
    declare(function, kReportIndexName, 3, 0);
  if (llvm::any_of(ops, llvm::IsaPred<nn::PhiloxOp>))
    declare(function, kLaunchOrdinalName, 1, 1);
  Generics generics(function);
  for (Operation *op : ops)
    if (failed(generics.convert(op)))
      return failure();
  for (Operation &op :
       llvm::make_early_inc_range(llvm::reverse(function.front())))
    if (isOpTriviallyDead(&op))
      op.erase();
  return success();
}

namespace {
struct NNToLinalgPass : tandem::impl::NNToLinalgPassBase<NNToLinalgPass> {
  void getDependentDialects(DialectRegistry &registry) const override {
    registry
        .insert<arith::ArithDialect, func::FuncDialect, linalg::LinalgDialect,
                math::MathDialect, scf::SCFDialect, tensor::TensorDialect>();
  }
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal() && (failed(verifyStepBody(function)) ||
                                     failed(convertNNToLinalg(function))))
        return signalPassFailure();
  }
};
} // namespace

void tandem::registerNNToLinalg() {
  registerPass(createDecomposeNNPass);
  registerPass(createNNToLinalgPass);
}
