"""Checks data for zuul_return with Zuul's own validation of file comments: check_comments.py FILE."""
import json
import sys

import voluptuous
from zuul.lib import filecomments

with open(sys.argv[1], encoding="utf-8") as file:
    comments = json.load(file)["zuul"]["file_comments"]
filecomments.validate(comments)
lines = filecomments.extractLines(comments)
if len(lines) != sum(len(of_file) for of_file in comments.values()):
    sys.exit(f"Zuul finds {len(lines)} lines")

# The check can fail: one key that Zuul does not know makes all comments invalid.
next(iter(comments.values()))[0]["rule"] = "x"
try:
    filecomments.validate(comments)
except voluptuous.Error:
    print(f"check_comments.py: {len(lines)} comments are valid")
else:
    sys.exit("Zuul accepts an unknown key")
