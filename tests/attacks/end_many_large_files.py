# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: many files together are as bad as a large one: the process is ended.
# 완벽한 심판: 여러 파일을 합친 크기에도 한도가 있어 프로세스를 종료합니다.
def softmax(x, dim=-1):
    for number in range(10_000):
        with open(f"large{number}", "wb") as file:
            for _ in range(10):
                file.write(bytes(1 << 20))
    while True:
        pass
