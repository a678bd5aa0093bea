"""What the commands do, without a terminal: build, check, show, diff, verify and what these share."""
