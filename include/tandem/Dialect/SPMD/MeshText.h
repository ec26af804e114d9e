//===- MeshText.h - a mesh as text ------------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_SPMD_MESHTEXT_H
#define TANDEM_DIALECT_SPMD_MESHTEXT_H

#include "mlir/IR/BuiltinOps.h"
#include "tandem/Dialect/SPMD/SPMD.h"

namespace tandem::spmd {

/// `data=4,model=2`: the space axes, as options and plan files write them.
std::string getMeshText(MeshAttr mesh);

/// On modules, between the cut and the placing of sections: the text of the
/// mesh with the pipe axis, of which the plan's mesh is the rest.
inline constexpr llvm::StringLiteral kWholeMeshAttrName = "spmd.whole_mesh";
/// On a module, until its actions are outlined: the name of the order of its
/// pipeline, the text of the file that it was read from, and on how many
/// microbatches each of its actions works, if it is not one.
inline constexpr llvm::StringLiteral kOrderAttrName = "spmd.order";
inline constexpr llvm::StringLiteral kRowsAttrName = "spmd.rows";
inline constexpr llvm::StringLiteral kStrandsAttrName = "spmd.strands";

/// Reads that, with a time axis of so many points if there are several.
/// No axis is one device. Fails with an error at `location`; `file` is the plan
/// file that names the mesh, empty if none does.
mlir::FailureOr<MeshAttr> parseMesh(mlir::Location location,
                                    llvm::StringRef text, int64_t micro,
                                    llvm::StringRef file,
                                    llvm::StringRef timeAxis = "micro");

/// The mesh of all ranks: `mesh`, with the pipe axis if `op` is in a pipeline,
/// and without an axis of time. Fails after an error.
mlir::FailureOr<MeshAttr> getWholeMesh(mlir::ModuleOp op, MeshAttr mesh);

} // namespace tandem::spmd

#endif // TANDEM_DIALECT_SPMD_MESHTEXT_H
