//===- SchedulePace.cpp - when microbatches enter a schedule --------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SchedulePace.h"
#include <algorithm>

using namespace tandem::pipeline::schedule;
using tandem::orders::ActionKind;

Pace Pace::make(unsigned numPoints, unsigned numMicrobatches, unsigned numRules,
                Random &random) {
  Pace pace;
  pace.step = 0.8 + 0.4 * random.share();
  // Of a limit that is large nothing has to be spared.
  pace.atOnce = random.below(4) ? random.below(numPoints + 1) : numMicrobatches;
  pace.isOfAll = random.below(2);
  pace.stretch = random.below(2) ? 1 : 1 + 2 * random.share();
  pace.isByTime = pace.isOfAll && random.below(2);
  pace.rule = random.below(numRules);
  bool isPatient = random.below(2);
  pace.wait = isPatient ? 1 : random.below(3) * 0.5;
  pace.mostIdle = isPatient ? 3 * random.share() * random.share()
                            : static_cast<double>(numMicrobatches);
  return pace;
}

Pace Pace::vary(Random &random) const {
  Pace pace = *this;
  auto change = [&](double width) { return width * (random.share() - 0.5); };
  if (random.below(3) == 0 && pace.atOnce > 0)
    pace.atOnce += random.below(3) - 1;
  if (random.below(3) > 0)
    pace.step *= 1 + change(0.04);
  if (random.below(3) == 0)
    pace.stretch = std::max(1.0, pace.stretch + change(0.2));
  if (random.below(2))
    pace.mostIdle *= 1 + change(0.4);
  if (random.below(4) == 0)
    pace.wait = random.share();
  return pace;
}

double tandem::pipeline::schedule::getPeriod(const Model &model) {
  double period = 0;
  for (const Machine &machine : model.machines) {
    double seconds = 0;
    for (unsigned letter : machine.letters)
      if (model.letters[letter].kind)
        seconds += model.letters[letter].seconds;
    period = std::max(period, seconds);
  }
  return period;
}

std::vector<double> tandem::pipeline::schedule::makeReleases(const Model &model,
                                                             const Pace &pace) {
  double step = pace.step * getPeriod(model);
  std::vector<double> offsets(model.letters.size());
  std::vector<double> releases(model.numOperations);
  for (unsigned number : model.sequence) {
    const Letter &letter = model.letters[number];
    for (const Arc &need : letter.needs)
      offsets[number] =
          std::max(offsets[number],
                   offsets[need.letter] + need.seconds +
                       pace.stretch * model.letters[need.letter].seconds);
    if (letter.kind != ActionKind::Forward ||
        (!pace.isOfAll && !letter.needs.empty()))
      continue;
    for (unsigned i = 0; i < letter.count; ++i)
      releases[letter.first + i] =
          offsets[number] +
          (i < pace.atOnce ? 0 : step * (i - pace.atOnce + 1));
  }
  return releases;
}
