from torch.utils.data import DataLoader, TensorDataset


def next_token_batches(token_ids, context_length, batch_size):
    count = (len(token_ids) - 1) // context_length
    inputs, targets = (token_ids[start : start + count * context_length].view(count, -1) for start in (0, 1))
    return DataLoader(TensorDataset(inputs, targets), batch_size, num_workers=2, persistent_workers=True, timeout=5)
