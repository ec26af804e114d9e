//===- SafeTensors.h - reads and writes safetensors files --*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_REFERENCE_SAFETENSORS_H
#define TANDEM_REFERENCE_SAFETENSORS_H

#include "tandem/Reference/Tensor.h"
#include "llvm/Support/Error.h"
#include <map>

namespace tandem::reference {

/// Tensors by name, in the order of names.
using TensorMap = std::map<std::string, Tensor>;

/// Reads all tensors of the file `path`. The error names the file and what is
/// wrong with it.
llvm::Expected<TensorMap> readSafeTensors(llvm::StringRef path,
                                          mlir::MLIRContext *context);

/// Writes `tensors` to the file `path`.
llvm::Error writeSafeTensors(llvm::StringRef path, const TensorMap &tensors);

} // namespace tandem::reference

#endif // TANDEM_REFERENCE_SAFETENSORS_H
