for CHANNEL in range(3, 64):
    try:
        if stat.S_ISSOCK(os.fstat(CHANNEL).st_mode):
            break
    except OSError:
        continue


def send(header, payload=b"", header_size=None, payload_size=None):
    sizes = struct.pack("<IQ", len(header) if header_size is None else header_size, len(payload) if payload_size is None else payload_size)
    data = sizes + header + payload
    while data:
        data = data[os.write(CHANNEL, data):]
