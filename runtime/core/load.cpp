//===- load.cpp - reads Programs ------------------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/hash.h"
#include "core/text.h"
#include "program_generated.h"
#include "tandem_rt/model_facts.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

namespace tandem::rt {

namespace {
constexpr flatbuffers::uoffset_t kMaxDepth = 64;
/// A table has an offset to its vtable and one that leads to it. A file in
/// which many offsets lead to one table could stand for far more than it holds.
constexpr size_t kLeastTableBytes = 8;
/// Strings are stored once and read many times: a name of this many times the
/// length of a command is longer than any that people give.
constexpr size_t kMostExpansion = 16;
constexpr size_t kLeastRoom = size_t(1) << 20;

/// The fields that are read before the file as a whole is known to be good.
struct Envelope {
  uint32_t version = 0;
  size_t hashOffset = 0;
  Hash128 hash;
};

Expected<Envelope> readEnvelope(std::span<const uint8_t> bytes) {
  constexpr size_t kSmallest = 16;
  if (bytes.size() < kSmallest)
    return errorOf("not a Tandem program: file has ", bytes.size(),
                   " bytes, expected at least ", kSmallest);
  if (!fbs::ProgramBufferHasIdentifier(bytes.data()))
    return errorOf("not a Tandem program: no identifier '",
                   fbs::ProgramIdentifier(), "' at byte 4");
  flatbuffers::Verifier verifier(bytes.data(), bytes.size());
  size_t start = verifier.VerifyOffset(0);
  const auto *root = flatbuffers::GetRoot<flatbuffers::Table>(bytes.data());
  bool readable =
      start && root->VerifyTableStart(verifier) &&
      root->VerifyField<uint32_t>(verifier, fbs::Program::VT_VERSION, 4) &&
      root->VerifyField<fbs::ContentHash>(verifier, fbs::Program::VT_HASH, 8);
  if (!readable)
    return errorOf("program file is corrupt or truncated: no root table in ",
                   bytes.size(), " bytes");
  Envelope envelope;
  envelope.version = root->GetField<uint32_t>(fbs::Program::VT_VERSION, 0);
  if (const auto *hash =
          root->GetStruct<const fbs::ContentHash *>(fbs::Program::VT_HASH)) {
    envelope.hash = {hash->low(), hash->high()};
    envelope.hashOffset =
        size_t(reinterpret_cast<const uint8_t *>(hash) - bytes.data());
  }
  return envelope;
}

Status checkEnvelope(std::span<const uint8_t> bytes) {
  Expected<Envelope> envelope = readEnvelope(bytes);
  if (!envelope.ok())
    return envelope.status();
  if (envelope->version != kProgramVersion)
    return errorOf("program has version ", envelope->version,
                   ", this runtime reads version ", kProgramVersion);
  if (!envelope->hashOffset)
    return errorOf("program file is corrupt: it has no content hash");
  Bytes copy(bytes.begin(), bytes.end());
  std::memset(copy.data() + envelope->hashOffset, 0, sizeof(fbs::ContentHash));
  Hash128 found = contentHash(copy);
  if (found != envelope->hash)
    return errorOf("program file is corrupt or truncated: content hash is ",
                   hashText(found), ", expected ", hashText(envelope->hash));
  return Status::success();
}

/// Turns tables into structs. The first value out of range is remembered.
class Decoder {
public:
  explicit Decoder(size_t fileBytes)
      : room(std::max(kLeastRoom, kMostExpansion * fileBytes)) {}
  Program decode(const fbs::Program &file);
  ModelFacts modelFacts(const fbs::Program &file);
  Status status;

private:
  /// Whether so many bytes may still be read.
  bool take(size_t bytes) {
    if (bytes > room && status.ok())
      status = errorOf("program file is corrupt: its strings and lists are "
                       "stored once and used too often");
    bool fits = bytes <= room;
    room -= fits ? bytes : room;
    return fits;
  }
  template <typename Enum>
  Enum enumeration(uint8_t value, unsigned count, const char *what) {
    if (value >= count && status.ok())
      status = errorOf(what, " is ", value, ", expected less than ", count);
    return Enum(value < count ? value : 0);
  }
  ElementType type(uint8_t value) {
    return enumeration<ElementType>(value, kNumElementTypes, "element type");
  }
  /// Whether elements, if any, stand where their type asks, which FlatBuffers'
  /// verifier does not look at. Tables stand anywhere.
  template <typename Element, typename Items>
  bool isAligned(const Items *items) {
    constexpr size_t kAlignment = alignof(std::remove_pointer_t<Element>);
    bool aligned = items->size() == 0 ||
                   reinterpret_cast<uintptr_t>(items->Data()) % kAlignment == 0;
    if (!aligned && status.ok())
      status = errorOf("program file is corrupt: a list of it is not aligned");
    return aligned;
  }
  template <typename T>
  std::vector<T> values(const flatbuffers::Vector<T> *items) {
    return items && isAligned<T>(items) && take(items->size() * sizeof(T))
               ? std::vector<T>(items->begin(), items->end())
               : std::vector<T>();
  }
  /// Errors and listings quote texts, each on one line.
  std::string text(const flatbuffers::String *value) {
    if (!value || !take(value->size()))
      return {};
    std::string result = value->str();
    if (result.find_first_of("\r\n") != std::string::npos && status.ok())
      status = errorOf("program file is corrupt: a text of it has ",
                       "several lines, expected one line");
    return result;
  }
  template <typename Items, typename Read>
  auto list(const Items *items, Read read) {
    std::vector<decltype(read(*items->Get(0)))> result;
    if (!items || !isAligned<decltype(items->Get(0))>(items))
      return result;
    result.reserve(items->size());
    for (const auto *item : *items)
      result.push_back(read(*item));
    return result;
  }
  Affine affine(int64_t base,
                const flatbuffers::Vector<const fbs::CoordinateTerm *> *terms,
                int64_t perIteration);
  BufferRef buffer(const fbs::BufferRef &ref);
  Form form(const fbs::Form &value);
  std::optional<Part> part(const fbs::Part *value);
  Argument argument(const fbs::Argument &value);
  Result result(const fbs::Result &value);
  std::vector<Origin> origins(const fbs::Command &value);
  Command command(const fbs::Command &value);
  RankProgram rankProgram(const fbs::RankProgram &value);
  Operation operation(const fbs::Command &value);

