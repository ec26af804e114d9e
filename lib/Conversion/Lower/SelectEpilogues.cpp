//===- SelectEpilogues.cpp - products apply GELU, and sum biases' gradients
//===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A kernel for a function of a product reads and writes again what the product
// has just had in registers. Where a kernel reads the result in turn, it
// applies the function on the way, at no cost, and nothing is to be had.
//
//===----------------------------------------------------------------------===//

#include "ProductRows.h"
#include "Steps.h"
#include "tandem/Analysis/Lookups.h"
#include "tandem/Analysis/Origins.h"
#include "tandem/Conversion/Lower/Lower.h"

using namespace mlir;

namespace tandem::lower {

#define GEN_PASS_DEF_SELECTEPILOGUES
#include "tandem/Conversion/Lower/Passes.h.inc"

/// What divides rows of a pre-activation, for a library that takes it.
constexpr int64_t kRowMultiple = 8;

static bool isNarrow(Value value) {
  Type type = getElementTypeOrSelf(value.getType());
  return type.isF32() || type.isBF16();
}

/// `value` in the place and shape of what `op` makes.
static void replace(Operation *op, Value value, sched::MatmulOp product) {
  takeOrigin(value, op->getResult(0));
  OpBuilder builder(op->getContext());
  builder.setInsertionPointAfter(product);
  Value shaped = nn::ReshapeOp::create(builder, op->getLoc(),
                                       op->getResult(0).getType(), value);
  shaped.getDefiningOp()->setDiscardableAttrs(
      op->getDiscardableAttrDictionary());
  op->getResult(0).replaceAllUsesWith(shaped);
  op->erase();
}

//===----------------------------------------------------------------------===//
// GELU
//===----------------------------------------------------------------------===//

/// Whether anybody but `gelu` reads `value` or reshapes of it.
static bool isReadBeside(Value value, nn::GeluOp gelu) {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    if (isa<nn::ReshapeOp>(user))
      return isReadBeside(user->getResult(0), gelu);
    return user != gelu;
  });
}

/// The product of which, and of a bias, `input` is the sum; the bias is null
/// where it is the product itself.
static std::pair<sched::MatmulOp, Value> getBiased(Value input) {
  auto add = input.getDefiningOp<nn::AddOp>();
  if (!add)
    return {getRowsProduct(input, /*isOwn=*/false), Value()};
  for (auto [term, bias] : {std::pair(add.getLhs(), add.getRhs()),
                            std::pair(add.getRhs(), add.getLhs())})
    if (auto product = getRowsProduct(term, /*isOwn=*/true))
      if (term.getType() == add.getType() && isBiasOf(bias, product))
        return {product, bias};
  return {};
}

static void applyGelu(nn::GeluOp gelu) {
  Value input = skipReshapes(gelu.getInput());
  auto [product, bias] = getBiased(input);
  if (gelu.getApproximate() != nn::Approximate::Tanh || !product ||
      !isNarrow(input) || product->getBlock() != gelu->getBlock() ||
      !isForLibraries(gelu.getResult()))
    return;
  bool isKept = isReadBeside(input, gelu);
  if (isKept && product.getN() % kRowMultiple != 0)
    return;
  if (bias)
    product.getBiasMutable().assign(bias);
  product.setEpilogue(sched::Epilogue::Gelu);
  if (isKept) {
    product = product.keep(input.getType());
    // Without a bias that was the result.
    Value old = bias ? input : Value(product.getResult());
    takeOrigin(product.getKept(), old);
    old.replaceAllUsesExcept(product.getKept(), product);
  }
  replace(gelu, product.getResult(), product);
}

static bool canSum(Operation *op);

static void applyGradient(nn::GeluBackwardOp gradient) {
  auto product = getRowsProduct(gradient.getLhs(), /*isOwn=*/true);
  Value input = skipReshapes(gradient.getRhs());
  // Else a kernel would have to write it for the library.
  bool isLibrarys = input.getDefiningOp<sched::MatmulOp>() != nullptr;
  if (gradient.getApproximate() != nn::Approximate::Tanh || !product ||
      !isLibrarys || product.getN() % kRowMultiple != 0 ||
      !isNarrow(gradient.getResult()) ||
      gradient.getLhs().getType() != gradient.getRhs().getType() ||
      !isDoneBefore(input.getDefiningOp(), product) ||
      !isDoneBefore(product, gradient) ||
      !isForLibraries(gradient.getResult(), canSum))
    return;
  product.getPreActivationMutable().assign(input);
  product.setEpilogue(sched::Epilogue::GeluGradient);
  replace(gradient, product.getResult(), product);
}

//===----------------------------------------------------------------------===//
// Gradients of biases
//===----------------------------------------------------------------------===//

/// `op` if it makes f32 of bf16, which a library does on the way as well.
static nn::ConvertOp getWidening(Operation *op) {
  auto convert = dyn_cast_or_null<nn::ConvertOp>(op);
  bool isWidening = convert &&
                    getElementTypeOrSelf(convert.getInput()).isBF16() &&
                    getElementTypeOrSelf(convert.getResult()).isF32();
  return isWidening ? convert : nn::ConvertOp();
}

