//===- EnumerateSignatures.cpp - the joint signatures of a group ----------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GroupCost.h"
#include "GroupSignatures.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;
using namespace tandem::plan;

spmd::Signature tandem::plan::getSignature(const Rule &rule,
                                           GroupSignatures::Choice choice) {
  if (choice > 0 && choice <= rule.factors.size())
    return rule.getSplitSignature(choice - 1);
  spmd::Signature signature;
  signature.operands.assign(rule.operands.size(), AxisForm::full());
  signature.results.assign(rule.results.size(),
                           choice == 0 ? AxisForm::full() : AxisForm::reduce());
  if (choice > 0)
    for (unsigned operand : rule.linear[choice - 1 - rule.factors.size()])
      signature.operands[operand] = AxisForm::reduce();
  return signature;
}

namespace {
/// Walks all choices of one group, axis by axis and member by member: each
/// member after the one with which it shares most values, so that what
/// contradicts each other meets at once (a sum over the steps of a recurrence
/// has as many leaves).
class Enumeration {
public:
  Enumeration(const StepGraph &graph, const OperatorGroup &group,
              const BatchMarks &marks, const std::vector<uint8_t> &canReduce,
              const GroupCost &cost);
  GroupSignatures run() &&;

private:
  struct Candidate {
    GroupSignatures::Choice choice;
    spmd::Signature signature;
  };
  struct Member {
    unsigned op;
    /// What is left of the rule by the axes chosen so far.
    Rule rule;
    /// Numbers of values, see `values`.
    SmallVector<unsigned, 4> operands, results;
    SmallVector<Candidate, 6> candidates;
  };
  /// All members' choices, and the signature that they make.
  struct Found {
    std::vector<GroupSignatures::MemberChoices> choices;
    cost::Signature signature;
  };
  /// No form yet.
  static constexpr cost::Form kOpen = -100;

  unsigned getNumber(unsigned value);
  void addCandidates(Member &member);
  bool isAllowed(const Member &member, const Candidate &candidate,
                 unsigned axis) const;
  bool isSumPossible(const Member &member, const Candidate &candidate,
                     unsigned axis) const;
  bool assign(const Member &member, const Candidate &candidate, unsigned axis,
              SmallVectorImpl<unsigned> &assigned);
  void sortMembers();
  void visitAxis(unsigned position);
  void visitMember(unsigned position, unsigned step);
  void addFound();
  void sortFound();

  const StepGraph &graph;
  const OperatorGroups &groups;
  const OperatorGroup &group;
  const BatchMarks &marks;
  const std::vector<uint8_t> &canReduce;
  const GroupCost &cost;
  SmallVector<unsigned> order;
  std::vector<Member> members;
  /// Members as they are visited.
  SmallVector<unsigned> sequence;
  /// Values of the group, and their forms by axis. Sources are -1 there.
  llvm::DenseMap<unsigned, unsigned> numbers;
  SmallVector<int> values;
  SmallVector<cost::Layout> layouts;
  std::vector<GroupSignatures::MemberChoices> choices;
  std::vector<Found> found;
};
} // namespace

Enumeration::Enumeration(const StepGraph &graph, const OperatorGroup &group,
                         const BatchMarks &marks,
                         const std::vector<uint8_t> &canReduce,
                         const GroupCost &cost)
    : graph(graph), groups(graph.getGroups()), group(group), marks(marks),
      canReduce(canReduce), cost(cost), order(graph.mesh.getLayoutOrder()),
      choices(group.members.size()) {
  for (unsigned op : group.members) {
    Member &member = members.emplace_back();
    member.op = op;
    member.rule = graph.ops[op].rule;
    for (unsigned value : graph.ops[op].operands)
      member.operands.push_back(getNumber(value));
    for (unsigned value : graph.ops[op].results)
      member.results.push_back(getNumber(value));
    addCandidates(member);
  }
  for (cost::Layout &layout : layouts)
    layout.forms.fill(kOpen);
  sortMembers();
}

