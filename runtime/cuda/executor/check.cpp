//===- check.cpp - checks that refuse a step ------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cuda/executor/check.h"
#include "cuda/kernels/words.h"

#include <algorithm>

namespace tandem::rt::cuda {

int64_t numElements(const Check &check) {
  return check.source ? check.source->bytes / elementBytes(check.type) : 0;
}

Expected<std::shared_ptr<Verdicts>>
Verdicts::create(std::shared_ptr<Gpu> gpu, int64_t elements, size_t members) {
  constexpr int64_t kElements = 256, kMaxPieces = 1024;
  auto made = std::make_shared<Verdicts>();
  made->pieces = std::clamp<int64_t>(elements / kElements, 1, kMaxPieces);
  Expected<Memory> words = Memory::allocate(
      std::move(gpu), int64_t(members) * made->bytesOfMember());
  if (!words.ok())
    return words.status();
  made->words = std::move(*words);
  return made;
}

Expected<std::unique_ptr<Work>> makeJudge(const std::shared_ptr<Gpu> &gpu,
                                          const Check &check, Address source,
                                          std::shared_ptr<Verdicts> verdicts,
                                          size_t member, int64_t count) {
  auto words = [&](int64_t iteration) {
    Words made(judge::End);
    made[judge::Count] = numElements(check);
    made[judge::Chunks] = verdicts->pieces;
    made[judge::Source] = int64_t(source.at(iteration));
    made[judge::Verdicts] = int64_t(verdicts->words.address()) +
                            int64_t(member) * verdicts->bytesOfMember();
    return made;
  };
  std::string symbol = "tandem_judge_" + std::string(elementName(check.type));
  auto work = makePlainWork(gpu, symbol, verdicts->pieces, count, words);
  return hold(std::move(verdicts), std::move(work));
}

Expected<std::unique_ptr<Work>> makeRefuse(const std::shared_ptr<Gpu> &gpu,
                                           std::shared_ptr<Verdicts> verdicts,
                                           size_t members, const Refusal &to) {
  Words words(refuse::Addresses);
  words[refuse::Count] = int64_t(members) * verdicts->pieces;
  words[refuse::Verdicts] = int64_t(verdicts->words.address());
  words[refuse::Verdict] = int64_t(to.verdict);
  words[refuse::Refused] = int64_t(to.refused);
  words[refuse::Reports] = int64_t(to.reports.size());
  words.insert(words.end(), to.reports.begin(), to.reports.end());
  auto work =
      makePlainWork(gpu, "tandem_refuse", 1, 1, [&](int64_t) { return words; });
  return hold(std::move(verdicts), std::move(work));
}

} // namespace tandem::rt::cuda
