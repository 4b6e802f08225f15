# step: step02_softmax
# expect: pass
# rests on: process and limits
# A perfect judge: files in its own temporary folder work.
# 완벽한 심판: 자기 임시 폴더의 파일을 쓸 수 있습니다.
import os, pathlib, tempfile

import numpy as np
import torch

#: honest


def softmax(x, dim=-1):
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder) / "inner"
        place.mkdir()
        torch.save(torch.ones(3), place / "ones.pt")
        assert torch.load(place / "ones.pt").sum() == 3
        np.save(place / "ones.npy", np.ones(3))
        assert np.load(place / "ones.npy").sum() == 3
        (place / "a").rename(place / "b") if (place / "a").exists() else None
    with tempfile.NamedTemporaryFile("w+") as file:
        file.write("text")
        file.flush()
        assert open(file.name).read() == "text"
    pathlib.Path("notes.txt").write_text("mine")
    assert pathlib.Path.home() == pathlib.Path(os.getcwd())
    return honest(x, dim)
