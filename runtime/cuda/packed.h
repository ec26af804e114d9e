//===- packed.h - texts that take little room -------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ziv and Lempel, "A universal algorithm for sequential data compression",
// 1977: a count and so many bytes, then a count and how far before the present
// end so many bytes are that come next, and so on. Numbers have seven bits in a
// byte, the lowest first, and the eighth where another byte follows.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CUDA_PACKED_H
#define TANDEM_RT_CUDA_PACKED_H

#include <cstdint>
#include <string>

namespace tandem::rt::cuda {

/// Of what embed.cpp has packed when this was built, and checked.
inline std::string unpack(const char *packed, size_t bytes) {
  std::string text;
  size_t at = 0;
  auto number = [&] {
    size_t value = 0;
    for (int shift = 0;; shift += 7) {
      auto byte = uint8_t(packed[at++]);
      value |= size_t(byte & 127) << shift;
      if (byte < 128)
        return value;
    }
  };
  while (at < bytes) {
    size_t count = number();
    text.append(packed + at, count);
    at += count;
    size_t length = number(), from = text.size() - number();
    for (size_t i = 0; i < length; ++i)
      text += text[from + i];
  }
  return text;
}

} // namespace tandem::rt::cuda

#endif // TANDEM_RT_CUDA_PACKED_H
