//===- verify_commands.cpp - checks each command --------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/access.h"
#include "core/text.h"
#include "core/verify.h"

#include <algorithm>
#include <set>

namespace tandem::rt {

int64_t spaceBytes(const Program &program, const RankProgram &rankProgram,
                   const BufferRef &ref) {
  auto tensorBytes = [](const auto &entry) {
    return numElements(entry.localShape) * elementBytes(entry.type);
  };
  switch (ref.space) {
  case Space::Arena:
    return ref.index < rankProgram.arenas.size()
               ? rankProgram.arenas[ref.index].bytes
               : -1;
  case Space::Argument:
    return ref.index < program.arguments.size()
               ? tensorBytes(program.arguments[ref.index])
               : -1;
  case Space::Result:
    return ref.index < program.results.size() &&
                   program.results[ref.index].place.space == Space::Result
               ? tensorBytes(program.results[ref.index])
               : -1;
  case Space::Constant:
    return ref.index < program.constants.size()
               ? int64_t(program.constants[ref.index].size())
               : -1;
  }
  return -1;
}

namespace {
class CommandVerifier {
public:
  CommandVerifier(const Program &program, int64_t rank)
      : program(program), rank(rank),
        rankProgram(program.rankPrograms[program.rankToProgram[size_t(rank)]]) {
  }

  Status verify();

private:
  Status verifyAffine(const Affine &value);
  Status verifyBuffer(const Access &access);
  Status expectBytes(const char *what, const BufferRef &ref, int64_t bytes);

  Status check(const Launch &op);
  Status check(const Gemm &op);
  Status check(const Collective &op);
  Status check(const Copy &op);
  Status check(const Fill &op);
  Status check(const CheckFinite &op);
  Status check(const RecordEvent &op) { return checkEvent(op.event); }
  Status check(const WaitEvent &op) { return checkEvent(op.event); }
  Status checkEvent(uint32_t event);
  Status checkGemmTypes(const Gemm &op);
  Status checkOutput(const Gemm &op);
  Status checkOperand(const Gemm &op, const char *what, const BufferRef &ref,
                      const Shape &strides, int64_t rows, int64_t columns,
                      ElementType type);
  Status checkDims(const Collective &op, int64_t n);
  bool overlap(const BufferRef &a, const BufferRef &b) const;

