// RUN: tandem-opt %s --tandem-widen-gradients | FileCheck %s

#backward = #nn.pass<backward>
#update = #nn.pass<update>

// A weight's gradient, as autocast leaves it: the product is in f32 itself, and
// so is what is added to it.
// CHECK-LABEL: @product
// CHECK: %[[G:.*]] = nn.matmul %arg0, %arg1 {{.*}} : (tensor<8x4xbf16>, tensor<4x6xbf16>) -> tensor<8x6xf32>
// CHECK: %[[T:.*]] = nn.permute %[[G]] {{.*}} : (tensor<8x6xf32>) -> tensor<6x8xf32>
// CHECK: %[[H:.*]] = nn.matmul {{.*}} -> tensor<6x8xf32>
// CHECK: %[[S:.*]] = nn.add %[[T]], %[[H]] {{.*}} tensor<6x8xf32>
// CHECK-NOT: nn.convert
// CHECK: nn.sub %arg2, %[[S]]
func.func @product(%x: tensor<8x4xbf16>, %dy: tensor<4x6xbf16>, %w: tensor<6x8xf32>, %a: tensor<6x2xbf16>, %b: tensor<2x8xbf16>) -> tensor<6x8xf32> {
  %0 = nn.matmul %x, %dy {nn.pass = #backward} : (tensor<8x4xbf16>, tensor<4x6xbf16>) -> tensor<8x6xbf16>
  %1 = nn.permute %0 {nn.pass = #backward, permutation = array<i64: 1, 0>} : (tensor<8x6xbf16>) -> tensor<6x8xbf16>
  %2 = nn.matmul %a, %b {nn.pass = #backward} : (tensor<6x2xbf16>, tensor<2x8xbf16>) -> tensor<6x8xbf16>
  %3 = nn.add %1, %2 {nn.pass = #backward} : (tensor<6x8xbf16>, tensor<6x8xbf16>) -> tensor<6x8xbf16>
  %4 = nn.convert %3 {nn.pass = #backward} : (tensor<6x8xbf16>) -> tensor<6x8xf32>
  %5 = nn.sub %w, %4 {nn.pass = #update} : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
  return %5 : tensor<6x8xf32>
}

// A convolution gives the gradient of its weight as a product does, but neither its result nor that of its input.
// CHECK-LABEL: @convolution
// CHECK: nn.conv_weight_grad {{.*}} : (tensor<2x3x8xbf16>, tensor<2x4x6xbf16>) -> tensor<4x3x3xf32>
// CHECK: nn.conv_input_grad {{.*}} -> tensor<2x3x8xbf16>
// CHECK-NEXT: nn.convert
// CHECK-NOT: nn.convert
// CHECK: return
func.func @convolution(%x: tensor<2x3x8xbf16>, %dy: tensor<2x4x6xbf16>, %w: tensor<4x3x3xbf16>) -> (tensor<4x3x3xf32>, tensor<2x3x8xf32>) {
  %0 = nn.conv_weight_grad %x, %dy {stride = array<i64: 1>, padding = array<i64: 0>, dilation = array<i64: 1>, nn.pass = #backward} : (tensor<2x3x8xbf16>, tensor<2x4x6xbf16>) -> tensor<4x3x3xbf16>
  %1 = nn.convert %0 {nn.pass = #backward} : (tensor<4x3x3xbf16>) -> tensor<4x3x3xf32>
  %2 = nn.conv_input_grad %dy, %w {stride = array<i64: 1>, padding = array<i64: 0>, dilation = array<i64: 1>, nn.pass = #backward} : (tensor<2x4x6xbf16>, tensor<4x3x3xbf16>) -> tensor<2x3x8xbf16>
  %3 = nn.convert %2 {nn.pass = #backward} : (tensor<2x3x8xbf16>) -> tensor<2x3x8xf32>
  return %1, %3 : tensor<4x3x3xf32>, tensor<2x3x8xf32>
}

// A bias' gradient: what is summed is converted, not the sum.
// CHECK-LABEL: @sum
// CHECK: %[[W:.*]] = nn.convert %arg0 {nn.pass = #backward} : (tensor<4x8xbf16>) -> tensor<4x8xf32>
// CHECK: %[[S:.*]] = nn.sum %[[W]] {{.*}} -> tensor<8xf32>
// CHECK: %[[A:.*]] = nn.add %[[S]], %arg1
// CHECK: return %[[A]]
func.func @sum(%dy: tensor<4x8xbf16>, %other: tensor<8xf32>) -> tensor<8xf32> {
  %0 = nn.sum %dy {dims = array<i64: 0>, keepdim = false, nn.pass = #backward} : (tensor<4x8xbf16>) -> tensor<8xbf16>
  %1 = nn.convert %0 {nn.pass = #backward} : (tensor<8xbf16>) -> tensor<8xf32>
  %2 = nn.add %1, %other {nn.pass = #backward} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %2 : tensor<8xf32>
}

// Terms pass a factor. It is converted where it is used: others read it rounded.
// CHECK-LABEL: @scaled
// CHECK: %[[G:.*]] = nn.matmul {{.*}} -> tensor<4x4xf32>
// CHECK: %[[M:.*]] = nn.convert %arg1
// CHECK: nn.mul %[[G]], %[[M]] {{.*}} -> tensor<4x4xf32>
// CHECK-NOT: nn.convert
func.func @scaled(%x: tensor<4x4xbf16>, %mask: tensor<4x4xbf16>) -> tensor<4x4xf32> {
  %0 = nn.matmul %x, %x {nn.pass = #backward} : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xbf16>
  %1 = nn.mul %0, %mask {nn.pass = #backward} : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xbf16>
  %2 = nn.convert %1 {nn.pass = #backward} : (tensor<4x4xbf16>) -> tensor<4x4xf32>
  return %2 : tensor<4x4xf32>
}

// What stays as it is: what was rounded on the way, by a function that is not
// linear; a value of the forward pass; a product that is wanted rounded as
// well; and what is to be summed first.
// CHECK-LABEL: @stays
// CHECK: nn.matmul {{.*}} -> tensor<4x4xbf16>
// CHECK: nn.tanh {{.*}} -> tensor<4x4xbf16>
// CHECK: nn.convert
// CHECK: nn.matmul {{.*}} -> tensor<4x4xbf16>
// CHECK: nn.convert
// CHECK: nn.matmul {{.*}} -> tensor<4x4xbf16>
// CHECK: nn.convert
// CHECK: nn.matmul {{.*}} -> tensor<4x4xbf16>
// CHECK: nn.convert {{.*}}sums_first
func.func @stays(%x: tensor<4x4xbf16>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xbf16>, tensor<4x4xf32>) {
  %0 = nn.matmul %x, %x {nn.pass = #backward} : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xbf16>
  %1 = nn.tanh %0 {nn.pass = #backward} : (tensor<4x4xbf16>) -> tensor<4x4xbf16>
  %2 = nn.convert %1 {nn.pass = #backward} : (tensor<4x4xbf16>) -> tensor<4x4xf32>
  %3 = nn.matmul %x, %x {nn.pass = #nn.pass<forward>} : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xbf16>
  %4 = nn.convert %3 {nn.pass = #nn.pass<forward>} : (tensor<4x4xbf16>) -> tensor<4x4xf32>
  %5 = nn.matmul %x, %x {nn.pass = #backward} : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xbf16>
  %6 = nn.convert %5 {nn.pass = #backward} : (tensor<4x4xbf16>) -> tensor<4x4xf32>
  %7 = nn.matmul %x, %x {nn.pass = #backward} : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xbf16>
  %8 = nn.convert %7 {nn.pass = #backward, sums_first} : (tensor<4x4xbf16>) -> tensor<4x4xf32>
  return %2, %4, %6, %5, %8 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xbf16>, tensor<4x4xf32>
}
