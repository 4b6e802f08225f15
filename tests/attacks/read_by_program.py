# step: step02_softmax
# expect: pass
# rests on: process and limits
# A perfect judge: running a program that reads is refused; the rest is right and counts.
# 완벽한 심판: 파일을 읽는 프로그램을 실행하려는 시도는 거부됩니다. 나머지는 옳으므로 점수를 받습니다.
#: secret

#: honest


def attempt():
    import subprocess
    return subprocess.run(["/bin/cat", str(SECRET)], capture_output=True).stdout


#: tried
