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
#include <fstream>
#include <functional>
#include <regex>
#include <thread>
#include <utility>

using namespace tandem;

using Progress = std::function<void(std::string_view)>;

/// What a search of layouts says.
static std::string weigh(double limit, const Progress &progress,
                         const std::string &cluster = TANDEM_CLUSTER) {
  CompileOptions options;
  options.mesh = "auto";
  options.search = "tandem";
  options.cluster = cluster;
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

/// Behind its plan the first one takes most of the time that yardsticks have.
TEST(LayoutLimit, WhatWouldBeLateIsNotBegun) {
  bool isOver = false;
  std::string layouts = weigh(1, [&](std::string_view what) {
    if (what == "lower" && !std::exchange(isOver, true))
      std::this_thread::sleep_for(std::chrono::seconds(3));
  });
  EXPECT_TRUE(has(layouts, "no pipe axis +step")) << layouts;
  EXPECT_TRUE(has(layouts, "zero data=4 +not tried within the time limit"))
      << layouts;
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

/// Every plan without a pipe axis holds more than the memory of one node, which
/// no bound proves: the search ends without one, and pipelines are weighed.
TEST(LayoutLimit, MeshesWithoutAPlanHaveAShare) {
  std::string error, path = testing::TempDir() + "one-small.yaml";
  auto text = readTextFile(TANDEM_CLUSTER, error);
  ASSERT_TRUE(text) << error;
  size_t nodes = text->find("nodes:"), link = text->find("link:");
  std::string kind = text->substr(text->find("  core:"), nodes);
  kind = std::regex_replace(kind.substr(0, kind.find("nodes:")),
                            std::regex("core:"), "small:");
  std::ofstream(path) << text->substr(0, nodes)
                      << std::regex_replace(kind, std::regex("3 GiB"), "2.3 kB")
                      << "nodes:\n  - {count: 1, devices: {core: 1}}\n"
                         "  - {count: 1, devices: {small: 1}}\n"
                         "  - {count: 2, devices: {core: 1}}\n"
                      << text->substr(link);
  std::string layouts = weigh(6, [](std::string_view) {}, path);
  EXPECT_TRUE(has(layouts, "no pipe axis +no plan that fits was found in its"))
      << layouts;
  EXPECT_TRUE(has(layouts, "pipe=[24].* step ")) << layouts;
}
