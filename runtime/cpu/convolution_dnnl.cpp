//===- convolution_dnnl.cpp - convolution by oneDNN -----------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/convolution.h"
#include "core/strided_copy.h"
#include "core/text.h"
#include "cpu/bf16.h"
#include "cpu/convolution.h"
#include "tandem_rt/program_builder.h"

#include <limits>
#include <oneapi/dnnl/dnnl.hpp>

namespace tandem::rt::cpu {

namespace {
using dnnl::memory;

const dnnl::engine &cpuEngine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::primitive_attr ownScratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

/// Extents and strides as oneDNN has them: groups are a dimension of the
/// weight.
struct Layout {
  Layout(const Convolution &op, size_t number)
      : extents(op.tensors[number].extents),
        strides(op.tensors[number].strides) {
    // Strides of extents of 1 say nothing; oneDNN wants them to look
    // contiguous.
    int64_t next = 1;
    for (size_t dim = extents.size(); dim-- > 0;) {
      if (extents[dim] == 1)
        strides[dim] = next;
      next = strides[dim] * extents[dim];
    }
    if (number != 1 || op.groups() == 1)
      return;
    extents[0] /= op.groups();
    strides.insert(strides.begin(), strides[0] * extents[0]);
    extents.insert(extents.begin(), op.groups());
  }
  Shape extents, strides;
};

memory::data_type dnnlType(ElementType type) {
  return type == ElementType::F32 ? memory::data_type::f32
                                  : memory::data_type::bf16;
}

using Types = std::array<memory::desc, 3>; ///< Of input, weight and output.

/// A primitive and the layouts that it wants.
struct Choice {
  Types types;
  memory::desc scratchpad;
  dnnl::primitive primitive;
  bool isGenerated = false; ///< Not the plain or the im2col implementation.
};

class Chooser {
public:
  explicit Chooser(const Convolution &op) : op(op) {
    for (size_t dim = 0; dim < op.stride.size(); ++dim) {
      between.push_back(op.dilation[dim] - 1);
      end.push_back(endPadding(op, dim));
    }
    for (size_t number = 0; number < 3; ++number) {
      Layout layout(op, number);
      memory::data_type type = dnnlType(op.typeOf(number));
      given[number] = memory::desc(layout.extents, type, layout.strides);
      any[number] = memory::desc(layout.extents, type, memory::format_tag::any);
    }
    weightRead = memory::desc(Layout(op, 1).extents, dnnlType(op.type),
                              memory::format_tag::any);
  }

  /// Images as they lie, if oneDNN has generated code for that (channels come
  /// last, or there are few of them); else in blocks of channels. Weights are
  /// small, and laid out as it likes.
  Choice choose() const {
    try {
      Choice plain = describe({given[0], any[1], given[2]});
      if (plain.isGenerated)
        return plain;
    } catch (const dnnl::error &) {
      // It has nothing at all for these strides.
    }
    return describe(any);
  }

  /// Of the copies that the choice needs.
  int64_t countCopied(const Choice &choice) const {
    int64_t bytes = 0;
    for (size_t number = 0; number < 3; ++number)
      if (choice.types[number] != given[number])
        bytes += int64_t(choice.types[number].get_size());
    return bytes;
  }

  Types given;

private:
  using Forward = dnnl::convolution_forward;
  using InputGradient = dnnl::convolution_backward_data;
  using WeightGradient = dnnl::convolution_backward_weights;

  /// Also what a gradient is that of: all that it reads is of one type.
  Forward::primitive_desc describeForward(const Types &t) const {
    bool isRead = op.kind != ConvolutionKind::WeightGradient;
    return {Forward::desc(dnnl::prop_kind::forward_training, kDirect, t[0],
                          isRead ? t[1] : weightRead, t[2], op.stride, between,
                          op.padding, end),
            ownScratchpad(), cpuEngine()};
  }
  template <typename Primitive, typename Desc>
  static Choice chosen(const Desc &desc, const Types &types) {
    std::string_view name = desc.impl_info_str();
    bool isGenerated = name.starts_with("jit") || name.starts_with("brg");
    return {types, desc.scratchpad_desc(), Primitive(desc), isGenerated};
  }
  Choice describe(const Types &t) const {
    auto forward = describeForward(t);
    if (op.kind == ConvolutionKind::Forward)
      return chosen<Forward>(
          forward,
          {forward.src_desc(), forward.weights_desc(), forward.dst_desc()});
    if (op.kind == ConvolutionKind::InputGradient) {
      InputGradient::primitive_desc desc(
          InputGradient::desc(kDirect, t[0], t[1], t[2], op.stride, between,
                              op.padding, end),
          ownScratchpad(), cpuEngine(), forward);
      return chosen<InputGradient>(
          desc,
          {desc.diff_src_desc(), desc.weights_desc(), desc.diff_dst_desc()});
    }
    WeightGradient::primitive_desc desc(
        WeightGradient::desc(kDirect, t[0], t[1], t[2], op.stride, between,
                             op.padding, end),
        ownScratchpad(), cpuEngine(), forward);
    return chosen<WeightGradient>(
        desc,
        {desc.src_desc(), desc.diff_weights_desc(), desc.diff_dst_desc()});
  }

