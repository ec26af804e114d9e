//===- random_test.cpp - random Programs and their mutations --------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cts/oracle.h"
#include "cts/random_program.h"
#include "cts/stages.h"
#include "cts/support.h"
#include "tandem_rt/simulate.h"

#include <cstdlib>

namespace tandem::rt::cts {
namespace {

/// What the oracle looks at, too. Other errors are those of one command.
bool isDisorder(const std::string &message) {
  for (const char *text :
       {"with no event between them", "which nothing wrote before",
        "is not written from byte", "has checked the step", "waits for event",
        "records event"})
    if (message.find(text) != std::string::npos)
      return true;
  return false;
}

Tensor numbers(int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(float(random() % 17));
  return tensorOf({count}, values);
}

/// Three steps, the second of which a flag of one rank refuses if there is a
/// check; the session is compared with its twin after each.
void run(const ProgramBuilder &program, unsigned seed,
         const SessionOptions &options = {}) {
  auto session = startTwin(program, options);
  ASSERT_TRUE(session);
  int64_t ranks = program.get().numRanks();
  set(*session, "parameter", "w", numbers(16 * ranks, seed));
  bool checks = false;
  for (const Command *command : program.get().rankPrograms[0].listing())
    if (const auto *check = std::get_if<Check>(&command->operation))
      checks |= check->kind == CheckKind::Truth;
  for (unsigned step = 0; step < 3; ++step) {
    set(*session, "input", "x", numbers(64 * ranks, seed + step));
    Tensor flags(ElementType::I1, {ranks});
    flags.data.assign(size_t(ranks), 1);
    if (step == 1)
      flags.data[seed % size_t(ranks)] = 0;
    set(*session, "input", "flags", flags);
    Status status = session->step();
    EXPECT_EQ(status.ok(), step != 1 || !checks) << status.message();
  }
}

TEST(Random, ProgramsRunAsTheyRead) {
  Watchdog watchdog(240);
  for (unsigned seed = 0; seed < 120; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    ProgramBuilder program = randomProgram(seed);
    ASSERT_EQ(findDisorder(program.get()), "");
    run(program, seed);
    if (testing::Test::HasFailure())
      return;
  }
}

/// One thread per rank waits for nothing that comes behind, and gives the
/// values of several.
TEST(Random, QueuesRunAsOneGiveTheSameValues) {
  Watchdog watchdog(240);
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    run(randomProgram(seed), seed, {.oneQueue = true});
    if (testing::Test::HasFailure())
      return;
  }
}

/// The verifier, which passes over the commands once, says what comparing all
/// pairs of commands of all iterations says.
TEST(Random, MutationsAreRefusedIfTheyBreakTheOrder) {
  Watchdog watchdog(240);
  int refused = 0, fine = 0, moved = 0;
  for (unsigned seed = 0; seed < 150; ++seed) {
    ProgramBuilder whole = randomProgram(seed);
    std::mt19937 random(seed);
    for (int mutation = 0; mutation < 12; ++mutation) {
      ProgramBuilder changed = whole;
      std::string what = mutate(changed.mutableProgram(), random);
      SCOPED_TRACE("seed " + std::to_string(seed) + ": " + what);
      Status status = verifyProgram(changed.get());
      if (!status.ok() && !isDisorder(status.message())) {
        ++moved;
        continue;
      }
      std::string disorder = findDisorder(changed.get());
      ASSERT_EQ(status.ok(), disorder.empty())
          << "verifier: " << status.message() << "\noracle: " << disorder
          << "\n"
          << printProgram(changed.get());
      ++(status.ok() ? fine : refused);
      // What is still in order runs as it reads.
      if (status.ok() && mutation == 0)
        run(changed, seed);
    }
  }
  EXPECT_GT(refused, 300);
  EXPECT_GT(fine, 300);
  std::printf("%d mutations refused, %d in order, %d refused for what one "
              "command is\n",
              refused, fine, moved);
}

/// All commands take as long, and no movement disturbs another.
struct Even final : Machine {
  double secondsOf(const RankCommand &) const override { return 1e-6; }
  Movement movementOf(const std::vector<int64_t> &,
                      const std::vector<RankCommand> &) const override {
    return {.latency = 1e-6};
  }
  int64_t kindOf(int64_t) const override { return 0; }
  std::vector<uint32_t> linksOf(int64_t) const override { return {}; }
};

void runStages(const ProgramBuilder &program, const Stages &stages,
               unsigned seed) {
  auto session = startTwin(program);
  ASSERT_TRUE(session);
  for (unsigned step = 0; step < 2; ++step) {
    set(*session, "input", "x", stages.input(stages.randomInput(seed + step)));
    EXPECT_OK(session->step());
  }
}

/// What the verifiers accept comes to its end, simulated and on a device, and
/// gives what its list gives when it is read from its first command to its last
/// one. What they refuse does not keep the simulator from ending.
TEST(Random, BrokenProgramsAreRefusedOrRunAsTheyRead) {
  Watchdog watchdog(600);
  unsigned count = std::getenv("TANDEM_CTS_DEVICE") ? 60 : 500;
  unsigned refused = 0, ran = 0;
  for (unsigned seed = 0; seed < count; ++seed) {
    bool isPipeline = seed % 2;
    Stages stages;
    ProgramBuilder program = isPipeline ? stages.b : randomProgram(seed);
    std::mt19937 random(seed);
    std::string what = mutate(program.mutableProgram(), random);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + what);
    Status status = verifyProgram(program.get());
    Status simulated = simulate(headOf(program.get(), ""), Even()).status();
    if (!status.ok()) {
      ++refused;
      continue;
    }
    ++ran;
    EXPECT_OK(simulated);
    for (int64_t rank = 0; rank < program.get().numRanks(); ++rank)
      ASSERT_EQ(findDisorder(program.get(), rank), "") << "rank " << rank;
    if (isPipeline)
      runStages(program, stages, seed);
    else
      run(program, seed);
    if (testing::Test::HasFailure())
      return;
  }
  EXPECT_GT(refused, count / 4);
  EXPECT_GT(ran, count / 8);
  std::printf("%u Programs refused, %u in order\n", refused, ran);
}

} // namespace
} // namespace tandem::rt::cts
