//===- RandomGenerator.h - makes a random search problem --------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// First the mesh and the graph, with a rule per operator and kind of axis
// (RandomProblem.cpp); then the signatures that are left of the rules, so that
// there are few enough plans to look at all (RandomSignatures.cpp).
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_UNIT_SEARCH_RANDOMGENERATOR_H
#define TANDEM_TEST_UNIT_SEARCH_RANDOMGENERATOR_H

#include "ProblemBuilder.h"
#include "RandomProblem.h"
#include <map>

namespace tandem::cost::test {

/// Forms of operands and results along one axis, one character each.
using Rule = std::vector<std::string>;

/// An operator before its signatures are drawn.
struct Draft {
  Rule space, time;
  /// Of the whole operator on one device.
  double seconds = 0;
  int64_t workspace = 0;
  /// The resident operator whose signature an output copies.
  int tiedTo = -1;
};

/// A choice from the rule per axis.
using Choice = std::array<unsigned, kMaxAxes>;
using Theme = std::vector<Choice>;

class Generator {
public:
  Generator(uint64_t seed, const RandomOptions &options)
      : random(seed * 2 + 1), options(options) {}
  SearchProblem run();

private:
  void makeMesh();
  Rates makeRates(double scale);
  void makeForward();
  void makeBackward();
  void makeUpdates();
  unsigned getParameter(int64_t k, int64_t n);
  unsigned addMatmul(unsigned x);
  unsigned addLayer(unsigned x);
  std::vector<unsigned> listAddends(unsigned x) const;
  unsigned addSum(unsigned x, unsigned addend, unsigned y);
  void addBackward(const Operator &forward, unsigned index);
  void addMatmulBackward(const Operator &forward, unsigned index, unsigned dy);
  unsigned makeGradient(unsigned tensor);
  void addTiedOutput(unsigned resident, unsigned updated);
  void addUpdate(unsigned w, unsigned dw, unsigned resident);
  void addGradient(unsigned tensor, unsigned gradient) {
    gradients[tensor].push_back(gradient);
  }

  unsigned makeTensor(const char *prefix, std::vector<int64_t> shape);
  unsigned makeLike(const char *prefix, unsigned tensor) {
    return makeTensor(prefix, b.problem.tensors[tensor].shape);
  }
  unsigned addResident(unsigned tensor);
  unsigned addCompute(Pass pass, const char *name,
                      std::vector<unsigned> operands,
                      std::vector<unsigned> results, Rule space, Rule time,
                      int attachedTo = -1);
  unsigned addDraft(Draft draft, unsigned op);

  bool drawAxis(unsigned axis, Theme &theme);
  unsigned drawRule(const Rule &rule, const Operator &op,
                    const std::vector<char> &forms, double coherence);
  const Rule &getRule(unsigned op, unsigned axis) const {
    return b.problem.axes[axis].isTime ? drafts[op].time : drafts[op].space;
  }
  Theme drawTheme();
  Theme makeWhole(Theme theme) const;
  Signature makeSignature(unsigned op, const Choice &choice);
  void addSignatures(const Theme &theme, size_t begin, size_t end);
  bool tryWindow(const Theme &theme, size_t begin, size_t end);
  uint64_t countPlans() const;
  void drawSignatures();

  Random random;
  RandomOptions options;
  ProblemBuilder b;
  std::vector<Draft> drafts;
  std::vector<std::vector<unsigned>> gradients;
  std::vector<std::vector<Choice>> drawn;
  /// Parameters and their gradients' names, in the order of creation.
  std::vector<unsigned> parameters;
  std::map<unsigned, unsigned> momentum;
  double secondsPerByte = 0, strandOverhead = 1;
  /// How often an operator takes its operands as they are, where it can.
  double coherence = 1;
  bool hasJitter = false, hasJoin = false;
};

} // namespace tandem::cost::test

#endif // TANDEM_TEST_UNIT_SEARCH_RANDOMGENERATOR_H
