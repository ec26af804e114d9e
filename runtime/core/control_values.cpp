//===- control_values.cpp - values over the control connection ------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/control.h"
#include "core/control_server.h"
#include "core/text.h"

namespace tandem::rt {

namespace {
/// For what may take any time: who waits is woken when a process is lost, and
/// that is found within the timeout.
constexpr std::chrono::hours kWhileHeard(24 * 365);
} // namespace

void Control::set(const std::string &key, const std::string &value) {
  send(
      Packer().number(uint64_t(ControlMessage::Set)).string(key).string(value));
}

Expected<std::string> Control::get(const std::string &key) {
  return get(key, job.timeout);
}

Expected<std::string> Control::get(const std::string &key,
                                   std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex);
  uint64_t number = numRequests++;
  lock.unlock();
  send(Packer()
           .number(uint64_t(ControlMessage::Get))
           .number(number)
           .string(key));
  lock.lock();
  changed.wait_for(lock, limit,
                   [&] { return fatal || values.contains(number); });
  auto it = values.find(number);
  if (it == values.end())
    return fatal ? *fatal
                 : errorOf("no process has said '", key, "' within ",
                           limit.count(), " ms");
  std::string value = std::move(it->second);
  values.erase(it);
  return value;
}

uint64_t Control::nextTurn() {
  std::lock_guard lock(mutex);
  return numExchanges++;
}

Expected<std::vector<std::string>> Control::exchange(const std::string &what,
                                                     const std::string &text) {
  return exchange(what, text, job.timeout);
}

/// The server gives each text to all before it hears anything else of its
/// process.
Expected<std::vector<std::string>>
Control::exchange(const std::string &what, const std::string &text,
                  std::chrono::milliseconds limit) {
  uint64_t turn = nextTurn();
  send(Packer()
           .number(uint64_t(ControlMessage::Share))
           .number(turn)
           .string(Packer().string(what).string(text).text()));
  std::unique_lock lock(mutex);
  int64_t process = 0; // the first that has not come
  auto hasCome = [&] { return shared.contains({turn, process}); };
  auto haveAll = [&] {
    while (process < job.worldSize && hasCome())
      ++process;
    return process == job.worldSize;
  };
  changed.wait_for(lock, limit, [&] {
    return haveAll() || fatal || left.contains(process);
  });
  if (process < job.worldSize)
    return missedIn(what, process, limit);
  std::vector<std::string> texts;
  for (process = 0; process < job.worldSize; ++process) {
    auto came = shared.extract({turn, process});
    Unpacker fields(came.mapped());
    if (std::string other = fields.string(); other != what)
      return errorOf("process ", process, " exchanges ", other, ", process ",
                     job.rank, " ", what,
                     ", expected the same calls on all processes");
    texts.push_back(fields.string());
  }
  return texts;
}

Status Control::missedIn(const std::string &what, int64_t process,
                         std::chrono::milliseconds limit) const {
  if (fatal)
    return errorOf(fatal->message(), "; missed in the exchange of ", what);
  if (left.contains(process))
    return errorOf("process ", process,
                   " has left the job; missed in the exchange of ", what);
  return errorOf("process ", process, " has not come to the exchange of ", what,
                 " within ", limit.count(), " ms");
}

/// In pieces that a slow link takes between two beats. What process 0 has to
/// say may take it any time: as long as it is heard of, it is waited for. It
/// stays until all have it.
Expected<std::string> Control::broadcast(const std::string &value) {
  constexpr size_t kPiece = 128 << 10;
  uint64_t turn = nextTurn();
  auto keyOf = [&](size_t piece) {
    return concat("broadcast ", turn, "/", piece);
  };
  if (job.rank == 0) {
    set(keyOf(0), std::to_string(value.size()));
    for (size_t at = 0; at < value.size(); at += kPiece)
      set(keyOf(at / kPiece + 1), value.substr(at, kPiece));
    Status all = conclude("what process 0 gives", "");
    return all.ok() ? Expected<std::string>(value) : all;
  }
  Expected<std::string> size = get(keyOf(0), kWhileHeard);
  std::string result;
  for (size_t piece = 1; size.ok() && result.size() < std::stoull(*size);
       ++piece) {
    Expected<std::string> next = get(keyOf(piece));
    if (!next.ok())
      return next;
    result += *next;
  }
  if (!size.ok())
    return size;
  Status all = conclude("what process 0 gives", "");
  return all.ok() ? Expected<std::string>(std::move(result)) : all;
}

Expected<ClockReading> Control::ping() {
  std::unique_lock lock(mutex);
  uint64_t number = numRequests++;
  lock.unlock();
  int64_t sent = nanosecondsNow();
  send(Packer().number(uint64_t(ControlMessage::Ping)).number(number));
  lock.lock();
  changed.wait_for(lock, job.timeout,
                   [&] { return fatal || pongs.contains(number); });
  auto it = pongs.find(number);
  if (it == pongs.end())
    return fatal ? *fatal
                 : errorOf("process 0 has not said its time within ",
                           job.timeout.count(), " ms");
  auto [there, arrived] = it->second;
  pongs.erase(it);
  int64_t half = (arrived - sent + 1) / 2;
  return ClockReading{job.rank, sent + half, there - (sent + half), half};
}

Expected<ClockReading> Control::readClock() {
  constexpr int kRoundTrips = 32;
  ClockReading best{.process = job.rank, .at = nanosecondsNow()};
  for (int i = 0; i < kRoundTrips && job.rank != 0; ++i) {
    Expected<ClockReading> next = ping();
    if (!next.ok())
      return next;
    if (i == 0 || next->error < best.error)
      best = *next;
  }
  return best;
}

Status Control::agree(const std::string &what, const std::string &text) {
  auto texts = exchange(what, text);
  if (!texts.ok())
    return texts.status();
  for (size_t process = 1; process < texts->size(); ++process)
    if ((*texts)[process] != (*texts)[0])
      return errorOf("process ", process, " has ", what, " ", (*texts)[process],
                     ", expected ", (*texts)[0], " as process 0");
  return Status::success();
}

Status Control::conclude(const std::string &what, const std::string &error) {
  auto texts = exchange(what, error);
  if (!texts.ok())
    return texts.status();
  for (size_t process = 0; process < texts->size(); ++process)
    if (!(*texts)[process].empty())
      return errorOf("process ", process, " ended with ", (*texts)[process]);
  return Status::success();
}

Status Control::finish() { return exchange("end", "", kWhileHeard).status(); }

} // namespace tandem::rt
