//===- Parts.h - the launches of a kernel as text ---------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_KERNELS_PARTS_H
#define TANDEM_LIB_CONVERSION_KERNELS_PARTS_H

#include "tandem/Conversion/Kernels/Kernels.h"

namespace tandem {

struct KernelParts {
  std::vector<KernelPart> parts;
  int64_t scratchBytes = 0;
};

/// For the cache of kernels: numbers and symbols, separated by spaces.
std::string printParts(const KernelParts &parts);
/// False for a text that is none.
bool parseParts(llvm::StringRef text, KernelParts &parts);

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_KERNELS_PARTS_H
