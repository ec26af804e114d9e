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
#include <regex>
#include <thread>
#include <utility>

using namespace tandem;

/// The limit is over before the first layout is weighed, whatever the machine
/// has to do beside. The plan of that layout has a share of it nevertheless.
TEST(LayoutLimit, TheFirstPlanIsTakenWithoutAPrice) {
  CompileOptions options;
  options.mesh = "auto";
  options.search = "tandem";
  options.cluster = TANDEM_CLUSTER;
  options.weighsPipelines = true;
  options.searchTimeLimit = 2;
  bool isOver = false;
  options.progress = [&](std::string_view what, size_t, size_t) {
    if (what == "layouts" && !std::exchange(isOver, true))
      std::this_thread::sleep_for(
          std::chrono::duration<double>(options.searchTimeLimit));
  };
  std::string error;
  auto text = readTextFile(TANDEM_STEP, error);
  ASSERT_TRUE(text) << error;
  CompiledProgram result;
  ASSERT_TRUE(compile(*text, "step", options, result, error)) << error;
  EXPECT_FALSE(result.bytes.empty());
  auto has = [&](const char *line) {
    return std::regex_search(result.layouts, std::regex(line));
  };
  EXPECT_TRUE(has("layouts: 4 devices of ethernet-4x1, 0 of [0-9]+ became"));
  EXPECT_TRUE(has("no pipe axis +planned, and not priced within the time"));
  EXPECT_TRUE(has("no pipe axis micro=2 +not tried within the time limit"))
      << result.layouts;
}
