"""The version, for those below `latentia` itself: files and reports tell who wrote them."""

LIBRARY = "0.1.0"