  /// Others (Winograd's) round more.
  static constexpr dnnl::algorithm kDirect =
      dnnl::algorithm::convolution_direct;

  const Convolution &op;
  Shape between, end;
  Types any;
  memory::desc weightRead;
};

/// Memory that an iteration of a Repeat may move.
struct Place {
  memory data;
  Address address;

  void moveTo(int64_t iteration) {
    if (address.step)
      data.set_data_handle(address.at(iteration));
  }
};

/// An operand, and its copy in the layout that the primitive wants.
struct Operand {
  Place given, copy;
  /// The latter where a sum over images goes on.
  std::optional<dnnl::reorder> reorder, addition;
  Place scratchpad;   ///< Of the reorder.
  int64_t ofTurn = 0; ///< Bytes from the images of a turn to the next ones.

  const memory &used() const { return reorder ? copy.data : given.data; }
};

/// Where input, weight and output lie.
using Places = std::array<Address, 3>;

/// By so many images at a time as the workspace has room for the copies of.
class DnnlConvolution final : public Task {
public:
  /// `whole` must live as long as the task.
  DnnlConvolution(const TaskContext &context, const Convolution &whole,
                  const std::optional<BufferRef> &ref)
      : whole(whole), workspace(context, ref), stream(cpuEngine()) {}

  Status prepare(const Places &places);
  Status run(int64_t iteration) override;

private:
  Choice choose(int64_t images);
  int64_t estimateImages(const Choice &all) const;
  Choice chooseImages();
  Expected<Place> take(const memory::desc &type);
  Status addReorder(Operand &operand, const memory::desc &type, bool isMade,
                    bool isSum);
  int key(size_t number) const;
  void reorder(const dnnl::reorder &primitive, const Operand &operand,
               const memory &from, const memory &to);
  void run(int64_t iteration, int64_t turn);
  void moveTo(int64_t iteration, int64_t turn);

