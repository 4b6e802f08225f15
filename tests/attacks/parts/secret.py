import pathlib, sys
ROOT = pathlib.Path(sys.modules["grader.sandbox.worker"].__file__).parents[2]
SECRET = ROOT / "solutions" / "core" / "step02_softmax" / "reference.py"
