# step: step02_softmax
# expect: pass
# rests on: process and limits
# A perfect judge: numpy, random, einsum, meta tensors and the standard library work.
# 완벽한 심판: numpy, 난수, einsum, meta 텐서, 표준 라이브러리가 동작합니다.
import base64, collections, copy, csv, dataclasses, datetime, decimal, enum, fractions, functools, hashlib, inspect, io
import itertools, json, logging, math, operator, pathlib, pickle, pprint, random, re, statistics, string, sys, textwrap
import time, traceback, typing, unittest, uuid, warnings, zlib

import numpy as np
import torch
import torch.nn.functional as F
from torch.nn.attention import flex_attention


@dataclasses.dataclass
class Shape:
    rows: int = 2
    columns: list = dataclasses.field(default_factory=list)


#: honest


def softmax(x, dim=-1):
    assert np.random.default_rng(0).normal(size=3).shape == (3,)
    assert torch.from_numpy(np.linalg.inv(np.eye(2))).shape == (2, 2)
    assert random.random() < 1
    assert torch.einsum("ij,jk->ik", torch.ones(2, 3), torch.ones(3, 2)).sum() == 12
    assert (torch.ones(2, 3, device="meta") @ torch.ones(3, 2, device="meta")).shape == (2, 2)
    assert pickle.loads(pickle.dumps(Shape())) == Shape()
    assert copy.deepcopy(Shape()).rows == 2
    assert inspect.getsource(softmax).startswith("def softmax")
    assert uuid.uuid4() and hashlib.sha256(b"x").hexdigest() and datetime.datetime.now()
    warnings.warn("a warning")
    logging.getLogger("mine").warning("a log line")
    try:
        raise ValueError("mine")
    except ValueError:
        assert "mine" in traceback.format_exc()
    print("printed", x.shape, flush=True)
    time.sleep(0.001)
    return honest(x, dim)
