# step: step02_softmax
# expect: fail
# A perfect judge: many files together are as bad as a large one: the process is ended.
def softmax(x, dim=-1):
    for number in range(10_000):
        with open(f"large{number}", "wb") as file:
            for _ in range(10):
                file.write(bytes(1 << 20))
    while True:
        pass
