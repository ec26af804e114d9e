//===- Timelines.cpp - reading timelines from Python ----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Bindings.h"

#include "tandem_rt/new_file.h"
#include "tandem_rt/report.h"

namespace tandem::python {

namespace {
template <typename T> T take(rt::Expected<T> value) {
  check(value.status(), "TimelineError");
  return std::move(*value);
}

/// The report as text and as JSON.
std::pair<std::string, std::string>
report(const std::string &path, const std::optional<std::string> &predicted,
       int64_t skip) {
  nb::gil_scoped_release unlocked;
  auto timeline = rt::readTimeline(path);
  auto make = [&]() -> rt::Expected<rt::Report> {
    if (!timeline.ok())
      return timeline.status();
    if (!predicted)
      return rt::makeReport(*timeline, nullptr, {skip});
    auto other = rt::readPrediction(timeline->head, *predicted);
    return other.ok() ? rt::makeReport(*timeline, &*other, {skip})
                      : rt::Expected<rt::Report>(other.status());
  };
  auto made = make();
  if (!made.ok()) {
    nb::gil_scoped_acquire locked;
    check(made.status(), "TimelineError");
  }
  return {rt::printText(*made), rt::printJson(*made)};
}

void drawPicture(const std::string &path, const std::string &picture,
                 std::optional<int64_t> step, const std::vector<int64_t> &ranks,
                 int64_t width) {
  rt::Timeline timeline = take(rt::readTimeline(path));
  std::string svg = take(rt::drawTimeline(timeline, {step, ranks, width}));
  rt::NewFile file(picture, rt::kPictureFile);
  file.stream() << svg;
  check(file.finish(), "TimelineError");
}

/// A step of the timeline, and of the prediction, as JSON.
std::string printStep(const std::string &path,
                      const std::optional<std::string> &predicted,
                      std::optional<int64_t> step,
                      const std::vector<int64_t> &ranks) {
  rt::Timeline timeline = take(rt::readTimeline(path));
  if (predicted)
    timeline = take(rt::readPrediction(timeline.head, *predicted));
  return take(rt::printStep(timeline, {step, ranks}));
}
} // namespace

void bindTimelines(nb::module_ &module) {
  module.def("report", &report, nb::arg("timeline"), nb::arg("predicted"),
             nb::arg("skip"));
  module.def("print_step", &printStep, nb::arg("timeline"),
             nb::arg("predicted"), nb::arg("step"), nb::arg("ranks"));
  module.def("draw_picture", &drawPicture, nb::arg("timeline"),
             nb::arg("picture"), nb::arg("step"), nb::arg("ranks"),
             nb::arg("width"));
}

} // namespace tandem::python
