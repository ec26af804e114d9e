// RUN: tandem-opt %s --split-input-file --verify-diagnostics --tandem-import

// expected-error @+1 {{the module has no function @step, expected a training step}}
module {}

// -----

// expected-error @+1 {{argument 0 has no 'nn.role'}}
func.func @step(%x: tensor<4xf32> {nn.name = "x"}) { return }

// -----

// expected-error @+1 {{argument 0, a input, has no 'nn.name'}}
func.func @step(%x: tensor<4xf32> {nn.role = #nn.role<input>}) { return }

// -----

// expected-error @+1 {{argument 0 is a 'tensor<?xf32>', expected a tensor of static shape}}
func.func @step(%x: tensor<?xf32> {nn.role = #nn.role<input>, nn.name = "x"}) { return }

// -----

// expected-error @+1 {{result 0 has no 'nn.role'}}
func.func @step(%x: tensor<4xf32> {nn.role = #nn.role<input>, nn.name = "x"}) -> tensor<4xf32> { return %x : tensor<4xf32> }

// -----

// expected-error @+1 {{result 0, a parameter, has no 'nn.updates': the argument whose new value it is}}
func.func @step(%x: tensor<4xf32> {nn.role = #nn.role<input>, nn.name = "x"}) -> (tensor<4xf32> {nn.role = #nn.role<parameter>}) { return %x : tensor<4xf32> }

// -----

func.func @step(%x: tensor<4xf32> {nn.role = #nn.role<input>, nn.name = "x"}) -> (tensor<4xf32> {nn.role = #nn.role<loss>}) {
  // expected-error @+1 {{nn.exp has no 'nn.pass'}}
  %0 = nn.exp %x : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func private @other(tensor<4xf32>) -> tensor<4xf32>
func.func @step(%x: tensor<4xf32> {nn.role = #nn.role<input>, nn.name = "x"}) -> (tensor<4xf32> {nn.role = #nn.role<loss>}) {
  // expected-error @+1 {{operator 'func.call' in a training step, expected operators of nn}}
  %0 = func.call @other(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// expected-error @+1 {{argument 1 has the 'nn.of' "v", expected the name of a parameter}}
func.func @step(%w: tensor<8xf32> {nn.name = "w", nn.role = #nn.role<parameter>}, %s: tensor<8xf32> {nn.name = "momentum.w", nn.of = "v", nn.role = #nn.role<state>}) {
  return
}
