"""Whether the tests try everything: what `ci/test --all` adds to a usual run."""

import os

ALL = os.environ.get("GPULAYOUT_TEST_ALL") == "1"
