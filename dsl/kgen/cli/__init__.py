"""The command line. `main` imports only typer; each command's module imports the compiler when the command runs."""
