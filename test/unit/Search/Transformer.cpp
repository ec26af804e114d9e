//===- Transformer.cpp - search problems of transformers ------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Transformer.h"
#include <algorithm>
#include <map>

using namespace tandem::cost::test;
using namespace tandem::cost;

namespace {
/// `bsd,df->bsf`: a letter per dimension. Letters of results are parallel,
/// others summed; those in `whole` may not be split.
struct Rule {
  std::vector<std::string> operands, results;
  std::string whole;
  /// Operands that pass terms of a sum on: all at once, or one at a time.
  bool isLinearTogether = false;
  std::vector<unsigned> linear;
};

/// Forms on one axis of operands, then of results.
using Choice = std::vector<Form>;

class Builder {
public:
  explicit Builder(const TransformerOptions &options) : options(options) {}
  SearchProblem run();

private:
  unsigned addTensor(std::string name, std::vector<int64_t> shape);
  unsigned addArgument(std::string name, std::vector<int64_t> shape,
                       Operator::Kind kind);
  std::vector<unsigned> apply(const std::string &name, const Rule &rule,
                              std::vector<unsigned> operands,
                              std::vector<std::vector<int64_t>> shapes,
                              bool isProduct, int attachedTo = -1);
  std::vector<Choice> getChoices(const Rule &rule, bool isTime) const;
  SignatureSet makeSignatures(const Rule &rule,
                              const std::vector<unsigned> &operands,
                              const std::vector<unsigned> &results,
                              bool isProduct) const;
  double getSeconds(const Signature &signature, const Rule &rule,
                    const std::vector<unsigned> &operands,
                    const std::vector<unsigned> &results, bool isProduct) const;
  SignatureSet makeStored(unsigned tensor, bool isOutput, bool isBatch) const;
  unsigned intern(SignatureSet set);
  void addAxes();

  /// A forward operator whose gradient is taken later.
  struct Taped {
    Rule rule;
    std::vector<unsigned> operands, results;
    bool isProduct;
    unsigned op;
  };
  unsigned forward(const std::string &name, const Rule &rule,
                   std::vector<unsigned> operands, std::vector<int64_t> shape,
                   bool isProduct);
  unsigned parameter(const std::string &name, std::vector<int64_t> shape);
  unsigned fill(unsigned tensor, const std::string &letters);
  unsigned layer(unsigned x, const std::string &name);
  void backward(unsigned loss);
  void differentiate(const Taped &taped);
  void accumulate(unsigned tensor, unsigned gradient, int attachedTo);
  void update();

  const TransformerOptions &options;
  SearchProblem problem;
  Pass pass = Pass::Forward;
  std::vector<Taped> tape;
  std::map<unsigned, unsigned> gradients;
  std::vector<unsigned> parameters;
  std::vector<bool> needsGradient;
  std::map<std::string, unsigned> setNames;
};
} // namespace

//===----------------------------------------------------------------------===//
// Tensors and signatures
//===----------------------------------------------------------------------===//

unsigned Builder::addTensor(std::string name, std::vector<int64_t> shape) {
  problem.tensors.push_back(
      {std::move(name), std::move(shape), options.elementBytes});
  needsGradient.push_back(false);
  return problem.tensors.size() - 1;
}

unsigned Builder::intern(SignatureSet set) {
  std::string text;
  for (const Signature &signature : set)
    text += print(problem, signature) + std::to_string(signature.seconds) + ";";
  auto [place, isNew] = setNames.try_emplace(text, setNames.size());
  if (isNew)
    problem.signatureSets.push_back(std::move(set));
  return place->second;
}