  Operation read(const fbs::Launch &op);
  Operation read(const fbs::Gemm &op);
  AttentionTensor tensor(const fbs::AttentionTensor &value);
  Operation read(const fbs::Attention &op);
  ConvolutionTensor tensor(const fbs::ConvolutionTensor &value);
  Operation read(const fbs::Convolution &op);
  Operation read(const fbs::Collective &op);
  Operation read(const fbs::Transfer &op);
  Operation read(const fbs::Check &op);
  Operation read(const fbs::Repeat &op);

  size_t room; ///< For what one place of the file may give several times.
};

Affine
Decoder::affine(int64_t base,
                const flatbuffers::Vector<const fbs::CoordinateTerm *> *terms,
                int64_t perIteration) {
  Affine value(base, {}, perIteration);
  if (!terms || !take(terms->size() * sizeof(CoordinateTerm)))
    return value;
  value.terms = list(terms, [](const fbs::CoordinateTerm &term) {
    return CoordinateTerm{term.axis(), term.coefficient()};
  });
  return value;
}

BufferRef Decoder::buffer(const fbs::BufferRef &ref) {
  return {enumeration<Space>(ref.space(), 4, "buffer space"), ref.index(),
          affine(ref.offset(), ref.terms(), ref.per_iteration()), ref.bytes()};
}

Form Decoder::form(const fbs::Form &value) {
  Form result;
  result.dims = list(value.dims(), [&](const fbs::DimForm &dim) {
    return DimForm{dim.time_factor(), values(dim.axes())};
  });
  result.reduce = values(value.reduce());
  if (value.at() && take(value.at()->size() * sizeof(AxisPoint)))
    result.at = list(value.at(), [](const fbs::AxisPoint &each) {
      return AxisPoint{each.axis(), each.point()};
    });
  return result;
}

std::optional<Part> Decoder::part(const fbs::Part *value) {
  if (!value)
    return std::nullopt;
  return Part{text(value->whole()), values(value->shape()), value->dim(),
              value->offset()};
}

Argument Decoder::argument(const fbs::Argument &value) {
  Argument result;
  result.role = text(value.role());
  result.name = text(value.name());
  result.type = type(value.type());
  result.globalShape = values(value.global_shape());
  result.localShape = values(value.local_shape());
  result.form = form(*value.form());
  result.updatedBy = value.updated_by();
  if (value.range())
    result.range = {value.range()->low(), value.range()->high()};
  result.part = part(value.part());
  result.memorySpace = value.memory_space();
  return result;
}

Result Decoder::result(const fbs::Result &value) {
  return {text(value.role()),          text(value.name()),
          type(value.type()),          values(value.global_shape()),
          values(value.local_shape()), form(*value.form()),
          buffer(*value.place()),      part(value.part()),
          value.memory_space()};
}

Operation Decoder::read(const fbs::Launch &op) {
  auto buffers = [&](const auto *items) {
    return list(items, [&](const fbs::BufferRef &r) { return buffer(r); });
  };
  auto scalars = list(op.scalars(), [&](const fbs::Affine &value) {
    return affine(value.base(), value.terms(), value.per_iteration());
  });
  std::optional<Geometry> geometry;
  if (const fbs::Geometry *g = op.geometry())
    geometry = {{g->grid_x(), g->grid_y(), g->grid_z()},
                {g->block_x(), g->block_y(), g->block_z()},
                g->shared_bytes()};
  Launch launch{op.code_object(),      text(op.symbol()),  buffers(op.inputs()),
                buffers(op.outputs()), std::move(scalars), geometry};
  for (size_t i = 0; op.sites() && i < op.sites()->size(); ++i)
    launch.sites.push_back(op.sites()->Get(unsigned(i))->str());
  for (uint8_t code : values(op.types()))
    launch.types.push_back(type(code));
  launch.hasInfinity = op.has_infinity();
  return launch;
}

Operation Decoder::read(const fbs::Gemm &op) {
  Gemm gemm;
  gemm.inputType = type(op.input_type());
  gemm.outputType = type(op.output_type());
  gemm.batch = values(op.batch());
  gemm.m = op.m(), gemm.n = op.n(), gemm.k = op.k();
  gemm.stridesA = values(op.strides_a());
  gemm.stridesB = values(op.strides_b());
  gemm.stridesC = values(op.strides_c());
  gemm.alpha = op.alpha();
  gemm.accumulate = op.accumulate();
  gemm.postOp = enumeration<PostOp>(op.post_op(), 5, "post-op");
  gemm.a = buffer(*op.a());
  gemm.b = buffer(*op.b());
  gemm.c = buffer(*op.c());
  auto optional = [&](const fbs::BufferRef *ref) {
    return ref ? std::optional(buffer(*ref)) : std::nullopt;
  };
  gemm.bias = optional(op.bias());
  gemm.preActivation = optional(op.pre_activation());
  gemm.sumsA = optional(op.sums_a());
  gemm.sumsB = optional(op.sums_b());
  return gemm;
}

AttentionTensor Decoder::tensor(const fbs::AttentionTensor &value) {
  return {buffer(*value.buffer()), values(value.strides())};
}

Operation Decoder::read(const fbs::Attention &op) {
  Attention attention;
  attention.type = type(op.type());
  attention.batch = op.batch(), attention.heads = op.heads();
  attention.keyHeads = op.key_heads();
  attention.queries = op.queries(), attention.keys = op.keys();
  attention.width = op.width(), attention.valueWidth = op.value_width();
  attention.scale = op.scale();
  attention.before = op.before(), attention.after = op.after();
  attention.query = tensor(*op.query()), attention.key = tensor(*op.key());
  attention.value = tensor(*op.value());
  attention.output = tensor(*op.output());
  attention.logsumexp = buffer(*op.logsumexp());
  if (const auto *mask = op.mask())
    attention.mask = AttentionMask{type(mask->type()), buffer(*mask->buffer()),
                                   values(mask->strides())};
  if (op.positions())
    attention.positions = buffer(*op.positions());
  if (const auto *dropout = op.dropout())
    attention.dropout = AttentionDropout{
        dropout->probability(), dropout->ordinal(), buffer(*dropout->rows()),
        buffer(*dropout->seed()), buffer(*dropout->step())};
  if (const auto *gradients = op.gradients())
    attention.gradients = AttentionGradients{
        tensor(*gradients->output()), tensor(*gradients->query()),
        tensor(*gradients->key()), tensor(*gradients->value())};
  return attention;
}

ConvolutionTensor Decoder::tensor(const fbs::ConvolutionTensor &value) {
  return {buffer(*value.buffer()), values(value.extents()),
          values(value.strides())};
}

Operation Decoder::read(const fbs::Convolution &op) {
  return Convolution{
      enumeration<ConvolutionKind>(op.kind(), 3, "convolution"),
      type(op.type()),
      type(op.made_type()),
      values(op.stride()),
      values(op.padding()),
      values(op.dilation()),
      {tensor(*op.input()), tensor(*op.weight()), tensor(*op.output())}};
}

Operation Decoder::read(const fbs::Collective &op) {
  return Collective{enumeration<CollectiveKind>(op.kind(), 4, "collective"),
                    values(op.axes()),
                    type(op.type()),
                    values(op.shape()),
                    op.split_dim(),
                    op.concat_dim(),
                    buffer(*op.source()),
                    buffer(*op.destination())};
}

Operation Decoder::read(const fbs::Transfer &op) {
  return Transfer{op.axis(),
                  op.from(),
                  op.to(),
                  type(op.type()),
                  values(op.shape()),
                  op.tag(),
                  op.source() ? buffer(*op.source()) : BufferRef(),
                  op.destination() ? buffer(*op.destination()) : BufferRef()};
}

Operation Decoder::read(const fbs::Check &op) {
  return Check{enumeration<CheckKind>(op.kind(), kNumCheckKinds, "check"),
               type(op.type()),
               op.source() ? std::optional(buffer(*op.source())) : std::nullopt,
               text(op.message()), values(op.axes())};
}

Operation Decoder::read(const fbs::Repeat &op) {
  Repeat repeat(op.count());
  repeat.body =
      list(op.body(), [&](const fbs::Command &c) { return command(c); });
  return repeat;
}

Operation Decoder::operation(const fbs::Command &value) {
  switch (value.operation_type()) {
  case fbs::Operation::Launch:
    return read(*value.operation_as_Launch());
  case fbs::Operation::Gemm:
    return read(*value.operation_as_Gemm());
  case fbs::Operation::Attention:
    return read(*value.operation_as_Attention());
  case fbs::Operation::Convolution:
    return read(*value.operation_as_Convolution());
  case fbs::Operation::Collective:
    return read(*value.operation_as_Collective());
  case fbs::Operation::Transfer:
    return read(*value.operation_as_Transfer());
  case fbs::Operation::Copy:
    return Copy{buffer(*value.operation_as_Copy()->source()),
                buffer(*value.operation_as_Copy()->destination())};
  case fbs::Operation::Fill:
    return Fill{buffer(*value.operation_as_Fill()->destination()),
                values(value.operation_as_Fill()->pattern())};
  case fbs::Operation::Check:
    return read(*value.operation_as_Check());
  case fbs::Operation::Repeat:
    return read(*value.operation_as_Repeat());
  case fbs::Operation::RecordEvent:
    return RecordEvent{value.operation_as_RecordEvent()->event()};
  case fbs::Operation::WaitEvent:
    return WaitEvent{value.operation_as_WaitEvent()->event()};
  case fbs::Operation::NONE:
    break;
  }
  if (status.ok())
    status = errorOf("command ", value.id(), " has an unknown operation");
  return RecordEvent{};
}

std::vector<Origin> Decoder::origins(const fbs::Command &value) {
  if (!value.origins() || !take(value.origins()->size() * sizeof(Origin)))
    return {};
  return list(value.origins(), [](const fbs::Origin &each) {
    return Origin{each.op(), each.result()};
  });
}

Command Decoder::command(const fbs::Command &value) {
  return {value.id(),
          text(value.name()),
          text(value.location()),
          value.queue(),
          value.flops(),
          value.bytes(),
          value.stage(),
          value.strand(),
          value.workspace() ? std::optional(buffer(*value.workspace()))
                            : std::nullopt,
          operation(value),
          origins(value)};
}

RankProgram Decoder::rankProgram(const fbs::RankProgram &value) {
  RankProgram result;
  result.arenas = list(value.arenas(), [](const fbs::Arena &arena) {
    return Arena{arena.bytes(), arena.memory_space()};
  });
  result.numEvents = value.num_events();
  result.commands =
      list(value.commands(), [&](const fbs::Command &c) { return command(c); });
  return result;
}

Program Decoder::decode(const fbs::Program &file) {
  Program program;
  program.target.triple = text(file.target()->triple());
  program.target.cpu = text(file.target()->cpu());
  program.target.device = text(file.target()->device());
  if (const auto *features = file.target()->features())
    for (const auto *name : *features)
      program.target.features.push_back(text(name));
  program.mesh = list(file.mesh(), [&](const fbs::Axis &axis) {
    return Axis{text(axis.name()), axis.size()};
  });
  program.micro = file.micro();
  program.queues = list(file.queues(), [&](const fbs::Queue &queue) {
    return Queue{
        enumeration<QueueRole>(queue.role(), kNumQueueRoles, "queue role"),
        text(queue.name()), queue.yields()};
  });
  program.memorySpaces =
      list(file.memory_spaces(), [&](const fbs::MemorySpace &space) {
        return MemorySpace{text(space.name()),
                           enumeration<MemoryKind>(
                               space.kind(), kNumMemoryKinds, "memory kind"),
                           space.alignment()};
      });
  program.codeObjects =
      list(file.code_objects(), [&](const fbs::CodeObject &o) {
        return CodeObject{
            text(o.name()), values(o.image()),
            enumeration<CodeKind>(o.kind(), kNumCodeKinds, "code kind")};
      });
  program.constants =
      list(file.constants(), [&](const fbs::Constant &constant) {
        return Constant{values(constant.data()), constant.memory_space()};
      });
  program.arguments = list(file.arguments(),
                           [&](const fbs::Argument &v) { return argument(v); });
  program.results =
      list(file.results(), [&](const fbs::Result &v) { return result(v); });
  program.rankPrograms =
      list(file.rank_programs(),
           [&](const fbs::RankProgram &v) { return rankProgram(v); });
  program.rankToProgram = values(file.rank_to_program());
  return program;
}

ModelFacts Decoder::modelFacts(const fbs::Program &file) {
  auto flops = list(file.model_flops(), [&](const fbs::ModelFlops &each) {
    return ModelFlops{type(each.type()), each.flops()};
  });
  return {std::move(flops), file.tokens()};
}

/// Whether it may be read.
Status checkFile(std::span<const uint8_t> bytes) {
  Status status = checkEnvelope(bytes);
  if (!status.ok())
    return status;
  flatbuffers::Verifier verifier(
      bytes.data(), bytes.size(), kMaxDepth,
      flatbuffers::uoffset_t(bytes.size() / kLeastTableBytes));
  return fbs::VerifyProgramBuffer(verifier)
             ? status
             : errorOf("program file is corrupt: its tables do not verify");
}

Status verifyModelFacts(const ModelFacts &facts) {
  if (facts.tokens < 0)
    return errorOf("program has ", facts.tokens,
                   " tokens, expected a number from 0 on");
  std::set<ElementType> types;
  for (const ModelFlops &each : facts.flops) {
    if (!isFloat(each.type) || !types.insert(each.type).second)
      return errorOf("program has model flops of ", elementName(each.type),
                     ", expected floating-point types, each once");
    if (!(each.flops >= 0 && std::isfinite(each.flops)))
      return errorOf("program has model flops of ", elementName(each.type),
                     " that are negative or not finite");
  }
  return Status::success();
}
} // namespace

Expected<ModelFacts> readModelFacts(std::span<const uint8_t> bytes) {
  if (Status status = checkFile(bytes); !status.ok())
    return status;
  Decoder decoder(bytes.size());
  ModelFacts facts = decoder.modelFacts(*fbs::GetProgram(bytes.data()));
  Status status = decoder.status;
  if (status.ok())
    status = verifyModelFacts(facts);
  return status.ok() ? Expected<ModelFacts>(std::move(facts)) : status;
}

Expected<Program> loadMadeProgram(std::span<const uint8_t> bytes) {
  if (Status status = checkFile(bytes); !status.ok())
    return status;
  Decoder decoder(bytes.size());
  Program program = decoder.decode(*fbs::GetProgram(bytes.data()));
  return decoder.status.ok() ? Expected<Program>(std::move(program))
                             : decoder.status;
}

Expected<Program> loadProgram(std::span<const uint8_t> bytes) {
  Expected<Program> program = loadMadeProgram(bytes);
  if (!program.ok())
    return program;
  Status status = verifyProgram(*program);
  return status.ok() ? std::move(program) : status;
}

} // namespace tandem::rt
