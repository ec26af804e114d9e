//===- product_ways.cpp - operand layouts for oneDNN products -------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cpu/product_ways.h"
#include "core/kept.h"
#include "core/text.h"
#include "tandem_rt/machine.h"

#include <algorithm>

#include <oneapi/dnnl/dnnl.hpp>

namespace tandem::rt::cpu {

namespace {
/// Below so many operations a product takes no time worth a measurement.
constexpr double kLeastFlops = 1 << 24;

constexpr std::string_view kNames[kNumProductWays] = {"plain", "packed-a",
                                                      "packed-b", "packed"};

void append(std::string &text, const Shape &numbers) {
  for (int64_t number : numbers)
    text += concat(number, ",");
  text += ' ';
}

bool isMeasured(const Gemm &gemm) {
  double flops = 2.0 * double(numElements(gemm.batch)) * double(gemm.m) *
                 double(gemm.n) * double(gemm.k);
  return gemm.inputType != ElementType::F64 && flops >= kLeastFlops;
}

std::optional<ProductWay> findOrMeasure(const Gemm &gemm, int threads,
                                        const IsCancelled &isCancelled) {
  std::string key = keyOf(gemm, threads);
  std::optional<ProductWay> way = findWay(key);
  if (way)
    return way;
  way = measureWay(gemm, threads, isCancelled);
  return way ? keepWay(key, *way) : way;
}
} // namespace

std::string_view nameOf(ProductWay way) { return kNames[size_t(way)]; }

std::optional<ProductWay> parseWay(std::string_view name) {
  const auto *found = std::find(std::begin(kNames), std::end(kNames), name);
  if (found == std::end(kNames))
    return std::nullopt;
  return ProductWay(found - std::begin(kNames));
}

std::string keyOf(const Gemm &gemm, int threads) {
  static const std::string cpu = cpuName();
  const dnnl_version_t *version = dnnl_version();
  std::string key =
      concat(elementName(gemm.inputType), " ", elementName(gemm.outputType),
             " ", gemm.m, " ", gemm.n, " ", gemm.k, " ");
  for (const Shape *list :
       {&gemm.batch, &gemm.stridesA, &gemm.stridesB, &gemm.stridesC})
    append(key, *list);
  return key + concat(gemm.accumulate ? "accumulate " : "",
                      gemm.bias ? "bias " : "", threads, " threads, oneDNN ",
                      version->major, ".", version->minor, ".", version->patch,
                      ", ", cpu);
}

std::optional<ProductWay> findWay(const std::string &key) {
  std::optional<std::string> kept = findKept(key);
  return kept ? parseWay(*kept) : std::nullopt;
}

ProductWay keepWay(const std::string &key, ProductWay way) {
  std::string kept = keep(key, std::string(nameOf(way)), [](const auto &word) {
    return parseWay(word).has_value();
  });
  return parseWay(kept).value_or(way);
}

std::optional<ProductWays> chooseWays(const Program &program, int threads,
                                      const IsCancelled &isCancelled) {
  ProductWays ways;
  std::map<std::string, ProductWay> known;
  for (const RankProgram &ranks : program.rankPrograms)
    for (const Command *command : ranks.listing()) {
      const auto *gemm = std::get_if<Gemm>(&command->operation);
      if (!gemm || !isMeasured(*gemm))
        continue;
      std::string key = keyOf(*gemm, threads);
      auto it = known.find(key);
      if (it == known.end()) {
        auto way = findOrMeasure(*gemm, threads, isCancelled);
        if (!way)
          return std::nullopt;
        it = known.emplace(key, *way).first;
      }
      ways[gemm] = it->second;
    }
  return ways;
}

} // namespace tandem::rt::cpu
