# step: step02_softmax
# expect: pass
# rests on: process and limits
# A perfect judge: importing the course is refused; the rest is right and counts.
# 완벽한 심판: 강좌 모듈을 import하려는 시도는 거부됩니다. 나머지는 옳으므로 점수를 받습니다.
#: secret

#: honest


def attempt():
    sys.path.insert(0, str(ROOT))
    from importlib.util import spec_from_file_location, module_from_spec
    spec = spec_from_file_location("steps", ROOT / "grader" / "course" / "steps.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.steps()


#: tried
