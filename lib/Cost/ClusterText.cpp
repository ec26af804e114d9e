//===- ClusterText.cpp - YAML tree with locations -------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ClusterText.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/Casting.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/YAMLParser.h"
#include <charconv>

using namespace tandem::cost;
namespace yaml = llvm::yaml;

TextNode *TextNode::find(std::string_view key) {
  for (size_t i = 0; i < keys.size(); ++i)
    if (keys[i] == key)
      return &items[i];
  return nullptr;
}

const TextNode *TextNode::find(std::string_view key) const {
  return const_cast<TextNode *>(this)->find(key);
}

//===----------------------------------------------------------------------===//
// From YAML
//===----------------------------------------------------------------------===//

/// What a cluster needs is four deep.
static constexpr unsigned kMaxDepth = 32;

namespace {
/// Turns LLVM's nodes into ours. The first error stays.
class TreeBuilder {
public:
  TreeBuilder(std::string_view text, std::string_view name, std::string &error)
      : name(name), error(error),
        stream(llvm::StringRef(text.data(), text.size()), sources, false) {
    sources.setDiagHandler(takeDiagnostic, this);
  }

  std::optional<TextNode> build();

private:
  static void takeDiagnostic(const llvm::SMDiagnostic &diagnostic, void *self);
  std::string getPlace(llvm::SMLoc location) const;
  bool fail(const std::string &place, std::string_view message);
  bool checkLines(const std::string &text, const std::string &place);
  bool convert(yaml::Node *node, TextNode &result);
  bool convertItems(yaml::Node *node, TextNode &result);
  bool convertMapping(yaml::MappingNode &mapping, TextNode &result);
  bool convertKey(yaml::KeyValueNode &entry, TextNode &result);

  std::string name;
  std::string &error;
  llvm::SourceMgr sources;
  yaml::Stream stream;
  /// Of lists and mappings in one another.
  unsigned depth = 0;
};
} // namespace

void TreeBuilder::takeDiagnostic(const llvm::SMDiagnostic &diagnostic,
                                 void *self) {
  auto *builder = static_cast<TreeBuilder *>(self);
  builder->fail(builder->name + ":" + std::to_string(diagnostic.getLineNo()),
                "found '" + diagnostic.getMessage().str() + "', expected YAML");
}

std::string TreeBuilder::getPlace(llvm::SMLoc location) const {
  unsigned line =
      location.isValid() ? sources.getLineAndColumn(location).first : 1;
  return name + ":" + std::to_string(line);
}

bool TreeBuilder::fail(const std::string &place, std::string_view message) {
  if (error.empty())
    error = place + ": " + std::string(message);
  return false;
}

/// Diagnostics quote what they found, on one line.
bool TreeBuilder::checkLines(const std::string &text,
                             const std::string &place) {
  return text.find_first_of("\r\n") == std::string::npos ||
         fail(place, "found a text of several lines, expected one line");
}

bool TreeBuilder::convertKey(yaml::KeyValueNode &entry, TextNode &result) {
  auto *key = llvm::dyn_cast_or_null<yaml::ScalarNode>(entry.getKey());
  if (!key)
    return fail(getPlace(entry.getSourceRange().Start),
                "found a key that is no word, expected 'key: value'");
  llvm::SmallString<32> storage;
  std::string text = key->getValue(storage).str();
  std::string place = getPlace(key->getSourceRange().Start);
  if (!checkLines(text, place))
    return false;
  if (result.find(text))
    return fail(place, "found key '" + text + "' again, expected it once");
  result.keys.push_back(text);
  result.keyPlaces.push_back(place);
  return true;
}

bool TreeBuilder::convertMapping(yaml::MappingNode &mapping, TextNode &result) {
  result.kind = TextNode::Kind::Mapping;
  for (yaml::KeyValueNode &entry : mapping) {
    if (!convertKey(entry, result))
      return false;
    TextNode item;
    if (!convert(entry.getValue(), item))
      return false;
    // YAML puts a value that is missing where the next key begins.
    if (item.kind == TextNode::Kind::Scalar && item.scalar.empty())
      item.place = result.keyPlaces.back();
    result.items.push_back(std::move(item));
  }
  return true;
}

