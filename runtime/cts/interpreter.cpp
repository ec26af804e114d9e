//===- interpreter.cpp - interpreter of Programs --------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cts/interpreter.h"
#include "tandem_rt/kernel.h"

#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <map>
#include <sys/mman.h>
#include <unistd.h>

namespace tandem::rt::cts {

//===----------------------------------------------------------------------===//
// Numbers and places
//===----------------------------------------------------------------------===//

std::vector<int64_t> unflatten(int64_t flat, const Shape &shape) {
  std::vector<int64_t> index(shape.size());
  for (size_t dim = shape.size(); dim-- > 0; flat /= shape[dim])
    index[dim] = flat % shape[dim];
  return index;
}

int64_t flatten(const std::vector<int64_t> &index, const Shape &shape) {
  int64_t flat = 0;
  for (size_t dim = 0; dim < shape.size(); ++dim)
    flat = flat * shape[dim] + index[dim];
  return flat;
}

namespace {
template <typename T> double load(const void *data, int64_t index) {
  T value;
  std::memcpy(&value,
              static_cast<const char *>(data) + index * int64_t(sizeof value),
              sizeof value);
  return double(value);
}

template <typename T> void store(void *data, int64_t index, T value) {
  std::memcpy(static_cast<char *>(data) + index * int64_t(sizeof value), &value,
              sizeof value);
}

/// Nearest, ties to even, by looking at both neighbours.
uint16_t toBf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  if (std::isnan(value))
    return 0x7fc0;
  uint16_t down = uint16_t(bits >> 16), up = uint16_t(down + 1);
  uint32_t rest = bits & 0xffff;
  if (rest == 0x8000)
    return down % 2 ? up : down;
  return rest > 0x8000 ? up : down;
}

float fromBf16(uint16_t bits) {
  uint32_t wide = uint32_t(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

Shape sizesOf(const std::vector<Axis> &mesh) {
  Shape sizes;
  for (const Axis &axis : mesh)
    sizes.push_back(axis.size);
  return sizes;
}

/// Whether the rank is the first along all `axes`.
bool isFirst(const Program &program, const std::vector<uint32_t> &axes,
             int64_t rank) {
  std::vector<int64_t> point = unflatten(rank, sizesOf(program.mesh));
  for (uint32_t axis : axes)
    if (point[axis] != 0)
      return false;
  return true;
}

/// Whether the rank has a slice.
bool isHere(const Program &program, const Form &form, int64_t rank) {
  std::vector<int64_t> point = unflatten(rank, sizesOf(program.mesh));
  for (const AxisPoint &at : form.at)
    if (point[at.axis] != at.point)
      return false;
  return true;
}

/// Where an element of the rank's slice lies in the whole tensor.
template <typename Entry>
int64_t wholeIndex(const Program &program, const Entry &entry, int64_t rank,
                   int64_t local) {
  Shape mesh = sizesOf(program.mesh);
  std::vector<int64_t> point = unflatten(rank, mesh);
  std::vector<int64_t> index = unflatten(local, entry.localShape);
  for (size_t dim = 0; dim < index.size(); ++dim) {
    const DimForm &form = entry.form.dims[dim];
    int64_t slice = 0, slices = 1;
    for (uint32_t axis : form.axes) {
      slice = slice * mesh[axis] + point[axis];
      slices *= mesh[axis];
    }
    int64_t length = entry.localShape[dim] / form.timeFactor;
    int64_t time = index[dim] / length;
    index[dim] = (time * slices + slice) * length + index[dim] % length;
    if (entry.part && entry.part->dim == dim)
      index[dim] += entry.part->offset;
  }
  return flatten(index, entry.part ? entry.part->shape : entry.globalShape);
}

template <typename Entry>
void gather(const Program &program, const Entry &entry,
            const std::vector<const Bytes *> &slices, void *whole) {
  int64_t count = numElements(entry.localShape);
  for (bool first : {true, false}) // the first terms are set, others added
    for (int64_t rank = 0; rank < int64_t(slices.size()); ++rank) {
      if (!isHere(program, entry.form, rank) ||
          isFirst(program, entry.form.reduce, rank) != first)
        continue;
      for (int64_t i = 0; i < count; ++i) {
        int64_t at = wholeIndex(program, entry, rank, i);
        double term = loadNumber(entry.type, slices[size_t(rank)]->data(), i);
        if (!first)
          term += loadNumber(entry.type, whole, at);
        storeNumber(entry.type, whole, at, term);
      }
    }
}
} // namespace

double loadNumber(ElementType type, const void *data, int64_t index) {
  switch (type) {
  case ElementType::F64:
    return load<double>(data, index);
  case ElementType::F32:
    return load<float>(data, index);
  case ElementType::BF16:
    return fromBf16(uint16_t(load<uint16_t>(data, index)));
  case ElementType::I64:
    return load<int64_t>(data, index);
  case ElementType::I32:
    return load<int32_t>(data, index);
  case ElementType::I8:
  case ElementType::I1:
    return load<int8_t>(data, index);
  case ElementType::F16:
    break;
  }
  ADD_FAILURE() << "no numbers of type " << elementName(type);
  return 0;
}

void storeNumber(ElementType type, void *data, int64_t index, double value) {
  switch (type) {
  case ElementType::F64:
    return store(data, index, value);
  case ElementType::F32:
    return store(data, index, float(value));
  case ElementType::BF16:
    return store(data, index, toBf16(float(value)));
  case ElementType::I64:
    return store(data, index, int64_t(value));
  case ElementType::I32:
    return store(data, index, int32_t(value));
  case ElementType::I8:
  case ElementType::I1:
    return store(data, index, int8_t(value));
  case ElementType::F16:
    break;
  }
  ADD_FAILURE() << "no numbers of type " << elementName(type);
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

namespace {
/// What the last kernel read that is out of range: site, index, bound.
std::optional<std::array<int64_t, 3>> badIndex;
void rememberIndex(int64_t site, int64_t index, int64_t bound) {
  if (!badIndex)
    badIndex = {site, index, bound};
}

/// A copy of its own, as the hook is set to another function.
void *loadCode(const CodeObject &object) {
  int file = memfd_create("interpreter", 0);
  EXPECT_EQ(write(file, object.image.data(), object.image.size()),
            ssize_t(object.image.size()));
  std::string path = "/proc/self/fd/" + std::to_string(file);
  void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  EXPECT_TRUE(handle) << dlerror();
  if (void *hook = handle ? dlsym(handle, TANDEM_RT_INDEX_HOOK) : nullptr)
    *static_cast<tandem_rt_index_hook *>(hook) = rememberIndex;
  return handle; // the file stays open: see cpu/code_object.cpp
}

template <typename Entry> Bytes localZeros(const Entry &entry) {
  return Bytes(
      size_t(numElements(entry.localShape) * elementBytes(entry.type)));
}
} // namespace

Interpreter::Interpreter(const Program &program)
    : program(program), memory(size_t(program.numRanks())),
      turns(memory.size()), next(memory.size()) {
  for (const CodeObject &object : program.codeObjects)
    code.push_back(loadCode(object));
  for (size_t rank = 0; rank < memory.size(); ++rank) {
    const auto &own = program.rankPrograms[program.rankToProgram[rank]];
    for (const Arena &arena : own.arenas)
      memory[rank].arenas.push_back(Bytes(size_t(arena.bytes)));
    auto zerosOf = [&](const auto &entry) {
      return isHere(program, entry.form, int64_t(rank)) ? localZeros(entry)
                                                        : Bytes();
    };
    for (const Argument &argument : program.arguments)
      memory[rank].arguments.push_back(zerosOf(argument));
    for (const Result &result : program.results)
      memory[rank].results.push_back(zerosOf(result));
    for (const Constant &constant : program.constants)
      memory[rank].constants.push_back(constant.data);
    for (const Command &command : own.commands) {
      const auto *repeat = std::get_if<Repeat>(&command.operation);
      if (!repeat)
        turns[rank].push_back({&command, 0});
      for (int64_t i = 0; repeat && i < repeat->count; ++i)
        for (const Command &inner : repeat->body)
          turns[rank].push_back({&inner, i});
    }
  }
}

Interpreter::~Interpreter() {
  for (void *handle : code)
    if (handle)
      dlclose(handle);
}

void Interpreter::setArgument(uint32_t index, const void *whole) {
  const Argument &argument = program.arguments[index];
  for (size_t rank = 0; rank < memory.size(); ++rank)
    for (int64_t i = 0; i < numElements(argument.localShape); ++i) {
      if (!isHere(program, argument.form, int64_t(rank)))
        continue;
      int64_t from = wholeIndex(program, argument, int64_t(rank), i);
      size_t width = size_t(elementBytes(argument.type));
      char *to =
          reinterpret_cast<char *>(memory[rank].arguments[index].data()) +
          size_t(i) * width;
      if (isFirst(program, argument.form.reduce, int64_t(rank)))
        std::memcpy(to, static_cast<const char *>(whole) + size_t(from) * width,
                    width);
      else
        std::memset(to, 0, width);
    }
}

void Interpreter::getArgument(uint32_t index, void *whole) const {
  std::vector<const Bytes *> slices;
  for (const Memory &own : memory)
    slices.push_back(&own.arguments[index]);
  gather(program, program.arguments[index], slices, whole);
}

void Interpreter::getResult(uint32_t index, void *whole) const {
  const Result &result = program.results[index];
  std::vector<const Bytes *> slices;
  for (const Memory &own : memory)
    slices.push_back(result.place.space == Space::Argument
                         ? &own.arguments[result.place.index]
                         : &own.results[index]);
  gather(program, result, slices, whole);
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

Status Interpreter::step() {
  std::vector<Memory> before = memory;
  for (Memory &own : memory)
    for (std::vector<Bytes> *list : {&own.arenas, &own.results})
      for (Bytes &bytes : *list)
        std::fill(bytes.begin(), bytes.end(), uint8_t(0xfb));
  std::fill(next.begin(), next.end(), 0);
  Status status;
  for (bool more = true; more && status.ok();) {
    for (size_t rank = 0; rank < memory.size() && status.ok(); ++rank)
      status = runUntilMeeting(int64_t(rank));
    std::vector<int64_t> members = findMeeting();
    more = !members.empty();
    if (status.ok() && more)
      status = meet(members);
  }
  for (size_t rank = 0; rank < memory.size() && status.ok(); ++rank)
    EXPECT_TRUE(isAtEnd(int64_t(rank))) << "rank " << rank << " waits";
  for (size_t rank = 0; rank < memory.size() && status.isRefusal(); ++rank)
    EXPECT_EQ(memory[rank].arguments, before[rank].arguments)
        << "a refused step wrote what outlives it";
  return status;
}

/// The ranks of a group: those that differ in `axes` only.
std::vector<int64_t> Interpreter::group(const std::vector<uint32_t> &axes,
                                        int64_t rank) const {
  Shape mesh = sizesOf(program.mesh);
  auto restOf = [&](int64_t each) {
    std::vector<int64_t> rest = unflatten(each, mesh);
    for (uint32_t axis : axes)
      rest[axis] = 0;
    return rest;
  };
  std::vector<int64_t> members;
  for (int64_t other = 0; other < int64_t(memory.size()); ++other)
    if (restOf(other) == restOf(rank))
      members.push_back(other);
  return members;
}

/// Who takes part in the next command; empty: the rank alone, or it has ended.
std::vector<int64_t> Interpreter::membersOf(int64_t rank) const {
  if (isAtEnd(rank))
    return {};
  const Operation &op = head(rank).command->operation;
  if (const auto *collective = std::get_if<Collective>(&op))
    return group(collective->axes, rank);
  if (const auto *check = std::get_if<Check>(&op);
      check && !check->axes.empty())
    return group(check->axes, rank);
  const auto *transfer = std::get_if<Transfer>(&op);
  if (!transfer)
    return {};
  std::vector<int64_t> ends = group({transfer->axis}, rank);
  return {ends[size_t(transfer->from)], ends[size_t(transfer->to)]};
}

Status Interpreter::runUntilMeeting(int64_t rank) {
  Status status;
  while (status.ok() && !isAtEnd(rank) && membersOf(rank).empty())
    status = run(rank, turns[size_t(rank)][next[size_t(rank)]++]);
  return status;
}

/// Members that have all come to one meeting; empty: there are none.
std::vector<int64_t> Interpreter::findMeeting() const {
  for (int64_t rank = 0; rank < int64_t(memory.size()); ++rank) {
    std::vector<int64_t> members = membersOf(rank);
    bool areThere = !members.empty();
    for (int64_t member : members)
      areThere = areThere && membersOf(member) == members;
    if (areThere)
      return members;
  }
  return {};
}

Status Interpreter::meet(const std::vector<int64_t> &members) {
  std::vector<Turn> now;
  for (int64_t member : members)
    now.push_back(turns[size_t(member)][next[size_t(member)]++]);
  const Operation &op = now[0].command->operation;
  if (std::holds_alternative<Collective>(op))
    exchange(members, now);
  if (std::holds_alternative<Transfer>(op))
    transfer(members, now);
  Status status;
  for (size_t i = 0; i < members.size() && status.ok(); ++i)
    if (std::holds_alternative<Check>(op))
      status = look(members[i], now[i]);
  return status;
}

char *Interpreter::at(int64_t rank, const BufferRef &ref, int64_t iteration) {
  Memory &own = memory[size_t(rank)];
  std::vector<Bytes> *lists[] = {&own.arenas, &own.arguments, &own.results,
                                 &own.constants};
  Bytes &buffer = (*lists[size_t(ref.space)])[ref.index];
  Shape mesh = sizesOf(program.mesh);
  int64_t offset = ref.offset.base + ref.offset.perIteration * iteration;
  for (const CoordinateTerm &term : ref.offset.terms)
    offset += term.coefficient * unflatten(rank, mesh)[term.axis];
  EXPECT_GE(offset, 0);
  EXPECT_LE(offset + ref.bytes, int64_t(buffer.size()));
  return reinterpret_cast<char *>(buffer.data()) + offset;
}

//===----------------------------------------------------------------------===//
// Commands
//===----------------------------------------------------------------------===//

Status Interpreter::run(int64_t rank, const Turn &turn) {
  const Operation &op = turn.command->operation;
  // Anything may be in a workspace, before and behind.
  if (const auto &workspace = turn.command->workspace)
    std::memset(at(rank, *workspace, turn.iteration), 0xfc,
                size_t(workspace->bytes));
  if (std::holds_alternative<Launch>(op))
    return launch(rank, turn);
  if (std::holds_alternative<Check>(op))
    return look(rank, turn);
  if (const auto *gemm = std::get_if<Gemm>(&op))
    multiply(rank, *gemm, turn.iteration);
  if (const auto *attention = std::get_if<Attention>(&op))
    attend(rank, *attention, turn.iteration);
  if (const auto *convolution = std::get_if<Convolution>(&op))
    convolve(rank, *convolution, turn.iteration);
  if (const auto *filled = std::get_if<Fill>(&op))
    fill(rank, *filled, turn.iteration);
  if (const auto *copy = std::get_if<Copy>(&op)) {
    const char *from = at(rank, copy->source, turn.iteration);
    Bytes bytes(from, from + copy->source.bytes);
    std::copy(bytes.begin(), bytes.end(),
              at(rank, copy->destination, turn.iteration));
  }
  return Status::success();
}

Status Interpreter::launch(int64_t rank, const Turn &turn) {
  const auto &op = std::get<Launch>(turn.command->operation);
  std::vector<void *> buffers;
  for (const auto &list : {op.inputs, op.outputs})
    for (const BufferRef &ref : list)
      buffers.push_back(at(rank, ref, turn.iteration));
  if (turn.command->workspace)
    buffers.push_back(at(rank, *turn.command->workspace, turn.iteration));
  std::vector<int64_t> scalars;
  for (const Affine &scalar : op.scalars)
    scalars.push_back(program.evaluate(scalar, rank, turn.iteration));
  auto kernel =
      reinterpret_cast<Kernel>(dlsym(code[op.codeObject], op.symbol.c_str()));
  badIndex.reset();
  kernel(buffers.data(), scalars.data());
  if (!badIndex)
    return Status::success();
  auto [site, index, bound] = *badIndex;
  std::string where = op.sites.empty() ? "" : op.sites.at(size_t(site));
  where += where.empty() ? "" : ": ";
  return Status::error(where + "index " + std::to_string(index) +
                       " is out of range, expected 0 to " +
                       std::to_string(bound - 1));
}

namespace {
double geluTanhSlope(double x) {
  double tanh = std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + tanh) + 0.5 * x * (1 - tanh * tanh) * std::sqrt(2 / M_PI) *
                                (1 + 3 * 0.044715 * x * x);
}

double activate(PostOp op, double x, double preActivation) {
  switch (op) {
  case PostOp::None:
    return x;
  case PostOp::GeluErf:
    return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
  case PostOp::GeluTanh:
    return 0.5 * x *
           (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  case PostOp::Relu:
    return x > 0 ? x : 0;
  case PostOp::GeluTanhGradient:
    return x * geluTanhSlope(preActivation);
  }
  return x;
}

int64_t placeOf(const Shape &strides, std::vector<int64_t> point, int64_t row,
                int64_t column) {
  point.insert(point.end(), {row, column});
  int64_t sum = 0;
  for (size_t dim = 0; dim < point.size(); ++dim)
    sum += strides[dim] * point[dim];
  return sum;
}
} // namespace

void Interpreter::multiply(int64_t rank, const Gemm &op, int64_t iteration) {
  const char *a = at(rank, op.a, iteration), *b = at(rank, op.b, iteration);
  const char *bias = op.bias ? at(rank, *op.bias, iteration) : nullptr;
  char *c = at(rank, op.c, iteration);
  for (int64_t i = 0; i < numElements(op.batch); ++i) {
    std::vector<int64_t> point = unflatten(i, op.batch);
    for (int64_t m = 0; m < op.m; ++m)
      for (int64_t n = 0; n < op.n; ++n) {
        double sum = 0;
        for (int64_t k = 0; k < op.k; ++k)
          sum +=
              loadNumber(op.inputType, a, placeOf(op.stridesA, point, m, k)) *
              loadNumber(op.inputType, b, placeOf(op.stridesB, point, k, n));
        int64_t out = placeOf(op.stridesC, point, m, n);
        sum *= op.alpha;
        if (op.accumulate)
          sum += loadNumber(op.outputType, c, out);
        if (bias)
          sum += loadNumber(op.outputType, bias, n);
        double before = sum;
        if (op.preActivation) {
          char *kept = at(rank, *op.preActivation, iteration);
          if (op.readsPreActivation())
            before = loadNumber(op.outputType, kept, m * op.n + n);
          else
            storeNumber(op.outputType, kept, m * op.n + n, sum);
        }
        storeNumber(op.outputType, c, out, activate(op.postOp, sum, before));
      }
  }
  addUp(rank, op, iteration);
}

/// What it keeps of its operands.
void Interpreter::addUp(int64_t rank, const Gemm &op, int64_t iteration) {
  auto addOne = [&](const std::optional<BufferRef> &sums, const BufferRef &from,
                    int64_t count, int64_t stride, int64_t next) {
    for (int64_t i = 0; sums && i < count; ++i) {
      double sum = 0;
      for (int64_t k = 0; k < op.k; ++k)
        sum += loadNumber(op.inputType, at(rank, from, iteration),
                          i * stride + k * next);
      storeNumber(op.outputType, at(rank, *sums, iteration), i, sum);
    }
  };
  addOne(op.sumsA, op.a, op.m, op.stridesA[0], op.stridesA[1]);
  addOne(op.sumsB, op.b, op.n, op.stridesB[1], op.stridesB[0]);
}

void Interpreter::fill(int64_t rank, const Fill &op, int64_t iteration) {
  char *to = at(rank, op.destination, iteration);
  for (int64_t i = 0; i < op.destination.bytes; ++i)
    to[i] = char(op.pattern[size_t(i) % op.pattern.size()]);
}

namespace {
/// One collective of one group.
struct Exchange {
  explicit Exchange(const Collective &op, int64_t n) : op(op), block(op.shape) {
    if (splits())
      block[size_t(op.splitDim)] /= n;
    shape = block;
    if (joins())
      shape[size_t(op.concatDim)] *= n;
  }
  bool sums() const {
    return op.kind == CollectiveKind::AllReduce ||
           op.kind == CollectiveKind::ReduceScatter;
  }
  bool splits() const {
    return op.kind == CollectiveKind::ReduceScatter ||
           op.kind == CollectiveKind::AllToAll;
  }
  bool joins() const {
    return op.kind == CollectiveKind::AllGather ||
           op.kind == CollectiveKind::AllToAll;
  }
  double sumAt(const std::vector<Bytes> &sources, int64_t place) const;
  Bytes resultOf(size_t me, const std::vector<Bytes> &sources) const;

  const Collective &op;
  Shape block; ///< What one member gets from one other.
  Shape shape; ///< Of the result.
};

/// Each addition is rounded to the type, but those of bf16 to f32.
double Exchange::sumAt(const std::vector<Bytes> &sources, int64_t place) const {
  double sum = loadNumber(op.type, sources[0].data(), place);
  for (size_t other = 1; other < sources.size(); ++other) {
    sum += loadNumber(op.type, sources[other].data(), place);
    if (op.type == ElementType::F32 || op.type == ElementType::BF16)
      sum = float(sum);
  }
  return sum;
}

/// Every element from its definition.
Bytes Exchange::resultOf(size_t me, const std::vector<Bytes> &sources) const {
  size_t width = size_t(elementBytes(op.type));
  Bytes result(size_t(numElements(shape)) * width);
  for (int64_t i = 0; i < numElements(shape); ++i) {
    std::vector<int64_t> index = unflatten(i, shape);
    size_t from = 0;
    if (joins()) {
      int64_t &joined = index[size_t(op.concatDim)];
      from = size_t(joined / block[size_t(op.concatDim)]);
      joined %= block[size_t(op.concatDim)];
    }
    if (splits())
      index[size_t(op.splitDim)] += int64_t(me) * block[size_t(op.splitDim)];
    int64_t place = flatten(index, op.shape);
    if (sums())
      storeNumber(op.type, result.data(), i, sumAt(sources, place));
    else
      std::memcpy(result.data() + size_t(i) * width,
                  sources[from].data() + size_t(place) * width, width);
  }
  return result;
}
} // namespace

void Interpreter::exchange(const std::vector<int64_t> &group,
                           const std::vector<Turn> &now) {
  auto opOf = [&](size_t member) -> const Collective & {
    return std::get<Collective>(now[member].command->operation);
  };
  int64_t iteration = now[0].iteration;
  std::vector<Bytes> sources;
  for (size_t i = 0; i < group.size(); ++i) {
    const char *from = at(group[i], opOf(i).source, iteration);
    sources.push_back(Bytes(from, from + opOf(i).source.bytes));
  }
  Exchange exchange(opOf(0), int64_t(group.size()));
  for (size_t me = 0; me < group.size(); ++me) {
    Bytes result = exchange.resultOf(me, sources);
    std::copy(result.begin(), result.end(),
              at(group[me], opOf(me).destination, iteration));
  }
}

void Interpreter::transfer(const std::vector<int64_t> &ends,
                           const std::vector<Turn> &now) {
  const auto &sent = std::get<Transfer>(now[0].command->operation);
  const auto &received = std::get<Transfer>(now[1].command->operation);
  EXPECT_EQ(sent.tag, received.tag);
  ASSERT_EQ(sent.source.bytes, received.destination.bytes);
  const char *from = at(ends[0], sent.source, now[0].iteration);
  std::copy(from, from + sent.source.bytes,
            at(ends[1], received.destination, now[1].iteration));
}

Status Interpreter::look(int64_t rank, const Turn &turn) {
  const auto &op = std::get<Check>(turn.command->operation);
  if (!op.source)
    return Status::success();
  const char *data = at(rank, *op.source, turn.iteration);
  for (int64_t i = 0; i < op.source->bytes / elementBytes(op.type); ++i) {
    double value = loadNumber(op.type, data, i);
    if (op.kind == CheckKind::Truth && value == 0)
      return Status::error(op.message, ErrorKind::NotTrue);
    if (op.kind == CheckKind::Finite && !(value - value == 0))
      return Status::error(op.message +
                               (value != value ? " is nan" : " is inf") +
                               ", expected a finite value",
                           ErrorKind::NotFinite);
  }
  return Status::success();
}

} // namespace tandem::rt::cts
