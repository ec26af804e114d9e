//===- order.h - order of accesses ------------------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What runs on the emulated GPU runs in one order; whether it had to is seen
// here. Each piece of work has the pieces that come before it by its stream, by
// events, by the edges of a graph, or because the host has waited for them.
// Accesses to the same bytes by two pieces, one of them writing, neither of
// which comes before the other, are reported: what holds for this order holds
// for every order that is allowed, as pieces touch the same bytes in each.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CTS_EMULATOR_ORDER_H
#define TANDEM_RT_CTS_EMULATOR_ORDER_H

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tandem::rt::cuda::emulated {

/// Bytes [begin, end).
struct Run {
  uint64_t begin, end;
  bool writes;
};

/// A piece of work: what comes directly before it, and what it has touched.
struct Piece {
  std::string name;
  std::vector<size_t> before = {};
  std::vector<Run> runs = {};
};

/// Used under the lock of streams.
class Order {
public:
  /// A new piece; those that it comes behind are known.
  size_t add(std::string name, std::vector<size_t> before);
  /// While a piece is worked on, accesses are its own.
  void begin(size_t piece) { present = piece; }
  void touch(uint64_t address, size_t bytes, bool writes);
  void pause() { present = kNone; }
  /// All that the piece touches is known: compares it with all before.
  void end(size_t piece);

  const std::vector<Piece> &getPieces() const { return pieces; }
  const std::vector<std::string> &getReports() const { return reports; }
  /// Pieces in the order in which they ended.
  const std::vector<size_t> &getEnded() const { return ended; }

private:
  static constexpr size_t kNone = SIZE_MAX;
  static constexpr uint64_t kBytesPerWord = 64;
  /// One bit per byte, by the number of the word.
  using Bits = std::map<uint64_t, uint64_t>;
  struct Touched {
    Bits read, written;
  };
  /// The last accesses to a range of bytes.
  struct Range {
    uint64_t end;
    size_t writer = kNone;
    std::vector<size_t> readers = {};
  };

  static void list(const Bits &bits, bool writes, std::vector<Run> &runs);
  bool comesBefore(size_t first, size_t second) const {
    const std::vector<uint64_t> &all = ancestors[second];
    return first / 64 < all.size() && (all[first / 64] >> (first % 64) & 1);
  }
  void cut(uint64_t at);
  void compare(size_t piece, const Run &run);
  void report(size_t piece, size_t other, const Run &run);

  std::vector<Piece> pieces;
  std::vector<std::vector<uint64_t>> ancestors; ///< A bit per piece.
  std::map<size_t, Touched> touched;            ///< Of pieces at work.
  std::map<uint64_t, Range> ranges;             ///< By their begin.
  std::vector<std::string> reports;
  std::vector<size_t> ended;
  size_t present = kNone;
};

} // namespace tandem::rt::cuda::emulated

#endif // TANDEM_RT_CTS_EMULATOR_ORDER_H
