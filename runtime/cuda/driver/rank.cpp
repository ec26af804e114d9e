//===- rank.cpp - the commands of a rank on a GPU -------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cuda/driver/rank.h"

#include <utility>

namespace tandem::rt::cuda {

Expected<Stream> Stream::create(std::shared_ptr<Gpu> gpu, bool isFirst) {
  Stream made;
  int least = 0, greatest = 0;
  Status status =
      gpu->check(gpu->driver.contextGetPriorities(&least, &greatest),
                 "ask for priorities");
  if (status.ok())
    status =
        gpu->check(gpu->driver.streamCreateWithPriority(
                       &made.stream, kNonBlocking, isFirst ? greatest : least),
                   "make a stream");
  if (!status.ok())
    return status;
  made.gpu = std::move(gpu);
  return made;
}
Stream::Stream(Stream &&other) noexcept
    : gpu(std::move(other.gpu)), stream(std::exchange(other.stream, nullptr)) {}
Stream &Stream::operator=(Stream &&other) noexcept {
  std::swap(gpu, other.gpu);
  std::swap(stream, other.stream);
  return *this;
}
Stream::~Stream() {
  if (!stream)
    return;
  if (Present present(*gpu); present.ok())
    gpu->driver.streamDestroy(stream);
}

Expected<Event> Event::create(std::shared_ptr<Gpu> gpu, bool isTimed) {
  Event made;
  if (Status status = gpu->check(
          gpu->driver.eventCreate(&made.event, isTimed ? 0 : kDisableTiming),
          "make an event");
      !status.ok())
    return status;
  made.gpu = std::move(gpu);
  return made;
}
Event::Event(Event &&other) noexcept
    : gpu(std::move(other.gpu)), event(std::exchange(other.event, nullptr)) {}
Event &Event::operator=(Event &&other) noexcept {
  std::swap(gpu, other.gpu);
  std::swap(event, other.event);
  return *this;
}
Event::~Event() {
  if (!event)
    return;
  if (Present present(*gpu); present.ok())
    gpu->driver.eventDestroy(event);
}

} // namespace tandem::rt::cuda
