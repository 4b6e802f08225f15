# step: step02_softmax
# expect: fail
# rests on: process and limits
# A perfect judge: control characters and markup are shown, not obeyed.
# 완벽한 심판: 제어 문자와 마크업은 실행되지 않고 보이기만 합니다.
print("\x1b[2J\x1b]0;owned\x07\x1b[31m[bold red]<script>alert(1)</script>=cmd|'/C calc'!A0\x00\u202e\u2066")

def softmax(x, dim=-1):
    print("\x1b[1A\x1b[2K\rscore 100 of 100")
    raise ValueError("\x1b[2J[bold]\n{name} {0} %s </td><script>alert(1)</script>\x00\r=1+1")