  const Convolution &whole;
  Convolution op; ///< Of the images of a turn.
  int64_t turns = 1;
  Workspace workspace;
  dnnl::stream stream;
  std::array<Operand, 3> operands;
  Place scratchpad;
  dnnl::primitive primitive;
};

Expected<Place> DnnlConvolution::take(const memory::desc &type) {
  auto address = workspace.take(int64_t(type.get_size()));
  if (!address.ok())
    return address.status();
  return Place{memory(type, cpuEngine(), address->base), *address};
}

Status DnnlConvolution::addReorder(Operand &operand, const memory::desc &type,
                                   bool isMade, bool isSum) {
  auto copy = take(type);
  if (!copy.ok())
    return copy.status();
  operand.copy = *copy;
  memory::desc given = operand.given.data.get_desc();
  auto describe = [&](const dnnl::primitive_attr &attr) {
    return dnnl::reorder::primitive_desc(cpuEngine(), isMade ? type : given,
                                         cpuEngine(), isMade ? given : type,
                                         attr);
  };
  dnnl::reorder::primitive_desc desc = describe(ownScratchpad());
  memory::desc scratchpad = desc.scratchpad_desc();
  operand.reorder = dnnl::reorder(desc);
  if (isSum) {
    dnnl::primitive_attr attr = ownScratchpad();
    dnnl::post_ops sum;
    sum.append_sum(1.0f);
    attr.set_post_ops(sum);
    dnnl::reorder::primitive_desc adds = describe(attr);
    if (adds.scratchpad_desc().get_size() > scratchpad.get_size())
      scratchpad = adds.scratchpad_desc();
    operand.addition = dnnl::reorder(adds);
  }
  auto own = take(scratchpad);
  if (!own.ok())
    return own.status();
  operand.scratchpad = *own;
  return Status::success();
}

/// Of a turn.
Choice DnnlConvolution::choose(int64_t images) {
  op = whole;
  op.tensors[0].extents[0] = op.tensors[2].extents[0] = images;
  turns = whole.input().extents[0] / images;
  return Chooser(op).choose();
}

/// How many images the workspace may have room for the copies of, as far as
/// that is seen from those of all; a divisor of their number, or 0.
int64_t DnnlConvolution::estimateImages(const Choice &all) const {
  const int64_t images = whole.input().extents[0];
  int64_t weights = all.types[1] == Chooser(op).given[1]
                        ? 0
                        : int64_t(all.types[1].get_size());
  int64_t copied = Chooser(op).countCopied(all) - weights;
  int64_t room = workspace.size() - weights;
  bool fits = copied <= std::max<int64_t>(room, 0);
  int64_t count = fits ? images : room * images / copied;
  while (count > 0 && images % count != 0)
    --count;
  return std::max<int64_t>(count, 0);
}

/// All images, or as many as there is room for. A gradient of a weight that is
/// added up over turns needs a copy, to add to what is there; of bf16 it would
/// be rounded once more for each of them.
Choice DnnlConvolution::chooseImages() {
  const int64_t images = whole.input().extents[0];
  Choice all = choose(images);
  int64_t count = estimateImages(all);
  bool isSum = op.roles()[2] == 1;
  if (count == 0 || count == images ||
      (isSum && op.madeType == ElementType::BF16))
    return all;
  Choice part = choose(count);
  bool isCopied = part.types[1] != Chooser(op).given[1];
  bool isRoom = Chooser(op).countCopied(part) <= workspace.size();
  return isRoom && (isCopied || !isSum) ? part : choose(images);
}

Status DnnlConvolution::prepare(const Places &places) {
  const size_t made = whole.roles()[2];
  Choice choice = chooseImages();
  Types given = Chooser(op).given;
  primitive = choice.primitive;
  for (size_t number = 0; number < 3; ++number) {
    Operand &operand = operands[number];
    operand.given = {memory(given[number], cpuEngine(), places[number].base),
                     places[number]};
    const ConvolutionTensor &tensor = op.tensors[number];
    if (number != 1)
      operand.ofTurn =
          tensor.extents[0] * tensor.strides[0] * elementBytes(op.type);
    if (choice.types[number] == given[number])
      continue;
    bool isMade = made == number;
    if (Status status = addReorder(operand, choice.types[number], isMade,
                                   isMade && number == 1 && turns > 1);
        !status.ok())
      return status;
  }
  auto own = take(choice.scratchpad);
  if (own.ok())
    scratchpad = *own;
  return own.status();
}

int DnnlConvolution::key(size_t number) const {
  constexpr int kKeys[] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
  constexpr int kGradients[] = {DNNL_ARG_DIFF_SRC, DNNL_ARG_DIFF_WEIGHTS,
                                DNNL_ARG_DIFF_DST};
  bool isGradient = op.kind != ConvolutionKind::Forward &&
                    (number == 2 || number == op.roles()[2]);
  return isGradient ? kGradients[number] : kKeys[number];
}

void DnnlConvolution::reorder(const dnnl::reorder &primitive,
                              const Operand &operand, const memory &from,
                              const memory &to) {
  primitive.execute(stream, {{DNNL_ARG_FROM, from},
                             {DNNL_ARG_TO, to},
                             {DNNL_ARG_SCRATCHPAD, operand.scratchpad.data}});
}

void DnnlConvolution::moveTo(int64_t iteration, int64_t turn) {
  scratchpad.moveTo(iteration);
  for (Operand &operand : operands) {
    for (Place *place : {&operand.given, &operand.copy, &operand.scratchpad})
      place->moveTo(iteration);
    operand.given.data.set_data_handle(operand.given.address.at(iteration) +
                                       turn * operand.ofTurn);
  }
}

/// What is read and the same for all images is laid out once.
void DnnlConvolution::run(int64_t iteration, int64_t turn) {
  const size_t made = op.roles()[2];
  moveTo(iteration, turn);
  std::unordered_map<int, memory> arguments;
  arguments.emplace(DNNL_ARG_SCRATCHPAD, scratchpad.data);
  for (size_t number = 0; number < 3; ++number) {
    Operand &operand = operands[number];
    bool isNew = turn == 0 || operand.ofTurn > 0;
    if (operand.reorder && number != made && isNew)
      reorder(*operand.reorder, operand, operand.given.data, operand.copy.data);
    arguments.emplace(key(number), operand.used());
  }
  primitive.execute(stream, arguments);
  const Operand &result = operands[made];
  bool isSum = turn > 0 && result.addition;
  if (result.reorder)
    reorder(isSum ? *result.addition : *result.reorder, result,
            result.copy.data, result.given.data);
}

Status DnnlConvolution::run(int64_t iteration) {
  try {
    for (int64_t turn = 0; turn < turns; ++turn)
      run(iteration, turn);
  } catch (const dnnl::error &error) {
    return errorOf("oneDNN convolution: ", error.what());
  }
  return Status::success();
}

/// Of what is read in bf16, by copies in f32.
class WidenedConvolution final : public Task {
public:
  WidenedConvolution(const TaskContext &context, const Convolution &op,
                     const Places &places,
                     const std::optional<BufferRef> &workspace);

