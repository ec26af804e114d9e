//===- PlanFixture.h - plans written in tests -------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Problems with a space axis `data` of size 2, maybe a time axis of size 2, and
// plans that take the only signature of each operator. Tensors are 8x4 of 4
// bytes, 128 B, so that at 1/64 s/B a change of a whole one takes 2 s and of
// one strand's half 1 s.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_UNIT_SEARCH_PLANFIXTURE_H
#define TANDEM_TEST_UNIT_SEARCH_PLANFIXTURE_H

#include "ProblemBuilder.h"
#include "gtest/gtest.h"

namespace tandem::cost::test {

constexpr double kTolerance = 1e-12;
constexpr Pass kForward = Pass::Forward, kBackward = Pass::Backward,
               kUpdate = Pass::Update;

struct PlanFixture : ::testing::Test {
  ProblemBuilder b;

  PlanFixture() { b.addAxis("data", 2, perByte(1.0 / 64)); }
  void addTime() { b.addTime(2, perByte(1.0 / 128)); }
  unsigned tensor(const char *name) { return b.addTensor(name, {8, 4}); }
  unsigned input(const char *name, const char *form) {
    unsigned result = tensor(name);
    b.addInput(result, {signature(form)});
    return result;
  }
  unsigned resident(const char *name, const char *form) {
    unsigned result = tensor(name);
    b.addResident(result, {signature(form)});
    return result;
  }
  unsigned compute(Pass pass, std::vector<unsigned> operands, const char *forms,
                   double seconds, const char *name = "t",
                   int64_t workspace = 0) {
    unsigned result = tensor(name);
    b.addCompute(pass, std::move(operands), {result},
                 {signature(forms, seconds, workspace)});
    return result;
  }
  Plan plan(std::vector<unsigned> stageEnds) const {
    Plan plan;
    plan.signatures.resize(b.problem.operators.size());
    plan.stageEnds = std::move(stageEnds);
    return plan;
  }
};

/// Two strands; 2 s, then a collective of `change` s, then 3 s, per strand.
template <typename Fixture> struct TwoStages : Fixture {
  void build(double change) {
    this->b.problem.axes[0].rates = perByte(change / 64);
    this->addTime();
    unsigned x = this->input("x", ">00");
    unsigned y = this->compute(kForward, {x}, "00>00", 2, "y");
    this->compute(kForward, {y}, "f0>f0", 3);
  }
};

/// A gradient `dw` of 3 s per strand, summed over time in 1 s and over data in
/// `change` s, maybe a backward operator of 5 s per strand behind it, and its
/// update of 1 s.
template <typename Fixture> struct WithGradient : Fixture {
  unsigned dw = 0;
  void build(double change, bool hasMore) {
    this->b.problem.axes[0].rates = perByte(change / 128);
    this->addTime();
    unsigned x = this->input("x", ">00"), w = this->resident("w", ">ff");
    dw = this->compute(kBackward, {x}, "00>rr", 3, "dw");
    if (hasMore)
      this->compute(kBackward, {x}, "00>00", 5);
    unsigned updated = this->compute(kUpdate, {w, dw}, "ff,ff>ff", 1);
    unsigned output = this->b.addOutput(kUpdate, updated, {signature("ff>")});
    this->b.problem.ties.push_back({1, output});
  }
  Plan waitingPlan() const {
    Plan plan = this->plan({3, 4, 6});
    plan.waiting = {{dw, layout("ff"), kUpdate}};
    return plan;
  }
};

} // namespace tandem::cost::test

#endif // TANDEM_TEST_UNIT_SEARCH_PLANFIXTURE_H
