//===- Candidate.cpp - a layout that becomes a Program --------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Candidate.h"
#include "tandem/Prediction/Prediction.h"
#include "tandem/Support/ByteSize.h"
#include "tandem_rt/program.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <map>
#include <tuple>

using namespace tandem;

bool tandem::isSame(const Candidate &first, const Candidate &second) {
  auto tie = [](const CompileOptions &own) {
    return std::tie(own.mesh, own.search, own.preset, own.order, own.sections,
                    own.pins, own.accumulate, own.micro);
  };
  return tie(first.options) == tie(second.options);
}

bool tandem::isBetter(const Candidate &first, const Candidate &second) {
  auto getKey = [](const Candidate &candidate) {
    return std::make_tuple(!candidate.failure.empty(), candidate.excess,
                           !candidate.isPriced, candidate.seconds,
                           !candidate.isOpen(), candidate.number);
  };
  return getKey(first) < getKey(second);
}

/// Of ranks that do the same at the same time, one is looked at.
std::string tandem::measure(Candidate &candidate, const std::string &bytes,
                            const std::string &cluster,
                            llvm::ArrayRef<int64_t> memory) {
  auto report = simulateMade(bytes, cluster);
  if (!report.ok())
    return report.status().message();
  const rt::Simulated &simulated = report->simulated;
  const rt::TimelineHead &head = simulated.timeline.head;
  auto numRanks = static_cast<double>(head.numRanks());
  std::map<int64_t, double> shares;
  for (int64_t rank : simulated.equalTo)
    shares[rank] += 1 / numRanks;
  candidate.seconds = report->seconds;
  double idle = 0;
  std::map<int64_t, double> idles, exposed;
  for (const rt::QueueTimes &queue : report->queues) {
    exposed[queue.rank] += queue.exposed;
    if (head.queues[queue.queue].role == rt::QueueRole::Compute)
      idles[queue.rank] += queue.idle;
  }
  // Queues of a rank communicate at the same time.
  for (auto [rank, share] : shares) {
    idle += share * idles[rank];
    candidate.exposed += share * std::min(exposed[rank], idles[rank]);
  }
  candidate.bubble = candidate.seconds > 0 ? idle / candidate.seconds : 0;
  std::string failure;
  int64_t most = 0;
  candidate.held.resize(head.rankPrograms.size());
  for (const SimulationReport::Memory &each : report->memory) {
    int64_t &held = candidate.held[head.rankToProgram[each.rank]];
    held = std::max(held, each.use.held);
    int64_t excess = memory.empty() ? 0 : each.use.held - memory[each.rank];
    if (excess <= most)
      continue;
    candidate.excess = most = excess;
    failure = "holds " + printByteSize(each.use.held) + " on rank " +
              std::to_string(each.rank) + ", " + printByteSize(excess) +
              " more than the limit of " + printByteSize(memory[each.rank]);
  }
  return failure;
}

std::vector<std::string>
tandem::printTable(llvm::ArrayRef<Candidate> candidates, int64_t devices,
                   llvm::StringRef cluster, llvm::StringRef end) {
  size_t width = 0;
  for (const Candidate &candidate : candidates)
    width = std::max(width, candidate.name.size());
  std::vector<std::string> table;
  table.push_back(llvm::formatv(
      "layouts: {0} devices of {1}, {2} of {3} became Programs, fastest first",
      devices, cluster,
      llvm::count_if(candidates,
                     [](const Candidate &each) {
                       return each.failure.empty() && each.isPriced;
                     }),
      candidates.size()));
  double fastest = candidates.front().seconds;
  for (const Candidate &candidate : candidates) {
    std::string line = "  " + candidate.name;
    line.append(width - candidate.name.size() + 2, ' ');
    if (!candidate.failure.empty()) {
      table.push_back(line + candidate.failure);
      continue;
    }
    if (!candidate.isPriced) {
      table.push_back(line + "planned, and not priced " + end.str());
      continue;
    }
    line += llvm::formatv("step {0:F6} s, bubble {1:F1} %, exposed {2:F6} s, "
                          "holds",
                          candidate.seconds, 100 * candidate.bubble,
                          candidate.exposed);
    for (auto [i, held] : llvm::enumerate(candidate.held))
      line += (i ? ", " : " ") + printByteSize(held);
    if (candidate.seconds > fastest)
      line += llvm::formatv("; {0:F1} % slower",
                            100 * (candidate.seconds / fastest - 1));
    table.push_back(line);
  }
  return table;
}
