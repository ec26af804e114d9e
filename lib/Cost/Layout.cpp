//===- Layout.cpp - forms of a tensor on all axes -------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Cost/Layout.h"
#include <charconv>

using namespace tandem::cost;

std::string tandem::cost::getFormName(Form form) {
  switch (form) {
  case kFull:
    return "full";
  case kReduce:
    return "reduce";
  case kReplicate:
    return "replicate";
  default:
    return "gather(" + std::to_string(form) + ")";
  }
}

std::optional<Form> tandem::cost::parseForm(std::string_view text) {
  for (Form form : {kFull, kReduce, kReplicate})
    if (text == getFormName(form))
      return form;
  constexpr std::string_view prefix = "gather(";
  if (!text.starts_with(prefix) || !text.ends_with(')'))
    return std::nullopt;
  text.remove_prefix(prefix.size());
  text.remove_suffix(1);
  int dim = -1;
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), dim);
  if (error != std::errc() || end != text.data() + text.size() || dim < 0 ||
      dim > INT8_MAX)
    return std::nullopt;
  return static_cast<Form>(dim);
}
