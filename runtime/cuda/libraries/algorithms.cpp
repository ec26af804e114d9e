//===- algorithms.cpp - cuBLASLt algorithms -------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cuda/libraries/algorithms.h"
#include "core/kept.h"
#include "core/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <sstream>

namespace tandem::rt::cuda {

namespace {
/// Below so many operations starting a product takes longer than the product.
constexpr double kLeastFlops = 1 << 24;
/// How many algorithms are tried.
constexpr int kMostTried = 8;

/// Measures algorithms of one product, with operands of its own.
class Trial {
public:
  Trial(std::shared_ptr<Gpu> gpu, Product &product)
      : gpu(std::move(gpu)), product(product) {}

  /// False where there is no room for the operands.
  Expected<bool> prepare(const std::vector<Algorithm> &candidates);
  /// Seconds that it takes; infinite where the library refuses it.
  Expected<double> run(const Algorithm &algorithm);

private:
  std::shared_ptr<Gpu> gpu;
  Product &product;
  std::array<Memory, 6> memory; ///< Those of OfBuffers, and the workspace.
  Stream stream;
  Event begin, end;
};

/// Numbers far from those with which a GPU is slower or quicker.
Expected<bool> Trial::prepare(const std::vector<Algorithm> &candidates) {
  constexpr unsigned char kByte = 0x3d; // 0.046 as bf16 and as float
  OfBuffers<int64_t> spans = product.spans();
  size_t workspace = 0;
  for (const Algorithm &algorithm : candidates)
    workspace = std::max(workspace, algorithm.workspaceBytes);
  int64_t needed = 0, sizes[] = {spans.a,
                                 spans.b,
                                 spans.c,
                                 spans.bias,
                                 spans.preActivation,
                                 int64_t(workspace)};
  for (int64_t size : sizes)
    needed += size;
  size_t free = 0, total = 0;
  Status status =
      gpu->check(gpu->driver.memGetInfo(&free, &total), "ask for memory");
  if (!status.ok() || needed > int64_t(free))
    return status.ok() ? Expected<bool>(false) : status;
  for (size_t i = 0; i < memory.size(); ++i) {
    Expected<Memory> made = Memory::allocate(gpu, sizes[i]);
    if (!made.ok())
      return false; // in pieces
    memory[i] = std::move(*made);
  }
  auto made = Stream::create(gpu);
  auto first = Event::create(gpu, /*isTimed=*/true);
  auto second = Event::create(gpu, /*isTimed=*/true);
  for (const Status &each : {made.status(), first.status(), second.status()})
    if (!each.ok())
      return each;
  stream = std::move(*made);
  begin = std::move(*first), end = std::move(*second);
  for (size_t i = 0; i < memory.size() && status.ok(); ++i)
    status =
        gpu->check(gpu->driver.memsetD8Async(memory[i].address(), kByte,
                                             size_t(sizes[i]), stream.get()),
                   "make numbers for a product");
  return status.ok() ? Expected<bool>(true) : status;
}

Expected<double> Trial::run(const Algorithm &algorithm) {
  const Driver &driver = gpu->driver;
  Operands at{memory[0].address(), memory[1].address(), memory[2].address(),
              memory[3].address(), memory[4].address()};
  Status status = gpu->check(driver.eventRecord(begin.get(), stream.get()),
                             "measure a product");
  if (!status.ok())
    return status;
  if (!product.enqueueOne(at, algorithm, memory[5].address(), stream.get())
           .ok())
    return std::numeric_limits<double>::infinity();
  float milliseconds = 0;
  for (CUresult result :
       {driver.eventRecord(end.get(), stream.get()),
        driver.streamSynchronize(stream.get()),
        driver.eventElapsedTime(&milliseconds, begin.get(), end.get())})
    if (status.ok())
      status = gpu->check(result, "measure a product");
  return status.ok() ? Expected<double>(1e-3 * double(milliseconds)) : status;
}
} // namespace

bool isMeasured(const Gemm &gemm) {
  return 2.0 * double(numElements(gemm.batch)) * double(gemm.m) *
             double(gemm.n) * double(gemm.k) >=
         kLeastFlops;
}

/// The least of some turns, as what else the GPU does only adds. Another one
/// has to be worth more than what it may seem to be by chance.
Expected<std::optional<Algorithm>>
measure(const std::shared_ptr<Gpu> &gpu, Product &product,
        const std::vector<Algorithm> &candidates,
        const Algorithms::IsCancelled &isCancelled) {
  constexpr int kTurns = 5;
  constexpr double kEnough = 0.1, kClearly = 0.97; // seconds; of the first
  using Chosen = std::optional<Algorithm>;
  Trial trial(gpu, product);
  Expected<bool> hasRoom = trial.prepare(candidates);
  if (!hasRoom.ok() || !*hasRoom)
    return hasRoom.ok() ? Expected<Chosen>(Chosen()) : hasRoom.status();
  std::vector<double> least(candidates.size());
  double spent = 0;
  for (int turn = 0; turn <= kTurns && spent < kEnough; ++turn)
    for (size_t i = 0; i < candidates.size(); ++i) {
      if (isCancelled && isCancelled())
        return errorOf("making the session was cancelled");
      Expected<double> time = trial.run(candidates[i]);
      if (!time.ok())
        return time.status();
      // The first turn warms up what has another one.
      least[i] = turn > 1 ? std::min(least[i], *time) : *time;
      spent += std::isfinite(*time) ? *time : 0;
    }
  auto best = std::ranges::min_element(least);
  if (best == least.end() || !std::isfinite(*best))
    return Chosen();
  bool isClear = *best < kClearly * least.front();
  return Chosen(isClear ? candidates[size_t(best - least.begin())]
                        : candidates.front());
}

std::string wordOf(const MatmulAlgorithm &algorithm) {
  std::string word;
  char digits[17];
  for (uint64_t number : algorithm.data) {
    std::snprintf(digits, sizeof digits, "%016llx",
                  static_cast<unsigned long long>(number));
    word += digits;
  }
  return word;
}

std::optional<MatmulAlgorithm> parseAlgorithm(const std::string &word) {
  MatmulAlgorithm algorithm;
  constexpr size_t kDigits = 16;
  if (word.size() != kDigits * std::size(algorithm.data))
    return std::nullopt;
  const char *at = word.data();
  for (uint64_t &number : algorithm.data) {
    auto [end, error] = std::from_chars(at, at + kDigits, number, 16);
    if (error != std::errc() || end != at + kDigits)
      return std::nullopt;
    at = end;
  }
  return algorithm;
}

//===----------------------------------------------------------------------===//
// Those of a program
//===----------------------------------------------------------------------===//

Status Algorithms::choose(const std::shared_ptr<Gpu> &gpu,
                          const std::vector<std::unique_ptr<Rank>> &ranks,
                          const IsCancelled &isCancelled) {
  for (const std::unique_ptr<Rank> &rank : ranks)
    for (const Command *command : rank->program.listing())
      if (const auto *gemm = std::get_if<Gemm>(&command->operation))
        if (isMeasured(*gemm))
          if (Status status = add(gpu, rank->memory, *gemm, isCancelled);
              !status.ok())
            return status;
  return Status::success();
}

Status Algorithms::add(const std::shared_ptr<Gpu> &gpu,
                       const RankMemory &memory, const Gemm &gemm,
                       const IsCancelled &isCancelled) {
  Expected<std::unique_ptr<Product>> made = Product::describe(*gpu, gemm);
  if (!made.ok() || !*made)
    return made.status();
  Product &product = **made;
  Alignments alignments = product.alignmentsOf(product.addressesIn(memory));
  std::string key = product.keyOf(alignments);
  if (measured.contains(key))
    return Status::success();
  auto parse = [&](const std::string &word) -> std::optional<MatmulAlgorithm> {
    std::optional<MatmulAlgorithm> code = parseAlgorithm(word);
    return code && product.check(*code, alignments) ? code : std::nullopt;
  };
  std::optional<MatmulAlgorithm> known;
  if (std::optional<std::string> word = findKept(key))
    known = parse(*word);
  if (!known) {
    auto candidates = product.list(alignments, kMostTried);
    if (!candidates.ok() || candidates->empty())
      return candidates.status();
    auto best = measure(gpu, product, *candidates, isCancelled);
    if (!best.ok() || !*best)
      return best.status();
    known =
        parseAlgorithm(keep(key, wordOf((*best)->code), [&](const auto &word) {
          return parse(word).has_value();
        }));
  }
  measured.emplace(key, *known);
  return Status::success();
}

/// A line each.
Status Algorithms::agree(Fabric &fabric, int64_t numRanks) {
  std::string own;
  for (const auto &[key, algorithm] : measured)
    own += wordOf(algorithm) + " " + key + "\n";
  std::map<std::string, MatmulAlgorithm> agreed;
  for (int64_t rank = 0; rank < numRanks; ++rank) {
    uint64_t bytes = own.size();
    std::string text = own;
    Status status = fabric.move(rank, {}, &bytes, sizeof bytes);
    if (!status.ok())
      return status;
    if (bytes == 0)
      continue;
    text.resize(bytes);
    if (status = fabric.move(rank, {}, text.data(), bytes); !status.ok())
      return status;
    std::istringstream lines(text);
    std::string word, key;
    while (lines >> word && std::getline(lines >> std::ws, key))
      if (std::optional<MatmulAlgorithm> algorithm = parseAlgorithm(word))
        agreed.emplace(key, *algorithm);
  }
  measured = std::move(agreed);
  return Status::success();
}

Expected<std::optional<Algorithm>>
Algorithms::find(Product &product, const Alignments &alignments) const {
  using Found = std::optional<Algorithm>;
  if (isMeasured(product.getOp()))
    if (auto known = measured.find(product.keyOf(alignments));
        known != measured.end())
      if (Found algorithm = product.check(known->second, alignments))
        return algorithm;
  Expected<std::vector<Algorithm>> first = product.list(alignments, 1);
  if (!first.ok())
    return first.status();
  return first->empty() ? Found() : Found(first->front());
}

} // namespace tandem::rt::cuda
