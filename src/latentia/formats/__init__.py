"""Networks in the files and objects of other tools, read and written with their latents."""
