//===- ProblemBuilder.h - search problems written in tests ------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Search problems in a few lines each. Layouts are written one character per
// axis: `f` full, `r` reduce, `p` replicate, a digit the dimension that is
// split; a signature is `0f,ff>0f`, operands before `>`, results behind.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_UNIT_SEARCH_PROBLEMBUILDER_H
#define TANDEM_TEST_UNIT_SEARCH_PROBLEMBUILDER_H

#include "tandem/Cost/Cost.h"

namespace tandem::cost::test {

Layout layout(std::string_view text);
Signature signature(std::string_view text, double seconds = 0,
                    int64_t workspace = 0);

/// Latency and seconds per byte of the four changes, in the order all-gather,
/// reduce-scatter, all-reduce, all-to-all.
using Rates = std::array<ChangeRate, kNumChanges>;
/// The same price, per byte, for every change.
Rates perByte(double secondsPerByte);

struct ProblemBuilder {
  SearchProblem problem;

  void addAxis(const char *name, int64_t size, Rates rates, unsigned queue = 0);
  void addTime(int64_t size, Rates rates);
  unsigned addTensor(const std::string &name, std::vector<int64_t> shape);

  /// An operator; returns its index.
  unsigned add(Operator::Kind kind, Pass pass, const std::string &name,
               std::vector<unsigned> operands, std::vector<unsigned> results,
               SignatureSet signatures);
  unsigned addInput(unsigned tensor, SignatureSet signatures) {
    return add(Operator::Kind::Input, Pass::Forward, "input", {}, {tensor},
               std::move(signatures));
  }
  unsigned addResident(unsigned tensor, SignatureSet signatures) {
    return add(Operator::Kind::Resident, Pass::Forward, "resident", {},
               {tensor}, std::move(signatures));
  }
  unsigned addCompute(Pass pass, std::vector<unsigned> operands,
                      std::vector<unsigned> results, SignatureSet signatures) {
    return add(Operator::Kind::Compute, pass, "compute", std::move(operands),
               std::move(results), std::move(signatures));
  }
  unsigned addOutput(Pass pass, unsigned tensor, SignatureSet signatures) {
    return add(Operator::Kind::Output, pass, "output", {tensor}, {},
               std::move(signatures));
  }
};

} // namespace tandem::cost::test

#endif // TANDEM_TEST_UNIT_SEARCH_PROBLEMBUILDER_H
