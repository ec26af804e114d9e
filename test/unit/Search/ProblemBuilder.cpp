//===- ProblemBuilder.cpp - search problems written in tests --------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProblemBuilder.h"

using namespace tandem::cost;
using namespace tandem::cost::test;

Layout test::layout(std::string_view text) {
  Layout result;
  for (unsigned axis = 0; axis < text.size(); ++axis) {
    char form = text[axis];
    result[axis] = form == 'f'   ? kFull
                   : form == 'r' ? kReduce
                   : form == 'p' ? kReplicate
                                 : static_cast<Form>(form - '0');
  }
  return result;
}

static std::vector<Layout> layouts(std::string_view text) {
  std::vector<Layout> result;
  while (!text.empty()) {
    size_t comma = text.find(',');
    result.push_back(layout(text.substr(0, comma)));
    text.remove_prefix(comma == text.npos ? text.size() : comma + 1);
  }
  return result;
}

Signature test::signature(std::string_view text, double seconds,
                          int64_t workspace) {
  size_t arrow = text.find('>');
  return {layouts(text.substr(0, arrow)), layouts(text.substr(arrow + 1)),
          seconds, workspace};
}

Rates test::perByte(double secondsPerByte) {
  Rates rates;
  rates.fill({0, secondsPerByte});
  return rates;
}

void ProblemBuilder::addAxis(const char *name, int64_t size, Rates rates,
                             unsigned queue) {
  problem.axes.push_back({name, size, false, queue, rates});
}

void ProblemBuilder::addTime(int64_t size, Rates rates) {
  problem.axes.push_back({"micro", size, true, 0, rates});
}

unsigned ProblemBuilder::addTensor(const std::string &name,
                                   std::vector<int64_t> shape) {
  problem.tensors.push_back({name, std::move(shape), 4});
  return problem.tensors.size() - 1;
}

unsigned ProblemBuilder::add(Operator::Kind kind, Pass pass,
                             const std::string &name,
                             std::vector<unsigned> operands,
                             std::vector<unsigned> results,
                             SignatureSet signatures) {
  Operator op;
  op.kind = kind;
  op.pass = pass;
  op.name = name;
  op.signatureSet = problem.signatureSets.size();
  op.operands = std::move(operands);
  op.results = std::move(results);
  problem.signatureSets.push_back(std::move(signatures));
  problem.operators.push_back(std::move(op));
  return problem.operators.size() - 1;
}
