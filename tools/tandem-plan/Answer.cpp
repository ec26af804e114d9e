//===- Answer.cpp - files, errors and gaps of all problems ----------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Answer.h"
#include "tandem/Cost/Plan.h"
#include <algorithm>
#include <cmath>
#include <cstdio>

using namespace tandem;

int tandem::fail(const std::string &message) {
  fprintf(stderr, "error: %s\n", message.c_str());
  return 1;
}

std::optional<std::string> tandem::readFile(const std::string &path,
                                            std::string &error) {
  std::string why;
  std::optional<std::string> text = readTextFile(path, why);
  if (!text)
    error = path + ": cannot be read: " + why;
  return text;
}

int tandem::writeFile(const std::string &path, const FileKind &kind,
                      const std::string &text) {
  if (path.empty()) {
    fputs(text.c_str(), stdout);
    return 0;
  }
  std::string error;
  if (writeTextFile(path, kind, text, error))
    return 0;
  return fail("cannot write '" + path + "': " + error);
}

void tandem::printGap(const char *name, double cost, double bound) {
  double gap = cost::getGap(cost, bound);
  // The rest is that of floating point.
  if (std::isfinite(gap))
    printf("%s %.4f %%\n", name,
           std::max(0.0, std::ceil(1e6 * gap - 1e-3) / 1e4));
  else
    printf("%s unknown: no bound was proven\n", name);
}
