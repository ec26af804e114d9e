//===- PlannedOrder.cpp - when a plan wants operators to run --------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Analysis/PlannedOrder.h"
#include <charconv>

using namespace tandem;
using llvm::SmallVector;
using llvm::StringRef;

/// Reads `3/1 0.25`.
static std::optional<PlannedPiece> parsePiece(StringRef text) {
  PlannedPiece piece;
  auto [slot, share] = text.trim().split(' ');
  auto [stage, strand] = slot.split('/');
  if (stage.getAsInteger(10, piece.stage) ||
      strand.getAsInteger(10, piece.strand) || share.getAsDouble(piece.end))
    return std::nullopt;
  return piece;
}

std::optional<PlannedPieces> tandem::parsePieces(StringRef text) {
  PlannedPieces pieces;
  SmallVector<StringRef> collectives, parts;
  text.split(collectives, " then ");
  std::pair<unsigned, unsigned> last;
  for (StringRef collective : collectives) {
    double done = 0;
    parts.clear();
    collective.split(parts, ',');
    pieces.emplace_back();
    for (StringRef part : parts) {
      std::optional<PlannedPiece> piece = parsePiece(part);
      // So that what is no number is refused as well.
      bool rises = piece && piece->end > done && piece->end <= 1;
      if (!rises || std::pair(piece->stage, piece->strand) < last)
        return std::nullopt;
      last = {piece->stage, piece->strand};
      done = piece->end;
      pieces.back().push_back(*piece);
    }
    if (done != 1)
      return std::nullopt;
  }
  return pieces;
}

std::string tandem::printPieces(const PlannedPieces &pieces) {
  std::string text;
  for (const auto &collective : pieces) {
    text += text.empty() ? "" : " then ";
    for (const PlannedPiece &piece : collective) {
      // The shortest share that reads back to the same number.
      char share[32];
      auto *end = std::to_chars(share, share + sizeof share, piece.end).ptr;
      text += (&piece == &collective.front() ? "" : ", ") +
              std::to_string(piece.stage) + "/" + std::to_string(piece.strand) +
              " " + std::string(share, end);
    }
  }
  return text;
}
