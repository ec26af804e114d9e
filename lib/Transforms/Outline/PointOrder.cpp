//===- PointOrder.cpp - the order of a step's points ----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PointOrder.h"
#include "tandem/Analysis/Gradients.h"
#include "tandem/Analysis/Loops.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Dialect/SPMD/SPMD.h"
#include "tandem/Orders/Schedules.h"
#include "tandem/Orders/VerifyOrder.h"
#include "tandem/Support/TextFile.h"
#include <set>

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;

//===----------------------------------------------------------------------===//
// Names and files
//===----------------------------------------------------------------------===//

static bool hasBackward(func::FuncOp step) {
  return llvm::any_of(step.getBody().front(),
                      [](Operation &op) { return isBackward(&op); });
}

/// The order with a name. Sections may lie on other points than the schedule's,
/// as long as the same ones share a point.
static FailureOr<orders::Order> makeNamed(func::FuncOp step,
                                          ArrayRef<int64_t> places,
                                          int64_t numPoints, int64_t count,
                                          const orders::Schedule &named) {
  if (!places.empty() && !hasBackward(step))
    return orders::makeForward({places.begin(), places.end()}, numPoints,
                               count);
  std::string error;
  std::vector<unsigned> points(places.begin(), places.end());
  auto placed = named.place(points, numPoints, count, error);
  if (!placed)
    return emitError(step.getLoc()) << error;
  return *placed;
}

static FailureOr<orders::Order> readOrder(func::FuncOp step, int64_t numPoints,
                                          int64_t count,
                                          const OrderSource &source) {
  std::string error;
  auto text = source.rows ? source.rows : readTextFile(source.name, error);
  if (!text)
    return emitError(step.getLoc())
           << "cannot read the order '" << source.name << "': " << error
           << "; expected the file of an order, or " << orders::listSchedules();
  auto read = orders::parseOrder(*text, source.name, error);
  if (!read)
    return emitError(step.getLoc()) << error;
  if (int64_t(read->points.size()) != numPoints ||
      int64_t(orders::countMicrobatches(*read)) != count)
    return emitError(step.getLoc())
           << source.name << ": order of " << read->points.size()
           << " points and " << orders::countMicrobatches(*read)
           << " microbatches, expected " << numPoints << " and " << count;
  return *read;
}

//===----------------------------------------------------------------------===//
// Whether it can run
//===----------------------------------------------------------------------===//

namespace {
/// Finds which sections of the last loop read of which.
class PartitionFinder {
public:
  PartitionFinder(func::FuncOp step, ArrayRef<int64_t> places,
                  int64_t numPoints) {
    partition.numPoints = numPoints;
    for (int64_t point : places)
      partition.sections.push_back({unsigned(point), /*hasBackward=*/false});
    for (Operation &op : step.getBody().front())
      visit(&op);
  }
  orders::Partition run(const orders::Order &order);

private:
  using Pair = std::pair<int64_t, int64_t>;
  void visit(Operation *op);

  orders::Partition partition;
  /// From section, to section.
  std::set<Pair> forward, backward;
};
} // namespace

/// The operator of a section that makes `value`, through transfers.
static Operation *findMaker(Value value) {
  Operation *maker = value.getDefiningOp();
  while (isa_and_nonnull<TransferOp, BroadcastOp>(maker))
    maker = maker->getOperand(0).getDefiningOp();
  return maker;
}

void PartitionFinder::visit(Operation *op) {
  auto section = getInteger(op, kSectionAttrName);
  if (!section || nn::getPass(op) == nn::PassKind::Update)
    return;
  partition.sections[*section].hasBackward |= isBackward(op);
  for (Value operand : op->getOperands()) {
    Operation *maker = findMaker(operand);
    auto from = maker ? getInteger(maker, kSectionAttrName) : std::nullopt;
    if (!from || *from == *section || getLoop(maker) != getLoop(op) ||
        isBackward(maker) != isBackward(op))
      continue;
    (isBackward(op) ? backward : forward).insert({*from, *section});
  }
}

orders::Partition PartitionFinder::run(const orders::Order &order) {
  for (auto [from, to] : forward)
    partition.edges.push_back(
        {unsigned(from), unsigned(to), 0, backward.count({to, from}) > 0});
  // An order may name the backward pass of a section that has none.
  for (const auto &row : order.points)
    for (const orders::Action &action : row)
      if (action.section < partition.sections.size() &&
          action.kind != orders::ActionKind::Forward)
        partition.sections[action.section].hasBackward = true;
  return partition;
}

FailureOr<orders::Order> tandem::makePointOrder(func::FuncOp step,
                                                int64_t numPoints,
                                                int64_t count,
                                                const OrderSource &source) {
  auto sections =
      step->getParentOp()->getAttrOfType<DenseI64ArrayAttr>(kSectionsAttrName);
  ArrayRef<int64_t> places;
  if (sections)
    places = sections.asArrayRef();
  const orders::Schedule *named = orders::findSchedule(source.name);
  int64_t ofOrder = count / source.strands;
  auto order = named ? makeNamed(step, places, numPoints, ofOrder, *named)
                     : readOrder(step, numPoints, ofOrder, source);
  if (failed(order))
    return failure();
  *order = orders::splitMicrobatches(*order, source.strands);
  orders::Partition partition =
      PartitionFinder(step, places, numPoints).run(*order);
  orders::OrderLimits limits;
  limits.numMicrobatches = count;
  std::string error;
  if (!orders::verifyPartition(partition, error) ||
      !orders::verifyOrder(partition, *order, limits, source.name, error))
    return emitError(step.getLoc()) << error;
  return order;
}
