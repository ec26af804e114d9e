//===- gemm_dnnl.cpp - matrix products by oneDNN --------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/strided_copy.h"
#include "core/text.h"
#include "cpu/bf16.h"
#include "cpu/gemm_shape.h"
#include "cpu/task.h"
#include "tandem_rt/program_builder.h"

#include <chrono>
#include <cmath>
#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>

// oneDNN's OpenMP runtime; the header may be that of another one.
extern "C" void omp_set_num_threads(int);
extern "C" int omp_get_max_threads();

namespace tandem::rt::cpu {

LibraryThreads::LibraryThreads(int threads) : before(omp_get_max_threads()) {
  omp_set_num_threads(threads);
}

LibraryThreads::~LibraryThreads() { omp_set_num_threads(before); }

namespace {
using dnnl::memory;

const dnnl::engine &cpuEngine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

memory::data_type dnnlType(ElementType type) {
  return type == ElementType::F32 ? memory::data_type::f32
                                  : memory::data_type::bf16;
}

/// An operand that is broadcast over a batch dimension has extent 1 there.
/// Strides of extents of 1 say nothing; oneDNN wants them to look contiguous.
memory::desc descriptor(const GemmShape &shape, size_t operand,
                        ElementType type) {
  Shape extents = shape.extents(operand), strides = shape.strides[operand];
  for (size_t dim = 0; dim < shape.batch.size(); ++dim)
    if (strides[dim] == 0)
      extents[dim] = 1;
  int64_t next = 1;
  for (size_t dim = extents.size(); dim-- > 0;) {
    if (extents[dim] == 1)
      strides[dim] = next;
    next = strides[dim] * extents[dim];
  }
  return memory::desc(extents, dnnlType(type), strides);
}

/// A vector of n elements, seen as a row.
memory::desc rowDescriptor(const GemmShape &shape, ElementType type) {
  Shape extents(shape.batch.size() + 2, 1);
  extents.back() = shape.n;
  return memory::desc(extents, dnnlType(type), contiguousStrides(extents));
}

void appendActivation(dnnl::post_ops &ops, PostOp op) {
  using dnnl::algorithm;
  if (op == PostOp::GeluErf)
    ops.append_eltwise(1.0f, algorithm::eltwise_gelu_erf, 0.0f, 0.0f);
  if (op == PostOp::GeluTanh)
    ops.append_eltwise(1.0f, algorithm::eltwise_gelu_tanh, 0.0f, 0.0f);
  if (op == PostOp::Relu)
    ops.append_eltwise(1.0f, algorithm::eltwise_relu, 0.0f, 0.0f);
}

/// The types that oneDNN is given.
struct GemmTypes {
  explicit GemmTypes(const Gemm &gemm)
      : isWidened(gemm.inputType == ElementType::BF16 && !multipliesBf16()),
        input(isWidened ? ElementType::F32 : gemm.inputType),
        output(isWidened ? ElementType::F32 : gemm.outputType) {}

  bool isWidened;
  ElementType input, output;
};

/// The bias is a post-operation, as oneDNN scales its own by alpha.
dnnl::primitive_attr attributes(const Gemm &gemm, const GemmShape &shape,
                                const GemmTypes &types) {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (gemm.alpha != 1.0)
    attr.set_output_scales(0, {float(gemm.alpha)});
  dnnl::post_ops ops;
  if (gemm.accumulate)
    ops.append_sum(1.0f);
  if (gemm.bias)
    ops.append_binary(dnnl::algorithm::binary_add,
                      rowDescriptor(shape, types.output));
  appendActivation(ops, gemm.postOp);
  attr.set_post_ops(ops);
  return attr;
}

/// The bias comes behind the sum.
int biasKeyOf(const Gemm &gemm) {
  return DNNL_ARG_ATTR_MULTIPLE_POST_OP(gemm.accumulate ? 1 : 0) |
         DNNL_ARG_SRC_1;
}

dnnl::matmul::primitive_desc describe(const Gemm &gemm, const GemmShape &shape,
                                      const GemmTypes &types,
                                      ProductWay way = ProductWay::Plain) {
  auto input = [&](size_t operand) {
    memory::desc desc = descriptor(shape, operand, types.input);
    if (packs(way, operand))
      return memory::desc(desc.dims(), desc.data_type(),
                          memory::format_tag::any);
    return desc;
  };
  dnnl::matmul::desc desc(input(0), input(1),
                          descriptor(shape, 2, types.output));
  return {desc, attributes(gemm, shape, types), cpuEngine()};
}

/// oneDNN's plain implementations take any strides, a thousand times slower.
bool isReference(const dnnl::matmul::primitive_desc &desc) {
  return std::string_view(desc.impl_info_str()).find("ref") !=
         std::string_view::npos;
}

/// An operand, and its contiguous copy if oneDNN has no fast way with it: or
/// none at all, if it is bf16, which is then copied once more as f32.
struct Operand {
  Address place;
  char *data = nullptr; ///< Of the iteration.
  int64_t width = 0;
  Shape extents, strides, packedStrides;
  Bytes packed;
  std::vector<float> wide;

