"""Tries to send something to another machine, and to leave a process behind."""
import os
import socket

if os.fork() == 0:
    while True:
        pass
socket.create_connection(("192.0.2.1", 80))
