//===- embed.cpp - texts as an array of C++ -------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// embed <output> <text>...: run when the runtime is built. PTX without comments
// and indentation, packed as packed.h says, as many users have no GPU.
//
//===----------------------------------------------------------------------===//

#include "packed.h"

#include <fstream>
#include <iostream>
#include <sstream>
#include <string_view>
#include <unordered_map>
#include <vector>

using namespace tandem::rt::cuda;

namespace {
std::string readFile(const char *path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  content << file.rdbuf();
  if (!file)
    std::cerr << "embed: cannot read " << path << "\n";
  return content.str();
}

/// What the assembler reads of each line.
std::string strip(const std::string &text) {
  std::istringstream lines(text);
  std::string stripped, line;
  while (std::getline(lines, line)) {
    line = line.substr(0, line.find("//"));
    size_t first = line.find_first_not_of(" \t");
    if (first == std::string::npos)
      continue;
    size_t last = line.find_last_not_of(" \t");
    stripped.append(line, first, last - first + 1) += '\n';
  }
  return stripped;
}

void put(std::string &packed, size_t number) {
  for (; number >= 128; number >>= 7)
    packed += char(number | 128);
  packed += char(number);
}

/// Finds what has been there before.
class Packer {
public:
  explicit Packer(const std::string &text) : text(text) {}
  std::string pack();

private:
  static constexpr size_t kLeast = 6, kMostTried = 128;
  struct Match {
    size_t length = 0, from = 0;
  };
  Match find(size_t at) const;
  void remember(size_t at);

  const std::string &text;
  std::unordered_map<std::string_view, std::vector<size_t>> places;
};

Packer::Match Packer::find(size_t at) const {
  Match best;
  auto known = places.find(std::string_view(text).substr(at, kLeast));
  if (known == places.end())
    return best;
  size_t tried = 0;
  for (auto from = known->second.rbegin();
       from != known->second.rend() && tried < kMostTried; ++from, ++tried) {
    size_t length = 0;
    while (at + length < text.size() &&
           text[*from + length] == text[at + length])
      ++length;
    if (length > best.length)
      best = {length, *from};
  }
  return best;
}

void Packer::remember(size_t at) {
  if (at + kLeast <= text.size())
    places[std::string_view(text).substr(at, kLeast)].push_back(at);
}

std::string Packer::pack() {
  std::string packed;
  for (size_t at = 0, begin = 0; begin < text.size();) {
    Match match = at < text.size() ? find(at) : Match();
    if (at < text.size() && match.length < kLeast) {
      remember(at++);
      continue;
    }
    put(packed, at - begin);
    packed.append(text, begin, at - begin);
    put(packed, match.length);
    put(packed, at - match.from);
    for (size_t end = at + match.length; at < end; ++at)
      remember(at);
    begin = at;
  }
  return packed;
}
} // namespace

int main(int argc, char **argv) {
  std::string texts;
  for (int i = 2; i < argc; ++i)
    texts += strip(readFile(argv[i])) + '\0';
  std::string packed = Packer(texts).pack();
  if (argc < 2 || unpack(packed.data(), packed.size()) != texts) {
    std::cerr << "embed: what is packed is not the text\n";
    return 1;
  }
  std::ofstream output(argv[1]);
  output << "#include <cstddef>\n\nnamespace tandem::rt::cuda {\n"
            "extern const unsigned char kPackedPtx[];\n"
            "extern const size_t kPackedPtxBytes;\n"
            "const unsigned char kPackedPtx[] = {";
  for (size_t i = 0; i < packed.size(); ++i)
    output << (i % 32 ? "" : "\n") << unsigned(uint8_t(packed[i])) << ",";
  output << "0};\nconst size_t kPackedPtxBytes = " << packed.size()
         << ";\n} // namespace tandem::rt::cuda\n";
  return output ? 0 : 1;
}
