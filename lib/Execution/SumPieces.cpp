//===- SumPieces.cpp - sizes of pieces of gradient sums -------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SumPieces.h"
#include "tandem/Conversion/Emit/CutSums.h"
#include "tandem/Cost/Plan.h"
#include "tandem/Prediction/Prediction.h"
#include "tandem/Support/ByteSize.h"
#include <algorithm>

namespace tandem {

/// Seconds of a step; nothing, with `error`, where the cluster does not fit.
static std::optional<double> predict(const rt::Program &program,
                                     const std::string &path,
                                     std::string &error) {
  rt::Bytes bytes = rt::serializeProgram(program);
  auto report = simulateMade(
      {reinterpret_cast<const char *>(bytes.data()), bytes.size()}, path);
  if (!report.ok()) {
    error = report.status().message();
    return std::nullopt;
  }
  return report->seconds;
}

/// The sizes of 1, 2, 5, 10, ... below `bytes`, the largest first. What is
/// smaller than the last one is sent at once (runtime/comm/gloo/blocks.cpp).
static std::vector<int64_t> getSizes(int64_t bytes) {
  std::vector<int64_t> sizes;
  for (int64_t power = 1000; power < bytes; power *= 10)
    for (int64_t size : {power, 2 * power, 5 * power})
      if (size >= 5000 && size < bytes)
        sizes.insert(sizes.begin(), size);
  return sizes;
}

namespace {
struct Trial {
  int64_t bytes = 0;
  double seconds = 0;
  std::string print() const {
    return cost::printSeconds(seconds) +
           (bytes ? " in pieces of " + printByteSize(bytes) : " whole");
  }
};
} // namespace

static std::string describe(const Trial &best, const std::vector<Trial> &all) {
  std::string text = "gradients of sections are summed ";
  text += best.bytes ? "in pieces of " + printByteSize(best.bytes) : "whole";
  text += ": a step is predicted to take " + cost::printSeconds(best.seconds);
  for (const Trial &other : all)
    if (other.bytes != best.bytes)
      text += ", " + other.print();
  return text;
}

std::optional<SumPiece> chooseSumPiece(const rt::Program &program,
                                       const std::string &path,
                                       llvm::function_ref<bool()> ends,
                                       FitsProgram fits, std::string &error) {
  // What is not shorter by so much is not worth it.
  constexpr double kWorth = 1e-3;
  constexpr int kMaxWorse = 2;
  int64_t largest = getLargestSum(program);
  auto whole = largest > 0 ? predict(program, path, error) : std::nullopt;
  if (!whole)
    return std::nullopt;
  std::vector<Trial> all = {{0, *whole}};
  Trial best = all.front();
  int worse = 0;
  for (int64_t bytes : getSizes(largest)) {
    rt::Program cut = cutSums(program, bytes);
    if (!fits(cut))
      continue;
    auto seconds = predict(cut, path, error);
    if (!seconds)
      return std::nullopt;
    all.push_back({bytes, *seconds});
    bool isBetter = *seconds < best.seconds * (1 - kWorth);
    if (isBetter)
      best = all.back();
    worse = isBetter ? 0 : worse + 1;
    if (worse == kMaxWorse || ends())
      break;
  }
  return SumPiece{best.bytes, describe(best, all)};
}

} // namespace tandem
