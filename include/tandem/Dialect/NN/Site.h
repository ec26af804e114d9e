//===- Site.h - operators with indices --------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_NN_SITE_H
#define TANDEM_DIALECT_NN_SITE_H

#include "llvm/ADT/StringRef.h"

namespace tandem::nn {

/// Of an operator that reads indices its number in the kernel, which an error
/// quotes. Set by nn-to-linalg, and gone with the operators.
inline constexpr llvm::StringLiteral kSiteAttrName = "nn.site";

} // namespace tandem::nn

#endif // TANDEM_DIALECT_NN_SITE_H
