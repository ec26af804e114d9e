//===- Compare.cpp - prints and compares results -----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Reference/Compare.h"
#include "llvm/Support/Format.h"
#include <cmath>

using namespace mlir;

namespace tandem::reference {

//===----------------------------------------------------------------------===//
// Comparing
//===----------------------------------------------------------------------===//

double getLargest(const Tensor &tensor) {
  double largest = 0;
  for (int64_t i = 0; i < tensor.getNumElements(); ++i)
    if (std::isfinite(tensor.getDouble(i)))
      largest = std::max(largest, std::fabs(tensor.getDouble(i)));
  return largest;
}

static double getTolerance(Type type) {
  if (!isa<FloatType>(type))
    return 0;
  if (type.isF64())
    return 1e-9;
  return type.isF32() ? 1e-4 : 5e-2;
}

/// |x - y|; infinite where only one of them is finite.
static double getDifference(double x, double y) {
  if (x == y || (std::isnan(x) && std::isnan(y)))
    return 0;
  return std::isfinite(x - y) ? std::fabs(x - y) : HUGE_VAL;
}

bool isClose(const Tensor &expected, const Tensor &found,
             std::optional<double> tolerance, std::string &reason, double floor,
             const llvm::BitVector *exempt) {
  llvm::raw_string_ostream os(reason);
  if (expected.getType() != found.getType()) {
    os << "is a " << found.getType() << ", expected a " << expected.getType();
    return false;
  }
  double worst = 0;
  int64_t at = 0;
  for (int64_t i = 0; i < expected.getNumElements(); ++i) {
    if (exempt && exempt->test(i))
      continue;
    double difference =
        getDifference(expected.getDouble(i), found.getDouble(i));
    if (difference <= worst)
      continue;
    worst = difference;
    at = i;
  }
  double scale = std::max(getLargest(expected), floor);
  if (worst <=
      scale * tolerance.value_or(getTolerance(expected.getElementType())))
    return true;
  os << "differs most at element " << at << ": "
     << llvm::format("%.17g", found.getDouble(at)) << ", expected "
     << llvm::format("%.17g", expected.getDouble(at));
  return false;
}

/// `parameter` of `parameter/1.weight`.
static StringRef getRole(StringRef key) { return key.split('/').first; }

/// What is smaller than this share of the largest value of its kind may be
/// nothing but rounding.
static constexpr double kFloor = 1e-3;
static constexpr llvm::StringLiteral kFirstMoment = "state/exp_avg.";

static std::map<std::string, double> getFloors(const TensorMap &results) {
  std::map<std::string, double> floors;
  for (const auto &[key, tensor] : results) {
    double &floor = floors[getRole(key).str()];
    floor = std::max(floor, kFloor * getLargest(tensor));
  }
  return floors;
}

/// The elements of each parameter whose moves rounding decides, by key.
static std::map<std::string, llvm::BitVector>
getExempt(const TensorMap &results) {
  double largest = 0;
  for (const auto &[key, tensor] : results)
    if (StringRef(key).starts_with(kFirstMoment))
      largest = std::max(largest, getLargest(tensor));
  std::map<std::string, llvm::BitVector> exempt;
  for (const auto &[key, tensor] : results) {
    StringRef name = key;
    if (!name.consume_front(kFirstMoment))
      continue;
    llvm::BitVector &elements = exempt[("parameter/" + name).str()];
    elements.resize(tensor.getNumElements());
    for (int64_t i = 0; i < tensor.getNumElements(); ++i)
      elements[i] = std::fabs(tensor.getDouble(i)) < kFloor * largest;
  }
  return exempt;
}

/// Says how many elements of parameters were not compared.
static void printExempt(const std::map<std::string, llvm::BitVector> &exempt,
                        llvm::raw_ostream &os) {
  uint64_t count = 0, of = 0;
  for (const auto &[key, elements] : exempt) {
    count += elements.count();
    of += elements.size();
  }
  if (count)
    os << "note: " << count << " of " << of
       << " elements of parameters are not compared: their first moment is "
          "below a thousandth of the largest, so that rounding moves them\n";
}

bool areSame(const TrainingResult &expected, const TrainingResult &found,
             std::optional<double> tolerance, llvm::raw_ostream &os) {
  bool same = expected.results.size() == found.results.size();
  if (!same)
    os << "error: found " << found.results.size() << " results, expected "
       << expected.results.size() << "\n";
  auto floors = getFloors(expected.results);
  auto exempt = getExempt(expected.results);
  for (const auto &[key, tensor] : expected.results) {
    auto it = found.results.find(key);
    std::string reason;
    auto elements = exempt.find(key);
    if (it == found.results.end())
      reason = "is missing";
    else if (isClose(tensor, it->second, tolerance, reason,
                     floors[getRole(key).str()],
                     elements == exempt.end() ? nullptr : &elements->second))
      continue;
    os << "error: '" << key << "' " << reason << "\n";
    same = false;
  }
  printExempt(exempt, os);
  return same;
}

//===----------------------------------------------------------------------===//
// Printing
//===----------------------------------------------------------------------===//

void printLosses(const TrainingResult &run, llvm::raw_ostream &os) {
  for (auto [step, losses] : llvm::enumerate(run.losses))
    for (const auto &[key, loss] : losses)
      os << "step " << step << " " << key << llvm::format(" %.12g\n", loss);
}

static void printTensor(StringRef key, const Tensor &tensor,
                        llvm::raw_ostream &os) {
  constexpr int64_t kFirst = 4;
  double sum = 0, magnitudes = 0;
  for (int64_t i = 0; i < tensor.getNumElements(); ++i) {
    sum += tensor.getDouble(i);
    magnitudes += std::fabs(tensor.getDouble(i));
  }
  os << key << " : " << tensor.getType()
     << llvm::format(" sum %.6g, sum of magnitudes %.6g, first", sum,
                     magnitudes);
  for (int64_t i = 0; i < std::min(tensor.getNumElements(), kFirst); ++i)
    os << llvm::format(" %.6g", tensor.getDouble(i));
  os << "\n";
}

void printResults(const TrainingResult &run, llvm::raw_ostream &os) {
  for (const auto &[key, tensor] : run.results)
    printTensor(key, tensor, os);
}

} // namespace tandem::reference
