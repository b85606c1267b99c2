"""The long description: README.md as a page by itself, with words for links to files beside it, without its picture."""

import re
from pathlib import Path

from setuptools import setup

readme = re.sub(r"<!--.*?-->\n|!\[[^]]*\]\([^)]*\)\n\n\*[^*]*\*\n\n", "", Path(__file__).with_name("README.md").read_text("utf-8"))
alone = re.sub(r"\[([^]]+)\]\((?!https://)[^)]*\)", r"\1", readme)
setup(long_description=alone, long_description_content_type="text/markdown")
