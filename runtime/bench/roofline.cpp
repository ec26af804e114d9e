//===- roofline.cpp - roofline of a core ----------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   roofline PROGRAM.tdm [--ours]
//
// Prints, as JSON, for each product of different shape in the first rank
// program how often it is there and the seconds that oneDNN takes with operands
// in the layouts that it likes best, packed before; with --ours also those that
// the runtime's command takes with the strides of the Program, in turns with
// oneDNN, and the median of the turns' ratios. For each attention the seconds
// of its products, packed as well, and of its exponentials; for all else the
// bytes. Rates of the core: exponentials of oneDNN on what lies in a cache,
// bytes read and written by a copy of what does not. Medians; run it on one
// core that does nothing else.
//
//===----------------------------------------------------------------------===//

#include "core/text.h"
#include "cpu/bf16.h"
#include "cpu/gemm_shape.h"
#include "cpu/task.h"
#include "tandem_rt/program_builder.h"
#include "tandem_rt/session.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <map>

#include <nlohmann/json.hpp>
#include <oneapi/dnnl/dnnl.hpp>

namespace tandem::rt {
namespace {
using dnnl::memory;
using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr int kTurns = 5;
constexpr auto kTurn = std::chrono::milliseconds(8);
/// Of attention: the most positions of a block, and the least that a band can
/// leave out.
constexpr int64_t kMostPositions = 512, kLeastPositions = 128;
/// Finite in every type, and no zeros, which pages share.
constexpr int kByte = 0x3f;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Seconds of one call in a turn of at least kTurn.
double timeTurn(const std::function<void()> &call) {
  int64_t calls = 0;
  auto begin = Clock::now(), end = begin;
  for (; end - begin < kTurn; end = Clock::now(), ++calls)
    call();
  return std::chrono::duration<double>(end - begin).count() / double(calls);
}

double timeCalls(const std::function<void()> &call) {
  call();
  std::vector<double> turns;
  for (int turn = 0; turn < kTurns; ++turn)
    turns.push_back(timeTurn(call));
  return median(turns);
}

//===----------------------------------------------------------------------===//
// Products of oneDNN
//===----------------------------------------------------------------------===//

const dnnl::engine &cpuEngine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

memory::data_type dnnlType(ElementType type) {
  bool isNarrow = type == ElementType::BF16 && cpu::multipliesBf16();
  return isNarrow ? memory::data_type::bf16 : memory::data_type::f32;
}

/// Batched matrices: one batch dimension, of 1 where all share one matrix.
struct Matrices {
  memory::dims extents;
  memory::data_type type;

