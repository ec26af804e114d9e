//===- Operators.cpp - semantics of nn operators --------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Reference/Operators.h"
#include "Evaluators.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace tandem::reference {

Part Part::all(ArrayRef<int64_t> shape) {
  Part part;
  part.shape.assign(shape.begin(), shape.end());
  part.offsets.assign(shape.size(), 0);
  part.whole = part.shape;
  return part;
}

/// Elementwise operators share one entry; every other one has its own.
template <typename OpTy> static LogicalResult dispatch(OpTy op, Call &call) {
  if constexpr (OpTy::template hasTrait<nn::Broadcasting>())
    return runElementwise(op, call);
  else
    return run(op, call);
}

template <typename... Ops>
static LogicalResult dispatchAll(Operation *op, Call &call) {
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case<Ops...>([&](auto concrete) { return dispatch(concrete, call); })
      .Default([](Operation *other) {
        return other->emitError(
                   "the reference interpreter has no meaning for '")
               << other->getName() << "'";
      });
}

FailureOr<std::vector<Tensor>> evaluate(Operation *op,
                                        ArrayRef<TensorRef> values,
                                        ArrayRef<Part> operands,
                                        ArrayRef<Part> results) {
  Call call{values, operands, results, {}};
  for (auto [result, part] : llvm::zip(op->getResults(), results))
    call.results.emplace_back(
        part.shape, cast<RankedTensorType>(result.getType()).getElementType());
  LogicalResult status = dispatchAll<
#define GET_OP_LIST
#include "tandem/Dialect/NN/NNOps.cpp.inc"
      ,
#define GET_OP_LIST
#include "tandem/Dialect/NN/HostOps.cpp.inc"
      >(op, call);
  if (failed(status))
    return failure();
  return std::move(call.results);
}

} // namespace tandem::reference
