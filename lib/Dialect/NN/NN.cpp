//===- NN.cpp - the nn dialect --------------------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/OpImplementation.h"
#include "tandem/Dialect/NN/Host.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tandem::nn;

#include "tandem/Dialect/NN/NNDialect.cpp.inc"
#include "tandem/Dialect/NN/NNEnums.cpp.inc"

#include "tandem/Dialect/NN/NNInterfaces.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "tandem/Dialect/NN/NNAttrs.cpp.inc"

LogicalResult PartAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                               StringRef name, ArrayRef<int64_t> shape,
                               int64_t dim, int64_t offset) {
  int64_t rank = shape.size();
  if (dim < 0 || dim >= rank)
    return emitError() << "part of '" << name << "' lies on dimension " << dim
                       << ", expected one below the rank " << rank;
  if (offset < 0 || offset >= shape[dim])
    return emitError() << "part of '" << name << "' begins at " << offset
                       << ", expected a number in [0, " << shape[dim] << ")";
  return success();
}

namespace {
/// Prints the pass of an operator as `#forward`.
struct Aliases : OpAsmDialectInterface {
  using OpAsmDialectInterface::OpAsmDialectInterface;
  AliasResult getAlias(Attribute attribute, raw_ostream &os) const override {
    auto pass = dyn_cast<PassKindAttr>(attribute);
    if (!pass)
      return AliasResult::NoAlias;
    os << stringifyPassKind(pass.getValue());
    return AliasResult::FinalAlias;
  }
};
} // namespace

void NNDialect::initialize() {
  addFacts();
  addInterfaces<Aliases>();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "tandem/Dialect/NN/NNAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "tandem/Dialect/NN/NNOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "tandem/Dialect/NN/HostOps.cpp.inc"
      >();
}
