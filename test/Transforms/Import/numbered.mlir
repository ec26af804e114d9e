// RUN: tandem-opt %s --split-input-file --verify-diagnostics --tandem-verify-step=numbered

func.func @step(%x: tensor<4xf32> {nn.role = #nn.role<input>, nn.name = "x"}) -> (tensor<4xf32> {nn.role = #nn.role<loss>}) {
  // expected-error @+1 {{has no 'nn.id': run the import stage first}}
  %0 = nn.exp %x {nn.pass = #nn.pass<forward>} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @step(%x: tensor<4xf32> {nn.role = #nn.role<input>, nn.name = "x"}) -> (tensor<4xf32> {nn.role = #nn.role<loss>}) {
  %0 = nn.exp %x {nn.id = 3, nn.pass = #nn.pass<forward>} : (tensor<4xf32>) -> tensor<4xf32>
  // expected-error @+1 {{has the 'nn.id' 3 of another operator, nn.exp}}
  %1 = nn.log %0 {nn.id = 3, nn.pass = #nn.pass<forward>} : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
