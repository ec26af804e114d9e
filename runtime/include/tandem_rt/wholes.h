//===- wholes.h - whole parameters from parts -------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The compiler may take a parameter apart (a packed projection of queries, keys
// and values). Outside of a Program there is only the whole, under the model's
// own name.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_WHOLES_H
#define TANDEM_RT_WHOLES_H

#include "tandem_rt/tensor.h"

namespace tandem::rt {

/// An argument or result of a Program, or several that are parts of one tensor.
struct Whole {
  std::string role = {};
  std::string name = {};
  ElementType type = ElementType::F32;
  Shape shape = {};
  std::optional<std::pair<double, double>> range = {};
  /// Indices into the Program's arguments or results, by offset.
  std::vector<uint32_t> members = {};
  /// The dimension along which there are several.
  uint32_t dim = 0;
};

/// All of them, in the order of their first member. Fails if parts do not cover
/// their whole, or differ in type, shape or dimension.
Expected<std::vector<Whole>> wholeArguments(const Program &program);
Expected<std::vector<Whole>> wholeResults(const Program &program);

/// Copies a part out of its whole, or back; both contiguous.
void copyPart(const Part &part, const Shape &shape, ElementType type,
              const void *whole, void *to);
void copyIntoWhole(const Part &part, const Shape &shape, ElementType type,
                   const void *from, void *whole);

} // namespace tandem::rt

#endif // TANDEM_RT_WHOLES_H
