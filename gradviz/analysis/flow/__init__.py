"""The gradient of every parameter, in one backward and over many steps."""
