//===- RandomProblem.h - seeded random search problems ----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Small training steps at random: a chain of matrix products, elementwise
// operators, operators that keep a dimension whole, operators that need the
// whole batch, and branches that are added; with backward operators, updates
// and outputs tied to parameters and states. Rules are those of the real
// operators; of the many signatures only some are given to a problem, so that
// an exhaustive search ends. Same seed and options, same problem on any
// platform.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_UNIT_SEARCH_RANDOMPROBLEM_H
#define TANDEM_TEST_UNIT_SEARCH_RANDOMPROBLEM_H

#include "tandem/Cost/SearchProblem.h"
#include <random>

namespace tandem::cost::test {

/// Integers and reals that do not depend on the standard library.
class Random {
public:
  explicit Random(uint64_t seed) : engine(seed) {}
  /// In [0, count).
  uint64_t below(uint64_t count) { return engine() % count; }
  /// In [low, high].
  uint64_t choose(uint64_t low, uint64_t high) {
    return low + below(high - low + 1);
  }
  /// In [0, 1).
  double real() { return static_cast<double>(engine() >> 11) * 0x1p-53; }
  double between(double low, double high) {
    return low + (high - low) * real();
  }
  bool chance(double probability) { return real() < probability; }
  template <typename T> const T &pick(const std::vector<T> &values) {
    return values[below(values.size())];
  }

private:
  std::mt19937_64 engine;
};

struct RandomOptions {
  enum class Kind {
    Any,
    /// Much communication, and each operator also as a whole over time, so that
    /// duplex decides.
    Duplex,
    /// An operator that needs the whole batch among others that are split.
    Join,
    /// Two products, split over the batch, whose gradients have to be summed.
    Wait
  };
  Kind kind = Kind::Any;
  /// Forward operators that compute, the loss included.
  unsigned minForward = 3, maxForward = 6;
  /// Signatures of all operators multiplied (tied ones once), times divisions
  /// into stages: at most this.
  uint64_t maxPlans = 20'000;
  /// Whole assignments of signatures that are drawn; their mixtures are what a
  /// search chooses among.
  unsigned maxThemes = 6;
  /// Also shared parameters, momentum, gradients that are split over time, and
  /// meshes of three space axes.
  bool isRich = false;
  /// Forward operators only, one space axis, parameters that may be
  /// `replicate`: for the accountings `hidup-*`.
  bool isHidup = false;
  /// A sum of two branches in front of the loss, where shapes allow it.
  bool hasBranch = false;
};

/// Without pins, and without a memory limit.
SearchProblem makeRandomProblem(uint64_t seed, const RandomOptions &options);

/// An operator whose signatures are limited to some.
struct Pin {
  unsigned op;
  std::vector<unsigned> signatures;
};

/// A random pin of an argument that has a choice; none if no argument has one.
std::optional<Pin> makeRandomPin(const SearchProblem &problem, Random &random);

/// The problem with only these signatures for the operator and those tied to
/// it.
SearchProblem applyPin(SearchProblem problem, const Pin &pin);

/// The problem with only such signatures as are `full` over time, or nothing if
/// some operator has none.
std::optional<SearchProblem> withoutDuplex(SearchProblem problem);

/// Lets some operators of the forward and backward pass make values again.
void addAgain(SearchProblem &problem, Random &random);

/// Makes some tensors views of what their operators read, puts some inside of
/// kernels, holds some from an earlier operator on, and aligns what strands
/// hold.
void addPlaces(SearchProblem &problem, Random &random);

} // namespace tandem::cost::test

#endif // TANDEM_TEST_UNIT_SEARCH_RANDOMPROBLEM_H
