//===- MeshText.h - a mesh as text ------------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TRANSFORMS_PLAN_MESHTEXT_H
#define TANDEM_LIB_TRANSFORMS_PLAN_MESHTEXT_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tandem/Dialect/SPMD/SPMD.h"

namespace tandem::plan {

/// `data=4,model=2`: the space axes, as options and plan files write them.
std::string getMeshText(spmd::MeshAttr mesh);

/// Reads that, with a time axis `micro` of so many points if there are several.
/// No axis is one device. Fails with an error at `step`; `file` is the plan
/// file that names the mesh, empty if none does.
mlir::FailureOr<spmd::MeshAttr> parseMesh(mlir::func::FuncOp step,
                                          llvm::StringRef text, int64_t micro,
                                          llvm::StringRef file);

} // namespace tandem::plan

#endif // TANDEM_LIB_TRANSFORMS_PLAN_MESHTEXT_H
