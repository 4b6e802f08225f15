# step: step02_softmax
# expect: pass
# rests on: namespaces or landlock
# A perfect judge: listing the temporary folder is refused; the rest is right and counts.
# 완벽한 심판: 임시 폴더의 목록을 보려는 시도는 거부됩니다. 나머지는 옳으므로 점수를 받습니다.
import glob, os

#: honest


def attempt():
    # A folder above its own that shows its own shows the others' too.
    for place in ("/tmp", "/var/tmp", "..", *glob.glob("/tmp/attention-kit-workers-*")):
        try:
            found = [name for name in os.listdir(place) if not name.startswith("attention-kit-workers-")]
        except OSError:
            continue
        if found and place != ".." or os.path.basename(os.getcwd()) in found and os.path.realpath("..") != "/":
            return found


#: tried
