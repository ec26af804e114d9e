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

dnnl::matmul::primitive_desc describe(const Gemm &gemm, const GemmShape &shape,
                                      const GemmTypes &types) {
  dnnl::matmul::desc desc(descriptor(shape, 0, types.input),
                          descriptor(shape, 1, types.input),
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

class DnnlGemm final : public Task {
public:
  DnnlGemm(const TaskContext &context, const Gemm &gemm,
           const std::optional<BufferRef> &workspace);

  Status run(int64_t iteration) override;

private:
  dnnl::matmul::primitive_desc choose();
  void packOperand(size_t index);
  void widenOperands();
  bool repeats() const;
  bool hasUnitStride(size_t index) const;
  void bind(const TaskContext &context,
            const dnnl::matmul::primitive_desc &desc,
            const std::optional<BufferRef> &workspace);
  void bindAt(int key, const memory::desc &type, const Address &place);
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
};

DnnlGemm::DnnlGemm(const TaskContext &context, const Gemm &gemm,
                   const std::optional<BufferRef> &workspace)
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

/// Whether a batch dimension repeats one product.
bool DnnlGemm::repeats() const {
  for (size_t dim = 0; dim < shape.batch.size(); ++dim)
    if (shape.strides[0][dim] == 0 && shape.strides[1][dim] == 0)
      return true;
  return false;
}

/// First as it is; if that is slow, with those operands packed that have no
/// contiguous rows or columns; then with all of them. oneDNN has no product
/// that is broadcast in both operands: a is packed.
dnnl::matmul::primitive_desc DnnlGemm::choose() {
  if (repeats() && !operands[0].isPacked())
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
    else
      bindAt(keys[i], kinds[i], operand.place);
  const int biasKey =
      DNNL_ARG_ATTR_MULTIPLE_POST_OP(gemm.accumulate ? 1 : 0) | DNNL_ARG_SRC_1;
  if (gemm.bias && bias.isPacked())
    arguments.emplace(biasKey, memory(rowDescriptor(shape, types.output),
                                      cpuEngine(), bias.copy()));
  else if (gemm.bias)
    bindAt(biasKey, rowDescriptor(shape, types.output), bias.place);
  // Else owned by the task: tasks of several ranks run at the same time.
  memory::desc scratchpad = desc.scratchpad_desc();
  if (workspace && workspace->bytes >= int64_t(scratchpad.get_size()))
    bindAt(DNNL_ARG_SCRATCHPAD, scratchpad, context.memory.address(*workspace));
  else
    arguments.emplace(DNNL_ARG_SCRATCHPAD, memory(scratchpad, cpuEngine()));
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
    primitive.execute(stream, arguments);
    operands[2].unpack();
  } catch (const dnnl::error &error) {
    return errorOf("oneDNN matmul: ", error.what());
  }
  return Status::success();
}
} // namespace

Expected<std::unique_ptr<Task>>
makeDnnlGemm(const TaskContext &context, const Gemm &gemm,
             const std::optional<BufferRef> &workspace) {
  try {
    return std::unique_ptr<Task>(
        std::make_unique<DnnlGemm>(context, gemm, workspace));
  } catch (const dnnl::error &error) {
    return errorOf("oneDNN matmul: ", error.what());
  }
}

} // namespace tandem::rt::cpu
