//===- ProblemText.cpp - a search problem as text -------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Text.h"
#define XXH_INLINE_ALL
#include <xxhash.h>

using namespace tandem::cost;

static std::string printAxis(const Axis &axis, bool hasPrices) {
  std::string text = "axis " + axis.name +
                     (axis.isTime ? " time " : " space ") +
                     std::to_string(axis.size);
  if (!hasPrices)
    return text + "\n";
  if (!axis.isTime)
    text += " queue " + std::to_string(axis.queue);
  for (unsigned i = 0; i < kNumChanges; ++i)
    text += " " + std::string(kChangeNames[i]) + " " +
            printNumber(axis.rates[i].latency) + " s " +
            printNumber(axis.rates[i].secondsPerByte) + " s/B";
  return text + "\n";
}

static std::string printTensor(const Tensor &tensor, unsigned index,
                               bool hasPlaces) {
  std::string shape;
  for (int64_t size : tensor.shape)
    shape += (shape.empty() ? "" : "x") + std::to_string(size);
  return "tensor " + std::to_string(index) + " " + printWord(tensor.name) +
         " " + (shape.empty() ? "scalar" : shape) + " " +
         std::to_string(tensor.elementBytes) + " B" +
         (tensor.times == 1 ? "" : " times " + std::to_string(tensor.times)) +
         (hasPlaces && tensor.viewOf >= 0
              ? " view " + std::to_string(tensor.viewOf)
              : "") +
         (hasPlaces && tensor.isInKernel ? " inside" : "") +
         (hasPlaces && tensor.heldFrom == Tensor::kIfRead ? " if-read" : "") +
         (hasPlaces && tensor.heldFrom >= 0
              ? " from " + std::to_string(tensor.heldFrom)
              : "") +
         "\n";
}

/// Those that are not the operator's own.
static std::string printLocations(const Operator &op, const char *word,
                                  const std::vector<std::string> &locations) {
  std::string text;
  for (size_t i = 0; i < locations.size(); ++i)
    if (locations[i] != op.location)
      text += std::string(" ") + word + " " + std::to_string(i) + " " +
              printWord(locations[i]);
  return text;
}

static std::string printOperator(const Operator &op, unsigned index,
                                 bool hasPlaces) {
  std::string text = "operator " + std::to_string(index) + " ";
  text += getPassName(op.pass);
  text += " ";
  text += kKindNames[static_cast<unsigned>(op.kind)];
  text += " " + printWord(op.name) + " set " + std::to_string(op.signatureSet) +
          " operands " + printList(op.operands) + " results " +
          printList(op.results);
  if (op.isAgain)
    text += " again";
  if (op.attachedTo >= 0)
    text += " attached " + std::to_string(op.attachedTo);
  if (!op.location.empty())
    text += " at " + printWord(op.location);
  if (hasPlaces)
    text += printLocations(op, "reads", op.readLocations) +
            printLocations(op, "makes", op.madeLocations);
  return text + "\n";
}

static void printPrices(const SearchProblem &problem, std::string &text) {
  text += "accounting " + std::string(getAccountingName(problem.accounting));
  if (!problem.graphHash.empty())
    text += "\ngraph " + problem.graphHash;
  text += "\nslowdown compute " + printNumber(problem.computeSlowdown) +
          " collective " + printNumber(problem.collectiveSlowdown) +
          "\npiece " + printNumber(problem.pieceLatency) + " s\n";
  if (problem.memoryLimit != kNoLimit)
    text += "memory " + std::to_string(problem.memoryLimit) + " B\n";
  if (problem.alignment != 1)
    text += "alignment " + std::to_string(problem.alignment) + "\n";
}

static std::string printProblem(const SearchProblem &problem, bool hasPrices) {
  std::string text = "tandem-problem 1\n";
  if (hasPrices)
    printPrices(problem, text);
  for (const Axis &axis : problem.axes)
    text += printAxis(axis, hasPrices);
  for (unsigned i = 0; i < problem.tensors.size(); ++i)
    text += printTensor(problem.tensors[i], i, /*hasPlaces=*/hasPrices);
  for (unsigned i = 0; i < problem.signatureSets.size(); ++i) {
    text += "signatures " + std::to_string(i) + "\n";
    for (const Signature &signature : problem.signatureSets[i]) {
      text += "  " + print(problem, signature);
      if (hasPrices)
        text += " " + printNumber(signature.seconds) + " s " +
                std::to_string(signature.workspace) + " B";
      text += "\n";
    }
  }
  for (unsigned i = 0; i < problem.operators.size(); ++i)
    text += printOperator(problem.operators[i], i, /*hasPlaces=*/hasPrices);
  for (auto [first, second] : problem.ties)
    text +=
        "tie " + std::to_string(first) + " " + std::to_string(second) + "\n";
  return text;
}

std::string tandem::cost::print(const SearchProblem &problem) {
  return printProblem(problem, /*hasPrices=*/true);
}

std::string tandem::cost::getStructureHash(const SearchProblem &problem) {
  std::string text = printProblem(problem, /*hasPrices=*/false);
  XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  char buffer[33];
  snprintf(buffer, sizeof(buffer), "%016llx%016llx",
           static_cast<unsigned long long>(hash.high64),
           static_cast<unsigned long long>(hash.low64));
  return buffer;
}

std::string tandem::cost::getProofHash(const SearchProblem &problem,
                                       double bound) {
  std::string text = print(problem) + "bound " + printNumber(bound) + "\n";
  char buffer[17];
  snprintf(
      buffer, sizeof(buffer), "%016llx",
      static_cast<unsigned long long>(XXH3_64bits(text.data(), text.size())));
  return buffer;
}
