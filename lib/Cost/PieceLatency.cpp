//===- PieceLatency.cpp - price of a piece of a collective ----------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Cost/Pieces.h"
#include "tandem/Cost/Slots.h"

using namespace tandem::cost;

static int64_t multiply(std::span<const int64_t> sizes) {
  int64_t product = 1;
  for (int64_t size : sizes)
    product *= size;
  return product;
}

int64_t tandem::cost::getCutExtent(std::span<const int64_t> shape, int64_t size,
                                   Form from, Form to) {
  if (from < 0 && to < 0)
    return multiply(shape);
  // The dimensions that the collective changes, and of them the one of which a
  // member's part stays as it is.
  unsigned first = from < 0 ? to : to < 0 ? from : std::min(from, to);
  unsigned second = std::max(from, to);
  unsigned cut = to < 0 ? from : to;
  int64_t before = multiply(shape.first(first));
  int64_t behind = multiply(shape.subspan(second + 1));
  int64_t between =
      first == second ? 1
                      : multiply(shape.subspan(first + 1, second - first - 1));
  int64_t part = shape[cut] / size;
  int64_t merged = part * (cut == second ? behind : between);
  return std::max(
      {int64_t(1), before, merged, cut == second ? between : behind});
}

namespace {
/// The largest latency, and the largest part of a collective that is not cut.
struct Largest {
  double latency = 0, part = 0;
};
} // namespace

/// Of the changes of a tensor along `axis`. If other axes split it as well, the
/// parts are no larger.
static void addChanges(const Tensor &tensor, const Axis &axis,
                       Largest &largest) {
  auto times = static_cast<double>(tensor.times);
  double bytes =
      times * static_cast<double>(multiply(tensor.shape) * tensor.elementBytes);
  auto add = [&](Change kind, Form from, Form to) {
    const ChangeRate &rate = axis.rates[static_cast<unsigned>(kind)];
    double extent =
        static_cast<double>(getCutExtent(tensor.shape, axis.size, from, to));
    largest.latency = std::max(largest.latency, times * rate.latency);
    largest.part = std::max(largest.part, bytes * rate.secondsPerByte / extent);
  };
  add(Change::AllReduce, kReduce, kFull);
  Form rank = static_cast<Form>(tensor.shape.size());
  for (Form dim = 0; dim < rank; ++dim) {
    if (tensor.shape[dim] % axis.size)
      continue;
    add(Change::AllGather, dim, kFull);
    add(Change::ReduceScatter, kReduce, dim);
    for (Form to = 0; to < rank; ++to)
      if (to != dim && tensor.shape[to] % axis.size == 0)
        add(Change::AllToAll, dim, to);
  }
}

double tandem::cost::getLeastPieceLatency(const SearchProblem &problem) {
  Interference interference(problem);
  if (interference.beta >= 1)
    return 0; // Nothing is sent beside computation.
  std::vector<unsigned> producers = problem.getProducers();
  std::vector<bool> isSeen(problem.tensors.size());
  Largest largest;
  for (const Operator &op : problem.operators) {
    if (op.pass != Pass::Update)
      continue;
    for (unsigned tensor : op.operands) {
      const Operator &producer = problem.operators[producers[tensor]];
      if (isSeen[tensor] || producer.operands.empty() ||
          producer.pass == Pass::Update)
        continue;
      isSeen[tensor] = true;
      for (const Axis &axis : problem.axes)
        if (!axis.isTime && axis.size > 1)
          addChanges(problem.tensors[tensor], axis, largest);
    }
  }
  return largest.latency * (1 + interference.beta) / (1 - interference.beta) +
         largest.part;
}