  bool isPacked() const { return !packed.empty(); }
  /// What oneDNN reads and writes in place of `place`.
  void *copy() {
    return wide.empty() ? static_cast<void *>(packed.data()) : wide.data();
  }
  Bf16 *packedBf16() { return reinterpret_cast<Bf16 *>(packed.data()); }
  void pack() {
    if (isPacked())
      copyStrided(extents, width, data, strides, packed.data(), packedStrides);
    if (!wide.empty())
      widen(packedBf16(), wide.data(), wide.size());
  }
  void unpack() {
    if (!wide.empty())
      narrow(wide.data(), packedBf16(), wide.size());
    if (isPacked())
      copyStrided(extents, width, packed.data(), packedStrides, data, strides);
  }
};

/// A copy of an operand in oneDNN's own layout, in memory of the thread.
struct Copied {
  dnnl::reorder reorder;
  memory from, to, scratchpad;
};

/// At least `bytes` of the calling thread, by the number of an operand.
void *copyMemory(size_t operand, size_t bytes) {
  thread_local std::array<memory, 2> kept;
  memory &own = kept[operand];
  if (!own || own.get_desc().get_size() < bytes)
    own = memory(memory::desc({memory::dim(bytes)}, memory::data_type::u8,
                              memory::format_tag::a),
                 cpuEngine());
  return own.get_data_handle();
}

class DnnlGemm final : public Task {
public:
  DnnlGemm(const TaskContext &context, const Gemm &gemm,
           const std::optional<BufferRef> &workspace, ProductWay way);

  Status run(int64_t iteration) override;

private:
  dnnl::matmul::primitive_desc choose();
  void packOperand(size_t index);
  void widenOperands();
  bool hasUnitStride(size_t index) const;
  void bind(const TaskContext &context,
            const dnnl::matmul::primitive_desc &desc,
            const std::optional<BufferRef> &workspace);
  void bindAt(int key, const memory::desc &type, const Address &place);
  void bindCopy(size_t operand, const memory::desc &type);
  void moveTo(int64_t iteration);

