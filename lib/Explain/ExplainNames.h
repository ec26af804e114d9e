//===- ExplainNames.h - names of tensors in reports -------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Layers repeat: what differs only in numbers that are words of their own
// (`layers.3`, not `w1`) shares a pattern, in which `*` stands for a number.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_EXPLAIN_EXPLAINNAMES_H
#define TANDEM_LIB_EXPLAIN_EXPLAINNAMES_H

#include "tandem/Cost/SearchProblem.h"
#include <algorithm>
#include <functional>
#include <map>

namespace tandem::explain {

/// `layers.12.w1` becomes `layers.*.w1`.
std::string getPattern(std::string_view name);
/// Names of one pattern as one: numbers stay where all agree.
std::string mergeNames(const std::vector<std::string> &names);

/// What repeated layers have in common: entries by a key and the pattern of
/// their names, in the order in which they were found.
template <typename Key, typename Entry> class Groups {
public:
  /// The entry of this name, which begins as `first`.
  Entry &get(const Key &key, const Entry &first) {
    auto [it, isNew] =
        places.try_emplace({getPattern(first.name), key}, entries.size());
    if (isNew) {
      entries.push_back(first);
      names.emplace_back();
    }
    names[it->second].push_back(first.name);
    return entries[it->second];
  }
  /// With what their names share; the largest, as it is measured, first.
  template <typename Measure> std::vector<Entry> take(Measure measure) {
    for (size_t i = 0; i < entries.size(); ++i)
      entries[i].name = mergeNames(names[i]);
    std::ranges::stable_sort(entries, std::greater(), measure);
    return std::move(entries);
  }

private:
  std::map<std::pair<std::string, Key>, size_t> places;
  std::vector<Entry> entries;
  std::vector<std::vector<std::string>> names;
};

/// Whether it sends a tensor to the host, or fetches it from there.
bool isHostCopy(const cost::Operator &op);

/// Labels of a problem's tensors.
class Names {
public:
  explicit Names(const cost::SearchProblem &problem);

  /// The tensor's name; where the operator that makes it reads stored tensors,
  /// with the largest of them: `nn.matmul_113(layers.1.attention.q.weight)`;
  /// and gradients as `nn.matmul_964(gradient of layers.1.mlp.w1.weight)`.
  /// Copies name what is copied: `nn.from_host_917(nn.gelu_33)`.
  const std::string &getLabel(unsigned tensor) const { return labels[tensor]; }
  /// The source line of what makes the tensor; of a stored one, or where there
  /// is none, of its first user that has one.
  const std::string &getLocation(unsigned tensor) const {
    return locations[tensor];
  }

private:
  std::vector<std::string> labels, locations;
};

} // namespace tandem::explain

#endif // TANDEM_LIB_EXPLAIN_EXPLAINNAMES_H
