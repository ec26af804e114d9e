//===- Infinity.h - infinite costs ------------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_INFINITY_H
#define TANDEM_LIB_SEARCH_INFINITY_H

#include <limits>

namespace tandem::search {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_INFINITY_H
