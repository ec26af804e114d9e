//===- intervals.cpp - spans of time --------------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "trace/intervals.h"

namespace tandem::rt::trace {

std::vector<Interval> merge(std::vector<Interval> list) {
  std::sort(list.begin(), list.end());
  std::vector<Interval> merged;
  for (const Interval &interval : list) {
    if (!merged.empty() && interval.first <= merged.back().second)
      merged.back().second = std::max(merged.back().second, interval.second);
    else
      merged.push_back(interval);
  }
  return merged;
}

int64_t lengthOf(const std::vector<Interval> &list) {
  int64_t sum = 0;
  for (const Interval &interval : list)
    sum += lengthOf(interval);
  return sum;
}

int64_t overlapOf(const std::vector<Interval> &a,
                  const std::vector<Interval> &b) {
  int64_t sum = 0;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    sum += lengthOf(intersect(a[i], b[j]));
    a[i].second < b[j].second ? ++i : ++j;
  }
  return sum;
}

namespace {
/// The first that ends behind `time`.
auto findBehind(const std::vector<Interval> &list, int64_t time) {
  return std::upper_bound(list.begin(), list.end(), time,
                          [](int64_t value, const Interval &other) {
                            return value < other.second;
                          });
}
} // namespace

int64_t overlapOf(const Interval &one, const std::vector<Interval> &list) {
  int64_t sum = 0;
  for (auto it = findBehind(list, one.first);
       it != list.end() && it->first < one.second; ++it)
    sum += lengthOf(intersect(one, *it));
  return sum;
}

std::vector<Interval> gapsOf(const Interval &whole,
                             const std::vector<Interval> &list) {
  std::vector<Interval> gaps;
  int64_t from = whole.first;
  for (auto it = findBehind(list, whole.first);
       it != list.end() && it->first < whole.second; ++it) {
    if (it->first > from)
      gaps.push_back({from, it->first});
    from = std::max(from, it->second);
  }
  if (from < whole.second)
    gaps.push_back({from, whole.second});
  return gaps;
}

} // namespace tandem::rt::trace
