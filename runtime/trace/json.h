//===- json.h - reading and writing JSON ------------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_TRACE_JSON_H
#define TANDEM_RT_TRACE_JSON_H

#include "core/text.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

namespace tandem::rt::trace {

using json = nlohmann::json;

/// Names come from users' files; bytes that are not UTF-8 must not stop us.
inline std::string toText(const json &value, int indent = -1) {
  return value.dump(indent, ' ', false, json::error_handler_t::replace);
}

inline constexpr std::array<std::string_view, kNumQueueRoles> kRoleNames = {
    "compute", "communication", "copy"};

/// Reads the fields of an object. The first mistake stays; what is wrong reads
/// as the least number or as nothing.
class Fields {
public:
  /// `what` is the object's name in errors; mistakes go to `status`.
  Fields(const json &object, std::string what, Status &status)
      : object(object), what(std::move(what)), status(status) {
    if (!object.is_object())
      fail("", object, "an object");
  }

  const json &get(const char *key) {
    static const json none;
    if (!object.is_object())
      return none;
    auto it = object.find(key);
    return it == object.end() ? none : *it;
  }
  bool has(const char *key) { return !get(key).is_null(); }

  int64_t number(const char *key, int64_t low, int64_t high) {
    const json &value = get(key);
    // A number above what int64_t holds is no number for us.
    bool isWhole =
        value.is_number_unsigned()
            ? value.get<uint64_t>() <= uint64_t(std::max<int64_t>(high, 0))
            : value.is_number_integer() && value.get<int64_t>() <= high;
    if (isWhole && low <= high && value.get<int64_t>() >= low)
      return value.get<int64_t>();
    fail(key, value, concat("a whole number from ", low, " to ", high));
    return low;
  }
  int64_t number(const char *key, int64_t low = 0) {
    return number(key, low, std::numeric_limits<int64_t>::max());
  }

  /// Finite, and not below `low`.
  double real(const char *key,
              double low = -std::numeric_limits<double>::max()) {
    const json &value = get(key);
    double number = value.is_number() ? value.get<double>() : low - 1;
    if (value.is_number() && number >= low &&
        number <= std::numeric_limits<double>::max())
      return number;
    fail(key, value, "a number");
    return low;
  }

  std::string text(const char *key) {
    const json &value = get(key);
    if (value.is_string())
      return value.get<std::string>();
    fail(key, value, "a text");
    return {};
  }

  const json &list(const char *key) {
    static const json none = json::array();
    const json &value = get(key);
    if (value.is_array())
      return value;
    fail(key, value, "a list");
    return none;
  }

  void fail(const char *key, const json &found, const std::string &expected) {
    if (!status.ok())
      return;
    constexpr size_t kLongest = 40;
    std::string text =
        found.is_structured() ? found.type_name() : toText(found);
    if (text.size() > kLongest)
      text = text.substr(0, kLongest) + "...";
    status = errorOf(what, *key ? concat(": '", key, "'") : std::string(),
                     " is ", text, ", expected ", expected);
  }

private:
  const json &object;
  const std::string what;
  Status &status;
};

} // namespace tandem::rt::trace

#endif // TANDEM_RT_TRACE_JSON_H
