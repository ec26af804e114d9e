//===- kept.h - cache of measurements ---------------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which way of doing a product is the fastest is measured once per key (its
// shape, the machine, the library's version), and kept as a file of a line each
// in $TANDEM_CACHE_DIR/products (else $XDG_CACHE_HOME/tandem, else
// ~/.cache/tandem; nowhere if it is empty).
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CORE_KEPT_H
#define TANDEM_RT_CORE_KEPT_H

#include <functional>
#include <optional>
#include <string>

namespace tandem::rt {

/// The word that the folder has for a key of one line; none where there is
/// nothing, or a file that is damaged or of another key.
std::optional<std::string> findKept(const std::string &key);

/// Keeps a word, without blanks, of a key. Where another process was first, and
/// its word is sound, that one counts, and is returned. A folder that cannot be
/// written keeps nothing.
std::string keep(const std::string &key, const std::string &word,
                 const std::function<bool(const std::string &)> &isSound);

} // namespace tandem::rt

#endif // TANDEM_RT_CORE_KEPT_H