/// The forms in which an argument may be stored and returned.
SignatureSet Builder::makeStored(unsigned tensor, bool isOutput,
                                 bool isBatch) const {
  SignatureSet set;
  const std::vector<int64_t> &shape = problem.tensors[tensor].shape;
  unsigned numAxes = problem.axes.size();
  std::vector<Layout> layouts{Layout()};
  for (unsigned axis = 0; axis < numAxes; ++axis) {
    std::vector<Layout> next;
    for (const Layout &layout : layouts)
      for (Form form = kFull; form < static_cast<Form>(shape.size()); ++form) {
        if (problem.axes[axis].isTime && form != (isBatch ? 0 : kFull))
          continue;
        Layout split = layout;
        split[axis] = form;
        if (problem.isDivisible(tensor, split))
          next.push_back(split);
      }
    layouts = std::move(next);
  }
  for (const Layout &layout : layouts) {
    Signature signature;
    (isOutput ? signature.operands : signature.results) = {layout};
    set.push_back(signature);
  }
  return set;
}

unsigned Builder::addArgument(std::string name, std::vector<int64_t> shape,
                              Operator::Kind kind) {
  unsigned tensor = addTensor(name, std::move(shape));
  Operator op;
  op.kind = kind;
  op.name = std::move(name);
  op.results = {tensor};
  op.signatureSet =
      intern(makeStored(tensor, false, kind == Operator::Kind::Input));
  problem.operators.push_back(std::move(op));
  return tensor;
}

static Form findDim(const std::string &letters, char letter) {
  size_t place = letters.find(letter);
  return place == std::string::npos ? kFull : static_cast<Form>(place);
}

static bool has(const std::vector<std::string> &parts, char letter) {
  return std::any_of(parts.begin(), parts.end(), [&](const std::string &part) {
    return part.find(letter) != std::string::npos;
  });
}

std::vector<Choice> Builder::getChoices(const Rule &rule, bool isTime) const {
  std::vector<Choice> choices;
  size_t numOperands = rule.operands.size();
  choices.emplace_back(numOperands + rule.results.size(), kFull);
  std::string letters;
  for (const std::string &operand : rule.operands)
    for (char letter : operand)
      if (letters.find(letter) == std::string::npos &&
          rule.whole.find(letter) == std::string::npos &&
          (!isTime || letter == 'b'))
        letters += letter;
  for (char letter : letters) {
    Choice choice;
    for (const std::string &operand : rule.operands)
      choice.push_back(findDim(operand, letter));
    for (const std::string &result : rule.results)
      choice.push_back(has({result}, letter) ? findDim(result, letter)
                                             : kReduce);
    choices.push_back(choice);
  }
  Choice together(numOperands + rule.results.size(), kReduce);
  if (rule.isLinearTogether)
    choices.push_back(together);
  for (unsigned operand : rule.linear) {
    Choice choice(numOperands + rule.results.size(), kFull);
    choice[operand] = kReduce;
    std::fill(choice.begin() + numOperands, choice.end(), kReduce);
    choices.push_back(choice);
  }
  return choices;
}

double Builder::getSeconds(const Signature &signature, const Rule &rule,
                           const std::vector<unsigned> &operands,
                           const std::vector<unsigned> &results,
                           bool isProduct) const {
  std::map<char, double> sizes;
  double bytes = 0;
  auto look = [&](unsigned tensor, const std::string &letters,
                  const Layout &layout) {
    double elements = 1;
    for (unsigned dim = 0; dim < letters.size(); ++dim) {
      double size = static_cast<double>(problem.tensors[tensor].shape[dim]);
      for (unsigned axis = 0; axis < problem.axes.size(); ++axis)
        if (layout[axis] == static_cast<Form>(dim))
          size /= static_cast<double>(problem.axes[axis].size);
      elements *= size;
      sizes[letters[dim]] = std::max(sizes[letters[dim]], size);
    }
    bytes += elements * static_cast<double>(options.elementBytes);
  };
  for (unsigned i = 0; i < operands.size(); ++i)
    look(operands[i], rule.operands[i], signature.operands[i]);
  for (unsigned i = 0; i < results.size(); ++i)
    look(results[i], rule.results[i], signature.results[i]);
  double work = 2;
  for (auto [letter, size] : sizes)
    work *= size;
  return std::max(isProduct ? work / options.flops : 0,
                  bytes / options.memoryBandwidth) +
         options.overhead;
}