  memory::desc as(bool anyLayout) const {
    using tag = memory::format_tag;
    return {extents, type, anyLayout ? tag::any : tag::abc};
  }
};

/// A product with memory of its own.
class PackedProduct {
public:
  PackedProduct(const std::array<Matrices, 3> &matrices,
                const std::array<bool, 3> &anyLayout)
      : stream(cpuEngine()) {
    dnnl::matmul::primitive_desc desc({matrices[0].as(anyLayout[0]),
                                       matrices[1].as(anyLayout[1]),
                                       matrices[2].as(anyLayout[2])},
                                      cpuEngine());
    primitive = dnnl::matmul(desc);
    add(DNNL_ARG_SRC, desc.src_desc());
    add(DNNL_ARG_WEIGHTS, desc.weights_desc());
    add(DNNL_ARG_DST, desc.dst_desc());
  }
  void run() { primitive.execute(stream, arguments); }

private:
  void add(int key, const memory::desc &desc) {
    memory made(desc, cpuEngine());
    std::memset(made.get_data_handle(), kByte, desc.get_size());
    arguments.emplace(key, made);
  }
  dnnl::stream stream;
  dnnl::matmul primitive;
  std::unordered_map<int, memory> arguments;
};

/// The fastest of oneDNN's products of a shape: all operands as it likes, only
/// the second, or none.
class Packed {
public:
  explicit Packed(const std::array<Matrices, 3> &matrices) {
    for (std::array<bool, 3> layouts : {std::array{true, true, true},
                                        {false, true, false},
                                        {false, false, false}})
      products.emplace_back(matrices, layouts);
    for (PackedProduct &product : products)
      product.run();
  }
  /// Those that took far longer than the best are left out from then on.
  double timeTurn() {
    constexpr double kFar = 1.3;
    std::vector<double> times;
    for (PackedProduct &product : products)
      times.push_back(rt::timeTurn([&] { product.run(); }));
    double best = *std::min_element(times.begin(), times.end());
    std::vector<PackedProduct> near;
    for (size_t i = 0; i < times.size(); ++i)
      if (times[i] <= kFar * best)
        near.push_back(std::move(products[i]));
    products = std::move(near);
    return best;
  }

private:
  std::vector<PackedProduct> products;
};

std::array<Matrices, 3> matricesOf(const Gemm &gemm) {
  cpu::GemmShape shape(gemm);
  shape.simplify();
  auto batchOf = [&](size_t operand) {
    int64_t batch = 1;
    for (size_t dim = 0; dim < shape.batch.size(); ++dim)
      batch *= shape.batch[dim];
    const Shape &strides = shape.strides[operand];
    bool isShared =
        std::all_of(strides.begin(), strides.begin() + shape.batch.size(),
                    [](int64_t stride) { return stride == 0; });
    return isShared ? 1 : batch;
  };
  memory::data_type input = dnnlType(gemm.inputType);
  return {{{{batchOf(0), shape.m, shape.k}, input},
           {{batchOf(1), shape.k, shape.n}, input},
           {{numElements(shape.batch), shape.m, shape.n},
            dnnlType(gemm.outputType)}}};
}

//===----------------------------------------------------------------------===//
// Products of the runtime
//===----------------------------------------------------------------------===//

[[noreturn]] void fail(const std::string &message) {
  std::cerr << "roofline: error: " << message << '\n';
  std::exit(1);
}

/// A command alone in a session, with buffers as large as it spans.
class OurProduct {
public:
  explicit OurProduct(Gemm gemm) {
    ProgramBuilder builder({});
    auto add = [&](const char *name, ElementType type, int64_t elements) {
      values.emplace_back(type, Shape{elements});
      auto &data = values.back().data;
      std::memset(data.data(), kByte, data.size());
      return builder.addArgument({.role = "parameter",
                                  .name = name,
                                  .type = type,
                                  .globalShape = {elements}});
    };
    auto span = [&](const Shape &strides, int64_t rows, int64_t columns) {
      size_t last = gemm.batch.size();
      int64_t end =
          strides[last] * (rows - 1) + strides[last + 1] * (columns - 1);
      for (size_t dim = 0; dim < last; ++dim)
        end += strides[dim] * (gemm.batch[dim] - 1);
      return end + 1;
    };
    gemm.a = builder.argument(
        add("a", gemm.inputType, span(gemm.stridesA, gemm.m, gemm.k)));
    gemm.b = builder.argument(
        add("b", gemm.inputType, span(gemm.stridesB, gemm.k, gemm.n)));
    uint32_t c = add("c", gemm.outputType, span(gemm.stridesC, gemm.m, gemm.n));
    builder.addUpdate(c);
    gemm.c = builder.argument(c);
    if (gemm.bias)
      gemm.bias = builder.argument(add("bias", gemm.outputType, gemm.n));
    builder.add({.name = "gemm"}, gemm);
    Expected<Bytes> bytes = builder.finish();
    if (!bytes.ok())
      fail(bytes.status().message());
    auto made = Session::create(*bytes);
    if (!made.ok())
      fail(made.status().message());
    session = std::move(*made);
    for (uint32_t index = 0; index < values.size(); ++index)
      must(session->setArgument(index, values[index].view()));
    must(session->step());
  }