/// What `sum` adds up, behind reshapes and as it lies in memory.
static Value getSummed(nn::SumOp sum) {
  Value input = skipReshapes(sum.getInput());
  nn::ConvertOp widening = getWidening(input.getDefiningOp());
  return widening ? skipReshapes(widening.getInput()) : input;
}

/// The elements of a row that leading dimensions are summed to; none if others
/// are.
static std::optional<int64_t> getColumns(nn::SumOp sum) {
  auto type = cast<RankedTensorType>(sum.getInput().getType());
  int64_t leading = sum.getDims().size();
  if (!llvm::equal(sum.getDims(), llvm::seq(leading)))
    return std::nullopt;
  return ShapedType::getNumElements(type.getShape().drop_front(leading));
}

/// Whether `product`, which reads the same rows as `sum`, sums over them too;
/// the operand that they are.
static std::optional<sched::Summed> findSummed(sched::MatmulOp product,
                                               nn::SumOp sum, int64_t columns) {
  auto type = cast<RankedTensorType>(sum.getInput().getType());
  Value input = getSummed(sum);
  if (!product.getBatch().empty() || product.getBias() ||
      product.getEpilogue() != sched::Epilogue::None || product.getSums() ||
      static_cast<int64_t>(product.getK()) * columns != type.getNumElements() ||
      !product.getAlpha().isExactlyValue(1) ||
      getElementTypeOrSelf(product.getResult()) !=
          getElementTypeOrSelf(sum.getResult()))
    return std::nullopt;
  if (skipReshapes(product.getLhs()) == input && product.getOffsetA() == 0 &&
      static_cast<int64_t>(product.getM()) == columns &&
      product.getStridesA() == ArrayRef<int64_t>({1, columns}))
    return sched::Summed::Lhs;
  if (skipReshapes(product.getRhs()) == input && product.getOffsetB() == 0 &&
      static_cast<int64_t>(product.getN()) == columns &&
      product.getStridesB() == ArrayRef<int64_t>({columns, 1}))
    return sched::Summed::Rhs;
  return std::nullopt;
}

/// Whether who reads `sum` comes behind the product, which may be of an earlier
/// step, as steps end with products that collectives wait for.
static bool isInTime(sched::MatmulOp product, nn::SumOp sum) {
  if (product->getBlock() != sum->getBlock())
    return isDoneBefore(product, sum);
  return llvm::all_of(sum->getUsers(), [&](Operation *user) {
    return user->getBlock() != product->getBlock() ||
           product->isBeforeInBlock(user);
  });
}

/// The first product in time that sums over the same rows, and the operand that
/// they are.
static std::pair<sched::MatmulOp, sched::Summed> findProduct(nn::SumOp sum) {
  std::pair<sched::MatmulOp, sched::Summed> found;
  std::optional<int64_t> columns = getColumns(sum);
  SmallVector<Value> rows;
  if (columns)
    rows.push_back(getSummed(sum));
  while (!rows.empty())
    for (Operation *user : rows.pop_back_val().getUsers()) {
      if (isa<nn::ReshapeOp>(user))
        rows.push_back(user->getResult(0));
      auto product = dyn_cast<sched::MatmulOp>(user);
      if (!product || (found.first && isDoneBefore(found.first, product)))
        continue;
      auto summed = findSummed(product, sum, *columns);
      if (summed && isInTime(product, sum))
        found = {product, *summed};
    }
  return found;
}

/// Whether `op` sums over rows that a product sums over as well, or widens them
/// for such sums alone.
static bool canSum(Operation *op) {
  if (nn::ConvertOp widening = getWidening(op))
    return llvm::all_of(widening->getUsers(), [](Operation *user) {
      bool isView = isa<nn::ReshapeOp>(user);
      return isView ? llvm::all_of(user->getUsers(), canSum) : canSum(user);
    });
  auto sum = dyn_cast<nn::SumOp>(op);
  return sum && isNarrow(sum.getResult()) && findProduct(sum).first;
}

static void sumBeside(nn::SumOp sum) {
  Value input = getSummed(sum);
  if (!input.getDefiningOp<sched::LibraryCallOpInterface>() || !canSum(sum) ||
      !isForLibraries(input, canSum))
    return;
  auto [product, summed] = findProduct(sum);
  product.setSummed(summed);
  product = product.keep(RankedTensorType::get(
      {*getColumns(sum)}, product.getResult().getType().getElementType()));
  replace(sum, product.getSums(), product);
}

namespace {
struct SelectEpiloguesPass : impl::SelectEpiloguesBase<SelectEpiloguesPass> {
  void runOnOperation() override {
    if (!sched::getDevice(getOperation()).hasEpilogues)
      return;
    auto rewrite = [](func::FuncOp function) {
      rewriteEach<nn::GeluOp>(function, applyGelu);
      rewriteEach<nn::GeluBackwardOp>(function, applyGradient);
      rewriteEach<nn::SumOp>(function, sumBeside);
    };
    if (failed(rewriteSteps(getOperation(), rewrite)))
      signalPassFailure();
  }
};
} // namespace

} // namespace tandem::lower
