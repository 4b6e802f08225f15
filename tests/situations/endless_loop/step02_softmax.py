def softmax(x, dim=-1):
    while True:
        x = x + 0.0
    return x
