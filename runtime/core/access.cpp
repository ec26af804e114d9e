//===- access.cpp - what commands read and write --------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/access.h"

namespace tandem::rt {

namespace {
struct Collector {
  std::vector<Access> list;

  void operator()(const Launch &op) {
    for (const BufferRef &ref : op.inputs)
      list.push_back({&ref, false});
    for (const BufferRef &ref : op.outputs)
      list.push_back({&ref, true});
  }
  void operator()(const Gemm &op) {
    list = {{&op.a, false}, {&op.b, false}};
    if (op.bias)
      list.push_back({&*op.bias, false});
    if (op.accumulate)
      list.push_back({&op.c, false});
    list.push_back({&op.c, true});
  }
  void operator()(const Collective &op) { transfer(op); }
  void operator()(const Copy &op) { transfer(op); }
  void operator()(const Fill &op) { list = {{&op.destination, true}}; }
  void operator()(const CheckFinite &op) { list = {{&op.source, false}}; }
  void operator()(const RecordEvent &) {}
  void operator()(const WaitEvent &) {}

  template <typename Op> void transfer(const Op &op) {
    list = {{&op.source, false}, {&op.destination, true}};
  }
};
} // namespace

std::vector<Access> accessesOf(const Operation &operation) {
  Collector collector;
  std::visit(collector, operation);
  return std::move(collector.list);
}

int64_t gemmBytes(const Gemm &gemm, const Shape &strides, int64_t rows,
                  int64_t columns, ElementType type) {
  Shape extents = gemm.batch;
  extents.insert(extents.end(), {rows, columns});
  int64_t last = 0;
  for (size_t dim = 0; dim < extents.size(); ++dim) {
    if (extents[dim] == 0)
      return 0;
    last += (extents[dim] - 1) * strides[dim];
  }
  return (last + 1) * elementBytes(type);
}

Shape destinationShape(const Collective &collective, int64_t n) {
  Shape shape = collective.shape;
  if (collective.kind == CollectiveKind::ReduceScatter ||
      collective.kind == CollectiveKind::AllToAll)
    shape[size_t(collective.splitDim)] /= n;
  if (collective.kind == CollectiveKind::AllGather ||
      collective.kind == CollectiveKind::AllToAll)
    shape[size_t(collective.concatDim)] *= n;
  return shape;
}

} // namespace tandem::rt