SignatureSet Builder::makeSignatures(const Rule &rule,
                                     const std::vector<unsigned> &operands,
                                     const std::vector<unsigned> &results,
                                     bool isProduct) const {
  SignatureSet set;
  Signature empty;
  empty.operands.resize(operands.size());
  empty.results.resize(results.size());
  set.push_back(empty);
  for (unsigned axis = 0; axis < problem.axes.size(); ++axis) {
    SignatureSet next;
    for (const Signature &signature : set)
      for (const Choice &choice : getChoices(rule, problem.axes[axis].isTime)) {
        Signature split = signature;
        bool isDivisible = true;
        for (unsigned i = 0; i < operands.size(); ++i) {
          split.operands[i][axis] = choice[i];
          isDivisible &= problem.isDivisible(operands[i], split.operands[i]);
        }
        for (unsigned i = 0; i < results.size(); ++i) {
          split.results[i][axis] = choice[operands.size() + i];
          isDivisible &= problem.isDivisible(results[i], split.results[i]);
        }
        if (isDivisible)
          next.push_back(split);
      }
    set = std::move(next);
  }
  for (Signature &signature : set)
    signature.seconds =
        getSeconds(signature, rule, operands, results, isProduct);
  return set;
}

std::vector<unsigned> Builder::apply(const std::string &name, const Rule &rule,
                                     std::vector<unsigned> operands,
                                     std::vector<std::vector<int64_t>> shapes,
                                     bool isProduct, int attachedTo) {
  Operator op;
  op.pass = pass;
  op.name = name;
  op.attachedTo = attachedTo;
  for (std::vector<int64_t> &shape : shapes)
    op.results.push_back(addTensor(name, std::move(shape)));
  op.signatureSet =
      intern(makeSignatures(rule, operands, op.results, isProduct));
  op.operands = std::move(operands);
  problem.operators.push_back(op);
  return op.results;
}

//===----------------------------------------------------------------------===//
// Forward
//===----------------------------------------------------------------------===//

unsigned Builder::forward(const std::string &name, const Rule &rule,
                          std::vector<unsigned> operands,
                          std::vector<int64_t> shape, bool isProduct) {
  unsigned op = problem.operators.size();
  std::vector<unsigned> results =
      apply(name, rule, operands, {std::move(shape)}, isProduct);
  needsGradient[results.front()] = true;
  tape.push_back({rule, operands, results, isProduct, op});
  return results.front();
}

unsigned Builder::parameter(const std::string &name,
                            std::vector<int64_t> shape) {
  unsigned tensor =
      addArgument(name, std::move(shape), Operator::Kind::Resident);
  needsGradient[tensor] = true;
  parameters.push_back(tensor);
  for (const char *state : {".m", ".v"})
    addArgument(name + state, problem.tensors[tensor].shape,
                Operator::Kind::Resident);
  return tensor;
}

unsigned Builder::fill(unsigned tensor, const std::string &letters) {
  for (unsigned i = 0; i < options.filling; ++i)
    tensor = forward("fill", {{letters}, {letters}, "", true, {}}, {tensor},
                     problem.tensors[tensor].shape, false);
  return tensor;
}

