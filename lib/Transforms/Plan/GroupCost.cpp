//===- GroupCost.cpp - the seconds of a group of operators ----------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GroupCost.h"
#include "tandem/Analysis/Bytes.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::plan;

static std::string getTypeName(Value value) {
  std::string text;
  llvm::raw_string_ostream os(text);
  cast<RankedTensorType>(value.getType()).getElementType().print(os);
  return text;
}

GroupCost::GroupCost(const StepGraph &graph, const OperatorGroups &groups,
                     const OperatorGroup &group, const cost::Cluster &cluster)
    : graph(graph), groups(groups), group(group), cluster(cluster) {
  for (unsigned member = 0; member < group.members.size(); ++member)
    if (isa<nn::MatmulOp>(graph.ops[group.members[member]].op))
      addProduct(member);
  addKernel();
}

bool tandem::plan::isReadByProductsOnly(Operation *op) {
  return llvm::all_of(op->getUsers(),
                      [](Operation *user) { return isa<nn::MatmulOp>(user); });
}

/// The same bytes under another type, or strides for a product.
bool GroupCost::isFree(unsigned member) const {
  const OpNode &op = graph.ops[group.members[member]];
  if (isa<nn::ReshapeOp>(op.op))
    return true;
  return isa<nn::PermuteOp>(op.op) && isReadByProductsOnly(op.op);
}

/// What `value` is a free view of, in this group.
unsigned GroupCost::getRoot(unsigned value) const {
  int producer = graph.values[value].producer;
  auto *it = llvm::find(group.members, static_cast<unsigned>(producer));
  if (producer < 0 || it == group.members.end() ||
      !isFree(it - group.members.begin()))
    return value;
  return getRoot(graph.ops[producer].operands[0]);
}

void GroupCost::addTraffic(Work &work, unsigned value) {
  if (!groups.isSource[value] && !llvm::is_contained(work.traffic, value))
    work.traffic.push_back(value);
}

void GroupCost::addProduct(unsigned member) {
  const OpNode &op = graph.ops[group.members[member]];
  Work &work = works.emplace_back();
  work.members.push_back(member);
  work.op = op.op->getName().getStringRef().str();
  work.type = getTypeName(op.op->getOperand(0));
  for (unsigned value : {op.operands[0], op.operands[1], op.results[0]})
    addTraffic(work, value);
  auto lhs = cast<RankedTensorType>(op.op->getOperand(0).getType());
  auto rhs = cast<RankedTensorType>(op.op->getOperand(1).getType());
  int64_t batch = 1;
  for (int64_t size : lhs.getShape().drop_back(2))
    batch *= size;
  work.loops = {batch, lhs.getShape()[lhs.getRank() - 2], rhs.getShape().back(),
                lhs.getShape().back()};
}

void GroupCost::addKernel() {
  Work work;
  auto isInKernel = [&](unsigned op) {
    auto *it = llvm::find(group.members, op);
    return it != group.members.end() && !isa<nn::MatmulOp>(graph.ops[op].op) &&
           !isFree(it - group.members.begin());
  };
  for (auto [member, number] : llvm::enumerate(group.members)) {
    const OpNode &op = graph.ops[number];
    if (!isInKernel(number))
      continue;
    work.members.push_back(member);
    for (auto [index, value] : llvm::enumerate(op.operands)) {
      unsigned root = getRoot(value);
      int producer = graph.values[root].producer;
      // Of a table only the rows that are asked for are read.
      if (isa<nn::EmbeddingOp>(op.op) && index == 0)
        addTraffic(work, op.results[0]);
      else if (producer < 0 || !isInKernel(producer))
        addTraffic(work, root);
    }
    for (unsigned value : op.results)
      if (llvm::any_of(graph.values[value].uses, [&](Use use) {
            return use.op == graph.ops.size() || !isInKernel(use.op);
          }))
        addTraffic(work, value);
  }
  if (work.members.empty())
    return;
  const OpNode &first = graph.ops[group.members[work.members.front()]];
  work.op = first.op->getName().getStringRef().str();
  work.type = getTypeName(first.op->getResult(0));
  works.push_back(std::move(work));
}

double GroupCost::getSeconds(ArrayRef<int64_t> shares,
                             function_ref<double(unsigned)> parts) const {
  double seconds = 0;
  for (const Work &work : works) {
    double flops = 0, bytes = 0;
    for (unsigned member : work.members)
      flops += graph.ops[group.members[member]].flops / shares[member];
    for (unsigned value : work.traffic)
      bytes += graph.values[value].bytes / parts(value);
    seconds +=
        cost::getComputeSeconds(cluster, work.type, flops, bytes, work.op);
  }
  return seconds;
}
