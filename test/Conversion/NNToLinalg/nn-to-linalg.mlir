// RUN: tandem-opt %s --tandem-nn-to-linalg --split-input-file --verify-diagnostics | FileCheck %s

// Operands broadcast by their maps; a splat is written in the body.
// CHECK-DAG: #[[SAME:.*]] = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-DAG: #[[LAST:.*]] = affine_map<(d0, d1) -> (d1)>
// CHECK-LABEL: func.func @elementwise
// CHECK: linalg.generic {indexing_maps = [#[[SAME]], #[[LAST]], #[[SAME]]], iterator_types = ["parallel", "parallel"]}
// CHECK: arith.addf
// CHECK: linalg.generic {indexing_maps = [#[[SAME]], #[[SAME]]]
// CHECK: %[[TWO:.*]] = arith.constant 2.0
// CHECK: arith.mulf %{{.*}}, %[[TWO]]
func.func @elementwise(%x: tensor<4x8xf32>, %y: tensor<8xf32>) -> tensor<4x8xf32> {
  %two = nn.constant dense<2.0> : tensor<f32> -> tensor<f32>
  %0 = nn.add %x, %y : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %1 = nn.mul %0, %two : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// -----

// A sum of bf16 is accumulated in f32, and rounded by an operator of its own.
// CHECK-LABEL: func.func @sum
// CHECK: %[[ZERO:.*]] = arith.constant dense<0.000000e+00> : tensor<4xf32>
// CHECK: iterator_types = ["parallel", "reduction"]} ins(%arg0 : tensor<4x8xbf16>) outs(%[[ZERO]] : tensor<4xf32>)
// CHECK: arith.extf
// CHECK: arith.addf
// CHECK: linalg.generic
// CHECK: arith.truncf
func.func @sum(%x: tensor<4x8xbf16>) -> tensor<4xbf16> {
  %0 = nn.sum %x {dims = array<i64: 1>} : (tensor<4x8xbf16>) -> tensor<4xbf16>
  return %0 : tensor<4xbf16>
}

// -----

// Indices are checked once per row, apart from the loop over the row.
// CHECK-LABEL: func.func @embedding
// CHECK: linalg.generic {{.*}} ins(%arg1 : tensor<3xi64>)
// CHECK: scf.if
// CHECK: func.call @tandem_report_index(%{{.*}}, %{{.*}}, %{{.*}})
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<3x8xf32>)
// CHECK-NOT: call
// CHECK: tensor.extract %arg0
func.func @embedding(%w: tensor<5x8xf32>, %i: tensor<3xi64>) -> tensor<3x8xf32> {
  %0 = nn.embedding %w, %i : (tensor<5x8xf32>, tensor<3xi64>) -> tensor<3x8xf32>
  return %0 : tensor<3x8xf32>
}

// -----

// What has a loop of its own stays, with the number that an error quotes.
// CHECK-LABEL: func.func @embedding_backward
// CHECK: nn.embedding_backward %{{.*}}nn.site = 0 : i64
func.func @embedding_backward(%g: tensor<3x8xf32>, %i: tensor<3xi64>) -> tensor<5x8xf32> {
  %0 = nn.embedding_backward %g, %i : (tensor<3x8xf32>, tensor<3xi64>) -> tensor<5x8xf32>
  return %0 : tensor<5x8xf32>
}

// -----

// Operators with one ordinal have one number; the ordinals are the launch's.
// CHECK-LABEL: func @random
// CHECK: %[[FIRST:.*]] = arith.constant 0 : i64
// CHECK: call @tandem_launch_ordinal(%[[FIRST]]) : (i64) -> i64
// CHECK: %[[SECOND:.*]] = arith.constant 1 : i64
// CHECK: call @tandem_launch_ordinal(%[[SECOND]]) : (i64) -> i64
// CHECK: %[[AGAIN:.*]] = arith.constant 0 : i64
// CHECK: call @tandem_launch_ordinal(%[[AGAIN]]) : (i64) -> i64
func.func @random(%i: tensor<4xi64>, %s: tensor<i64>, %t: tensor<i64>) -> (tensor<4xi64>, tensor<4xi64>, tensor<4xi64>) {
  %0 = nn.philox %i, %s, %t {ordinal = 7 : i64} : (tensor<4xi64>, tensor<i64>, tensor<i64>) -> tensor<4xi64>
  %1 = nn.philox %i, %s, %t {ordinal = 3 : i64} : (tensor<4xi64>, tensor<i64>, tensor<i64>) -> tensor<4xi64>
  %2 = nn.philox %0, %s, %t {ordinal = 7 : i64} : (tensor<4xi64>, tensor<i64>, tensor<i64>) -> tensor<4xi64>
  return %0, %1, %2 : tensor<4xi64>, tensor<4xi64>, tensor<4xi64>
}

// -----

func.func @product(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  // expected-error @+1 {{'nn.matmul' op has no kernel}}
  %0 = nn.matmul %x, %x : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}

