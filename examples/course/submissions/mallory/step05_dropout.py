"""Never comes back."""

while True:
    pass