  double timeTurn() {
    session->startTrace();
    rt::timeTurn([&] { must(session->step()); });
    double sum = 0;
    const auto &events = session->trace().events;
    for (const TraceEvent &event : events)
      sum += double(event.end - event.begin) * 1e-9;
    return sum / double(events.size());
  }

private:
  static void must(const Status &status) {
    if (!status.ok())
      fail(status.message());
  }
  std::vector<Tensor> values;
  std::unique_ptr<Session> session;
};

json describe(const Gemm &gemm) {
  return {
      {"batch", gemm.batch},
      {"m", gemm.m},
      {"n", gemm.n},
      {"k", gemm.k},
      {"strides", {gemm.stridesA, gemm.stridesB, gemm.stridesC}},
      {"types", {elementName(gemm.inputType), elementName(gemm.outputType)}},
      {"accumulate", gemm.accumulate},
      {"alpha", gemm.alpha},
      {"bias", gemm.bias.has_value()}};
}

void timeProduct(const Gemm &gemm, bool withOurs, json &row) {
  Packed packed(matricesOf(gemm));
  std::optional<OurProduct> ours;
  if (withOurs)
    ours.emplace(gemm);
  std::vector<double> packedTurns, ourTurns, ratios;
  for (int turn = 0; turn < kTurns; ++turn) {
    packedTurns.push_back(packed.timeTurn());
    if (!ours)
      continue;
    ourTurns.push_back(ours->timeTurn());
    ratios.push_back(packedTurns.back() / ourTurns.back());
  }
  row["flops"] = 2.0 * double(numElements(gemm.batch)) * double(gemm.m) *
                 double(gemm.n) * double(gemm.k);
  row["packed_s"] = median(packedTurns);
  if (!ours)
    return;
  row["ours_s"] = median(ourTurns);
  row["of_packed"] = median(ratios);
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

/// The part of the blocks of kLeastPositions x kLeastPositions scores of which
/// a band leaves something, for positions in order.
double seenPart(const Attention &op) {
  if (!op.hasBand())
    return 1;
  int64_t seen = 0, all = 0, shift = op.keys - op.queries;
  for (int64_t i = 0; i < op.queries; i += kLeastPositions)
    for (int64_t j = 0; j < op.keys; j += kLeastPositions, ++all) {
      int64_t first = i + shift;
      int64_t last = std::min(i + kLeastPositions, op.queries) - 1 + shift;
      int64_t end = std::min(j + kLeastPositions, op.keys) - 1;
      bool isAfter = op.after >= 0 && j > last + op.after;
      bool isBefore = op.before >= 0 && end < first - op.before;
      seen += !isAfter && !isBefore;
    }
  return double(seen) / double(all);
}

double timeProducts(const Attention &op) {
  int64_t q = std::min(op.queries, kMostPositions);
  int64_t k = std::min(op.keys, kMostPositions);
  int64_t w = op.width, v = op.valueWidth;
  using Product = std::array<int64_t, 3>; // m, n, k
  std::vector<Product> products = {{q, k, w}, {q, v, k}};
  if (op.gradients)
    products = {{q, k, w}, {q, k, v}, {k, v, q}, {q, w, k}, {k, w, q}};
  double sum = 0;
  for (const auto &[m, n, inner] : products) {
    memory::data_type type = dnnlType(op.type);
    Packed packed({{{{op.batch * op.heads, m, inner}, type},
                    {{op.batch * op.heads, inner, n}, type},
                    {{op.batch * op.heads, m, n}, memory::data_type::f32}}});
    std::vector<double> turns;
    for (int turn = 0; turn < kTurns; ++turn)
      turns.push_back(packed.timeTurn());
    sum += median(turns);
  }
  double blocks = double(op.queries) / double(q) * double(op.keys) / double(k);
  return sum * blocks * seenPart(op);
}

json describe(const Attention &op) {
  return {{"type", elementName(op.type)},
          {"backward", op.gradients.has_value()},
          {"batch", op.batch},
          {"heads", op.heads},
          {"queries", op.queries},
          {"keys", op.keys},
          {"width", op.width},
          {"value_width", op.valueWidth},
          {"band", {op.before, op.after}}};
}

//===----------------------------------------------------------------------===//
// The core
//===----------------------------------------------------------------------===//

/// Exponentials per second, of what lies in the second-level cache.
double rateOfExponentials() {
  constexpr int64_t count = 1 << 15;
  memory::desc desc({count}, memory::data_type::f32, memory::format_tag::a);
  dnnl::eltwise_forward::primitive_desc kind(
      {dnnl::prop_kind::forward_inference, dnnl::algorithm::eltwise_exp, desc,
       0.0f, 0.0f},
      cpuEngine());
  dnnl::eltwise_forward primitive(kind);
  dnnl::stream stream(cpuEngine());
  memory from(desc, cpuEngine()), to(desc, cpuEngine());
  std::memset(from.get_data_handle(), kByte, desc.get_size());
  return double(count) / timeCalls([&] {
           primitive.execute(stream,
                             {{DNNL_ARG_SRC, from}, {DNNL_ARG_DST, to}});
         });
}

/// Bytes that a copy reads and writes per second, of what fits in no cache.
double rateOfBytes() {
  constexpr size_t bytes = size_t(64) << 20;
  std::vector<char> from(bytes, kByte), to(bytes);
  return 2.0 * double(bytes) /
         timeCalls([&] { std::memcpy(to.data(), from.data(), bytes); });
}

Program read(const char *path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> text((std::istreambuf_iterator<char>(file)), {});
  auto program = loadProgram(
      {reinterpret_cast<const uint8_t *>(text.data()), text.size()});
  if (!program.ok())
    fail(concat(path, ": ", program.status().message()));
  return std::move(*program);
}

/// Rows by what was described, with how often it is there.
template <typename T>
json countEqual(const std::vector<const Command *> &commands,
                const std::function<void(const T &, json &)> &measure) {
  std::map<std::string, std::pair<const T *, int64_t>> kinds;
  for (const Command *command : commands)
    if (const T *op = std::get_if<T>(&command->operation)) {
      auto &[first, count] = kinds[describe(*op).dump()];
      first = op;
      ++count;
    }
  json rows = json::array();
  for (const auto &[text, kind] : kinds) {
    json row = json::parse(text);
    row["count"] = kind.second;
    measure(*kind.first, row);
    rows.push_back(std::move(row));
  }
  return rows;
}

int run(const char *path, bool withOurs) {
  Program program = read(path);
  cpu::LibraryThreads one(1);
  std::vector<const Command *> commands = program.rankPrograms[0].listing();
  double exponentials = rateOfExponentials();
  json report = {{"exponentials_per_s", exponentials},
                 {"copy_B_per_s", rateOfBytes()}};
  report["products"] =
      countEqual<Gemm>(commands, [&](const Gemm &gemm, json &row) {
        if (gemm.inputType == ElementType::F64)
          fail("the Program has products of f64, which oneDNN has not");
        timeProduct(gemm, withOurs, row);
      });
  report["attention"] =
      countEqual<Attention>(commands, [&](const Attention &op, json &row) {
        double scores = double(op.batch * op.heads) * double(op.queries) *
                        double(op.keys) * seenPart(op);
        row["products_s"] = timeProducts(op);
        row["exponentials_s"] = scores / exponentials;
      });
  int64_t bytes = 0;
  for (const Command *command : commands) {
    bool isProduct = std::holds_alternative<Gemm>(command->operation) ||
                     std::holds_alternative<Attention>(command->operation);
    if (std::holds_alternative<Convolution>(command->operation))
      fail("the Program has convolutions, which have no roofline yet");
    bytes += isProduct ? 0 : command->bytes;
  }
  report["rest_B"] = bytes;
  std::cout << report.dump(1) << '\n';
  return 0;
}
} // namespace
} // namespace tandem::rt

int main(int argc, char **argv) {
  bool withOurs = argc == 3 && std::strcmp(argv[2], "--ours") == 0;
  if (argc != 2 && !withOurs)
    tandem::rt::fail("expected PROGRAM.tdm [--ours]");
  try {
    return tandem::rt::run(argv[1], withOurs);
  } catch (const dnnl::error &error) {
    tandem::rt::fail(error.what());
  }
}
