// RUN: tandem-opt %s --tandem-count-model-flops | FileCheck %s

// By hand, two for each multiply-add:
//   matmul of f32         2 * 4 * 8 * 16                        1024
//   causal attention      2 * 21 pairs * 8 heads * (8 + 8)      5376
//   attention's gradient  2 * 36 pairs * 8 heads * 4 * 8       18432, without the scores that it makes again
//   conv                  2 * 64 * 8 * 8 * 16 * 9            1179648
// Not counted: what is made again, an update, and what is no product.
// CHECK: module attributes {nn.model_flops = {bf16 = 1.024000e+03 : f64, f32 = 1.204480e+06 : f64}}
module attributes {nn.model_flops = {f64 = 1.0}} {
  func.func @step(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>, %u: tensor<4x8xbf16>, %v: tensor<8x16xbf16>, %q: tensor<2x4x6x8xf32>,
                  %p: tensor<6xi64>, %image: tensor<64x8x4x4xf32>, %k: tensor<8x8x3x3xf32>) -> tensor<4x16xf32> {
    %0 = nn.matmul %x, %w {nn.pass = #nn.pass<forward>} : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
    %1 = nn.matmul %x, %w {nn.again, nn.pass = #nn.pass<backward>} : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
    %2 = nn.matmul %x, %w {nn.pass = #nn.pass<update>} : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
    %3 = nn.matmul %u, %v {nn.pass = #nn.pass<backward>} : (tensor<4x8xbf16>, tensor<8x16xbf16>) -> tensor<4x16xbf16>
    %4:2 = nn.attention %q, %q, %q, %p {scale = 0.5 : f64, after = 0 : i64, nn.pass = #nn.pass<forward>} : (tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>, tensor<6xi64>) -> (tensor<2x4x6x8xf32>, tensor<2x4x6xf32>)
    %5:3 = nn.attention_backward %q, %q, %q, %q, %4#0, %4#1 {scale = 0.5 : f64, nn.pass = #nn.pass<backward>} : (tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>, tensor<2x4x6xf32>) -> (tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>)
    %6 = nn.conv %image, %k {stride = array<i64: 1, 1>, padding = array<i64: 1, 1>, dilation = array<i64: 1, 1>, nn.pass = #nn.pass<forward>} : (tensor<64x8x4x4xf32>, tensor<8x8x3x3xf32>) -> tensor<64x8x4x4xf32>
    %7 = nn.exp %0 {nn.pass = #nn.pass<forward>} : (tensor<4x16xf32>) -> tensor<4x16xf32>
    return %7 : tensor<4x16xf32>
  }
}
