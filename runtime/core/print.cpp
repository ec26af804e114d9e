//===- print.cpp - Programs as text ---------------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/text.h"
#include "tandem_rt/pinned.h"
#include "tandem_rt/tensor.h"

#include <algorithm>
#include <cstdio>

namespace tandem::rt {

namespace {
class Printer {
public:
  explicit Printer(const Program &program) : program(program) {}
  std::string print();

private:
  template <typename... Pieces> void line(const Pieces &...pieces) {
    out += concat(pieces...) + "\n";
  }
  std::string affine(const Affine &value) const;
  std::string buffer(const BufferRef &ref) const;
  std::string axes(const std::vector<uint32_t> &list) const;
  template <typename Refs> std::string buffers(const Refs &refs) const;

  std::string body(const Launch &op) const;
  std::string body(const Gemm &op) const;
  std::string tensor(const char *name, const AttentionTensor &value) const {
    return concat(" ", name, " ", buffer(value.buffer),
                  shapeText(value.strides));
  }
  std::string body(const Attention &op) const;
  std::string body(const Convolution &op) const;
  std::string body(const Collective &op) const;
  std::string body(const Transfer &op) const;
  std::string body(const Copy &op) const;
  std::string body(const Fill &op) const;
  std::string body(const Check &op) const;
  std::string body(const Repeat &op) const {
    return concat(op.count, " times");
  }
  std::string body(const RecordEvent &op) const {
    return concat("event ", op.event);
  }
  std::string body(const WaitEvent &op) const {
    return concat("event ", op.event);
  }

  void header();
  void argument(size_t index);
  void result(size_t index);
  void rankProgram(size_t index);
  void command(const Command &command, const char *indent);
  const std::string &memorySpace(uint32_t index) const {
    return program.memorySpaces[index].name;
  }

