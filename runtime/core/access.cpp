//===- access.cpp - accesses of commands ----------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/access.h"
#include "core/attention.h"
#include "core/convolution.h"
#include "core/gemm.h"

namespace tandem::rt {

namespace {
/// The buffers, and what the command says of their types.
struct Collector {
  std::vector<Access> list;

  void setTypes(size_t from, ElementType type) {
    for (size_t i = from; i < list.size(); ++i)
      if (!list[i].type)
        list[i].type = type;
  }

  void operator()(const Launch &op) {
    for (const BufferRef &ref : op.inputs)
      list.push_back({&ref, false});
    for (const BufferRef &ref : op.outputs)
      list.push_back({&ref, true});
    for (size_t i = 0; i < op.types.size() && i < list.size(); ++i)
      list[i].type = op.types[i];
  }
  void operator()(const Gemm &op) {
    list = {{&op.a, false}, {&op.b, false}};
    setTypes(0, op.inputType);
    if (op.bias)
      list.push_back({&*op.bias, false});
    if (op.accumulate)
      list.push_back({&op.c, false});
    if (op.preActivation && op.readsPreActivation())
      list.push_back({&*op.preActivation, false});
    write(op.c, stridedResult(op));
    if (op.preActivation && !op.readsPreActivation())
      list.push_back({&*op.preActivation, true});
    for (const std::optional<BufferRef> *sums : {&op.sumsA, &op.sumsB})
      if (*sums)
        list.push_back({&**sums, true});
    setTypes(2, op.outputType);
  }
  void operator()(const Collective &op) {
    move(op);
    setTypes(0, op.type);
  }
  void operator()(const Transfer &op) {
    if (op.source.bytes)
      list.push_back({&op.source, false});
    if (op.destination.bytes)
      list.push_back({&op.destination, true});
    setTypes(0, op.type);
  }
  void operator()(const Copy &op) { move(op); }
  void operator()(const Fill &op) { list = {{&op.destination, true}}; }
  void operator()(const Check &op) {
    if (op.source)
      list = {{&*op.source, false}};
  }
  void operator()(const Attention &op) {
    for (const AttentionTensor *tensor : {&op.query, &op.key, &op.value})
      list.push_back({&tensor->buffer, false});
    setTypes(0, op.type);
    if (op.mask)
      list.push_back({&op.mask->buffer, false, Defines::All, op.mask->type});
    size_t indices = list.size();
    if (op.positions)
      list.push_back({&*op.positions, false});
    if (op.dropout)
      for (const BufferRef *ref :
           {&op.dropout->rows, &op.dropout->seed, &op.dropout->step})
        list.push_back({ref, false});
    setTypes(indices, ElementType::I64);
    ElementType sums =
        op.type == ElementType::BF16 ? ElementType::F32 : op.type;
    if (op.gradients) {
      list.push_back({&op.gradients->output.buffer, false});
      list.push_back({&op.output.buffer, false});
      list.push_back({&op.logsumexp, false, Defines::All, sums});
      write(op.gradients->query, queryExtents(op), op.type);
      write(op.gradients->key, keyExtents(op), op.type);
      write(op.gradients->value, valueExtents(op), op.type);
    } else {
      write(op.output, outputExtents(op), op.type);
      list.push_back({&op.logsumexp, true, Defines::All, sums});
    }
    setTypes(0, op.type);
  }
  void operator()(const Convolution &op) {
    auto [lhs, rhs, made] = op.roles();
    list = {{&op.tensors[lhs].buffer, false}, {&op.tensors[rhs].buffer, false}};
    setTypes(0, op.type);
    write(op.tensors[made].buffer, stridedOf(op, made));
    setTypes(0, op.madeType);
  }
  void operator()(const Repeat &) {}
  void operator()(const RecordEvent &) {}
  void operator()(const WaitEvent &) {}

  void write(const BufferRef &ref, const Strided &made) {
    list.push_back(
        {&ref, true, leavesHoles(made) ? Defines::Elements : Defines::All, {}});
  }
  void write(const AttentionTensor &tensor, const Shape &extents,
             ElementType type) {
    write(tensor.buffer, stridedOf(tensor, extents, type));
  }
  template <typename Op> void move(const Op &op) {
    list = {{&op.source, false}, {&op.destination, true}};
  }
};
} // namespace

std::vector<Access> accessesOf(const Command &command) {
  Collector collector;
  std::visit(collector, command.operation);
  if (command.workspace)
    collector.list.push_back({&*command.workspace, true, Defines::Nothing, {}});
  return std::move(collector.list);
}

const std::vector<uint32_t> &groupAxes(const Operation &operation) {
  static const std::vector<uint32_t> none;
  if (const auto *collective = std::get_if<Collective>(&operation))
    return collective->axes;
  if (const auto *check = std::get_if<Check>(&operation))
    return check->axes;
  return none;
}

bool canBeWritten(const Program &program, const BufferRef &ref) {
  if (ref.space == Space::Argument)
    return program.arguments[ref.index].updatedBy >= 0;
  return ref.space != Space::Constant;
}

std::optional<int64_t> evaluateChecked(const Affine &value,
                                       std::span<const int64_t> point,
                                       int64_t iteration) {
  int64_t sum = value.base, step;
  auto add = [&](int64_t coefficient, int64_t factor) {
    return !__builtin_mul_overflow(coefficient, factor, &step) &&
           !__builtin_add_overflow(sum, step, &sum);
  };
  if (!add(value.perIteration, iteration))
    return std::nullopt;
  for (const CoordinateTerm &term : value.terms)
    if (!add(term.coefficient, point[term.axis]))
      return std::nullopt;
  return sum;
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
