// Two convolutions around a pooling, run by the interpreter and as a Program on one and on several ranks,
// with and without microbatches: the same parameters.

// RUN: mkdir -p %t && %python %S/conv_values.py %t/data.safetensors
// RUN: tandem-interpret %s --data %t/data.safetensors --steps 3 --save %t/expected.safetensors
// RUN: tandem-compile %s -o %t/one.tdm
// RUN: tandem-run %t/one.tdm --print | FileCheck %s --check-prefix=ONE
// RUN: tandem-run %t/one.tdm --data %t/data.safetensors --steps 3 --save %t/one.safetensors
// RUN: %python %S/compare.py %t/one.safetensors %t/expected.safetensors
// RUN: tandem-compile %s --mesh data=2,model=2 --micro 2 --search tandem --cluster %S/../Cost/Inputs/slow-cores.yaml -o %t/four.tdm
// RUN: tandem-run %t/four.tdm --data %t/data.safetensors --steps 3 --save %t/four.safetensors
// RUN: %python %S/compare.py %t/four.safetensors %t/expected.safetensors

// What a channel's positions are split by is refused by name, whoever asks.
// RUN: not tandem-compile %s --mesh data=2 --pin 'nn.conv#0:data=gather(2)' -o %t/x.tdm 2>&1 | FileCheck %s --check-prefix=HALO
// HALO: error: pin 'nn.conv#0': 'nn.conv#0' of type 'tensor<8x4x6xf32>' cannot be made as gather(2) on axis 'data'; splitting dimension 2 needs a halo, which no operator has; expected one of: full, gather(0), reduce, gather(1)

// ONE: conv 'conv' {{.*}} f32 stride [1] padding [1] dilation [1] input [8, 2, 6] {{.*}} weight [4, 2, 3] {{.*}} -> output [8, 4, 6]
// ONE: conv_input_grad 'conv_input_grad' {{.*}} workspace arena
// ONE: conv_weight_grad 'conv_weight_grad' {{.*}} -> weight [4, 2, 3]

module {
  func.func @step(%w1: tensor<4x2x3xf32> {nn.role = #nn.role<parameter>, nn.name = "w1"},
                  %w2: tensor<2x4x1xf32> {nn.role = #nn.role<parameter>, nn.name = "w2"},
                  %lr: tensor<f32> {nn.role = #nn.role<learning_rate>, nn.name = "0"},
                  %x: tensor<8x2x6xf32> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64})
      -> (tensor<f32> {nn.role = #nn.role<loss>, nn.name = "loss"},
          tensor<4x2x3xf32> {nn.role = #nn.role<parameter>, nn.name = "w1", nn.updates = 0 : i64},
          tensor<2x4x1xf32> {nn.role = #nn.role<parameter>, nn.name = "w2", nn.updates = 1 : i64}) {
    %h = nn.conv %x, %w1 {stride = array<i64: 1>, padding = array<i64: 1>, dilation = array<i64: 1>, nn.pass = #nn.pass<forward>} : (tensor<8x2x6xf32>, tensor<4x2x3xf32>) -> tensor<8x4x6xf32>
    %p, %i = nn.max_pool %h {kernel = array<i64: 2>, stride = array<i64: 2>, padding = array<i64: 0>, dilation = array<i64: 1>, nn.pass = #nn.pass<forward>} : (tensor<8x4x6xf32>) -> (tensor<8x4x3xf32>, tensor<8x4x3xi64>)
    %y = nn.conv %p, %w2 {stride = array<i64: 1>, padding = array<i64: 0>, dilation = array<i64: 1>, nn.pass = #nn.pass<forward>} : (tensor<8x4x3xf32>, tensor<2x4x1xf32>) -> tensor<8x2x3xf32>
    %0 = nn.mul %y, %y {nn.pass = #nn.pass<forward>} : (tensor<8x2x3xf32>, tensor<8x2x3xf32>) -> tensor<8x2x3xf32>
    %loss = nn.sum %0 {dims = array<i64: 0, 1, 2>, nn.pass = #nn.pass<forward>} : (tensor<8x2x3xf32>) -> tensor<f32>
    %two = nn.constant dense<2.0> : tensor<f32> {nn.pass = #nn.pass<backward>} -> tensor<f32>
    %dy = nn.mul %y, %two {nn.pass = #nn.pass<backward>} : (tensor<8x2x3xf32>, tensor<f32>) -> tensor<8x2x3xf32>
    %dw2 = nn.conv_weight_grad %p, %dy {stride = array<i64: 1>, padding = array<i64: 0>, dilation = array<i64: 1>, nn.pass = #nn.pass<backward>} : (tensor<8x4x3xf32>, tensor<8x2x3xf32>) -> tensor<2x4x1xf32>
    %dp = nn.conv_input_grad %dy, %w2 {stride = array<i64: 1>, padding = array<i64: 0>, dilation = array<i64: 1>, nn.pass = #nn.pass<backward>} : (tensor<8x2x3xf32>, tensor<2x4x1xf32>) -> tensor<8x4x3xf32>
    %dh = nn.scatter_add %dp, %i {dim = 2 : i64, nn.pass = #nn.pass<backward>} : (tensor<8x4x3xf32>, tensor<8x4x3xi64>) -> tensor<8x4x6xf32>
    %dw1 = nn.conv_weight_grad %x, %dh {stride = array<i64: 1>, padding = array<i64: 1>, dilation = array<i64: 1>, nn.pass = #nn.pass<backward>} : (tensor<8x2x6xf32>, tensor<8x4x6xf32>) -> tensor<4x2x3xf32>
    %1 = nn.mul %dw1, %lr {nn.pass = #nn.pass<update>} : (tensor<4x2x3xf32>, tensor<f32>) -> tensor<4x2x3xf32>
    %2 = nn.sub %w1, %1 {nn.pass = #nn.pass<update>} : (tensor<4x2x3xf32>, tensor<4x2x3xf32>) -> tensor<4x2x3xf32>
    %3 = nn.mul %dw2, %lr {nn.pass = #nn.pass<update>} : (tensor<2x4x1xf32>, tensor<f32>) -> tensor<2x4x1xf32>
    %4 = nn.sub %w2, %3 {nn.pass = #nn.pass<update>} : (tensor<2x4x1xf32>, tensor<2x4x1xf32>) -> tensor<2x4x1xf32>
    return %loss, %2, %4 : tensor<f32>, tensor<4x2x3xf32>, tensor<2x4x1xf32>
  }
}
