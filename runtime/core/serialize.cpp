//===- serialize.cpp - Programs as FlatBuffers ----------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/hash.h"
#include "program_generated.h"
#include "tandem_rt/model_facts.h"

#include <algorithm>

namespace tandem::rt {

namespace {
using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;
template <typename T> using Vector = Offset<flatbuffers::Vector<T>>;

/// Writes tables bottom-up; one method per table of program.fbs.
class Encoder {
public:
  Bytes encode(const Program &program, const ModelFacts &facts);

private:
  template <typename T, typename Write>
  auto list(const std::vector<T> &items, Write write) {
    std::vector<decltype(write(items.front()))> offsets;
    offsets.reserve(items.size());
    for (const T &item : items)
      offsets.push_back(write(item));
    return b.CreateVector(offsets);
  }
  auto text(const std::string &value) { return b.CreateSharedString(value); }
  Vector<const fbs::CoordinateTerm *>
  terms(const std::vector<CoordinateTerm> &items);
  Vector<Offset<fbs::Queue>> queues(const std::vector<Queue> &list);
  Vector<Offset<fbs::MemorySpace>>
  memorySpaces(const std::vector<MemorySpace> &list);
  Offset<fbs::Affine> affine(const Affine &value);
  Offset<fbs::BufferRef> buffer(const BufferRef &ref);
  Vector<Offset<fbs::BufferRef>> buffers(const std::vector<BufferRef> &refs);
  Offset<fbs::Form> form(const Form &value);
  Offset<fbs::Target> target(const Target &value);
  Offset<fbs::Part> part(const std::optional<Part> &value);
  Offset<fbs::Argument> argument(const Argument &value);
  Offset<fbs::Result> result(const Result &value);
  Vector<const fbs::Origin *> origins(const std::vector<Origin> &items);
  Offset<fbs::Command> command(const Command &value);
  Offset<fbs::RankProgram> rankProgram(const RankProgram &value);
  Vector<const fbs::ModelFlops *>
  modelFlops(const std::vector<ModelFlops> &items);

  Offset<void> write(const Launch &op);
  Offset<void> write(const Gemm &op);
  Offset<fbs::AttentionTensor> tensor(const AttentionTensor &value);
  Offset<void> write(const Attention &op);
  Offset<fbs::ConvolutionTensor> tensor(const ConvolutionTensor &value);
  Offset<void> write(const Convolution &op);
  Offset<void> write(const Collective &op);
  Offset<void> write(const Transfer &op);
  Offset<void> write(const Copy &op);
  Offset<void> write(const Fill &op);
  Offset<void> write(const Check &op);
  Offset<void> write(const Repeat &op);
  Offset<void> write(const RecordEvent &op);
  Offset<void> write(const WaitEvent &op);