unsigned Builder::layer(unsigned x, const std::string &name) {
  int64_t b = options.batch, s = options.sequence, d = options.width,
          h = options.heads, z = d / h, f = options.hidden;
  auto norm = [&](unsigned value, const std::string &part) {
    return forward("norm", {{"bsd", "d"}, {"bsd"}, "d", false, {}},
                   {value, parameter(name + part, {d})}, {b, s, d}, false);
  };
  auto add = [&](unsigned left, unsigned right) {
    return forward("add", {{"bsd", "bsd"}, {"bsd"}, "", true, {}},
                   {left, right}, {b, s, d}, false);
  };
  unsigned n = norm(x, ".norm1");
  std::vector<unsigned> heads;
  for (const char *part : {".q", ".k", ".v"})
    heads.push_back(
        fill(forward("matmul", {{"bsd", "dh"}, {"bhsz"}, "z", false, {0}},
                     {n, parameter(name + part, {d, d})}, {b, h, s, z}, true),
             "bhsz"));
  unsigned scores =
      forward("scores", {{"bhsz", "bhtz"}, {"bhst"}, "z", false, {}},
              {heads[0], heads[1]}, {b, h, s, s}, true);
  unsigned weights = forward("softmax", {{"bhst"}, {"bhst"}, "t", false, {}},
                             {scores}, {b, h, s, s}, false);
  unsigned context =
      forward("context", {{"bhst", "bhtz"}, {"bhsz"}, "tz", false, {}},
              {weights, heads[2]}, {b, h, s, z}, true);
  unsigned projected =
      forward("matmul", {{"bhsz", "hd"}, {"bsd"}, "z", false, {0}},
              {context, parameter(name + ".o", {d, d})}, {b, s, d}, true);
  x = add(x, fill(projected, "bsd"));
  n = norm(x, ".norm2");
  std::vector<unsigned> hidden;
  for (const char *part : {".gate", ".up"})
    hidden.push_back(
        fill(forward("matmul", {{"bsd", "df"}, {"bsf"}, "", false, {0}},
                     {n, parameter(name + part, {d, f})}, {b, s, f}, true),
             "bsf"));
  unsigned silu = forward("silu", {{"bsf"}, {"bsf"}, "", false, {}},
                          {hidden[0]}, {b, s, f}, false);
  unsigned product = forward("mul", {{"bsf", "bsf"}, {"bsf"}, "", false, {}},
                             {silu, hidden[1]}, {b, s, f}, false);
  unsigned down =
      forward("matmul", {{"bsf", "fd"}, {"bsd"}, "", false, {0}},
              {product, parameter(name + ".down", {f, d})}, {b, s, d}, true);
  return add(x, fill(down, "bsd"));
}

//===----------------------------------------------------------------------===//
// Backward and updates
//===----------------------------------------------------------------------===//

void Builder::accumulate(unsigned tensor, unsigned gradient, int attachedTo) {
  auto [place, isNew] = gradients.try_emplace(tensor, gradient);
  if (isNew)
    return;
  std::string letters =
      std::string("abcdefgh").substr(0, problem.tensors[tensor].shape.size());
  // The batch is the first dimension of all activations.
  letters = "b" + std::string("stuvw").substr(0, letters.size() - 1);
  place->second = apply("sum", {{letters, letters}, {letters}, "", true, {}},
                        {place->second, gradient},
                        {problem.tensors[tensor].shape}, false, attachedTo)
                      .front();
}

/// The gradient of one operand is a rule of the result's gradient and the other
/// operands; letters that it lacks are summed.
void Builder::differentiate(const Taped &taped) {
  unsigned incoming = gradients.at(taped.results.front());
  for (unsigned i = 0; i < taped.operands.size(); ++i) {
    unsigned operand = taped.operands[i];
    if (!needsGradient[operand])
      continue;
    Rule rule;
    rule.operands = {taped.rule.results.front()};
    rule.whole = taped.rule.whole;
    rule.results = {taped.rule.operands[i]};
    std::vector<unsigned> operands{incoming};
    if (taped.rule.isLinearTogether) {
      accumulate(operand, incoming, taped.op);
      continue;
    }
    if (taped.isProduct)
      rule.linear = {0};
    for (unsigned j = 0; j < taped.operands.size(); ++j) {
      bool isOther = taped.isProduct ? j != i : true;
      if (!isOther)
        continue;
      rule.operands.push_back(taped.rule.operands[j]);
      operands.push_back(taped.operands[j]);
    }
    unsigned gradient =
        apply("grad." + problem.operators[taped.op].name, rule, operands,
              {problem.tensors[operand].shape}, taped.isProduct, taped.op)
            .front();
    accumulate(operand, gradient, taped.op);
  }
}

