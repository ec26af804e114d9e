// RUN: tandem-opt --tandem-select-epilogues --split-input-file %s | FileCheck %s
// RUN: tandem-opt --tandem-select-epilogues --split-input-file %s | tandem-opt --tandem-add-bias --split-input-file | FileCheck %s
// RUN: sed s/cuda/cpu/ %s | tandem-opt --tandem-select-epilogues --split-input-file | FileCheck --check-prefix=CPU %s

// A layer, its gradients and those of its bias. What the backward pass asks for is kept.
// CPU-LABEL: func.func @step
// CPU-NOT: epilogue
// CPU-NOT: summed
// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[X:.*]]: tensor<2x3x16xf32>, %[[W:.*]]: tensor<16x8xf32>, %[[B:.*]]: tensor<8xf32>, %[[V:.*]]: tensor<8x16xf32>, %[[DY:.*]]: tensor<2x3x16xf32>
// CHECK: %[[Y:.*]], %[[KEPT:.*]] = sched.matmul %[[X]], %[[W]] plus %[[B]] {{.*}}epilogue = #sched<epilogue gelu>
// CHECK: %[[G:.*]] = nn.reshape %[[Y]]
// CHECK-NOT: nn.gelu
// CHECK: sched.matmul %[[G]], %[[V]]
// CHECK: %[[DX:.*]] = sched.matmul %[[DY]], %[[V]] at %{{.*}} {{.*}}epilogue = #sched<epilogue gelu_gradient>
// CHECK-NOT: nn.gelu_backward
// CHECK: %[[DG:.*]] = nn.reshape %[[DX]]
// CHECK: %{{.*}}, %[[DB:.*]] = sched.matmul %[[X]], %[[DG]] {{.*}}summed = #sched<summed rhs>
// CHECK-NOT: nn.sum
// CHECK: nn.reshape %[[DB]] {{.*}} -> tensor<8xf32>
module attributes {sched.device = #sched.device<cuda>} {
func.func @step(%x: tensor<2x3x16xf32>, %w: tensor<16x8xf32>, %b: tensor<8xf32>, %v: tensor<8x16xf32>, %dy: tensor<2x3x16xf32>) -> (tensor<6x16xf32>, tensor<16x8xf32>, tensor<8xf32>, tensor<6x16xf32>) {
  %0:2, %e = sched.step on compute stage 0 strand 0 {
    %1 = sched.matmul %x, %w {batch = array<i64>, m = 6, n = 8, k = 16, strides_a = array<i64: 16, 1>, strides_b = array<i64: 8, 1>, strides_c = array<i64: 8, 1>} : (tensor<2x3x16xf32>, tensor<16x8xf32>) -> tensor<6x8xf32>
    %2 = nn.add %1, %b : (tensor<6x8xf32>, tensor<8xf32>) -> tensor<6x8xf32>
    %3 = nn.reshape %2 : (tensor<6x8xf32>) -> tensor<2x3x8xf32>
    %4 = nn.gelu tanh %3 : (tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
    %5 = sched.matmul %4, %v {batch = array<i64>, m = 6, n = 16, k = 8, strides_a = array<i64: 8, 1>, strides_b = array<i64: 16, 1>, strides_c = array<i64: 16, 1>} : (tensor<2x3x8xf32>, tensor<8x16xf32>) -> tensor<6x16xf32>
    sched.yield %3, %5 : tensor<2x3x8xf32>, tensor<6x16xf32>
  } : tensor<2x3x8xf32>, tensor<6x16xf32>
  %6:3, %f = sched.step on compute stage 1 strand 0 {
    %7 = sched.matmul %dy, %v {batch = array<i64>, m = 6, n = 8, k = 16, strides_a = array<i64: 16, 1>, strides_b = array<i64: 1, 16>, strides_c = array<i64: 8, 1>} : (tensor<2x3x16xf32>, tensor<8x16xf32>) -> tensor<6x8xf32>
    %8 = nn.reshape %7 : (tensor<6x8xf32>) -> tensor<2x3x8xf32>
    %9 = nn.gelu_backward tanh %8, %0#0 : (tensor<2x3x8xf32>, tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
    %10 = sched.matmul %9, %w {batch = array<i64>, m = 6, n = 16, k = 8, strides_a = array<i64: 8, 1>, strides_b = array<i64: 1, 8>, strides_c = array<i64: 16, 1>} : (tensor<2x3x8xf32>, tensor<16x8xf32>) -> tensor<6x16xf32>
    %11 = sched.matmul %x, %9 {batch = array<i64>, m = 16, n = 8, k = 6, strides_a = array<i64: 1, 16>, strides_b = array<i64: 8, 1>, strides_c = array<i64: 8, 1>} : (tensor<2x3x16xf32>, tensor<2x3x8xf32>) -> tensor<16x8xf32>
    %12 = nn.sum %9 {dims = array<i64: 0, 1>} : (tensor<2x3x8xf32>) -> tensor<8xf32>
    sched.yield %10, %11, %12 : tensor<6x16xf32>, tensor<16x8xf32>, tensor<8xf32>
  } : tensor<6x16xf32>, tensor<16x8xf32>, tensor<8xf32>
  return %6#0, %6#1, %6#2, %0#1 : tensor<6x16xf32>, tensor<16x8xf32>, tensor<8xf32>, tensor<6x16xf32>
}
}

// -----

// Without a backward pass nothing is kept, so rows of any width do. In the weight's transposed gradient the sums are of the other operand.
// CHECK-LABEL: func.func @step
// CHECK: %[[Y:.*]] = sched.matmul %{{.*}}, %{{.*}} {{.*}}epilogue = #sched<epilogue gelu>
// CHECK-SAME: -> tensor<6x5xf32>
// CHECK: nn.reshape %[[Y]]
// CHECK: %{{.*}}, %{{.*}} = sched.matmul %{{.*}}, %{{.*}} {{.*}}summed = #sched<summed lhs>
// CHECK-SAME: -> (tensor<16x5xf32>, tensor<16xf32>)
// CHECK-NOT: nn.sum
module attributes {sched.device = #sched.device<cuda>} {
func.func @step(%x: tensor<6x16xf32>, %w: tensor<16x5xf32>, %v: tensor<5x16xf32>) -> (tensor<16x5xf32>, tensor<16xf32>) {
  %0:2, %e = sched.step on compute stage 0 strand 0 {
    %1 = sched.matmul %x, %w {batch = array<i64>, m = 6, n = 5, k = 16, strides_a = array<i64: 16, 1>, strides_b = array<i64: 5, 1>, strides_c = array<i64: 5, 1>} : (tensor<6x16xf32>, tensor<16x5xf32>) -> tensor<6x5xf32>
    %2 = nn.gelu tanh %1 : (tensor<6x5xf32>) -> tensor<6x5xf32>
    %3 = sched.matmul %2, %v {batch = array<i64>, m = 6, n = 16, k = 5, strides_a = array<i64: 5, 1>, strides_b = array<i64: 16, 1>, strides_c = array<i64: 16, 1>} : (tensor<6x5xf32>, tensor<5x16xf32>) -> tensor<6x16xf32>
    %4 = sched.matmul %3, %2 {batch = array<i64>, m = 16, n = 5, k = 6, strides_a = array<i64: 1, 16>, strides_b = array<i64: 5, 1>, strides_c = array<i64: 5, 1>} : (tensor<6x16xf32>, tensor<6x5xf32>) -> tensor<16x5xf32>
    %5 = nn.sum %3 {dims = array<i64: 0>} : (tensor<6x16xf32>) -> tensor<16xf32>
    sched.yield %4, %5 : tensor<16x5xf32>, tensor<16xf32>
  } : tensor<16x5xf32>, tensor<16xf32>
  return %0#0, %0#1 : tensor<16x5xf32>, tensor<16xf32>
}
}

// -----

// Not the GELU of erf; nor where a kernel reads the result; nor of float64; nor what is kept where rows are not by eights.
// CHECK-LABEL: func.func @step
// CHECK-NOT: epilogue
// CHECK-COUNT-4: nn.gelu
module attributes {sched.device = #sched.device<cuda>} {
func.func @step(%x: tensor<8x8xf32>, %z: tensor<8x8xf64>, %u: tensor<8x5xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf64>, tensor<5x5xf32>, tensor<8x5xf32>) {
  %0:5, %e = sched.step on compute stage 0 strand 0 {
    %1 = sched.matmul %x, %x {batch = array<i64>, m = 8, n = 8, k = 8, strides_a = array<i64: 8, 1>, strides_b = array<i64: 8, 1>, strides_c = array<i64: 8, 1>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %2 = nn.gelu none %1 : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %3 = sched.matmul %2, %x {batch = array<i64>, m = 8, n = 8, k = 8, strides_a = array<i64: 8, 1>, strides_b = array<i64: 8, 1>, strides_c = array<i64: 8, 1>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %4 = nn.gelu tanh %3 : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %5 = nn.exp %4 : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %6 = sched.matmul %5, %4 {batch = array<i64>, m = 8, n = 8, k = 8, strides_a = array<i64: 8, 1>, strides_b = array<i64: 8, 1>, strides_c = array<i64: 8, 1>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %7 = sched.matmul %z, %z {batch = array<i64>, m = 8, n = 8, k = 8, strides_a = array<i64: 8, 1>, strides_b = array<i64: 8, 1>, strides_c = array<i64: 8, 1>} : (tensor<8x8xf64>, tensor<8x8xf64>) -> tensor<8x8xf64>
    %8 = nn.gelu tanh %7 : (tensor<8x8xf64>) -> tensor<8x8xf64>
    %9 = sched.matmul %8, %z {batch = array<i64>, m = 8, n = 8, k = 8, strides_a = array<i64: 8, 1>, strides_b = array<i64: 8, 1>, strides_c = array<i64: 8, 1>} : (tensor<8x8xf64>, tensor<8x8xf64>) -> tensor<8x8xf64>
    %10 = sched.matmul %x, %u {batch = array<i64>, m = 8, n = 5, k = 8, strides_a = array<i64: 8, 1>, strides_b = array<i64: 5, 1>, strides_c = array<i64: 5, 1>} : (tensor<8x8xf32>, tensor<8x5xf32>) -> tensor<8x5xf32>
    %11 = nn.gelu tanh %10 : (tensor<8x5xf32>) -> tensor<8x5xf32>
    %12 = sched.matmul %11, %11 {batch = array<i64>, m = 5, n = 5, k = 8, strides_a = array<i64: 1, 5>, strides_b = array<i64: 5, 1>, strides_c = array<i64: 5, 1>} : (tensor<8x5xf32>, tensor<8x5xf32>) -> tensor<5x5xf32>
    sched.yield %3, %6, %9, %12, %10 : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf64>, tensor<5x5xf32>, tensor<8x5xf32>
  } : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf64>, tensor<5x5xf32>, tensor<8x5xf32>
  return %0#0, %0#1, %0#2, %0#3, %0#4 : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf64>, tensor<5x5xf32>, tensor<8x5xf32>
}
}

// -----

// Not sums of what a kernel has made, which sums on the way; nor where a kernel reads it as well; nor over other dimensions; nor where they are wanted before the product.
// CHECK-LABEL: func.func @step
// CHECK-NOT: summed
// CHECK-COUNT-4: nn.sum
module attributes {sched.device = #sched.device<cuda>} {
func.func @step(%x: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8x8xf32>) {
  %0:5, %e = sched.step on compute stage 0 strand 0 {
    %1 = nn.exp %x : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %2 = sched.matmul %x, %1 {batch = array<i64>, m = 8, n = 8, k = 8, strides_a = array<i64: 1, 8>, strides_b = array<i64: 8, 1>, strides_c = array<i64: 8, 1>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %3 = nn.sum %1 {dims = array<i64: 0>} : (tensor<8x8xf32>) -> tensor<8xf32>
    %4 = sched.matmul %1, %2 {batch = array<i64>, m = 8, n = 8, k = 8, strides_a = array<i64: 1, 8>, strides_b = array<i64: 8, 1>, strides_c = array<i64: 8, 1>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %5 = nn.sum %2 {dims = array<i64: 0>} : (tensor<8x8xf32>) -> tensor<8xf32>
    %6 = nn.sin %2 : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %7 = nn.sum %4 {dims = array<i64: 1>} : (tensor<8x8xf32>) -> tensor<8xf32>
    %8 = sched.matmul %6, %4 {batch = array<i64>, m = 8, n = 8, k = 8, strides_a = array<i64: 1, 8>, strides_b = array<i64: 8, 1>, strides_c = array<i64: 8, 1>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %9 = nn.sum %8 {dims = array<i64: 0>} : (tensor<8x8xf32>) -> tensor<8xf32>
    %10 = nn.add %8, %9 : (tensor<8x8xf32>, tensor<8xf32>) -> tensor<8x8xf32>
    %11 = sched.matmul %10, %8 {batch = array<i64>, m = 8, n = 8, k = 8, strides_a = array<i64: 1, 8>, strides_b = array<i64: 8, 1>, strides_c = array<i64: 8, 1>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    sched.yield %11, %3, %5, %7, %6 : tensor<8x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8x8xf32>
  } : tensor<8x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8x8xf32>
  return %0#0, %0#1, %0#2, %0#3, %0#4 : tensor<8x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8x8xf32>
}
}

// -----

// Sums of bf16 are f32 where the product is, and need no conversion.
// CHECK-LABEL: func.func @step
// CHECK: sched.matmul
// CHECK: sched.matmul
// CHECK-SAME: summed = #sched<summed lhs>
// CHECK-SAME: -> (tensor<8x8xf32>, tensor<8xf32>)
// CHECK-NOT: nn.convert
// CHECK-NOT: nn.sum
module attributes {sched.device = #sched.device<cuda>} {
func.func @step(%x: tensor<8x8xbf16>) -> (tensor<8x8xf32>, tensor<8xf32>) {
  %0:2, %e = sched.step on compute stage 0 strand 0 {
    %1 = sched.matmul %x, %x {batch = array<i64>, m = 8, n = 8, k = 8, strides_a = array<i64: 1, 8>, strides_b = array<i64: 8, 1>, strides_c = array<i64: 8, 1>} : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xbf16>
    %2 = sched.matmul %1, %x {batch = array<i64>, m = 8, n = 8, k = 8, strides_a = array<i64: 1, 8>, strides_b = array<i64: 8, 1>, strides_c = array<i64: 8, 1>} : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xf32>
    %3 = nn.convert %1 : (tensor<8x8xbf16>) -> tensor<8x8xf32>
    %4 = nn.sum %3 {dims = array<i64: 0>} : (tensor<8x8xf32>) -> tensor<8xf32>
    sched.yield %2, %4 : tensor<8x8xf32>, tensor<8xf32>
  } : tensor<8x8xf32>, tensor<8xf32>
  return %0#0, %0#1 : tensor<8x8xf32>, tensor<8xf32>
}
}

// -----

// A step ends with what a collective waits for; the gradient of GELU and the sums of the next one are the products' of this one.
// CHECK-LABEL: func.func @step
// CHECK: %[[Y:.*]], %[[KEPT:.*]] = sched.matmul %{{.*}}, %{{.*}} {{.*}}epilogue = #sched<epilogue gelu>
// CHECK: sched.matmul %{{.*}}, %{{.*}} at %[[KEPT]] {{.*}}epilogue = #sched<epilogue gelu_gradient>
// CHECK: sched.matmul {{.*}}summed = #sched<summed rhs>
// CHECK: sched.step
// CHECK-NOT: nn.gelu_backward
// CHECK-NOT: nn.sum
module attributes {sched.device = #sched.device<cuda>} {
func.func @step(%x: tensor<6x16xf32>, %w: tensor<16x8xf32>, %v: tensor<8x16xf32>, %dy: tensor<6x16xf32>) -> (tensor<8x16xf32>, tensor<16xf32>, tensor<16x8xf32>) {
  %0:4, %e = sched.step on compute stage 0 strand 0 {
    %1 = sched.matmul %x, %w {batch = array<i64>, m = 6, n = 8, k = 16, strides_a = array<i64: 16, 1>, strides_b = array<i64: 8, 1>, strides_c = array<i64: 8, 1>} : (tensor<6x16xf32>, tensor<16x8xf32>) -> tensor<6x8xf32>
    %2 = nn.gelu tanh %1 : (tensor<6x8xf32>) -> tensor<6x8xf32>
    %3 = sched.matmul %2, %v {batch = array<i64>, m = 6, n = 16, k = 8, strides_a = array<i64: 8, 1>, strides_b = array<i64: 16, 1>, strides_c = array<i64: 16, 1>} : (tensor<6x8xf32>, tensor<8x16xf32>) -> tensor<6x16xf32>
    %4 = sched.matmul %dy, %v {batch = array<i64>, m = 6, n = 8, k = 16, strides_a = array<i64: 16, 1>, strides_b = array<i64: 1, 16>, strides_c = array<i64: 8, 1>} : (tensor<6x16xf32>, tensor<8x16xf32>) -> tensor<6x8xf32>
    %5 = sched.matmul %2, %3 {batch = array<i64>, m = 8, n = 16, k = 6, strides_a = array<i64: 1, 8>, strides_b = array<i64: 16, 1>, strides_c = array<i64: 16, 1>} : (tensor<6x8xf32>, tensor<6x16xf32>) -> tensor<8x16xf32>
    sched.yield %1, %3, %4, %5 : tensor<6x8xf32>, tensor<6x16xf32>, tensor<6x8xf32>, tensor<8x16xf32>
  } : tensor<6x8xf32>, tensor<6x16xf32>, tensor<6x8xf32>, tensor<8x16xf32>
  %6:2, %f = sched.step on compute stage 1 strand 0 {
    %7 = nn.sum %0#1 {dims = array<i64: 0>} : (tensor<6x16xf32>) -> tensor<16xf32>
    %8 = nn.gelu_backward tanh %0#2, %0#0 : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
    %9 = sched.matmul %x, %8 {batch = array<i64>, m = 16, n = 8, k = 6, strides_a = array<i64: 1, 16>, strides_b = array<i64: 8, 1>, strides_c = array<i64: 8, 1>} : (tensor<6x16xf32>, tensor<6x8xf32>) -> tensor<16x8xf32>
    sched.yield %7, %9 : tensor<16xf32>, tensor<16x8xf32>
  } : tensor<16xf32>, tensor<16x8xf32>
  return %0#3, %6#0, %6#1 : tensor<8x16xf32>, tensor<16xf32>, tensor<16x8xf32>
}
}

// -----

// Not those of a product that comes later.
// CHECK-LABEL: func.func @step
// CHECK-NOT: summed
// CHECK: nn.sum
// CHECK-NOT: summed
module attributes {sched.device = #sched.device<cuda>} {
func.func @step(%x: tensor<8x8xf32>) -> (tensor<8xf32>, tensor<8x8xf32>) {
  %0:2, %e = sched.step on compute stage 0 strand 0 {
    %1 = sched.matmul %x, %x {batch = array<i64>, m = 8, n = 8, k = 8, strides_a = array<i64: 8, 1>, strides_b = array<i64: 8, 1>, strides_c = array<i64: 8, 1>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %2 = nn.sum %1 {dims = array<i64: 0>} : (tensor<8x8xf32>) -> tensor<8xf32>
    sched.yield %1, %2 : tensor<8x8xf32>, tensor<8xf32>
  } : tensor<8x8xf32>, tensor<8xf32>
  %3, %f = sched.step on compute stage 1 strand 0 {
    %4 = nn.exp %0#1 : (tensor<8xf32>) -> tensor<8xf32>
    %5 = sched.matmul %x, %0#0 {batch = array<i64>, m = 8, n = 8, k = 8, strides_a = array<i64: 1, 8>, strides_b = array<i64: 8, 1>, strides_c = array<i64: 8, 1>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    sched.yield %5 : tensor<8x8xf32>
  } : tensor<8x8xf32>
  return %0#1, %3 : tensor<8xf32>, tensor<8x8xf32>
}
}
