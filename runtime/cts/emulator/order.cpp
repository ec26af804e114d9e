//===- order.cpp - order of accesses --------------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "order.h"

#include <algorithm>

namespace tandem::rt::cuda::emulated {

size_t Order::add(std::string name, std::vector<size_t> before) {
  size_t number = pieces.size();
  std::vector<uint64_t> all(number / 64 + 1, 0);
  for (size_t first : before) {
    const std::vector<uint64_t> &known = ancestors[first];
    for (size_t i = 0; i < known.size(); ++i)
      all[i] |= known[i];
    all[first / 64] |= uint64_t(1) << (first % 64);
  }
  pieces.push_back({std::move(name), std::move(before)});
  ancestors.push_back(std::move(all));
  return number;
}

void Order::touch(uint64_t address, size_t bytes, bool writes) {
  if (present == kNone || bytes == 0)
    return;
  Touched &own = touched[present];
  Bits &bits = writes ? own.written : own.read;
  uint64_t end = address + bytes;
  while (address < end) {
    uint64_t word = address / kBytesPerWord, first = address % kBytesPerWord;
    uint64_t count = std::min(end - address, kBytesPerWord - first);
    uint64_t mask = count == 64 ? ~uint64_t(0) : (uint64_t(1) << count) - 1;
    bits[word] |= mask << first;
    address += count;
  }
}

void Order::list(const Bits &bits, bool writes, std::vector<Run> &runs) {
  size_t first = runs.size();
  for (auto [word, mask] : bits)
    for (unsigned i = 0; i < 64; ++i) {
      if (!(mask >> i & 1))
        continue;
      uint64_t at = word * kBytesPerWord + i;
      if (runs.size() > first && runs.back().end == at)
        ++runs.back().end;
      else
        runs.push_back({at, at + 1, writes});
    }
}

void Order::cut(uint64_t at) {
  auto it = ranges.upper_bound(at);
  if (it == ranges.begin())
    return;
  --it;
  if (it->first == at || it->second.end <= at)
    return;
  Range tail = it->second;
  it->second.end = at;
  ranges.emplace(at, std::move(tail));
}

void Order::report(size_t piece, size_t other, const Run &run) {
  reports.push_back(pieces[piece].name + (run.writes ? " writes" : " reads") +
                    " what " + pieces[other].name +
                    " touches, with no order between them");
}

/// Every last access is compared: those before it were, with it.
void Order::compare(size_t piece, const Run &run) {
  cut(run.begin);
  cut(run.end);
  uint64_t at = run.begin;
  while (at < run.end) {
    auto it = ranges.lower_bound(at);
    if (it == ranges.end() || it->first > at) {
      uint64_t next =
          it == ranges.end() ? run.end : std::min(run.end, it->first);
      it = ranges.emplace(at, Range{next}).first;
    }
    Range &range = it->second;
    if (range.writer != kNone && range.writer != piece &&
        !comesBefore(range.writer, piece))
      report(piece, range.writer, run);
    for (size_t reader : range.readers)
      if (run.writes && reader != piece && !comesBefore(reader, piece))
        report(piece, reader, run);
    if (run.writes) {
      range.writer = piece;
      range.readers.clear();
    } else if (std::ranges::find(range.readers, piece) == range.readers.end()) {
      range.readers.push_back(piece);
    }
    at = range.end;
  }
}

void Order::end(size_t piece) {
  present = kNone;
  ended.push_back(piece);
  Touched own = std::move(touched[piece]);
  touched.erase(piece);
  std::vector<Run> &runs = pieces[piece].runs;
  list(own.read, false, runs);
  list(own.written, true, runs);
  for (const Run &run : runs)
    compare(piece, run);
}

} // namespace tandem::rt::cuda::emulated
