//===- DecomposeNN.cpp - rows as reductions and elementwise operators -----===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/IR/Builders.h"
#include "tandem/Analysis/StepBody.h"
#include "tandem/Analysis/TensorType.h"
#include "tandem/Conversion/NNToLinalg/NNToLinalg.h"
#include "tandem/Dialect/NN/NN.h"
#include "llvm/ADT/TypeSwitch.h"

namespace tandem {
#define GEN_PASS_DEF_DECOMPOSENNPASS
#include "tandem/Conversion/NNToLinalg/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;

namespace {

/// Writes nn operators at one place. Values are in the type in which the
/// operator is computed.
class Writer {
public:
  explicit Writer(Operation *op)
      : builder(op), loc(op->getLoc()),
        stored(getTensorType(op->getOperand(0)).getElementType()),
        computed(stored.isF64() ? stored : builder.getF32Type()) {}

  static ArrayRef<int64_t> getShape(Value value) {
    return getTensorType(value).getShape();
  }

  Value load(Value value) { return convert(value, computed); }
  /// Replaces `result` by `value`, rounded to the result's type.
  void replace(Value result, Value value) {
    result.replaceAllUsesWith(
        convert(value, getTensorType(result).getElementType()));
  }

  Value constant(double value) {
    auto type = RankedTensorType::get({}, computed);
    auto attr = DenseElementsAttr::get(
        type, Attribute(builder.getFloatAttr(computed, value)));
    return nn::ConstantOp::create(builder, loc, type, attr);
  }
  template <typename OpTy> Value unary(Value input) {
    return OpTy::create(builder, loc, input.getType(), input);
  }
  template <typename OpTy> Value binary(Value lhs, Value rhs) {
    return OpTy::create(builder, loc, broadcast(lhs, rhs), lhs, rhs);
  }
  Value add(Value lhs, Value rhs) { return binary<nn::AddOp>(lhs, rhs); }
  Value sub(Value lhs, Value rhs) { return binary<nn::SubOp>(lhs, rhs); }
  Value mul(Value lhs, Value rhs) { return binary<nn::MulOp>(lhs, rhs); }
  Value div(Value lhs, Value rhs) { return binary<nn::DivOp>(lhs, rhs); }

  /// `value`, or `other` where `value` equals `special`.
  Value replaceEqual(Value value, double special, double other) {
    auto type = getTensorType(value).clone(builder.getI1Type());
    Value equal = nn::CompareOp::create(builder, loc, type, value,
                                        constant(special), nn::Predicate::Eq);
    return nn::SelectOp::create(builder, loc, value.getType(), equal,
                                constant(other), value);
  }

  template <typename OpTy>
  Value reduce(Value input, ArrayRef<int64_t> dims, bool keepdim) {
    SmallVector<int64_t> shape;
    for (auto [dim, size] : llvm::enumerate(getShape(input))) {
      if (!llvm::is_contained(dims, static_cast<int64_t>(dim)))
        shape.push_back(size);
      else if (keepdim)
        shape.push_back(1);
    }
    auto type = RankedTensorType::get(shape, computed);
    return OpTy::create(builder, loc, type, input, dims, keepdim);
  }
  Value sum(Value input, ArrayRef<int64_t> dims, bool keepdim = true) {
    return reduce<nn::SumOp>(input, dims, keepdim);
  }

private:
  Value convert(Value value, Type element) {
    if (getTensorType(value).getElementType() == element)
      return value;
    return nn::ConvertOp::create(builder, loc,
                                 getTensorType(value).clone(element), value);
  }
  RankedTensorType broadcast(Value lhs, Value rhs) {
    ArrayRef<int64_t> longer = getShape(lhs), shorter = getShape(rhs);
    if (longer.size() < shorter.size())
      std::swap(longer, shorter);
    SmallVector<int64_t> shape(longer);
    size_t lead = longer.size() - shorter.size();
    for (size_t i = 0; i < shorter.size(); ++i)
      shape[lead + i] = std::max(shape[lead + i], shorter[i]);
    return RankedTensorType::get(shape, computed);
  }