  FlatBufferBuilder b;
};

Vector<const fbs::CoordinateTerm *>
Encoder::terms(const std::vector<CoordinateTerm> &items) {
  if (items.empty())
    return 0;
  std::vector<fbs::CoordinateTerm> structs;
  for (const CoordinateTerm &term : items)
    structs.emplace_back(term.axis, term.coefficient);
  return b.CreateVectorOfStructs(structs);
}

Vector<Offset<fbs::Queue>> Encoder::queues(const std::vector<Queue> &items) {
  return list(items, [&](const Queue &queue) {
    return fbs::CreateQueue(b, uint8_t(queue.role), text(queue.name),
                            queue.yields);
  });
}

Vector<Offset<fbs::MemorySpace>>
Encoder::memorySpaces(const std::vector<MemorySpace> &items) {
  return list(items, [&](const MemorySpace &space) {
    return fbs::CreateMemorySpace(b, text(space.name), uint8_t(space.kind),
                                  space.alignment);
  });
}

Offset<fbs::Affine> Encoder::affine(const Affine &value) {
  return fbs::CreateAffine(b, value.base, terms(value.terms),
                           value.perIteration);
}

Offset<fbs::BufferRef> Encoder::buffer(const BufferRef &ref) {
  return fbs::CreateBufferRef(b, uint8_t(ref.space), ref.index, ref.offset.base,
                              terms(ref.offset.terms), ref.offset.perIteration,
                              ref.bytes);
}

Vector<Offset<fbs::BufferRef>>
Encoder::buffers(const std::vector<BufferRef> &refs) {
  return list(refs, [&](const BufferRef &ref) { return buffer(ref); });
}

Offset<fbs::Form> Encoder::form(const Form &value) {
  auto dims = list(value.dims, [&](const DimForm &dim) {
    return fbs::CreateDimForm(b, dim.timeFactor, b.CreateVector(dim.axes));
  });
  std::vector<fbs::AxisPoint> at;
  for (const AxisPoint &each : value.at)
    at.emplace_back(each.axis, each.point);
  return fbs::CreateForm(b, dims, b.CreateVector(value.reduce),
                         b.CreateVectorOfStructs(at));
}

Offset<fbs::Target> Encoder::target(const Target &value) {
  auto features =
      list(value.features, [&](const std::string &name) { return text(name); });
  return fbs::CreateTarget(b, text(value.triple), text(value.cpu), features,
                           text(value.device));
}

Offset<fbs::Part> Encoder::part(const std::optional<Part> &value) {
  if (!value)
    return 0;
  return fbs::CreatePart(b, text(value->whole), b.CreateVector(value->shape),
                         value->dim, value->offset);
}

Offset<fbs::Argument> Encoder::argument(const Argument &value) {
  auto low = value.range ? value.range->first : 0.0;
  auto high = value.range ? value.range->second : 0.0;
  fbs::Range range(low, high);
  return fbs::CreateArgument(
      b, text(value.role), text(value.name), uint8_t(value.type),
      b.CreateVector(value.globalShape), b.CreateVector(value.localShape),
      form(value.form), value.updatedBy, value.range ? &range : nullptr,
      part(value.part), value.memorySpace);
}

Offset<fbs::Result> Encoder::result(const Result &value) {
  return fbs::CreateResult(
      b, text(value.role), text(value.name), uint8_t(value.type),
      b.CreateVector(value.globalShape), b.CreateVector(value.localShape),
      form(value.form), buffer(value.place), part(value.part),
      value.memorySpace);
}

Offset<void> Encoder::write(const Launch &op) {
  auto inputs = buffers(op.inputs);
  auto outputs = buffers(op.outputs);
  auto scalars = list(op.scalars, [&](const Affine &v) { return affine(v); });
  Offset<fbs::Geometry> geometry = 0;
  if (op.geometry) {
    const auto &[grid, block, shared] = *op.geometry;
    geometry = fbs::CreateGeometry(b, grid[0], grid[1], grid[2], block[0],
                                   block[1], block[2], shared);
  }
  auto sites =
      list(op.sites, [&](const std::string &site) { return text(site); });
  std::vector<uint8_t> types;
  for (ElementType type : op.types)
    types.push_back(uint8_t(type));
  return fbs::CreateLaunch(b, op.codeObject, text(op.symbol), inputs, outputs,
                           scalars, geometry, sites, b.CreateVector(types),
                           op.hasInfinity)
      .Union();
}

Offset<void> Encoder::write(const Gemm &op) {
  auto optional = [&](const std::optional<BufferRef> &ref) {
    return ref ? buffer(*ref) : Offset<fbs::BufferRef>(0);
  };
  Offset<fbs::BufferRef> bias = optional(op.bias);
  Offset<fbs::BufferRef> preActivation = optional(op.preActivation);
  Offset<fbs::BufferRef> sumsA = optional(op.sumsA), sumsB = optional(op.sumsB);
  return fbs::CreateGemm(b, uint8_t(op.inputType), uint8_t(op.outputType),
                         b.CreateVector(op.batch), op.m, op.n, op.k,
                         b.CreateVector(op.stridesA),
                         b.CreateVector(op.stridesB),
                         b.CreateVector(op.stridesC), op.alpha, op.accumulate,
                         uint8_t(op.postOp), buffer(op.a), buffer(op.b),
                         buffer(op.c), bias, preActivation, sumsA, sumsB)
      .Union();
}

Offset<fbs::AttentionTensor> Encoder::tensor(const AttentionTensor &value) {
  return fbs::CreateAttentionTensor(b, buffer(value.buffer),
                                    b.CreateVector(value.strides));
}

Offset<void> Encoder::write(const Attention &op) {
  Offset<fbs::AttentionMask> mask = 0;
  if (op.mask)
    mask = fbs::CreateAttentionMask(b, uint8_t(op.mask->type),
                                    buffer(op.mask->buffer),
                                    b.CreateVector(op.mask->strides));
  Offset<fbs::BufferRef> positions = op.positions ? buffer(*op.positions) : 0;
  Offset<fbs::AttentionDropout> dropout = 0;
  if (op.dropout)
    dropout = fbs::CreateAttentionDropout(
        b, op.dropout->probability, op.dropout->ordinal,
        buffer(op.dropout->rows), buffer(op.dropout->seed),
        buffer(op.dropout->step));
  Offset<fbs::AttentionGradients> gradients = 0;
  if (op.gradients)
    gradients = fbs::CreateAttentionGradients(
        b, tensor(op.gradients->output), tensor(op.gradients->query),
        tensor(op.gradients->key), tensor(op.gradients->value));
  return fbs::CreateAttention(
             b, uint8_t(op.type), op.batch, op.heads, op.keyHeads, op.queries,
             op.keys, op.width, op.valueWidth, op.scale, op.before, op.after,
             tensor(op.query), tensor(op.key), tensor(op.value),
             tensor(op.output), buffer(op.logsumexp), mask, positions, dropout,
             gradients)
      .Union();
}

Offset<fbs::ConvolutionTensor> Encoder::tensor(const ConvolutionTensor &value) {
  return fbs::CreateConvolutionTensor(b, buffer(value.buffer),
                                      b.CreateVector(value.extents),
                                      b.CreateVector(value.strides));
}

Offset<void> Encoder::write(const Convolution &op) {
  return fbs::CreateConvolution(b, uint8_t(op.kind), uint8_t(op.type),
                                uint8_t(op.madeType), b.CreateVector(op.stride),
                                b.CreateVector(op.padding),
                                b.CreateVector(op.dilation), tensor(op.input()),
                                tensor(op.weight()), tensor(op.output()))
      .Union();
}

Offset<void> Encoder::write(const Collective &op) {
  return fbs::CreateCollective(b, uint8_t(op.kind), b.CreateVector(op.axes),
                               uint8_t(op.type), b.CreateVector(op.shape),
                               op.splitDim, op.concatDim, buffer(op.source),
                               buffer(op.destination))
      .Union();
}

Offset<void> Encoder::write(const Transfer &op) {
  auto end = [&](const BufferRef &ref) {
    return ref.bytes ? buffer(ref) : Offset<fbs::BufferRef>();
  };
  return fbs::CreateTransfer(b, op.axis, op.from, op.to, uint8_t(op.type),
                             b.CreateVector(op.shape), op.tag, end(op.source),
                             end(op.destination))
      .Union();
}

Offset<void> Encoder::write(const Copy &op) {
  return fbs::CreateCopy(b, buffer(op.source), buffer(op.destination)).Union();
}

Offset<void> Encoder::write(const Fill &op) {
  return fbs::CreateFill(b, buffer(op.destination), b.CreateVector(op.pattern))
      .Union();
}

Offset<void> Encoder::write(const Check &op) {
  auto source = op.source ? buffer(*op.source) : Offset<fbs::BufferRef>();
  return fbs::CreateCheck(b, uint8_t(op.kind), uint8_t(op.type), source,
                          text(op.message), b.CreateVector(op.axes))
      .Union();
}

Offset<void> Encoder::write(const Repeat &op) {
  auto body = list(op.body, [&](const Command &c) { return command(c); });
  return fbs::CreateRepeat(b, op.count, body).Union();
}

Offset<void> Encoder::write(const RecordEvent &op) {
  return fbs::CreateRecordEvent(b, op.event).Union();
}

Offset<void> Encoder::write(const WaitEvent &op) {
  return fbs::CreateWaitEvent(b, op.event).Union();
}

Vector<const fbs::Origin *> Encoder::origins(const std::vector<Origin> &items) {
  if (items.empty())
    return 0;
  std::vector<fbs::Origin> structs;
  for (const Origin &origin : items)
    structs.emplace_back(origin.op, origin.result);
  return b.CreateVectorOfStructs(structs);
}

Offset<fbs::Command> Encoder::command(const Command &value) {
  Offset<void> operation =
      std::visit([&](const auto &op) { return write(op); }, value.operation);
  // The alternatives of the variant and of the union come in the same order;
  // the union's 0 is NONE.
  auto kind = fbs::Operation(value.operation.index() + 1);
  Offset<fbs::BufferRef> workspace =
      value.workspace ? buffer(*value.workspace) : 0;
  return fbs::CreateCommand(b, value.id, text(value.name), text(value.location),
                            value.queue, value.flops, value.bytes, value.stage,
                            value.strand, workspace, kind, operation,
                            origins(value.origins));
}

Offset<fbs::RankProgram> Encoder::rankProgram(const RankProgram &value) {
  auto arenas = list(value.arenas, [&](const Arena &arena) {
    return fbs::CreateArena(b, arena.bytes, arena.memorySpace);
  });
  auto commands =
      list(value.commands, [&](const Command &c) { return command(c); });
  return fbs::CreateRankProgram(b, arenas, value.numEvents, commands);
}

Vector<const fbs::ModelFlops *>
Encoder::modelFlops(const std::vector<ModelFlops> &items) {
  if (items.empty())
    return 0;
  std::vector<fbs::ModelFlops> structs;
  for (const ModelFlops &each : items)
    structs.emplace_back(uint8_t(each.type), each.flops);
  return b.CreateVectorOfStructs(structs);
}

Bytes Encoder::encode(const Program &program, const ModelFacts &facts) {
  auto mesh = list(program.mesh, [&](const Axis &axis) {
    return fbs::CreateAxis(b, text(axis.name), axis.size);
  });
  auto objects = list(program.codeObjects, [&](const CodeObject &object) {
    return fbs::CreateCodeObject(b, text(object.name), uint8_t(object.kind),
                                 b.CreateVector(object.image));
  });
  auto constants = list(program.constants, [&](const Constant &constant) {
    return fbs::CreateConstant(b, constant.memorySpace,
                               b.CreateVector(constant.data));
  });
  auto arguments =
      list(program.arguments, [&](const Argument &v) { return argument(v); });
  auto results =
      list(program.results, [&](const Result &v) { return result(v); });
  auto programs = list(program.rankPrograms,
                       [&](const RankProgram &v) { return rankProgram(v); });
  fbs::ContentHash none(0, 0);
  auto root = fbs::CreateProgram(
      b, kProgramVersion, &none, target(program.target), mesh, program.micro,
      queues(program.queues), memorySpaces(program.memorySpaces), objects,
      constants, arguments, results, programs,
      b.CreateVector(program.rankToProgram), modelFlops(facts.flops),
      facts.tokens);
  fbs::FinishProgramBuffer(b, root);

  Bytes bytes(b.GetBufferPointer(), b.GetBufferPointer() + b.GetSize());
  Hash128 hash = contentHash(bytes);
  fbs::ContentHash value(hash.low, hash.high);
  auto *field =
      reinterpret_cast<const uint8_t *>(fbs::GetProgram(bytes.data())->hash());
  std::memcpy(bytes.data() + (field - bytes.data()), &value, sizeof value);
  return bytes;
}
} // namespace

Bytes serializeProgram(const Program &program) {
  return Encoder().encode(program, {});
}

Bytes serializeProgram(const Program &program, const ModelFacts &facts) {
  return Encoder().encode(program, facts);
}

} // namespace tandem::rt
