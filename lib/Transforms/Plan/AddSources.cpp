//===- AddSources.cpp - choices of sources in signatures ------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GroupSignatures.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::plan;

cost::Layout tandem::plan::getAbsentLayout(const StepGraph &graph) {
  cost::Layout layout;
  for (unsigned axis = 0; axis < graph.mesh.getNumAxes(); ++axis)
    layout[axis] = cost::kAbsent;
  return layout;
}

bool tandem::plan::isLeftOut(const cost::Signature &signature) {
  return !signature.results.empty() && signature.results.front().isAbsent();
}

/// Combinations of sources that a group may choose of.
static constexpr unsigned kMaxCombinations = 8;

namespace {
class SourceAdder {
public:
  SourceAdder(const StepGraph &graph, const OperatorGroup &group,
              GroupSignatures &set)
      : graph(graph), group(group), set(set) {}
  void run();

private:
  using Sources = std::vector<uint8_t>;

  Sources listSources(unsigned index) const;
  uint8_t follow(unsigned index, unsigned leader, uint8_t source) const;
  void findCombinations();
  cost::Signature choose(cost::Signature signature,
                         const Sources &sources) const;
  bool isLeftOut(unsigned value, const Sources &sources) const;
  void addAbsent();

  const StepGraph &graph;
  const OperatorGroup &group;
  GroupSignatures &set;
  std::vector<Sources> combinations;
};
} // namespace

/// The sources that a member may take.
SourceAdder::Sources SourceAdder::listSources(unsigned index) const {
  const OpNode &op = graph.ops[group.members[index]];
  Sources sources;
  for (unsigned source = 0; source < op.operands.size(); ++source)
    if (graph.mayTake(op, source))
      sources.push_back(source);
  return sources;
}

/// What a member takes where the leader takes `source`: what waited on the host
/// as well, else the same source, as far as it has it.
uint8_t SourceAdder::follow(unsigned index, unsigned leader,
                            uint8_t source) const {
  const OpNode &op = graph.ops[group.members[index]];
  const OpNode &first = graph.ops[group.members[leader]];
  bool isFromHost = graph.isFromHost(first, source);
  uint8_t best = 0;
  Sources sources = listSources(index);
  for (uint8_t each : sources)
    if (graph.isFromHost(op, each) ? isFromHost : isFromHost || each <= source)
      best = each;
  return std::max(best, sources.front());
}

/// All combinations of the largest values' choices; further ones follow the
/// largest.
void SourceAdder::findCombinations() {
  SmallVector<unsigned> choices;
  for (auto [index, member] : llvm::enumerate(group.members))
    if (graph.ops[member].isEither())
      choices.push_back(index);
  auto getNode = [&](unsigned index) -> const OpNode & {
    return graph.ops[group.members[index]];
  };
  llvm::stable_sort(choices, [&](unsigned a, unsigned b) {
    return graph.values[getNode(a).results[0]].bytes >
           graph.values[getNode(b).results[0]].bytes;
  });
  combinations.assign(1, Sources(group.members.size()));
  for (unsigned index : choices) {
    Sources own = listSources(index);
    bool isFree = combinations.size() * own.size() <= kMaxCombinations;
    std::vector<Sources> next;
    for (const Sources &sources : combinations) {
      unsigned leader = choices.front();
      Sources taken =
          isFree ? own : Sources{follow(index, leader, sources[leader])};
      for (uint8_t source : taken) {
        next.push_back(sources);
        next.back()[index] = source;
      }
    }
    combinations = std::move(next);
  }
}

/// Whether choices have `value` as an operand, and all take others.
bool SourceAdder::isLeftOut(unsigned value, const Sources &sources) const {
  bool isOffered = false;
  for (auto [member, source] : llvm::zip(group.members, sources)) {
    const OpNode &op = graph.ops[member];
    bool isRead = llvm::is_contained(op.operands, value);
    if (isRead && (!op.isEither() || op.operands[source] == value))
      return false;
    isOffered |= isRead;
  }
  return isOffered;
}

cost::Signature SourceAdder::choose(cost::Signature signature,
                                    const Sources &sources) const {
  for (auto [value, layout] : llvm::zip(group.inputs, signature.operands))
    if (isLeftOut(value, sources))
      layout = getAbsentLayout(graph);
  return signature;
}

void SourceAdder::addAbsent() {
  cost::Signature absent = set.signatures.front();
  for (auto *layouts : {&absent.operands, &absent.results})
    for (cost::Layout &layout : *layouts)
      layout = getAbsentLayout(graph);
  absent.seconds = 0;
  absent.workspace = 0;
  set.signatures.insert(set.signatures.begin(), absent);
  set.members.insert(set.members.begin(), set.members.front());
  if (!set.sources.empty())
    set.sources.insert(set.sources.begin(), set.sources.front());
}

void SourceAdder::run() {
  findCombinations();
  if (llvm::any_of(group.members, [&](unsigned member) {
        return graph.ops[member].isEither();
      })) {
    GroupSignatures all;
    for (auto [signature, members] : llvm::zip(set.signatures, set.members)) {
      size_t begin = all.signatures.size();
      for (const Sources &sources : combinations) {
        cost::Signature chosen = choose(signature, sources);
        // Where several members choose between the same values, some
        // combinations read all the same.
        if (llvm::is_contained(ArrayRef(all.signatures).drop_front(begin),
                               chosen))
          continue;
        all.signatures.push_back(std::move(chosen));
        all.members.push_back(members);
        all.sources.push_back(sources);
      }
    }
    set = std::move(all);
  }
  if (graph.ops[group.members.back()].isOptional && !set.signatures.empty())
    addAbsent();
}

void tandem::plan::addSources(const StepGraph &graph,
                              const OperatorGroup &group,
                              GroupSignatures &set) {
  SourceAdder(graph, group, set).run();
}
