// RUN: tandem-opt %s --split-input-file --verify-diagnostics

// One case per error of the verifiers of nn operators.

func.func @compare_result(%x: tensor<4xf32>) {
  // expected-error @+1 {{'nn.compare' op result has element type 'f32', expected 'i1'}}
  %0 = nn.compare lt %x, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @condition(%x: tensor<4xf32>) {
  // expected-error @+1 {{'nn.select' op condition has element type 'f32', expected 'i1'}}
  %0 = nn.select %x, %x, %x : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @mixed(%x: tensor<4xf32>, %y: tensor<4xf64>) {
  // expected-error @+1 {{'nn.add' op operand has element type 'f64', expected 'f32'}}
  %0 = nn.add %x, %y : (tensor<4xf32>, tensor<4xf64>) -> tensor<4xf32>
  return
}

// -----

func.func @result_type(%x: tensor<4xf32>) {
  // expected-error @+1 {{'nn.exp' op result has element type 'f64', expected 'f32'}}
  %0 = nn.exp %x : (tensor<4xf32>) -> tensor<4xf64>
  return
}

// -----

func.func @broadcast(%x: tensor<4x3xf32>, %y: tensor<4xf32>) {
  // expected-error @+1 {{'nn.add' op operand of shape [4] does not broadcast to [4, 3]}}
  %0 = nn.add %x, %y : (tensor<4x3xf32>, tensor<4xf32>) -> tensor<4x3xf32>
  return
}

// -----

func.func @broadcast_rank(%x: tensor<4x3xf32>) {
  // expected-error @+1 {{'nn.neg' op operand of shape [4, 3] does not broadcast to [3]}}
  %0 = nn.neg %x : (tensor<4x3xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @expand_type(%x: tensor<1xf32>) {
  // expected-error @+1 {{'nn.expand' op result has element type 'f64', expected 'f32'}}
  %0 = nn.expand %x : (tensor<1xf32>) -> tensor<4xf64>
  return
}

// -----

func.func @expand_shape(%x: tensor<2xf32>) {
  // expected-error @+1 {{'nn.expand' op operand of shape [2] does not broadcast to [4]}}
  %0 = nn.expand %x : (tensor<2xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @sum_dim(%x: tensor<4x3xf32>) {
  // expected-error @+1 {{'nn.sum' op dimension 2 does not exist in a tensor of rank 2}}
  %0 = nn.sum %x {dims = array<i64: 2>} : (tensor<4x3xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @sum_order(%x: tensor<4x3xf32>) {
  // expected-error @+1 {{'nn.sum' op dims [1, 0] are not in ascending order}}
  %0 = nn.sum %x {dims = array<i64: 1, 0>} : (tensor<4x3xf32>) -> tensor<f32>
  return
}

// -----

func.func @sum_shape(%x: tensor<4x3xf32>) {
  // expected-error @+1 {{'nn.sum' op result has shape [3], expected [4]}}
  %0 = nn.sum %x {dims = array<i64: 1>} : (tensor<4x3xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @max_keepdim(%x: tensor<4x3xf32>) {
  // expected-error @+1 {{'nn.max' op result has shape [4], expected [4, 1]}}
  %0 = nn.max %x {dims = array<i64: 1>, keepdim = true} : (tensor<4x3xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @prod_type(%x: tensor<4x3xf32>) {
  // expected-error @+1 {{'nn.prod' op result has element type 'f64', expected 'f32'}}
  %0 = nn.prod %x {dims = array<i64: 1>} : (tensor<4x3xf32>) -> tensor<4xf64>
  return
}

// -----

func.func @argmax_type(%x: tensor<4x3xf32>) {
  // expected-error @+1 {{'nn.argmax' op result has element type 'i32', expected 'i64'}}
  %0 = nn.argmax %x {dim = 1 : i64} : (tensor<4x3xf32>) -> tensor<4xi32>
  return
}

// -----

func.func @argmax_shape(%x: tensor<4x3xf32>) {
  // expected-error @+1 {{'nn.argmax' op result has shape [3], expected [4]}}
  %0 = nn.argmax %x {dim = 1 : i64} : (tensor<4x3xf32>) -> tensor<3xi64>
  return
}

// -----

func.func @softmax_dim(%x: tensor<4x3xf32>) {
  // expected-error @+1 {{'nn.softmax' op dimension -1 does not exist in a tensor of rank 2}}
  %0 = nn.softmax %x {dim = -1 : i64} : (tensor<4x3xf32>) -> tensor<4x3xf32>
  return
}

// -----

func.func @softmax_shape(%x: tensor<4x3xf32>) {
  // expected-error @+1 {{'nn.softmax' op result has shape [3, 4], expected [4, 3]}}
  %0 = nn.softmax %x {dim = 1 : i64} : (tensor<4x3xf32>) -> tensor<3x4xf32>
  return
}

// -----

func.func @softmax_backward(%x: tensor<4x3xf32>, %y: tensor<4x3xf64>) {
  // expected-error @+1 {{'nn.softmax_backward' op operand has element type 'f64', expected 'f32'}}
  %0 = nn.softmax_backward %x, %y {dim = 1 : i64} : (tensor<4x3xf32>, tensor<4x3xf64>) -> tensor<4x3xf32>
  return
}

// -----

func.func @flip(%x: tensor<4x3xf32>) {
  // expected-error @+1 {{'nn.flip' op dims [0, 0] are not in ascending order}}
  %0 = nn.flip %x {dims = array<i64: 0, 0>} : (tensor<4x3xf32>) -> tensor<4x3xf32>
  return
}

// -----

func.func @topk_k(%x: tensor<4x3xf32>) {
  // expected-error @+1 {{'nn.topk' op k is 5, but dimension 1 has 3 elements}}
  %0:2 = nn.topk %x {k = 5 : i64, dim = 1 : i64} : (tensor<4x3xf32>) -> (tensor<4x5xf32>, tensor<4x5xi64>)
  return
}

// -----

func.func @topk_values(%x: tensor<4x3xf32>) {
  // expected-error @+1 {{'nn.topk' op values has shape [4, 3], expected [4, 2]}}
  %0:2 = nn.topk %x {k = 2 : i64, dim = 1 : i64} : (tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<4x2xi64>)
  return
}

// -----

func.func @topk_indices(%x: tensor<4x3xf32>) {
  // expected-error @+1 {{'nn.topk' op indices has shape [4, 1], expected [4, 2]}}
  %0:2 = nn.topk %x {k = 2 : i64, dim = 1 : i64} : (tensor<4x3xf32>) -> (tensor<4x2xf32>, tensor<4x1xi64>)
  return
}

// -----

func.func @norm_rank(%x: tensor<4x3xf32>) {
  // expected-error @+1 {{'nn.layer_norm' op normalized_rank is 3, but the input has rank 2}}
  %0:3 = nn.layer_norm %x {normalized_rank = 3 : i64, eps = 1.0e-5 : f64} : (tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<4x1xf32>, tensor<4x1xf32>)
  return
}

// -----

func.func @norm_affine(%x: tensor<4x3xf32>, %w: tensor<3xf32>) {
  // expected-error @+1 {{'nn.layer_norm' op has 3 affine operands, expected at most 2}}
  %0:3 = nn.layer_norm %x, %w, %w, %w {normalized_rank = 1 : i64, eps = 1.0e-5 : f64} : (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<4x3xf32>, tensor<4x1xf32>, tensor<4x1xf32>)
  return
}

// -----

func.func @norm_weight(%x: tensor<4x3xf32>, %w: tensor<4xf32>) {
  // expected-error @+1 {{'nn.layer_norm' op affine operand has shape [4], expected [3]}}
  %0:3 = nn.layer_norm %x, %w {normalized_rank = 1 : i64, eps = 1.0e-5 : f64} : (tensor<4x3xf32>, tensor<4xf32>) -> (tensor<4x3xf32>, tensor<4x1xf32>, tensor<4x1xf32>)
  return
}

// -----

func.func @norm_mean(%x: tensor<4x3xf32>) {
  // expected-error @+1 {{'nn.layer_norm' op mean has shape [4], expected [4, 1]}}
  %0:3 = nn.layer_norm %x {normalized_rank = 1 : i64, eps = 1.0e-5 : f64} : (tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<4xf32>, tensor<4x1xf32>)
  return
}

// -----

func.func @norm_backward(%x: tensor<4x3xf32>, %s: tensor<4x1xf32>, %w: tensor<3xf32>) {
  // expected-error @+1 {{'nn.layer_norm_backward' op has 1 weights and 1 results, expected 0 and 1, or 1 and 3}}
  %0 = nn.layer_norm_backward %x, %x, %s, %s, %w {normalized_rank = 1 : i64} : (tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x1xf32>, tensor<4x1xf32>, tensor<3xf32>) -> tensor<4x3xf32>
  return
}

// -----

func.func @norm_backward_result(%x: tensor<4x3xf32>, %s: tensor<4x1xf32>) {
  // expected-error @+1 {{'nn.layer_norm_backward' op result has shape [3], expected [4, 3]}}
  %0 = nn.layer_norm_backward %x, %x, %s, %s {normalized_rank = 1 : i64} : (tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x1xf32>, tensor<4x1xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @constant() {
  // expected-error @+1 {{'nn.constant' op has the value of a 'tensor<4xf32>', but the type 'tensor<8xf32>'}}
  %0 = nn.constant dense<1.0> : tensor<4xf32> -> tensor<8xf32>
  return
}

// -----

func.func @reshape(%x: tensor<4x3xf32>) {
  // expected-error @+1 {{'nn.reshape' op gives shape [6] to [4, 3] of another size}}
  %0 = nn.reshape %x : (tensor<4x3xf32>) -> tensor<6xf32>
  return
}

// -----

func.func @permutation(%x: tensor<4x3xf32>) {
  // expected-error @+1 {{'nn.permute' op permutation [0, 0] is none of rank 2}}
  %0 = nn.permute %x {permutation = array<i64: 0, 0>} : (tensor<4x3xf32>) -> tensor<4x3xf32>
  return
}

// -----

func.func @permute_shape(%x: tensor<4x3xf32>) {
  // expected-error @+1 {{'nn.permute' op result has shape [4, 3], expected [3, 4]}}
  %0 = nn.permute %x {permutation = array<i64: 1, 0>} : (tensor<4x3xf32>) -> tensor<4x3xf32>
  return
}

// -----

func.func @slice_range(%x: tensor<4xf32>) {
  // expected-error @+1 {{'nn.slice' op takes [1, 6) by step 1 of a dimension of size 4}}
  %0 = nn.slice %x {dim = 0 : i64, start = 1 : i64, stop = 6 : i64} : (tensor<4xf32>) -> tensor<5xf32>
  return
}

// -----

func.func @slice_shape(%x: tensor<8xf32>) {
  // expected-error @+1 {{'nn.slice' op result has shape [4], expected [3]}}
  %0 = nn.slice %x {dim = 0 : i64, start = 1 : i64, stop = 7 : i64, step = 2 : i64} : (tensor<8xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @pad(%x: tensor<4xf32>) {
  // expected-error @+1 {{'nn.pad' op pads by -1 and 0 with step 1}}
  %0 = nn.pad %x {dim = 0 : i64, low = -1 : i64, high = 0 : i64} : (tensor<4xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @pad_shape(%x: tensor<4xf32>) {
  // expected-error @+1 {{'nn.pad' op result has shape [5], expected [8]}}
  %0 = nn.pad %x {dim = 0 : i64, low = 1 : i64, high = 0 : i64, step = 2 : i64} : (tensor<4xf32>) -> tensor<5xf32>
  return
}

// -----

func.func @cat_nothing() {
  // expected-error @+1 {{'nn.cat' op joins nothing}}
  %0 = nn.cat {dim = 0 : i64} : () -> tensor<4xf32>
  return
}

// -----

func.func @cat_operand(%x: tensor<4x3xf32>, %y: tensor<4x2xf32>) {
  // expected-error @+1 {{'nn.cat' op operand has shape [4, 2], expected [4, 3]}}
  %0 = nn.cat %x, %y {dim = 0 : i64} : (tensor<4x3xf32>, tensor<4x2xf32>) -> tensor<8x3xf32>
  return
}

// -----

func.func @cat_result(%x: tensor<4x3xf32>) {
  // expected-error @+1 {{'nn.cat' op result has shape [4, 3], expected [8, 3]}}
  %0 = nn.cat %x, %x {dim = 0 : i64} : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  return
}

// -----

func.func @matmul(%x: tensor<4x3xf32>, %y: tensor<4x3xf32>) {
  // expected-error @+1 {{'nn.matmul' op cannot multiply [4, 3] by [4, 3]}}
  %0 = nn.matmul %x, %y : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  return
}

// -----

func.func @matmul_type(%x: tensor<4x3xf32>, %y: tensor<3x4xf64>) {
  // expected-error @+1 {{'nn.matmul' op right operand has element type 'f64', expected 'f32'}}
  %0 = nn.matmul %x, %y : (tensor<4x3xf32>, tensor<3x4xf64>) -> tensor<4x4xf32>
  return
}

// -----

func.func @matmul_result(%x: tensor<4x3xf32>, %y: tensor<3x5xf32>) {
  // expected-error @+1 {{'nn.matmul' op result has shape [5, 4], expected [4, 5]}}
  %0 = nn.matmul %x, %y : (tensor<4x3xf32>, tensor<3x5xf32>) -> tensor<5x4xf32>
  return
}

// -----

func.func @embedding_scalar(%w: tensor<f32>, %i: tensor<2xi64>) {
  // expected-error @+1 {{'nn.embedding' op takes rows of a scalar}}
  %0 = nn.embedding %w, %i : (tensor<f32>, tensor<2xi64>) -> tensor<2xf32>
  return
}

// -----

func.func @embedding(%w: tensor<8x3xf32>, %i: tensor<2xi64>) {
  // expected-error @+1 {{'nn.embedding' op result has shape [2, 8], expected [2, 3]}}
  %0 = nn.embedding %w, %i : (tensor<8x3xf32>, tensor<2xi64>) -> tensor<2x8xf32>
  return
}

// -----

func.func @embedding_backward(%g: tensor<2x3xf32>, %i: tensor<2xi64>) {
  // expected-error @+1 {{'nn.embedding_backward' op gradient has shape [2, 3], expected [2, 4]}}
  %0 = nn.embedding_backward %g, %i : (tensor<2x3xf32>, tensor<2xi64>) -> tensor<8x4xf32>
  return
}

// -----

func.func @embedding_backward_scalar(%g: tensor<2xf32>, %i: tensor<2xi64>) {
  // expected-error @+1 {{'nn.embedding_backward' op gives rows of a scalar}}
  %0 = nn.embedding_backward %g, %i : (tensor<2xf32>, tensor<2xi64>) -> tensor<f32>
  return
}

// -----

func.func @gather_dim(%x: tensor<4x3xf32>, %i: tensor<4xi64>) {
  // expected-error @+1 {{'nn.gather' op dimension 1 does not exist in a tensor of rank 1}}
  %0 = nn.gather %x, %i {dim = 1 : i64} : (tensor<4x3xf32>, tensor<4xi64>) -> tensor<4xf32>
  return
}

// -----

func.func @gather_index(%x: tensor<4x3xf32>, %i: tensor<5x2xi64>) {
  // expected-error @+1 {{'nn.gather' op index has shape [5, 2], expected [4, 2]}}
  %0 = nn.gather %x, %i {dim = 1 : i64} : (tensor<4x3xf32>, tensor<5x2xi64>) -> tensor<5x2xf32>
  return
}

// -----

func.func @scatter_index(%x: tensor<4x3xf32>, %i: tensor<4x2xi64>) {
  // expected-error @+1 {{'nn.scatter_add' op index has shape [4, 2], expected [4, 3]}}
  %0 = nn.scatter_add %x, %i {dim = 1 : i64} : (tensor<4x3xf32>, tensor<4x2xi64>) -> tensor<4x8xf32>
  return
}

// -----

func.func @scatter_result(%x: tensor<4x3xf32>, %i: tensor<4x3xi64>) {
  // expected-error @+1 {{'nn.scatter_add' op result has shape [5, 8], expected [4, 8]}}
  %0 = nn.scatter_add %x, %i {dim = 1 : i64} : (tensor<4x3xf32>, tensor<4x3xi64>) -> tensor<5x8xf32>
  return
}

// -----

func.func @approximate(%x: tensor<4xf32>) {
  // expected-error @+2 {{expected ::tandem::nn::Approximate to be one of: none, tanh}}
  // expected-error @+1 {{failed to parse}}
  %0 = nn.gelu erf %x : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @approximate_backward(%x: tensor<4xf32>) {
  // expected-error @+2 {{expected ::tandem::nn::Approximate to be one of: none, tanh}}
  // expected-error @+1 {{failed to parse}}
  %0 = nn.gelu_backward exact %x, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @predicate(%x: tensor<4xf32>) {
  // expected-error @+2 {{expected ::tandem::nn::Predicate to be one of: eq, ne, lt, le, gt, ge}}
  // expected-error @+1 {{failed to parse}}
  %0 = nn.compare less %x, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  return
}

// -----

// Written by a capture of before predicates were keywords.
func.func @old_predicate(%x: tensor<4xf32>) {
  // expected-error @+1 {{invalid properties}}
  %0 = "nn.compare"(%x, %x) <{predicate = "lt"}> : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  return
}

// -----

func.func @philox_result(%i: tensor<4xi64>, %s: tensor<i64>) {
  // expected-error @+1 {{'nn.philox' op result has element type 'i32', expected 'i64'}}
  %0 = nn.philox %i, %s, %s {ordinal = 0 : i64} : (tensor<4xi64>, tensor<i64>, tensor<i64>) -> tensor<4xi32>
  return
}

// -----

func.func @layer_norm_result(%x: tensor<4x3xf32>) {
  // expected-error @+1 {{'nn.layer_norm' op result has element type 'i1', expected 'f32'}}
  %0:3 = nn.layer_norm %x {eps = 1.0e-5 : f64, normalized_rank = 1 : i64} : (tensor<4x3xf32>) -> (tensor<4x3xi1>, tensor<4x1xf32>, tensor<4x1xf32>)
  return
}

// -----

func.func @layer_norm_mean(%x: tensor<4x3xf32>) {
  // expected-error @+1 {{'nn.layer_norm' op mean has element type 'bf16', expected 'f32'}}
  %0:3 = nn.layer_norm %x {eps = 1.0e-5 : f64, normalized_rank = 1 : i64} : (tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<4x1xbf16>, tensor<4x1xf32>)
  return
}

// -----

func.func @layer_norm_rstd(%x: tensor<4x3xbf16>) {
  // expected-error @+1 {{'nn.layer_norm' op rstd has element type 'f64', expected 'bf16'}}
  %0:3 = nn.layer_norm %x {eps = 1.0e-5 : f64, normalized_rank = 1 : i64} : (tensor<4x3xbf16>) -> (tensor<4x3xbf16>, tensor<4x1xf32>, tensor<4x1xf64>)
  return
}

// -----

func.func @layer_norm_affine(%x: tensor<4x3xf32>, %w: tensor<3xf64>) {
  // expected-error @+1 {{'nn.layer_norm' op affine operand has element type 'f64', expected 'f32'}}
  %0:3 = nn.layer_norm %x, %w {eps = 1.0e-5 : f64, normalized_rank = 1 : i64} : (tensor<4x3xf32>, tensor<3xf64>) -> (tensor<4x3xf32>, tensor<4x1xf32>, tensor<4x1xf32>)
  return
}

// -----

func.func @layer_norm_backward_gradient(%x: tensor<4x3xf32>, %g: tensor<4x3xf64>, %m: tensor<4x1xf32>) {
  // expected-error @+1 {{'nn.layer_norm_backward' op gradient has element type 'f64', expected 'f32'}}
  %0 = nn.layer_norm_backward %g, %x, %m, %m {normalized_rank = 1 : i64} : (tensor<4x3xf64>, tensor<4x3xf32>, tensor<4x1xf32>, tensor<4x1xf32>) -> tensor<4x3xf32>
  return
}

// -----

func.func @layer_norm_backward_result(%x: tensor<4x3xf32>, %g: tensor<4x3xf32>, %m: tensor<4x1xf32>) {
  // expected-error @+1 {{'nn.layer_norm_backward' op result has element type 'i64', expected 'f32'}}
  %0 = nn.layer_norm_backward %g, %x, %m, %m {normalized_rank = 1 : i64} : (tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x1xf32>, tensor<4x1xf32>) -> tensor<4x3xi64>
  return
}

// -----

func.func @layer_norm_backward_weight(%x: tensor<4x3xf32>, %w: tensor<4xf32>, %m: tensor<4x1xf32>) {
  // expected-error @+1 {{'nn.layer_norm_backward' op weight has shape [4], expected [3]}}
  %0:3 = nn.layer_norm_backward %x, %x, %m, %m, %w {normalized_rank = 1 : i64} : (tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x1xf32>, tensor<4x1xf32>, tensor<4xf32>) -> (tensor<4x3xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func @topk_values(%x: tensor<4x3xf32>) {
  // expected-error @+1 {{'nn.topk' op values has element type 'f64', expected 'f32'}}
  %0:2 = nn.topk %x {dim = 1 : i64, k = 2 : i64} : (tensor<4x3xf32>) -> (tensor<4x2xf64>, tensor<4x2xi64>)
  return
}

// -----

func.func @permute_type(%x: tensor<4x3xf32>) {
  // expected-error @+1 {{'nn.permute' op result has element type 'f64', expected 'f32'}}
  %0 = nn.permute %x {permutation = array<i64: 1, 0>} : (tensor<4x3xf32>) -> tensor<3x4xf64>
  return
}

// -----

func.func @slice_type(%x: tensor<4x3xf32>) {
  // expected-error @+1 {{'nn.slice' op result has element type 'i1', expected 'f32'}}
  %0 = nn.slice %x {dim = 0 : i64, start = 0 : i64, stop = 2 : i64} : (tensor<4x3xf32>) -> tensor<2x3xi1>
  return
}

// -----

func.func @pad_type(%x: tensor<4x3xf32>) {
  // expected-error @+1 {{'nn.pad' op result has element type 'f64', expected 'f32'}}
  %0 = nn.pad %x {dim = 0 : i64, low = 1 : i64, high = 0 : i64} : (tensor<4x3xf32>) -> tensor<5x3xf64>
  return
}

// -----

func.func @cat_operand_type(%x: tensor<4x3xf32>, %y: tensor<4x3xf64>) {
  // expected-error @+1 {{'nn.cat' op operand has element type 'f64', expected 'f32'}}
  %0 = nn.cat %x, %y {dim = 0 : i64} : (tensor<4x3xf32>, tensor<4x3xf64>) -> tensor<8x3xf32>
  return
}

// -----

func.func @cat_type(%x: tensor<4x3xf32>) {
  // expected-error @+1 {{'nn.cat' op result has element type 'f64', expected 'f32'}}
  %0 = nn.cat %x, %x {dim = 0 : i64} : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<8x3xf64>
  return
}

// -----

func.func @matmul_type(%x: tensor<4x4xbf16>) {
  // expected-error @+1 {{'nn.matmul' op result has element type 'i64', expected 'bf16'}}
  %0 = nn.matmul %x, %x : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xi64>
  return
}

// -----

func.func @matmul_wider(%x: tensor<4x4xf16>) {
  // expected-error @+1 {{'nn.matmul' op result has element type 'f32', expected 'f16'}}
  %0 = nn.matmul %x, %x : (tensor<4x4xf16>, tensor<4x4xf16>) -> tensor<4x4xf32>
  return
}

// -----

func.func @embedding_type(%x: tensor<4x3xf32>, %i: tensor<2xi64>) {
  // expected-error @+1 {{'nn.embedding' op result has element type 'f64', expected 'f32'}}
  %0 = nn.embedding %x, %i : (tensor<4x3xf32>, tensor<2xi64>) -> tensor<2x3xf64>
  return
}

// -----

func.func @embedding_backward_type(%g: tensor<2x3xf32>, %i: tensor<2xi64>) {
  // expected-error @+1 {{'nn.embedding_backward' op gradient has element type 'f32', expected 'f64'}}
  %0 = nn.embedding_backward %g, %i : (tensor<2x3xf32>, tensor<2xi64>) -> tensor<4x3xf64>
  return
}

// -----

func.func @gather_type(%x: tensor<4xf32>, %i: tensor<2xi64>) {
  // expected-error @+1 {{'nn.gather' op result has element type 'f64', expected 'f32'}}
  %0 = nn.gather %x, %i {dim = 0 : i64} : (tensor<4xf32>, tensor<2xi64>) -> tensor<2xf64>
  return
}

// -----

func.func @scatter_add_type(%x: tensor<2xf32>, %i: tensor<2xi64>) {
  // expected-error @+1 {{'nn.scatter_add' op result has element type 'i64', expected 'f32'}}
  %0 = nn.scatter_add %x, %i {dim = 0 : i64} : (tensor<2xf32>, tensor<2xi64>) -> tensor<4xi64>
  return
}

// -----

func.func @roll_shifts(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{has 1 shifts for 2 dimensions}}
  %0 = nn.roll %x {dims = array<i64: 0, 1>, shifts = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

func.func @roll_range(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{shifts dimension 1 by 8, expected a number in [0, 8)}}
  %0 = nn.roll %x {dims = array<i64: 1>, shifts = array<i64: 8>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

func.func @attention_shapes(%q: tensor<2x4x3x8xf32>, %k: tensor<2x3x5x8xf32>) {
  // expected-error @+1 {{'nn.attention' op has query [2, 4, 3, 8], key [2, 3, 5, 8] and value [2, 3, 5, 8], expected [b, h g, m, d], [b, h, n, d] and [b, h, n, e]}}
  %0:2 = nn.attention %q, %k, %k {scale = 0.5 : f64} : (tensor<2x4x3x8xf32>, tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32>) -> (tensor<2x4x3x8xf32>, tensor<2x4x3xf32>)
  return
}

// -----

func.func @attention_integers(%q: tensor<1x1x3x8xi64>) {
  // expected-error @+1 {{'nn.attention' op query has element type 'i64', expected a floating-point type}}
  %0:2 = nn.attention %q, %q, %q {scale = 0.5 : f64} : (tensor<1x1x3x8xi64>, tensor<1x1x3x8xi64>, tensor<1x1x3x8xi64>) -> (tensor<1x1x3x8xi64>, tensor<1x1x3xf32>)
  return
}

// -----

func.func @attention_logsumexp(%q: tensor<1x1x3x8xbf16>) {
  // expected-error @+1 {{'nn.attention' op logsumexp has element type 'bf16', expected 'f32'}}
  %0:2 = nn.attention %q, %q, %q {scale = 0.5 : f64} : (tensor<1x1x3x8xbf16>, tensor<1x1x3x8xbf16>, tensor<1x1x3x8xbf16>) -> (tensor<1x1x3x8xbf16>, tensor<1x1x3xbf16>)
  return
}

// -----

func.func @attention_mask(%q: tensor<2x2x3x8xf32>, %mask: tensor<2x1x3x4xi1>) {
  // expected-error @+1 {{'nn.attention' op mask has shape [2, 1, 3, 4], expected one that broadcasts to [2, 2, 3, 3]}}
  %0:2 = nn.attention %q, %q, %q, %mask {scale = 0.5 : f64, masked = true} : (tensor<2x2x3x8xf32>, tensor<2x2x3x8xf32>, tensor<2x2x3x8xf32>, tensor<2x1x3x4xi1>) -> (tensor<2x2x3x8xf32>, tensor<2x2x3xf32>)
  return
}

// -----

func.func @attention_mask_type(%q: tensor<2x2x3x8xf32>, %wide: tensor<1x1x3x3xf64>) {
  // expected-error @+1 {{'nn.attention' op mask has element type 'f64', expected i1 or 'f32'}}
  %0:2 = nn.attention %q, %q, %q, %wide {scale = 0.5 : f64, masked = true} : (tensor<2x2x3x8xf32>, tensor<2x2x3x8xf32>, tensor<2x2x3x8xf32>, tensor<1x1x3x3xf64>) -> (tensor<2x2x3x8xf32>, tensor<2x2x3xf32>)
  return
}

// -----

func.func @attention_others(%q: tensor<2x2x3x8xf32>) {
  // expected-error @+1 {{'nn.attention' op has 0 operands behind its own, expected 1 as its attributes say}}
  %0:2 = nn.attention %q, %q, %q {scale = 0.5 : f64, after = 0 : i64} : (tensor<2x2x3x8xf32>, tensor<2x2x3x8xf32>, tensor<2x2x3x8xf32>) -> (tensor<2x2x3x8xf32>, tensor<2x2x3xf32>)
  return
}

// -----

func.func @attention_positions(%q: tensor<2x2x3x8xf32>, %positions: tensor<4xi64>) {
  // expected-error @+1 {{'nn.attention' op positions has shape [4], expected [3]}}
  %0:2 = nn.attention %q, %q, %q, %positions {scale = 0.5 : f64, after = 0 : i64} : (tensor<2x2x3x8xf32>, tensor<2x2x3x8xf32>, tensor<2x2x3x8xf32>, tensor<4xi64>) -> (tensor<2x2x3x8xf32>, tensor<2x2x3xf32>)
  return
}

// -----

func.func @attention_band(%q: tensor<2x2x3x8xf32>, %positions: tensor<3xi64>) {
  // expected-error @+1 {{'nn.attention' op sees -1 keys to a side, expected none or more}}
  %0:2 = nn.attention %q, %q, %q, %positions {scale = 0.5 : f64, before = -1 : i64} : (tensor<2x2x3x8xf32>, tensor<2x2x3x8xf32>, tensor<2x2x3x8xf32>, tensor<3xi64>) -> (tensor<2x2x3x8xf32>, tensor<2x2x3xf32>)
  return
}

// -----

func.func @attention_dropout(%q: tensor<2x2x3x8xf32>, %rows: tensor<2x2x3xi64>, %s: tensor<i64>) {
  // expected-error @+1 {{'nn.attention' op drops with probability 1.000000e+00, expected 0 or more and less than 1}}
  %0:2 = nn.attention %q, %q, %q, %rows, %s, %s {scale = 0.5 : f64, dropout = 1.0 : f64} : (tensor<2x2x3x8xf32>, tensor<2x2x3x8xf32>, tensor<2x2x3x8xf32>, tensor<2x2x3xi64>, tensor<i64>, tensor<i64>) -> (tensor<2x2x3x8xf32>, tensor<2x2x3xf32>)
  return
}

// -----

func.func @attention_backward(%q: tensor<2x2x3x8xf32>, %k: tensor<2x2x4x8xf32>, %lse: tensor<2x2x3xf32>) {
  // expected-error @+1 {{'nn.attention_backward' op gradient of the key has shape [2, 2, 3, 8], expected [2, 2, 4, 8]}}
  %0:3 = nn.attention_backward %q, %q, %k, %k, %q, %lse {scale = 0.5 : f64} : (tensor<2x2x3x8xf32>, tensor<2x2x3x8xf32>, tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>, tensor<2x2x3x8xf32>, tensor<2x2x3xf32>) -> (tensor<2x2x3x8xf32>, tensor<2x2x3x8xf32>, tensor<2x2x4x8xf32>)
  return
}

// -----

func.func @conv_channels(%x: tensor<2x6x8xf32>, %w: tensor<5x3x3xf32>) {
  // expected-error @+1 {{'nn.conv' op has input [2, 6, 8], weight [5, 3, 3] and output [2, 5, 8], expected [n, g i, x...], [g o, i, k...] and [n, g o, y...] with 1 to 3 spatial dimensions}}
  %0 = nn.conv %x, %w {stride = array<i64: 1>, padding = array<i64: 1>, dilation = array<i64: 1>} : (tensor<2x6x8xf32>, tensor<5x3x3xf32>) -> tensor<2x5x8xf32>
  return
}

// -----

func.func @conv_rank(%x: tensor<2x3x4x4x4x4xf32>, %w: tensor<5x3x1x1x1x1xf32>) {
  // expected-error @+1 {{with 1 to 3 spatial dimensions}}
  %0 = nn.conv %x, %w {stride = array<i64: 1, 1, 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1, 1, 1>} : (tensor<2x3x4x4x4x4xf32>, tensor<5x3x1x1x1x1xf32>) -> tensor<2x5x4x4x4x4xf32>
  return
}

// -----

func.func @conv_types(%x: tensor<2x3x8xf32>, %w: tensor<5x3x3xf64>) {
  // expected-error @+1 {{'nn.conv' op has element types 'f32', 'f64' and 'f32', expected one floating-point type}}
  %0 = nn.conv %x, %w {stride = array<i64: 1>, padding = array<i64: 1>, dilation = array<i64: 1>} : (tensor<2x3x8xf32>, tensor<5x3x3xf64>) -> tensor<2x5x8xf32>
  return
}

// -----

func.func @conv_windows(%x: tensor<2x3x8xf32>, %w: tensor<5x3x3xf32>) {
  // expected-error @+1 {{'nn.conv' op has 1 strides, 2 paddings and 1 dilations, expected 1 each}}
  %0 = nn.conv %x, %w {stride = array<i64: 1>, padding = array<i64: 1, 1>, dilation = array<i64: 1>} : (tensor<2x3x8xf32>, tensor<5x3x3xf32>) -> tensor<2x5x8xf32>
  return
}

// -----

func.func @conv_stride(%g: tensor<2x5x8xf32>, %w: tensor<5x3x3xf32>) {
  // expected-error @+1 {{'nn.conv_input_grad' op has stride 0, dilation 1 and padding -1, expected at least 1, 1 and 0}}
  %0 = nn.conv_input_grad %g, %w {stride = array<i64: 0>, padding = array<i64: -1>, dilation = array<i64: 1>} : (tensor<2x5x8xf32>, tensor<5x3x3xf32>) -> tensor<2x3x8xf32>
  return
}

// -----

func.func @conv_end(%x: tensor<2x3x8xf32>, %g: tensor<2x5x3xf32>) {
  // expected-error @+1 {{'nn.conv_weight_grad' op does not read the last 2 elements of spatial dimension 0, expected fewer than its stride 2}}
  %0 = nn.conv_weight_grad %x, %g {stride = array<i64: 2>, padding = array<i64: 0>, dilation = array<i64: 1>} : (tensor<2x3x8xf32>, tensor<2x5x3xf32>) -> tensor<5x3x2xf32>
  return
}

// -----

#mesh = #spmd.mesh<data = 2>
func.func @conv_halo(%x: tensor<2x3x8xf32, #spmd.form<#mesh, data: gather(2)>>, %w: tensor<5x3x3xf32>) {
  // expected-error @+1 {{'nn.conv' op has no signature 'gather(2), full -> gather(2)' on axis 'data' of size 2; splitting dimension 2 needs a halo, which no operator has; expected one of: full, full -> full; gather(0), full -> gather(0); reduce, full -> reduce; full, reduce -> reduce}}
  %0 = nn.conv %x, %w {stride = array<i64: 1>, padding = array<i64: 1>, dilation = array<i64: 1>} : (tensor<2x3x8xf32, #spmd.form<#mesh, data: gather(2)>>, tensor<5x3x3xf32>) -> tensor<2x5x8xf32, #spmd.form<#mesh, data: gather(2)>>
  return
}

// -----

func.func @pool_counts(%x: tensor<2x3x8xf32>) {
  // expected-error @+1 {{'nn.max_pool' op has 1 kernel sizes, 2 strides, 1 paddings and 1 dilations, expected 1 to 3 each}}
  %0:2 = nn.max_pool %x {kernel = array<i64: 2>, stride = array<i64: 2, 2>, padding = array<i64: 0>, dilation = array<i64: 1>} : (tensor<2x3x8xf32>) -> (tensor<2x3x4xf32>, tensor<2x3x4xi64>)
  return
}

// -----

func.func @conv_wider(%x: tensor<2x3x8xbf16>, %w: tensor<5x3x3xbf16>) {
  // expected-error @+1 {{'nn.conv' op has element types 'bf16', 'bf16' and 'f32', expected one floating-point type, or f32 for the gradient of a weight of bf16}}
  %0 = nn.conv %x, %w {stride = array<i64: 1>, padding = array<i64: 1>, dilation = array<i64: 1>} : (tensor<2x3x8xbf16>, tensor<5x3x3xbf16>) -> tensor<2x5x8xf32>
  return
}

// -----

func.func @conv_much_wider(%x: tensor<2x3x8xbf16>, %g: tensor<2x5x8xbf16>) {
  // expected-error @+1 {{'nn.conv_weight_grad' op has element types 'bf16', 'f64' and 'bf16', expected one floating-point type, or f32}}
  %0 = nn.conv_weight_grad %x, %g {stride = array<i64: 1>, padding = array<i64: 1>, dilation = array<i64: 1>} : (tensor<2x3x8xbf16>, tensor<2x5x8xbf16>) -> tensor<5x3x3xf64>
  return
}

// -----

func.func @pool_shapes(%x: tensor<2x3x8xf32>) {
  // expected-error @+1 {{'nn.max_pool' op has input [2, 3, 8], values [2, 3, 4] and indices [2, 3, 5], expected equal dimensions but for the last 1 of the input}}
  %0:2 = nn.max_pool %x {kernel = array<i64: 2>, stride = array<i64: 2>, padding = array<i64: 0>, dilation = array<i64: 1>} : (tensor<2x3x8xf32>) -> (tensor<2x3x4xf32>, tensor<2x3x5xi64>)
  return
}

// -----

func.func @pool_types(%x: tensor<2x3x8xi32>) {
  // expected-error @+1 {{'nn.max_pool' op has element types 'i32' and 'i32', expected one floating-point type}}
  %0:2 = nn.max_pool %x {kernel = array<i64: 2>, stride = array<i64: 2>, padding = array<i64: 0>, dilation = array<i64: 1>} : (tensor<2x3x8xi32>) -> (tensor<2x3x4xi32>, tensor<2x3x4xi64>)
  return
}

// -----

func.func @pool_stride(%x: tensor<2x3x8xf32>) {
  // expected-error @+1 {{'nn.max_pool' op has kernel size 0, stride 2, padding 0 and dilation 1, expected at least 1, 1, 0 and 1}}
  %0:2 = nn.max_pool %x {kernel = array<i64: 0>, stride = array<i64: 2>, padding = array<i64: 0>, dilation = array<i64: 1>} : (tensor<2x3x8xf32>) -> (tensor<2x3x4xf32>, tensor<2x3x4xi64>)
  return
}

// -----

func.func @pool_windows(%x: tensor<2x3x8xf32>) {
  // expected-error @+1 {{'nn.max_pool' op window 4 of spatial dimension 0 has no element of the input's 8, expected one or more}}
  %0:2 = nn.max_pool %x {kernel = array<i64: 2>, stride = array<i64: 2>, padding = array<i64: 0>, dilation = array<i64: 1>} : (tensor<2x3x8xf32>) -> (tensor<2x3x5xf32>, tensor<2x3x5xi64>)
  return
}

// -----

func.func @scalar_domain(%x: tensor<4xi64>) {
  // expected-error @+1 {{'nn.exp' op is not defined for element type 'i64'}}
  %0 = nn.exp %x : (tensor<4xi64>) -> tensor<4xi64>
  return
}

// -----

func.func @logical_domain(%x: tensor<4xf32>) {
  // expected-error @+1 {{'nn.logical_and' op is not defined for element type 'f32'}}
  %0 = nn.logical_and %x, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @softmax_truth(%x: tensor<4x4xi1>) {
  // expected-error @+1 {{'nn.softmax' op has operands of element type 'i1', expected a floating-point type}}
  %0 = nn.softmax %x {dim = 1 : i64} : (tensor<4x4xi1>) -> tensor<4x4xi1>
  return
}

// -----

func.func @layer_norm_integers(%x: tensor<4x4xi64>) {
  // expected-error @+1 {{'nn.layer_norm' op has operands of element type 'i64', expected a floating-point type}}
  %0, %m, %r = nn.layer_norm %x {eps = 1.0e-5 : f64, normalized_rank = 1 : i64} : (tensor<4x4xi64>) -> (tensor<4x4xi64>, tensor<4x1xi64>, tensor<4x1xi64>)
  return
}

// -----

func.func @layer_norm_weight(%x: tensor<4x4xf32>, %c: tensor<4x1xf32>, %w: tensor<4xi1>) {
  // expected-error @+1 {{'nn.layer_norm_backward' op weight has element type 'i1', expected 'f32'}}
  %q, %0, %r = nn.layer_norm_backward %x, %x, %c, %c, %w {normalized_rank = 1 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x1xf32>, tensor<4x1xf32>, tensor<4xi1>) -> (tensor<4x4xf32>, tensor<4xi1>, tensor<4xi1>)
  return
}

// -----

func.func @element_index(%x: tensor<4xindex>) {
  // expected-error @+1 {{'nn.add' op operand #0 must be tensor of static shape of f64, f32, f16, bf16, i64, i32, i16, i8 or i1, but got}}
  %0 = nn.add %x, %x : (tensor<4xindex>, tensor<4xindex>) -> tensor<4xindex>
  return
}

// -----

func.func @dynamic(%x: tensor<?xf32>) {
  // expected-error @+1 {{'nn.neg' op operand #0 must be tensor of static shape of f64, f32, f16, bf16, i64, i32, i16, i8 or i1, but got}}
  %0 = nn.neg %x : (tensor<?xf32>) -> tensor<?xf32>
  return
}

// -----

func.func @constant_elsewhere() {
  // expected-error @+1 {{'nn.constant' op has a value that is not written out, expected 'dense<...>'}}
  %0 = nn.constant sparse<[[0]], [1.0]> : tensor<4xf32> -> tensor<4xf32>
  return
}

// -----

func.func @either_of_one(%x: tensor<4xf32>) {
  // expected-error @+1 {{'nn.either' op has 1 operands, expected at least two to choose of}}
  %0 = nn.either %x : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @either_shape(%x: tensor<4xf32>, %y: tensor<3xf32>) {
  // expected-error @+1 {{'nn.either' op operand has shape [3], expected [4]}}
  %0 = nn.either %x, %y : (tensor<4xf32>, tensor<3xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @either_type(%x: tensor<4xf32>, %y: tensor<4xf64>) {
  // expected-error @+1 {{'nn.either' op operand has element type 'f64', expected 'f32'}}
  %0 = nn.either %x, %y : (tensor<4xf32>, tensor<4xf64>) -> tensor<4xf32>
  return
}

// -----

func.func @either_source(%x: tensor<4xf32>) {
  // expected-error @+1 {{'nn.either' op has the 'nn.source' 2, expected one below 2}}
  %0 = nn.either %x, %x {nn.source = 2 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}
