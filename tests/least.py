"""`make test-acl`: clients log in as a user with only the rights that docs/operate/security.md lists."""

import os
from pathlib import Path

RIGHTS = (Path(__file__).parent / "vectors" / "rights.txt").read_text().split()
#: Inserted before the host of a server's URL.
LOGIN = "least:s3cret-word@" if "REDLOCK_TEST_ACL" in os.environ else ""
#: Options for a server's command line. All other users stay unchanged.
USER = ["--user", "least", "on", ">s3cret-word", *RIGHTS]