  Status prepare();
  Status run(int64_t iteration) override;

private:
  void store(int64_t iteration);

  struct Operand {
    Address place;
    Shape extents, strides; ///< As it lies there; copies are contiguous.
    std::vector<Bf16> packed;
    std::vector<float> wide;
  };

  std::array<Operand, 3> operands;
  const bool isNarrowed; ///< The result, where it lies.
  Convolution wide;      ///< Of f32, on the copies.
  DnnlConvolution inner;
};

WidenedConvolution::WidenedConvolution(
    const TaskContext &context, const Convolution &op, const Places &places,
    const std::optional<BufferRef> &workspace)
    : isNarrowed(op.madeType == ElementType::BF16), wide(op),
      inner(context, wide, workspace) {
  wide.type = wide.madeType = ElementType::F32;
  for (size_t number = 0; number < 3; ++number) {
    ConvolutionTensor &tensor = wide.tensors[number];
    size_t count = size_t(numElements(tensor.extents));
    operands[number] = {places[number], tensor.extents, tensor.strides,
                        std::vector<Bf16>(count), std::vector<float>(count)};
    tensor.strides = contiguousStrides(tensor.extents);
  }
}

Status WidenedConvolution::prepare() {
  Places copies;
  for (size_t number = 0; number < 3; ++number)
    copies[number].base =
        reinterpret_cast<char *>(operands[number].wide.data());
  return inner.prepare(copies);
}

Status WidenedConvolution::run(int64_t iteration) {
  size_t made = wide.roles()[2];
  for (size_t number = 0; number < 3; ++number) {
    Operand &operand = operands[number];
    if (number == made)
      continue;
    copyStrided(operand.extents, sizeof(Bf16), operand.place.at(iteration),
                operand.strides, operand.packed.data(),
                wide.tensors[number].strides);
    widen(operand.packed.data(), operand.wide.data(), operand.wide.size());
  }
  if (Status status = inner.run(/*iteration=*/0); !status.ok())
    return status;
  store(iteration);
  return Status::success();
}

void WidenedConvolution::store(int64_t iteration) {
  size_t made = wide.roles()[2];
  Operand &result = operands[made];
  auto copy = [&](const auto &from) {
    copyStrided(result.extents, sizeof from[0], from.data(),
                wide.tensors[made].strides, result.place.at(iteration),
                result.strides);
  };
  if (isNarrowed) {
    narrow(result.wide.data(), result.packed.data(), result.wide.size());
    copy(result.packed);
  } else {
    copy(result.wide);
  }
}

template <typename TaskType, typename... Arguments>
Expected<std::unique_ptr<Task>> prepared(std::unique_ptr<TaskType> task,
                                         const Arguments &...arguments) {
  if (Status status = task->prepare(arguments...); !status.ok())
    return status;
  return std::unique_ptr<Task>(std::move(task));
}
} // namespace

/// oneDNN counts positions in 32 bits.
static Status checkExtents(const Convolution &op) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  for (size_t dim = 0; dim < op.stride.size(); ++dim) {
    int64_t position = op.input().extents[2 + dim] + op.padding[dim] +
                       std::max<int64_t>(endPadding(op, dim), 0);
    if (position > kMost)
      return errorOf("convolution has windows over ", position,
                     " positions, expected at most ", kMost);
  }
  return Status::success();
}

Expected<std::unique_ptr<Task>>
makeDnnlConvolution(const TaskContext &context, const Convolution &convolution,
                    const std::optional<BufferRef> &workspace) {
  if (Status status = checkExtents(convolution); !status.ok())
    return status;
  Places places;
  for (size_t number = 0; number < 3; ++number)
    places[number] = context.memory.address(convolution.tensors[number].buffer);
  try {
    // Primitives are made for as many cores as run them.
    LibraryThreads hold(context.threads);
    if (convolution.type == ElementType::BF16 && !multipliesBf16())
      return prepared(std::make_unique<WidenedConvolution>(context, convolution,
                                                           places, workspace));
    return prepared(
        std::make_unique<DnnlConvolution>(context, convolution, workspace),
        places);
  } catch (const dnnl::error &error) {
    return errorOf("oneDNN convolution: ", error.what());
  }
}

} // namespace tandem::rt::cpu
