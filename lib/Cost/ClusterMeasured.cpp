//===- ClusterMeasured.cpp - line fit of measured times -------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ClusterMeasured.h"
#include "ClusterText.h"
#include <algorithm>

using namespace tandem::cost;

//===----------------------------------------------------------------------===//
// The line
//===----------------------------------------------------------------------===//

namespace {
/// Sums over the points, each weighted by 1 / seconds: relative errors, of
/// which each counts by its seconds.
struct WeightedSums {
  double s = 0, sx = 0, sxx = 0, sy = 0, sxy = 0;

  explicit WeightedSums(const std::vector<MeasuredCollective> &points) {
    for (const MeasuredCollective &point : points) {
      double x = static_cast<double>(point.bytes), y = point.seconds;
      double weight = 1 / y;
      s += weight, sx += weight * x, sxx += weight * x * x;
      sy += weight * y, sxy += weight * x * y;
    }
  }

  double getDeterminant() const { return s * sxx - sx * sx; }
  bool isOneSize() const { return getDeterminant() <= 1e-9 * s * sxx; }
  /// s/B.
  double getRate() const { return (s * sxy - sx * sy) / getDeterminant(); }
};
} // namespace

ChangeRate
tandem::cost::fitMeasured(const std::vector<MeasuredCollective> &points,
                          ChangeRate formula) {
  WeightedSums sums(points);
  if (sums.isOneSize()) {
    double latency = std::min(formula.latency, sums.sy / sums.s);
    return {latency, (sums.sy / sums.s - latency) * sums.s / sums.sx};
  }
  double rate = sums.getRate();
  double latency = (sums.sy - rate * sums.sx) / sums.s;
  if (rate < 0)
    return {sums.sy / sums.s, 0};
  if (latency < 0)
    return {0, sums.sxy / sums.sxx};
  return {latency, rate};
}

//===----------------------------------------------------------------------===//
// Contradictions
//===----------------------------------------------------------------------===//

static std::string describe(const MeasuredOperator &measured) {
  std::string text = measured.op + " of " + measured.type + " ";
  for (size_t i = 0; i < measured.shape.size(); ++i)
    text += (i ? "x" : "") + std::to_string(measured.shape[i]);
  return text;
}

static bool isSame(const MeasuredOperator &a, const MeasuredOperator &b) {
  return a.op == b.op && a.type == b.type && a.shape == b.shape;
}

static std::string describe(const MeasuredCollective &measured) {
  constexpr const char *names[] = {"all-gather", "reduce-scatter", "all-reduce",
                                   "all-to-all"};
  return std::string(names[static_cast<unsigned>(measured.kind)]) + " of " +
         std::to_string(measured.ranks) + " ranks on link '" +
         (measured.isNetwork ? "network" : "node") + "' with " +
         printQuantity(static_cast<double>(measured.bytes), Quantity::Bytes);
}

static bool isSameLine(const MeasuredCollective &a,
                       const MeasuredCollective &b) {
  return a.kind == b.kind && a.isNetwork == b.isNetwork && a.ranks == b.ranks;
}

static bool isSame(const MeasuredCollective &a, const MeasuredCollective &b) {
  return isSameLine(a, b) && a.bytes == b.bytes;
}

/// The first measurement that an earlier one is of, too.
template <typename Measured>
static std::string findRepeated(const std::vector<Measured> &all,
                                const std::vector<std::string> &places) {
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (isSame(all[i], all[j]))
        return places[i] + ": found " + describe(all[i]) +
               " again, expected it once; it stands at " + places[j] + " too";
  return "";
}

bool tandem::cost::rises(const std::vector<MeasuredCollective> &points) {
  WeightedSums sums(points);
  return sums.isOneSize() || sums.getRate() > 0;
}

/// One size would be as good as another. Noise between two sizes is no mistake
/// as long as the whole rises.
static std::string findFalling(const std::vector<MeasuredCollective> &all,
                               const std::vector<std::string> &places) {
  for (size_t i = 0; i < all.size(); ++i) {
    std::vector<MeasuredCollective> points;
    size_t largest = i, smallest = i;
    for (size_t j = 0; j < all.size(); ++j)
      if (isSameLine(all[i], all[j])) {
        points.push_back(all[j]);
        largest = all[j].bytes > all[largest].bytes ? j : largest;
        smallest = all[j].bytes < all[smallest].bytes ? j : smallest;
      }
    if (rises(points))
      continue;
    auto print = [](double seconds) {
      return printQuantity(seconds, Quantity::Time);
    };
    return places[largest] + ": found " + describe(all[largest]) + " in " +
           print(all[largest].seconds) + ", expected more than " +
           print(all[smallest].seconds) + ", which " +
           printQuantity(static_cast<double>(all[smallest].bytes),
                         Quantity::Bytes) +
           " take at " + places[smallest] +
           ": by these times more bytes would cost nothing";
  }
  return "";
}

std::string tandem::cost::findContradiction(
    const Cluster &cluster, const std::vector<std::string> &operatorPlaces,
    const std::vector<std::string> &collectivePlaces) {
  std::string line = findRepeated(cluster.operators, operatorPlaces);
  if (line.empty())
    line = findRepeated(cluster.collectives, collectivePlaces);
  if (line.empty())
    line = findFalling(cluster.collectives, collectivePlaces);
  return line;
}
