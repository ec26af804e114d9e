//===- Passes.td - passes of Import -------------*- tablegen -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TRANSFORMS_IMPORT_PASSES_TD
#define TANDEM_TRANSFORMS_IMPORT_PASSES_TD

include "mlir/Pass/PassBase.td"

def CloneParameterViewsPass : Pass<"tandem-clone-parameter-views", "::mlir::func::FuncOp"> {
  let summary = "Makes a view of a parameter in each pass that uses it";
  let description = [{
    A view of a parameter that several passes use is made in each of them.
  }];
}

def CountModelFlopsPass : Pass<"tandem-count-model-flops", "::mlir::ModuleOp"> {
  let summary = "Counts the operations of the model's products, by type";
  let description = [{
    Sets `nn.model_flops` on the module: the operations of matrix products,
    attention and convolutions of the forward and backward passes, in a step of
    the whole batch, by the type of their elements. What has `nn.again`, scores
    that attention's gradient makes again, and updates do not count. Of
    attention with a band only the pairs that it shows count. A step without
    products has no such attribute.
  }];
}

def CountTokensPass : Pass<"tandem-count-tokens", "::mlir::ModuleOp"> {
  let summary = "Counts the positions of the sequences of a batch";
  let description = [{
    Sets `nn.tokens` on the module where positions of an input of integers, of
    rows and positions, say which rows of a table are looked up: the number of
    these. The columns of a table of data are no positions: what is looked up
    for them becomes one vector per row. A step without sequences has no such
    attribute.
  }];
}

def FetchParametersPass : Pass<"tandem-fetch-parameters", "::mlir::func::FuncOp"> {
  let summary = "Fetches parameters that lie on the host, once per pass";
  let description = [{
    A parameter with `spmd.host` is read by updates alone: the forward and the
    backward pass each have an `nn.from_host` of it, in front of their first
    reader. It has `nn.again` where offered clones alone read it
    (`tandem-offer-recomputation`). The backward pass reads the casts of the
    forward pass. The mark is taken off: what `nn.from_host` reads lies on
    the host. Where operators have an `nn.id`, copies have numbers behind all of
    them.
  }];
}

def MergeEqualPass : Pass<"tandem-merge-equal", "::mlir::func::FuncOp"> {
  let summary = "Merges operators that are equal within a pass; removes dead ones";
  let description = [{
    Operators that are equal in all but their location become one, per
    pass. Those with `nn.again` stay: each is made for readers of its own.
  }];
}

def NumberOperatorsPass : Pass<"tandem-number-operators", "::mlir::func::FuncOp"> {
  let summary = "Gives each operator an nn.id, in the order of the text";
  let description = [{
    After this pass, the operators of the step have `nn.id` = 0, 1, 2, ... in the
    order of the text. An `nn.id` that was there is replaced. Plans, pins and
    timelines name operators by it.
  }];
}

def OfferRecomputationPass : Pass<"tandem-offer-recomputation", "::mlir::func::FuncOp"> {
  let summary = "Offers clones of forward operators to readers in the backward pass";
  let description = [{
    A reader in the backward pass gets an `nn.either` in front of it: of what
    the forward pass saved and of what a clone makes again. Clones have
    `nn.again`. The plan chooses, and `tandem-take-sources` removes the rest.

    The forward pass is cut into segments, behind each operator whose results
    are all that the forward pass reads behind it: a chain has one per operator,
    a transformer one per half of a block. Where something is alive all along
    (a skip), it is cut where least is held: what crosses cuts, and what the
    largest segment makes again. Up to two clones are offered of an operator:

    * *at the reader*: in front of the first reader of its result, which may be
      another such clone, but of what ends a segment none in front of the next
      one. It reads what was saved, or clones of its segment, or early clones of
      what ends a segment before, in the next one that reads it;
    * *early*: for clones of the segment behind, in front of the first of them
      that reads what ends its segment. It reads what was saved, or early clones
      of its segment.

    Groups of segments are cut where least is held at once. Within one, but for its
    last segment, early clones also read the early clone of the segment before,
    if both have one library call at most. What ends a group reads none.

    What depends on no argument gets no clone, as it is made wherever it is
    wanted, nor does a single number. A view of an argument is cloned without a
    choice, and a reshape for each reader. Where operators have an `nn.id`, what
    is added has numbers behind all of them.

    With `host`, readers may also take a copy that waited in the host's memory
    (`nn.to_host`, `nn.from_host`), of any value but small ones that the forward
    pass makes.
  }];
  let options = [
    Option<"host", "host", "bool", "false",
           "Offers copies that wait in the host's memory">,
  ];
}