/// A source has a number of its own at each use: it is made in any form.
unsigned Enumeration::getNumber(unsigned value) {
  auto [it, isNew] = numbers.try_emplace(value, values.size());
  if (!isNew && !groups.isSource[value])
    return it->second;
  values.push_back(groups.isSource[value] ? -1 : int(value));
  layouts.emplace_back();
  return values.size() - 1;
}

void Enumeration::addCandidates(Member &member) {
  const Rule &rule = member.rule;
  auto add = [&](GroupSignatures::Choice choice) {
    spmd::Signature signature = plan::getSignature(rule, choice);
    for (const Candidate &other : member.candidates)
      if (other.signature == signature)
        return;
    member.candidates.push_back({choice, std::move(signature)});
  };
  add(0);
  for (unsigned factor = 0; factor < rule.factors.size(); ++factor)
    if (rule.factors[factor].splittable && rule.factors[factor].size > 1)
      add(1 + factor);
  const OpNode &op = graph.ops[member.op];
  auto mayBeSum = [&](unsigned operand) {
    return op.pass != PassKind::Update ||
           graph.values[op.operands[operand]].isSummedInUpdate;
  };
  for (auto [linear, operands] : llvm::enumerate(rule.linear))
    if (llvm::all_of(operands, mayBeSum))
      add(1 + rule.factors.size() + linear);
}

/// Whether every sum that `candidate` takes can exist on `axis`. In an update
/// some terms may be whole: one point keeps them.
bool Enumeration::isSumPossible(const Member &member,
                                const Candidate &candidate,
                                unsigned axis) const {
  bool anySum = false;
  for (auto [number, form] :
       llvm::zip(member.operands, candidate.signature.operands)) {
    if (!form.isReduce())
      continue;
    int value = values[number];
    if (value < 0)
      return false;
    bool isInput = llvm::is_contained(group.inputs, unsigned(value));
    bool isSum = !isInput || canReduce[value] >> axis & 1;
    if (!isSum && group.pass != PassKind::Update)
      return false;
    anySum |= isSum;
  }
  return anySum;
}

bool Enumeration::isAllowed(const Member &member, const Candidate &candidate,
                            unsigned axis) const {
  if (!graph.obeysPins(graph.ops[member.op], candidate.signature, axis))
    return false;
  if (candidate.choice == 0)
    return true;
  if (graph.mesh.getSize(axis) == 1)
    return false;
  bool isUpdate = group.pass == PassKind::Update;
  bool isSplit = candidate.choice <= member.rule.factors.size();
  if (graph.mesh.isTime(axis) &&
      (isUpdate || isa<CarryOp>(graph.ops[member.op].op) ||
       (isSplit && !(marks.factors[member.op] >> (candidate.choice - 1) & 1))))
    return false;
  if (isSplit)
    return member.rule.canSplit(candidate.choice - 1, graph.mesh.getSize(axis));
  return isSumPossible(member, candidate, axis);
}

bool Enumeration::assign(const Member &member, const Candidate &candidate,
                         unsigned axis, SmallVectorImpl<unsigned> &assigned) {
  auto set = [&](unsigned number, AxisForm form) {
    cost::Form &known = layouts[number][axis];
    if (known != kOpen)
      return known == form.getCode();
    known = form.getCode();
    assigned.push_back(number);
    return true;
  };
  for (auto [number, form] :
       llvm::zip(member.operands, candidate.signature.operands))
    if (!set(number, form))
      return false;
  for (auto [number, form] :
       llvm::zip(member.results, candidate.signature.results))
    if (!set(number, form))
      return false;
  return true;
}

