//===- job_test.cpp - sessions with a part of the ranks -------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/registry.h"
#include "cts/fabrics.h"
#include "cts/paired_fabric.h"
#include "cts/stages.h"
#include "cts/training_step.h"

#ifdef TANDEM_GLOO
#include "comm/gloo/communicator.h"
#endif

#include <cmath>
#include <functional>
#include <thread>

namespace tandem::rt::cts {
namespace {

using F = std::vector<float>;

using Made = Expected<std::shared_ptr<Fabric>>;

/// Two parties with half of the ranks each, which meet in a fabric only; a rank
/// below 2 is the first of each.
class JobTest
    : public testing::TestWithParam<std::tuple<std::string, int64_t>> {
protected:
  void SetUp() override {
    std::function<Made(const Job &)> create;
    if (fabric() == "paired")
      create = [link = std::make_shared<Link>()](const Job &job) {
        return Made(std::make_shared<PairedFabric>(link, job.ranks));
      };
#ifdef TANDEM_GLOO
    if (fabric() == "sockets")
      create = [controls = joinAll(2)](const Job &job) {
        return createGlooFabric(controls[size_t(job.ranks.front())], job.ranks,
                                job.worldSize);
      };
#endif
    Registry::get().fabrics.add(
        fabric(), {[] { return Status::success(); }, std::move(create)});
  }
  std::string fabric() const { return std::get<0>(GetParam()); }
  int64_t ranks() const { return std::get<1>(GetParam()); }

  /// The ranks of a party; ranks need not be neighbours.
  Job job(int64_t party) const {
    Job job{ranks(), {}, fabric()};
    for (int64_t rank = party; rank < ranks(); rank += 2)
      job.ranks.push_back(rank);
    return job;
  }

  void create(const ProgramBuilder &b) {
    inProcesses(2, [&](int64_t party) {
      sessions[party] = start(b, {.job = job(party)});
    });
    ASSERT_TRUE(sessions[0] && sessions[1]);
  }

  /// Both parties do the same at the same time.
  void both(const std::function<void(int64_t, Session &)> &body) {
    std::thread other([&] { body(1, *sessions[1]); });
    body(0, *sessions[0]);
    other.join();
  }

  Watchdog watchdog{60};
  std::unique_ptr<Session> sessions[2];
};

TEST_P(JobTest, TrainsAsOneProcessDoes) {
  TrainingStep model(ranks());
  create(model.b);
  auto alone = start(model.b);
  F w = randomValues<float>(12, 1);
  auto train = [&](Session &session) {
    F losses;
    set(session, "parameter", "w", tensorOf({4, 3}, w));
    set(session, "learning_rate", "0", tensorOf<float>({}, {0.1f}));
    for (unsigned step = 0; step < 3; ++step) {
      Tensor x = tensorOf({8, 4}, randomValues<float>(32, 10 + step));
      std::vector<TensorView> inputs = {x.view()};
      EXPECT_OK(session.step(inputs));
      losses.push_back(valuesOf<float>(result(session, "loss", "loss"))[0]);
    }
    F trained = valuesOf<float>(argument(session, "parameter", "w"));
    losses.insert(losses.end(), trained.begin(), trained.end());
    return losses;
  };
  F expected = train(*alone);
  both([&](int64_t party, Session &session) {
    EXPECT_EQ(train(session), expected) << "party " << party;
  });
}

/// Split, transposed in memory, whole, and terms of a sum.
TEST_P(JobTest, ValuesGoThroughTheFabric) {
  int64_t n = ranks();
  ProgramBuilder b({{"data", n}});
  auto add = [&](const char *name, Form form) {
    b.addArgument(
        {"parameter", name, ElementType::F32, {n, n}, {}, form, -1, {}});
  };
  add("rows", split(2, 0, 0));
  add("columns", split(2, 1, 0));
  add("full", {});
  add("terms", {{{}, {}}, {0}});
  create(b);
  Tensor value = tensorOf({n, n}, randomValues<float>(n * n, 3));
  F expected = valuesOf<float>(value);
  both([&](int64_t party, Session &session) {
    for (uint32_t i = 0; i < 4; ++i) {
      TensorView nothing{value.type, value.shape, nullptr};
      bool isRoot = party == 1;
      EXPECT_OK(session.setArgument(i, isRoot ? value.view() : nothing, 1));
      EXPECT_EQ(valuesOf<float>(*session.getArgument(i)), expected) << i;
      Tensor whole(value.type, value.shape);
      MutableTensorView none{value.type, value.shape, nullptr};
      EXPECT_OK(
          session.getArgument(i, party == 0 ? whole.mutableView() : none, 0));
      if (party == 0)
        EXPECT_EQ(valuesOf<float>(whole), expected) << i;
    }
  });
}

/// Fails on the last rank, behind the first update.
TEST_P(JobTest, AnErrorOfOnePartyIsThatOfBoth) {
  int64_t n = ranks();
  ProgramBuilder b({{"data", n}});
  uint32_t code = b.addCodeObject("kernels", kernelImage());
  uint32_t x = b.addArgument(
      {"input", "x", ElementType::F32, {n}, {}, split(1, 0, 0), -1, {}});
  uint32_t w =
      b.addArgument({"parameter", "w", ElementType::F32, {1}, {}, {}, -1, {}});
  uint32_t y = b.addResult({"output", "y", ElementType::F32, {1}, {}, {}, {}});
  b.addUpdate(w);
  b.setArena(4);
  b.launch({.name = "lookup"}, code, "failAt", {b.argument(x)}, {b.arena(0, 4)},
           {n - 1});
  b.add({.name = "sum"}, Collective{CollectiveKind::AllReduce,
                                    {0},
                                    ElementType::F32,
                                    {1},
                                    -1,
                                    -1,
                                    b.argument(x),
                                    b.result(y)});
  b.launch({.name = "twice"}, code, "affine", {b.argument(w)}, {b.argument(w)},
           {1, 2, 0});
  create(b);
  F good(size_t(n), -1), bad;
  for (int64_t rank = 0; rank < n; ++rank)
    bad.push_back(float(rank));
  both([&](int64_t, Session &session) {
    set(session, "parameter", "w", tensorOf<float>({1}, {3}));
    set(session, "input", "x", tensorOf({n}, bad));
    Status status = session.step();
    expectError(status, "step 1, rank " + std::to_string(n - 1) +
                            ", command 0 'lookup': index 7 is out of");
    EXPECT_FALSE(status.isRefusal());
    // What ranks of the other party have written is not known.
    EXPECT_TRUE(session.store()->tensors()[0].damaged);
    set(session, "parameter", "w", tensorOf<float>({1}, {3}));
    set(session, "input", "x", tensorOf({n}, good));
    EXPECT_OK(session.step());
    EXPECT_EQ(valuesOf<float>(argument(session, "parameter", "w")), (F{6}));
  });
}

TEST_P(JobTest, ARefusalIsThatOfBothAndKeepsValues) {
  TrainingStep model(ranks());
  create(model.b);
  F w = randomValues<float>(12, 1), x = randomValues<float>(32, 2);
  F bad = x;
  bad[5] = NAN;
  both([&](int64_t, Session &session) {
    set(session, "parameter", "w", tensorOf({4, 3}, w));
    for (int round = 0; round < 20; ++round) {
      set(session, "input", "x", tensorOf({8, 4}, bad));
      Status status = session.step();
      expectError(status, "loss is nan, expected a finite value");
      EXPECT_TRUE(status.isRefusal());
      EXPECT_FALSE(session.store()->tensors()[0].damaged);
      EXPECT_EQ(valuesOf<float>(argument(session, "parameter", "w")), w);
      set(session, "input", "x", tensorOf({8, 4}, x));
      EXPECT_OK(session.step());
    }
  });
}

#ifdef TANDEM_GLOO
const std::string kFabrics[] = {"paired", "sockets"};
#else
const std::string kFabrics[] = {"paired"};
#endif
INSTANTIATE_TEST_SUITE_P(All, JobTest,
                         testing::Combine(testing::ValuesIn(kFabrics),
                                          testing::Values(int64_t(2),
                                                          int64_t(4))),
                         [](const auto &info) {
                           return std::string(std::get<0>(info.param)) + "_" +
                                  std::to_string(std::get<1>(info.param));
                         });

TEST(Job, SaysWhatIsWrong) {
  TrainingStep model(4);
  Bytes program = *model.b.finish();
  auto create = [&](Job job) {
    return Session::create(program, {.job = std::move(job)}).status();
  };
  expectError(create({.worldSize = 2}),
              "job has 2 ranks, expected the program's 4");
  expectError(create({.ranks = {0, 4}}),
              "rank 4 of this process, expected ranks below 4");
  expectError(create({.ranks = {1, 0}}), "in ascending order");
  expectError(create({.ranks = {0, 1}}),
              "fabric 'local' connects ranks of one process, which has 2, "
              "expected all 4");
  auto session = start(model.b);
  expectError(
      session->setArgument(0, Tensor(ElementType::F32, {8, 4}).view(), 4),
      "root is rank 4, expected one below 4");
}

/// Each party has a part of the points, and of the axis within them.
TEST_P(JobTest, RunsStages) {
  if (fabric() == "paired")
    GTEST_SKIP() << "has no transfers";
  Stages p(ranks() / 2);
  create(p.b);
  F values = p.randomInput(3);
  both([&](int64_t party, Session &session) {
    // Only the root has the values; each party asks for all.
    Tensor x = p.input(values);
    int input = session.findArgument("input", "x");
    EXPECT_OK(session.setArgument(uint32_t(input), x.view(), 0));
    EXPECT_OK(session.step());
    EXPECT_EQ(valuesOf<float>(result(session, "output", "y")), values) << party;
    EXPECT_EQ(valuesOf<float>(argument(session, "parameter", "first")),
              p.updated(values, p.kRows - 1));
    EXPECT_EQ(valuesOf<float>(argument(session, "parameter", "second")),
              p.updated(values, 0));
    x.data.back() = 0xff, (&x.data.back())[-1] = 0xff; // nan
    EXPECT_OK(session.setArgument(uint32_t(input), x.view()));
    Status status = session.step();
    expectError(status, "loss is nan");
    EXPECT_EQ(valuesOf<float>(argument(session, "parameter", "first")),
              p.updated(values, p.kRows - 1));
  });
}

} // namespace
} // namespace tandem::rt::cts
