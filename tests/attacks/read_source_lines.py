# step: step02_softmax
# expect: pass
# rests on: namespaces or landlock
# A perfect judge: asking for source lines is refused; the rest is right and counts.
# 완벽한 심판: 소스의 줄을 얻으려는 시도는 거부됩니다. 나머지는 옳으므로 점수를 받습니다.
#: secret

#: honest


def attempt():
    import importlib.util, inspect, linecache
    return linecache.getlines(str(SECRET)) or importlib.util.spec_from_file_location("r", SECRET).loader.get_source("r")


#: tried
