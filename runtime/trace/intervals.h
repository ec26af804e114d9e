//===- intervals.h - spans of time ------------------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_TRACE_INTERVALS_H
#define TANDEM_RT_TRACE_INTERVALS_H

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace tandem::rt::trace {

/// Begin and end, in nanoseconds.
using Interval = std::pair<int64_t, int64_t>;

inline int64_t lengthOf(const Interval &interval) {
  return std::max<int64_t>(0, interval.second - interval.first);
}
inline Interval intersect(const Interval &a, const Interval &b) {
  return {std::max(a.first, b.first), std::min(a.second, b.second)};
}

/// Disjoint and ascending.
std::vector<Interval> merge(std::vector<Interval> list);

/// Sum of the lengths.
int64_t lengthOf(const std::vector<Interval> &list);

/// Length of what two merged lists share.
int64_t overlapOf(const std::vector<Interval> &a,
                  const std::vector<Interval> &b);
/// The same with one interval, in the time of what it shares.
int64_t overlapOf(const Interval &one, const std::vector<Interval> &list);

/// What of `whole` a merged list leaves free.
std::vector<Interval> gapsOf(const Interval &whole,
                             const std::vector<Interval> &list);

} // namespace tandem::rt::trace

#endif // TANDEM_RT_TRACE_INTERVALS_H
