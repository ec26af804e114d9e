//===- Commands.cpp - commands --------------------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tandem/Dialect/SPMD/SPMD.h"
#include "tandem/Dialect/Sched/Sched.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::sched;

#include "tandem/Dialect/Sched/SchedInterfaces.cpp.inc"

//===----------------------------------------------------------------------===//
// Bytes
//===----------------------------------------------------------------------===//

int64_t tandem::sched::getElementBytes(Type type) {
  return llvm::divideCeil(type.getIntOrFloatBitWidth(), 8);
}

int64_t tandem::sched::countBytes(ValueRange values) {
  int64_t bytes = 0;
  for (Type type : values.getTypes()) {
    auto shaped = cast<ShapedType>(type);
    bytes += shaped.getNumElements() * getElementBytes(shaped.getElementType());
  }
  return bytes;
}

//===----------------------------------------------------------------------===//
// Verifiers
//===----------------------------------------------------------------------===//

namespace {
/// Adds up in 64 bits, and notes when these are too few.
struct CheckedSum {
  void add(int64_t factor, int64_t times) {
    int64_t product;
    overflows |= llvm::MulOverflow(factor, times, product) ||
                 llvm::AddOverflow(value, product, value);
  }
  int64_t value = 0;
  bool overflows = false;
};
} // namespace

/// The elements of the source that the view has on any rank.
LogicalResult ViewOp::verifyRange(int64_t elements, int64_t sourceElements) {
  CheckedSum begin, end;
  begin.add(getOffset(), 1);
  end.add(getOffset(), 1);
  end.add(elements, 1);
  for (auto [axis, coefficient] : llvm::zip(getAxes(), getCoefficients())) {
    auto size = spmd::verifyGroup(*this, ArrayAttr::get(getContext(), axis));
    if (failed(size))
      return failure();
    (coefficient < 0 ? begin : end).add(coefficient, *size - 1);
  }
  int64_t perIteration = getPerIteration();
  (perIteration < 0 ? begin : end)
      .add(perIteration, spmd::getIterations(*this) - 1);
  if (begin.overflows || end.overflows)
    return emitOpError("moves by more elements than 64 bits can count, "
                       "expected offset and coefficients within its source");
  if (begin.value < 0 || end.value > sourceElements)
    return emitOpError("has elements ")
           << begin.value << " to " << end.value << " of " << sourceElements
           << ", expected a range within its source";
  return success();
}

LogicalResult ViewOp::verify() {
  if (getAxes().size() != getCoefficients().size())
    return emitOpError("has ") << getAxes().size() << " axes, but "
                               << getCoefficients().size() << " coefficients";
  auto source = cast<MemRefType>(getSource().getType());
  auto type = cast<MemRefType>(getBuffer().getType());
  if (source.getElementType() != type.getElementType())
    return emitOpError("has element type ")
           << type.getElementType() << ", expected " << source.getElementType();
  if (!source.hasStaticShape() || !type.hasStaticShape())
    return emitOpError("has the type ")
           << type << " in " << source << ", expected static shapes";
  return verifyRange(type.getNumElements(), source.getNumElements());
}

LogicalResult CollectiveOp::verify() {
  auto source = cast<MemRefType>(getSource().getType());
  auto destination = cast<MemRefType>(getDestination().getType());
  if (!source.hasStaticShape())
    return emitOpError("sends ") << source << ", expected a static shape";
  CollectiveKind kind = getKind();
  bool exchanges = kind == CollectiveKind::AllToAll;
  std::optional<int64_t> shrunk, grown;
  if (exchanges || kind == CollectiveKind::ReduceScatter)
    shrunk = getSplitDim();
  if (exchanges || kind == CollectiveKind::AllGather)
    grown = getConcatDim();
  for (auto [name, used, dim] :
       {std::tuple("split_dim", shrunk, getSplitDim()),
        std::tuple("concat_dim", grown, getConcatDim())})
    if (!used && static_cast<int64_t>(dim) != -1)
      return emitOpError("has a '")
             << name << "', for which a " << stringifyCollectiveKind(kind)
             << " has no use, expected none";
  return spmd::verifyCollective(*this, getAxes(), source, destination, shrunk,
                                grown);
}

LogicalResult CopyOp::verify() {
  auto source = cast<MemRefType>(getSource().getType());
  auto destination = cast<MemRefType>(getDestination().getType());
  if (source.getElementType() == destination.getElementType() &&
      source.getNumElements() == destination.getNumElements())
    return success();
  return emitOpError("copies ") << source << " into " << destination;
}

LogicalResult CheckOp::verify() {
  Type element = cast<MemRefType>(getSource().getType()).getElementType();
  bool isTruth = getKind() == CheckKind::True;
  if (isTruth ? element.isInteger(1) : isa<FloatType>(element))
    return success();
  return emitOpError("asks whether ")
         << element << " is " << stringifyCheckKind(getKind()) << ", expected "
         << (isTruth ? "i1" : "a floating-point type");
}

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto kernel =
      symbols.lookupNearestSymbolFrom<func::FuncOp>(*this, getKernelAttr());
  if (!kernel)
    return emitOpError("calls @") << getKernel() << ", which does not exist";
  if (!kernel->hasAttr(kKernelAttrName))
    return emitOpError("calls @")
           << getKernel() << ", which is no kernel, expected a function with '"
           << kKernelAttrName << "'";
  if (kernel.isExternal())
    return emitOpError("calls @")
           << getKernel() << ", which has no body, expected that of a kernel";
  auto agree = [](Type tensor, Type buffer) {
    auto shaped = cast<ShapedType>(tensor), memref = cast<ShapedType>(buffer);
    return shaped.getShape() == memref.getShape() &&
           shaped.getElementType() == memref.getElementType();
  };
  FunctionType type = kernel.getFunctionType();
  if (type.getNumInputs() == getInputs().size() &&
      type.getNumResults() == getOutputs().size() &&
      llvm::all_of_zip(type.getInputs(), getInputs().getTypes(), agree) &&
      llvm::all_of_zip(type.getResults(), getOutputs().getTypes(), agree))
    return success();
  return emitOpError("buffers do not fit the type of @")
         << getKernel() << ", " << type;
}

//===----------------------------------------------------------------------===//
// What commands read and write
//===----------------------------------------------------------------------===//

SmallVector<Value> LaunchOp::getReads() { return getInputs(); }
SmallVector<Value> LaunchOp::getWrites() { return getOutputs(); }

SmallVector<Value> CollectiveOp::getReads() { return {getSource()}; }
SmallVector<Value> CollectiveOp::getWrites() { return {getDestination()}; }

SmallVector<Value> CopyOp::getReads() { return {getSource()}; }
SmallVector<Value> CopyOp::getWrites() { return {getDestination()}; }

SmallVector<Value> FillOp::getReads() { return {}; }
SmallVector<Value> FillOp::getWrites() { return {getDestination()}; }

SmallVector<Value> CheckOp::getReads() { return {getSource()}; }
SmallVector<Value> CheckOp::getWrites() { return {}; }
