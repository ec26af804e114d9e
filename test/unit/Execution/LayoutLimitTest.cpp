//===- LayoutLimitTest.cpp - a search of layouts that has no time ---------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Execution/Compile.h"
#include "tandem/Support/TextFile.h"
#include "gtest/gtest.h"
#include <chrono>
#include <functional>
#include <regex>
#include <thread>
#include <utility>

using namespace tandem;

using Progress = std::function<void(std::string_view)>;

/// What a search of layouts says.
static std::string weigh(double limit, const Progress &progress) {
  CompileOptions options;
  options.mesh = "auto";
  options.search = "tandem";
  options.cluster = TANDEM_CLUSTER;
  options.weighsPipelines = true;
  options.searchTimeLimit = limit;
  options.progress = [&](std::string_view what, size_t, size_t) {
    progress(what);
  };
  std::string error;
  auto text = readTextFile(TANDEM_STEP, error);
  EXPECT_TRUE(text) << error;
  CompiledProgram result;
  EXPECT_TRUE(compile(*text, "step", options, result, error)) << error;
  EXPECT_FALSE(result.bytes.empty());
  return result.layouts;
}

/// The first layout is weighed once `seconds` are over.
static std::string weighLate(double limit, double seconds) {
  bool isOver = false;
  return weigh(limit, [&](std::string_view what) {
    if (what == "layouts" && !std::exchange(isOver, true))
      std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  });
}

static bool has(const std::string &layouts, const char *line) {
  return std::regex_search(layouts, std::regex(line));
}

/// Five times the limit is over before the first layout is weighed, whatever
/// the machine has to do beside. The plan of that layout has a share of it
/// nevertheless.
TEST(LayoutLimit, TheFirstPlanIsTakenWithoutAPrice) {
  std::string layouts = weighLate(0.4, 2);
  EXPECT_TRUE(
      has(layouts, "layouts: 4 devices of ethernet-4x1, 0 of [0-9]+ became"));
  EXPECT_TRUE(
      has(layouts, "no pipe axis +planned, and not priced within the time"));
  EXPECT_TRUE(
      has(layouts, "no pipe axis micro=2 +not tried within the time limit"))
      << layouts;
}

/// The limit is over, and the answer is no worse than yardsticks nevertheless.
TEST(LayoutLimit, YardsticksAreWeighed) {
  std::string layouts = weighLate(4, 4);
  for (const char *line :
       {"no pipe axis +step", "data-parallel data=4 +step", "zero data=4 +step",
        "zero2 data=4 +step", "tensor-parallel model=4 +step",
        "pipeline pipe=4 +step", "megatron data=4 +step", "amp [a-z]+=.* step",
        "no pipe axis micro=2 +not tried within the time limit",
        "megatron pipe=4 +not tried within the time limit"})
    EXPECT_TRUE(has(layouts, line)) << line << "\n" << layouts;
}

/// AMP's best is one of the other pipelines, too.
TEST(LayoutLimit, EqualLayoutsAreCompiledOnce) {
  unsigned compiled = 0;
  bool isNew = false;
  std::string layouts = weigh(0, [&](std::string_view what) {
    compiled += what == "lower" && std::exchange(isNew, false);
    isNew |= what == "layouts";
  });
  std::smatch match;
  ASSERT_TRUE(std::regex_search(layouts, match,
                                std::regex("([0-9]+) of [0-9]+ became")));
  EXPECT_LT(compiled, std::stoul(match[1])) << layouts;
}
