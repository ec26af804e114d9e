//===- memory.h - a header that Debian's package of Gloo lacks --*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Gloo 0.5's classes of connections (gloo/transport/tcp/pair.h) have members of
// these types, whose size alone matters here. Where Gloo's own header is
// installed, that one is found first.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_COMM_GLOO_MISSING_MEMORY_H
#define TANDEM_RT_COMM_GLOO_MISSING_MEMORY_H

#include <memory>

namespace gloo {

/// Holds what it refers to; made by Gloo alone.
template <typename T> class NonOwningPtr {
  std::shared_ptr<T> held;
};

/// Does not hold it.
template <typename T> class WeakNonOwningPtr {
  std::weak_ptr<T> seen;
};

} // namespace gloo

#endif // TANDEM_RT_COMM_GLOO_MISSING_MEMORY_H