  const Program &program;
  std::string out;
};

std::string Printer::affine(const Affine &value) const {
  std::string text = std::to_string(value.base);
  for (const CoordinateTerm &term : value.terms)
    text += concat(" + ", term.coefficient, "*", program.mesh[term.axis].name);
  if (value.perIteration)
    text += concat(" + ", value.perIteration, "*iteration");
  return text;
}

std::string Printer::buffer(const BufferRef &ref) const {
  static constexpr const char *kSpaces[] = {"arena", "argument", "result",
                                            "constant"};
  return concat(kSpaces[size_t(ref.space)], "[", ref.index, "][",
                affine(ref.offset), ", +", ref.bytes, "]");
}

std::string Printer::axes(const std::vector<uint32_t> &list) const {
  std::string text;
  for (uint32_t axis : list)
    text += (text.empty() ? "" : ",") + program.mesh[axis].name;
  return "{" + text + "}";
}

template <typename Refs> std::string Printer::buffers(const Refs &refs) const {
  std::string text;
  for (const BufferRef &ref : refs)
    text += (text.empty() ? "" : ", ") + buffer(ref);
  return "(" + text + ")";
}

std::string Printer::body(const Launch &op) const {
  std::string scalars;
  for (const Affine &scalar : op.scalars)
    scalars += (scalars.empty() ? "" : ", ") + affine(scalar);
  std::string geometry;
  if (op.geometry) {
    const auto &[grid, block, shared] = *op.geometry;
    geometry =
        concat(" grid ", grid[0], "x", grid[1], "x", grid[2], " block ",
               block[0], "x", block[1], "x", block[2], " shared ", shared);
  }
  return concat(op.symbol, " of ", program.codeObjects[op.codeObject].name,
                geometry, " ", buffers(op.inputs), " -> ", buffers(op.outputs),
                scalars.empty() ? "" : " scalars (" + scalars + ")");
}

std::string Printer::body(const Gemm &op) const {
  static constexpr const char *kPostOps[] = {"", " gelu_erf", " gelu_tanh",
                                             " relu", " gelu_tanh_gradient"};
  auto optional = [&](const char *name, const std::optional<BufferRef> &ref) {
    return ref ? concat(" ", name, " ", buffer(*ref)) : std::string();
  };
  return concat(
      elementName(op.inputType), " -> ", elementName(op.outputType), " batch ",
      shapeText(op.batch), " m ", op.m, " n ", op.n, " k ", op.k,
      op.accumulate ? " accumulate" : "", kPostOps[size_t(op.postOp)], " a ",
      buffer(op.a), shapeText(op.stridesA), " b ", buffer(op.b),
      shapeText(op.stridesB), " c ", buffer(op.c), shapeText(op.stridesC),
      optional("bias", op.bias), optional("pre-activation", op.preActivation),
      optional("sums of a", op.sumsA), optional("sums of b", op.sumsB));
}

std::string Printer::body(const Convolution &op) const {
  static constexpr const char *kNames[] = {"input", "weight", "output"};
  auto [lhs, rhs, made] = op.roles();
  auto tensor = [&](size_t number) {
    const ConvolutionTensor &it = op.tensors[number];
    return concat(" ", kNames[number], " ", shapeText(it.extents), " ",
                  buffer(it.buffer), shapeText(it.strides));
  };
  return concat(elementName(op.type), " to ", elementName(op.madeType),
                " stride ", shapeText(op.stride), " padding ",
                shapeText(op.padding), " dilation ", shapeText(op.dilation),
                tensor(lhs), tensor(rhs), " ->", tensor(made));
}

std::string Printer::body(const Attention &op) const {
  std::string text =
      concat(elementName(op.type), " batch ", op.batch, " heads ", op.heads,
             " of ", op.keyHeads, " queries ", op.queries, " keys ", op.keys,
             " width ", op.width, " and ", op.valueWidth, " scale ", op.scale);
  if (op.before >= 0)
    text += concat(" before ", op.before);
  if (op.after >= 0)
    text += concat(" after ", op.after);
  text += tensor("query", op.query) + tensor("key", op.key) +
          tensor("value", op.value) + tensor("output", op.output) +
          " logsumexp " + buffer(op.logsumexp);
  if (op.mask)
    text += concat(" mask ", elementName(op.mask->type), " ",
                   buffer(op.mask->buffer), shapeText(op.mask->strides));
  if (op.positions)
    text += " positions " + buffer(*op.positions);
  if (op.dropout)
    text += concat(" dropout ", op.dropout->probability, " ordinal ",
                   op.dropout->ordinal, " rows ", buffer(op.dropout->rows),
                   " seed ", buffer(op.dropout->seed), " step ",
                   buffer(op.dropout->step));
  if (!op.gradients)
    return text;
  return text + tensor("gradient", op.gradients->output) + " ->" +
         tensor("query", op.gradients->query) +
         tensor("key", op.gradients->key) +
         tensor("value", op.gradients->value);
}

std::string Printer::body(const Collective &op) const {
  return concat(axes(op.axes), " ", typeName(op.type, op.shape),
                op.splitDim >= 0 ? concat(" split ", op.splitDim) : "",
                op.concatDim >= 0 ? concat(" concat ", op.concatDim) : "", " ",
                buffer(op.source), " -> ", buffer(op.destination));
}

std::string Printer::body(const Transfer &op) const {
  return concat(axes({op.axis}), " ", op.from, " to ", op.to, " tag ", op.tag,
                " ", typeName(op.type, op.shape),
                op.source.bytes ? concat(" from ", buffer(op.source)) : "",
                op.destination.bytes ? concat(" into ", buffer(op.destination))
                                     : "");
}

std::string Printer::body(const Copy &op) const {
  return concat(buffer(op.source), " -> ", buffer(op.destination));
}

std::string Printer::body(const Fill &op) const {
  std::string pattern;
  char digits[3];
  for (size_t i = op.pattern.size(); i-- > 0;) {
    std::snprintf(digits, sizeof digits, "%02x", op.pattern[i]);
    pattern += digits;
  }
  return concat("0x", pattern, " -> ", buffer(op.destination));
}

std::string Printer::body(const Check &op) const {
  return concat(op.axes.empty() ? "" : axes(op.axes) + " ", op.message, " ",
                elementName(op.type), " ",
                op.source ? buffer(*op.source) : "of other ranks");
}

void Printer::header() {
  line("program version ", kProgramVersion);
  std::string features;
  for (const std::string &feature : program.target.features)
    features += " " + feature;
  line("target ", program.target.device, " ", program.target.triple, " ",
       program.target.cpu, features);
  std::string mesh;
  for (const Axis &axis : program.mesh)
    mesh += concat(" ", axis.name, "=", axis.size);
  line("mesh", mesh, ", ", program.numRanks(), " ranks, micro ", program.micro);
  static constexpr const char *kRoles[] = {"compute", "communication", "copy"};
  for (size_t i = 0; i < program.queues.size(); ++i)
    line("queue ", i, " ", program.queues[i].name, " for ",
         kRoles[size_t(program.queues[i].role)],
         program.queues[i].yields ? ", transfers first" : "");
  for (size_t i = 0; i < program.memorySpaces.size(); ++i) {
    const MemorySpace &space = program.memorySpaces[i];
    line("memory space ", i, " ", space.name, " of kind ",
         memoryKindName(space.kind), " aligned to ", space.alignment);
  }
  for (size_t i = 0; i < program.codeObjects.size(); ++i) {
    const CodeObject &object = program.codeObjects[i];
    line("code object ", i, " ", object.name, " ", codeKindName(object.kind),
         " ", object.image.size(), " bytes");
  }
  for (size_t i = 0; i < program.constants.size(); ++i)
    line("constant ", i, " in ", memorySpace(program.constants[i].memorySpace),
         " ", program.constants[i].data.size(), " bytes");
}

static std::string partText(const std::optional<Part> &part) {
  if (!part)
    return "";
  return concat(" part of ", part->whole, shapeText(part->shape), " along ",
                part->dim, " from ", part->offset);
}

void Printer::argument(size_t index) {
  const Argument &a = program.arguments[index];
  line("argument ", index, " ", a.role, "/", a.name, " ",
       typeName(a.type, a.globalShape), " local ", shapeText(a.localShape),
       " form ", formText(program, a.form), " in ", memorySpace(a.memorySpace),
       a.updatedBy >= 0 ? concat(" updated by result ", a.updatedBy) : "",
       partText(a.part));
}

void Printer::result(size_t index) {
  const Result &r = program.results[index];
  line("result ", index, " ", r.role, "/", r.name, " ",
       typeName(r.type, r.globalShape), " local ", shapeText(r.localShape),
       " form ", formText(program, r.form), " in ", memorySpace(r.memorySpace),
       " at ", buffer(r.place), partText(r.part));
}

void Printer::command(const Command &c, const char *indent) {
  std::string body =
      std::visit([&](const auto &op) { return this->body(op); }, c.operation);
  std::string costs;
  if (c.flops || c.bytes)
    costs = concat(" flops ", c.flops, " bytes ", c.bytes);
  const auto *repeat = std::get_if<Repeat>(&c.operation);
  line(indent, c.id, " ", repeat ? "" : program.queues[c.queue].name + " ",
       Program::kindName(c.operation), " '", c.name, "' stage ", c.stage,
       " strand ", c.strand, " ", body,
       c.workspace ? " workspace " + buffer(*c.workspace) : "", costs,
       c.location.empty() ? "" : " at " + c.location);
  if (repeat)
    for (const Command &inner : repeat->body)
      command(inner, "    ");
}

void Printer::rankProgram(size_t index) {
  const RankProgram &rankProgram = program.rankPrograms[index];
  std::string ranks;
  int64_t held = 0, pinned = 0;
  for (size_t rank = 0; rank < program.rankToProgram.size(); ++rank)
    if (program.rankToProgram[rank] == index) {
      ranks += concat(" ", rank);
      held = std::max(held, heldBytes(program, int64_t(rank)));
      pinned = std::max(pinned, pinnedBytes(program, int64_t(rank)));
    }
  line("rank program ", index, " of ranks", ranks, ", ",
       rankProgram.listing().size(), " commands, ", rankProgram.numEvents,
       " events, holds ", held, " bytes",
       pinned ? concat(", and ", pinned, " on the host") : "");
  for (size_t i = 0; i < rankProgram.arenas.size(); ++i)
    line("  arena ", i, " in ", memorySpace(rankProgram.arenas[i].memorySpace),
         " ", rankProgram.arenas[i].bytes, " bytes");
  for (const Command &entry : rankProgram.commands)
    command(entry, "  ");
}

std::string Printer::print() {
  header();
  for (size_t i = 0; i < program.arguments.size(); ++i)
    argument(i);
  for (size_t i = 0; i < program.results.size(); ++i)
    result(i);
  for (size_t i = 0; i < program.rankPrograms.size(); ++i)
    rankProgram(i);
  return std::move(out);
}
} // namespace

std::string printProgram(const Program &program) {
  return Printer(program).print();
}

} // namespace tandem::rt
