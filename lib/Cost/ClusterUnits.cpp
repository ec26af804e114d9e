//===- ClusterUnits.cpp - numbers with units ------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ClusterText.h"
#include "tandem/Support/ByteSize.h"
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <span>

using namespace tandem::cost;

namespace {
/// Two factors, as 10 / 1e6 is the double nearest to 10 us and 10 * 1e-6 is
/// not.
struct Unit {
  std::string_view name;
  double multiplier, divisor;
};

struct Measure {
  const char *description, *example;
  std::span<const Unit> units;
  /// Beyond any machine: values outside are slips, and sums of what they make
  /// operators cost would not stay finite.
  double least = 0, most = std::numeric_limits<double>::infinity();
};
} // namespace

// Printing uses those before the end of the decimal ones, by rising size.
constexpr Unit kTime[] = {
    {"ns", 1, 1e9}, {"us", 1, 1e6}, {"ms", 1, 1e3}, {"s", 1, 1}};
constexpr auto kBytes = [] {
  std::array<Unit, std::size(tandem::kByteUnits)> units{};
  for (size_t i = 0; i < units.size(); ++i)
    units[i] = {tandem::kByteUnits[i].name, tandem::kByteUnits[i].bytes, 1};
  return units;
}();
constexpr Unit kBandwidth[] = {
    {"B/s", 1, 1},       {"kB/s", 1e3, 1},     {"MB/s", 1e6, 1},
    {"GB/s", 1e9, 1},    {"TB/s", 1e12, 1},    {"bit/s", 1, 8},
    {"kbit/s", 1e3, 8},  {"Mbit/s", 1e6, 8},   {"Gbit/s", 1e9, 8},
    {"Tbit/s", 1e12, 8}, {"MiB/s", 0x1p20, 1}, {"GiB/s", 0x1p30, 1},
    {"TiB/s", 0x1p40, 1}};
constexpr Unit kRate[] = {{"FLOP/s", 1, 1},     {"kFLOP/s", 1e3, 1},
                          {"MFLOP/s", 1e6, 1},  {"GFLOP/s", 1e9, 1},
                          {"TFLOP/s", 1e12, 1}, {"PFLOP/s", 1e15, 1}};
constexpr Unit kFlops[] = {{"FLOP", 1, 1},     {"kFLOP", 1e3, 1},
                           {"MFLOP", 1e6, 1},  {"GFLOP", 1e9, 1},
                           {"TFLOP", 1e12, 1}, {"PFLOP", 1e15, 1}};
constexpr Unit kPrice[] = {{"USD/h", 1, 1}};

static Measure getMeasure(Quantity quantity) {
  switch (quantity) {
  case Quantity::Time:
    return {"a time", "'10 us'", kTime, 1e-15, 1e6};
  case Quantity::Bytes:
    return {"a size", "'32 GiB'", kBytes, 1, double(tandem::kMaxByteSize)};
  case Quantity::Bandwidth:
    return {"a bandwidth", "'9.71 Gbit/s'", kBandwidth, 1, 1e18};
  case Quantity::Rate:
    return {"a rate of computation", "'125 TFLOP/s'", kRate, 1, 1e24};
  case Quantity::Flops:
    return {"an amount of work", "'100 MFLOP'", kFlops, 1, 1e30};
  case Quantity::Price:
    return {"a price", "'2.5 USD/h'", kPrice, 1e-9, 1e9};
  case Quantity::Share:
    return {"a share above 0 and at most 1", "0.7", {}};
  case Quantity::Factor:
    return {"a factor of at least 1", "1.14", {}, 1, 1e6};
  case Quantity::Count:
    return {"a whole number", "8", {}};
  }
  return {};
}

std::string tandem::cost::describe(Quantity quantity, bool mayBeZero) {
  Measure measure = getMeasure(quantity);
  bool saysRange = quantity == Quantity::Share || quantity == Quantity::Factor;
  std::string range = saysRange   ? ", such as "
                      : mayBeZero ? " of at least zero, such as "
                                  : " above zero, such as ";
  return measure.description + range + measure.example;
}

/// `most` or `least` if the value lies beyond it, which describes no machine.
static std::optional<double> findLimit(double value, const Measure &measure) {
  if (value > measure.most)
    return measure.most;
  if (value != 0 && value < measure.least)
    return measure.least;
  return std::nullopt;
}

static bool isInRange(double value, Quantity quantity, bool mayBeZero) {
  switch (quantity) {
  case Quantity::Share:
    return value > 0 && value <= 1;
  case Quantity::Factor:
    return value >= 1;
  case Quantity::Count:
    // 2^53: whole numbers that a double holds.
    if (value != std::floor(value) || value > 0x1p53)
      return false;
    [[fallthrough]];
  default:
    return mayBeZero ? value >= 0 : value > 0;
  }
}

std::optional<double> tandem::cost::parseQuantity(std::string_view text,
                                                  Quantity quantity,
                                                  bool mayBeZero,
                                                  std::string &found) {
  found = text.empty() ? "nothing" : "'" + std::string(text) + "'";
  double value = 0;
  auto [end, code] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc())
    return std::nullopt;
  std::string_view unit(end, text.data() + text.size() - end);
  unit.remove_prefix(std::min(unit.find_first_not_of(' '), unit.size()));
  std::span<const Unit> units = getMeasure(quantity).units;
  if (unit.empty() && !units.empty()) {
    found += " without a unit";
    return std::nullopt;
  }
  bool isKnown = unit.empty();
  for (const Unit &known : units)
    if (known.name == unit) {
      value = value * known.multiplier / known.divisor;
      isKnown = true;
    }
  if (!isKnown || !std::isfinite(value) ||
      !isInRange(value, quantity, mayBeZero))
    return std::nullopt;
  if (auto limit = findLimit(value, getMeasure(quantity))) {
    found += (value > *limit ? ", which is above " : ", which is below ") +
             printQuantity(*limit, quantity);
    return std::nullopt;
  }
  return value;
}

std::string tandem::cost::printQuantity(double value, Quantity quantity) {
  Unit best{"", 1, 1};
  bool isFirst = true;
  for (const Unit &unit : getMeasure(quantity).units) {
    bool isDecimal = unit.name.find("bit") == std::string_view::npos &&
                     unit.name.find('i') == std::string_view::npos;
    if (isDecimal && (isFirst || value * unit.divisor / unit.multiplier >= 1))
      best = unit;
    isFirst = false;
  }
  char digits[32];
  std::snprintf(digits, sizeof digits, "%.12g",
                value * best.divisor / best.multiplier);
  return digits + (best.name.empty() ? "" : " " + std::string(best.name));
}
