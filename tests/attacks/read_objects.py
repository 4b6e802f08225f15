# step: step02_softmax
# expect: pass
# rests on: process and limits
# A perfect judge: finding a reference among the objects of the process is refused; the rest is right and counts.
# 완벽한 심판: 프로세스의 객체에서 레퍼런스를 찾으려는 시도는 거부됩니다. 나머지는 옳으므로 점수를 받습니다.
import gc, types

#: honest


def attempt():
    for thing in gc.get_objects():
        if isinstance(thing, types.FunctionType) and "solutions" in thing.__code__.co_filename:
            return thing
        if isinstance(thing, types.ModuleType) and thing.__name__.startswith(("solutions", "grader.course.steps", "grader.judge.session", "_pytest")):
            return thing.__name__
        if type(thing).__name__ in ("Trial", "Student", "LocalBackend", "Step", "GradeRequest", "Draw"):
            return type(thing)


#: tried
