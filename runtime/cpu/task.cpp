//===- task.cpp - resolved commands ---------------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cpu/task.h"
#include "core/numbers.h"
#include "core/text.h"
#include "tandem_rt/recorder.h"

#include <algorithm>
#include <cstring>
#include <functional>

namespace tandem::rt::cpu {

namespace {
/// Bytes that make up for waking a thread, which takes some 30 us.
constexpr int64_t kLeastShare = 256 << 10;

class LaunchTask final : public Task {
public:
  LaunchTask(const TaskContext &context, const Command &command,
             tandem_rt_kernel kernel,
             const std::optional<SharedKernel> &sharedKernel)
      : op(std::get<Launch>(command.operation)), kernel(kernel),
        sharedKernel(sharedKernel), crew(context.crew) {
    if (crew && sharedKernel)
      parts = int(
          std::clamp<int64_t>(command.bytes / kLeastShare, 1, crew->size()));
    for (const BufferRef &ref : op.inputs)
      addBuffer(context.memory.address(ref));
    for (const BufferRef &ref : op.outputs)
      addBuffer(context.memory.address(ref));
    if (command.workspace)
      addBuffer(context.memory.address(*command.workspace));
    for (const Affine &scalar : op.scalars) {
      if (scalar.perIteration)
        movingScalars.push_back({scalars.size(), scalar.perIteration});
      scalars.push_back(context.program.evaluate(scalar, context.rank));
    }
    first = scalars;
  }

  Status run(int64_t iteration) override {
    for (const auto &[index, place] : movingBuffers)
      buffers[index] = place.at(iteration);
    for (const auto &[index, step] : movingScalars)
      scalars[index] = first[index] + step * iteration;
    clearBadIndex();
    if (parts == 1)
      kernel(buffers.data(), scalars.data());
    else
      runParts();
    std::optional<BadIndex> bad = getBadIndex();
    return bad ? describe(*bad) : Status::success();
  }

private:
  /// Of what several parts report the first part's counts.
  void runParts() {
    std::vector<std::optional<BadIndex>> bad(static_cast<size_t>(parts));
    for (int64_t phase = 0; phase < sharedKernel->phases.count; ++phase) {
      auto runPart = [&](int part, int of) {
        clearBadIndex();
        sharedKernel->run(buffers.data(), scalars.data(), phase, part, of);
        if (!bad[size_t(part)])
          bad[size_t(part)] = getBadIndex();
      };
      if (sharedKernel->isShared(phase))
        crew->run(parts, [&](int part) { runPart(part, parts); });
      else
        runPart(0, 1);
    }
    clearBadIndex();
    for (const std::optional<BadIndex> &index : bad)
      if (index && !getBadIndex())
        setBadIndex(*index);
  }

  void addBuffer(const Address &place) {
    if (place.step)
      movingBuffers.push_back({buffers.size(), place});
    buffers.push_back(place.base);
  }

  Status describe(const BadIndex &bad) const {
    return errorOf(siteText(op, uint64_t(bad.site)), "index ", bad.index,
                   " is out of range, expected 0 to ", bad.bound - 1);
  }

  const Launch &op;
  tandem_rt_kernel kernel;
  std::optional<SharedKernel> sharedKernel;
  Crew *crew;
  int parts = 1;
  std::vector<void *> buffers;
  std::vector<int64_t> scalars, first;
  /// What an iteration changes; mostly nothing.
  std::vector<std::pair<size_t, Address>> movingBuffers;
  std::vector<std::pair<size_t, int64_t>> movingScalars;
};

class CollectiveTask final : public Task {
public:
  /// `way`: where transfers go first, else null.
  CollectiveTask(const TaskContext &context, const Collective &op,
                 RightOfWay *way, std::unique_ptr<Communicator> communicator)
      : op(op), way(way), communicator(std::move(communicator)),
        source(context.memory.address(op.source)),
        destination(context.memory.address(op.destination)) {}

  Status run(int64_t iteration) override {
    if (way)
      way->await();
    return communicator->run(op, source.at(iteration),
                             destination.at(iteration));
  }

private:
  const Collective &op;
  RightOfWay *const way;
  std::unique_ptr<Communicator> communicator;
  Address source, destination;
};

class TransferTask final : public Task {
public:
  /// `way`: where some queue yields to it, else null.
  TransferTask(const TaskContext &context, const Transfer &op, bool sends,
               RightOfWay *way, std::unique_ptr<Communicator> communicator)
      : communicator(std::move(communicator)), way(way), sends(sends),
        buffer(sends ? op.source : op.destination),
        address(context.memory.address(buffer)) {}

