//===- StepAttrs.cpp - attributes of a step's arguments and results -------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Analysis/StepAttrs.h"

using namespace mlir;
using namespace tandem;

static void editAll(MutableArrayRef<DictionaryAttr> all, MLIRContext *context,
                    AttrEdit edit) {
  for (auto [index, attrs] : llvm::enumerate(all)) {
    NamedAttrList list(attrs);
    edit(index, list);
    attrs = list.getDictionary(context);
  }
}

void tandem::editArgAttrs(func::FuncOp step, AttrEdit edit) {
  SmallVector<DictionaryAttr> all;
  step.getAllArgAttrs(all);
  editAll(all, step.getContext(), edit);
  step.setAllArgAttrs(all);
}

void tandem::editResultAttrs(func::FuncOp step, AttrEdit edit) {
  SmallVector<DictionaryAttr> all;
  step.getAllResultAttrs(all);
  editAll(all, step.getContext(), edit);
  step.setAllResultAttrs(all);
}
