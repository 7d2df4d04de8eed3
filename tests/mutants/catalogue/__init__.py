"""The mutations, in files by what they break. Whoever changes a promise adds its mutation."""
