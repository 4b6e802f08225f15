"""The course on one page: its server, what it shows, and the modules and the style sheet that run in the browser."""
