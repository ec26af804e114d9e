//===- oracle.cpp - order of a Program by brute force ---------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cts/oracle.h"
#include "core/access.h"

#include <algorithm>
#include <map>

namespace tandem::rt::cts {

namespace {
struct Span {
  std::pair<Space, uint32_t> space;
  int64_t begin, end;
  bool write;
};

/// One run of one command.
struct Node {
  const Command *command;
  const Command *repeat; ///< Around it.
  int64_t iteration;
  std::vector<Span> spans;
  std::vector<bool> before; ///< Which nodes are done when it begins.
};

class Oracle {
public:
  Oracle(const Program &program, int64_t rank) : program(program), rank(rank) {}
  std::string find();

private:
  void unroll();
  std::string order();
  void addNode(const Command &command, const Command *repeat,
               int64_t iteration);
  std::string compare(size_t first, size_t second) const;
  std::string findUnwritten() const;
  std::string findEarlyUpdate(size_t node) const;

  const Program &program;
  const int64_t rank;
  std::vector<Node> nodes;
};

void Oracle::addNode(const Command &command, const Command *repeat,
                     int64_t iteration) {
  std::vector<Span> spans;
  for (const Access &access : accessesOf(command)) {
    const BufferRef &ref = *access.ref;
    int64_t begin = program.evaluate(ref.offset, rank, iteration);
    spans.push_back(
        {{ref.space, ref.index}, begin, begin + ref.bytes, access.write});
  }
  nodes.push_back({&command, repeat, iteration, std::move(spans), {}});
}

void Oracle::unroll() {
  uint32_t number = program.rankToProgram[size_t(rank)];
  for (const Command &command : program.rankPrograms[number].commands) {
    const auto *repeat = std::get_if<Repeat>(&command.operation);
    if (!repeat)
      addNode(command, nullptr, 0);
    for (int64_t i = 0; repeat && i < repeat->count; ++i)
      for (const Command &inner : repeat->body)
        addNode(inner, &command, i);
  }
}

/// Everything before the last node of the same queue, and of the event.
std::string Oracle::order() {
  std::map<uint32_t, size_t> last;
  using Key = std::tuple<uint32_t, const Command *, int64_t>;
  std::map<Key, size_t> records;
  std::map<uint32_t, const Command *> recorders;
  for (size_t i = 0; i < nodes.size(); ++i) {
    Node &node = nodes[i];
    node.before.resize(nodes.size());
    auto follow = [&](size_t other) {
      for (size_t j = 0; j < other; ++j)
        if (nodes[other].before[j])
          node.before[j] = true;
      node.before[other] = true;
    };
    if (auto it = last.find(node.command->queue); it != last.end())
      follow(it->second);
    last[node.command->queue] = i;
    if (auto *op = std::get_if<RecordEvent>(&node.command->operation)) {
      auto [it, isNew] = recorders.insert({op->event, node.command});
      if (!isNew && it->second != node.command)
        return "an event is recorded twice";
      records[{op->event, node.repeat, node.iteration}] = i;
    }
    if (auto *op = std::get_if<WaitEvent>(&node.command->operation)) {
      auto it = records.find({op->event, node.repeat, node.iteration});
      if (it == records.end())
        return "an event is not recorded";
      follow(it->second);
    }
  }
  return "";
}

std::string Oracle::compare(size_t first, size_t second) const {
  if (nodes[second].before[first])
    return "";
  for (const Span &a : nodes[first].spans)
    for (const Span &b : nodes[second].spans)
      if ((a.write || b.write) && a.space == b.space && a.begin < b.end &&
          b.begin < a.end)
        return "commands " + std::to_string(nodes[first].command->id) +
               " and " + std::to_string(nodes[second].command->id) +
               " are not ordered";
  return "";
}

std::string Oracle::findUnwritten() const {
  std::map<std::pair<Space, uint32_t>, std::vector<bool>> written;
  for (const Node &node : nodes)
    for (const Span &span : node.spans) {
      bool startsUnwritten =
          span.space.first == Space::Arena || span.space.first == Space::Result;
      std::vector<bool> &bytes = written[span.space];
      if (int64_t(bytes.size()) < span.end)
        bytes.resize(size_t(span.end));
      for (int64_t byte = span.begin; byte < span.end; ++byte)
        if (span.write)
          bytes[size_t(byte)] = true;
        else if (startsUnwritten && !bytes[size_t(byte)])
          return "command " + std::to_string(node.command->id) +
                 " reads what nothing wrote";
    }
  for (uint32_t i = 0; i < program.results.size(); ++i) {
    const std::vector<bool> &bytes = written[{Space::Result, i}];
    if (program.results[i].place.space == Space::Result &&
        holds(program, program.results[i].form, rank) &&
        std::count(bytes.begin(), bytes.end(), true) <
            program.results[i].place.bytes)
      return "a result is not written";
  }
  return "";
}

std::string Oracle::findEarlyUpdate(size_t node) const {
  bool updates = false;
  for (const Span &span : nodes[node].spans)
    updates |= span.write && span.space.first == Space::Argument;
  for (size_t other = 0; updates && other < nodes.size(); ++other)
    if (std::holds_alternative<Check>(nodes[other].command->operation) &&
        !nodes[node].before[other])
      return "an update comes before a check";
  return "";
}

std::string Oracle::find() {
  unroll();
  std::string found = order();
  for (size_t second = 0; second < nodes.size() && found.empty(); ++second) {
    for (size_t first = 0; first < second && found.empty(); ++first)
      found = compare(first, second);
    if (found.empty())
      found = findEarlyUpdate(second);
  }
  return found.empty() ? findUnwritten() : found;
}
} // namespace

std::string findDisorder(const Program &program, int64_t rank) {
  return Oracle(program, rank).find();
}

} // namespace tandem::rt::cts
