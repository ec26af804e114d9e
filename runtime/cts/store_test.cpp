//===- store_test.cpp - values outside of Programs ------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/registry.h"
#include "core/text.h"
#include "cts/training_step.h"

#include <atomic>
#include <cmath>
#include <thread>

namespace tandem::rt::cts {
namespace {

using F = std::vector<float>;

/// A Program with one stored tensor.
std::unique_ptr<ProgramBuilder> holder(std::vector<Axis> mesh, Argument value) {
  auto b = std::make_unique<ProgramBuilder>(std::move(mesh));
  b->addArgument(std::move(value));
  return b;
}

Status attach(const ProgramBuilder &builder,
              const std::shared_ptr<ValueStore> &store) {
  Expected<Bytes> bytes = builder.finish();
  EXPECT_TRUE(bytes.ok()) << bytes.status().message();
  return Session::create(*bytes, {.store = store}).status();
}

TEST(Store, ProgramsOfOtherBatchesTrainTheSameValues) {
  TrainingStep large(2, 8), small(2, 4);
  auto first = start(large.b);
  auto second = start(small.b, {.store = first->store()});
  ASSERT_TRUE(first && second);
  TrainingStep twinLarge(2, 8), twinSmall(2, 4);
  auto alone = start(twinLarge.b), other = start(twinSmall.b);
  F w = randomValues<float>(12, 1);
  set(*first, "parameter", "w", tensorOf({4, 3}, w));
  EXPECT_EQ(valuesOf<float>(argument(*second, "parameter", "w")), w);
  for (Session *session : {first.get(), second.get(), alone.get(), other.get()})
    set(*session, "learning_rate", "0", tensorOf<float>({}, {0.1f}));
  for (unsigned step = 0; step < 4; ++step) {
    bool isLarge = step % 2 == 0;
    Session &trained = isLarge ? *first : *second;
    Session &twin = isLarge ? *alone : *other;
    Tensor x = tensorOf({isLarge ? 8 : 4, 4},
                        randomValues<float>(isLarge ? 32 : 16, 5 + step));
    set(twin, "parameter", "w", tensorOf({4, 3}, w));
    std::vector<TensorView> inputs = {x.view()};
    EXPECT_OK(trained.step(inputs));
    EXPECT_OK(twin.step(inputs));
    w = valuesOf<float>(argument(twin, "parameter", "w"));
    EXPECT_EQ(valuesOf<float>(argument(*first, "parameter", "w")), w);
    EXPECT_EQ(valuesOf<float>(argument(*second, "parameter", "w")), w);
  }
  EXPECT_EQ(valuesOf<int64_t>(argument(*first, "step", "step"))[0], 4);
}

TEST(Store, ListsWhatItHoldsAndOutlivesSessions) {
  auto store = std::make_shared<ValueStore>();
  EXPECT_TRUE(store->tensors().empty());
  F w = randomValues<float>(12, 1);
  {
    TrainingStep model(2);
    auto session = start(model.b, {.store = store});
    set(*session, "parameter", "w", tensorOf({4, 3}, w));
  }
  std::vector<StoredTensor> tensors = store->tensors();
  ASSERT_EQ(tensors.size(), 2u); // input and learning rate are the session's
  EXPECT_EQ(tensors[0].role + "/" + tensors[0].name, "parameter/w");
  EXPECT_EQ(tensors[0].shape, (Shape{4, 3}));
  EXPECT_EQ(tensors[1].role, "step");
  TrainingStep again(2, 4);
  auto session = start(again.b, {.store = store});
  EXPECT_EQ(valuesOf<float>(argument(*session, "parameter", "w")), w);
}

TEST(Store, NamesTheFirstTensorThatDiffers) {
  std::vector<Axis> mesh = {{"data", 2}};
  auto parameter = [](ElementType type, Shape shape, Form form) {
    return Argument{"parameter", "w", type, shape, {}, form, -1, {}};
  };
  auto store = std::make_shared<ValueStore>();
  EXPECT_OK(
      attach(*holder(mesh, parameter(ElementType::F32, {4, 2}, {})), store));
  EXPECT_OK(
      attach(*holder(mesh, parameter(ElementType::F32, {4, 2}, {})), store));
  expectError(
      attach(*holder(mesh, parameter(ElementType::F32, {4, 2}, split(2, 0, 0))),
             store),
      "'parameter/w' is f32[4, 2] form");
  expectError(
      attach(*holder(mesh, parameter(ElementType::F64, {4, 2}, {})), store),
      "'parameter/w' is f32[4, 2] in the store, expected f64[4, 2] as in the "
      "program");
  expectError(
      attach(*holder({{"data", 4}}, parameter(ElementType::F32, {4, 2}, {})),
             store),
      "program has mesh data=4, expected the store's data=2");
  Argument half = parameter(ElementType::F32, {2, 2}, {});
  half.name = "w.0", half.part = Part{"w", {4, 2}, 0, 0};
  Argument rest = half;
  rest.name = "w.1", rest.part->offset = 2;
  auto parts = holder(mesh, half);
  parts->addArgument(rest);
  expectError(attach(*parts, store),
              "'parameter/w' is in 1 parts in the store, expected 2");
  EXPECT_EQ(store->tensors().size(), 1u);
}

TEST(Store, IsAsBeforeWhereNoSessionCanBeMade) {
  auto store = std::make_shared<ValueStore>();
  auto broken =
      holder({{"data", 2}}, {"parameter", "w", ElementType::F32, {2}});
  uint32_t code = broken->addCodeObject("kernels", kernelImage());
  broken->setArena(4);
  broken->launch({.name = "x"}, code, "no_such_kernel", {},
                 {broken->arena(0, 4)});
  expectError(attach(*broken, store), "has no symbol 'no_such_kernel'");
  EXPECT_TRUE(store->tensors().empty());
  EXPECT_OK(
      attach(*holder({{"data", 4}}, {"parameter", "v", ElementType::F32, {2}}),
             store));
  EXPECT_EQ(store->tensors().size(), 1u);
}

/// w = 2 w, then a lookup that fails where the input says so, then v = 2 v.
struct FailingStep {
  FailingStep(int64_t ranks, bool writesFirst) : b({{"data", ranks}}) {
    uint32_t code = b.addCodeObject("kernels", kernelImage());
    x = b.addArgument({"input", "x", ElementType::F32, {}, {}, {}, -1, {}});
    w = b.addArgument(
        {"parameter", "w", ElementType::F32, {2}, {}, {}, -1, {}});
    v = b.addArgument({"state", "v", ElementType::F32, {2}, {}, {}, -1, {}});
    b.addUpdate(w), b.addUpdate(v);
    b.setArena(4);
    auto twice = [&](uint32_t value) {
      b.launch({.name = "twice"}, code, "affine", {b.argument(value)},
               {b.argument(value)}, {2, 2, 0});
    };
    auto lookup = [&] {
      b.launch({.name = "lookup", .location = "model.py:7"}, code, "failAt",
               {b.argument(x)}, {b.arena(0, 4)}, {7});
    };
    if (!writesFirst)
      lookup();
    twice(w);
    if (writesFirst)
      lookup();
    twice(v);
  }
  ProgramBuilder b;
  uint32_t x, w, v;
};

class FailureTest : public testing::TestWithParam<int64_t> {
protected:
  void begin(bool writesFirst) {
    session = start(FailingStep(GetParam(), writesFirst).b);
    ASSERT_TRUE(session);
    load();
  }
  void load() {
    set(*session, "parameter", "w", tensorOf<float>({2}, {1, 2}));
    set(*session, "state", "v", tensorOf<float>({2}, {3, 4}));
  }
  Status step(float x) {
    set(*session, "input", "x", tensorOf<float>({}, {x}));
    return session->step();
  }
  F value(const char *role, const char *name) {
    return valuesOf<float>(argument(*session, role, name));
  }
  Watchdog watchdog{60};
  std::unique_ptr<Session> session;
};

TEST_P(FailureTest, BeforeTheFirstWriteValuesAreAsBefore) {
  begin(/*writesFirst=*/false);
  expectError(step(7), "index 7 is out of range");
  for (const StoredTensor &tensor : session->store()->tensors())
    EXPECT_FALSE(tensor.damaged) << tensor.name;
  EXPECT_OK(step(0));
  EXPECT_EQ(value("parameter", "w"), (F{2, 4}));
  EXPECT_EQ(value("state", "v"), (F{6, 8}));
}

TEST_P(FailureTest, AfterItTheValuesHaveToBeLoadedAgain) {
  begin(/*writesFirst=*/true);
  expectError(step(7), "index 7 is out of range");
  std::vector<StoredTensor> tensors = session->store()->tensors();
  EXPECT_TRUE(tensors[0].damaged) << tensors[0].name;
  EXPECT_FALSE(tensors[1].damaged) << "not begun: " << tensors[1].name;
  expectError(step(0), "values are damaged: 'parameter/w' may be half updated "
                       "by a step that failed (step 1, rank");
  EXPECT_EQ(value("state", "v"), (F{3, 4})) << "values can be read";
  load();
  EXPECT_OK(step(0));
  EXPECT_EQ(value("parameter", "w"), (F{2, 4}));
  EXPECT_EQ(value("state", "v"), (F{6, 8}));
}

INSTANTIATE_TEST_SUITE_P(Cpu, FailureTest, testing::Values(1, 2, 4),
                         testing::PrintToStringParamName());

TEST(Store, OneCallAtATime) {
  Watchdog watchdog(60);
  ProgramBuilder b({});
  uint32_t code = b.addCodeObject("kernels", kernelImage());
  uint32_t w =
      b.addArgument({"parameter", "w", ElementType::F32, {1}, {}, {}, -1, {}});
  uint32_t y = b.addResult({"output", "y", ElementType::F32, {1}, {}, {}, {}});
  b.launch({.name = "slow"}, code, "slow", {}, {b.result(y)}, {300000000});
  auto first = start(b);
  auto second = start(holder({}, b.get().arguments[w]).operator*(),
                      {.store = first->store()});
  ASSERT_TRUE(first && second);
  std::atomic<bool> ended = false;
  std::thread thread([&] {
    while (!first->step().ok()) // until the other thread gives way
      std::this_thread::yield();
    ended = true;
  });
  Tensor value = tensorOf<float>({1}, {1});
  Status set;
  while (set.ok() && !ended)
    set = second->setArgument(0, value.view());
  Status step = first->step();
  EXPECT_FALSE(ended) << "the step was too short for this test";
  thread.join();
  expectError(set, "values are in use by another thread");
  expectError(step, "values are in use by another thread");
  EXPECT_OK(second->step());
}

TEST(Registry, SaysWhatThereIs) {
  Registry::get().devices.add(
      "none", {[] { return Status::error("no such card"); }, {}});
  TrainingStep model(1);
  Target target;
  target.device = "abacus";
  model.b.setTarget(target);
  Status abacus = Session::create(*model.b.finish()).status();
  expectError(abacus, "device 'abacus' is unknown, expected one of 'cpu'");
  expectError(abacus, "'none' (not here: no such card)"); // and what was built
  target.device = "none";
  model.b.setTarget(target);
  expectError(Session::create(*model.b.finish()).status(),
              "device 'none' cannot be used: no such card; others are 'cpu'");
  target.device = "cpu";
  model.b.setTarget(target);
  Status unknown =
      Session::create(*model.b.finish(), {.job = {.fabric = "pigeon"}})
          .status();
  expectError(unknown, "fabric 'pigeon' is unknown, expected one of '");
  expectError(unknown, "'local'"); // and others that were built
}

/// Its library is loaded, and a GPU's driver started, by who wants it.
TEST(Registry, AsksNoOtherDevice) {
  static int timesAsked = 0;
  Registry::get().devices.add("unasked",
                              {[] {
                                 ++timesAsked;
                                 return Status::error("no such card");
                               },
                               {}});
  EXPECT_OK(Registry::get().devices.create("cpu", {}).status());
  EXPECT_EQ(timesAsked, 0);
}

TEST(Registry, OpensADeviceBeforeThereIsAProgram) {
  ValueStore none;
  expectError(none.open({.device = "abacus"}, 1),
              "device 'abacus' is unknown, expected one of 'cpu'");
  auto store = std::make_shared<ValueStore>();
  EXPECT_OK(store->open({.device = "cpu"}, 1));
  TrainingStep model(1);
  model.b.setTarget({.device = "abacus"});
  expectError(Session::create(*model.b.finish(), {.store = store}).status(),
              "program is for device 'abacus', expected the store's 'cpu'");
  model.b.setTarget({.device = "cpu"});
  EXPECT_OK(Session::create(*model.b.finish(), {.store = store}).status());
}

/// A CPU with two memory spaces, which notes for which one it is asked.
class TwoSpaces final : public Device {
public:
  explicit TwoSpaces(std::shared_ptr<Device> cpu) : cpu(std::move(cpu)) {}

