"""`make test-acl`: clients log in as a user who has no right but those that docs/security.md lists."""

import os
from pathlib import Path

RIGHTS = (Path(__file__).parent / "vectors" / "rights.txt").read_text().split()
#: Before the host of a server's URL.
LOGIN = "least:s3cret-word@" if "REDLOCK_TEST_ACL" in os.environ else ""
#: For a server's command line; everybody else is who they were.
USER = ["--user", "least", "on", ">s3cret-word", *RIGHTS]
