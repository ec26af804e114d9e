//===- PieceLimit.h - bytes of a piece of a pass ----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A schedule that follows no searched stages cuts a pass into pieces by the
// bytes that it gathers, and by those of gradients that are ready to be sent.
// What a plan holds depends on these cuts, so that its price knows them.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_SUPPORT_PIECELIMIT_H
#define TANDEM_SUPPORT_PIECELIMIT_H

#include <algorithm>
#include <cstdint>

namespace tandem {

/// A tensor of at most so many bytes is worth a copy for the sake of one
/// message less: a message between hosts takes 0.1 to 0.5 ms, a copy of this
/// size a tenth of that.
constexpr int64_t kMaxJoinedBytes = 256 << 10;

/// Bytes that end a piece. The first pieces are short, so that communication
/// begins soon: each may have twice as much as the one before, up to an equal
/// part of all.
class PieceLimit {
public:
  /// Parts of a pass, if nothing else is said.
  static constexpr int64_t kPieces = 16;

  void set(int64_t bytes, int64_t pieces = kPieces) {
    most = std::max<int64_t>(1, bytes / pieces);
    now = std::max<int64_t>(1, most / std::min(pieces, kFirstPart));
  }
  void grow() { now = std::min(2 * now, most); }
  int64_t get() const { return now; }

private:
  /// The part of an equal part that ends the first piece.
  static constexpr int64_t kFirstPart = 8;
  int64_t now = 1, most = 1;
};

} // namespace tandem

#endif // TANDEM_SUPPORT_PIECELIMIT_H