def OfferSavedPass : Pass<"tandem-offer-saved", "::mlir::func::FuncOp"> {
  let summary = "Offers sums of the forward pass to regions that make them again";
  let description = [{
    A sum that a region makes again, and that the forward pass made of the same
    operands, is followed by an `nn.either` of both, with `nn.again`. Sums are
    results that a plan may leave to be summed over ranks: those of products,
    and of what is linear in them. Source 1, what is made again, is taken unless
    a plan says otherwise. Where operators have an `nn.id`, choices have numbers
    behind all of them.
  }];
}

def OrderSumsPass : Pass<"tandem-order-sums", "::mlir::func::FuncOp"> {
  let summary = "Adds products before other terms in sums of three terms or more";
  let description = [{
    In a sum of three terms or more, products come first (another
    rounding).
  }];
}

def RemoveNeutralPass : Pass<"tandem-remove-neutral", "::mlir::func::FuncOp"> {
  let summary = "Removes additions of zero and multiplications by one";
  let description = [{
    Removes additions of zero and multiplications by one.
  }];
}

def ReuseViewsPass : Pass<"tandem-reuse-views", "::mlir::func::FuncOp"> {
  let summary = "Makes backward views of activations start at the forward view";
  let description = [{
    Backward views of an activation that forward uses through one view
    only start at that view. Reshapes that later passes read are made there,
    where no forward operator reads them, or kernels alone do and what they
    reshape is saved.
  }];
}

def SimplifyViewsPass : Pass<"tandem-simplify-views", "::mlir::func::FuncOp"> {
  let summary = "Removes and joins views; moves merges of dimensions to their users";
  let description = [{
    Removes and joins views; moves merges of dimensions towards their
    users. Rows of a softmax that lie one behind the other stay so, with the
    permutation behind them, and what is made of less is made in the order in
    which it is read.
  }];
}

def SinkAgainPass : Pass<"tandem-sink-again", "::mlir::func::FuncOp"> {
  let summary = "Moves operators that make something again to their first readers";
  let description = [{
    An operator with `nn.again` stands right before the first operator that
    reads it. One that nobody reads is gone.
  }];
}

def SortRowsPass : Pass<"tandem-sort-rows", "::mlir::func::FuncOp"> {
  let summary = "Puts the batch first among merged rows of products";
  let description = [{
    Rows of products are merged with the batch first, so that it can be
    split; permutations move to the users.
  }];
}

def TakeApartParametersPass : Pass<"tandem-take-apart-parameters", "::mlir::func::FuncOp"> {
  let summary = "Takes parameters apart that hold several, with gradient and state";
  let description = [{
    A parameter that holds several side by side (query, key and value;
    gate and up), told by the slices that are taken of what is computed
    with it, becomes as many parameters, with their own states, gradients
    and new values. `nn.part` says where each lies in the whole.

    `stored-parts` says how another step, whose values this one takes, has
    them: `w:0:4,8;b:0:` is `w` in three parts, of which the others begin at
    rows 4 and 8 of dimension 0, and `b` whole. Such a parameter is taken
    apart there and nowhere else; what is computed from all of it joins the
    parts.
  }];
  let options = [
    Option<"storedParts", "stored-parts", "std::string", "",
           "how another step stores parameters">,
  ];
}

def UnfoldProductsPass : Pass<"tandem-unfold-products", "::mlir::func::FuncOp"> {
  let summary = "Unmerges the leading dimensions of products";
  let description = [{
    Products over merged leading dimensions become products over separate
    ones.
  }];
}

def VerifyStepPass : Pass<"tandem-verify-step", "::mlir::ModuleOp"> {
  let summary = "Checks that the module holds a training step";
  let description = [{
    Fails, with one error, unless the module holds a training step as the
    nn dialect describes it. With `numbered`, every operator has its own
    `nn.id`.
  }];
  let options = [
    Option<"numbered", "numbered", "bool", "false",
           "every operator has a number of its own">,
  ];
}

def WidenGradientsPass : Pass<"tandem-widen-gradients", "::mlir::func::FuncOp"> {
  let summary = "Makes gradients that are converted to a wider type in it from the start";
  let description = [{
    What the backward pass converts from bf16 to f32 is made in f32 by
    the product or the sum that it comes from: strands and ranks add terms that
    were never rounded.
  }];
}

#endif // TANDEM_TRANSFORMS_IMPORT_PASSES_TD
