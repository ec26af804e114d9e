//===- Ahead.cpp - recomputation beside collectives of its stage ----------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Cost/Ahead.h"
#include <algorithm>

using namespace tandem::cost;

/// Whether the operator makes something with the signature.
static bool makes(const Signature &signature) {
  return std::any_of(signature.results.begin(), signature.results.end(),
                     [](const Layout &layout) { return !layout.isAbsent(); });
}

bool tandem::cost::isFreeOfArgument(const SearchProblem &problem,
                                    unsigned producer,
                                    const ChangeCost &change) {
  return problem.operators[producer].isArgument() && change.isPossible &&
         !change.joins && change.getTotal(problem.getNumStrands()) == 0;
}

namespace {
class AheadFinder {
public:
  AheadFinder(const SearchProblem &problem, std::span<const unsigned> producers,
              std::span<const unsigned> signatures,
              std::span<const unsigned> copiesFrom)
      : problem(problem), producers(producers), signatures(signatures),
        from(problem.operators.size(), kNeverAhead) {
    for (unsigned op = 0; op < from.size(); ++op)
      if (const Operator &info = problem.operators[op];
          info.isAgain && info.pass != Pass::Update && makes(getForms(op)))
        from[op] = copiesFrom[op];
  }

  /// Until nothing changes: numbers only rise.
  std::vector<unsigned> run() {
    do
      hasRisen = false;
    while (follow(), followKernels(), hasRisen);
    return std::move(from);
  }

private:
  const Signature &getForms(unsigned op) const {
    return problem.getSignatures(op)[signatures[op]];
  }
  const Layout &getProduced(unsigned tensor) const {
    unsigned producer = producers[tensor];
    const std::vector<unsigned> &results = problem.operators[producer].results;
    return getForms(producer)
        .results[std::ranges::find(results, tensor) - results.begin()];
  }
  /// Whether the operator reads the tensor as its producer made it.
  bool readsMade(unsigned op, size_t operand) const {
    const Layout &wanted = getForms(op).operands[operand];
    unsigned tensor = problem.operators[op].operands[operand];
    return !wanted.isAbsent() && wanted == getProduced(tensor) &&
           !problem.operators[producers[tensor]].isArgument();
  }
  void raise(unsigned op, unsigned to) {
    // No stage begins behind an operator of its own.
    to = to > op ? kNeverAhead : to;
    hasRisen |= to > from[op];
    from[op] = std::max(from[op], to);
  }
  void follow();
  void followKernels();

  const SearchProblem &problem;
  std::span<const unsigned> producers, signatures;
  std::vector<unsigned> from;
  bool hasRisen = false;
};
} // namespace

/// What an operator reads was made before the stage, or is made ahead.
void AheadFinder::follow() {
  for (unsigned op = 0; op < from.size(); ++op) {
    raise(op, from[op]);
    const std::vector<unsigned> &operands = problem.operators[op].operands;
    for (size_t i = 0; from[op] != kNeverAhead && i < operands.size(); ++i)
      if (unsigned producer = producers[operands[i]]; readsMade(op, i))
        raise(op, std::min(from[producer], producer + 1));
  }
}

/// What stays inside of a kernel is made with its readers.
void AheadFinder::followKernels() {
  for (unsigned op = from.size(); op-- > 0;) {
    const std::vector<unsigned> &operands = problem.operators[op].operands;
    for (size_t i = 0; i < operands.size(); ++i)
      if (problem.tensors[operands[i]].isInKernel && readsMade(op, i))
        raise(producers[operands[i]], from[op]);
  }
}

std::vector<unsigned>
tandem::cost::findAheadFrom(const SearchProblem &problem,
                            std::span<const unsigned> producers,
                            std::span<const unsigned> signatures,
                            std::span<const unsigned> copiesFrom) {
  return AheadFinder(problem, producers, signatures, copiesFrom).run();
}
