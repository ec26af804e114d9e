//===- StepFacts.cpp - facts that every stage keeps -----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Analysis/StepFacts.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Dialect/Sched/Sched.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::nn;

static bool isDeclared(func::FuncOp step) { return step.getName() == "step"; }

//===----------------------------------------------------------------------===//
// Arguments and results
//===----------------------------------------------------------------------===//

static LogicalResult verifyArguments(func::FuncOp step) {
  for (unsigned i = 0; i < step.getNumArguments(); ++i) {
    DictionaryAttr attributes = step.getArgAttrDict(i);
    std::optional<Role> role = getRole(attributes);
    if (!role)
      return emitError(step.getLoc())
             << "argument " << i << " has no '" << kRoleAttrName << "'";
    if (!attributes.contains(kNameAttrName))
      return emitError(step.getLoc())
             << "argument " << i << ", a " << stringifyRole(*role)
             << ", has no '" << kNameAttrName << "'";
  }
  return success();
}

/// A state belongs to a parameter.
static LogicalResult verifyOwners(func::FuncOp step) {
  llvm::StringSet<> parameters;
  for (unsigned i = 0; i < step.getNumArguments(); ++i)
    if (getRole(step.getArgAttrDict(i)) == Role::Parameter)
      parameters.insert(getTensorName(step.getArgAttrDict(i)));
  for (unsigned i = 0; i < step.getNumArguments(); ++i)
    if (StringRef of = getText(step.getArgAttrDict(i), kOfAttrName);
        !of.empty() && !parameters.contains(of))
      return emitError(step.getLoc())
             << "argument " << i << " has the '" << kOfAttrName << "' \"" << of
             << "\", expected the name of a parameter";
  return success();
}

static LogicalResult verifyResults(func::FuncOp step) {
  llvm::DenseMap<int64_t, unsigned> updaters;
  for (unsigned i = 0; i < step.getNumResults(); ++i) {
    std::optional<Role> role = getRole(step.getResultAttrDict(i));
    if (!role)
      return emitError(step.getLoc())
             << "result " << i << " has no '" << kRoleAttrName << "'";
    std::optional<int64_t> updates = getUpdates(step.getResultAttrDict(i));
    if (!isOutput(*role) && !updates)
      return emitError(step.getLoc())
             << "result " << i << ", a " << stringifyRole(*role) << ", has no '"
             << kUpdatesAttrName << "': the argument whose new value it is";
    if (!updates)
      continue;
    auto [other, isNew] = updaters.try_emplace(*updates, i);
    if (!isNew)
      return emitError(step.getLoc())
             << "results " << other->second << " and " << i
             << " both update argument " << *updates << ", expected one";
  }
  return success();
}

LogicalResult tandem::verifyDeclared(func::FuncOp step) {
  if (!isDeclared(step))
    return success();
  return success(succeeded(verifyArguments(step)) &&
                 succeeded(verifyOwners(step)) &&
                 succeeded(verifyResults(step)));
}

//===----------------------------------------------------------------------===//
// Operators
//===----------------------------------------------------------------------===//

LogicalResult tandem::verifyPasses(func::FuncOp step) {
  if (!isDeclared(step))
    return success();
  WalkResult result = step.walk([](Operation *op) {
    // What a change of form is cut into belongs to no pass.
    if (!isa_and_nonnull<NNDialect, spmd::SPMDDialect>(op->getDialect()) ||
        getPass(op) || spmd::isPartOfChange(op))
      return WalkResult::advance();
    op->emitError() << op->getName() << " has no '" << kPassAttrName << "'";
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

//===----------------------------------------------------------------------===//
// Strands
//===----------------------------------------------------------------------===//

/// That of an operator, or of a step that is scheduled.
static std::optional<int64_t> findStrand(Operation *op) {
  if (auto step = dyn_cast<sched::StepOp>(op))
    return step.getStrand();
  return getStrand(op);
}

static LogicalResult verifyStrand(Operation *op, int64_t strands) {
  std::optional<int64_t> strand = findStrand(op);
  if (!strand || *strand < strands)
    return success();
  return op->emitError() << "has the strand " << *strand << ", expected one of "
                         << strands << " from 0 on";
}

namespace {
/// Which points of each time axis operators are at.
class SeenPoints {
public:
  explicit SeenPoints(spmd::MeshAttr mesh) : mesh(mesh) {
    for (unsigned axis = 0; axis < mesh.getNumAxes(); ++axis)
      seen.emplace_back(mesh.isTime(axis) ? mesh.getSize(axis) : 0);
  }
  /// Time axes from major to minor; an operator that does not depend on one is
  /// at its point 0.
  void add(int64_t strand) {
    for (unsigned axis = mesh.getNumAxes(); axis-- > mesh.getNumSpaceAxes();) {
      seen[axis].set(strand % mesh.getSize(axis));
      strand /= mesh.getSize(axis);
    }
  }
  LogicalResult verify(func::FuncOp step);

private:
  spmd::MeshAttr mesh;
  SmallVector<llvm::BitVector> seen;
};
} // namespace

LogicalResult SeenPoints::verify(func::FuncOp step) {
  for (auto [axis, points] : llvm::enumerate(seen))
    if (points.find_last() > 0 && !points.all())
      return step.emitError()
             << "no operator is in strand " << points.find_first_unset()
             << " of the axis '" << mesh.getName(axis) << "', expected all of "
             << mesh.getSize(axis);
  return success();
}

LogicalResult tandem::verifyStrands(func::FuncOp step) {
  spmd::MeshAttr mesh = spmd::getMesh(step);
  int64_t strands = mesh ? mesh.getNumStrands() : 1;
  WalkResult result = step.walk(
      [&](Operation *op) { return WalkResult(verifyStrand(op, strands)); });
  if (result.wasInterrupted())
    return failure();
  if (!mesh)
    return success();
  SeenPoints points(mesh);
  step.walk([&](Operation *op) {
    if (std::optional<int64_t> strand = getStrand(op))
      points.add(*strand);
  });
  return points.verify(step);
}