  Expected<std::shared_ptr<Buffer>>
  allocate(int64_t rank, const MemorySpace &space, int64_t bytes) override {
    asked.push_back(concat(space.name, " ", bytes));
    return cpu->allocate(rank, space, bytes);
  }
  Expected<std::unique_ptr<Executor>>
  createExecutor(const ExecutorContext &context) override {
    return cpu->createExecutor(context);
  }

  static inline std::vector<std::string> asked;

private:
  std::shared_ptr<Device> cpu;
};

TEST(Spaces, HoldWhatTheProgramPutsThere) {
  auto cpu = Registry::get().devices.create("cpu", {});
  ASSERT_TRUE(cpu.ok());
  Registry::get().devices.add("two-spaces",
                              {[] { return Status::success(); },
                               [cpu = *cpu](const Job &) {
                                 return Expected<std::shared_ptr<Device>>(
                                     std::make_shared<TwoSpaces>(cpu));
                               }});
  auto make = [](uint32_t stored, uint32_t input, uint32_t result) {
    ProgramBuilder b({});
    b.setTarget({.device = "two-spaces"});
    b.setMemorySpaces({{"far"}, {"host"}});
    b.addArgument({.role = "parameter",
                   .name = "w",
                   .globalShape = {4},
                   .memorySpace = stored});
    b.addArgument({.role = "input",
                   .name = "x",
                   .globalShape = {8},
                   .memorySpace = input});
    uint32_t y = b.addResult({.role = "output",
                              .name = "y",
                              .globalShape = {16},
                              .memorySpace = result});
    b.add({.name = "fill"}, Fill{b.result(y), Bytes(4, 0)});
    return b;
  };
  using Asked = std::vector<std::string>;
  auto store = std::make_shared<ValueStore>();
  EXPECT_OK(attach(make(1, 0, 1), store));
  EXPECT_EQ(TwoSpaces::asked, (Asked{"host 16", "far 32", "host 64"}));
  TwoSpaces::asked.clear();
  EXPECT_OK(attach(make(1, 1, 0), store));
  EXPECT_EQ(TwoSpaces::asked, (Asked{"host 32", "far 64"}));
  expectError(attach(make(0, 0, 0), store),
              "'parameter/w' is f32[4] form full in host in the store, "
              "expected f32[4] form full in far as in the program");
}

TEST(Store, ComparesPoints) {
  std::vector<Axis> mesh = {{"pipe", 2}};
  auto store = std::make_shared<ValueStore>();
  auto valueAt = [&](int64_t point) {
    Form form;
    form.at = {{0, point}};
    return holder(mesh, {"parameter", "w", ElementType::F32, {4}, {}, form});
  };
  EXPECT_OK(attach(*valueAt(0), store));
  EXPECT_OK(attach(*valueAt(0), store));
  expectError(attach(*valueAt(1), store),
              "'parameter/w' is f32[4] form pipe: at(0) in host in the store, "
              "expected f32[4] form pipe: at(1) in host as in the program");
}

} // namespace
} // namespace tandem::rt::cts
