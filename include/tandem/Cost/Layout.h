//===- Layout.h - forms of a tensor on all axes -----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The planner's side of the layout algebra, as plain data: one form per axis
// (HiDup, section 4.1). No MLIR, so that a search can be built, tested and run
// without a compiler.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_COST_LAYOUT_H
#define TANDEM_COST_LAYOUT_H

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tandem::cost {

/// At most three space axes and one time axis.
constexpr unsigned kMaxAxes = 4;

/// The form of a tensor along one axis: the dimension that is split, or one of
/// the constants below.
using Form = int8_t;
constexpr Form kFull = -1;
constexpr Form kReduce = -2;
/// How the `hidup-*` accountings hold a parameter that is stored whole on every
/// rank; unlike `full`, its gradient has to be summed.
constexpr Form kReplicate = -3;
/// Holds nothing, on all axes: an operand that is not read, or the result of an
/// operator that is left out. Every layout changes into it for nothing, it into
/// no other; an operand wanted so is no use of its tensor.
constexpr Form kAbsent = -4;

/// `full`, `gather(d)`, `reduce` or `replicate`.
std::string getFormName(Form form);
std::optional<Form> parseForm(std::string_view text);

/// One form per axis, in the order of the mesh; `full` beyond its axes.
struct Layout {
  std::array<Form, kMaxAxes> forms{kFull, kFull, kFull, kFull};

  Form &operator[](unsigned axis) { return forms[axis]; }
  Form operator[](unsigned axis) const { return forms[axis]; }
  bool operator==(const Layout &) const = default;
  auto operator<=>(const Layout &) const = default;

  bool isAbsent() const { return forms[0] == kAbsent; }
  /// A key for tables.
  uint32_t getKey() const {
    uint32_t key = 0;
    for (Form form : forms)
      key = key << 8 | static_cast<uint8_t>(form);
    return key;
  }
};

} // namespace tandem::cost

#endif // TANDEM_COST_LAYOUT_H
