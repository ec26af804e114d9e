//===- ExplainNames.cpp - names of tensors in reports ---------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ExplainNames.h"
#include <algorithm>
#include <utility>

using namespace tandem::cost;
using namespace tandem::explain;

static bool isDigit(char letter) { return letter >= '0' && letter <= '9'; }

static bool isWord(char letter) {
  return isDigit(letter) || (letter >= 'a' && letter <= 'z') ||
         (letter >= 'A' && letter <= 'Z');
}

/// Splits a name into what stands around its numbers, and the numbers: those of
/// `layers.3` and `matmul_17`, not of `w1`.
static void takeApart(std::string_view name, std::vector<std::string> &texts,
                      std::vector<std::string> &numbers) {
  texts.emplace_back();
  for (size_t begin = 0; begin < name.size();) {
    size_t end = begin;
    while (end < name.size() && isWord(name[end]))
      ++end;
    std::string_view word = name.substr(begin, end - begin);
    if (!word.empty() && std::all_of(word.begin(), word.end(), isDigit)) {
      numbers.emplace_back(word);
      texts.emplace_back();
    } else {
      texts.back() += word;
    }
    if (end < name.size())
      texts.back() += name[end];
    begin = end + 1;
  }
}

std::string tandem::explain::getPattern(std::string_view name) {
  std::vector<std::string> texts, numbers;
  takeApart(name, texts, numbers);
  std::string pattern = texts.front();
  for (size_t i = 1; i < texts.size(); ++i)
    pattern += '*' + texts[i];
  return pattern;
}

std::string tandem::explain::mergeNames(const std::vector<std::string> &names) {
  std::vector<std::string> texts, merged;
  takeApart(names.front(), texts, merged);
  for (const std::string &name : names) {
    std::vector<std::string> other, numbers;
    takeApart(name, other, numbers);
    for (size_t i = 0; i < merged.size(); ++i)
      if (i >= numbers.size() || numbers[i] != merged[i])
        merged[i] = "*";
  }
  std::string result = texts.front();
  for (size_t i = 0; i < merged.size(); ++i)
    result += merged[i] + texts[i + 1];
  return result;
}

/// The largest stored operand of an operator; of equals the first, of an update
/// the one with the shortest name, which is the parameter among its states. -1
/// if none.
static int findStored(const SearchProblem &problem,
                      const std::vector<unsigned> &producers,
                      const Operator &op) {
  int largest = -1;
  auto getRank = [&](unsigned tensor) {
    int64_t length =
        op.pass == Pass::Update ? problem.tensors[tensor].name.size() : 0;
    return std::make_pair(problem.getBytes(tensor, Layout()), -length);
  };
  for (unsigned operand : op.operands)
    if (problem.operators[producers[operand]].kind ==
            Operator::Kind::Resident &&
        (largest < 0 || getRank(operand) > getRank(largest)))
      largest = static_cast<int>(operand);
  return largest;
}

bool tandem::explain::isHostCopy(const Operator &op) {
  return op.name.starts_with("nn.from_host") ||
         op.name.starts_with("nn.to_host");
}

Names::Names(const SearchProblem &problem) {
  std::vector<unsigned> producers = problem.getProducers();
  locations.resize(problem.tensors.size());
  for (unsigned i = 0; i < problem.tensors.size(); ++i) {
    const Operator &op = problem.operators[producers[i]];
    unsigned result =
        std::find(op.results.begin(), op.results.end(), i) - op.results.begin();
    locations[i] = op.getMadeLocation(result);
    std::string &label = labels.emplace_back(problem.tensors[i].name);
    int stored = findStored(problem, producers, op);
    unsigned copied = i;
    while (isHostCopy(problem.operators[producers[copied]]))
      copied = problem.operators[producers[copied]].operands.front();
    if (stored >= 0 || copied != i)
      label += "(" + problem.tensors[stored >= 0 ? stored : copied].name + ")";
  }
  for (const Operator &op : problem.operators) {
    bool isUpdate =
        op.pass == Pass::Update && op.kind == Operator::Kind::Compute;
    int stored = isUpdate ? findStored(problem, producers, op) : -1;
    for (size_t i = 0; i < op.operands.size(); ++i) {
      unsigned operand = op.operands[i];
      if (locations[operand].empty())
        locations[operand] = op.getReadLocation(i);
      const Operator &producer = problem.operators[producers[operand]];
      if (stored >= 0 && producer.pass == Pass::Backward)
        labels[operand] = problem.tensors[operand].name + "(gradient of " +
                          problem.tensors[stored].name + ")";
    }
  }
}