  Status run(int64_t iteration) override {
    bool isMoving = false;
    std::function<void()> moves;
    if (way)
      moves = [&] {
        isMoving = true;
        way->beginTransfer();
      };
    Status status = communicator->transfer(sends, address.at(iteration),
                                           size_t(buffer.bytes), moves);
    if (isMoving)
      way->endTransfer();
    return status;
  }

private:
  std::unique_ptr<Communicator> communicator;
  RightOfWay *const way;
  const bool sends;
  const BufferRef &buffer;
  Address address;
};

class CopyTask final : public Task {
public:
  CopyTask(const TaskContext &context, const Copy &op)
      : source(context.memory.address(op.source)),
        destination(context.memory.address(op.destination)),
        bytes(size_t(op.source.bytes)) {}

  Status run(int64_t iteration) override {
    std::memmove(destination.at(iteration), source.at(iteration), bytes);
    return Status::success();
  }

private:
  Address source, destination;
  size_t bytes;
};

class FillTask final : public Task {
public:
  FillTask(const TaskContext &context, const Fill &op)
      : destination(context.memory.address(op.destination)),
        bytes(op.destination.bytes) {
    for (size_t i = 0; i < sizeof word; ++i)
      word[i] = char(op.pattern[i % op.pattern.size()]);
  }

  Status run(int64_t iteration) override {
    char *start = destination.at(iteration);
    int64_t at = 0;
    for (; at + int64_t(sizeof word) <= bytes; at += int64_t(sizeof word))
      std::memcpy(start + at, word, sizeof word);
    std::memcpy(start + at, word, size_t(bytes - at));
    return Status::success();
  }

private:
  Address destination;
  int64_t bytes;
  char word[8];
};

class RecordTask final : public Task {
public:
  RecordTask(EventBoard &events, uint32_t event)
      : events(events), event(event) {}
  Status run(int64_t iteration) override {
    events.record(event, iteration);
    return Status::success();
  }

private:
  EventBoard &events;
  uint32_t event;
};

class WaitTask final : public Task {
public:
  WaitTask(EventBoard &events, uint32_t event) : events(events), event(event) {}
  Status run(int64_t iteration) override {
    if (events.wait(event, iteration))
      return Status::success();
    return Status::error("stopped by an error of the same rank");
  }

private:
  EventBoard &events;
  uint32_t event;
};

/// Chooses the task for each kind of operation.
struct Maker {
  using Made = Expected<std::unique_ptr<Task>>;
  const TaskContext &context;
  const Command &command;

  template <typename T, typename... Arguments>
  static Made make(Arguments &&...arguments) {
    return std::unique_ptr<Task>(
        std::make_unique<T>(std::forward<Arguments>(arguments)...));
  }

  Made operator()(const Launch &op) const {
    if (op.geometry)
      return errorOf("launch has a geometry, which the CPU does not have");
    auto kernel = context.code[op.codeObject]->find(op.symbol);
    if (!kernel.ok())
      return kernel.status();
    return make<LaunchTask>(context, command, *kernel,
                            context.code[op.codeObject]->findShared(op.symbol));
  }
  Made operator()(const Gemm &op) const {
    return makeGemm(context, op, command.workspace);
  }
  Made operator()(const Attention &op) const {
    return makeAttention(context, op);
  }
  Made operator()(const Convolution &op) const {
    return makeConvolution(context, op, command.workspace);
  }
  /// Each queue has channels of its own, as the order of collectives is one per
  /// queue.
  Expected<std::unique_ptr<Communicator>>
  connect(const std::vector<uint32_t> &axes) const {
    return context.fabric.connect(context.program.group(axes, context.rank),
                                  context.rank, command.queue);
  }
  Made operator()(const Collective &op) const {
    auto communicator = connect(op.axes);
    if (!communicator.ok())
      return communicator.status();
    RightOfWay *way = context.program.queues[command.queue].yields
                          ? &context.rightOfWay
                          : nullptr;
    return make<CollectiveTask>(context, op, way, std::move(*communicator));
  }
  Made operator()(const Transfer &op) const {
    auto [from, to] = context.program.ends(op, context.rank);
    auto communicator = context.fabric.connect(
        {std::min(from, to), std::max(from, to)}, context.rank, command.queue);
    if (!communicator.ok())
      return communicator.status();
    bool yields = std::ranges::any_of(context.program.queues, &Queue::yields);
    return make<TransferTask>(context, op, context.rank == from,
                              yields ? &context.rightOfWay : nullptr,
                              std::move(*communicator));
  }
  Made operator()(const Copy &op) const { return make<CopyTask>(context, op); }
  Made operator()(const Fill &op) const { return make<FillTask>(context, op); }
  Made operator()(const Check &op) const {
    Expected<std::unique_ptr<Communicator>> communicator(nullptr);
    if (!op.axes.empty())
      communicator = connect(op.axes);
    if (!communicator.ok())
      return communicator.status();
    return makeCheck(context, op, std::move(*communicator));
  }
  Made operator()(const Repeat &) const {
    return Status::error("internal error: a repeat is no task");
  }
  Made operator()(const RecordEvent &op) const {
    return make<RecordTask>(context.events, op.event);
  }
  Made operator()(const WaitEvent &op) const {
    return make<WaitTask>(context.events, op.event);
  }
};
} // namespace

namespace {
/// Reads what the rank has in an iteration.
NumberCheck::Fetch fetchFrom(const RankMemory &memory, int64_t iteration) {
  return [&memory, iteration](const BufferRef &ref, char *to) {
    std::memcpy(to, memory.address(ref).at(iteration), size_t(ref.bytes));
    return Status::success();
  };
}

/// Tells what a command wrote.
class RecordedTask final : public Task {
public:
  RecordedTask(const TaskContext &context, const Command &command,
               std::unique_ptr<Task> task)
      : program(context.program), rank(context.rank), memory(context.memory),
        recorder(*context.recorder), command(command), task(std::move(task)) {}

