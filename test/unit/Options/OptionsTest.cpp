//===- OptionsTest.cpp - one row makes an option --------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This program sees a table with one row more, `added-option`. All that reads
// the table has it then, without another line.
//
//===----------------------------------------------------------------------===//

#include "../../../tools/tandem-compile/Options.h"
#include "tandem/Support/ByteSize.h"
#include "tandem/Transforms/Plan/Plan.h"
#include "llvm/ADT/STLExtras.h"
#include <gtest/gtest.h>
#include <set>

using namespace tandem;

/// Of the compiler, which is not part of this program.
std::vector<std::string> tandem::getStageNames() {
  return {"import", "accumulate", "plan", "shard"};
}

static bool parse(std::vector<std::string> arguments, ToolOptions &tool,
                  std::string &error) {
  std::vector<char *> argv;
  for (std::string &argument : arguments)
    argv.push_back(argument.data());
  return parseOptions(argv.size(), argv.data(), tool, error);
}

TEST(OptionsTest, TheRecordHasTheDefault) {
  EXPECT_EQ(Options().addedOption, 7);
}

TEST(OptionsTest, TheTableHasTheRow) {
  auto row = llvm::find_if(getOptionTable(), [](const OptionInfo &each) {
    return each.texts.name == "added-option";
  });
  ASSERT_NE(row, getOptionTable().end());
  EXPECT_EQ(row->reader, "plan");
  EXPECT_EQ(row->getFlag(), "--added-option");
  EXPECT_EQ(row->getType(), OptionType::Count);
}

TEST(OptionsTest, TheCommandLineSetsIt) {
  ToolOptions tool;
  std::string error;
  ASSERT_TRUE(parse({"tandem-compile", "step.mlir", "--added-option", "3"},
                    tool, error))
      << error;
  EXPECT_EQ(tool.compile.addedOption, 3);
}

TEST(OptionsTest, TheCommandLineRefusesAnotherType) {
  ToolOptions tool;
  std::string error;
  EXPECT_FALSE(
      parse({"tandem-compile", "step.mlir", "--added-option=x"}, tool, error));
  EXPECT_EQ(error,
            "option --added-option has value 'x', expected a whole number");
}

TEST(OptionsTest, BytesMayHaveAUnit) {
  const std::pair<const char *, std::optional<int64_t>> sizes[] = {
      {"0", 0},
      {"1083000000", 1083000000},
      {"999999999999999999", 999999999999999999},
      {"800MB", 800000000},
      {"1.5 kB", 1500},
      {"24GiB", int64_t(24) << 30},
      {"0.5 TiB", int64_t(1) << 39},
      {"1.0005 kB", 1001},
      {"1000000TB", 1000000000000000000},
      {"1000001TB", std::nullopt},
      {"9999999999999999999", std::nullopt},
      {"-1", std::nullopt},
      {"-1kB", std::nullopt},
      {"1.5", std::nullopt},
      {"0.5B", std::nullopt},
      {"1.9B", std::nullopt},
      {"0.0001kB", std::nullopt},
      {"nanMB", std::nullopt},
      {"infMB", std::nullopt},
      {"24gb", std::nullopt},
      {"GiB", std::nullopt},
      {"1 MB ", std::nullopt},
      {"", std::nullopt},
  };
  for (const auto &[text, bytes] : sizes)
    EXPECT_EQ(parseByteSize(text), bytes) << text;
}

TEST(OptionsTest, BytesPrintWithAllDigits) {
  const std::pair<int64_t, const char *> sizes[] = {
      {0, "0 B"},
      {999, "999 B"},
      {1000, "1 kB"},
      {1001, "1.001 kB"},
      {1083000000, "1.083 GB"},
      {20000000000001, "20.000000000001 TB"},
      {kMaxByteSize, "1000000 TB"},
  };
  for (const auto &[bytes, text] : sizes) {
    EXPECT_EQ(printByteSize(bytes), text);
    EXPECT_EQ(parseByteSize(text), bytes) << text;
  }
}

/// Its reader has run.
TEST(OptionsTest, TheCommandLineRefusesItBehindItsStage) {
  ToolOptions tool;
  std::string error;
  EXPECT_FALSE(parse(
      {"tandem-compile", "step.mlir", "--added-option=3", "--from", "plan"},
      tool, error));
  EXPECT_NE(error.find("is for the stage plan"), std::string::npos) << error;
}

TEST(OptionsTest, HelpHasIt) {
  ToolOptions tool;
  std::string error;
  testing::internal::CaptureStdout();
  EXPECT_FALSE(parse({"tandem-compile", "--help"}, tool, error));
  llvm::outs().flush();
  EXPECT_NE(testing::internal::GetCapturedStdout().find(
                "  --added-option N     A row that a test adds.\n"),
            std::string::npos);
}

TEST(OptionsTest, TheStageHasIt) {
  PlanOptions plan;
  EXPECT_EQ(plan.addedOption, 7);
  ASSERT_TRUE(mlir::succeeded(plan.parseFromString("added-option=4")));
  EXPECT_EQ(plan.addedOption, 4);
  Options options;
  options.addedOption = 5;
  plan.take(options);
  EXPECT_EQ(plan.addedOption, 5);
}

TEST(OptionsTest, TheKeyOfTheCacheHasIt) {
  Options options;
  std::optional<std::string> before = makeKeyText(options);
  options.addedOption = 5;
  std::optional<std::string> after = makeKeyText(options);
  ASSERT_TRUE(before && after);
  EXPECT_NE(*before, *after);
  EXPECT_TRUE(isCachable(options));
}

TEST(OptionsTest, WhatWritesBesideTheProgramIsNotCached) {
  Options options;
  EXPECT_TRUE(isCachable(options));
  options.problemOut = "problem.json";
  EXPECT_FALSE(isCachable(options));
}

TEST(OptionsTest, AFileThatCannotBeReadHasNoKey) {
  Options options;
  options.cluster = "no/such/cluster.yaml";
  EXPECT_FALSE(makeKeyText(options));
}

/// Names are unique, and all that help needs is there.
TEST(OptionsTest, RowsAreWhole) {
  std::set<std::string_view> names;
  for (const OptionInfo &row : getOptionTable()) {
    EXPECT_TRUE(names.insert(row.texts.name).second) << row.texts.name;
    EXPECT_EQ(row.texts.help.back(), '.') << row.texts.name;
    EXPECT_EQ(row.getType() == OptionType::Texts, row.texts.separator != 0)
        << row.texts.name;
    EXPECT_EQ(row.getType() == OptionType::Count, row.texts.most != 0)
        << row.texts.name;
  }
}
