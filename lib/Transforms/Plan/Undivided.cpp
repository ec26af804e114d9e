//===- Undivided.cpp - report of undivided tensors ------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Presets.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;
using namespace tandem::plan;

/// The lines are for people: so many names, then how many more.
static constexpr unsigned kMaxNames = 5;

static std::string describe(const StepGraph &graph, ArrayRef<unsigned> found) {
  std::string text;
  llvm::raw_string_ostream os(text);
  for (unsigned index : found.take_front(kMaxNames)) {
    const ArgumentNode &node = graph.arguments[index];
    os << (text.empty() ? "'" : ", '") << node.name << "' "
       << printShape(node.type);
  }
  if (found.size() > kMaxNames)
    os << " and " << found.size() - kMaxNames << " more";
  return text;
}

/// The batch is what all axes could split; one that does not is a loss.
static void warnOfBatch(const StepGraph &graph, unsigned axis) {
  SmallVector<unsigned> found;
  int64_t size = graph.mesh.getSize(axis);
  for (auto [index, node] : llvm::enumerate(graph.arguments))
    if (node.role == Role::Input && node.batchDim >= 0 &&
        node.type.getDimSize(node.batchDim) % size)
      found.push_back(index);
  if (!found.empty())
    emitWarning(graph.getLoc())
        << "axis '" << graph.mesh.getName(axis) << "' of size " << size
        << " does not divide the batch, which is kept whole there: "
        << describe(graph, found);
}

static bool isDivided(const StepGraph &graph, const ArgumentNode &node) {
  for (unsigned axis = 0; axis < graph.mesh.getNumSpaceAxes(); ++axis)
    for (int64_t size : node.type.getShape())
      if (size % graph.mesh.getSize(axis) == 0)
        return true;
  return false;
}

void tandem::plan::warnOfOneStrand(const StepGraph &graph, StringRef cluster) {
  for (unsigned axis = graph.mesh.getNumSpaceAxes();
       axis < graph.mesh.getNumAxes(); ++axis) {
    if (llvm::any_of(graph.ops, [&](const OpNode &node) {
          return isSplit(node.signatures[axis]);
        }))
      continue;
    emitWarning(graph.getLoc())
        << "the plan found runs in one strand: of " << graph.ops.size()
        << " operators none is split over the " << graph.mesh.getSize(axis)
        << " microbatches asked for, as that costs more on '" << cluster
        << "'; a cluster file with the prices of your links may change this";
  }
}

void tandem::plan::listUndivided(const StepGraph &graph) {
  for (unsigned axis = 0; axis < graph.mesh.getNumAxes(); ++axis)
    warnOfBatch(graph, axis);
  SmallVector<unsigned> found;
  for (auto [index, node] : llvm::enumerate(graph.arguments))
    if (node.role == Role::Parameter && node.type.getRank() > 0 &&
        !isDivided(graph, node))
      found.push_back(index);
  if (!found.empty())
    emitRemark(graph.getLoc())
        << "kept whole, since no axis divides a dimension: "
        << describe(graph, found);
}
