//===- Replay.cpp - gives a target the files of its corpus ----------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// `fuzz-TARGET FOLDER`: the main of a target where it is not linked with
// libFuzzer.
//
//===----------------------------------------------------------------------===//

#include "Fuzz.h"
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

int main(int argc, char **argv) {
  unsigned numFiles = 0;
  for (int i = 1; i < argc; ++i)
    for (const auto &entry : std::filesystem::directory_iterator(argv[i])) {
      std::ifstream file(entry.path(), std::ios::binary);
      std::vector<char> content(std::istreambuf_iterator<char>(file), {});
      printf("%s\n", entry.path().filename().c_str());
      fflush(stdout);
      LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t *>(content.data()),
                             content.size());
      ++numFiles;
    }
  if (numFiles == 0)
    fprintf(stderr, "found no file, expected a folder with some\n");
  return numFiles == 0;
}
