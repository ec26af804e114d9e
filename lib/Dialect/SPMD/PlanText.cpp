//===- PlanText.cpp - copies of values in a plan --------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/SPMD/PlanText.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <charconv>

using namespace tandem::spmd;
using llvm::SmallVector;
using llvm::StringRef;

std::string tandem::spmd::printNumber(double value) {
  char text[32];
  auto *end = std::to_chars(text, text + sizeof text, value).ptr;
  return std::string(text, end);
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

std::string tandem::spmd::printPath(llvm::ArrayRef<Forms> path) {
  return llvm::join(
      llvm::map_range(path,
                      [](const Forms &forms) { return printForms(forms); }),
      " -> ");
}

std::string tandem::spmd::print(const Copy &copy) {
  return copy.pass + (copy.isKept ? " kept " : " ") + printPath(copy.path);
}

std::optional<Copy> tandem::spmd::parseCopy(StringRef text) {
  auto [pass, rest] = text.split(' ');
  Copy copy{pass.str(), rest.consume_front("kept "), {}};
  SmallVector<StringRef> parts;
  rest.split(parts, "->");
  for (StringRef part : parts) {
    std::optional<Forms> forms = parseForms(part);
    if (!forms ||
        (!copy.path.empty() && forms->size() != copy.path.front().size()))
      return std::nullopt;
    copy.path.push_back(*forms);
  }
  bool isPass = pass == "forward" || pass == "backward" || pass == "update";
  return isPass && parts.size() > 1 ? std::optional(copy) : std::nullopt;
}

//===----------------------------------------------------------------------===//
// What waits
//===----------------------------------------------------------------------===//

std::string tandem::spmd::print(const Wait &wait) {
  return printForms(wait.forms) +
         (wait.pieces.empty() ? "" : " in " + printPieces(wait.pieces));
}

std::optional<Wait> tandem::spmd::parseWait(StringRef text,
                                            StringRef *wrongPieces) {
  auto [first, slots] = text.split(" in ");
  std::optional<Forms> forms = parseForms(first);
  if (!forms)
    return std::nullopt;
  Wait wait{*forms, {}};
  if (slots.empty())
    return wait;
  std::optional<Pieces> pieces = parsePieces(slots);
  if (!pieces && wrongPieces)
    *wrongPieces = slots;
  if (!pieces)
    return std::nullopt;
  wait.pieces = *pieces;
  return wait;
}

//===----------------------------------------------------------------------===//
// Pieces
//===----------------------------------------------------------------------===//

static std::string printPiece(const Piece &piece) {
  return std::to_string(piece.stage) + "/" + std::to_string(piece.strand) +
         " " + printNumber(piece.end);
}

std::string tandem::spmd::printPieces(const Pieces &pieces) {
  auto printOne = [](const SmallVector<Piece, 2> &collective) {
    return llvm::join(llvm::map_range(collective, printPiece), ", ");
  };
  return llvm::join(llvm::map_range(pieces, printOne), " then ");
}

/// Reads `3/1 0.25`.
static std::optional<Piece> parsePiece(StringRef text) {
  Piece piece;
  auto [slot, share] = text.trim().split(' ');
  auto [stage, strand] = slot.split('/');
  if (stage.getAsInteger(10, piece.stage) ||
      strand.getAsInteger(10, piece.strand) || share.getAsDouble(piece.end))
    return std::nullopt;
  return piece;
}

std::optional<Pieces> tandem::spmd::parsePieces(StringRef text) {
  Pieces pieces;
  SmallVector<StringRef> collectives, parts;
  text.split(collectives, " then ");
  std::pair<unsigned, unsigned> last;
  for (StringRef collective : collectives) {
    double done = 0;
    parts.clear();
    collective.split(parts, ',');
    pieces.emplace_back();
    for (StringRef part : parts) {
      std::optional<Piece> piece = parsePiece(part);
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
