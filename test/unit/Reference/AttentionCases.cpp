//===- AttentionCases.cpp - operands of attention to try ------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Attention has up to eleven operands of four dimensions, and all combinations
// of their forms are tried: in each case one or two of its sizes can be split.
//
//===----------------------------------------------------------------------===//

#include "Cases.h"

namespace tandem::reference::test {

namespace {
struct Sizes {
  std::string batch = "1", heads = "3", keyHeads = "3", queries = "3",
              keys = "5", width = "2", valueWidth = "3";

  static std::string tensor(std::initializer_list<std::string> sizes) {
    std::string text = "tensor<";
    for (const std::string &size : sizes)
      text += size + "x";
    return text + "f64>";
  }
  std::string query() const { return tensor({batch, heads, queries, width}); }
  std::string key() const { return tensor({batch, keyHeads, keys, width}); }
  std::string value() const {
    return tensor({batch, keyHeads, keys, valueWidth});
  }
  std::string output() const {
    return tensor({batch, heads, queries, valueWidth});
  }
  std::string rows() const { return tensor({batch, heads, queries}); }
};

/// What a case has beside its sizes: attributes, types of further operands.
struct Others {
  std::string attributes = "";
  std::vector<std::string> types = {};
};
} // namespace

static std::string makeCall(const std::string &name, unsigned own,
                            const Others &others) {
  std::string text = "nn." + name + " %0";
  for (unsigned i = 1; i < own + others.types.size(); ++i)
    text += ", %" + std::to_string(i);
  text += " {scale = 0.5 : f64" + others.attributes + "} : (";
  return text;
}

static std::string makeTypes(const Others &others) {
  std::string text;
  for (const std::string &type : others.types)
    text += ", " + type;
  return text + ") -> (";
}

static std::string forward(const Sizes &s, const Others &others = {}) {
  return makeCall("attention", 3, others) + s.query() + ", " + s.key() + ", " +
         s.value() + makeTypes(others) + s.output() + ", " + s.rows() + ")";
}

static std::string backward(const Sizes &s, const Others &others = {}) {
  return makeCall("attention_backward", 6, others) + s.output() + ", " +
         s.query() + ", " + s.key() + ", " + s.value() + ", " + s.output() +
         ", " + s.rows() + makeTypes(others) + s.query() + ", " + s.key() +
         ", " + s.value() + ")";
}

std::vector<Case> makeAttentionCases() {
  const Range any, truth = kHalf, numbers = indicesOf(1000);
  const Sizes heads = {.batch = "{a}", .heads = "{b}", .keyHeads = "{b}"};
  const Sizes queries = {.queries = "{a}"};
  return {
      {forward(heads)},
      {forward({.queries = "{a}",
                .keys = "{b}",
                .width = "{c}",
                .valueWidth = "4"})},
      // Groups of queries, and all queries in one.
      {forward({.heads = "16", .keyHeads = "{a}"})},
      {forward({.heads = "{a}", .keyHeads = "1"})},
      {forward({.heads = "{a}", .keyHeads = "{a}", .queries = "{b}"},
               {", masked = true", {"tensor<1x{a}x{b}x5xi1>"}}),
       {any, any, any, truth}},
      {forward({.batch = "{a}", .queries = "{b}"},
               {", masked = true, before = 2 : i64, after = 0 : i64",
                {"tensor<{a}x1x1x5xf64>", "tensor<{b}xi64>"}}),
       {any, any, any, any, indicesOf(8)}},
      {forward(queries,
               {", dropout = 0.5 : f64, ordinal = 3 : i64",
                {"tensor<1x3x{a}xi64>", "tensor<i64>", "tensor<i64>"}}),
       {any, any, any, numbers, numbers, numbers}},
      {backward({.batch = "{a}"})},
      {backward({.heads = "{a}", .keyHeads = "{a}"})},
      {backward({.queries = "{a}", .keys = "{b}"})},
      {backward({.width = "{a}", .valueWidth = "{b}"})},
      {backward({.heads = "16", .keyHeads = "{a}"})},
      {backward({.heads = "{a}", .keyHeads = "1"})},
      {backward(queries, {", masked = true, after = 1 : i64",
                          {"tensor<1x1x{a}x5xi1>", "tensor<{a}xi64>"}}),
       {any, any, any, any, any, any, truth, indicesOf(8)}},
  };
}

} // namespace tandem::reference::test
