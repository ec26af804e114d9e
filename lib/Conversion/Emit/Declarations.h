//===- Declarations.h - arguments and results of a Program ------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_EMIT_DECLARATIONS_H
#define TANDEM_LIB_CONVERSION_EMIT_DECLARATIONS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tandem/Dialect/SPMD/SPMD.h"
#include "tandem_rt/program_builder.h"

namespace tandem {

/// The space axes of `mesh`, which may be null.
std::vector<rt::Axis> getSpaceAxes(spmd::MeshAttr mesh);

/// The number in the Program of the axis called `name`.
uint32_t getAxisNumber(spmd::MeshAttr mesh, llvm::StringRef name);

/// None, with an error on `op`, for a type that Programs do not have.
std::optional<rt::ElementType> getElementType(mlir::Operation *op,
                                              mlir::Type type);

/// Adds the arguments, then the results of the step, in order.
mlir::LogicalResult declare(mlir::func::FuncOp step, spmd::MeshAttr mesh,
                            rt::ProgramBuilder &builder);

/// Adds an arena of so many bytes in the host's memory; its number.
mlir::FailureOr<uint32_t> addHostArena(mlir::func::FuncOp step, int64_t bytes,
                                       rt::ProgramBuilder &builder);

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_EMIT_DECLARATIONS_H