  const Gemm &gemm;
  GemmShape shape;
  const GemmTypes types;
  std::array<Operand, 3> operands;
  Operand bias; ///< Only if it is widened.
  dnnl::matmul primitive;
  dnnl::stream stream;
  std::unordered_map<int, memory> arguments;
  /// What an iteration changes; mostly nothing.
  std::vector<std::pair<int, Address>> movingArguments;
  std::vector<std::pair<size_t, Copied>> copies; ///< By operand.
};

DnnlGemm::DnnlGemm(const TaskContext &context, const Gemm &gemm,
                   const std::optional<BufferRef> &workspace, ProductWay way)
    : gemm(gemm), shape(gemm), types(gemm), stream(cpuEngine()) {
  shape.simplify();
  const BufferRef *refs[] = {&gemm.a, &gemm.b, &gemm.c};
  for (size_t i = 0; i < 3; ++i) {
    operands[i].place = context.memory.address(*refs[i]);
    operands[i].data = operands[i].place.base;
    operands[i].width = elementBytes(i == 2 ? gemm.outputType : gemm.inputType);
  }
  if (gemm.bias)
    bias.place = context.memory.address(*gemm.bias);
  if (types.isWidened)
    widenOperands();
  dnnl::matmul::primitive_desc desc = choose();
  // An operand that is packed here is as oneDNN wants it.
  if (way != ProductWay::Plain && !operands[0].isPacked() &&
      !operands[1].isPacked())
    desc = describe(gemm, shape, types, way);
  primitive = dnnl::matmul(desc);
  bind(context, desc, workspace);
}

bool DnnlGemm::hasUnitStride(size_t index) const {
  size_t column = shape.batch.size() + 1;
  return shape.strides[index][column] == 1 ||
         (index != 2 && shape.strides[index][column - 1] == 1);
}

void DnnlGemm::packOperand(size_t index) {
  Operand &operand = operands[index];
  operand.extents = shape.extents(index);
  operand.strides = shape.strides[index];
  operand.packedStrides = contiguousStrides(operand.extents);
  operand.packed.resize(size_t(numElements(operand.extents) * operand.width));
  shape.strides[index] = operand.packedStrides;
}

/// What is bf16 is copied as f32. A bias has the type of c.
void DnnlGemm::widenOperands() {
  for (size_t i = 0; i < 3; ++i) {
    packOperand(i);
    if (operands[i].width == elementBytes(ElementType::BF16))
      operands[i].wide.resize(size_t(numElements(operands[i].extents)));
  }
  if (gemm.bias && !operands[2].wide.empty()) {
    bias.width = operands[2].width;
    bias.extents = {shape.n};
    bias.strides = bias.packedStrides = {1};
    bias.packed.resize(size_t(shape.n * bias.width));
    bias.wide.resize(size_t(shape.n));
  }
}

/// First as it is; if that is slow, with those operands packed that have no
/// contiguous rows or columns; then with all of them. oneDNN has no product
/// that is broadcast in both operands: a is packed.
dnnl::matmul::primitive_desc DnnlGemm::choose() {
  if (shape.repeats() && !operands[0].isPacked())
    packOperand(0);
  // Its kernels find the element of a bias by the distance from the begin of c:
  // they end by a signal where c has gaps or is transposed.
  if (gemm.bias && shape.strides[2] != contiguousStrides(shape.extents(2)))
    packOperand(2);
  dnnl::matmul::primitive_desc desc = describe(gemm, shape, types);
  if (!isReference(desc))
    return desc;
  for (size_t i = 0; i < 3; ++i)
    if (!operands[i].isPacked() && !hasUnitStride(i))
      packOperand(i);
  desc = describe(gemm, shape, types);
  if (!isReference(desc))
    return desc;
  for (size_t i = 0; i < 3; ++i)
    if (!operands[i].isPacked())
      packOperand(i);
  return describe(gemm, shape, types);
}

void DnnlGemm::bindAt(int key, const memory::desc &type, const Address &place) {
  arguments.emplace(key, memory(type, cpuEngine(), place.base));
  if (place.step)
    movingArguments.push_back({key, place});
}

void DnnlGemm::bind(const TaskContext &context,
                    const dnnl::matmul::primitive_desc &desc,
                    const std::optional<BufferRef> &workspace) {
  const int keys[] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
  const memory::desc kinds[] = {desc.src_desc(), desc.weights_desc(),
                                desc.dst_desc()};
  for (size_t i = 0; i < 3; ++i)
    if (Operand &operand = operands[i]; operand.isPacked())
      arguments.emplace(keys[i], memory(kinds[i], cpuEngine(), operand.copy()));
    else if (i < 2 && kinds[i] != descriptor(shape, i, types.input))
      bindCopy(i, kinds[i]);
    else
      bindAt(keys[i], kinds[i], operand.place);
  if (gemm.bias && bias.isPacked())
    arguments.emplace(
        biasKeyOf(gemm),
        memory(rowDescriptor(shape, types.output), cpuEngine(), bias.copy()));
  else if (gemm.bias)
    bindAt(biasKeyOf(gemm), rowDescriptor(shape, types.output), bias.place);
  // Else owned by the task: tasks of several ranks run at the same time.
  memory::desc scratchpad = desc.scratchpad_desc();
  if (workspace && workspace->bytes >= int64_t(scratchpad.get_size()))
    bindAt(DNNL_ARG_SCRATCHPAD, scratchpad, context.memory.address(*workspace));
  else
    arguments.emplace(DNNL_ARG_SCRATCHPAD, memory(scratchpad, cpuEngine()));
}

void DnnlGemm::bindCopy(size_t operand, const memory::desc &type) {
  const int key = operand == 0 ? DNNL_ARG_SRC : DNNL_ARG_WEIGHTS;
  memory::desc from = descriptor(shape, operand, types.input);
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  dnnl::reorder::primitive_desc desc(cpuEngine(), from, cpuEngine(), type,
                                     attr);
  memory copy(type, cpuEngine(), nullptr);
  arguments.emplace(key, copy);
  copies.push_back({operand,
                    {dnnl::reorder(desc),
                     memory(from, cpuEngine(), operands[operand].place.base),
                     copy, memory(desc.scratchpad_desc(), cpuEngine())}});
}

void DnnlGemm::moveTo(int64_t iteration) {
  for (Operand &operand : operands)
    operand.data = operand.place.at(iteration);
  if (bias.isPacked())
    bias.data = bias.place.at(iteration);
  for (const auto &[key, place] : movingArguments)
    arguments.at(key).set_data_handle(place.at(iteration));
}

Status DnnlGemm::run(int64_t iteration) {
  try {
    moveTo(iteration);
    operands[0].pack();
    operands[1].pack();
    bias.pack();
    if (gemm.accumulate)
      operands[2].pack();
    for (auto &[operand, copy] : copies) {
      copy.from.set_data_handle(operands[operand].data);
      copy.to.set_data_handle(
          copyMemory(operand, copy.to.get_desc().get_size()));
      copy.reorder.execute(stream, {{DNNL_ARG_FROM, copy.from},
                                    {DNNL_ARG_TO, copy.to},
                                    {DNNL_ARG_SCRATCHPAD, copy.scratchpad}});
    }
    primitive.execute(stream, arguments);
    operands[2].unpack();
  } catch (const dnnl::error &error) {
    return errorOf("oneDNN matmul: ", error.what());
  }
  return Status::success();
}
/// A product in one way, with memory of its own.
class Trial {
public:
  Trial(const Gemm &gemm, const GemmShape &shape, const GemmTypes &types,
        ProductWay way)
      : stream(cpuEngine()) {
    dnnl::matmul::primitive_desc desc = describe(gemm, shape, types, way);
    primitive = dnnl::matmul(desc);
    const memory::desc kinds[] = {desc.src_desc(), desc.weights_desc()};
    const int keys[] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS};
    for (size_t i = 0; i < 2; ++i) {
      memory plain = make(descriptor(shape, i, types.input));
      memory used = plain;
      if (kinds[i] != plain.get_desc()) {
        used = make(kinds[i]);
        copies.push_back({dnnl::reorder(plain, used), plain, used});
      }
      arguments.emplace(keys[i], used);
    }
    arguments.emplace(DNNL_ARG_DST, make(desc.dst_desc()));
    arguments.emplace(DNNL_ARG_SCRATCHPAD, make(desc.scratchpad_desc()));
    if (gemm.bias)
      arguments.emplace(biasKeyOf(gemm),
                        make(rowDescriptor(shape, types.output)));
  }

