//===- product_ways.h - operand layouts for oneDNN products -----*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// oneDNN multiplies operands as they lie, or copies them itself, in a way that
// suits some shapes and strides less than a copy that is made before. Which is
// the fastest is measured once per shape and kind of CPU, and kept
// (core/kept.h).
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CPU_PRODUCT_WAYS_H
#define TANDEM_RT_CPU_PRODUCT_WAYS_H

#include "tandem_rt/program.h"

#include <functional>
#include <map>
#include <string_view>

namespace tandem::rt::cpu {

/// Which operands are copied into oneDNN's own layout before a product.
enum class ProductWay : uint8_t { Plain, PackedA, PackedB, PackedBoth };
inline constexpr size_t kNumProductWays = 4;

inline bool packs(ProductWay way, size_t operand) {
  return (unsigned(way) >> operand) & 1;
}
std::string_view nameOf(ProductWay way);
std::optional<ProductWay> parseWay(std::string_view name);

/// The way of each product of a Program.
using ProductWays = std::map<const Gemm *, ProductWay>;

/// What decides how fast a product is: its geometry, types and threads, the
/// CPU, and the version of the library.
std::string keyOf(const Gemm &gemm, int threads);

/// What the folder has for a key; none where there is nothing, or nothing
/// sound.
std::optional<ProductWay> findWay(const std::string &key);
/// Keeps the way of a key, as keep() does; the one that counts.
ProductWay keepWay(const std::string &key, ProductWay way);

/// Whether to stop; may be empty.
using IsCancelled = std::function<bool()>;

/// The fastest way of a product of oneDNN's, as measured with buffers of its
/// own, or the first one if no other is clearly faster. Nothing if it was
/// cancelled.
std::optional<ProductWay> measureWay(const Gemm &gemm, int threads,
                                     const IsCancelled &isCancelled);

/// The ways of all products, found or measured; products that are not in it are
/// plain. Ranks that compute the same have to have the same bits: this is for
/// Programs whose ranks are all in one process. Nothing if it was cancelled.
std::optional<ProductWays> chooseWays(const Program &program, int threads,
                                      const IsCancelled &isCancelled);

} // namespace tandem::rt::cpu

#endif // TANDEM_RT_CPU_PRODUCT_WAYS_H
