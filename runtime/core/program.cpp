//===- program.cpp - the Program, in memory -------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem_rt/program.h"
#include "core/text.h"
#include "tandem_rt/pinned.h"

#include <algorithm>
#include <array>
#include <limits>

namespace tandem::rt {

int64_t Program::numRanks() const {
  int64_t ranks = 1;
  for (const Axis &axis : mesh)
    ranks *= axis.size;
  return ranks;
}

std::vector<int64_t> Program::coordinates(int64_t rank) const {
  std::vector<int64_t> result(mesh.size());
  for (size_t axis = mesh.size(); axis-- > 0; rank /= mesh[axis].size)
    result[axis] = rank % mesh[axis].size;
  return result;
}

std::vector<const Command *> RankProgram::listing() const {
  std::vector<const Command *> list;
  list.reserve(commands.size());
  for (const Command &command : commands) {
    list.push_back(&command);
    if (const auto *repeat = std::get_if<Repeat>(&command.operation))
      for (const Command &inner : repeat->body)
        list.push_back(&inner);
  }
  return list;
}

int64_t Program::evaluate(const Affine &value, int64_t rank,
                          int64_t iteration) const {
  int64_t sum = value.base + value.perIteration * iteration;
  if (value.terms.empty())
    return sum;
  std::vector<int64_t> point = coordinates(rank);
  for (const CoordinateTerm &term : value.terms)
    sum += term.coefficient * point[term.axis];
  return sum;
}

std::vector<int64_t> Program::group(const std::vector<uint32_t> &axes,
                                    int64_t rank) const {
  std::vector<int64_t> mine = coordinates(rank), members = {0};
  int64_t stride = numRanks();
  for (uint32_t axis = 0; axis < mesh.size(); ++axis) {
    stride /= mesh[axis].size;
    bool varies = std::find(axes.begin(), axes.end(), axis) != axes.end();
    int64_t begin = varies ? 0 : mine[axis];
    int64_t end = varies ? mesh[axis].size : begin + 1;
    std::vector<int64_t> next;
    for (int64_t member : members)
      for (int64_t point = begin; point < end; ++point)
        next.push_back(member + point * stride);
    members = std::move(next);
  }
  return members;
}

std::pair<int64_t, int64_t> Program::ends(const Transfer &op,
                                          int64_t rank) const {
  int64_t stride = 1;
  for (size_t axis = op.axis + 1; axis < mesh.size(); ++axis)
    stride *= mesh[axis].size;
  int64_t first = rank - coordinates(rank)[op.axis] * stride;
  return {first + op.from * stride, first + op.to * stride};
}

std::string_view Program::kindName(const Operation &operation) {
  static constexpr std::array<std::string_view, 4> kCollectives = {
      "all_reduce", "all_gather", "reduce_scatter", "all_to_all"};
  static constexpr std::array<std::string_view, 3> kConvolutions = {
      "conv", "conv_input_grad", "conv_weight_grad"};
  static constexpr std::array<std::string_view, 12> kKinds = {
      "launch",     "gemm",      "collective",  "copy",
      "fill",       "check",     "repeat",      "record_event",
      "wait_event", "attention", "convolution", "transfer"};
  if (const auto *attention = std::get_if<Attention>(&operation))
    return attention->gradients ? "attention_backward" : "attention";
  if (const auto *convolution = std::get_if<Convolution>(&operation))
    return kConvolutions[size_t(convolution->kind)];
  if (const auto *collective = std::get_if<Collective>(&operation))
    return kCollectives[size_t(collective->kind)];
  if (const auto *check = std::get_if<Check>(&operation))
    return check->kind == CheckKind::Finite ? "check_finite" : "check_truth";
  return kKinds[operation.index()];
}

int64_t numElements(const Shape &shape) {
  int64_t count = 1;
  for (int64_t extent : shape)
    if (__builtin_mul_overflow(count, extent, &count))
      return std::numeric_limits<int64_t>::max() / 16;
  return count;
}

namespace {
/// Microbatches; far above what anybody runs.
constexpr int64_t kMaxTimeFactor = int64_t(1) << 20;

Expected<int64_t> localExtent(const Program &program, const Shape &shape,
                              const Form &form, size_t dim) {
  int64_t parts = form.dims[dim].timeFactor;
  if (parts < 1 || parts > kMaxTimeFactor)
    return errorOf("time factor of dimension ", dim, " is ", parts,
                   ", expected 1 to ", kMaxTimeFactor);
  for (uint32_t axis : form.dims[dim].axes) {
    if (axis >= program.mesh.size())
      return errorOf("form names axis ", axis, " of a mesh with ",
                     program.mesh.size(), " axes");
    if (__builtin_mul_overflow(parts, program.mesh[axis].size, &parts))
      return errorOf("dimension ", dim, " of ", shapeText(shape),
                     " is split into too many parts");
  }
  if (shape[dim] % parts != 0)
    return errorOf("dimension ", dim, " of ", shapeText(shape), " has extent ",
                   shape[dim], ", which does not divide into ", parts,
                   " parts");
  return shape[dim] / parts * form.dims[dim].timeFactor;
}
} // namespace

bool holds(const Program &program, const Form &form, int64_t rank) {
  if (form.at.empty())
    return true;
  std::vector<int64_t> point = program.coordinates(rank);
  return std::all_of(form.at.begin(), form.at.end(), [&](const AxisPoint &at) {
    return point[at.axis] == at.point;
  });
}

int64_t localBytes(const Argument &argument) {
  return numElements(argument.localShape) * elementBytes(argument.type);
}

int64_t localBytes(const Result &result) {
  return numElements(result.localShape) * elementBytes(result.type);
}

namespace {
/// Of the device's own memory, or of pinned memory.
int64_t bytesOf(const Program &program, int64_t rank, bool pinned) {
  auto count = [&](uint32_t space, int64_t bytes) {
    return isPinned(program, space) == pinned ? bytes : 0;
  };
  int64_t bytes = 0;
  for (const Argument &argument : program.arguments)
    if (holds(program, argument.form, rank))
      bytes += count(argument.memorySpace, localBytes(argument));
  for (const Result &result : program.results)
    if (result.place.space == Space::Result &&
        holds(program, result.form, rank))
      bytes += count(result.memorySpace, localBytes(result));
  for (const Constant &constant : program.constants)
    bytes += count(constant.memorySpace, int64_t(constant.data.size()));
  uint32_t number = program.rankToProgram[size_t(rank)];
  for (const Arena &arena : program.rankPrograms[number].arenas)
    bytes += count(arena.memorySpace, arena.bytes);
  return bytes;
}
} // namespace

int64_t heldBytes(const Program &program, int64_t rank) {
  return bytesOf(program, rank, /*pinned=*/false);
}

int64_t pinnedBytes(const Program &program, int64_t rank) {
  return bytesOf(program, rank, /*pinned=*/true);
}

Expected<Shape> localShapeOf(const Program &program, const Shape &globalShape,
                             const Form &form) {
  if (form.dims.size() != globalShape.size())
    return errorOf("form has ", form.dims.size(), " dimensions, expected ",
                   globalShape.size());
  Shape local;
  for (size_t dim = 0; dim < globalShape.size(); ++dim) {
    Expected<int64_t> extent = localExtent(program, globalShape, form, dim);
    if (!extent.ok())
      return extent.status();
    local.push_back(*extent);
  }
  return local;
}

} // namespace tandem::rt