void Builder::backward(unsigned logits) {
  pass = Pass::Backward;
  gradients[logits] = apply("grad.loss", {{"bsv"}, {"bsv"}, "v", false, {}},
                            {logits}, {problem.tensors[logits].shape}, false)
                          .front();
  for (unsigned i = tape.size(); i-- > 0;)
    differentiate(tape[i]);
}

void Builder::update() {
  pass = Pass::Update;
  for (unsigned tensor : parameters) {
    std::vector<int64_t> shape = problem.tensors[tensor].shape;
    std::string letters = std::string("xy").substr(0, shape.size());
    std::vector<unsigned> operands{tensor, gradients.at(tensor)};
    std::vector<unsigned> stored{problem.getProducers()[tensor]};
    // The states stand behind their parameter.
    for (unsigned state : {1, 2}) {
      operands.push_back(tensor + state);
      stored.push_back(stored.front() + state);
    }
    Rule rule{{letters, letters, letters, letters},
              {letters, letters, letters},
              "",
              false,
              {}};
    std::vector<unsigned> results =
        apply("adamw", rule, operands, {shape, shape, shape}, false);
    for (unsigned i = 0; i < results.size(); ++i) {
      Operator op;
      op.kind = Operator::Kind::Output;
      op.pass = Pass::Update;
      op.name = "return";
      op.operands = {results[i]};
      op.signatureSet = intern(makeStored(results[i], true, false));
      problem.ties.emplace_back(stored[i], problem.operators.size());
      problem.operators.push_back(std::move(op));
    }
  }
}

void Builder::addAxes() {
  for (unsigned i = 0; i < options.mesh.size(); ++i) {
    Axis axis;
    axis.name = std::string("axis") + std::to_string(i);
    axis.size = options.mesh[i];
    double n = static_cast<double>(axis.size);
    double rate =
        (n - 1) / n /
        (i + 1 == options.mesh.size() ? options.nvlink : options.network);
    axis.rates = {{{options.latency, rate},
                   {options.latency, rate},
                   {options.latency, 2 * rate},
                   {options.latency, rate / n}}};
    problem.axes.push_back(axis);
  }
  if (options.strands < 2)
    return;
  Axis time;
  time.name = "micro";
  time.size = options.strands;
  time.isTime = true;
  double rate = 2 / options.memoryBandwidth;
  time.rates = {{{0, rate}, {0, rate}, {0, rate}, {0, rate}}};
  problem.axes.push_back(time);
}

SearchProblem Builder::run() {
  addAxes();
  problem.pieceLatency = options.latency;
  problem.memoryLimit = options.memoryLimit;
  int64_t b = options.batch, s = options.sequence, d = options.width,
          v = options.vocabulary;
  unsigned tokens = addArgument("tokens", {b, s}, Operator::Kind::Input);
  unsigned x =
      forward("embedding", {{"bs", "vd"}, {"bsd"}, "", false, {}},
              {tokens, parameter("embedding", {v, d})}, {b, s, d}, false);
  for (int64_t i = 0; i < options.layers; ++i)
    x = layer(x, "layer" + std::to_string(i));
  x = forward("norm", {{"bsd", "d"}, {"bsd"}, "d", false, {}},
              {x, parameter("norm", {d})}, {b, s, d}, false);
  unsigned logits = forward("matmul", {{"bsd", "dv"}, {"bsv"}, "", false, {0}},
                            {x, parameter("head", {d, v})}, {b, s, v}, true);
  apply("loss", {{"bsv"}, {""}, "v", false, {}}, {logits}, {{}}, false);
  backward(logits);
  update();
  return std::move(problem);
}

SearchProblem
tandem::cost::test::makeTransformer(const TransformerOptions &options) {
  return Builder(options).run();
}
