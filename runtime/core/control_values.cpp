//===- control_values.cpp - what processes tell each other ----------------===//
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

Expected<std::vector<std::string>> Control::exchange(const std::string &what,
                                                     const std::string &text) {
  uint64_t turn;
  {
    std::lock_guard lock(mutex);
    turn = numExchanges++;
  }
  auto keyOf = [&](int64_t process) {
    return concat("exchange ", turn, "/", process);
  };
  set(keyOf(job.rank), Packer().string(what).string(text).text());
  std::vector<std::string> texts;
  for (int64_t process = 0; process < job.worldSize; ++process) {
    Expected<std::string> got = get(keyOf(process));
    if (!got.ok())
      return errorOf("process ", process, " has not come to the exchange of ",
                     what, ": ", got.status().message());
    Unpacker fields(*got);
    if (std::string other = fields.string(); other != what)
      return errorOf("process ", process, " exchanges ", other, ", process ",
                     job.rank, " ", what,
                     ", expected the same calls on all processes");
    texts.push_back(fields.string());
  }
  return texts;
}

/// In pieces that a slow link takes between two beats. What process 0 has to
/// say may take it any time: as long as it is heard of, it is waited for.
Expected<std::string> Control::broadcast(const std::string &value) {
  constexpr size_t kPiece = 128 << 10;
  uint64_t turn;
  {
    std::lock_guard lock(mutex);
    turn = numExchanges++;
  }
  auto keyOf = [&](size_t piece) {
    return concat("broadcast ", turn, "/", piece);
  };
  if (job.rank == 0) {
    set(keyOf(0), std::to_string(value.size()));
    for (size_t at = 0; at < value.size(); at += kPiece)
      set(keyOf(at / kPiece + 1), value.substr(at, kPiece));
    return value;
  }
  Expected<std::string> size = get(keyOf(0), std::chrono::hours(24 * 365));
  std::string result;
  for (size_t piece = 1; size.ok() && result.size() < std::stoull(*size);
       ++piece) {
    Expected<std::string> next = get(keyOf(piece));
    if (!next.ok())
      return next;
    result += *next;
  }
  return size.ok() ? Expected<std::string>(std::move(result)) : size;
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

} // namespace tandem::rt