bool TreeBuilder::convertItems(yaml::Node *node, TextNode &result) {
  if (++depth > kMaxDepth)
    return fail(result.place, "found lists or mappings more than " +
                                  std::to_string(kMaxDepth) +
                                  " deep in one another, expected less");
  bool isFine = true;
  if (auto *mapping = llvm::dyn_cast<yaml::MappingNode>(node)) {
    isFine = convertMapping(*mapping, result);
  } else {
    result.kind = TextNode::Kind::Sequence;
    for (yaml::Node &item : *llvm::cast<yaml::SequenceNode>(node))
      isFine = isFine && convert(&item, result.items.emplace_back());
  }
  --depth;
  return isFine;
}

bool TreeBuilder::convert(yaml::Node *node, TextNode &result) {
  if (!node)
    return fail(name + ":1", "found no value, expected one");
  result.place = getPlace(node->getSourceRange().Start);
  if (!node->getAnchor().empty() || !node->getRawTag().empty())
    return fail(result.place,
                "found an anchor or a tag, expected the value itself");
  if (auto *scalar = llvm::dyn_cast<yaml::ScalarNode>(node)) {
    llvm::SmallString<32> storage;
    result.scalar = scalar->getValue(storage).str();
    return checkLines(result.scalar, result.place);
  }
  if (llvm::isa<yaml::NullNode>(node))
    return true; // an empty scalar: whoever reads it says what it wants
  if (!llvm::isa<yaml::MappingNode, yaml::SequenceNode>(node))
    return fail(result.place,
                "found an alias or a block of text, expected a plain value");
  return convertItems(node, result);
}

std::optional<TextNode> TreeBuilder::build() {
  TextNode root;
  yaml::document_iterator document = stream.begin();
  bool isFine = document != stream.end() && convert(document->getRoot(), root);
  // Broken text ends a list early: only then does the stream know.
  if (stream.failed() || !error.empty() || !isFine) {
    fail(name + ":1", "found no YAML document, expected a cluster");
    return std::nullopt;
  }
  if (++document != stream.end() && document->getRoot() &&
      !llvm::isa<yaml::NullNode>(document->getRoot())) {
    fail(getPlace(document->getRoot()->getSourceRange().Start),
         "found a second document, expected one");
    return std::nullopt;
  }
  if (stream.failed() || !error.empty())
    return std::nullopt;
  return root;
}

std::optional<TextNode> tandem::cost::parseTree(std::string_view text,
                                                std::string_view name,
                                                std::string &error) {
  error.clear();
  return TreeBuilder(text, name, error).build();
}

//===----------------------------------------------------------------------===//
// Overrides
//===----------------------------------------------------------------------===//

/// The item of a path's part, made if a mapping lacks it.
static TextNode *descend(TextNode &node, const std::string &part,
                         const std::string &place, std::string &error) {
  if (node.kind == TextNode::Kind::Sequence) {
    size_t index = 0;
    auto [end, code] =
        std::from_chars(part.data(), part.data() + part.size(), index);
    if (code == std::errc() && end == part.data() + part.size() &&
        index < node.items.size())
      return &node.items[index];
    error = place + ": found '" + part + "', expected an index below " +
            std::to_string(node.items.size());
    return nullptr;
  }
  if (node.kind == TextNode::Kind::Scalar && !node.scalar.empty()) {
    error = place + ": found '" + part + "' below the value '" + node.scalar +
            "' of " + node.place + ", expected the path to end there";
    return nullptr;
  }
  node.kind = TextNode::Kind::Mapping;
  if (TextNode *item = node.find(part))
    return item;
  node.keys.push_back(part);
  node.keyPlaces.push_back(place);
  node.items.emplace_back(place);
  return &node.items.back();
}

bool tandem::cost::applyOverride(TextNode &root, const std::string &text,
                                 std::string &error) {
  std::string place = "--set " + text;
  size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    error = place + ": found '" + text +
            "', expected KEY=VALUE, such as "
            "'link.network.bandwidth=25 Gbit/s'";
    return false;
  }
  TextNode *node = &root;
  for (size_t begin = 0; begin <= equals;) {
    size_t end = std::min(text.find('.', begin), equals);
    node = descend(*node, text.substr(begin, end - begin), place, error);
    if (!node)
      return false;
    begin = end + 1;
  }
  *node = TextNode(place, text.substr(equals + 1));
  return true;
}
