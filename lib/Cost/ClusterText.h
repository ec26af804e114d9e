//===- ClusterText.h - YAML tree with locations -----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a cluster file holds before it is understood: keys and values, each with
// the place that an error names. Values have units, which are part of the text.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_COST_CLUSTERTEXT_H
#define TANDEM_LIB_COST_CLUSTERTEXT_H

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::cost {

/// A value of the file.
struct TextNode {
  enum class Kind { Scalar, Mapping, Sequence };
  Kind kind = Kind::Scalar;
  /// `FILE:LINE`, or the override that it comes from.
  std::string place;
  std::string scalar;
  /// Of a mapping one per item.
  std::vector<std::string> keys, keyPlaces;
  std::vector<TextNode> items;

  TextNode() = default;
  explicit TextNode(std::string place, std::string scalar = "")
      : place(std::move(place)), scalar(std::move(scalar)) {}

  /// The item of a key; null if there is none.
  TextNode *find(std::string_view key);
  const TextNode *find(std::string_view key) const;
};

/// Parses one YAML document. Keys are scalars and stand once; anchors, aliases
/// and tags are errors.
std::optional<TextNode> parseTree(std::string_view text, std::string_view name,
                                  std::string &error);

/// Sets the value at the dotted path of `KEY=VALUE`, making what is missing of
/// the path.
bool applyOverride(TextNode &root, const std::string &text, std::string &error);

/// What a number with a unit measures.
enum class Quantity {
  Time,
  Bytes,
  Bandwidth,
  Rate,
  Flops,
  Price,
  Share,
  Factor,
  Count
};

/// `a bandwidth above zero, such as '9.71 Gbit/s'`.
std::string describe(Quantity quantity, bool mayBeZero);

/// The value in base units. On failure `found` says what stands there.
std::optional<double> parseQuantity(std::string_view text, Quantity quantity,
                                    bool mayBeZero, std::string &found);

/// The value with a unit that makes it short, 12 digits at most.
std::string printQuantity(double value, Quantity quantity);

} // namespace tandem::cost

#endif // TANDEM_LIB_COST_CLUSTERTEXT_H
