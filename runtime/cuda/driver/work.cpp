//===- work.cpp - resolved commands ---------------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cuda/driver/work.h"
#include "core/text.h"
#include "cuda/kernels/words.h"

#include <algorithm>

namespace tandem::rt::cuda {

namespace {
/// Parameters as one buffer of numbers.
Status launch(const Gpu &gpu, CUfunction function, const Geometry &geometry,
              CUstream stream, std::vector<uint64_t> &parameters) {
  size_t bytes = parameters.size() * sizeof(uint64_t);
  void *extra[] = {kBufferPointer, parameters.data(), kBufferSize, &bytes,
                   kEnd};
  const auto &grid = geometry.grid, &block = geometry.block;
  return gpu.check(gpu.driver.launchKernel(
                       function, grid[0], grid[1], grid[2], block[0], block[1],
                       block[2], geometry.sharedBytes, stream, nullptr, extra),
                   "launch the kernel");
}

class LaunchWork final : public Work {
public:
  LaunchWork(const WorkContext &context, const Command &command,
             CUfunction function, int64_t number)
      : gpu(context.gpu), op(std::get<Launch>(command.operation)),
        function(function) {
    auto add = [&](const BufferRef &ref) {
      Address place = context.memory.address(ref);
      addParameter(int64_t(place.base), place.step);
    };
    for (const BufferRef &ref : op.inputs)
      add(ref);
    for (const BufferRef &ref : op.outputs)
      add(ref);
    if (command.workspace)
      add(*command.workspace);
    for (const Affine &scalar : op.scalars)
      addParameter(context.program.evaluate(scalar, context.rank),
                   scalar.perIteration);
    addParameter(int64_t(context.report), 0);
    addParameter(number, 0);
    parameters = first;
  }

  Status enqueue(CUstream stream, int64_t iteration) override {
    for (auto [index, step] : moving)
      parameters[index] = first[index] + uint64_t(step * iteration);
    return launch(*gpu, function, *op.geometry, stream, parameters);
  }

private:
  void addParameter(int64_t value, int64_t step) {
    if (step)
      moving.push_back({first.size(), step});
    first.push_back(uint64_t(value));
  }

  std::shared_ptr<Gpu> gpu;
  const Launch &op;
  CUfunction function;
  std::vector<uint64_t> parameters, first;
  std::vector<std::pair<size_t, int64_t>> moving;
};

/// A kernel of the runtime's own.
class OwnWork final : public Work {
public:
  OwnWork(std::shared_ptr<Gpu> gpu, CUfunction function,
          const Geometry &geometry, Memory words, size_t stride)
      : gpu(std::move(gpu)), function(function), geometry(geometry),
        words(std::move(words)), stride(stride) {}

  Status enqueue(CUstream stream, int64_t iteration) override {
    std::vector<uint64_t> parameters = {words.address() +
                                        uint64_t(iteration) * stride};
    return launch(*gpu, function, geometry, stream, parameters);
  }

private:
  std::shared_ptr<Gpu> gpu;
  CUfunction function;
  Geometry geometry;
  Memory words;
  size_t stride; ///< Bytes from one iteration's to the next; 0: all the same.
};

/// More than what every kernel may have has to be asked for.
Status allowShared(const Gpu &gpu, CUfunction function,
                   const Geometry &geometry) {
  constexpr uint32_t kAlways = 48 * 1024;
  if (geometry.sharedBytes <= kAlways)
    return Status::success();
  return gpu.check(gpu.driver.functionSetAttribute(function, kMaxDynamicShared,
                                                   int(geometry.sharedBytes)),
                   "have as much shared memory");
}

class Sequence final : public Work {
public:
  explicit Sequence(std::vector<std::unique_ptr<Work>> works)
      : works(std::move(works)) {}
  Status enqueue(CUstream stream, int64_t iteration) override {
    for (const std::unique_ptr<Work> &work : works)
      if (Status status = work->enqueue(stream, iteration); !status.ok())
        return status;
    return Status::success();
  }

private:
  std::vector<std::unique_ptr<Work>> works;
};

class CopyWork final : public Work {
public:
  CopyWork(std::shared_ptr<Gpu> gpu, Address source, Address destination,
           size_t bytes)
      : gpu(std::move(gpu)), source(source), destination(destination),
        bytes(bytes) {}
  Status enqueue(CUstream stream, int64_t iteration) override {
    if (!bytes)
      return Status::success();
    return gpu->check(gpu->driver.memcpyDtoDAsync(destination.at(iteration),
                                                  source.at(iteration), bytes,
                                                  stream),
                      "copy");
  }

private:
  std::shared_ptr<Gpu> gpu;
  Address source, destination;
  size_t bytes;
};

/// Each byte of the pattern is a column of a matrix of bytes.
class FillWork final : public Work {
public:
  FillWork(const WorkContext &context, const Fill &op)
      : gpu(context.gpu), op(op),
        destination(context.memory.address(op.destination)) {}
  Status enqueue(CUstream stream, int64_t iteration) override {
    size_t width = op.pattern.size();
    size_t rows = size_t(op.destination.bytes) / width;
    bool isEven = std::all_of(op.pattern.begin(), op.pattern.end(),
                              [&](uint8_t b) { return b == op.pattern[0]; });
    CUdeviceptr start = destination.at(iteration);
    if (rows == 0)
      return Status::success();
    if (isEven)
      return gpu->check(
          gpu->driver.memsetD8Async(start, op.pattern[0], rows * width, stream),
          "fill");
    for (size_t i = 0; i < width; ++i)
      if (Status status =
              gpu->check(gpu->driver.memsetD2D8Async(
                             start + i, width, op.pattern[i], 1, rows, stream),
                         "fill");
          !status.ok())
        return status;
    return Status::success();
  }

private:
  std::shared_ptr<Gpu> gpu;
  const Fill &op;
  Address destination;
};

struct Maker {
  using Made = Expected<std::unique_ptr<Work>>;
  const WorkContext &context;
  const Command &command;
  int64_t launch, count;

