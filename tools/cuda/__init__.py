"""What only a GPU can show, in one command: `make cuda`. On a CPU its parts run too, to test them."""
