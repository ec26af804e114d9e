//===- TensorIndex.cpp - makers and readers of tensors --------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Cost/TensorIndex.h"
#include <algorithm>

using namespace tandem::cost;

TensorIndex::TensorIndex(const SearchProblem &problem)
    : problem(problem), tensors(problem.tensors.size()) {
  std::vector<bool> isTied = problem.getTiedOutputs();
  for (unsigned op = 0; op < problem.operators.size(); ++op) {
    const Operator &info = problem.operators[op];
    for (unsigned i = 0; i < info.results.size(); ++i) {
      tensors[info.results[i]].producer = op;
      tensors[info.results[i]].result = i;
    }
    for (unsigned i = 0; i < info.operands.size(); ++i) {
      TensorFacts &tensor = tensors[info.operands[i]];
      tensor.hasOnlyTiedUses =
          isTied[op] && (tensor.uses.empty() || tensor.hasOnlyTiedUses);
      tensor.hasTiedUse |= isTied[op];
      tensor.numUpdateUses += info.pass == Pass::Update;
      tensor.uses.push_back({op, i});
    }
  }
}

bool TensorIndex::mayBeAbsent(const TensorUse &use) const {
  const SignatureSet &set = problem.getSignatures(use.op);
  return std::any_of(set.begin(), set.end(), [&](const Signature &signature) {
    return signature.operands[use.operand].isAbsent();
  });
}
