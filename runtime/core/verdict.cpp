//===- verdict.cpp - verdict of checks ------------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/verdict.h"
#include "core/text.h"

#include <cmath>
#include <cstring>

namespace tandem::rt {

namespace {
template <typename T> T load(const char *data, int64_t index) {
  T value;
  std::memcpy(&value, data + size_t(index) * sizeof(T), sizeof(T));
  return value;
}

Verdict judge(double value) {
  if (std::isfinite(value))
    return Verdict::Fine;
  return std::isnan(value) ? Verdict::Nan : Verdict::Infinite;
}

Verdict judge(ElementType type, const char *data, int64_t index) {
  switch (type) {
  case ElementType::F64:
    return judge(load<double>(data, index));
  case ElementType::F32:
    return judge(load<float>(data, index));
  case ElementType::BF16:
    return judge(bf16ToFloat(load<uint16_t>(data, index)));
  default: // i1, as verifyProgram() has seen to
    return data[index] ? Verdict::Fine : Verdict::Untrue;
  }
}
} // namespace

Verdict judge(const Check &check, const char *data) {
  int64_t count = check.source->bytes / elementBytes(check.type);
  for (int64_t i = 0; i < count; ++i)
    if (Verdict verdict = judge(check.type, data, i); verdict != Verdict::Fine)
      return verdict;
  return Verdict::Fine;
}

Status describe(const Check &check, Verdict verdict) {
  if (verdict == Verdict::Fine)
    return Status::success();
  if (verdict == Verdict::Untrue)
    return Status::error(check.message, ErrorKind::NotTrue);
  return Status::error(concat(check.message, " is ",
                              verdict == Verdict::Nan ? "nan" : "inf",
                              ", expected a finite value"),
                       ErrorKind::NotFinite);
}

} // namespace tandem::rt
