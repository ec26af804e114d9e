//===- numbers.cpp - search for numbers that are not finite ---------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/numbers.h"
#include "core/text.h"

#include <cmath>
#include <cstdlib>
#include <cstring>

namespace tandem::rt {

static constexpr const char *kVariable = "TANDEM_CHECK";

Status checkKindOfCheck(std::string_view name, std::string_view value) {
  if (value == "nan")
    return Status::success();
  return errorOf(name, " is '", value, "', expected nan");
}

Expected<bool> isNumberCheckAsked() {
  const char *text = std::getenv(kVariable);
  if (!text || !*text)
    return false;
  if (Status status = checkKindOfCheck(kVariable, text); !status.ok())
    return status;
  return true;
}

bool sumsOverRanks(const Command &command) {
  const auto *op = std::get_if<Collective>(&command.operation);
  return op && (op->kind == CollectiveKind::AllReduce ||
                op->kind == CollectiveKind::ReduceScatter);
}

namespace {
template <typename T> double load(const std::vector<char> &data, int64_t i) {
  T value;
  std::memcpy(&value, data.data() + size_t(i) * sizeof(T), sizeof(T));
  return double(value);
}

/// Of floating-point types.
double load(ElementType type, const std::vector<char> &data, int64_t i) {
  if (type == ElementType::F64)
    return load<double>(data, i);
  if (type == ElementType::F32)
    return load<float>(data, i);
  uint16_t bits;
  std::memcpy(&bits, data.data() + size_t(i) * sizeof bits, sizeof bits);
  return bf16ToFloat(bits);
}

int64_t countOf(const Access &access) {
  return access.ref->bytes / elementBytes(*access.type);
}

bool isNumber(const Access &access) {
  return access.type && isFloat(*access.type) &&
         *access.type != ElementType::F16 && access.ref->bytes;
}

/// What makes numbers, and does not only move them.
bool isLookedAt(const Command &command) {
  const Operation &op = command.operation;
  return std::holds_alternative<Launch>(op) ||
         std::holds_alternative<Gemm>(op) ||
         std::holds_alternative<Attention>(op) ||
         std::holds_alternative<Convolution>(op) || sumsOverRanks(command);
}

/// A constant of the kernel that is not finite may be what it writes: of a
/// mask. So may the logarithm of an attention's sums, of a row that a mask
/// hides.
bool mayWriteInfinity(const Command &command) {
  if (const auto *op = std::get_if<Attention>(&command.operation))
    return !op->gradients;
  const auto *launch = std::get_if<Launch>(&command.operation);
  return launch && launch->hasInfinity;
}

/// Whether `next` is a later launch of the same kernel: the first has all
/// bytes.
bool isPartOf(const Command &command, const Command &next) {
  return next.bytes == 0 && next.name == command.name &&
         next.location == command.location;
}
} // namespace

Status NumberCheck::begin(const Program &owner, const Command &next,
                          const Fetch &fetch) {
  isTainted = isTainted && command && isPartOf(*command, next);
  program = &owner;
  command = &next;
  reads.clear();
  writes.clear();
  if (!isLookedAt(next))
    return Status::success();
  for (const Access &access : accessesOf(next)) {
    if (!isNumber(access))
      continue;
    Operand operand{access, std::vector<char>(size_t(access.ref->bytes))};
    if (Status status = fetch(*access.ref, operand.bytes.data()); !status.ok())
      return status;
    (access.write ? writes : reads).push_back(std::move(operand));
  }
  for (const Operand &read : reads)
    for (int64_t i = 0; i < countOf(read.access); ++i)
      isTainted |= !std::isfinite(load(*read.access.type, read.bytes, i));
  return Status::success();
}

/// The first element that is not finite, -1 if there is none. Where the command
/// writes a part of the range alone, what it left as it was is not its own.
int64_t NumberCheck::findMade(const Operand &before,
                              const std::vector<char> &after) const {
  ElementType type = *before.access.type;
  size_t width = size_t(elementBytes(type));
  bool isPart = before.access.defines == Defines::Elements;
  for (int64_t i = 0; i < countOf(before.access); ++i) {
    double value = load(type, after, i);
    if (std::isfinite(value) ||
        (std::isinf(value) && mayWriteInfinity(*command)))
      continue;
    size_t at = size_t(i) * width;
    if (!isPart || std::memcmp(&before.bytes[at], &after[at], width) != 0)
      return i;
  }
  return -1;
}

/// With the name of an argument or a result.
std::string NumberCheck::describe(const Access &access) const {
  bool isNamed = access.ref->space == Space::Argument ||
                 access.ref->space == Space::Result;
  return concat(elementName(*access.type), " of ", countOf(access), " elements",
                isNamed ? " of " + spaceText(*program, *access.ref) : "");
}

/// Their sizes, and their values at the element, where they have as many.
std::string NumberCheck::describeOperands(const Operand &made,
                                          int64_t element) const {
  std::string text;
  for (const Operand &read : reads) {
    text += concat(text.empty() ? "" : ", ", describe(read.access));
    if (countOf(read.access) == countOf(made.access))
      text +=
          concat(" (there ", load(*read.access.type, read.bytes, element), ")");
  }
  return text.empty() ? "no operand" : text;
}

Status NumberCheck::end(const Fetch &fetch) {
  if (!command || isTainted)
    return Status::success();
  for (const Operand &before : writes) {
    std::vector<char> after(before.bytes.size());
    if (Status status = fetch(*before.access.ref, after.data()); !status.ok())
      return status;
    int64_t element = findMade(before, after);
    if (element < 0)
      continue;
    double value = load(*before.access.type, after, element);
    return errorOf(
        "makes ", std::isnan(value) ? "nan" : "inf", " at element ", element,
        " of output ", &before - writes.data(), " (", describe(before.access),
        ") from finite operands: ", describeOperands(before, element));
  }
  return Status::success();
}

} // namespace tandem::rt