  const Program &program;
  int64_t rank;
  const RankProgram &rankProgram;
};

Status CommandVerifier::verifyAffine(const Affine &value) {
  for (const CoordinateTerm &term : value.terms)
    if (term.axis >= program.mesh.size())
      return errorOf("a coordinate names axis ", term.axis, " of a mesh with ",
                     program.mesh.size(), " axes");
  return Status::success();
}

Status CommandVerifier::verifyBuffer(const Access &access) {
  const BufferRef &ref = *access.ref;
  if (Status status = verifyAffine(ref.offset); !status.ok())
    return status;
  int64_t size = spaceBytes(program, rankProgram, ref);
  if (size < 0)
    return errorOf("buffer names a space that does not exist: ",
                   bufferText(program, ref, rank));
  int64_t begin = program.evaluate(ref.offset, rank), end;
  if (begin < 0 || ref.bytes < 0 ||
      __builtin_add_overflow(begin, ref.bytes, &end) || end > size)
    return errorOf("buffer is ", bufferText(program, ref, rank),
                   ", expected to lie within ", size, " bytes");
  if (!access.write)
    return Status::success();
  if (ref.space == Space::Constant)
    return errorOf("writes constant ", ref.index);
  if (ref.space == Space::Argument &&
      program.arguments[ref.index].updatedBy < 0)
    return errorOf("writes argument '", program.arguments[ref.index].role, "/",
                   program.arguments[ref.index].name,
                   "', which is not declared as updated");
  return Status::success();
}

Status CommandVerifier::expectBytes(const char *what, const BufferRef &ref,
                                    int64_t bytes) {
  if (ref.bytes == bytes)
    return Status::success();
  return errorOf(what, " has ", ref.bytes, " bytes, expected ", bytes);
}

bool CommandVerifier::overlap(const BufferRef &a, const BufferRef &b) const {
  if (a.space != b.space || a.index != b.index)
    return false;
  int64_t beginA = program.evaluate(a.offset, rank);
  int64_t beginB = program.evaluate(b.offset, rank);
  return beginA < beginB + b.bytes && beginB < beginA + a.bytes;
}

Status CommandVerifier::check(const Launch &op) {
  if (op.codeObject >= program.codeObjects.size())
    return errorOf("launches from code object ", op.codeObject, " of ",
                   program.codeObjects.size());
  for (const Affine &scalar : op.scalars)
    if (Status status = verifyAffine(scalar); !status.ok())
      return status;
  return Status::success();
}

Status CommandVerifier::checkGemmTypes(const Gemm &op) {
  using T = ElementType;
  T in = op.inputType, out = op.outputType;
  bool known = (in == T::F64 && out == T::F64) ||
               (in == T::F32 && out == T::F32) ||
               (in == T::BF16 && (out == T::BF16 || out == T::F32));
  if (!known)
    return errorOf("gemm from ", elementName(in), " to ", elementName(out),
                   ", expected f64 to f64, f32 to f32, or bf16 to bf16 or f32");
  if (op.m < 1 || op.n < 1 || op.k < 1)
    return errorOf("gemm has m ", op.m, ", n ", op.n, ", k ", op.k,
                   ", expected none below 1");
  constexpr size_t kMaxBatchDims = 8;
  if (op.batch.size() > kMaxBatchDims)
    return errorOf("gemm has ", op.batch.size(),
                   " batch dimensions, expected at most ", kMaxBatchDims);
  return Status::success();
}

Status CommandVerifier::checkOperand(const Gemm &op, const char *what,
                                     const BufferRef &ref, const Shape &strides,
                                     int64_t rows, int64_t columns,
                                     ElementType type) {
  if (strides.size() != op.batch.size() + 2)
    return errorOf("gemm operand ", what, " has ", strides.size(),
                   " strides, expected ", op.batch.size() + 2);
  for (int64_t stride : strides)
    if (stride < 0 || stride > (int64_t(1) << 40))
      return errorOf("gemm operand ", what, " has stride ", stride,
                     ", expected 0 to 2^40");
  int64_t needed = gemmBytes(op, strides, rows, columns, type);
  if (ref.bytes < needed)
    return errorOf("gemm operand ", what, " has ", ref.bytes,
                   " bytes, expected at least ", needed);
  return Status::success();
}

Status CommandVerifier::check(const Gemm &op) {
  if (Status status = checkGemmTypes(op); !status.ok())
    return status;
  for (int64_t extent : op.batch)
    if (extent < 1)
      return errorOf("gemm has batch ", shapeText(op.batch),
                     ", expected no extent below 1");
  Status status =
      checkOperand(op, "a", op.a, op.stridesA, op.m, op.k, op.inputType);
  if (status.ok())
    status = checkOperand(op, "b", op.b, op.stridesB, op.k, op.n, op.inputType);
  if (status.ok())
    status =
        checkOperand(op, "c", op.c, op.stridesC, op.m, op.n, op.outputType);
  if (status.ok() && op.bias)
    status =
        expectBytes("gemm bias", *op.bias, op.n * elementBytes(op.outputType));
  if (status.ok())
    status = checkOutput(op);
  return status;
}

/// Each element of c is written once, and is no operand.
Status CommandVerifier::checkOutput(const Gemm &op) {
  Shape extents = op.batch;
  extents.insert(extents.end(), {op.m, op.n});
  for (size_t dim = 0; dim < extents.size(); ++dim)
    if (extents[dim] > 1 && op.stridesC[dim] == 0)
      return errorOf("gemm operand c has stride 0 over a dimension of extent ",
                     extents[dim]);
  if (overlap(op.a, op.c) || overlap(op.b, op.c) ||
      (op.bias && overlap(*op.bias, op.c)))
    return errorOf("gemm's output overlaps an operand at ",
                   bufferText(program, op.c, rank));
  return Status::success();
}

Status CommandVerifier::checkDims(const Collective &op, int64_t n) {
  bool splits = op.kind == CollectiveKind::ReduceScatter ||
                op.kind == CollectiveKind::AllToAll;
  bool joins = op.kind == CollectiveKind::AllGather ||
               op.kind == CollectiveKind::AllToAll;
  int32_t dims = int32_t(op.shape.size());
  if (splits && (op.splitDim < 0 || op.splitDim >= dims))
    return errorOf("collective splits dimension ", op.splitDim, " of ",
                   shapeText(op.shape));
  if (joins && (op.concatDim < 0 || op.concatDim >= dims))
    return errorOf("collective concatenates along dimension ", op.concatDim,
                   " of ", shapeText(op.shape));
  if (splits && op.shape[size_t(op.splitDim)] % n != 0)
    return errorOf("collective splits dimension ", op.splitDim, " of ",
                   shapeText(op.shape), " into ", n, " parts");
  return Status::success();
}

bool sums(CollectiveKind kind) {
  return kind == CollectiveKind::AllReduce ||
         kind == CollectiveKind::ReduceScatter;
}

Status CommandVerifier::check(const Collective &op) {
  if (op.axes.empty() ||
      std::adjacent_find(op.axes.begin(), op.axes.end(),
                         std::greater_equal<>()) != op.axes.end())
    return errorOf("collective's axes are not a set in mesh order");
  for (uint32_t axis : op.axes)
    if (axis >= program.mesh.size())
      return errorOf("collective names axis ", axis, " of a mesh with ",
                     program.mesh.size(), " axes");
  if (sums(op.kind) &&
      (op.type == ElementType::I1 || op.type == ElementType::F16))
    return errorOf("collective sums ", elementName(op.type),
                   ", expected f64, f32, bf16, i64, i32 or i8");
  int64_t n = 1;
  for (uint32_t axis : op.axes)
    n *= program.mesh[axis].size;
  if (Status status = checkDims(op, n); !status.ok())
    return status;
  int64_t width = elementBytes(op.type);
  Status status = expectBytes("collective's source", op.source,
                              numElements(op.shape) * width);
  if (status.ok())
    status = expectBytes("collective's destination", op.destination,
                         numElements(destinationShape(op, n)) * width);
  if (!status.ok() || !overlap(op.source, op.destination))
    return status;
  bool inPlace = op.kind == CollectiveKind::AllReduce &&
                 program.evaluate(op.source.offset, rank) ==
                     program.evaluate(op.destination.offset, rank);
  if (!inPlace)
    return errorOf("collective's source and destination overlap at ",
                   bufferText(program, op.destination, rank));
  return status;
}

Status CommandVerifier::check(const Copy &op) {
  return expectBytes("copy's destination", op.destination, op.source.bytes);
}

Status CommandVerifier::check(const Fill &op) {
  size_t size = op.pattern.size();
  if (size != 1 && size != 2 && size != 4 && size != 8)
    return errorOf("fill has a pattern of ", size,
                   " bytes, expected 1, 2, 4 or 8");
  if (op.destination.bytes % int64_t(size) != 0)
    return errorOf("fill of ", op.destination.bytes,
                   " bytes, expected a multiple of its pattern's ", size);
  return Status::success();
}

Status CommandVerifier::check(const CheckFinite &op) {
  if (!isFloat(op.type) || op.type == ElementType::F16)
    return errorOf("check of ", elementName(op.type),
                   ", expected f64, f32 or bf16");
  if (op.source.bytes % elementBytes(op.type) != 0)
    return errorOf("check of ", op.source.bytes, " bytes of ",
                   elementName(op.type));
  return Status::success();
}

Status CommandVerifier::checkEvent(uint32_t event) {
  if (event >= rankProgram.numEvents)
    return errorOf("event is ", event, ", expected less than ",
                   rankProgram.numEvents);
  return Status::success();
}

Status CommandVerifier::verify() {
  std::set<uint32_t> ids;
  for (const Command &command : rankProgram.commands) {
    Status status;
    if (!ids.insert(command.id).second)
      status = errorOf("id is taken by another command");
    for (const Access &access : accessesOf(command.operation))
      if (status.ok())
        status = verifyBuffer(access);
    if (status.ok())
      status = std::visit([&](const auto &op) { return check(op); },
                          command.operation);
    if (!status.ok())
      return errorOf(commandText(command), " of rank ", rank, ": ",
                     status.message());
  }
  return Status::success();
}
} // namespace

Status verifyCommands(const Program &program, int64_t rank) {
  return CommandVerifier(program, rank).verify();
}

} // namespace tandem::rt