/// From the last one on.
void Enumeration::sortMembers() {
  std::vector<SmallVector<unsigned>> users(values.size());
  for (auto [index, member] : llvm::enumerate(members))
    for (const auto *numbers : {&member.operands, &member.results})
      for (unsigned number : *numbers)
        users[number].push_back(index);
  // -1: visited.
  std::vector<int> numShared(members.size());
  std::vector<bool> isKnown(values.size());
  while (sequence.size() < members.size()) {
    unsigned next = members.size() - 1;
    for (unsigned index = members.size(); index-- > 0;)
      if (numShared[index] > numShared[next])
        next = index;
    sequence.push_back(next);
    numShared[next] = -1;
    for (const auto *numbers :
         {&members[next].operands, &members[next].results})
      for (unsigned number : *numbers) {
        for (unsigned user : users[number])
          if (!isKnown[number] && numShared[user] >= 0)
            ++numShared[user];
        isKnown[number] = true;
      }
  }
}

void Enumeration::visitAxis(unsigned position) {
  if (position == order.size())
    return addFound();
  visitMember(position, 0);
}

void Enumeration::visitMember(unsigned position, unsigned step) {
  if (step == sequence.size())
    return visitAxis(position + 1);
  unsigned axis = order[position], index = sequence[step];
  Member &member = members[index];
  for (const Candidate &candidate : member.candidates) {
    if (!isAllowed(member, candidate, axis))
      continue;
    SmallVector<unsigned, 8> assigned;
    if (assign(member, candidate, axis, assigned)) {
      bool isSplit = candidate.choice > 0 &&
                     candidate.choice <= member.rule.factors.size();
      int64_t whole = 1;
      int64_t &left =
          isSplit ? member.rule.factors[candidate.choice - 1].size : whole;
      left /= isSplit ? graph.mesh.getSize(axis) : 1;
      choices[index][axis] = candidate.choice;
      visitMember(position, step + 1);
      left *= isSplit ? graph.mesh.getSize(axis) : 1;
    }
    for (unsigned number : assigned)
      layouts[number][axis] = kOpen;
  }
}

void Enumeration::addFound() {
  const MeshAttr &mesh = graph.mesh;
  auto getLayout = [&](unsigned value) {
    if (groups.isSource[value])
      return cost::Layout();
    cost::Layout layout = layouts[numbers.lookup(value)];
    for (unsigned axis = mesh.getNumAxes(); axis < cost::kMaxAxes; ++axis)
      layout[axis] = cost::kFull;
    return layout;
  };
  cost::Signature signature;
  for (unsigned value : group.inputs)
    signature.operands.push_back(getLayout(value));
  for (unsigned value : group.outputs)
    signature.results.push_back(getLayout(value));
  SmallVector<int64_t, 8> shares;
  for (auto [member, choice] : llvm::zip(members, choices)) {
    int64_t &share = shares.emplace_back(1);
    for (unsigned axis = 0; axis < mesh.getNumAxes(); ++axis)
      if (choice[axis] > 0 && choice[axis] <= member.rule.factors.size())
        share *= mesh.getSize(axis);
  }
  auto layoutOf = [&](unsigned value) { return getLayout(value); };
  signature.seconds = cost.getSeconds(shares, layoutOf);
  signature.workspace = cost.getWorkspace(layoutOf);
  found.push_back({choices, std::move(signature)});
}

/// By the choices on the first axis, of the first member first.
void Enumeration::sortFound() {
  llvm::stable_sort(found, [&](const Found &a, const Found &b) {
    for (unsigned axis : order)
      for (auto [x, y] : llvm::zip(a.choices, b.choices))
        if (x[axis] != y[axis])
          return x[axis] < y[axis];
    return false;
  });
}

GroupSignatures Enumeration::run() && {
  for (auto &choice : choices)
    choice.fill(0);
  visitAxis(0);
  sortFound();
  cost::SignatureSet all;
  for (Found &each : found)
    all.push_back(std::move(each.signature));
  GroupSignatures result;
  for (unsigned index : findFastest(all)) {
    result.signatures.push_back(all[index]);
    result.members.push_back(found[index].choices);
  }
  return result;
}

GroupSignatures tandem::plan::enumerateSignatures(
    const StepGraph &graph, const OperatorGroup &group, const BatchMarks &marks,
    const std::vector<uint8_t> &canReduce, const GroupCost &cost) {
  return Enumeration(graph, group, marks, canReduce, cost).run();
}