  Made operator()(const Launch &op) const {
    if (!op.geometry)
      return errorOf("launch has no geometry, which a GPU needs");
    auto function = context.code[op.codeObject]->find(op.symbol);
    if (!function.ok())
      return function.status();
    return std::unique_ptr<Work>(
        std::make_unique<LaunchWork>(context, command, *function, launch));
  }
  Made operator()(const Gemm &op) const { return makeGemm(context, op, count); }
  Made operator()(const Attention &op) const {
    return makeAttention(context, op, count);
  }
  Made operator()(const Convolution &op) const {
    return makeConvolution(context, op, count);
  }
  Made operator()(const Copy &op) const {
    return makeCopy(context.gpu, context.memory.address(op.source),
                    context.memory.address(op.destination),
                    size_t(op.source.bytes));
  }
  Made operator()(const Fill &op) const {
    return std::unique_ptr<Work>(std::make_unique<FillWork>(context, op));
  }
  template <typename Other> Made operator()(const Other &) const {
    return errorOf("internal error: ", Program::kindName(command.operation),
                   " is no work of one stream");
  }
};
} // namespace

Expected<std::unique_ptr<Work>>
makeOwnWork(const std::shared_ptr<Gpu> &gpu, const std::string &symbol,
            const Geometry &geometry, int64_t count,
            const std::function<Words(int64_t)> &words) {
  Expected<CUfunction> function = gpu->getKernel(symbol);
  if (!function.ok())
    return function.status();
  if (Status status = allowShared(*gpu, *function, geometry); !status.ok())
    return status;
  Words all = words(0);
  size_t each = all.size();
  bool moves = false;
  for (int64_t i = 1; i < count; ++i) {
    Words next = words(i);
    moves |= !std::equal(next.begin(), next.end(), all.begin());
    all.insert(all.end(), next.begin(), next.end());
  }
  if (!moves)
    all.resize(each);
  size_t bytes = all.size() * sizeof(int64_t);
  Expected<Memory> memory = Memory::allocate(gpu, int64_t(bytes));
  if (!memory.ok())
    return memory.status();
  if (Status status = memory->copyIn(0, all.data(), bytes); !status.ok())
    return status;
  return std::unique_ptr<Work>(
      std::make_unique<OwnWork>(gpu, *function, geometry, std::move(*memory),
                                moves ? each * sizeof(int64_t) : 0));
}

Expected<std::unique_ptr<Work>> makeCommit(const std::shared_ptr<Gpu> &gpu,
                                           Address source, Address destination,
                                           int64_t bytes, CUdeviceptr refused,
                                           int64_t count) {
  return makePlainWork(
      gpu, "tandem_commit", (bytes + 7) / 8, count, [&](int64_t iteration) {
        Words words(commit::End);
        words[commit::Bytes] = bytes;
        words[commit::Source] = int64_t(source.at(iteration));
        words[commit::Destination] = int64_t(destination.at(iteration));
        words[commit::Refused] = int64_t(refused);
        return words;
      });
}

std::unique_ptr<Work> makeCopy(std::shared_ptr<Gpu> gpu, Address source,
                               Address destination, size_t bytes) {
  return std::make_unique<CopyWork>(std::move(gpu), source, destination, bytes);
}

Expected<std::unique_ptr<Work>>
makePlainWork(const std::shared_ptr<Gpu> &gpu, const std::string &symbol,
              int64_t threads, int64_t count,
              const std::function<Words(int64_t)> &words) {
  constexpr int64_t kBlock = 128, kMaxBlocks = 4096;
  Geometry geometry;
  geometry.block[0] = kBlock;
  geometry.grid[0] = uint32_t(
      std::clamp<int64_t>((threads + kBlock - 1) / kBlock, 1, kMaxBlocks));
  return makeOwnWork(gpu, symbol, geometry, count, words);
}

std::unique_ptr<Work> makeSequence(std::vector<std::unique_ptr<Work>> works) {
  return std::make_unique<Sequence>(std::move(works));
}

Expected<std::unique_ptr<Work>> makeWork(const WorkContext &context,
                                         const Command &command, int64_t launch,
                                         int64_t count) {
  return std::visit(Maker{context, command, launch, count}, command.operation);
}

} // namespace tandem::rt::cuda
