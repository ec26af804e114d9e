//===- task.cpp - commands with everything looked up ----------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cpu/task.h"
#include "core/text.h"

#include <cmath>
#include <cstring>

namespace tandem::rt::cpu {

namespace {
class LaunchTask final : public Task {
public:
  LaunchTask(const TaskContext &context, const Launch &op,
             tandem_rt_kernel kernel)
      : kernel(kernel) {
    for (const BufferRef &ref : op.inputs)
      buffers.push_back(context.memory.resolve(ref));
    for (const BufferRef &ref : op.outputs)
      buffers.push_back(context.memory.resolve(ref));
    for (const Affine &scalar : op.scalars)
      scalars.push_back(context.program.evaluate(scalar, context.rank));
  }

  Status run() override {
    clearKernelError();
    kernel(buffers.data(), scalars.data());
    return takeKernelError();
  }

private:
  tandem_rt_kernel kernel;
  std::vector<void *> buffers;
  std::vector<int64_t> scalars;
};

class CollectiveTask final : public Task {
public:
  CollectiveTask(const TaskContext &context, const Collective &op,
                 std::unique_ptr<Communicator> communicator)
      : op(op), communicator(std::move(communicator)),
        source(context.memory.resolve(op.source)),
        destination(context.memory.resolve(op.destination)) {}

  Status run() override { return communicator->run(op, source, destination); }

private:
  const Collective &op;
  std::unique_ptr<Communicator> communicator;
  const void *source;
  void *destination;
};

class CopyTask final : public Task {
public:
  CopyTask(const TaskContext &context, const Copy &op)
      : source(context.memory.resolve(op.source)),
        destination(context.memory.resolve(op.destination)),
        bytes(size_t(op.source.bytes)) {}

  Status run() override {
    std::memmove(destination, source, bytes);
    return Status::success();
  }

private:
  const void *source;
  void *destination;
  size_t bytes;
};

class FillTask final : public Task {
public:
  FillTask(const TaskContext &context, const Fill &op)
      : destination(context.memory.resolve(op.destination)),
        bytes(op.destination.bytes) {
    for (size_t i = 0; i < sizeof word; ++i)
      word[i] = char(op.pattern[i % op.pattern.size()]);
  }

  Status run() override {
    int64_t at = 0;
    for (; at + int64_t(sizeof word) <= bytes; at += int64_t(sizeof word))
      std::memcpy(destination + at, word, sizeof word);
    std::memcpy(destination + at, word, size_t(bytes - at));
    return Status::success();
  }

private:
  char *destination;
  int64_t bytes;
  char word[8];
};

class CheckFiniteTask final : public Task {
public:
  CheckFiniteTask(const TaskContext &context, const CheckFinite &op)
      : op(op), source(context.memory.resolve(op.source)) {}

  Status run() override {
    int64_t count = op.source.bytes / elementBytes(op.type);
    for (int64_t i = 0; i < count; ++i)
      if (double value = element(i); !std::isfinite(value))
        return errorOf(op.what, " is ", std::isnan(value) ? "nan" : "inf",
                       ", expected a finite value");
    return Status::success();
  }

private:
  double element(int64_t index) const {
    if (op.type == ElementType::F64)
      return load<double>(index);
    if (op.type == ElementType::F32)
      return load<float>(index);
    return bf16ToFloat(load<uint16_t>(index));
  }
  template <typename T> T load(int64_t index) const {
    T value;
    std::memcpy(&value, source + size_t(index) * sizeof(T), sizeof(T));
    return value;
  }

  const CheckFinite &op;
  const char *source;
};

class RecordTask final : public Task {
public:
  RecordTask(EventBoard &events, uint32_t event)
      : events(events), event(event) {}
  Status run() override {
    events.record(event);
    return Status::success();
  }

private:
  EventBoard &events;
  uint32_t event;
};

class WaitTask final : public Task {
public:
  WaitTask(EventBoard &events, uint32_t event) : events(events), event(event) {}
  Status run() override {
    if (events.wait(event))
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
  Queue queue;

  template <typename T, typename... Arguments>
  static Made make(Arguments &&...arguments) {
    return std::unique_ptr<Task>(
        std::make_unique<T>(std::forward<Arguments>(arguments)...));
  }

  Made operator()(const Launch &op) const {
    auto kernel = context.code[op.codeObject]->find(op.symbol);
    if (!kernel.ok())
      return kernel.status();
    return make<LaunchTask>(context, op, *kernel);
  }
  Made operator()(const Gemm &op) const { return makeGemm(context, op); }
  Made operator()(const Collective &op) const {
    // Each queue has channels of its own, as the order of collectives is one
    // per queue.
    auto communicator =
        context.fabric.connect(context.program.group(op.axes, context.rank),
                               context.rank, unsigned(queue));
    if (!communicator.ok())
      return communicator.status();
    return make<CollectiveTask>(context, op, std::move(*communicator));
  }
  Made operator()(const Copy &op) const { return make<CopyTask>(context, op); }
  Made operator()(const Fill &op) const { return make<FillTask>(context, op); }
  Made operator()(const CheckFinite &op) const {
    return make<CheckFiniteTask>(context, op);
  }
  Made operator()(const RecordEvent &op) const {
    return make<RecordTask>(context.events, op.event);
  }
  Made operator()(const WaitEvent &op) const {
    return make<WaitTask>(context.events, op.event);
  }
};
} // namespace

Expected<std::unique_ptr<Task>> makeTask(const TaskContext &context,
                                         const Command &command) {
  return std::visit(Maker{context, command.queue}, command.operation);
}

Expected<std::unique_ptr<Task>> makeGemm(const TaskContext &context,
                                         const Gemm &gemm) {
  if (gemm.inputType == ElementType::F64)
    return makeBlasGemm(context, gemm);
  return makeDnnlGemm(context, gemm);
}

} // namespace tandem::rt::cpu