  /// Seconds.
  double run() {
    auto begin = std::chrono::steady_clock::now();
    for (auto &[reorder, from, to] : copies)
      reorder.execute(stream, from, to);
    primitive.execute(stream, arguments);
    std::chrono::duration<double> time =
        std::chrono::steady_clock::now() - begin;
    return time.count();
  }

private:
  struct Copy {
    dnnl::reorder reorder;
    memory from, to;
  };
  /// Numbers of ordinary size, which 0x3f3f... is in all types.
  static memory make(const memory::desc &desc) {
    memory made(desc, cpuEngine());
    if (desc.get_size())
      std::memset(made.get_data_handle(), 0x3f, desc.get_size());
    return made;
  }

  dnnl::stream stream;
  dnnl::matmul primitive;
  std::vector<Copy> copies;
  std::unordered_map<int, memory> arguments;
};

} // namespace

/// The least of some turns, as what else the machine does only adds. Another
/// way has to be worth more than what it may seem to be by chance.
std::optional<ProductWay> measureWay(const Gemm &gemm, int threads,
                                     const IsCancelled &isCancelled) try {
  constexpr int kTurns = 5;
  constexpr double kEnough = 0.1; // seconds: long products need no further turn
  constexpr double kClearly = 0.97;
  GemmTypes types(gemm);
  GemmShape shape(gemm);
  shape.simplify();
  bool hasGaps = shape.strides[2] != contiguousStrides(shape.extents(2));
  if (types.isWidened || shape.repeats() || (gemm.bias && hasGaps) ||
      isReference(describe(gemm, shape, types)))
    return ProductWay::Plain;
  LibraryThreads cores(threads);
  std::vector<Trial> trials;
  auto stops = [&] { return isCancelled && isCancelled(); };
  for (size_t way = 0; way < kNumProductWays && !stops(); ++way)
    trials.emplace_back(gemm, shape, types, ProductWay(way));
  std::array<double, kNumProductWays> least;
  double spent = 0;
  for (int turn = 0; turn <= kTurns && spent < kEnough; ++turn)
    for (size_t way = 0; way < kNumProductWays; ++way) {
      if (stops())
        return std::nullopt;
      double time = trials[way].run();
      spent += time;
      // The first turn warms up what has another one.
      least[way] = turn > 1 ? std::min(least[way], time) : time;
    }
  auto best = std::min_element(least.begin(), least.end());
  bool isClear = *best < kClearly * least[0];
  return isClear ? ProductWay(best - least.begin()) : ProductWay::Plain;
} catch (const dnnl::error &) {
  return ProductWay::Plain; // the product itself says what is wrong
}

Expected<std::unique_ptr<Task>>
makeDnnlGemm(const TaskContext &context, const Gemm &gemm,
             const std::optional<BufferRef> &workspace) {
  try {
    ProductWay way = ProductWay::Plain;
    if (context.ways)
      if (auto it = context.ways->find(&gemm); it != context.ways->end())
        way = it->second;
    return std::unique_ptr<Task>(
        std::make_unique<DnnlGemm>(context, gemm, workspace, way));
  } catch (const dnnl::error &error) {
    return errorOf("oneDNN matmul: ", error.what());
  }
}

} // namespace tandem::rt::cpu