  Status run(int64_t iteration) override {
    Status status = task->run(iteration);
    return status.ok() ? recorder.add(program, command, rank, iteration,
                                      fetchFrom(memory, iteration))
                       : status;
  }

private:
  const Program &program;
  const int64_t rank;
  const RankMemory &memory;
  ValueRecorder &recorder;
  const Command &command;
  const std::unique_ptr<Task> task;
};

/// Looks at what a command reads and writes; of a sum over ranks with the other
/// members, `group`.
class WatchedTask final : public Task {
public:
  WatchedTask(const TaskContext &context, const Command &command,
              std::unique_ptr<Task> task, std::unique_ptr<Communicator> group)
      : program(context.program), memory(context.memory), command(command),
        task(std::move(task)), group(std::move(group)) {
    if (!this->group)
      return;
    const std::vector<uint32_t> &axes = groupAxes(command.operation);
    taints.resize(context.program.group(axes, context.rank).size());
    exchange = {.kind = CollectiveKind::AllGather,
                .axes = axes,
                .type = ElementType::I32,
                .shape = {1},
                .concatDim = 0};
  }

  Status run(int64_t iteration) override {
    NumberCheck::Fetch fetch = fetchFrom(memory, iteration);
    Status status = check.begin(program, command, fetch);
    if (status.ok() && group)
      status = shareTaint();
    if (status.ok())
      status = task->run(iteration);
    return status.ok() ? check.end(fetch) : status;
  }

private:
  Status shareTaint() {
    int32_t mine = check.hasTaint();
    Status status = group->run(exchange, &mine, taints.data());
    for (int32_t taint : taints)
      if (status.ok() && taint)
        check.taint();
    return status;
  }

  const Program &program;
  const RankMemory &memory;
  const Command &command;
  const std::unique_ptr<Task> task;
  const std::unique_ptr<Communicator> group;
  Collective exchange;
  std::vector<int32_t> taints;
  NumberCheck check;
};
} // namespace

Expected<std::unique_ptr<Task>> makeTask(const TaskContext &context,
                                         const Command &command) {
  Maker maker{context, command};
  auto task = std::visit(maker, command.operation);
  if (task.ok() && context.recorder && !command.origins.empty())
    *task = std::make_unique<RecordedTask>(context, command, std::move(*task));
  if (!task.ok() || !context.checksNumbers)
    return task;
  Expected<std::unique_ptr<Communicator>> group(nullptr);
  if (sumsOverRanks(command))
    group = maker.connect(groupAxes(command.operation));
  if (!group.ok())
    return group.status();
  return std::unique_ptr<Task>(std::make_unique<WatchedTask>(
      context, command, std::move(*task), std::move(*group)));
}

Expected<std::unique_ptr<Task>>
makeGemm(const TaskContext &context, const Gemm &gemm,
         const std::optional<BufferRef> &workspace) {
  if (gemm.preActivation || gemm.sumsA || gemm.sumsB)
    return errorOf("gemm has a pre-activation or sums beside it, which a CPU "
                   "has not");
  if (gemm.inputType == ElementType::F64)
    return makeBlasGemm(context, gemm);
  return makeDnnlGemm(context, gemm, workspace);
}

} // namespace tandem::rt::cpu