  OpBuilder builder;
  Location loc;
  Type stored, computed;
};

} // namespace

//===----------------------------------------------------------------------===//
// Softmax
//===----------------------------------------------------------------------===//

static void decompose(nn::SoftmaxOp op) {
  Writer w(op);
  int64_t dim = op.getDim();
  Value x = w.load(op.getInput());
  Value max = w.reduce<nn::MaxOp>(x, dim, /*keepdim=*/true);
  // In a row that is all -inf, x - max is NaN, and so is the result; a safe
  // softmax keeps it at -inf, and its sum, which has no terms, at 1.
  if (op.getSafe())
    max = w.replaceEqual(max, -std::numeric_limits<double>::infinity(), 0.0);
  Value e = w.unary<nn::ExpOp>(w.sub(x, max));
  Value sum = w.sum(e, dim);
  if (op.getSafe())
    sum = w.replaceEqual(sum, 0.0, 1.0);
  w.replace(op.getResult(), w.mul(e, w.unary<nn::ReciprocalOp>(sum)));
}

static void decompose(nn::LogSoftmaxOp op) {
  Writer w(op);
  int64_t dim = op.getDim();
  Value x = w.load(op.getInput());
  Value max = w.reduce<nn::MaxOp>(x, dim, /*keepdim=*/true);
  Value shifted = w.sub(x, max);
  Value sum = w.sum(w.unary<nn::ExpOp>(shifted), dim);
  w.replace(op.getResult(), w.sub(shifted, w.unary<nn::LogOp>(sum)));
}

static void decompose(nn::SoftmaxBackwardOp op) {
  Writer w(op);
  Value dy = w.load(op.getGrad()), y = w.load(op.getOutput());
  Value sum = w.sum(w.mul(dy, y), op.getDim());
  w.replace(op.getResult(), w.mul(y, w.sub(dy, sum)));
}

static void decompose(nn::LogSoftmaxBackwardOp op) {
  Writer w(op);
  Value dy = w.load(op.getGrad()), y = w.load(op.getOutput());
  Value sum = w.sum(dy, op.getDim());
  w.replace(op.getResult(), w.sub(dy, w.mul(w.unary<nn::ExpOp>(y), sum)));
}

//===----------------------------------------------------------------------===//
// Layer normalisation
//===----------------------------------------------------------------------===//

/// The last `count` dimensions of `value`, or those before them.
static SmallVector<int64_t> getDims(Value value, int64_t count, bool last) {
  int64_t rank = Writer::getShape(value).size();
  return last ? llvm::to_vector(llvm::seq(rank - count, rank))
              : llvm::to_vector(llvm::seq<int64_t>(0, rank - count));
}

static double getSize(Value value, ArrayRef<int64_t> dims) {
  double size = 1;
  for (int64_t dim : dims)
    size *= Writer::getShape(value)[dim];
  return size;
}

static void decompose(nn::LayerNormOp op) {
  Writer w(op);
  Value x = w.load(op.getInput());
  SmallVector<int64_t> dims = getDims(x, op.getNormalizedRank(), true);
  Value scale = w.constant(1.0 / getSize(x, dims));
  Value mean = w.mul(w.sum(x, dims), scale);
  Value centred = w.sub(x, mean);
  Value variance = w.mul(w.sum(w.mul(centred, centred), dims), scale);
  Value rstd = w.unary<nn::ReciprocalOp>(w.unary<nn::SqrtOp>(
      w.add(variance, w.constant(op.getEps().convertToDouble()))));
  Value y = w.mul(centred, rstd);
  if (!op.getAffine().empty())
    y = w.mul(y, w.load(op.getAffine()[0]));
  if (op.getAffine().size() > 1)
    y = w.add(y, w.load(op.getAffine()[1]));
  w.replace(op.getResult(), y);
  w.replace(op.getMean(), mean);
  w.replace(op.getRstd(), rstd);
}

static void decompose(nn::LayerNormBackwardOp op) {
  Writer w(op);
  Value dy = w.load(op.getGrad()), x = w.load(op.getInput());
  SmallVector<int64_t> dims = getDims(x, op.getNormalizedRank(), true);
  Value scale = w.constant(1.0 / getSize(x, dims));
  Value rstd = w.load(op.getRstd());
  Value normal = w.mul(w.sub(x, w.load(op.getMean())), rstd);
  Value g = dy;
  if (!op.getWeight().empty())
    g = w.mul(dy, w.load(op.getWeight()[0]));
  Value along = w.mul(w.sum(w.mul(g, normal), dims), scale);
  Value mean = w.mul(w.sum(g, dims), scale);
  Value dx = w.sub(w.sub(g, mean), w.mul(normal, along));
  w.replace(op.getGradients()[0], w.mul(rstd, dx));
  if (op.getGradients().size() < 3)
    return;
  SmallVector<int64_t> rows = getDims(x, op.getNormalizedRank(), false);
  w.replace(op.getGradients()[1], w.sum(w.mul(dy, normal), rows, false));
  w.replace(op.getGradients()[2], w.sum(dy, rows, false));
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

void tandem::decomposeNN(func::FuncOp function) {
  SmallVector<Operation *> compound;
  function.walk([&](Operation *op) {
    if (isa<nn::SoftmaxOp, nn::LogSoftmaxOp, nn::SoftmaxBackwardOp,
            nn::LogSoftmaxBackwardOp, nn::LayerNormOp, nn::LayerNormBackwardOp>(
            op))
      compound.push_back(op);
  });
  for (Operation *op : compound) {
    llvm::TypeSwitch<Operation *>(op)
        .Case<nn::SoftmaxOp, nn::LogSoftmaxOp, nn::SoftmaxBackwardOp,
              nn::LogSoftmaxBackwardOp, nn::LayerNormOp,
              nn::LayerNormBackwardOp>(
            [](auto concrete) { decompose(concrete); });
    op->erase();
  }
}

namespace {
struct DecomposeNNPass : tandem::impl::DecomposeNNPassBase<DecomposeNNPass> {
  void runOnOperation() override {
    if (failed(verifyStepBody(getOperation())))
      return signalPassFailure();
    decomposeNN(getOperation());
  }
};
} // namespace
