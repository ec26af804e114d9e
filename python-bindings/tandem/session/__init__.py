"""`tandem.compile` and the step with its values.

`Step` (step.py) delegates to these parts. A part uses those below it only.

    Runner          runner.py           trains and evaluates batches
    Reports         reports.py          plan, explanation, Program, timelines
    TrainState      train_state.py      the four parts that checkpoints and copies use
    Watching        watching.py         checks before each step
    ModelDict       model_dict.py       the model's state dict
    OptimizerDict   optimizer_dict.py   the optimizer's state dict
    Counting        counting.py         steps that each parameter has taken
    Values          values.py           values by key
    Programs        programs.py         Programs by the shapes of batches
"""
